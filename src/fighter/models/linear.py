"""Maps from look-back to horizon, shared by all series: the bar to clear."""

from torch import Tensor, nn

from ..errors import FighterError
from .base import Core, Task
from .embedding import moving_average


class Linear(Core):
    """ŷ = W x + b for each series (Zeng et al., 2023; with the window normalised, NLinear)."""

    series_specific = False

    def __init__(self, task: Task):
        super().__init__()
        self.task = task
        self.map = nn.Linear(task.lookback, task.horizon * task.outputs)

    def forward(self, past: Tensor, context: Tensor | None = None) -> Tensor:
        """``[batch, lookback, series]`` to ``[batch, horizon, series, outputs]``."""
        y = self.map(past.transpose(1, 2))
        return y.unflatten(-1, (self.task.horizon, self.task.outputs)).transpose(1, 2)


class DLinear(Core):
    """ŷ = W_t m + b_t + W_r (x - m) + b_r for each series, m the moving average of x.

    After Zeng et al. (2023). Weights start as torch draws them.

    Args:
        task: sizes.
        kernel: steps of the moving average.
    """

    series_specific = False

    def __init__(self, task: Task, kernel: int = 25):
        super().__init__()
        if kernel < 1:
            raise FighterError(f"kernel={kernel}: needs at least 1 step")
        self.task, self.kernel = task, kernel
        self.trend, self.remainder = Linear(task), Linear(task)

    def forward(self, past: Tensor, context: Tensor | None = None) -> Tensor:
        """``[batch, lookback, series]`` to ``[batch, horizon, series, outputs]``."""
        trend = moving_average(past, self.kernel)
        return self.trend(trend) + self.remainder(past - trend)


class CycleNet(Core):
    """ŷ = W₂ relu(W₁ x + b₁) + b₂ for each series, after Lin et al. (2024), the form "MLP".

    The cycle that gives it its name is not here: :class:`~fighter.models.ForecastNet` takes the
    learned cycle out of the normalised window and puts it back, around every network, where it has
    a ``period``; without one this is a plain perceptron. So does the factor and shift per series,
    which the authors do not have.

    Args:
        task: sizes.
        width: between the two maps.
    """

    series_specific = False

    def __init__(self, task: Task, width: int = 512):
        super().__init__()
        self.task = task
        self.map = nn.Sequential(
            nn.Linear(task.lookback, width),
            nn.ReLU(),
            nn.Linear(width, task.horizon * task.outputs),
        )

    def forward(self, past: Tensor, context: Tensor | None = None) -> Tensor:
        """``[batch, lookback, series]`` to ``[batch, horizon, series, outputs]``."""
        y = self.map(past.transpose(1, 2))
        return y.unflatten(-1, (self.task.horizon, self.task.outputs)).transpose(1, 2)
