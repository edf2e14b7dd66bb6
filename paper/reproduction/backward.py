"""Do value and feed-forward weights of a Transformer learn as those of a GCN do (Section 4.2)?

A Transformer is trained, and at some of its steps its gradients and updates are laid beside those
of a GCN with the same weights: on the graph that attention draws at that moment, and on others.
"""

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fighter._typing import Float
from fighter.benchmark.runs import Environment, Record, Run
from fighter.data import Scaler
from fighter.data.splits import by_fraction
from fighter.errors import FighterError
from fighter.hops import adjacency
from fighter.nn import FlexibleGCN, TransformerEncoder
from fighter.nn.transformer import TransformerBlock

from ..theory.gradients import softmax_backward
from . import figures
from .forecasting import FRACTIONS, LOOKBACK, read
from .scale import Scale

TITLE = "Backward pass"
WORDS = """
A Transformer block as printed (one head, no norm or residual) is trained on Weather; at some of its
steps its gradients and updates are laid beside those of a GCN with the same weights. On the graph
that attention draws at that moment the gradients agree by construction; the rest is measured.
`fighter theory` has the identities.
"""
POINTS = 40  # steps that are looked at, evenly spread in log(step)
LAGS = 8  # of the fixed lag graph
PRINTED_WINDOWS = 4  # the printed formulas need an S × S softmax for each query unit
LEARNING_RATE = 1e-3


class Pass(NamedTuple):
    """One forward pass, with everything the measurements read."""

    X: Tensor  # [B, S, d]
    Q: Tensor
    K: Tensor
    A: Tensor  # [B, S, S]
    V: Tensor  # W_V W₁ [d, h]
    U: Tensor  # A X V [B, S, h]
    forecast: Tensor  # [B, H, N]


class Network(nn.Module):
    """One block as the paper prints it, σ(A X W_V W₁) W₂, over time steps.

    Before it an embedding with positions, after it linear maps to series and to the horizon. There
    is neither norm, residual nor bias, and one head, as in the paper's gradients. W_V W₁ is
    multiplied first, so that it has a gradient of its own.
    """

    def __init__(self, series: int, lookback: int, horizon: int, width: int):
        super().__init__()
        self.embed = nn.Linear(series, width)
        self.position = nn.Parameter(0.02 * torch.randn(lookback, width))
        self.encoder = TransformerEncoder([width, width, series], bias=False)
        self.over_time = nn.Linear(lookback, horizon)

    @property
    def block(self) -> TransformerBlock:
        """The only one."""
        return cast(TransformerBlock, self.encoder.layers[0])

    def forward(self, past: Float[Tensor, "batch lookback series"]) -> Pass:
        """Everything on the way to the forecast."""
        block = self.block
        X = self.embed(past) + self.position
        Q, K = block.query(X), block.key(X)
        A = adjacency(Q[:, None], K[:, None])[:, 0]
        V = self.product()
        U = A @ X @ V
        for part in (V, U):
            if part.requires_grad:
                part.retain_grad()
        return Pass(X, Q, K, A, V, U, self.read(block.ffn2(block.activation(U))))

    def product(self) -> Float[Tensor, "width hidden"]:
        """W_V W₁."""
        return (self.block.ffn1.weight @ self.block.value.weight).T

    def read(self, x: Tensor) -> Tensor:
        """What the block gives to the forecast ``[batch, horizon, series]``."""
        return self.over_time(self.encoder.final(x).transpose(1, 2)).transpose(1, 2)


def measure(
    values: Float[Tensor, "time series"],
    *,
    lookback: int = 96,
    horizon: int = 96,
    steps: int = 2000,
    seed: int = 0,
    device: str | torch.device = "cpu",
    width: int = 64,
    batch_size: int = 32,
) -> dict[str, Any]:
    """Train on random windows of ``values`` (standardised) by AdamW, in float64, and compare.

    A GCN here is σ(G X V) W₂ with the Transformer's own X, V = W_V W₁, W₂ and readout, on a graph G
    that is given. The result can be written as JSON:

    - ``steps``: the steps looked at, from 1; lists below have one number for each;
    - ``loss``: of that step's batch, before the step;
    - ``difference``: ``value`` (V) and ``output`` (W₂), ‖Transformer's gradient - GCN's‖ relative
      to the GCN's, G being the current graph: the paper's claim, 0 up to rounding;
    - ``cosine``: ``value`` and ``output``, the cosine of the same two gradients for each G:
      ``current``; ``initial``, as the untrained weights draw it for the same windows; ``mean`` of
      the current graphs over the batch; ``lag``, each step and the 7 before it alike;
    - ``update``: the cosine between the way W_V W₁ goes when W_V and W₁ make a step, and the way V
      would go as one parameter; for ``sgd`` from here, and for ``adamw`` as in this run, where
      V has its own moments of all gradients so far;
    - ``attention_share``: norm of the gradients of W_Q and W_K, of all parameters' gradients;
    - ``printed``: ``query`` and ``key``, the cosine between the paper's Eqs. 8 and 9 (σ' put in its
      place) and the exact gradient, on the first windows of the batch.
    """
    if len(values) < lookback + horizon or steps < 1:
        raise FighterError(
            f"values has {len(values)} steps, steps={steps}: needs at least "
            f"lookback + horizon = {lookback + horizon} and one step"
        )
    net, gcn = build(values.shape[1], lookback, horizon, width, seed)
    net, gcn = net.to(device), gcn.to(device)
    initial = deepcopy(net).requires_grad_(False)
    lag = lag_graph(lookback).to(net.position)
    merged = nn.Parameter(net.product().detach())
    optimiser, shadow = (
        torch.optim.AdamW(weights, lr=LEARNING_RATE) for weights in (net.parameters(), [merged])
    )
    logged = {*np.geomspace(1, steps, POINTS).round().astype(int).tolist()}
    batches = draw(values.to(net.position), lookback, horizon, batch_size, seed)
    rows = []
    for step in range(1, steps + 1):
        past, future = next(batches)
        found = net(past)
        loss = F.mse_loss(found.forecast, future)
        optimiser.zero_grad()
        loss.backward()
        merged.data, merged.grad = found.V.detach().clone(), found.V.grad
        row: dict[str, float] = {}
        if step in logged:
            A = found.A.detach()
            graphs = {"current": A, "initial": initial(past).A, "mean": A.mean(0), "lag": lag}
            row = {"step": step, "loss": loss.item(), "attention_share": _attention_share(net)}
            row |= _compare_gradients(net, gcn, found, graphs, future)
            row |= _compare_printed(found) | {"update.sgd": _compare_sgd(net, found)}
        optimiser.step()
        shadow.step()
        if step in logged:
            before = found.V.detach()
            row["update.adamw"] = _cosine(net.product() - before, merged - before)
            rows.append(row)
    return _gather(rows) | {
        "settings": {
            "lookback": lookback,
            "horizon": horizon,
            "series": values.shape[1],
            "steps": steps,
            "seed": seed,
            "width": width,
            "batch_size": batch_size,
            "optimiser": "AdamW",
            "learning_rate": LEARNING_RATE,
            "precision": "float64",
            "lags": LAGS,
        }
    }


def plan(scale: Scale, place: Environment, electricity: str | None = None) -> list[Run]:
    """One run on Weather."""
    del place, electricity
    settings = {
        "data": "weather",
        "horizon": 96,
        "steps": scale.backward_steps,
        "width": min(scale.width, 64),
        "rows": scale.rows,
        "seed": 0,
    }
    return [Run("backward", settings, {"data": "weather", "seed": 0})]


def perform(settings: Mapping[str, Any], place: Environment) -> dict[str, Any]:
    """Measure on the training rows."""
    values, _ = read(settings["data"], None, place.data_dir, clean=False)
    values = values[: settings["rows"]]
    values = values[by_fraction(len(values), FRACTIONS).train]
    chosen = {name: settings[name] for name in ("horizon", "steps", "width", "seed")}
    rows = torch.as_tensor(Scaler.fit(values).transform(values))
    return measure(rows, lookback=LOOKBACK, device=place.device, **chosen)


def section(rows: Sequence[Record], pictures: Path) -> str:
    """The figure."""
    figures.backward_figure(rows[0]["result"], pictures / "backward.png")
    return f"![Gradients beside a GCN's]({pictures.name}/backward.png)"


def build(
    series: int, lookback: int, horizon: int, width: int, seed: int
) -> tuple[Network, FlexibleGCN]:
    """The Transformer at its start, and a GCN (A¹, then A⁰) to lend its weights to; in float64."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = Network(series, lookback, horizon, width)
        return net.double(), FlexibleGCN([width] * 3, kappa=(2, 1)).double()


def draw(
    values: Tensor, lookback: int, horizon: int, batch_size: int, seed: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """Batches of random windows without end: past ``[B, L, N]`` and future ``[B, H, N]``."""
    generator = torch.Generator().manual_seed(seed)
    steps = torch.arange(lookback + horizon)
    while True:
        starts = torch.randint(len(values) - len(steps) + 1, (batch_size, 1), generator=generator)
        past, future = values[(starts + steps).to(values.device)].split([lookback, horizon], 1)
        yield past, future


def lag_graph(nodes: int, lags: int = LAGS) -> Float[Tensor, "nodes nodes"]:
    """Each node listens to itself and the ``lags - 1`` before it alike."""
    band = torch.ones(nodes, nodes, dtype=torch.float64).tril().triu(1 - lags)
    return band / band.sum(-1, keepdim=True)


def gcn_gradients(
    net: Network, gcn: FlexibleGCN, found: Pass, graph: Tensor, future: Tensor
) -> tuple[Tensor, Tensor]:
    """The gradients of V ``[d, h]`` and of W₂ᵀ in a GCN with the Transformer's weights."""
    first, second = gcn.values.parameters()
    V = found.V.detach()
    first.data = torch.cat([torch.zeros_like(V.T), V.T])  # no self term
    second.data = net.block.ffn2.weight.detach()
    loss = F.mse_loss(net.read(gcn(found.X.detach(), graph)), future)
    to_first, to_second = torch.autograd.grad(loss, (first, second))
    return to_first[V.shape[1] :].T, to_second


def printed_gradients(
    X: Float[Tensor, "batch nodes width"],
    Q: Float[Tensor, "batch nodes key"],
    K: Float[Tensor, "batch nodes key"],
    gains: Float[Tensor, "batch nodes nodes"],
    scale: float,
) -> tuple[Float[Tensor, "width key"], Float[Tensor, "width key"]]:
    """The gradients of W_Q and W_K by Eqs. 8 and 9 as printed, of a loss whose ∂L/∂A is ``gains``.

    The attention row is replaced by the softmax of one query unit's part of the logits, and both
    end in X_j, which belongs there for W_Q only.
    """
    q, k = Q.mT, K.mT  # [B, p, S]
    N = softmax_backward((scale * q[..., :, None] * k[..., None, :]).softmax(-1), gains[:, None])
    to_query, to_key = ((N @ other[..., None])[..., 0] for other in (k, q))  # ω [B, p, S]
    return scale * (to_query @ X).sum(0).T, scale * (to_key @ X).sum(0).T


def exact_gradients(
    X: Float[Tensor, "batch nodes width"],
    Q: Float[Tensor, "batch nodes key"],
    K: Float[Tensor, "batch nodes key"],
    gains: Float[Tensor, "batch nodes nodes"],
    scale: float,
) -> tuple[Float[Tensor, "width key"], Float[Tensor, "width key"]]:
    """The same two gradients as they are: τ Xᵀ N K and τ Xᵀ Nᵀ Q."""
    N = softmax_backward((scale * Q @ K.mT).softmax(-1), gains)
    return scale * (X.mT @ N @ K).sum(0), scale * (X.mT @ N.mT @ Q).sum(0)


def _compare_gradients(
    net: Network,
    gcn: FlexibleGCN,
    found: Pass,
    graphs: dict[str, Tensor],
    future: Tensor,
) -> dict[str, float]:
    row = {}
    own = {"value": _gradient(found.V), "output": _gradient(net.block.ffn2.weight)}
    for graph, given in graphs.items():
        theirs = gcn_gradients(net, gcn, found, given, future)
        for (name, mine), other in zip(own.items(), theirs, strict=True):
            row[f"cosine.{name}.{graph}"] = _cosine(mine, other)
            if graph == "current":
                row[f"difference.{name}"] = float((mine - other).norm() / other.norm())
    return row


def _compare_printed(found: Pass) -> dict[str, float]:
    parts = (found.X, found.Q, found.K, _gradient(found.U))
    X, Q, K, dU = (part[:PRINTED_WINDOWS].detach() for part in parts)
    gains, scale = dU @ (X @ found.V.detach()).mT, Q.shape[-1] ** -0.5
    pairs = zip(
        ("query", "key"),
        printed_gradients(X, Q, K, gains, scale),
        exact_gradients(X, Q, K, gains, scale),
        strict=True,
    )
    return {f"printed.{name}": _cosine(printed, exact) for name, printed, exact in pairs}


def _compare_sgd(net: Network, found: Pass) -> float:
    """Where W_V W₁ goes when both factors take a step of plain descent, against V's own way."""
    value, ffn1 = (
        weight - LEARNING_RATE * _gradient(weight)
        for weight in (net.block.value.weight, net.block.ffn1.weight)
    )
    return _cosine((ffn1 @ value).T - found.V, -_gradient(found.V))


def _attention_share(net: Network) -> float:
    def norm(*modules: nn.Module) -> Tensor:
        return torch.cat([_gradient(p).flatten() for m in modules for p in m.parameters()]).norm()

    return float(norm(net.block.query, net.block.key) / norm(net))


def _gradient(x: Tensor) -> Tensor:
    return cast(Tensor, x.grad)


def _cosine(a: Tensor, b: Tensor) -> float:
    return F.cosine_similarity(a.flatten(), b.flatten(), dim=0, eps=1e-30).item()


def _gather(rows: list[dict[str, float]]) -> dict[str, Any]:
    """One list per name; a dot in a name is a step down."""
    result: dict[str, Any] = {"steps": [row["step"] for row in rows]}
    for name in rows[0]:
        if name != "step":
            *path, last = name.split(".")
            place = result
            for part in path:
                place = place.setdefault(part, {})
            place[last] = [row[name] for row in rows]
    return result
