"""Values that are only lower bounds, such as the sales of a day on which the shelf was empty.

Each is replaced by what was to be expected of it: the mean of a normal distribution around the
level and the season so far, cut off at the lower bound. Only earlier rows count.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from ..errors import FighterError
from .panel import Panel

LEVEL, SEASONAL, SPREAD = 0.1, 0.15, 0.05  # rates: of level, seasonal profile and squared errors
FEWEST_ERRORS = 3  # before, a value counts as the larger of the bound and the level


def read_marks(cells: np.ndarray, name: str) -> np.ndarray:
    """Return where a column ``[T, N or 1]`` of 0 and 1 marks lower bounds; an empty cell is 0."""
    wrong = ~(np.isnan(cells) | np.isin(cells, (0, 1)))
    if wrong.any():
        reason = f"the column holds {cells[wrong][0]:g}; needs 1 for a lower bound, else 0"
        raise FighterError(reason, argument="censored", value=name)
    return cells == 1


def with_expected(panel: Panel) -> Panel:
    """Replace the lower bounds in a series' own rows by the values that were to be expected."""
    if panel.at_least is None:
        return panel
    own = np.arange(panel.length)[:, None] >= panel.begins
    marked = ~np.isnan(panel.at_least) & own
    series = np.flatnonzero(marked.any(0))
    values = panel.values.copy()
    season = (*panel.freq.season, 1)[0]
    season = season if 2 * season <= panel.length else 1
    values[:, series] = _expected(
        np.where(marked, panel.at_least, panel.values)[:, series],
        panel.observed[:, series],
        marked[:, series],
        season,
    )
    return replace(panel, values=values)


def without_bounds(panel: Panel) -> np.ndarray:
    """Return where values are observed exactly, bool ``[T, N]``."""
    return panel.observed if panel.at_least is None else panel.observed & np.isnan(panel.at_least)


def _expected(
    values: np.ndarray, observed: np.ndarray, marked: np.ndarray, season: int
) -> np.ndarray:
    """Run exponential smoothing over ``[T, N]`` and replace the marked values as it goes."""
    values, count = values.copy(), np.zeros(values.shape[1])
    level, square = np.zeros_like(count), np.zeros_like(count)
    profile = np.zeros((season, values.shape[1]))
    errors = np.zeros_like(count)  # number of exact values that tell the spread
    for t, (row, seen, mark) in enumerate(zip(values, observed, marked, strict=True)):
        phase, first = t % season, count == 0
        ahead = np.where(first, row, level + profile[phase])
        deviation = np.where(errors >= FEWEST_ERRORS, np.sqrt(square), 0.0)
        mean, second = _moments_above(row - ahead, deviation)
        row[:] = np.where(mark, np.maximum(row, ahead + mean), row)
        error = np.where(seen, row - ahead, 0.0)
        rate = np.maximum(LEVEL, 1 / (count + 1))
        level = np.where(first & seen, row, level + rate * error)
        if season > 1:
            profile[phase] += np.maximum(SEASONAL, 1 / (count // season + 2)) * (1 - rate) * error
        errors = errors + (seen & ~mark & ~first)
        rate = np.maximum(SPREAD, 1 / np.maximum(errors, 1))
        known = seen & ~first & (~mark | (deviation > 0))
        squared = np.where(mark, second, error**2)
        square = np.where(known, square + rate * (squared - square), square)
        count = count + seen
    return values


def _moments_above(least: np.ndarray, deviation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean of a normal variable around 0 that is at least ``least``, and of its square.

    Without a deviation, it is the bound, or 0 if that is larger.
    """
    unit = np.where(deviation > 0, deviation, 1.0)
    z = torch.from_numpy(least / unit)
    ratio = (-z.square() / 2 - torch.special.log_ndtr(-z)).exp().numpy() / np.sqrt(2 * np.pi)
    mean = np.where(deviation > 0, unit * ratio, np.maximum(least, 0.0))
    return mean, unit**2 + least * mean


def check_column(censored: Any, past: tuple[str, ...], future: tuple[str, ...]) -> None:
    """Refuse what is not the name of a column, or is one of the covariates."""
    if censored is None:
        return
    if not isinstance(censored, str):
        raise FighterError("needs the name of a column", argument="censored", value=censored)
    if censored in (*past, *future):
        reason = "is a covariate, too; whether a shelf is empty is not known ahead: take it out"
        raise FighterError(reason, argument="censored", value=censored)
