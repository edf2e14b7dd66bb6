"""Exponential smoothing: simple forecasts that correct themselves by a share of each error.

An expert keeps a level, perhaps a trend and a seasonal profile (Brown, Holt and Winters; the drift
is that of the Theta method). Experts differ in how much of an error they correct. How they are
weighed beside each other is told in ``local.py``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import torch
from torch import Tensor

from .._typing import Bool, Float, Int

Values = Float[Tensor, "time series"]
Observed = Bool[Tensor, "time series"]

LEVEL_RATES = (0.01, 0.05, 0.15, 0.35, 0.7, 1.0)
TRENDS = ((0.1, 0.9), (0.05, 0.98), (0.2, 0.98))  # rate, as a share of the level's, and damping
SEASONAL_RATES = (0.0, 0.15, 0.4)
FIRST_VALUES = 5  # that a trend begins with


@dataclass(frozen=True)
class Expert:
    """One way to smooth; a rate is the share of an error by which a state is corrected.

    Args:
        level: rate of the level.
        trend: rate of the trend, as a share of the level's (default: 0, no trend).
        damping: factor of the trend from step to step.
        drift: add half the slope of the straight line through all values, as the Theta method does.
        season: length of the season (default: 1, none).
        seasonal: rate of the seasonal profile.
    """

    level: float
    trend: float = 0.0
    damping: float = 0.0
    drift: bool = False
    season: int = 1
    seasonal: float = 0.0


def make_experts(seasons: Sequence[int]) -> list[Expert]:
    """Return the experts for a table whose seasons have these lengths, the main one first."""
    trends = [{}, {"drift": True}, *({"trend": b, "damping": phi} for b, phi in TRENDS)]
    experts = [Expert(level=a, **trend) for a, trend in product(LEVEL_RATES, trends)]
    for i, season in enumerate(seasons):
        rates = LEVEL_RATES if i == 0 else LEVEL_RATES[::2]
        experts += [
            Expert(level=a, **trend, season=season, seasonal=c)
            for a, trend, c in product(rates, trends if i == 0 else [{}], SEASONAL_RATES)
        ]
        # A profile without a moving level; with rate 1 it is the seasonal naive forecast.
        experts += [Expert(level=0.0, season=season, seasonal=c) for c in (0.0, 0.25, 0.5, 1.0)]
    return experts


def prior_error(expert: Expert) -> float:
    """Return the error that is usual of an expert, in units of the median over all experts.

    On many tables, quick levels beat slow ones, and a trend or a drift beats none.
    """
    slow = 0.3 * (1 - expert.level) ** 2
    return 0.85 + slow + (0.0 if expert.trend or expert.drift else 0.05)


def untested_rows(seasons: Sequence[int]) -> int:
    """Return how many first rows of a series test no expert: two of the shortest seasons."""
    return 2 * max(min(seasons, default=1), 2)


def respond(
    experts: Sequence[Expert],
    x: Float[Tensor, "time series"],
    seen: Bool[Tensor, "time 1"],
    horizon: int,
) -> Float[Tensor, "experts horizon series"]:
    """Run experts over series that are all observed at the same rows."""
    seen = seen.expand_as(x)
    out = x.new_zeros(len(experts), horizon, x.shape[1])
    for season in {e.season for e in experts}:
        index = [i for i, e in enumerate(experts) if e.season == season]
        group = Smoothers([experts[i] for i in index], x, seen, horizon)
        group.advance(len(x))
        out[index] = group.paths(len(x) - 1)
    return out


class Smoothers:
    """Experts of one season over some series, advanced together, a block of rows at a time.

    Only the recursion goes row by row. It runs in numpy, whose calls on small arrays cost a third
    of torch's.
    """

    def __init__(self, experts: Sequence[Expert], x: Values, seen: Observed, horizon: int):
        def column(name: str) -> np.ndarray:
            return np.array([[float(getattr(e, name))] for e in experts])

        self.x, self.seen = np.where(seen.numpy(), x.numpy(), 0.0), seen.numpy()
        self.season, self.begin = experts[0].season, self.seen.argmax(0)
        self.alpha, self.damping, self.drift = column("level"), column("damping"), column("drift")
        self.beta, self.gamma = self.alpha * column("trend"), column("seasonal")
        self.steps = np.arange(1, horizon + 1)
        self.reach = (self.damping**self.steps).cumsum(1)  # [E, H]
        level, slope, profile = (
            part.numpy()
            for part in _first_states(x, seen, torch.from_numpy(self.begin), self.season)
        )
        zero = np.zeros((len(experts), x.shape[1]))
        first, self.needed = level + zero, np.full((1, 1), 2 * self.season)
        if self.season == 1:  # without a trend, the first value is enough
            moving = self.damping > 0
            first = np.where(moving, first, np.take_along_axis(self.x, self.begin[None], 0))
            self.needed = np.where(moving, FIRST_VALUES, 1)
        self.profile = profile
        self.sums, self.slope = np.zeros((5, x.shape[1])), np.zeros((1, x.shape[1]))
        # States after each row of the last block; profiles of the season before it come first.
        self.first = self.end = 0
        self.levels, self.trends = first[None], np.where(self.damping > 0, slope, zero)[None]
        self.profiles = np.repeat(profile[:, None], len(experts), 1)

    def advance(self, end: int) -> None:
        """Correct all states by the errors of the rows up to ``end``."""
        rows = np.arange(self.end, end)
        x, seen, m = self.x[rows], self.seen[rows], self.season
        begun = rows[:, None] >= self.begin
        age = np.where(begun, rows[:, None] - self.begin, 0)[:, None].astype(float)
        slopes = self._slopes(rows, age[:, 0])
        # The first values count alike: a fixed rate would rest on the first one for long.
        known = np.where(self.needed == 1, 1, 2)  # the first level is one value, or a mean
        least = 1 / (age + known), 1 / (age // m + 3)
        fixed = self.alpha == 0
        shape = (len(rows), *self.levels.shape[1:])
        levels, trends = np.empty(shape), np.empty(shape)
        level, trend = self.levels[-1], self.trends[-1]
        profiles = np.empty((m + len(rows) if m > 1 else 0, *shape[1:]))
        profiles[:m] = self.profiles[-m:] if m > 1 else 0.0
        every_seen, every_begun = (np.logical_and.reduce(each, 1) for each in (seen, begun))
        some_drift, some_fixed = self.drift.any(), fixed.any()
        ahead, error, rate, seasonal = (np.empty(shape[1:]) for _ in range(4))
        for i in range(len(rows)):
            np.multiply(self.damping, trend, out=trends[i])
            np.add(level, trends[i], out=ahead)
            if some_drift:
                ahead += self.drift * (slopes[i] / 2)  # known before each row
            np.subtract(x[i], ahead, out=error)
            if m > 1:
                error -= profiles[i]
            if not every_seen[i]:
                np.copyto(error, 0.0, where=~seen[i])
            np.maximum(self.alpha, least[0][i], out=rate)
            if some_fixed:
                np.copyto(rate, 0.0, where=fixed)
            np.multiply(rate, error, out=levels[i])
            levels[i] += ahead
            if m > 1:
                np.maximum(self.gamma, least[1][i], out=seasonal)
                np.subtract(1.0, rate, out=rate)
                seasonal *= rate
                seasonal *= error
                np.add(profiles[i], seasonal, out=profiles[m + i])
            np.multiply(self.beta, error, out=error)
            trends[i] += error
            if not every_begun[i]:
                np.copyto(levels[i], level, where=~begun[i])
                np.copyto(trends[i], trend, where=~begun[i])
            level, trend = levels[i], trends[i]
        self.first, self.end, self.slope = self.end, end, slopes
        self.levels, self.trends, self.profiles = levels, trends, profiles

    def ready(self) -> Bool[Tensor, "rows experts series"]:
        """Tell which experts have seen the rows that their first states come from."""
        age = np.arange(self.first, self.end)[:, None, None] - self.begin + 1
        ready = age >= self.needed
        return torch.from_numpy(ready).expand(-1, len(self.alpha), -1)

    def path(self, h: int) -> Float[Tensor, "rows experts series"]:
        """Forecast step h after each row of the last block."""
        y = self.levels + self.reach[:, h - 1 : h] * self.trends
        y += self.drift * (self.slope[1:, None] * (h / 2))
        if self.season > 1:
            place = self._place(h)
            y += self.profiles[place : place + len(y)]
        return torch.from_numpy(y)

    def paths(self, t: int) -> Float[Tensor, "experts horizon series"]:
        """Forecast all steps after row t of the last block."""
        i = t - self.first
        y = self.levels[i][:, None] + self.reach[..., None] * self.trends[i][:, None]
        y += self.drift[:, None] * (self.steps[:, None] * (self.slope[1 + i] / 2))
        if self.season > 1:
            y += self.profiles[[i + self._place(h) for h in self.steps.tolist()]].swapaxes(0, 1)
        return torch.from_numpy(y)

    def _place(self, h: int) -> int:
        """Return the row of ``profiles`` that step h after the first row of the block takes."""
        return (h - 1) % self.season + 1

    def _slopes(self, rows: np.ndarray, age: np.ndarray) -> np.ndarray:
        """Return the slopes of the straight lines through all values up to each row.

        The values are less the first seasonal profile. The slope before the rows comes first.
        """
        seen = self.seen[rows]
        rest = np.where(seen, self.x[rows] - self.profile[rows % self.season], 0.0)
        age = np.where(seen, age, 0.0)
        terms = np.stack([seen, age, rest, age * age, age * rest]).cumsum(1) + self.sums[:, None]
        self.sums = terms[:, -1]
        n, ages, rests, squares, products = terms
        spread = n * squares - ages * ages
        slope = (n * products - ages * rests) / np.where(spread > 0, spread, 1.0)
        slope = np.where((n >= 3) & (spread > 0), slope, 0.0)
        return np.concatenate([self.slope[-1:], slope])


def _first_states(
    x: Values, seen: Observed, begin: Int[Tensor, "series"], season: int
) -> tuple[Float[Tensor, "series"], Float[Tensor, "series"], Float[Tensor, "season series"]]:
    """Return level, slope and seasonal profile from the first two seasons (or five values)."""
    width = 2 * season if season > 1 else FIRST_VALUES
    index = begin + torch.arange(width)[:, None]
    on = (seen.gather(0, index.clamp(max=len(x) - 1)) & (index < len(x))).to(x)
    first = x.gather(0, index.clamp(max=len(x) - 1)) * on
    zero = x.new_zeros(season, x.shape[1])
    mean = first.sum(0) / on.sum(0).clamp(min=1)
    if season == 1:
        place = torch.arange(width).to(x)[:, None]
        centre = (place * on).sum(0) / on.sum(0).clamp(min=1)
        away = (place - centre) * on
        slope = (away * first).sum(0) / away.square().sum(0).clamp(min=1e-9)
        slope = torch.where(on.sum(0) >= 3, slope, 0.0)
        return mean - slope * (centre + 1), slope, zero
    first, on = first.view(2, season, -1), on.view(2, season, -1)
    means = first.sum(1) / on.sum(1).clamp(min=1)  # of the two seasons
    slope = (means[1] - means[0]) / season
    middle = (season - 1) / 2
    trend = slope * (torch.arange(season).to(x)[:, None] - middle)
    profile = ((first - (means[:, None] + trend) * on).sum(0)) / on.sum(0).clamp(min=1)
    profile = profile - profile.mean(0)
    whole = (2 * on.sum(1) >= season).all(0)  # otherwise there is no season to take
    phase = (begin + torch.arange(season)[:, None]) % season
    return (
        torch.where(whole, means[0] - slope * (middle + 1), mean),
        torch.where(whole, slope, 0.0),
        zero.scatter(0, phase, torch.where(whole, profile, 0.0)),
    )
