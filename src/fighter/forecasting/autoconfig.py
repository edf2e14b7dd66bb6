"""Settings that the user left open, chosen from the size and the rhythm of the training rows.

Nothing here looks at validation or test rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from ..data.panel import Panel
from ..errors import FighterError
from ..models import Fighter, ModelConfig, Pretrained, Task
from ..models.autoregression import MEMORY
from ..models.naive import SeasonalNaive
from ..models.vector import MOST_SERIES
from ..training.parallel import own_random_state
from .config import Config

MEMBERS = 2
SMALL = 30_000  # observed training values
LARGE = 100_000  # from so many on, the pretrained network is not used
FEWEST_WINDOWS = 64  # times series: with fewer, smoothing forecasts alone
MANY_SERIES = 500  # above this, weights belong to no series, and a step takes some of them
SERIES_AT_ONCE, WINDOWS_AT_ONCE = 128, 16  # of a step, if there are many series
STEPS = 250  # of an epoch, if there are many series


@dataclass(frozen=True)
class Plan:
    """Everything decided from the table; ``Forecaster.plan`` shows it."""

    lookback: int
    horizon: int
    validation: int  # rows at the end
    quantiles: tuple[float, ...]
    cycle: int | None
    calendar: tuple[int, ...]  # positions of the calendar features in use
    epochs: int
    patience: int
    model: ModelConfig  # with every setting chosen
    batch_size: int = 32
    lr: float = 1e-3
    cycle_before_norm: bool = False  # remove the cycle before windows are normalised
    reversion: bool = False
    halves: bool = False  # only half of the members use reversion
    discount: float = 0.0  # per step
    smoothing: bool = False  # mix with exponential smoothing
    seasons: tuple[int, ...] = ()  # that smoothing knows
    trained: bool = True  # False if the rows are too few for a network
    learn_all: bool = False  # at the end, learn again from all rows, validation rows too
    series_at_once: int = 0  # in a training step; 0 stands for all
    pretrained: bool = False  # weigh forecasts of the pretrained network, too
    vector: bool = False  # weigh forecasts of a vector autoregression, too
    network_share: float = 1.0  # mean over the series
    pretrained_share: float = 0.0  # of the rest, in the mean; smoothing has what is left
    vector_share: float = 0.0  # of the vector autoregression in that mixture, in the mean
    point: str = "median"  # or "mean"
    count_share: float = 0.0  # of a distribution of counts in the quantiles
    tuned_share: float = 0.0  # of the fine-tuned weights in those of the pretrained network
    tuned_gain: float = 0.0  # share by which they lowered the loss on validation rows, or would
    errors: Mapping[str, float] = field(default_factory=dict)  # on validation rows, in deviations
    # How much of the effects of covariates is used where nothing is trained, and the errors of the
    # forecasts without and with them on earlier rows, in deviations.
    covariates: Mapping[str, float] = field(default_factory=dict)
    # Errors of the network on validation rows with each graph that was tried out, in those of the
    # first one.
    graphs: Mapping[str, float] = field(default_factory=dict)

    @property
    def mixes(self) -> bool:
        """Whether forecasts of each series by itself are mixed with the network, or stand alone."""
        return self.smoothing or self.pretrained


def make_plan(config: Config, panel: Panel) -> Plan:
    """Decide everything that training needs; settings in ``config`` take precedence."""
    frame, training, horizon = config.frame, config.training, config.horizon
    season = panel.freq.season
    lookback = config.lookback or choose_lookback(horizon, season, panel.length)
    cycle = None if frame.cycle in ("auto", None) else int(frame.cycle)
    check_cycle(cycle, panel.length - horizon)
    if isinstance(config.model_config, SeasonalNaive):
        lookback = max(lookback, cycle or choose_naive_lookback(config, panel))
    smoothing = uses_smoothing(config)
    mixes = smoothing or bool(frame.pretrained) or isinstance(config.model_config, Pretrained)
    if not mixes:
        check_rows(panel, lookback, horizon)
    validation = validation_rows(config, panel, lookback)
    rows = panel.length - validation
    check_cycle(cycle, rows - horizon)
    if config.quantile_levels and not validation and (not mixes or config.validation == 0):
        raise no_calibration(config, panel, lookback)
    values = int(panel.observed[:rows].sum())
    if (panel.ends < panel.length).any():  # validation rows are the last ones of each series
        values = round(int(panel.observed.sum()) * rows / panel.length)
    model = choose_model(config.model_config, panel.n_series, values)
    trainable = model.trainable
    some = choose_series_at_once(model, panel.n_series, cycle)
    if frame.cycle == "auto" and trainable and not some:
        cycle = choose_period(panel, rows)
    batch_size = training.batch_size or (
        WINDOWS_AT_ONCE if some else choose_batch(panel.n_series, values)
    )
    steps = max(-(-(rows - lookback - horizon + 1) // batch_size), 1)
    steps = STEPS if some else steps
    epochs, patience = choose_epochs(steps, values) if trainable else (1, 1)
    return Plan(
        lookback=lookback,
        horizon=horizon,
        validation=validation,
        quantiles=config.quantile_levels,
        cycle=cycle,
        calendar=choose_calendar(panel, rows, cycle) if frame.calendar else (),
        epochs=training.max_epochs or epochs,
        patience=training.patience or patience,
        model=model,
        batch_size=batch_size,
        lr=choose_rate(values, getattr(model, "members", 1))
        if training.lr is None
        else training.lr,
        cycle_before_norm=frame.reversion and choose_cycle_before_norm(panel, lookback, cycle),
        reversion=frame.reversion,
        halves=frame.reversion and getattr(model, "members", 1) % 2 == 0,
        discount=choose_discount(training.discount, season),
        smoothing=smoothing,
        seasons=smoothing_seasons(panel) if mixes else (),
        trained=not isinstance(model, Pretrained)
        and (not smoothing or enough_to_train(panel, rows, lookback, horizon)),
        learn_all=smoothing and validation > 0 and learns_all(config, values),
        series_at_once=some,
        pretrained=mixes and uses_pretrained(config, values),
        vector=smoothing and not some and uses_vector(config, model, panel.n_series),
        point=config.point,
    )


def choose_series_at_once(model: ModelConfig, series: int, cycle: int | None) -> int:
    """Return how many of many series a training step takes; 0 for all.

    Weights that belong to series would be trained too seldom: such a network takes all.
    """
    if isinstance(model, Pretrained) and series > MANY_SERIES:
        return SERIES_AT_ONCE
    if series <= MANY_SERIES or cycle or not model.trainable:
        return 0
    with own_random_state():
        core = model.build(Task(lookback=8, horizon=1, series=2))
    return 0 if core.series_specific else SERIES_AT_ONCE


def learns_all(config: Config, values: int) -> bool:
    """Tell whether a small table is learned again with the rows that chose the epoch.

    If the user chose the validation rows, forecasts of them stay honest: they are not learned.
    """
    chosen = config.validation is not None or config.training.time_budget is not None
    return not chosen and values < SMALL


def uses_smoothing(config: Config) -> bool:
    """Tell whether exponential smoothing and autoregressions are mixed in."""
    given = config.frame.smoothing
    alone = isinstance(config.model_config, Fighter | Pretrained)
    return alone if given is None else given


def uses_pretrained(config: Config, values: int) -> bool:
    """Tell whether the pretrained network is one of the forecasts that are mixed.

    A large table has enough rows to learn from itself, and its many series take long to forecast.
    """
    given = config.frame.pretrained
    if isinstance(config.model_config, Pretrained):
        return True
    return values < LARGE if given is None else given


def uses_vector(config: Config, model: ModelConfig, series: int) -> bool:
    """Tell whether a vector autoregression is one of the forecasts that are mixed.

    It lets series see each other, so it is left out where the model does not.
    """
    if not 2 <= series <= MOST_SERIES:
        return False
    if config.frame.vector is not None:
        return config.frame.vector
    if not isinstance(model, Fighter) or model.nodes == "patch" or model.adjacency == "none":
        return False
    return model.kappa > 1 and model.powers != (0,) and model.groups is None


def enough_to_train(panel: Panel, rows: int, lookback: int, horizon: int) -> bool:
    """Tell whether the training rows hold enough windows for a network to learn from."""
    return (rows - lookback - horizon + 1) * panel.n_series >= FEWEST_WINDOWS


def smoothing_seasons(panel: Panel) -> tuple[int, ...]:
    """Return the seasons that smoothing knows: at most two that the table holds twice."""
    longest = int(panel.observed.sum(0).max())
    return tuple(m for m in panel.freq.season if m > 1 and 2 * m <= min(longest, MEMORY))[:2]


def continue_plan(plan: Plan, config: Config, panel: Panel) -> Plan:
    """Return the plan of a warm start: the old one with the training settings given now."""
    training = config.training
    return replace(
        plan,
        validation=validation_rows(config, panel, plan.lookback),
        learn_all=False,
        epochs=training.max_epochs or plan.epochs,
        patience=training.patience or plan.patience,
        batch_size=training.batch_size or plan.batch_size,
        lr=plan.lr if training.lr is None else training.lr,
        discount=choose_discount(training.discount, panel.freq.season),
    )


def check_cycle(cycle: int | None, rows: int, argument: str = "cycle") -> None:
    """Refuse a cycle that is longer than the training rows before their last horizon."""
    if cycle and cycle > rows:
        held = f"so that the training rows hold the {argument} and a target"
        raise FighterError(f"needs at most {rows} steps, {held}", argument=argument, value=cycle)


def no_calibration(config: Config, panel: Panel, lookback: int) -> FighterError:
    """Return the error for intervals without validation rows to calibrate them on."""
    what = "intervals are calibrated on validation rows"
    if config.validation == 0:
        reason = f"{what}: give at least {config.horizon}, or ask for no intervals"
        return FighterError(reason, argument="validation", value=0)
    return FighterError(
        f"{what}, and {panel.length} rows leave none beside look-back {lookback} + horizon "
        f"{config.horizon}: give at least {lookback + 2 * config.horizon} rows, or ask for no "
        "intervals"
    )


def choose_model(model: ModelConfig, series: int, values: int) -> ModelConfig:
    """Fill in the settings that are None, by the number of series and of training values."""
    names = {f.name for f in fields(model)}
    chosen: dict[str, Any] = {}
    many = series > MANY_SERIES and getattr(model, "nodes", None) == "series"
    if "adjacency" in names:
        chosen = {"adjacency": "cosine", "members": 1}
        if getattr(model, "nodes", "series") == "series":
            adjacency = "cosine" if getattr(model, "groups", None) else "lazy"
            adjacency = "none" if many and adjacency == "lazy" else adjacency
            chosen = {"adjacency": adjacency, "members": MEMBERS}
    if "width" in names:
        members = getattr(model, "members", None) or chosen.get("members", 1)
        width, dropout = choose_size(values, members)
        if many:
            width, dropout = 128, 0.1
        chosen |= {"width": width, "dropout": dropout}
    return replace(
        model, **{k: v for k, v in chosen.items() if k in names and getattr(model, k) is None}
    )


def validation_rows(config: Config, panel: Panel, lookback: int) -> int:
    """Return the number of validation rows, given or chosen."""
    horizon, given = config.horizon, config.validation
    if given is None:
        return choose_validation(horizon, panel.length, lookback)
    most = panel.length - lookback - horizon
    if given and not horizon <= given <= most:
        raise FighterError(
            f"needs 0, or from horizon {horizon} to {most} of the {panel.length} rows, so that "
            f"look-back {lookback} + horizon {horizon} are left to train on",
            argument="validation",
            value=given,
        )
    return given


def choose_lookback(horizon: int, seasons: tuple[int, ...], rows: int) -> int:
    """Return two seasons or two horizons, 96 to 512 steps, and at most a third of the rows."""
    wanted = max(2 * (seasons[0] if seasons else 1), 2 * horizon, 96)
    return max(min(wanted, 512, (rows - horizon) // 3), 1)


def choose_naive_lookback(config: Config, panel: Panel) -> int:
    """Return the first season if it was given, or if it fits where the look-back was left open."""
    season = (*panel.freq.season, 1)[0]
    if panel.freq.given_season:
        check_cycle(season, panel.length - config.horizon, "season")
        return season
    fits = season + 2 * config.horizon <= panel.length
    return season if config.lookback is None and fits else 1


def choose_validation(horizon: int, rows: int, lookback: int) -> int:
    """Return 15 % of the rows, at least one horizon; 0 if training would have nothing left."""
    wanted = max(horizon, round(0.15 * rows))
    if rows - wanted >= lookback + horizon:
        return wanted
    return horizon if rows - horizon >= lookback + horizon else 0


def choose_size(values: int, members: int = 1) -> tuple[int, float]:
    """Return width and dropout of each member, by the number of observed training values.

    All members together have at most 512 columns: two of 256 cost half as much as one of 512.
    """
    sizes = [(300_000, 512, 0.1), (SMALL, 256, 0.3), (0, 64, 0.2)]
    width, dropout = next(size for least, *size in sizes if values >= least)
    return min(int(width), max(512 // members // 8 * 8, 8)), dropout


def choose_rate(values: int, members: int) -> float:
    """Return the learning rate: twice as high for several members, whose mean evens out noise.

    Small tables keep the lower rate: at the higher one they overfit too soon.
    """
    return 2e-3 if members > 1 and values >= SMALL else 1e-3


def choose_batch(series: int, values: int) -> int:
    """Return 32 windows, or fewer for many series, at least 4.

    A step has about 4,096 series, or 1,024 of a small table.
    """
    return min(max((1024 if values < SMALL else 4096) // series, 4), 32)


def choose_epochs(steps: int, values: int) -> tuple[int, int]:
    """Return epochs and patience: 2,500 steps, at least 2 epochs, and 400 steps without progress.

    Small tables have 600 and 150 steps: more bring nothing there. An epoch has at least 20 steps,
    see :func:`choose_repeats`.
    """
    steps *= choose_repeats(steps)
    least, patience = (600, 150) if values < SMALL else (2500, 400)
    return max(-(-least // steps), 2), max(3, -(-patience // steps))


def choose_repeats(steps: int) -> int:
    """Return how often an epoch repeats the windows, so that it has at least 20 steps.

    Otherwise most of the time would go into validation.
    """
    return -(-20 // steps)


def choose_discount(discount: float, seasons: tuple[int, ...]) -> float:
    """Return the per-step discount: the seasonal one divided by the season (at least 24 steps)."""
    return discount / max((*seasons[:1], 24))


def choose_calendar(panel: Panel, rows: int, cycle: int | None) -> tuple[int, ...]:
    """Return which calendar features to use.

    Yearly ones if training covers two years; daily and weekly ones only without a learned cycle,
    which already encodes them.
    """
    years = panel.times[rows - 1] - panel.times[0] >= 2 * 365 * 86_400 * 10**9
    names = panel.freq.calendar_names
    return tuple(i for i, name in enumerate(names) if (years if "year" in name else not cycle))


def choose_period(panel: Panel, rows: int) -> int | None:
    """Return the season whose profile in the first half of training best fits the second half.

    None if every profile fits worse than no profile. Slow movement is removed first: the running
    mean over the longest season.
    """
    seasons = [season for season in panel.freq.season if 1 < season <= rows // 4]
    if not seasons:
        return None
    values = np.where(panel.observed[:rows], panel.values[:rows], np.nan)
    values = values - _running_mean(values, max(seasons))
    seen = ~np.isnan(values)
    scale = np.sqrt(_mean(np.square(values)))
    values = np.where(seen, values, 0) / np.where(scale > 1e-12, scale, 1)
    half = rows // 2

    def error(period: int) -> float:
        phase = np.arange(rows) % period
        total, count = np.zeros((2, period, values.shape[1]))
        np.add.at(total, phase[:half], values[:half])
        np.add.at(count, phase[:half], seen[:half])
        profile = total / np.maximum(count, 1)
        return float(((values[half:] - profile[phase[half:]]) ** 2)[seen[half:]].mean())

    if not seen[half:].any():
        return None
    best = min(seasons, key=error)
    return best if error(best) < float((values[half:] ** 2)[seen[half:]].mean()) else None


def choose_cycle_before_norm(panel: Panel, lookback: int, cycle: int | None) -> bool:
    """Tell whether look-backs hold whole seasons, such as days, of a longer cycle, such as a week.

    The mean of such a window depends on which days it holds, so the cycle is removed first.
    """
    return any(season <= lookback for season in panel.freq.season) and (cycle or 0) > lookback


def check_rows(panel: Panel, lookback: int, horizon: int) -> None:
    """Refuse a panel that is too short for one window."""
    needed = lookback + horizon
    if panel.length >= needed:
        return
    longest = int(panel.observed.sum(0).argmax())
    among = f" (the longest of {panel.n_series})" if panel.n_series > 1 else ""
    raise FighterError(
        f"series {panel.ids[longest]!r} has {int(panel.observed[:, longest].sum())} points{among}, "
        f"needs look-back {lookback} + horizon {horizon} = {needed}: "
        "give more history, or a smaller look-back or horizon"
    )


def _mean(rows: np.ndarray) -> np.ndarray:
    seen = ~np.isnan(rows)
    return np.where(seen, rows, 0).sum(0) / np.maximum(seen.sum(0), 1)


def _running_mean(values: np.ndarray, width: int) -> np.ndarray:
    """Return the mean of the observed values in a window of ``width`` rows around each row."""
    seen = ~np.isnan(values)
    zero = np.zeros((1, values.shape[1]))
    total = np.concatenate([zero, np.where(seen, values, 0).cumsum(0)])
    count = np.concatenate([zero, seen.cumsum(0)])
    index = np.arange(len(values))
    low = np.maximum(index - width // 2, 0)
    high = np.minimum(index + width - width // 2, len(values))
    return (total[high] - total[low]) / np.maximum(count[high] - count[low], 1)
