"""Maps from look-back to horizon that all series share: the bar that larger networks must clear.

Linear and DLinear are from Zeng et al. (2023), CycleNet from Lin et al. (2024).

Where this departs from the papers: DLinear's weights start as torch draws them. The learned cycle
that gives CycleNet its name belongs to :class:`~fighter.models.ForecastNet`, which removes it from
the normalised window and adds it back around every network that has a ``period``; without one,
CycleNet is a plain perceptron. The factor and shift per series of that frame are not in the papers.
"""

from abc import ABC
from dataclasses import dataclass

from torch import nn

from .base import Context, Core, ModelConfig, Outputs, Past, Task
from .embedding import moving_average


class SharedMap(Core, ABC):
    """A map from ``lookback`` numbers to ``horizon · outputs`` numbers that all series share."""

    series_specific = False
    series_apart = True

    def __init__(self, task: Task, config: ModelConfig, shared: nn.Module):
        super().__init__(task, config)
        self.map = shared

    def forward(self, past: Past, context: Context | None = None) -> Outputs:
        """Forecast."""
        y = self.map(past.transpose(1, 2))
        return y.unflatten(-1, (self.task.horizon, self.task.outputs)).transpose(1, 2)


class LinearNet(SharedMap):
    """ŷ = W x + b for each series; with the window normalised, this is NLinear."""

    def __init__(self, task: Task, config: ModelConfig):
        super().__init__(task, config, nn.Linear(task.lookback, task.horizon * task.outputs))


class CycleNetMLP(SharedMap):
    """ŷ = W₂ relu(W₁ x + b₁) + b₂ for each series, the form "MLP" of CycleNet."""

    def __init__(self, task: Task, config: "CycleNet"):
        first = nn.Linear(task.lookback, config.width)
        second = nn.Linear(config.width, task.horizon * task.outputs)
        super().__init__(task, config, nn.Sequential(first, nn.ReLU(), second))


class DLinearNet(Core):
    """ŷ = W_t m + b_t + W_r (x - m) + b_r for each series, m the moving average of x."""

    series_specific = False
    series_apart = True

    def __init__(self, task: Task, config: "DLinear"):
        super().__init__(task, config)
        self.kernel = config.kernel
        self.trend, self.remainder = LinearNet(task, config), LinearNet(task, config)

    def forward(self, past: Past, context: Context | None = None) -> Outputs:
        """Forecast."""
        trend = moving_average(past, self.kernel)
        return self.trend(trend) + self.remainder(past - trend)


@dataclass(frozen=True, kw_only=True)
class Linear(ModelConfig):
    """One linear map from look-back to horizon (NLinear, Zeng et al., 2023)."""

    name, column, network = "linear", "Linear", LinearNet


@dataclass(frozen=True, kw_only=True)
class DLinear(ModelConfig):
    """Two linear maps, of the trend and of the remainder (DLinear, Zeng et al., 2023).

    Args:
        kernel: steps of the moving average that is the trend (default: 25).
    """

    name, column, network = "dlinear", "DLinear", DLinearNet

    kernel: int = 25


@dataclass(frozen=True, kw_only=True)
class CycleNet(ModelConfig):
    """A perceptron beside a learned cycle (CycleNet, Lin et al., 2024).

    Args:
        width: width between the two maps (default: 512).
    """

    name, column, network = "cyclenet", "CycleNet", CycleNetMLP

    width: int = 512
