"""Forecasts without weights: the last season, the last value, or the mean."""

from abc import ABC
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from ..errors import FighterError
from .base import Context, Core, ModelConfig, Observed, Outputs, Past, Task
from .embedding import window_statistics


class NaiveNet(Core, ABC):
    """A core without weights.

    A value that was not observed is replaced by the last observed value a whole number of periods
    before it, or by the mean of the observed values if there is none.
    """

    series_specific = False

    def __init__(self, task: Task, config: ModelConfig, period: int):
        super().__init__(task, config)
        self.period = period

    def fill(self, past: Past, observed: Observed) -> Past:
        """Replace the values that were not observed."""
        steps = past.shape[1]
        place = torch.where(observed, torch.arange(steps, device=past.device)[:, None], -1)
        place = F.pad(place, (0, 0, -steps % self.period, 0), value=-1)  # whole periods
        last = place.unflatten(1, (-1, self.period)).cummax(1).values.flatten(1, 2)[:, -steps:]
        mean, _ = window_statistics(past, observed)
        return torch.where(last >= 0, past.gather(1, last.clamp(min=0)), mean)


class SeasonalNaiveNet(NaiveNet):
    """Repeat the last period of the look-back; without a period, the last value."""

    index: Tensor

    def __init__(self, task: Task, config: ModelConfig):
        super().__init__(task, config, task.period or 1)
        if self.period > task.lookback:
            reason = f"is shorter than the period to repeat, needs at least {self.period}"
            raise FighterError(reason, argument="lookback", value=task.lookback)
        steps = torch.arange(task.horizon) % self.period
        self.register_buffer("index", task.lookback - self.period + steps, persistent=False)

    def forward(self, past: Past, context: Context | None = None) -> Outputs:
        """Forecast."""
        return past[:, self.index, :, None].expand(-1, -1, -1, self.task.outputs)


class RepeatLastNet(SeasonalNaiveNet):
    """Repeat the last value."""

    def __init__(self, task: Task, config: ModelConfig):
        super().__init__(replace(task, period=None), config)


class WindowMeanNet(NaiveNet):
    """Repeat the mean of the look-back."""

    def __init__(self, task: Task, config: ModelConfig):
        super().__init__(task, config, task.lookback)  # so that the mean replaces missing values

    def forward(self, past: Past, context: Context | None = None) -> Outputs:
        """Forecast."""
        mean = past.mean(1, keepdim=True)[..., None]
        return mean.expand(-1, self.task.horizon, -1, self.task.outputs)


@dataclass(frozen=True, kw_only=True)
class SeasonalNaive(ModelConfig):
    """Seasonal naive: repeats the last season."""

    name, column, network = "naive", "SeasonalNaive", SeasonalNaiveNet
    trainable = False


@dataclass(frozen=True, kw_only=True)
class RepeatLast(ModelConfig):
    """Repeats the last value."""

    name, column, network = "repeat", "RepeatLast", RepeatLastNet
    trainable = False


@dataclass(frozen=True, kw_only=True)
class WindowMean(ModelConfig):
    """The mean of the look-back."""

    name, column, network = "mean", "WindowMean", WindowMeanNet
    trainable = False
