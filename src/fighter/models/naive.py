"""Forecasts that need no learning: what was goes on."""

from abc import ABC

import torch
import torch.nn.functional as F
from torch import Tensor

from ..errors import FighterError
from .base import Core, Task
from .embedding import window_statistics


class Unlearned(Core, ABC):
    """A core without weights.

    A value that was not observed is taken to be the last one observed whole periods before it; if
    there is none, the mean of what was observed.

    Args:
        task: sizes.
        period: steps from a value to the one that stands for it.
    """

    trainable = False
    series_specific = False

    def __init__(self, task: Task, period: int):
        super().__init__()
        self.task, self.period = task, period

    def fill(self, past: Tensor, observed: Tensor) -> Tensor:
        """The past without holes."""
        steps = past.shape[1]
        place = torch.where(observed, torch.arange(steps, device=past.device)[:, None], -1)
        place = F.pad(place, (0, 0, -steps % self.period, 0), value=-1)  # whole periods
        last = place.unflatten(1, (-1, self.period)).cummax(1).values.flatten(1, 2)[:, -steps:]
        mean, _ = window_statistics(past, observed)
        return torch.where(last >= 0, past.gather(1, last.clamp(min=0)), mean)


class SeasonalNaive(Unlearned):
    """Repeats the last period of the look-back; without a period, the last value."""

    index: Tensor

    def __init__(self, task: Task):
        super().__init__(task, task.period or 1)
        if self.period > task.lookback:
            raise FighterError(
                f"lookback={task.lookback} is shorter than the period {self.period} to repeat: "
                f"needs lookback ≥ {self.period}"
            )
        steps = torch.arange(task.horizon) % self.period
        self.register_buffer("index", task.lookback - self.period + steps, persistent=False)

    def forward(self, past: Tensor, context: Tensor | None = None) -> Tensor:
        """``[batch, lookback, series]`` to ``[batch, horizon, series, outputs]``."""
        return past[:, self.index, :, None].expand(-1, -1, -1, self.task.outputs)


class RepeatLast(Unlearned):
    """The last value, at every step."""

    def __init__(self, task: Task):
        super().__init__(task, 1)

    def forward(self, past: Tensor, context: Tensor | None = None) -> Tensor:
        """``[batch, lookback, series]`` to ``[batch, horizon, series, outputs]``."""
        return past[:, -1:, :, None].expand(-1, self.task.horizon, -1, self.task.outputs)


class WindowMean(Unlearned):
    """The mean of the look-back, at every step."""

    def __init__(self, task: Task):
        super().__init__(task, task.lookback)  # nothing stands for a value but the mean

    def forward(self, past: Tensor, context: Tensor | None = None) -> Tensor:
        """``[batch, lookback, series]`` to ``[batch, horizon, series, outputs]``."""
        mean = past.mean(1, keepdim=True)[..., None]
        return mean.expand(-1, self.task.horizon, -1, self.task.outputs)
