"""The settings of a forecaster, as typed dataclasses that check themselves."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields, is_dataclass
from math import inf
from numbers import Integral, Real
from typing import Any, Literal, Self

from ..data.censored import check_column
from ..data.columns import column_names
from ..data.dates import check_format
from ..data.frequency import season_lengths
from ..errors import (
    FighterError,
    Settings,
    check_bool,
    check_count,
    check_number,
    did_you_mean,
)
from ..models import MODELS, ModelConfig, find_model
from ..models.registry import models_with


@dataclass(frozen=True, kw_only=True)
class Frame(Settings):
    """What surrounds the network: the same for every model.

    Args:
        cycle: length of the learned cycle: "auto", a number of steps, or None for no cycle
            (default: "auto"). Seasonal naive learns no cycle; it repeats a season of this length,
            and looks back at least as far.
        calendar: add the time of the year as a feature, and without a cycle the time of the day
            and of the week (default: True).
        reversion: learn how quickly forecasts revert to the series' long-run mean and variance;
            of an even number of members, half do (default: True).
        bounds: keep forecasts within the bounds of their series: natural ones that are detected,
            such as zero for rainfall, and zero for a series that was never negative. Or two
            numbers, the lower and the upper bound of all series; None for no bound on a side
            (default: True).
        smoothing: mix the network with exponential smoothing and autoregressions, by the errors
            on validation rows (default: only for Fighter).
        pretrained: where smoothing is mixed in, mix in the pretrained network, too (default: with
            less than 100,000 training values).
        vector: where smoothing is mixed in, mix in a vector autoregression, too: a regression on
            the last values of all series (default: for Fighter whose series see each other, with
            2 to 128 series).
    """

    cycle: int | str | None = "auto"
    calendar: bool = True
    reversion: bool = True
    bounds: bool | tuple[float | None, float | None] = True
    smoothing: bool | None = None
    pretrained: bool | None = None
    vector: bool | None = None

    def __post_init__(self) -> None:
        if isinstance(self.cycle, str) and self.cycle != "auto":
            raise FighterError(
                'needs "auto", a number of steps, or None', argument="cycle", value=self.cycle
            )
        if self.cycle not in ("auto", None):
            check_count("cycle", self.cycle)
        for name in ("calendar", "reversion"):
            check_bool(name, getattr(self, name))
        if not isinstance(self.bounds, bool):
            object.__setattr__(self, "bounds", _check_bounds(self.bounds))
        for name in ("smoothing", "pretrained", "vector"):
            if getattr(self, name) is not None:
                check_bool(name, getattr(self, name))


@dataclass(frozen=True, kw_only=True)
class Training(Settings):
    """How the network is trained.

    Args:
        max_epochs: largest number of epochs (default: enough for 2,000 steps, or 600 with less
            than 30,000 training values, and at least 10).
        batch_size: windows per step, over all processes together (default: 32; fewer for more than
            128 series, or more than 32 with less than 30,000 training values).
        lr: learning rate at the top of the cosine schedule (default: 0.001, or 0.002 for several
            members and at least 30,000 training values).
        weight_decay: weight decay of AdamW (default: 0).
        ema: decay of the moving average of the weights, which is evaluated and kept; 0 turns it
            off (default: 0.9995).
        patience: epochs without a better validation score before early stopping (default: at least
            3, and 400 steps, or 150 with less than 30,000 training values).
        loss: loss of the point forecast, "mae" or "mse" (default: "mae").
        discount: how much less later steps count in training: 1 / (1 + discount) one season (at
            least 24 steps) after the first; 0 turns it off (default: 8).
        compile: compile the network on CUDA (default: False).
        time_budget: seconds to train for, at most; with it, results depend on the speed of the
            machine (default: no limit).
    """

    max_epochs: int | None = None
    batch_size: int | None = None
    lr: float | None = None
    weight_decay: float = 0.0
    ema: float = 0.9995
    patience: int | None = None
    loss: Literal["mae", "mse"] = "mae"
    discount: float = 8.0
    compile: bool = False
    time_budget: float | None = None

    def __post_init__(self) -> None:
        for name in ("max_epochs", "batch_size", "patience"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name))
        for name in ("weight_decay", "discount"):
            check_number(name, getattr(self, name), "a number, 0 or more", lambda x: 0 <= x < inf)
        for name in ("lr", "time_budget"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), "a number above 0", lambda x: 0 < x < inf)
        check_number("ema", self.ema, "a number from 0 to below 1", lambda x: 0 <= x < 1)
        if self.loss not in ("mae", "mse"):
            raise FighterError("needs mae or mse", argument="loss", value=self.loss)
        check_bool("compile", self.compile)


# What a warm start may change: how the table is read, and how the network is trained.
MAY_CHANGE = (
    "training", "id_col", "time_col", "target_col", "date_format", "missing_values", "columns",
    "drop", "validation", "seed", "device", "verbose",
)  # fmt: skip
_LISTS = {
    "level": Real, "quantiles": Real, "past": str, "future": str, "missing_values": Real,
    "columns": str, "drop": str,
}  # fmt: skip

_OTHER_NAMES = {  # in other libraries
    "horizon": ("h", "fh", "steps", "pred_len", "prediction_length", "output_chunk_length"),
    "lookback": ("input_size", "seq_len", "context_length", "input_chunk_length", "window"),
}


@dataclass(repr=False, eq=False)
class Config:
    """All settings of a :class:`~fighter.Forecaster`, which documents them."""

    horizon: int
    lookback: int | None = None
    _: KW_ONLY
    model: str | ModelConfig = "fighter"
    level: Sequence[float] | None = None
    quantiles: Sequence[float] | None = None
    point: Literal["median", "mean"] = "median"
    frame: Frame = field(default=Frame())
    training: Training = field(default=Training())
    freq: str | int | None = None
    season: int | Sequence[int] | None = None
    date_format: str | None = None
    id_col: str | Sequence[str] = "unique_id"
    time_col: str = "ds"
    target_col: str = "y"
    past: Sequence[str] = ()
    future: Sequence[str] = ()
    holidays: str | None = None
    missing_values: Sequence[float] = ()
    leading_zeros: bool = True
    censored: str | None = None
    missing_rows: Literal["unknown", "zero"] = "unknown"
    columns: Sequence[str] = ()
    drop: Sequence[str] = ()
    validation: int | None = None
    seed: int = 0
    device: str | None = None
    verbose: bool = True

    def __post_init__(self) -> None:
        find_model(self.model)
        for name, kind in (("frame", Frame), ("training", Training)):
            if not isinstance(getattr(self, name), kind):
                raise FighterError(
                    f"needs a fighter.{kind.__name__} object",
                    argument=name,
                    value=getattr(self, name),
                )
        for name in _LISTS:
            _check_list(name, getattr(self, name))
        check_format(self.date_format)
        if not (self.holidays is None or isinstance(self.holidays, str)):
            needed = "needs a country such as DE, or the name of a column"
            raise FighterError(needed, argument="holidays", value=self.holidays)
        check_column(self.censored, tuple(self.past), tuple(self.future))
        for name, words in (("point", ("median", "mean")), ("missing_rows", ("unknown", "zero"))):
            if getattr(self, name) not in words:
                needed = f"needs {' or '.join(words)}"
                raise FighterError(needed, argument=name, value=getattr(self, name))
        season_lengths(self.season)
        if not column_names(self.id_col, "id_col"):
            raise FighterError("needs the name of a column", argument="id_col", value=self.id_col)
        check_count("horizon", self.horizon)
        for name, least in (("lookback", 1), ("validation", 0)):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name), least)
        if isinstance(self.seed, bool) or not isinstance(self.seed, Integral):
            raise FighterError("needs a whole number", argument="seed", value=self.seed)
        if not (self.device is None or isinstance(self.device, str)):
            raise FighterError("needs cpu, cuda or None", argument="device", value=self.device)
        for name in ("leading_zeros", "verbose"):
            check_bool(name, getattr(self, name))
        level, quantiles = as_list(self.level), as_list(self.quantiles)
        if level and quantiles:
            raise FighterError("pass either level or quantiles, not both", argument="quantiles")
        if outside := [q for q in level if not 0 < q < 100]:
            raise FighterError(
                f"{outside[0]} is not between 0 and 100 per cent", argument="level", value=level
            )
        if level and min(level) < 1:
            percent = ", ".join(f"{100 * q if q < 1 else q:g}" for q in level)
            raise FighterError(
                f"needs levels in per cent: did you mean {percent}?", argument="level", value=level
            )
        if outside := [q for q in quantiles if not 0 < q < 1]:
            raise FighterError(
                f"{outside[0]} is not between 0 and 1", argument="quantiles", value=quantiles
            )

    @classmethod
    def from_flat(cls, **settings: Any) -> Self:
        """Build from flat settings, as configuration files and stored results have them.

        .. code-block:: python

            Forecaster.from_flat(horizon=24, model="fighter", kappa=4, cycle=None, lr=1e-3)

        Names of the model, the frame and the training are distributed over their dataclasses.
        """
        return cls(**nest(settings))

    @classmethod
    def advise(cls, name: str) -> str:
        """Say where a setting lives that is not an argument of the forecaster."""
        homes = [("frame", Frame), ("training", Training)]
        homes += [("model", MODELS[model]) for model in models_with(name)]
        for argument, kind in homes:
            if name in kind.setting_names():
                return f"belongs to {argument}: pass {argument}={kind.__name__}({name}=…)"
        return f"there is no such setting.{_nearest(name, [f.name for f in fields(cls)])}"

    def copy(self) -> "Config":
        """Return a checked copy, which later changes to this object do not reach."""
        settings: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(Config)}
        for name in _LISTS:
            _check_list(name, settings[name])
            if settings[name] is not None:
                settings[name] = tuple(settings[name])
        if isinstance(self.id_col, list):
            settings["id_col"] = tuple(self.id_col)
        if isinstance(self.season, Iterable):
            settings["season"] = season_lengths(self.season)
        return Config(**settings)

    def check_same(self, fitted: "Config", free: Sequence[str], remedy: str) -> None:
        """Refuse settings that are not those of the fitted model, except the ``free`` ones."""
        for name in (f.name for f in fields(Config) if f.name not in free):
            now: Any = _comparable(name, getattr(self, name))
            then: Any = _comparable(name, getattr(fitted, name))
            if now == then:
                continue
            if is_dataclass(now) and type(now) is type(then):  # name the setting inside
                pairs = {f.name: (getattr(now, f.name), getattr(then, f.name)) for f in fields(now)}
                name = next(inner for inner, (new, old) in pairs.items() if new != old)
                now, then = pairs[name]
            elif name == "model":
                now, then = self.model_config.name, fitted.model_config.name
            else:
                now, then = getattr(self, name), getattr(fitted, name)
            reason = f"the model was fitted with {name}={then!r}: {remedy}"
            raise FighterError(reason, argument=name, value=now)

    @property
    def model_config(self) -> ModelConfig:
        """The config object of the model, also where only its name was given."""
        return find_model(self.model)

    @property
    def interval_levels(self) -> tuple[float, ...]:
        """The prediction intervals that were asked for, in per cent, in rising order."""
        return tuple(sorted(as_list(self.level)))

    @property
    def quantile_levels(self) -> tuple[float, ...]:
        """The quantiles to predict, as fractions, in rising order."""
        if quantiles := as_list(self.quantiles):
            return tuple(sorted({float(q) for q in quantiles}))
        tails = [(100 - level) / 200 for level in as_list(self.level)]
        return tuple(sorted({round(q, 6) for tail in tails for q in (tail, 1 - tail)}))


def _check_bounds(given: Any) -> tuple[float | None, float | None]:
    """Return given bounds as (low, high), None where there is none, or raise."""
    needed = "True, False, or a lower and an upper bound, of which one may be None"
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise FighterError(f"needs {needed}", argument="bounds", value=given)
    sides = []
    for side, none in zip(given, (-inf, inf), strict=True):
        if side is not None:
            check_number("bounds", side, needed, lambda x: abs(x) < inf or x == none)  # noqa: B023
        sides.append(None if side in (None, none) else float(side))
    low, high = sides
    if low is None and high is None:
        raise FighterError(f"needs {needed}", argument="bounds", value=given)
    if low is not None and high is not None and low >= high:
        reason = "needs a lower bound that is below the upper one"
        raise FighterError(reason, argument="bounds", value=given)
    return low, high


def nest(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Distribute flat settings over the arguments of a :class:`Config`."""
    model = find_model(settings.get("model", "fighter"))
    homes = {"model": model, "frame": Frame(), "training": Training()}
    owner = {f.name: home for home, part in homes.items() for f in fields(part)}
    own = {f.name for f in fields(Config)}
    nested: dict[str, Any] = {}
    parts: dict[str, dict[str, Any]] = {}
    for name, value in settings.items():
        if name in owner:
            parts.setdefault(owner[name], {})[name] = value
        elif name in own:
            nested[name] = value
        else:
            raise unknown_setting(name, value, model, {*own, *owner})
    for home, values in parts.items():
        nested[home] = type(homes[home])(**values)
    return nested


def unknown_setting(name: str, value: Any, model: ModelConfig, known: set[str]) -> FighterError:
    """Return the error for a setting that the model does not have, or that nothing has."""
    if having := models_with(name):
        reason = (
            f"model {model.name!r} has no such setting; leave it out, or choose a model that has "
            f"it: {', '.join(having)}"
        )
    else:
        reason = f"there is no such setting.{_nearest(name, known)}"
    return FighterError(reason, argument=name, value=value)


def _nearest(name: str, known: Iterable[str]) -> str:
    """Return a question about the setting that was meant, also by its name in other libraries."""
    other = next((ours for ours, names in _OTHER_NAMES.items() if name in names), None)
    return f" Did you mean {other!r}?" if other else did_you_mean(name, known)


def _check_list(name: str, values: Any) -> None:
    """Refuse what is not a list of numbers, or of column names."""
    if values is None and getattr(Config, name) is None:
        return
    if values is None or isinstance(values, str) or not hasattr(values, "__len__"):
        such = "" if values is None else f", such as [{values!r}]"
        raise FighterError(f"needs a list{such}", argument=name, value=values)
    kind = _LISTS[name]
    what = "column names" if kind is str else "numbers"
    for value in values:
        if isinstance(value, bool) or not isinstance(value, kind):
            raise FighterError(f"needs {what}, not {value!r}", argument=name, value=values)


def _comparable(name: str, value: Any) -> Any:
    """Return a setting in a form in which equal settings are equal."""
    if name == "model":
        return find_model(value)
    if name == "season":
        return season_lengths(value)
    return tuple(as_list(value)) if name in _LISTS or isinstance(value, list) else value


def as_list(values: Any) -> list[Any]:
    """Return the values as a list; None is the empty list."""
    return [] if values is None else list(values)
