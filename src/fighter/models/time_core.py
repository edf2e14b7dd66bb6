"""What stands around an encoder whose nodes are time steps, whichever encoder it is."""

from abc import ABC
from collections.abc import Callable

import torch
from torch import Tensor, nn

from .base import Core, Task


class TimeCore(Core, ABC):
    """Embedding, position and context; the encoder; linear maps over time and to the series.

    Args:
        task: sizes.
        width: width of a node.
        make_encoder: a module from ``[batch, lookback, width]`` to the same.
    """

    series_specific = True
    nodes = "time"
    alternative = 'model="fighter" with adjacency="cosine"'

    def __init__(self, task: Task, width: int, make_encoder: Callable[[], nn.Module]):
        super().__init__()
        self.task = task
        self.embed = nn.Linear(task.series, width)
        self.position = nn.Parameter(0.02 * torch.randn(task.lookback, width))
        self.context = nn.Linear(task.context, width, bias=False) if task.context else None
        self.encoder = make_encoder()
        self.over_time = nn.Linear(task.lookback, task.horizon)
        self.head = nn.Linear(width, task.series * task.outputs)

    def forward(self, past: Tensor, context: Tensor | None = None) -> Tensor:
        """``[batch, lookback, series]`` to ``[batch, horizon, series, outputs]``."""
        return self.readout(self.encoder(self.node_features(past, context)))

    def node_features(self, past: Tensor, context: Tensor | None) -> Tensor:
        """The nodes, ``[batch, lookback, width]``."""
        x = self.embed(past) + self.position
        if self.context is not None and context is not None:
            x = x + self.context(context)[:, None]
        return x

    def readout(self, x: Tensor) -> Tensor:
        """Nodes to steps."""
        y = self.over_time(x.transpose(1, 2)).transpose(1, 2)
        return self.head(y).unflatten(-1, (self.task.series, self.task.outputs))
