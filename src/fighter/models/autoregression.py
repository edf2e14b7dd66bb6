"""Autoregressions: forecasts that are linear in the last values, fitted by ridge regression.

They forecast what exponential smoothing cannot: swings without a fixed length, the pull back to a
mean, and seasons whose shape follows from the last values. Each series has its own weights, pulled
towards zero.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from .._typing import Bool, Float, Int
from .ridge import LaggedSums

MEMORY = 1024  # rows that are looked back at, and fitted on
MOST_LAGS = 60  # in a row
MOST_SEASONS = 8  # that a mean is taken over
PLAIN_LAGS = 12  # without a season
STEADY = 5.0  # largest response, ever after, to a change of 1; others would run away
LONG = 64  # values back: forecasts are made of all of them in one product
FIRST_FIT, MOST_APART = 8, 64  # rows; in between, weights are fitted again every eighth row

Values = Float[Tensor, "time series"]


class Kind(NamedTuple):
    """What is regressed on what.

    Args:
        difference: 0 for the values, else the steps over which their difference is taken.
        means: regress on the means over the last seasons, too.
    """

    difference: int = 0
    means: bool = False


def make_kinds(seasons: Sequence[int]) -> list[Kind]:
    """Return the autoregressions for a table whose seasons have these lengths."""
    if not seasons:
        return [Kind(), Kind(1)]
    return [Kind(), Kind(1), Kind(seasons[0]), Kind(means=True)]


@lru_cache(maxsize=1024)
def choose_features(
    rows: int, seasons: tuple[int, ...], kind: Kind
) -> tuple[Int[Tensor, "lags"], Float[Tensor, "features lags"]]:
    """Return which earlier values are used, and what is regressed on: weighted sums of them.

    These are the last values and those around one and two seasons, each by itself, and perhaps the
    means over the last seasons at this step and the one before.
    """
    rows -= kind.difference
    dense = min(max(seasons[0] + 1, 4) if seasons else PLAIN_LAGS, rows // 5, MOST_LAGS)
    around = [k for m in seasons for k in (m - 1, m, m + 1, 2 * m) if k < rows / 2.5]
    single = sorted({1, *range(1, dense + 1), *(max(k, 1) for k in around)})
    means = []
    for m in seasons if kind.means else ():
        count = min(int(rows / 2.5 / m), MOST_SEASONS)
        if count >= 3:
            means += [[m * k + shift for k in range(1, count + 1)] for shift in (0, 1)]
    lags = sorted({lag for feature in (single, *means) for lag in feature})
    weights = torch.zeros(len(single) + len(means), len(lags), dtype=torch.float64)
    for i, feature in enumerate([*([lag] for lag in single), *means]):
        weights[i, [lags.index(lag) for lag in feature]] = 1 / len(feature)
    return torch.tensor(lags), weights


@dataclass(frozen=True)
class Weights:
    """Autoregressions as they were fitted after some row. Series come last, for speed.

    Args:
        intercept: constant of each, ``[E, N]``.
        lags: how many steps ago the values are that count for any of them.
        weight: the weight of each of these values ``[lags, E, N]``.
        response: response of this and each later step to a change of 1, ``[H, E, N]``.
        usable: False where there were too few rows, or where forecasts would run away.
    """

    intercept: Float[Tensor, "experts series"]
    lags: Int[Tensor, "lags"]
    weight: Float[Tensor, "lags experts series"]
    response: Float[Tensor, "horizon experts series"]
    usable: Bool[Tensor, "experts series"]

    @property
    def reach(self) -> int:
        """Number of last values that a forecast is made of."""
        return int(self.lags[-1])

    def forecast(
        self, last: Float[Tensor, "rows reach series"], horizon: int
    ) -> Float[Tensor, "rows experts horizon series"]:
        """Forecast step by step after the last values."""
        return iterate(self.intercept, self.lags, self.weight, last, horizon)

    def map_to(
        self, h: int
    ) -> tuple[Float[Tensor, "experts series"], Float[Tensor, "reach experts series"]]:
        """Return step h as a constant plus weights of the last values, the latest one first."""
        constant = self.intercept * self.response[:h].sum(0)
        weights = self.weight.new_zeros(self.reach, *self.intercept.shape)
        for lag, own in zip(self.lags.tolist(), self.weight, strict=True):
            # A value j steps before the last one counts with this lag for step lag - j first.
            first = max(lag - h, 0)
            weights[first:lag].addcmul_(own, self.response[h - lag + first : h])
        return constant, weights

    def steps(
        self, steps: Sequence[int], last: Float[Tensor, "values series"]
    ) -> Float[Tensor, "rows every series"]:
        """Forecast some steps after each row of ``last`` that has enough rows before it."""
        constants, weights = zip(*(self.map_to(h) for h in steps), strict=True)
        constant, weight, reach = torch.cat(constants), torch.cat(weights, 1), self.reach
        if reach > LONG:
            made = torch.einsum("tnr,ren->ten", last.unfold(0, reach, 1), weight.flip(0))
            return made.add_(constant)
        rows = len(last) - reach + 1
        made = constant.repeat(rows, 1, 1)
        for back, own in enumerate(weight.unbind(), 1):  # quicker than one product for each series
            made.addcmul_(last[reach - back : reach - back + rows, None], own)
        return made


def iterate(
    intercept: Float[Tensor, "experts series"],
    lags: Int[Tensor, "lags"],
    weight: Float[Tensor, "lags experts series"],
    last: Float[Tensor, "rows reach series"],
    horizon: int,
) -> Float[Tensor, "rows experts horizon series"]:
    """Forecast step by step: each forecast counts as a value for the next ones."""
    reach, size = last.shape[1], intercept.shape
    path = last.new_empty(reach + horizon, len(last), *size)
    path[:reach] = last.transpose(0, 1)[:, :, None]
    for step in range(reach, reach + horizon):
        path[step] = intercept + (path[step - lags] * weight[:, None]).sum(0)
    return path[reach:].permute(1, 2, 0, 3)


class Autoregressions:
    """All autoregressions over some series, fitted again and again while rows are read.

    Args:
        x: values.
        seen: where they are observed; otherwise the last observed value takes their place.
        seasons: lengths of the seasons, the main one first.
        horizon: steps to forecast.
        rows: numbers of rows after which whole forecasts are made.
        kinds: the autoregressions; there may be none.
        start: first row after which forecasts are made (default: 0).
        anchors: steps that are forecast together (default: every step by itself).
    """

    def __init__(
        self,
        x: Values,
        seen: Bool[Tensor, "time series"],
        seasons: Sequence[int],
        horizon: int,
        rows: Sequence[int],
        kinds: Sequence[Kind],
        start: int = 0,
        anchors: Sequence[int] = (),
    ):
        self.seasons, self.horizon, self.start = tuple(seasons), horizon, start
        self.anchors = anchors
        self.kinds, self.wanted = list(kinds), sorted(rows)
        self.begin = seen.int().argmax(0)
        index = torch.arange(len(x))[:, None]
        self.source = torch.where(seen, index, 0).cummax(0).values  # row of the last observed value
        # Values count from the first one: sums of squares of large values would lose their digits.
        self.origin = x.gather(0, self.begin[None])[0]
        self.x, self.seen = x.gather(0, self.source) - self.origin, seen
        self.sums: dict[Kind, LaggedSums] = {}
        self.fits: list[_Fit] = []  # those that forecast in the last block of rows
        self.first = self.end = 0
        self.next_fit = FIRST_FIT - 1
        # Forecasts of the last block: of some steps, and whole ones after some rows.
        self.single: dict[int, Float[Tensor, "rows experts series"]] = {}
        self.whole: dict[int, Float[Tensor, "experts horizon series"]] = {}

    def advance(self, end: int) -> None:
        """Read the rows up to ``end``."""
        self.first, self.end, self.single, self.whole = self.end, end, {}, {}
        self.fits = self.fits[-1:]
        while self.kinds and self.next_fit < end:
            t = self.next_fit
            self.next_fit = t + max(1, min((t + 1) // 8, MOST_APART))
            if self.next_fit > self.start:
                self.fits.append(_Fit(self.fit(t), t, self.next_fit))

    def ready(self) -> Bool[Tensor, "rows experts series"]:
        """Tell which autoregressions can forecast after each row of the last block."""
        ready = torch.zeros(
            self.end - self.first, len(self.kinds), len(self.begin), dtype=torch.bool
        )
        for fit, rows in self._by_fit():
            ready[rows.start - self.first : rows.stop - self.first] = fit.weights.usable
        return ready

    def path(self, h: int) -> Float[Tensor, "rows experts series"]:
        """Forecast step h after each row of the last block."""
        if h not in self.single:
            steps = self.anchors if h in self.anchors else (h,)
            count = self.end - self.first
            out = self.x.new_zeros(count, len(steps) * len(self.kinds), len(self.begin))
            for fit, rows in self._by_fit():
                last = self.last(rows.stop - 1, fit.weights.reach + len(rows) - 1)
                some = slice(rows.start - self.first, rows.stop - self.first)
                torch.add(fit.weights.steps(steps, last), self.origin, out=out[some])
            self.single = dict(zip(steps, out.chunk(len(steps), 1), strict=True))
        return self.single[h]

    def paths(self, t: int) -> Float[Tensor, "experts horizon series"]:
        """Forecast all steps after row t of the last block, one of the ``rows`` wanted."""
        if t not in self.whole:  # together with all that the same fit forecasts
            fit = next((fit for fit, rows in self._by_fit() if t in rows), None)
            if fit is None:
                return self.x.new_zeros(len(self.kinds), self.horizon, len(self.begin))
            until = min(fit.until, self.end)
            rows = [row - 1 for row in self.wanted if t < row <= until]
            last = torch.stack([self.last(row, fit.weights.reach) for row in rows])
            paths = fit.weights.forecast(last, self.horizon)
            paths = torch.where(fit.weights.usable[:, None], paths + self.origin, 0.0)
            self.whole = dict(zip(rows, paths, strict=True))
        return self.whole[t]

    def _by_fit(self) -> list[tuple["_Fit", range]]:
        """Return the fits with the rows of the last block that each one forecasts after."""
        first = max(self.first, self.start)
        rows = [range(max(f.at, first), min(f.until, self.end)) for f in self.fits]
        return [(fit, each) for fit, each in zip(self.fits, rows, strict=True) if len(each)]

    def responses(
        self, used: Sequence[int], series: int, t: int
    ) -> tuple[Float[Tensor, "experts horizon time"], Float[Tensor, "experts horizon"]]:
        """Return the response of some forecasts of a series after row t to each value.

        Also returns their constants.
        """
        response = self.x.new_zeros(len(used), self.horizon, t + 1)
        if not self.fits or not used:
            return response, self.x.new_zeros(len(used), self.horizon)
        now = self.fits[-1].weights
        reach = now.reach
        # Column 0 is a past of zeros, with the intercept; the others are 1 at one of the last rows.
        windows = torch.cat([torch.zeros(reach, 1), torch.eye(reach)], 1).to(self.x)
        intercept = self.x.new_zeros(len(used), reach + 1)
        intercept[:, 0] = now.intercept[used, series]
        weight = now.weight[:, used, series, None].expand(-1, -1, reach + 1)
        path = iterate(intercept, now.lags, weight, windows[None], self.horizon)[0]
        rows = torch.arange(t + 1 - reach, t + 1).clamp(min=0)
        response.index_add_(2, self.source[rows, series], path[..., 1:])
        return response, path[..., 0] + self.origin[series] * (1 - response.sum(2))

    def last(self, t: int, count: int) -> Float[Tensor, "count series"]:
        """Return the last values up to row t, the first one repeated if there are too few."""
        rows = self.x[max(t + 1 - count, 0) : t + 1]
        return torch.cat([rows[:1].expand(count - len(rows), -1), rows])

    def fit(self, t: int) -> Weights:
        """Fit all autoregressions on the rows up to t."""
        found = []
        for kind in self.kinds:
            lags, features = choose_features(min(t + 1, MEMORY), self.seasons, kind)
            sums = self.sums.get(kind)
            if sums is None or not torch.equal(sums.lags, lags):
                sums = LaggedSums(lags, features, kind.difference, self.x.shape[1])
            sums.move(self.x, self.seen, self.begin, max(t + 1 - MEMORY, 0), t + 1)
            self.sums[kind] = sums
            found.append((kind.difference, lags, *sums.solve()))
        reach = max(int(lags[-1]) + difference for difference, lags, *_ in found)
        weight = self.x.new_zeros(reach + 1, len(found), self.x.shape[1])
        usable = torch.zeros(weight.shape[1:], dtype=torch.bool)
        for i, (difference, lags, slopes, _, enough) in enumerate(found):
            weight[lags, i] += slopes.T
            if difference:  # of the values, not of their differences
                weight[lags + difference, i] -= slopes.T
                weight[difference, i] += 1
            usable[i] = enough & (t + 1 - self.begin >= int(lags[-1]) + difference)
        lags = torch.arange(1, reach + 1)[(weight[1:] != 0).flatten(1).any(1)]
        lags = lags if len(lags) else torch.ones(1, dtype=torch.long)
        weight = weight[lags]
        intercept = torch.stack([each[3] for each in found])
        impulse = self.x.new_zeros(1, int(lags[-1]), self.x.shape[1])
        impulse[:, -1] = 1.0
        none = torch.zeros_like(intercept)
        after = iterate(none, lags, weight, impulse, self.horizon - 1)[0].transpose(0, 1)
        response = torch.cat([torch.ones_like(weight[:1]), after])
        steady = response.abs().amax(0) <= STEADY  # False for NaN
        response = torch.where(steady, response, 0.0)
        return Weights(intercept, lags, weight, response, usable & steady)


class _Fit(NamedTuple):
    """Weights, and the rows after which they forecast: from ``at`` to before ``until``."""

    weights: Weights
    at: int
    until: int
