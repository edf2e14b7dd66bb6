"""Compare how a Transformer's value and feed-forward weights learn with those of a GCN.

Section 4.2 of the paper says that they learn alike. Here a Transformer is trained, and at some of
its steps its gradients and updates are compared with those of a GCN that has the same weights, on
the graph that attention draws at that step and on others.
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
from .forecasting import FRACTIONS, LOOKBACK, read_values
from .scale import Scale

TITLE = "Backward pass"
WORDS = """
A Transformer block as printed (one head, no norm or residual) is trained on Weather. At some of its
steps its gradients and updates are compared with those of a GCN that has the same weights. On the
graph that attention draws at that step the gradients agree by construction; everything else is
measured. `python -m paper theory` checks the identities.
"""
POINTS = 40  # steps that are measured, evenly spread in log(step)
LAGS = 8  # number of steps that a node of the fixed lag graph sees
PRINTED_WINDOWS = 4  # the printed formulas need an S × S softmax for each query unit
LEARNING_RATE = 1e-3


class Pass(NamedTuple):
    """One forward pass, with everything that the measurements need."""

    X: Tensor  # [B, S, d]
    Q: Tensor
    K: Tensor
    A: Tensor  # [B, S, S]
    V: Tensor  # W_V W₁ [d, h]
    U: Tensor  # A X V [B, S, h]
    forecast: Tensor  # [B, H, N]


class Network(nn.Module):
    """One block as the paper prints it, σ(A X W_V W₁) W₂, over time steps.

    An embedding with positions comes before the block, linear maps to the series and to the horizon
    come after it. The block has one head and neither norm, residual nor bias, as in the paper's
    gradients. W_V W₁ is multiplied first, so that the product has a gradient of its own.
    """

    def __init__(self, series: int, lookback: int, horizon: int, width: int):
        super().__init__()
        self.embed = nn.Linear(series, width)
        self.position = nn.Parameter(0.02 * torch.randn(lookback, width))
        self.encoder = TransformerEncoder([width, width, series], bias=False)
        self.over_time = nn.Linear(lookback, horizon)

    @property
    def block(self) -> TransformerBlock:
        """The only block."""
        return cast(TransformerBlock, self.encoder.layers[0])

    def forward(self, past: Float[Tensor, "batch lookback series"]) -> Pass:
        """Return everything on the way to the forecast."""
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
        """Return W_V W₁."""
        return (self.block.ffn1.weight @ self.block.value.weight).T

    def read(self, x: Tensor) -> Tensor:
        """Map the block's output to the forecast ``[batch, horizon, series]``."""
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
    """Train a Transformer with AdamW in float64, and compare it with a GCN on the way.

    The GCN is σ(G X V) W₂ on a given graph G, with the Transformer's own X, V = W_V W₁, W₂ and
    readout. The result is ready for JSON:

    - ``steps``: the measured steps, from 1; every list below has one number for each;
    - ``loss``: the loss of that step's batch, before the step;
    - ``difference`` of ``value`` (V) and ``output`` (W₂): the norm of the Transformer's gradient
      minus the GCN's, over the GCN's, on the current graph; the paper claims that it is 0;
    - ``cosine`` of ``value`` and ``output``: the cosine of the same two gradients for each G, which
      is the ``current`` graph; the ``initial`` one, drawn by the untrained weights for the same
      windows; the ``mean`` of the current graphs over the batch; or ``lag``, a fixed graph in which
      each step sees itself and the 7 before it with equal weights;
    - ``update``: the cosine between the step of W_V W₁ when W_V and W₁ are updated, and the step of
      V if it were one parameter; for ``sgd``, and for ``adamw`` as in this run, where V has its own
      moments of all gradients so far;
    - ``attention_share``: the norm of the gradients of W_Q and W_K over that of all gradients;
    - ``printed`` of ``query`` and ``key``: the cosine between the paper's Eqs. 8 and 9 (with σ' in
      its right place) and the exact gradient, on the first windows of the batch.

    Args:
        values: standardised rows, from which windows are drawn at random.
        lookback: steps of the past (default: 96).
        horizon: steps to forecast (default: 96).
        steps: steps of training (default: 2000).
        seed: seed of the weights and windows (default: 0).
        device: where to run (default: "cpu").
        width: width of the block (default: 64).
        batch_size: windows per step (default: 32).
    """
    if len(values) < lookback + horizon:
        raise FighterError(
            f"has {len(values)} rows, but a window needs {lookback + horizon}", argument="values"
        )
    if steps < 1:
        raise FighterError("needs at least 1", argument="steps", value=steps)
    net, gcn = build_networks(values.shape[1], lookback, horizon, width, seed)
    net, gcn = net.to(device), gcn.to(device)
    initial = deepcopy(net).requires_grad_(False)
    lag = lag_graph(lookback).to(net.position)
    merged = nn.Parameter(net.product().detach())
    optimiser, shadow = (
        torch.optim.AdamW(weights, lr=LEARNING_RATE) for weights in (net.parameters(), [merged])
    )
    logged = {*np.geomspace(1, steps, POINTS).round().astype(int).tolist()}
    batches = draw_windows(values.to(net.position), lookback, horizon, batch_size, seed)
    rows = []
    for step in range(1, steps + 1):
        past, future = next(batches)
        forward = net(past)
        loss = F.mse_loss(forward.forecast, future)
        optimiser.zero_grad()
        loss.backward()
        merged.data, merged.grad = forward.V.detach().clone(), forward.V.grad
        row: dict[str, float] = {}
        if step in logged:
            A = forward.A.detach()
            graphs = {"current": A, "initial": initial(past).A, "mean": A.mean(0), "lag": lag}
            row = {"step": step, "loss": loss.item(), "attention_share": _attention_share(net)}
            row |= _compare_gradients(net, gcn, forward, graphs, future)
            row |= _compare_printed(forward) | {"update.sgd": _compare_sgd(net, forward)}
        optimiser.step()
        shadow.step()
        if step in logged:
            before = forward.V.detach()
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


def plan(scale: Scale, environment: Environment, electricity: str | None = None) -> list[Run]:
    """Return one run on Weather."""
    del environment, electricity
    settings = {
        "data": "weather",
        "horizon": 96,
        "steps": scale.backward_steps,
        "width": min(scale.width, 64),
        "rows": scale.rows,
        "seed": 0,
    }
    return [Run(__name__, settings, {"data": "weather", "seed": 0})]


def perform(settings: Mapping[str, Any], environment: Environment) -> dict[str, Any]:
    """Measure on the training rows."""
    values, _ = read_values(settings["data"], None, environment.data_dir, clean=False)
    values = values[: settings["rows"]]
    values = values[by_fraction(len(values), FRACTIONS).train]
    chosen = {name: settings[name] for name in ("horizon", "steps", "width", "seed")}
    rows = torch.as_tensor(Scaler.fit(values).transform(values))
    return measure(rows, lookback=LOOKBACK, device=environment.device, **chosen)


def section(rows: Sequence[Record], pictures: Path) -> str:
    """Draw the figure."""
    figures.backward_figure(rows[0]["result"], pictures / "backward.png")
    return f"![Gradients beside a GCN's]({pictures.name}/backward.png)"


def build_networks(
    series: int, lookback: int, horizon: int, width: int, seed: int
) -> tuple[Network, FlexibleGCN]:
    """Build an untrained Transformer and a GCN (A¹, then A⁰) that will borrow its weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = Network(series, lookback, horizon, width)
        return net.double(), FlexibleGCN([width] * 3, kappa=(2, 1)).double()


def draw_windows(
    values: Tensor, lookback: int, horizon: int, batch_size: int, seed: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield batches of random windows without end: past ``[B, L, N]`` and future ``[B, H, N]``."""
    generator = torch.Generator().manual_seed(seed)
    steps = torch.arange(lookback + horizon)
    while True:
        starts = torch.randint(len(values) - len(steps) + 1, (batch_size, 1), generator=generator)
        past, future = values[(starts + steps).to(values.device)].split([lookback, horizon], 1)
        yield past, future


def lag_graph(nodes: int, lags: int = LAGS) -> Float[Tensor, "nodes nodes"]:
    """Return the graph in which a node sees itself and the ``lags - 1`` before it equally."""
    band = torch.ones(nodes, nodes, dtype=torch.float64).tril().triu(1 - lags)
    return band / band.sum(-1, keepdim=True)


def gcn_gradients(
    net: Network, gcn: FlexibleGCN, forward: Pass, graph: Tensor, future: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the gradients of V ``[d, h]`` and of W₂ᵀ in a GCN with the Transformer's weights."""
    first, second = gcn.values.parameters()
    V = forward.V.detach()
    first.data = torch.cat([torch.zeros_like(V.T), V.T])  # no self term
    second.data = net.block.ffn2.weight.detach()
    loss = F.mse_loss(net.read(gcn(forward.X.detach(), graph)), future)
    to_first, to_second = torch.autograd.grad(loss, (first, second))
    return to_first[V.shape[1] :].T, to_second


class Attention(NamedTuple):
    """The inputs of attention, and ``gains`` = ∂L/∂A of a loss."""

    X: Float[Tensor, "batch nodes width"]
    Q: Float[Tensor, "batch nodes key"]
    K: Float[Tensor, "batch nodes key"]
    gains: Float[Tensor, "batch nodes nodes"]
    scale: float


QueryAndKey = tuple[Float[Tensor, "width key"], Float[Tensor, "width key"]]


def printed_gradients(at: Attention) -> QueryAndKey:
    """Return the gradients of W_Q and W_K by Eqs. 8 and 9 as printed.

    They replace the attention row by the softmax of one query unit's part of the logits, and both
    end in X_j, which is right for W_Q only.
    """
    q, k = at.Q.mT, at.K.mT  # [B, p, S]
    units = (at.scale * q[..., :, None] * k[..., None, :]).softmax(-1)
    N = softmax_backward(units, at.gains[:, None])
    to_query, to_key = ((N @ other[..., None])[..., 0] for other in (k, q))  # ω [B, p, S]
    return at.scale * (to_query @ at.X).sum(0).T, at.scale * (to_key @ at.X).sum(0).T


def exact_gradients(at: Attention) -> QueryAndKey:
    """Return the exact gradients of W_Q and W_K: τ Xᵀ N K and τ Xᵀ Nᵀ Q."""
    N = softmax_backward((at.scale * at.Q @ at.K.mT).softmax(-1), at.gains)
    X = at.X.mT
    return at.scale * (X @ N @ at.K).sum(0), at.scale * (X @ N.mT @ at.Q).sum(0)


def _compare_gradients(
    net: Network,
    gcn: FlexibleGCN,
    forward: Pass,
    graphs: dict[str, Tensor],
    future: Tensor,
) -> dict[str, float]:
    row = {}
    own = {"value": _gradient(forward.V), "output": _gradient(net.block.ffn2.weight)}
    for graph, given in graphs.items():
        theirs = gcn_gradients(net, gcn, forward, given, future)
        for (name, mine), other in zip(own.items(), theirs, strict=True):
            row[f"cosine.{name}.{graph}"] = _cosine(mine, other)
            if graph == "current":
                row[f"difference.{name}"] = float((mine - other).norm() / other.norm())
    return row


def _compare_printed(forward: Pass) -> dict[str, float]:
    parts = (forward.X, forward.Q, forward.K, _gradient(forward.U))
    X, Q, K, dU = (part[:PRINTED_WINDOWS].detach() for part in parts)
    at = Attention(X, Q, K, dU @ (X @ forward.V.detach()).mT, Q.shape[-1] ** -0.5)
    pairs = zip(("query", "key"), printed_gradients(at), exact_gradients(at), strict=True)
    return {f"printed.{name}": _cosine(printed, exact) for name, printed, exact in pairs}


def _compare_sgd(net: Network, forward: Pass) -> float:
    """Compare the step of W_V W₁ when both factors descend with the step of V by itself."""
    value, ffn1 = (
        weight - LEARNING_RATE * _gradient(weight)
        for weight in (net.block.value.weight, net.block.ffn1.weight)
    )
    return _cosine((ffn1 @ value).T - forward.V, -_gradient(forward.V))


def _attention_share(net: Network) -> float:
    def norm(*modules: nn.Module) -> Tensor:
        return torch.cat([_gradient(p).flatten() for m in modules for p in m.parameters()]).norm()

    return float(norm(net.block.query, net.block.key) / norm(net))


def _gradient(x: Tensor) -> Tensor:
    return cast(Tensor, x.grad)


def _cosine(a: Tensor, b: Tensor) -> float:
    return F.cosine_similarity(a.flatten(), b.flatten(), dim=0, eps=1e-30).item()


def _gather(rows: list[dict[str, float]]) -> dict[str, Any]:
    """Collect one list per name; a dot in a name opens a nested dictionary."""
    result: dict[str, Any] = {"steps": [row["step"] for row in rows]}
    for name in rows[0]:
        if name != "step":
            *path, last = name.split(".")
            inner = result
            for part in path:
                inner = inner.setdefault(part, {})
            inner[last] = [row[name] for row in rows]
    return result
