"""A Transformer encoder over time steps, as the paper compares with."""

import torch
from torch import Tensor, nn

from ..nn import TransformerEncoder
from .core import Core, Task


class Transformer(Core):
    """Time steps as nodes: embedding and position, encoder blocks, linear maps to the horizon.

    Args:
        task: sizes.
        width, heads, layers, dropout: of the encoder.
        hidden_width: inside the feed-forward network; ``4 * width`` unless given.
    """

    tied = True
    remedy = 'model="fighter" with adjacency="cosine"'

    def __init__(
        self,
        task: Task,
        width: int = 128,
        heads: int = 8,
        layers: int = 1,
        dropout: float = 0.1,
        hidden_width: int | None = None,
    ):
        super().__init__()
        self.task = task
        self.embed = nn.Linear(task.series, width)
        self.position = nn.Parameter(0.02 * torch.randn(task.lookback, width))
        self.context = nn.Linear(task.context, width, bias=False) if task.context else None
        self.encoder = TransformerEncoder(
            [width] * (layers + 2),
            heads=heads,
            hidden_width=hidden_width or 4 * width,
            norm=True,
            residual=True,
            activation="gelu",
            dropout=dropout,
        )
        self.over_time = nn.Linear(task.lookback, task.horizon)
        self.head = nn.Linear(width, task.series * task.outputs)

    def forward(self, past: Tensor, context: Tensor | None = None) -> Tensor:
        """``[batch, lookback, series]`` to ``[batch, horizon, series, outputs]``."""
        x = self.embed(past) + self.position
        if self.context is not None and context is not None:
            x = x + self.context(context)[:, None]
        y = self.over_time(self.encoder(x).transpose(1, 2)).transpose(1, 2)
        return self.head(y).unflatten(-1, (self.task.series, self.task.outputs))
