"""Reformer as a forecaster: hashed attention over the past and the steps to come."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..nn import ReformerEncoder
from .core import Core, Task


class Reformer(Core):
    """An encoder over look-back and horizon together, the horizon's values 0 on the way in.

    Hashed attention and reversible layers are those of Kitaev et al. (2020), see
    :class:`~fighter.nn.ReformerBlock`. Reformer was made for text, and has no forecast of its own:
    the encoder over placeholders, of which the last positions are read, is how the forecasting
    literature compares with it. Its two streams end in their mean, a norm and a linear map. The
    positions are learned and added; Reformer's factor into two axes, for sequences much longer.

    Args:
        task: sizes.
        width, heads, layers, dropout: of the encoder.
        hidden_width: inside the feed-forward network; ``4 * width`` unless given.
        bucket_size, rounds: of the hash.
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
        bucket_size: int = 4,
        rounds: int = 4,
    ):
        super().__init__()
        self.task = task
        self.embed = nn.Linear(task.series, width)
        self.position = nn.Parameter(0.02 * torch.randn(task.lookback + task.horizon, width))
        self.context = nn.Linear(task.context, width, bias=False) if task.context else None
        self.encoder = ReformerEncoder(
            width,
            layers,
            heads=heads,
            hidden_width=hidden_width or 4 * width,
            dropout=dropout,
            bucket_size=bucket_size,
            rounds=rounds,
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, task.series * task.outputs)

    def forward(self, past: Tensor, context: Tensor | None = None) -> Tensor:
        """``[batch, lookback, series]`` to ``[batch, horizon, series, outputs]``."""
        task = self.task
        x = self.embed(F.pad(past, (0, 0, 0, task.horizon))) + self.position  # [B, L + H, width]
        if self.context is not None and context is not None:
            x = x + self.context(context)[:, None]
        y = self.encoder(x)[:, task.lookback :]
        return self.head(self.norm(y)).unflatten(-1, (task.series, task.outputs))
