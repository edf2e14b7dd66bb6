"""What a core is asked to do, and what it must be."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from torch import Tensor, nn

from .._typing import Bool, Float


@dataclass(frozen=True)
class Task:
    """The sizes of a forecasting task."""

    lookback: int
    horizon: int
    series: int
    outputs: int = 1  # numbers per step: the point forecast, then quantiles
    context: int = 0  # width of what is known of the moment of the forecast (calendar)
    period: int | None = None  # steps after which the data repeat


class Core(nn.Module, ABC):
    """The normalised past to the normalised future."""

    task: Task
    series_specific: bool
    """Whether weights belong to the series trained on, so that no others can be served."""

    alternative: str = ""
    """Which setting would serve other series, for the error message."""

    nodes: str = ""
    """What the nodes of its graph are: series, time or patch; empty where there is none."""

    members: int = 1
    """Networks side by side, whose mean is the forecast; of more than one, ``forward`` takes
    ``apart=True`` to give each one's, ``[members, batch, horizon, series, outputs]``."""

    trainable: bool = True
    """Whether there is anything to learn; if not, nothing around the core learns either."""

    @abstractmethod
    def forward(
        self,
        past: Float[Tensor, "batch lookback series"],
        context: Float[Tensor, "batch context"] | None = None,
    ) -> Float[Tensor, "batch horizon series outputs"]:
        """Forecast."""

    def fill(
        self,
        past: Float[Tensor, "batch lookback series"],
        observed: Bool[Tensor, "batch lookback series"],
    ) -> Float[Tensor, "batch lookback series"]:
        """The past with something harmless where nothing was observed: 0, a window's mean."""
        return past * observed

    def prepare(self, correlation: Float[Tensor, "lags"]) -> None:
        """Take what is worth knowing of the training data before training begins."""
        del correlation
