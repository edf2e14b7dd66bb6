"""The settings that a user did not make, chosen from the size and the rhythm of the data.

Nothing here looks at validation or test rows.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..data.panel import Panel
from ..errors import FighterError

MEMBERS = 4


@dataclass(frozen=True)
class Plan:
    """All that is decided before training; what ``Forecaster.plan`` shows."""

    lookback: int
    horizon: int
    validation: int  # rows at the end
    quantiles: tuple[float, ...]
    cycle: int | None
    calendar: tuple[int, ...]  # which of the frequency's calendar features are used
    epochs: int
    patience: int
    network: dict[str, Any]  # options of the network
    batch_size: int = 32
    lr: float = 1e-3
    cycle_before_norm: bool = False  # whether the cycle is taken off before windows are normalised
    reversion: bool = False
    discount: float = 0.0  # per step


def choose_lookback(horizon: int, seasons: tuple[int, ...], rows: int) -> int:
    """Two seasons or two horizons, 96 to 512 steps, and a third of what there is at most."""
    wanted = max(2 * (seasons[0] if seasons else 1), 2 * horizon, 96)
    return max(min(wanted, 512, (rows - horizon) // 3), 1)


def choose_validation(horizon: int, rows: int, lookback: int) -> int:
    """The last 15 % of rows, one horizon at least; none if training would have nothing left."""
    wanted = max(horizon, round(0.15 * rows))
    if rows - wanted >= lookback + horizon:
        return wanted
    return horizon if rows - horizon >= lookback + horizon else 0


def choose_size(points: int, members: int = 1) -> tuple[int, float]:
    """Width and dropout of each member by the number of observed training values.

    Together they are not wider than 1,024 columns: four then multiply about as much as one of 512.
    """
    sizes = [(300_000, 512, 0.1), (30_000, 256, 0.3), (3_000, 128, 0.2), (0, 64, 0.2)]
    width, dropout = next(size for least, *size in sizes if points >= least)
    return min(int(width), max(1024 // members // 8 * 8, 8)), dropout


def choose_rate(points: int, members: int) -> float:
    """Learning rate; several members bear twice as much, as their mean evens out the noise.

    Not those of a small table, which then learn it by heart too soon.
    """
    return 2e-3 if members > 1 and points >= 30_000 else 1e-3


def choose_batch(series: int) -> int:
    """32 windows, fewer of many series: 4,096 series in a step, four windows at least."""
    return min(max(4096 // series, 4), 32)


def choose_epochs(steps: int) -> tuple[int, int]:
    """Epochs and patience: 2,000 steps at least, and 400 without progress before giving up."""
    return min(max(-(-2000 // steps), 10), 200), max(3, -(-400 // steps))


def choose_discount(discount: float, seasons: tuple[int, ...]) -> float:
    """That of a season, spread over its steps; over 24 where it is shorter, or there is none."""
    return discount / max((*seasons[:1], 24))


def choose_calendar(panel: Panel, rows: int, cycle: int | None) -> tuple[int, ...]:
    """Of the year if the training rows show two; of the day and the week if no cycle knows them.

    What a cycle knows is not told again, to be learned by heart.
    """
    years = panel.times[rows - 1] - panel.times[0] >= 2 * 365 * 86_400 * 10**9
    names = panel.freq.calendar_names
    return tuple(i for i, name in enumerate(names) if (years if "year" in name else not cycle))


def choose_period(panel: Panel, rows: int) -> int | None:
    """The season whose profile, from the first half of the training rows, best fits the second.

    None if no profile fits better than none. Slow movement is taken out first: the mean over the
    longest season around each row.
    """
    seasons = [season for season in panel.freq.season if 4 * season <= rows]
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
    """Whether look-backs show whole seasons, such as days, of a longer cycle, such as a week.

    Their mean then says which days they hold, not at which level the series is.
    """
    return any(season <= lookback for season in panel.freq.season) and (cycle or 0) > lookback


def _mean(rows: np.ndarray) -> np.ndarray:
    seen = ~np.isnan(rows)
    return np.where(seen, rows, 0).sum(0) / np.maximum(seen.sum(0), 1)


def _running_mean(values: np.ndarray, width: int) -> np.ndarray:
    """The mean over ``width`` rows around each, over what is there."""
    seen = ~np.isnan(values)
    zero = np.zeros((1, values.shape[1]))
    total = np.concatenate([zero, np.where(seen, values, 0).cumsum(0)])
    count = np.concatenate([zero, seen.cumsum(0)])
    index = np.arange(len(values))
    low = np.maximum(index - width // 2, 0)
    high = np.minimum(index + width - width // 2, len(values))
    return (total[high] - total[low]) / np.maximum(count[high] - count[low], 1)


def check_rows(panel: Panel, lookback: int, horizon: int) -> None:
    """Enough rows for one window to train on; the message has the numbers in it."""
    needed = lookback + horizon
    if panel.length >= needed:
        return
    longest = int(panel.observed.sum(0).argmax())
    among = f" (the longest of {panel.n_series})" if panel.n_series > 1 else ""
    raise FighterError(
        f"series {panel.ids[longest]!r} has {int(panel.observed[:, longest].sum())} points{among}, "
        f"needs lookback {lookback} + horizon {horizon} = {needed}: "
        "give more history, or a smaller lookback or horizon"
    )
