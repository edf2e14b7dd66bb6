"""The sizes of a task, the interface of a forecasting network, and the options it is built from."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, ClassVar, TypeVar

from torch import Tensor, nn

from .._typing import Bool, Float
from ..errors import Settings, check_bool, check_count, check_number
from ..nn._checks import check_heads

T = TypeVar("T")
Past = Float[Tensor, "batch lookback series"]
Context = Float[Tensor, "batch context"]
Observed = Bool[Tensor, "batch lookback series"]
Outputs = Float[Tensor, "batch horizon series outputs"]


@dataclass(frozen=True)
class Task:
    """The sizes of a forecasting task.

    Args:
        lookback: steps of the past that the network sees.
        horizon: steps to forecast.
        series: number of series.
        outputs: numbers per step, the point forecast and then the quantiles (default: 1).
        context: number of calendar features at the moment of the forecast (default: 0).
        period: steps after which the data repeat (default: None, unknown).
    """

    lookback: int
    horizon: int
    series: int
    outputs: int = 1
    context: int = 0
    period: int | None = None


class Core(nn.Module, ABC):
    """A network from the normalised past to the normalised future, built from a config.

    Args:
        task: sizes of the task.
        config: options of the model.
    """

    series_specific: bool
    """Whether weights belong to the training series, so that it cannot forecast other series."""

    series_apart: bool = False
    """Whether every series is forecast by itself, so that some can be forecast without the rest."""

    alternative: str = "Fighter with a cosine adjacency"
    """The settings that would work for other series; for the error if it is series-specific."""

    nodes: str = ""
    """What the nodes of its graph are: series, time or patch; empty if it has no graph."""

    members: int = 1
    """Number of networks side by side, whose mean is the forecast. With several, ``forward`` takes
    ``per_member=True`` and then returns ``[members, batch, horizon, series, outputs]``."""

    def __init__(self, task: Task, config: "ModelConfig"):
        super().__init__()
        self.task, self.trainable = task, config.trainable

    @abstractmethod
    def forward(self, past: Past, context: Context | None = None) -> Outputs:
        """Forecast."""

    def fill(self, past: Past, observed: Observed) -> Past:
        """Return the past with a harmless value where none was observed: 0, the window's mean."""
        return past * observed

    def prepare(self, correlation: Float[Tensor, "lags"]) -> None:
        """Read the lag correlations of the training data, once before training."""
        del correlation


@dataclass(frozen=True, kw_only=True)
class ModelConfig(Settings):
    """The options of a model, as a typed dataclass that checks its values.

    A model is one file with two classes: its network, a subclass of :class:`Core`, and its
    options, a subclass of this one.
    """

    name: ClassVar[str]
    """Name of the model in :data:`fighter.models.MODELS`."""

    column: ClassVar[str]
    """Name of the forecast's column in tables."""

    network: ClassVar[type[Core]]
    """The network that is built from these options."""

    heads_share_width: ClassVar[bool] = True
    """Whether the number of heads must divide the width, if the model has both."""

    trainable: ClassVar[bool] = True
    """Whether there are weights to learn; if not, the frame around the core learns none either."""

    def __post_init__(self) -> None:
        """Check the values: counts are whole numbers of at least 1, dropout is a share."""
        for field in fields(self):
            value = getattr(self, field.name)
            if value is None and field.default is None:
                continue
            if field.type in (int, int | None):
                object.__setattr__(self, field.name, check_count(field.name, value))
            if field.type is bool:
                check_bool(field.name, value)
            if field.name == "dropout":
                check_number("dropout", value, "a number from 0 to 1", lambda p: 0 <= p <= 1)
            if field.name == "factor":
                check_factor(value)
        width, heads = getattr(self, "width", None), getattr(self, "heads", None)
        if width is not None and heads is not None and self.heads_share_width:
            check_heads(width, heads)

    @classmethod
    def advise(cls, name: str) -> str:
        """Name the models that have a setting which this one lacks."""
        having = [kind.__name__ for kind in _models() if name in kind.setting_names()]
        if having:
            return f"{cls.__name__} has no such setting; models that have it: {', '.join(having)}"
        return super().advise(name)

    def build(self, task: Task) -> Core:
        """Build the network for a task; its weights are drawn from torch's random numbers."""
        return self.network(task, self)

    def describe(self) -> str:
        """Return the name and the options that differ from their defaults, for people."""
        values = {f.name: (getattr(self, f.name), f.default) for f in fields(self)}
        changed = [f"{name} {value}" for name, (value, usual) in values.items() if value != usual]
        return ", ".join([self.name, *changed])


def _models(kind: type[ModelConfig] = ModelConfig) -> Iterator[type[ModelConfig]]:
    """Yield the config of every model that has been defined."""
    for below in kind.__subclasses__():
        if hasattr(below, "name"):
            yield below
        yield from _models(below)


@dataclass(frozen=True, kw_only=True)
class AttentionConfig(ModelConfig):
    """Options that networks of attention blocks share.

    Args:
        heads: attention heads of each block, which share the width evenly (default: 8).
        layers: number of blocks; of the encoder, if there is a decoder too (default: 2).
        hidden_width: width inside the feed-forward networks (default: 4 times the width).
    """

    expansion: ClassVar[int] = 4
    """The width inside the feed-forward networks in multiples of ``width``, unless given."""

    heads: int = 8
    layers: int = 2
    hidden_width: int | None = None


@dataclass(frozen=True, kw_only=True)
class BlockConfig(AttentionConfig):
    """Options that networks of attention blocks with a fixed default size share.

    Args:
        width: width of a node (default: 128).
        dropout: dropout in the blocks (default: 0.1).
    """

    width: int = 128
    dropout: float = 0.1

    @property
    def block(self) -> dict[str, Any]:
        """The keyword arguments of a block."""
        hidden_width = self.hidden_width or self.expansion * self.width
        return {"heads": self.heads, "hidden_width": hidden_width, "dropout": self.dropout}


@dataclass(frozen=True, kw_only=True)
class HopConfig(BlockConfig):
    """Options of networks whose attention can have further hops.

    Args:
        kappa: number of powers of the graph A, counted from 0. 2 is the model as published, whose
            residual has the power 0; 3 adds A² with weights of its own, which start at zero, and
            so on (default: 2).
    """

    kappa: int = 2

    def __post_init__(self) -> None:
        """Check the values."""
        super().__post_init__()
        check_count("kappa", self.kappa, least=2)

    @property
    def block(self) -> dict[str, Any]:
        """The keyword arguments of a block."""
        return {**super().block, "kappa": self.kappa}


def check_factor(factor: Any) -> float:
    """Refuse a factor that is not above 0."""
    check_number("factor", factor, "a number above 0, such as 5", lambda c: c > 0)
    return factor


def value_or(value: T | None, default: T) -> T:
    """Return ``value``, or the default if it is None."""
    return default if value is None else value
