"""Remove a part of a Fighter network, or replace it, to measure what the part is worth.

Each of :data:`CHANGES` takes a network that was just built, before its core is prepared and before
it is moved to a device, and returns the one to train; the weights that it shares with the unchanged
network are the same. A change that would have no effect raises an error, so that no row of a table
stands for something that was not done.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fighter.errors import FighterError
from fighter.explain.layer import known_layers
from fighter.hops import Backend, Hop
from fighter.models import Fighter, ForecastNet, Task
from fighter.models.embedding import TimeEmbedding, window_statistics
from fighter.models.fighter import FighterNet
from fighter.nn import Adjacency, FighterLayer
from fighter.nn.members import linear

Change = Callable[[ForecastNet], ForecastNet]
M = TypeVar("M", bound=nn.Module)
HOP_DROPOUT = 0.1


# ---- changes of the frame ------------------------------------------------------------------------


class LastValue(ForecastNet):
    """Normalises by the last observed value: z = (x - last) / std; last is 0 without any."""

    def statistics(self, past: Tensor, observed: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the last value, and the standard deviation around the mean."""
        _, std = window_statistics(past, observed)
        if observed is None:
            return past[:, -1:], std
        place = torch.arange(past.shape[1], device=past.device)[:, None]
        place = torch.where(observed, place, -1).amax(1, keepdim=True)  # [B, 1, N]
        return torch.where(place >= 0, past.gather(1, place.clamp(min=0)), 0.0), std


def no_normalisation(network: ForecastNet) -> ForecastNet:
    """Leave windows as they are, without affine map and reversion, which need a level."""
    by_mean = network.normalise and not isinstance(network, LastValue)
    _check(network, by_mean, "its windows are not normalised by their mean anyway")
    network.normalise, network.affine, network.reversion = False, None, None
    return network


def no_affine(network: ForecastNet) -> ForecastNet:
    """Remove the learned factor and shift of each series."""
    _check(network, network.affine is not None, "it has no factor and shift per series anyway")
    network.affine = None
    return network


def cycle_moved(network: ForecastNet) -> ForecastNet:
    """Move the cycle to the other side of the normalisation."""
    _check(network, network.cycle is not None, "it has no cycle: needs a period")
    network.cycle_before_norm = not network.cycle_before_norm
    return network


def last_value(network: ForecastNet) -> ForecastNet:
    """Normalise a window by its last value instead of its mean."""
    _check(network, network.normalise, "its windows are not normalised")
    return _become(network, LastValue)


# ---- changes of the core -------------------------------------------------------------------------


class Unrotated(FighterNet):
    """A Fighter whose time bases stay the identity."""

    def prepare(self, correlation: Tensor) -> None:
        """Ignore the correlation that the bases are made from."""
        del correlation


class TimeGraphFirst(TimeEmbedding):
    """Embeds a series and adds the output of a graph over its own patches.

    The graph is a Fighter over patches whose horizon is the width of the embedding.
    """

    time: FighterNet

    def forward(self, x: Tensor) -> Tensor:
        """Map ``[batch, series, lookback]`` to ``[batch, series, width]``."""
        return super().forward(x) + self.time(x.transpose(1, 2))[..., 0].transpose(1, 2)


def no_basis(network: ForecastNet) -> ForecastNet:
    """Remove the time bases."""
    core, _ = _over_series(network)
    _become(core, Unrotated)
    return network


def linear_head(network: ForecastNet) -> ForecastNet:
    """Replace the head (two maps with a GELU between) by one linear map."""
    core, embed = _over_series(network)
    steps = core.members * core.task.horizon * core.task.outputs
    core.register_module("head", linear(len(embed.bias), steps, core.members))
    return network


def time_graph_first(network: ForecastNet) -> ForecastNet:
    """Put a graph over patches (16, stride 8) of each series before the graph over series.

    The new graph has one layer with κ = 2, as many heads as the other, and 16 columns per head;
    all members share it.
    """
    core, embed = _over_series(network)
    heads = known_layers(core.encoder)[0].heads
    config = Fighter(
        nodes="patch",
        kappa=2,
        adjacency="cosine",
        heads=heads,
        width=16 * heads,
        layers=1,
        dropout=core.dropout.p,
        patch=16,
        stride=8,
    )
    task = Task(core.task.lookback, len(embed.bias), core.task.series)
    _become(embed, TimeGraphFirst).time = FighterNet(task, config)
    return network


# ---- changes of the layers -----------------------------------------------------------------------


class ChangedAdjacency(Adjacency, ABC):
    """An adjacency A' made from the graph A of another one."""

    def __init__(self, inner: Adjacency):
        super().__init__()
        self.inner, self.heads = inner, inner.heads

    @abstractmethod
    def change(self, b: Tensor, moved: Tensor) -> Tensor:
        """Return A'b from b and Ab ``[..., nodes, width]``."""

    def hop(  # noqa: D102
        self,
        x: Tensor,
        *,
        width: int,
        mask: Tensor | None = None,
        causal: bool = False,
        backend: Backend = "auto",
    ) -> Hop:
        _check_unmasked(mask, causal)
        hop = self.inner.hop(x, width=width, backend=backend)
        return lambda b: self.change(b, hop(b))

    def graph(self, x: Tensor, *, mask: Tensor | None = None, causal: bool = False) -> Tensor:  # noqa: D102
        _check_unmasked(mask, causal)
        a = self.inner.graph(x)
        return self.change(torch.eye(a.shape[-1], dtype=a.dtype, device=a.device), a)


class LazyAdjacency(ChangedAdjacency):
    """The graph (I + A) / 2: a walk that stays in place half of the time and mixes later."""

    def change(self, b: Tensor, moved: Tensor) -> Tensor:  # noqa: D102
        return (b + moved) / 2


class CentredAdjacency(ChangedAdjacency):
    """The graph A - 11ᵀA/S, without the part that sends the same to every node.

    Aⁱ tends to that part with growing i. The rows of this graph add up to 0.
    """

    def change(self, b: Tensor, moved: Tensor) -> Tensor:  # noqa: D102
        del b
        return moved - moved.mean(-2, keepdim=True)


class ScalarValues(nn.Module):
    """Values [T W₀ | T W₁ | …] with Wᵢ = wᵢ W: one matrix, and a number per hop and head.

    It starts at w₀ = w₁ = 1, which is attention plus a self term, and at 1/κ for every further hop.
    All hops take part from the start, as hops with matrices of their own do; because they share W
    they point the same way, and 1/κ keeps their sum below that of one hop.
    """

    def __init__(self, layer: FighterLayer):
        super().__init__()
        kappa, self.heads = len(layer.powers), layer.heads
        self.shared = nn.Linear(layer.width, layer.heads * layer.head_width, bias=False)
        start = torch.tensor([1.0 if power < 2 else 1 / kappa for power in layer.powers])
        self.scalars = nn.Parameter(start[:, None, None].repeat(1, layer.heads, 1))  # [κ, heads, 1]

    @property
    def weight(self) -> Tensor:
        """The weight of an equal layer with full matrices, ``[κ · value width, width]``."""
        rows = self.shared.weight.unflatten(0, (self.heads, -1))
        return (self.scalars[..., None] * rows).flatten(0, 2)

    def forward(self, t: Tensor) -> Tensor:
        """Map ``[batch, nodes, width]`` to ``[batch, nodes, κ · value width]``."""
        v = self.shared(t).unflatten(-1, (1, self.heads, -1))
        return (self.scalars.to(v.dtype) * v).flatten(2)


class DroppedValues(nn.Module):
    """Values [T W₀ | T W₁ | …] in which training sets some Wᵢ, i ≥ 1, to 0 for a whole window.

    Where nodes are patches, a window is that of one series.
    """

    def __init__(self, layer: FighterLayer, p: float = HOP_DROPOUT):
        super().__init__()
        self.values, self.powers, self.p = layer.values, layer.powers, p

    @property
    def weight(self) -> Tensor:
        """The weight of the layer, ``[κ · value width, width]``."""
        return self.values.weight

    def forward(self, t: Tensor) -> Tensor:
        """Map ``[batch, nodes, width]`` to ``[batch, nodes, κ · value width]``."""
        if not self.training:
            return self.values(t)
        blocks = self.values(t).unflatten(-1, (len(self.powers), -1))
        kept = F.dropout(blocks.new_ones(len(t), 1, len(self.powers), 1), self.p)
        if self.powers[0] == 0:
            kept = torch.cat([torch.ones_like(kept[:, :, :1]), kept[:, :, 1:]], 2)
        return (kept * blocks).flatten(2)


class FedLayer(nn.Module):
    """A layer with output Y followed by a feed-forward network: Y + W₂ gelu(W₁ norm(Y))."""

    def __init__(self, layer: FighterLayer):
        super().__init__()
        width = layer.width
        self.layer = layer
        self.feed = nn.Sequential(
            nn.LayerNorm(width),
            nn.Linear(width, 2 * width),
            nn.GELU(),
            nn.Linear(2 * width, width),
            nn.Dropout(layer.dropout.p),
        )

    def forward(self, x: Tensor, mask: Tensor | None = None, causal: bool = False) -> Tensor:
        """Map ``[batch, nodes, width]`` to the same shape."""
        y = self.layer(x, mask, causal)
        return y + self.feed(y)

    def graph(self, x: Tensor, **options: Any) -> Tensor:
        """Return the graph of the layer."""
        return self.layer.graph(x, **options)


def lazy_hops(network: ForecastNet) -> ForecastNet:
    """Replace every A by (I + A)/2."""
    return _with_graphs(network, LazyAdjacency)


def centred_hops(network: ForecastNet) -> ForecastNet:
    """Subtract the mean row from every A."""
    return _with_graphs(network, CentredAdjacency)


def _with_graphs(network: ForecastNet, kind: type[ChangedAdjacency]) -> ForecastNet:
    for layer in _layers_with_hops(network):
        layer.adjacency = kind(cast(Adjacency, layer.adjacency))
    return network


def scalar_hops(network: ForecastNet) -> ForecastNet:
    """Replace the matrix per hop by a number per hop and head."""
    _check_one(network)
    for layer in _layers_with_hops(network):
        _check(network, type(layer.values) is nn.Linear, "apply this change before hop dropout")
        layer.register_module("values", ScalarValues(layer))
    return network


def hop_dropout(network: ForecastNet) -> ForecastNet:
    """Drop whole hops in training."""
    _check_one(network)
    for layer in _layers_with_hops(network):
        layer.register_module("values", DroppedValues(layer))
    return network


def feed_forward(network: ForecastNet) -> ForecastNet:
    """Add a feed-forward network after each layer, as in a Transformer."""
    _check_one(network)
    layers = _core(network).encoder.layers
    for i, layer in enumerate(layers):
        _check(network, isinstance(layer, FighterLayer), "it has feed-forward networks already")
        layers[i] = FedLayer(cast(FighterLayer, layer))
    return network


CHANGES: Mapping[str, Change] = MappingProxyType(
    {
        "no basis": no_basis,
        "no normalisation": no_normalisation,
        "no affine": no_affine,
        "linear head": linear_head,
        "scalar hops": scalar_hops,
        "lazy hops": lazy_hops,
        "centred hops": centred_hops,
        "hop dropout": hop_dropout,
        "feed-forward": feed_forward,
        "time graph first": time_graph_first,
        "cycle moved": cycle_moved,
        "last value": last_value,
    }
)


# ---- checks --------------------------------------------------------------------------------------


def _check(network: ForecastNet, possible: bool, reason: str) -> None:
    if not possible:
        core = network.core
        nodes = f" over {core.nodes}" if core.nodes else ""
        raise FighterError(f"{type(core).__name__}{nodes} cannot be changed this way: {reason}")


def _core(network: ForecastNet) -> FighterNet:
    _check(network, isinstance(network.core, FighterNet), "needs the model fighter")
    return cast(FighterNet, network.core)


def _over_series(network: ForecastNet) -> tuple[FighterNet, TimeEmbedding]:
    """Return the core, and its embedding of a series."""
    core = _core(network)
    _check(network, core.nodes == "series", "needs series as nodes")
    return core, cast(TimeEmbedding, core.embed)


def _layers_with_hops(network: ForecastNet) -> list[FighterLayer]:
    layers = known_layers(_core(network).encoder)
    hops = bool(layers) and layers[0].adjacency is not None
    _check(network, hops, "it has no hops: needs a κ of at least 2 and a layer")
    return layers


def _check_one(network: ForecastNet) -> None:
    _check(network, network.core.members == 1, "needs a single member")


def _check_unmasked(mask: Tensor | None, causal: bool) -> None:
    if mask is not None or causal:
        raise FighterError("lazy and centred hops take neither a mask nor causal order")


def _become(module: nn.Module, kind: type[M]) -> M:
    """Give the module the methods of a subclass; weights and their names stay."""
    if type(module) is not kind.__base__:
        raise FighterError(
            f"{type(module).__name__} cannot become {kind.__name__}: "
            f"needs {kind.__base__} itself, before any other change of it"
        )
    module.__class__ = kind
    return module  # type: ignore[return-value]
