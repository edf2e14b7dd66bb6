"""All experts over some series: run together, row by row, and weighed by their errors so far."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from .._typing import Float
from .autoregression import Autoregressions, Kind
from .choice import Choice, Prior
from .demand import Intermittent
from .medians import Medians
from .smoothing import Expert, Observed, Smoothers, Values, respond, untested_rows
from .teams import Errors, Group, Team
from .weighing import SHARPNESS, Sums, nearness, weigh

YOUNG = 6.0  # with so many errors, those to come are taken to be twice as large
LEAST_RATIO = 2.0  # of the largest value to the smallest; below, logarithms change little
CONSTANT = 0.01  # error of a series that never changed, as a share of its size
CELLS = 2**18  # of experts, series and rows that are scored together


class Bank:
    """All experts over some series, and their weights after the last row.

    The experts are in this order: on values, on logarithms, and the others, which are medians and
    TSB. Weights follow from absolute errors, or from ``squared`` ones: then the forecast is nearer
    to the mean than to the median, and TSB is one of the experts.

    Args:
        x: values.
        seen: where they are observed.
        seasons: lengths of the seasons, the main one first.
        horizon: steps to forecast.
        rows: numbers of rows after which forecasts are made.
        prior: usual error of each expert (default: that on many tables); experts with an infinite
            one get no weight.
        squared: weigh by squared errors (default: False).
        every: test the experts on logarithms on every series (default: False, only on those where
            they are used).
    """

    def __init__(
        self,
        x: Values,
        seen: Observed,
        seasons: Sequence[int],
        horizon: int,
        rows: Sequence[int],
        prior: Prior | None = None,
        *,
        squared: bool = False,
        every: bool = False,
    ):
        self.squared, self.horizon, self.rows = squared, int(horizon), sorted(set(rows))
        # A power of two is exact, and keeps the squares of large and tiny values in range.
        size = torch.where(seen, x, 0.0).abs().amax(0)
        self.unit = torch.ldexp(torch.ones_like(size), torch.frexp(size).exponent)
        self.x, self.seen = x / self.unit, seen
        self.warm = seen.int().argmax(0) + untested_rows(seasons)
        self.anchors = sorted({1, -(-self.horizon // 2), self.horizon})
        self.nearness = nearness(self.anchors, self.horizon).to(x)
        # No forecast from before this row is compared with a value, or asked for.
        self.start = max(min(int(self.warm.min()) - self.horizon, self.rows[0] - 1), 0)
        lowest = torch.where(seen, x, torch.inf).cummin(0).values
        highest = torch.where(seen, x, -torch.inf).cummax(0).values
        self.growing = (lowest > 0) & (highest >= LEAST_RATIO * lowest)  # so far, [T, N]

        medians = Medians(self.x, seen, seasons, horizon, self.start)
        others: list[tuple[Group, int]] = [(medians, len(medians.kinds))]
        if squared:
            demand = Intermittent(self.x, seen, horizon)
            others.append((demand, len(demand.kinds)))
        choice = Choice.make(seasons, sum(count for _, count in others), prior)
        self.choice, self.usable = choice, choice.usable[:, None]
        self.prior = choice.prior.to(x)[:, None]

        def team(
            experts: Sequence[Expert],
            kinds: Sequence[Kind],
            columns: Tensor,
            x: Values,
            seen: Observed,
            units: Tensor | None = None,
        ) -> Team:
            groups: list[tuple[Group, int]] = []
            for season in dict.fromkeys(e.season for e in experts):
                own = [e for e in experts if e.season == season]
                groups.append((Smoothers(own, x, seen, horizon), len(own)))
            linear = Autoregressions(
                x, seen, seasons, horizon, self.rows, kinds, self.start, self.anchors
            )
            groups.append((linear, len(kinds)))
            return Team(groups, self.anchors, columns, self.series, units)

        series = torch.arange(self.series)
        self.plain = team(choice.experts, choice.kinds, series, self.x, seen)
        used = self.growing[torch.tensor(self.rows) - 1].any(0) | every
        some = torch.nonzero(used)[:, 0]
        logs = torch.where(x > 0, x, 1.0)[:, some].log()
        known = (seen & (x > 0))[:, some]
        unit = self.unit[some]
        self.logs = team(choice.log_experts, choice.log_kinds, some, logs, known, unit)
        self.others = Team(others, self.anchors, series, self.series)
        self.teams = [self.plain, self.logs, self.others]
        self.weights = x.new_zeros(len(self.anchors), len(self.usable), self.series)

    @property
    def series(self) -> int:
        """Number of series."""
        return self.x.shape[1]

    @property
    def sums(self) -> Sums:
        """Errors so far of all experts."""
        parts = zip(*(team.sums for team in self.teams), strict=True)
        return Sums(
            *(
                torch.cat(
                    [t.spread(p, self.series) for t, p in zip(self.teams, part, strict=True)], 1
                )
                for part in parts
            )
        )

    def run(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return forecasts ``[origins, H, N]`` and errors ``[origins, N]`` after the rows.

        Also returns the median error of the experts at each row ``[T, N]``, NaN where unknown.
        """
        block = min(max(CELLS // (len(self.usable) * self.series), 16), 1024)
        points, errors = [], []
        surprise = torch.full_like(self.x[: self.rows[-1]], torch.nan)
        spread = _mean_deviation(self.x, self.seen)
        for begin in range(0, self.rows[-1], block):
            end = min(begin + block, self.rows[-1])
            for team in self.teams:
                team.advance(end)
            if end <= self.start:
                continue
            surprise[begin:end], tests = self.test(begin, end)
            rows = [row for row in self.rows if begin < row <= end]
            for row, until in pairwise([begin, *rows, end]):
                if row > begin:
                    sums = self.sums
                    points.append(self.forecast(row - 1, row - 1 - begin, sums) * self.unit)
                    count = sums.evidence.amax(0)
                    errors.append(self.estimate(count, spread[row - 1], points[-1]))
                if until > row:
                    for team, own in zip(self.teams, tests, strict=True):
                        team.add(own, slice(row - begin, until - begin))
        return torch.stack(points), torch.stack(errors), surprise * self.unit

    def test(self, begin: int, end: int) -> tuple[Float[Tensor, "rows series"], list[list[Errors]]]:
        """Return the median error at each row of a block, and all errors, for each team and anchor.

        The first values of a series test nothing.
        """
        tested = self.seen[begin:end] & (torch.arange(begin, end)[:, None] >= self.warm)
        x, middles = self.x[begin:end], []
        errors: list[list[Errors]] = [[] for _ in self.teams]
        for i, h in enumerate(self.anchors):
            made = [team.errors(i, x, squared=self.squared) for team in self.teams]
            middle = made[0].middle()  # logarithms are not always used
            middle = torch.where(tested, middle, torch.nan)
            for team, own, each in zip(self.teams, made, errors, strict=True):
                own.compare(team.at(middle))
                each.append(own)
            middles.append(middle / h**0.5)
        return torch.stack(middles).nanmean(0), errors

    def estimate(self, count: Tensor, spread: Tensor, point: Tensor) -> Tensor:
        """Return the mean error of the last forecast, in the units of the values.

        Few errors say little of those to come: the spread of the values counts too.
        """
        error = (count * self.error + spread) / (count + 1) * self.unit
        error = error * (1 + YOUNG / (count + 1))
        level = point[0].abs()
        constant = CONSTANT * torch.where(level > 0, level, 1.0)
        return torch.where(error > 0, error, constant)

    def forecast(self, t: int, place: int, sums: Sums) -> Float[Tensor, "horizon series"]:
        """Weigh the experts by their errors before row t and return their mean forecast.

        ``place`` is the row in the last block.
        """
        ready = [team.spread(team.ready_at(place), self.series) for team in self.teams]
        usable = self.usable & torch.cat(ready)
        usable[self.plain.size : -self.others.size] &= self.growing[t]
        sharpness = SHARPNESS / (1 + self.squared)
        found = weigh(sums, self.prior, usable, self.choice.linear[:, None], sharpness)
        self.weights, self.error = found.weights, found.error
        paths = torch.cat([team.spread(team.paths(t), self.series) for team in self.teams])
        out = torch.zeros_like(paths[0])
        for i, weights in enumerate(self.weights):
            mean = torch.where(weights[:, None] > 0, weights[:, None] * paths, 0.0).sum(0)
            out += self.nearness[:, i, None] * mean
        return out

    def responses(
        self, used: Sequence[int], series: int, kind: int
    ) -> tuple[Float[Tensor, "experts horizon time"], Float[Tensor, "experts horizon"]]:
        """Return the response of some experts' last forecasts to each value, and their constants.

        ``used`` counts the experts of a kind: on values (0), on logarithms (1), others (2).
        Constants are in the units of values.
        """
        team, steps, parts, constants = self.teams[kind], len(self.x), [], []
        seen = self.seen[:, series : series + 1]
        column = int(torch.searchsorted(team.columns, series))
        experts = self.choice.log_experts if kind == 1 else self.choice.experts
        for group, (first, last) in zip(team.groups, team.bounds, strict=True):
            own = [i - first for i in used if first <= i < last]
            constant = self.x.new_zeros(len(own), self.horizon)
            if isinstance(group, Smoothers):
                impulses = torch.eye(steps, dtype=self.x.dtype) * seen
                part = respond([experts[first + i] for i in own], impulses, seen, self.horizon)
            elif isinstance(group, Autoregressions):
                part, constant = group.responses(own, column, steps - 1)
            else:
                part = group.responses(own, column, steps - 1)
            parts.append(part)
            constants.append(constant if kind == 1 else constant * self.unit[series])
        return torch.cat(parts), torch.cat(constants)


def _mean_deviation(x: Values, seen: Observed) -> Values:
    """Return the mean distance from the mean, of the values up to each row."""
    count = seen.cumsum(0).clamp(min=1)
    mean = (x * seen).cumsum(0) / count
    return ((x - mean).abs() * seen).cumsum(0) / count
