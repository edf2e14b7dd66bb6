"""Metrics of forecasts: of each series, and of the whole table."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..data import Panel
from ..errors import FighterError, did_you_mean
from .config import Config

DEFAULT = ("mae", "mse", "scaled_mae", "scaled_mse", "coverage")
METRICS = (*DEFAULT, "wape", "bias", "rmsse", "mase", "wql")
SHARES = ("wape", "bias", "wql")  # of the sum of absolute true values


@dataclass(frozen=True, eq=False)
class Scores:
    """The metrics of N series, as fractions.

    Args:
        weights: how much each series counts in the table ``[N]``; None if all count the same.
        windows: number of windows that were scored.
        parts: numerator and denominator ``[N]`` of each metric, by its column.
    """

    weights: np.ndarray | None
    windows: int
    parts: Mapping[str, tuple[np.ndarray, np.ndarray]]

    def columns(self) -> dict[str, np.ndarray]:
        """Return the metrics of each series ``[N]``, NaN where it has none."""
        return {name: _divide(*part) for name, part in self.parts.items()}

    def total(self) -> dict[str, float]:
        """Return the metrics of the whole table, weighted.

        "wape", "bias" and "wql" are sums over all series, divided by each other; the others are
        means over the series that have them.
        """
        weights = 1.0 if self.weights is None else self.weights
        found = {}
        for name, (top, bottom) in self.parts.items():
            if name not in SHARES:
                top = _divide(top, bottom)
                bottom = np.where(np.isnan(top), 0.0, 1.0)
            counts = (weights * bottom).sum()
            found[name] = float(_divide(np.asarray(np.nansum(weights * top)), counts))
        return found


def make_scores(
    weights: np.ndarray | None,
    windows: int,
    names: Sequence[str],
    sums: Mapping[str, np.ndarray],
    scale: np.ndarray,
    naive: np.ndarray,
) -> Scores:
    """Return the metrics ``names`` of N series.

    ``sums`` over the scored targets of each series ``[N]``: their number (``count``), the errors in
    deviations (``absolute``, ``square``, ``signed``), and in the units of the table the absolute
    true values (``truth``) and the pinball loss (``pinball``); also the targets inside each
    interval (``coverage-80``). ``scale`` are the deviations, ``naive`` is :func:`naive_errors`.
    """
    count = sums["count"]
    absolute, square = (_divide(sums[name], count) for name in ("absolute", "square"))
    one = np.ones_like(scale)
    parts = {
        "mae": (absolute * scale, one),
        "mse": (square * scale**2, one),
        "scaled_mae": (absolute, one),
        "scaled_mse": (square, one),
        "wape": (sums["absolute"] * scale, sums["truth"]),
        "bias": (sums["signed"] * scale, sums["truth"]),
        "rmsse": (np.sqrt(square) * scale, naive[0]),
        "mase": (absolute * scale, naive[1]),
        "wql": (2 * sums["pinball"], sums["truth"]),
    }
    covered = [name for name in sums if name.startswith("coverage-")]
    parts |= {name: (100 * sums[name], count) for name in covered}
    columns = [c for name in names for c in (covered if name == "coverage" else (name,))]
    return Scores(weights, windows, {name: parts[name] for name in columns})


def check_metrics(metrics: str | Sequence[str] | None, config: Config) -> tuple[str, ...]:
    """Return the names of the metrics; refuse those that there are not, or that need quantiles."""
    names = (metrics,) if isinstance(metrics, str) else metrics or ()
    if not isinstance(names, Iterable):
        reason = f"needs names among {', '.join(METRICS)}"
        raise FighterError(reason, argument="metrics", value=metrics)
    for name in names:
        if name not in METRICS:
            reason = f"needs one of {', '.join(METRICS)}.{did_you_mean(str(name), METRICS)}"
            raise FighterError(reason, argument="metrics", value=name)
        if name == "wql" and not config.quantile_levels:
            reason = "needs quantiles: fit with level=[80] or quantiles=[0.1, 0.5, 0.9]"
            raise FighterError(reason, argument="metrics", value=name)
        if name == "coverage" and not config.interval_levels:
            raise FighterError("needs level=[80] in fit", argument="metrics", value=name)
    return tuple(dict.fromkeys(names)) or DEFAULT


def naive_errors(panel: Panel) -> np.ndarray:
    """Return the errors of two naive forecasts of a training table, ``[2, N]``.

    The first is the root mean squared change from one step to the next, after the first value that
    is not zero, as in the M5 competition; the second is the mean absolute change from one season to
    the next. 0 where there is no change to measure.
    """
    sold = np.logical_or.accumulate(panel.observed & (panel.values != 0), axis=0)
    season = (*panel.freq.season, 1)[0]
    square = _mean_change(panel.values, panel.observed & sold, 1, 2)
    return np.stack([np.sqrt(square), _mean_change(panel.values, panel.observed, season, 1)])


def _mean_change(values: np.ndarray, seen: np.ndarray, lag: int, power: int) -> np.ndarray:
    both = seen[lag:] & seen[:-lag]
    change = np.where(both, np.abs(values[lag:] - values[:-lag]), 0.0) ** power
    return change.sum(0) / np.maximum(both.sum(0), 1)


def _divide(top: np.ndarray, bottom: np.ndarray) -> np.ndarray:
    return top / np.where(bottom, bottom, np.nan)
