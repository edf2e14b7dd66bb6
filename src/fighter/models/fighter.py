"""Fighter as a forecaster: layers over series, patches of time, or time steps."""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from ..errors import FighterError
from ..nn import FighterEncoder
from ..nn._checks import check_heads, linear
from .base import Core, Task
from .embedding import TimeEmbedding, time_basis

Nodes = Literal["series", "patch", "time"]


class Fighter(Core):
    """The graph over what ``nodes`` says.

    - ``"series"``: a node is a series with its whole look-back. Edges say which series a forecast
      takes from. The look-back is seen, and the forecast written, in a time basis.
    - ``"patch"``: a node is a stretch of one series; series do not see each other.
    - ``"time"``: a node is a time step with all series, as in the paper.

    Args:
        task: sizes.
        nodes: what a node is.
        kappa, powers, adjacency: as in :class:`~fighter.nn.FighterLayer`.
        heads: graphs side by side, in each member.
        width: width of a node, in each member.
        members: networks side by side, each with weights and graphs of its own and trained for
            itself; the forecast is their mean (series only).
        layers: number of Fighter layers.
        dropout: in the layers and before the head.
        channels: size of the embedding vector (series only).
        patch, stride: steps in a patch, and from one patch to the next (patch only).
        plain: layers as the paper prints them, Y = σ(Σᵢ AⁱXWᵢ): no norm, no residual, no bias.
            With ``nodes="time"``, ``adjacency="dynamic"`` and one head it is the paper's model.
    """

    basis: Tensor

    def __init__(
        self,
        task: Task,
        nodes: Nodes = "series",
        kappa: int = 3,
        powers: Sequence[int] | None = None,
        heads: int = 8,
        adjacency: str = "lazy",
        width: int = 512,
        layers: int = 1,
        dropout: float = 0.1,
        channels: int = 16,
        patch: int = 16,
        stride: int = 8,
        plain: bool = False,
        members: int = 1,
    ):
        super().__init__()
        if nodes not in ("series", "patch", "time"):
            raise FighterError(f"nodes={nodes!r}: needs series, patch or time")
        if members > 1 and nodes != "series":
            raise FighterError(f'members={members}: needs nodes="series", or members=1')
        self.task, self.nodes, self.members = task, nodes, members
        check_heads(width, heads)
        width, heads = members * width, members * heads
        self.patch, self.stride = min(patch, task.lookback), stride
        patches = 1 + -(-(task.lookback - self.patch) // stride)
        count = {"series": task.series, "patch": patches, "time": task.lookback}[nodes]
        static = adjacency in ("static", "lazy", "mixed")
        self.series_specific = nodes == "time" or (nodes == "series" and static)
        self.alternative = (
            'nodes="series" or "patch"'
            if nodes == "time"
            else 'adjacency="cosine", which draws the graph from the input'
        )
        self.encoder = FighterEncoder(
            [width] * (layers + 1),
            kappa=kappa,
            powers=powers,
            heads=heads,
            adjacency=adjacency,
            nodes=count,
            norm=not plain,
            residual=not plain,
            bias=not plain,
            dropout=dropout,
            final_activation=True,
            members=members,
        )
        self.dropout = nn.Dropout(dropout)
        self.context = nn.Linear(task.context, width, bias=False) if task.context else None
        steps = members * task.horizon * task.outputs
        if nodes == "series":
            self.embed = TimeEmbedding(task.lookback, width, channels)
            self.head = nn.Sequential(
                linear(width, width, members), nn.GELU(), linear(width, steps, members)
            )
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

    def prepare(self, correlation: Tensor) -> None:
        """Set the time bases of look-back and horizon."""
        if isinstance(self.embed, TimeEmbedding):
            self.embed.basis.copy_(time_basis(correlation, self.task.lookback))
            self.basis.copy_(time_basis(correlation, self.task.horizon))

    def forward(
        self, past: Tensor, context: Tensor | None = None, per_member: bool = False
    ) -> Tensor:
        """``[batch, lookback, series]`` to ``[batch, horizon, series, outputs]``."""
        x = self.node_features(past, context)
        return self.readout(self.encoder(x), past.shape[2], per_member)

    def node_features(self, past: Tensor, context: Tensor | None) -> Tensor:
        """The nodes, ``[batch(·series), nodes, width]``."""
        if self.nodes == "series":
            x = self.embed(past.transpose(1, 2))
        elif self.nodes == "patch":
            x = self.embed(self._patches(past)) + self.position
            if context is not None:
                context = context.repeat_interleave(past.shape[2], 0)
        else:
            x = self.embed(past) + self.position
        if self.context is not None and context is not None:
            x = x + self.context(context)[:, None]
        return x

    def readout(self, x: Tensor, series: int, per_member: bool = False) -> Tensor:
        """Nodes to steps."""
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

    def _patches(self, past: Tensor) -> Tensor:
        """``[batch·series, patches, patch]``; the first value fills what the first patch lacks."""
        x = past.transpose(1, 2).flatten(0, 1)  # [B·N, L]
        missing = (self.patch - x.shape[1]) % self.stride if x.shape[1] > self.patch else 0
        x = torch.cat([x[:, :1].expand(-1, missing), x], 1)
        return x.unfold(1, self.patch, self.stride)
