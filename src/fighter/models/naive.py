"""What happened one period ago happens again. Nothing is learned."""

import torch
from torch import Tensor

from ..errors import FighterError
from .core import Core, Task


class SeasonalNaive(Core):
    """Repeats the last period of the look-back; without a period, the last value."""

    tied = False
    index: Tensor

    def __init__(self, task: Task):
        super().__init__()
        self.task = task
        period = task.period or 1
        if period > task.lookback:
            raise FighterError(
                f"lookback={task.lookback} is shorter than the period {period} to repeat: "
                f"needs lookback ≥ {period}"
            )
        steps = torch.arange(task.horizon) % period
        self.task = task
        self.register_buffer("index", task.lookback - period + steps, persistent=False)

    def forward(self, past: Tensor, context: Tensor | None = None) -> Tensor:
        """``[batch, lookback, series]`` to ``[batch, horizon, series, outputs]``."""
        return past[:, self.index, :, None].expand(-1, -1, -1, self.task.outputs)
