"""Fighter as a forecaster: layers over series, patches of time, or time steps."""

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from .._typing import Bool, Float, Int
from ..data.groups import pack
from ..errors import FighterError
from ..hops import check_powers
from ..nn import FighterEncoder
from ..nn._checks import check_heads
from ..nn.adjacency import find_adjacency
from ..nn.members import linear
from .base import Context, Core, ModelConfig, Past, Task, value_or
from .embedding import TimeEmbedding, add_context, context_map, time_basis

NodeKind = Literal["series", "patch", "time"]
Rows = Float[Tensor, "rows nodes width"]

MOST_TOGETHER = 512  # series in groups that are encoded together


class FighterNet(Core):
    """A Fighter encoder over the nodes that the config names.

    - ``"series"``: a node is a series with its whole look-back. An edge says which series a
      forecast takes from. The look-back is read, and the forecast written, in a time basis.
    - ``"patch"``: a node is a patch of one series; series do not see each other.
    - ``"time"``: a node is a time step with all series, as in the paper.
    """

    basis: Tensor

    def __init__(self, task: Task, config: "Fighter"):
        super().__init__(task, config)
        kind = "cosine" if config.groups or config.adjacency == "auto" else "lazy"
        adjacency, powers = value_or(config.adjacency, kind), config.powers
        adjacency = kind if adjacency == "auto" else adjacency
        if adjacency == "none":
            adjacency, powers = "cosine", (0,)
        dropout, members = value_or(config.dropout, 0.1), value_or(config.members, 1)
        width = members * value_or(config.width, 512)
        check_heads(width // members, config.heads)
        nodes, self.members, self.nodes = config.nodes, members, config.nodes
        self.patch, self.stride = min(config.patch, task.lookback), config.stride
        patches = 1 + -(-(task.lookback - self.patch) // self.stride)
        count = {"series": task.series, "patch": patches, "time": task.lookback}[nodes]
        fixed_graph = nodes == "series" and find_adjacency(adjacency).node_specific
        self.series_specific = nodes == "time" or fixed_graph
        self.series_apart = nodes == "patch" or powers == (0,) or config.kappa == 1
        self.alternative = "Fighter with a cosine adjacency"
        if nodes == "time":
            self.alternative = "Fighter over series or patches"
        self.encoder = FighterEncoder(
            [width] * (config.layers + 1),
            kappa=config.kappa,
            powers=powers,
            heads=members * config.heads,
            adjacency=adjacency,
            nodes=count,
            norm=not config.plain,
            residual=not config.plain,
            bias=not config.plain,
            dropout=dropout,
            final_activation=True,
            members=members,
        )
        self.dropout = nn.Dropout(dropout)
        self.context = context_map(task.context, width)
        steps = members * task.horizon * task.outputs
        if nodes == "series":
            self.embed = TimeEmbedding(task.lookback, width, config.channels)
            hidden, last = linear(width, width, members), linear(width, steps, members)
            self.head = nn.Sequential(hidden, nn.GELU(), last)
            self.register_buffer("basis", torch.eye(task.horizon))
        elif nodes == "patch":
            self.embed = nn.Linear(self.patch, width)
            self.head = nn.Linear(count * width, steps)
        else:
            self.embed = nn.Linear(task.series, width)
            self.head = nn.Linear(width, task.series * task.outputs)
            self.over_time = nn.Linear(task.lookback, task.horizon)
        if nodes != "series":
            self.position = nn.Parameter(0.02 * torch.randn(count, width))

    def prepare(self, correlation: Float[Tensor, "lags"]) -> None:
        """Set the time bases of look-back and horizon."""
        if isinstance(self.embed, TimeEmbedding):
            self.embed.basis.copy_(time_basis(correlation, self.task.lookback))
            self.basis.copy_(time_basis(correlation, self.task.horizon))

    def forward(
        self,
        past: Past,
        context: Context | None = None,
        per_member: bool = False,
        groups: Int[Tensor, "series"] | None = None,
    ) -> Float[Tensor, "*members batch horizon series outputs"]:
        """Forecast; with ``per_member``, return the forecast of each member, not their mean.

        Series only see those of the same number in ``groups`` (default: all see all).
        """
        x = self.node_features(past, context)
        return self.readout(self.encode(x, groups), past.shape[2], per_member)

    def encode(self, x: Rows, groups: Int[Tensor, "series"] | None) -> Rows:
        """Run the encoder; the graph has edges inside groups only."""
        if groups is None:
            return self.encoder(x)
        if len(groups) <= MOST_TOGETHER or self.training:  # a step must not wait for numbers
            return self.encoder(x, _same(groups))
        out = torch.empty_like(x)
        for part in pack(groups.cpu().numpy(), MOST_TOGETHER):  # memory grows with the largest one
            some = torch.from_numpy(part).to(x.device)
            out[:, some] = self.encoder(x[:, some], _same(groups[some]))
        return out

    def node_features(self, past: Past, context: Context | None) -> Rows:
        """Embed the nodes; a row is a window, or one series of a window if nodes are patches."""
        if self.nodes == "series":
            x = self.embed(past.transpose(1, 2))
        elif self.nodes == "patch":
            x = self.embed(self._patches(past)) + self.position
            if context is not None:
                context = context.repeat_interleave(past.shape[2], 0)
        else:
            x = self.embed(past) + self.position
        return add_context(x, self.context, context)

    def readout(
        self, x: Rows, series: int, per_member: bool = False
    ) -> Float[Tensor, "*members batch horizon {series} outputs"]:
        """Map the encoded nodes to the forecast."""
        task, x = self.task, self.dropout(x)
        if self.nodes == "series":
            y = self.head(x).unflatten(-1, (self.members, task.outputs, task.horizon))
            y = (y if per_member else y.mean(2, keepdim=True)) @ self.basis.T
            y = y.permute(2, 0, 4, 1, 3)  # [B, N, members, Q, H] to [members, B, H, N, Q]
            return y if per_member else y[0]
        if self.nodes == "patch":
            y = self.head(x.flatten(1)).unflatten(-1, (task.horizon, task.outputs))
            return y.unflatten(0, (-1, series)).transpose(1, 2)
        y = self.over_time(x.transpose(1, 2)).transpose(1, 2)  # [B, H, width]
        return self.head(y).unflatten(-1, (series, task.outputs))

    def _patches(self, past: Past) -> Float[Tensor, "rows patches patch"]:
        """Cut each series into patches; the first value fills up an incomplete first patch."""
        x = past.transpose(1, 2).flatten(0, 1)  # [B·N, L]
        missing = (self.patch - x.shape[1]) % self.stride if x.shape[1] > self.patch else 0
        x = torch.cat([x[:, :1].expand(-1, missing), x], 1)
        return x.unfold(1, self.patch, self.stride)


def _same(groups: Int[Tensor, "series"]) -> Bool[Tensor, "1 1 series series"]:
    """Tell which series are of one group."""
    return (groups[:, None] == groups)[None, None]


@dataclass(frozen=True, kw_only=True)
class Fighter(ModelConfig):
    """Fighter: multi-hop graph convolution on a graph that is learned.

    Args:
        nodes: what a node of the graph is: a series, a patch of one series, or a time step
            (default: series).
        kappa: number of blocks κ, the powers 0 … κ-1 of the graph (default: 3).
        powers: powers of the graph in rising order (default: those of kappa).
        heads: graphs side by side, in each member (default: 8).
        adjacency: where the graph comes from: static (learned once), lazy (the same, and half of
            every node stays where it is), dynamic (drawn from the input), cosine (the same with
            normalised queries and keys), mixed, none, which leaves the power 0 alone, or auto,
            which tries out what helps on the validation rows (default: lazy for up to 500 series,
            none for more, cosine with groups and for other nodes than series).
        groups: an id column or a static column, only if nodes are series: series see only those
            with the same value in it (default: none, all see all).
        width: width of a node, in each member (default: chosen from the size of the data).
        layers: number of Fighter layers (default: 1).
        dropout: dropout in the layers and before the head (default: chosen from the size of the
            data).
        channels: size of the embedding vector, only if nodes are series (default: 16).
        patch: steps in a patch, at most the look-back, only if nodes are patches (default: 16).
        stride: steps from one patch to the next, only if nodes are patches (default: 8).
        plain: layers as the paper prints them, Y = σ(Σᵢ AⁱXWᵢ): no norm, no residual, no bias. With
            time steps as nodes, a dynamic adjacency and one head it is the paper's model
            (default: False).
        members: networks side by side, each with its own weights and graphs and trained by itself,
            whose mean is the forecast, only if nodes are series (default: 2, or 1 for other nodes).
    """

    name, column, network = "fighter", "Fighter", FighterNet

    nodes: NodeKind = "series"
    kappa: int = 3
    powers: tuple[int, ...] | None = None
    heads: int = 8
    adjacency: str | None = None
    groups: str | None = None
    width: int | None = None
    layers: int = 1
    dropout: float | None = None
    channels: int = 16
    patch: int = 16
    stride: int = 8
    plain: bool = False
    members: int | None = None

    def __post_init__(self) -> None:
        """Check the values."""
        super().__post_init__()
        if self.nodes not in get_args(NodeKind):
            raise FighterError("needs series, patch or time", argument="nodes", value=self.nodes)
        if self.powers is not None:
            object.__setattr__(self, "powers", check_powers(self.powers))
        if self.adjacency not in (None, "none", "auto"):
            find_adjacency(self.adjacency)
        if self.adjacency == "auto" and self.nodes != "series":
            reason = "only a graph between series is chosen automatically"
            raise FighterError(reason, argument="adjacency", value=self.adjacency)
        if self.groups is not None:
            self._check_groups()
        if value_or(self.members, 1) > 1 and self.nodes != "series":
            reason = "several members need series as nodes"
            raise FighterError(reason, argument="members", value=self.members)

    def _check_groups(self) -> None:
        if not isinstance(self.groups, str):
            reason = "needs the name of an id column or of a static column"
            raise FighterError(reason, argument="groups", value=self.groups)
        drawn = self.adjacency in (None, "auto", "cosine", "dynamic")
        if self.nodes != "series" or not drawn or self.powers == (0,) or self.kappa == 1:
            reason = "a graph inside groups needs series as nodes and a cosine or dynamic adjacency"
            raise FighterError(reason, argument="groups", value=self.groups)
