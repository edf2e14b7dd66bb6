"""Forecasts that need no learning: what was goes on.

A core is given 0 for a value that was not observed. In a window that is normalised, 0 is the mean
of what was observed, so a gap is forecast as that mean, and the mean of the window is the mean of
what was observed. Without normalising, 0 is the mean of the training data.
"""

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
        self.register_buffer("index", task.lookback - period + steps, persistent=False)

    def forward(self, past: Tensor, context: Tensor | None = None) -> Tensor:
        """``[batch, lookback, series]`` to ``[batch, horizon, series, outputs]``."""
        return past[:, self.index, :, None].expand(-1, -1, -1, self.task.outputs)


class RepeatLast(Core):
    """The last value, at every step."""

    tied = False

    def __init__(self, task: Task):
        super().__init__()
        self.task = task

    def forward(self, past: Tensor, context: Tensor | None = None) -> Tensor:
        """``[batch, lookback, series]`` to ``[batch, horizon, series, outputs]``."""
        return past[:, -1:, :, None].expand(-1, self.task.horizon, -1, self.task.outputs)


class WindowMean(Core):
    """The mean of the look-back, at every step."""

    tied = False

    def __init__(self, task: Task):
        super().__init__()
        self.task = task

    def forward(self, past: Tensor, context: Tensor | None = None) -> Tensor:
        """``[batch, lookback, series]`` to ``[batch, horizon, series, outputs]``."""
        mean = past.mean(1, keepdim=True)[..., None]
        return mean.expand(-1, self.task.horizon, -1, self.task.outputs)
