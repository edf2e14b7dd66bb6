"""One linear map from look-back to horizon, shared by all series: the bar to clear."""

from torch import Tensor, nn

from .core import Core, Task


class Linear(Core):
    """ŷ = W x + b for each series (Zeng et al., 2023; with the window normalised, NLinear)."""

    tied = False

    def __init__(self, task: Task):
        super().__init__()
        self.task = task
        self.map = nn.Linear(task.lookback, task.horizon * task.outputs)

    def forward(self, past: Tensor, context: Tensor | None = None) -> Tensor:
        """``[batch, lookback, series]`` to ``[batch, horizon, series, outputs]``."""
        y = self.map(past.transpose(1, 2))
        return y.unflatten(-1, (self.task.horizon, self.task.outputs)).transpose(1, 2)
