"""Exponential smoothing: many simple forecasts of each series, weighted by their errors so far.

An expert keeps a level, perhaps a trend and a seasonal profile, and corrects them by a share of
each error it makes (Brown, Holt and Winters; the drift is that of the Theta method). Experts differ
in these shares, and whether they see the values or their logarithms. Autoregressions and medians,
which see what smoothing cannot, are weighed beside them. At every row the errors so far, recent
ones first, decide the weights, which depend on the step: errors are measured at the first, the
middle and the last step of the horizon. No forecast uses a later row, so every row of a table is an
honest test of the forecast made before it, and a series needs no training to be served.

With its weights frozen, the forecast is an affine map of the values (of their logarithms, for some
experts), which :class:`Attribution` splits over the past exactly. It is written here, and not taken
from a library, because of that, and because all experts, series and rows are run together.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from .._typing import Bool, Float, Int
from .autoregression import Autoregressions
from .medians import Medians

Values = Float[Tensor, "time series"]
Observed = Bool[Tensor, "time series"]
States = Float[Tensor, "experts series"]

LEVEL_RATES = (0.01, 0.05, 0.15, 0.35, 0.7, 1.0)
TRENDS = ((0.1, 0.9), (0.05, 0.98), (0.2, 0.98))  # rate, as a share of the level's, and damping
SEASONAL_RATES = (0.0, 0.15, 0.4)
SHARPNESS = 20.0  # an expert with errors 1 % larger than the best has 0.82 of its weight
FAMILY_SHARPNESS = 4.0  # the same of all autoregressions, and of all other experts
FEW_TO_CHOOSE = 10.0  # with this many errors, that is halved
HALF_LIFE = 500.0  # rows after which an error counts half
FEW_ERRORS = 2.0  # with this many errors, the sharpness is halved
PRIOR_ERRORS = 8.0  # that what is usual of an expert counts as
SHARED_ERRORS = 12.0  # the errors at all steps count as at most so many at each step
YOUNG = 6.0  # with so many errors, those to come are taken to be twice as large
LARGEST_LOG = 600.0
FIRST_VALUES = 5  # that a trend begins with
LEAST_RATIO = 2.0  # of the largest value to the smallest; below, logarithms change little
CONSTANT = 0.01  # error of a series that never changed, as a share of its size
LEAST_WEIGHT = 0.01  # of the largest; smaller ones are dropped
SERIES_AT_ONCE = 2048


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


class Smoothed(NamedTuple):
    """Forecasts made after some rows, in the units of the values."""

    point: Float[Tensor, "origins horizon series"]
    error: Float[Tensor, "origins series"]  # mean absolute error so far, recent ones first
    known: Bool[Tensor, "origins series"]  # False before the first observed value
    tested: Int[Tensor, "origins series"]  # values so far; 0 as long as none tested it
    rows: Int[Tensor, "origins"]  # a forecast is made after so many rows

    def at(self, rows: Int[Tensor, "batch"]) -> "Smoothed":
        """Return the forecasts made after these rows."""
        index = torch.searchsorted(self.rows, rows.cpu())
        return Smoothed(*(each[index] for each in self))


@torch.no_grad()
def smooth(
    values: Values,
    observed: Observed,
    seasons: Sequence[int],
    horizon: int,
    rows: Int[Tensor, "origins"] | None = None,
) -> Smoothed:
    """Forecast every series after its first ``rows`` rows (default: after the last row).

    ``rows`` rise. A forecast sees no row after its own.
    """
    rows = torch.tensor([len(values)]) if rows is None else rows.cpu()
    parts = []
    for x, seen in zip(
        values.double().cpu().split(SERIES_AT_ONCE, 1),
        observed.cpu().split(SERIES_AT_ONCE, 1),
        strict=True,
    ):
        bank = _Bank(x, seen, seasons, horizon, rows.tolist())
        parts.append(bank.run())
    points, errors = zip(*parts, strict=True)
    seen = observed.cpu()
    count = seen.cumsum(0)[rows - 1]
    lowest = torch.where(seen, values.cpu(), torch.inf).cummin(0).values[rows - 1]
    highest = torch.where(seen, values.cpu(), -torch.inf).cummax(0).values[rows - 1]
    tested = torch.where((highest > lowest) & (count > untested_rows(seasons)), count, 0)
    return Smoothed(torch.cat(points, 2), torch.cat(errors, 1), count > 0, tested, rows)


class Parts(NamedTuple):
    """The forecast of one series: reference + bias + Σ past."""

    forecast: Float[Tensor, "horizon"]
    bias: Float[Tensor, "horizon"]  # what autoregressions add whatever the past is
    past: Float[Tensor, "horizon time"]


class Attribution:
    """The forecasts after the last row, split over the past values of each series.

    The weights of the experts, and those of autoregressions, are held constant. The forecast of an
    expert is then linear in what it sees, so its response to a value is its forecast of a series
    that is 1 there and 0 elsewhere. A logarithm, and the exponential that undoes it, count by their
    chords from the reference.
    """

    def __init__(self, values: Values, observed: Observed, seasons: Sequence[int], horizon: int):
        self.values, self.observed = values.double().cpu(), observed.cpu()
        self.seasons, self.horizon = seasons, horizon
        self.banks: dict[int, _Bank] = {}

    @torch.no_grad()
    def split(self, series: int, reference: float) -> Parts:
        """Split the forecast of one series into its difference from ``reference``."""
        group, place = divmod(series, SERIES_AT_ONCE)
        bank = self.banks.get(group) or self._run(group)
        self.banks[group] = bank
        x, seen = self.values[:, series], self.observed[:, series]
        steps = len(x)
        if not seen.any():
            nothing = torch.zeros(self.horizon, dtype=torch.float64)
            return Parts(nothing + reference, nothing, torch.zeros(self.horizon, steps))
        total = Parts(
            torch.zeros(self.horizon, dtype=torch.float64),
            torch.zeros(self.horizon, dtype=torch.float64),
            torch.zeros(self.horizon, steps, dtype=torch.float64),
        )
        weights = bank.weights[:, :, place].T @ bank.nearness.T  # [experts, H]
        parts = weights.tensor_split([bank.per_scale, 2 * bank.per_scale])
        for kind, weight in enumerate(parts):  # on values, on logarithms, medians
            used = torch.nonzero((weight > 0).any(1))[:, 0].tolist()
            if not used:
                continue
            response, constant = bank.responses(used, place, kind)  # [E, H, T], [E, H]
            log = kind == 1
            u, base = x, x.new_tensor(reference)
            if log:  # all values are above 0
                base = base if reference > 0 else u[seen].mean()
                u = torch.where(u > 0, u, 1.0).log()
            start = float(base.log() if log else base)
            own = response * ((u - start) * seen)
            bias = constant + start * (response.sum(2) - 1)
            path = start + own.sum(2) + bias
            if log:
                rise = path - start
                path = path.clamp(max=LARGEST_LOG).exp()
                chord = (path - base) / torch.where(rise == 0, 1.0, rise)
                chord = torch.where(rise == 0, base, chord)
                own, bias = own * chord[..., None], bias * chord
                # A reference without a logarithm is reached from the base by a constant.
                bias = bias + base - reference
            share = weight[used]
            total.forecast.add_((share * path).sum(0))
            total.bias.add_((share * bias).sum(0))
            total.past.add_((share[..., None] * own).sum(0))
        return total

    def _run(self, group: int) -> "_Bank":
        some = slice(group * SERIES_AT_ONCE, (group + 1) * SERIES_AT_ONCE)
        x, seen = self.values[:, some], self.observed[:, some]
        bank = _Bank(x, seen, self.seasons, self.horizon, [len(x)])
        bank.run()
        return bank


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
        group = _Group([experts[i] for i in index], x, seen, horizon)
        for t in range(len(x)):
            group.advance(t)
        out[index] = group.paths(len(x) - 1)
    return out


class _Bank:
    """All experts over some series; states are those after the rows seen so far."""

    def __init__(
        self,
        x: Values,
        seen: Observed,
        seasons: Sequence[int],
        horizon: int,
        rows: Sequence[int],
    ):
        # A power of two is exact, and keeps the squares of large and tiny values in range.
        size = torch.where(seen, x, 0.0).abs().amax(0)
        self.unit = torch.ldexp(torch.ones_like(size), torch.frexp(size).exponent)
        self.x, self.seen, self.horizon = x / self.unit, seen, int(horizon)
        self.rows = rows
        self.experts = make_experts(seasons)
        lowest = torch.where(seen, x, torch.inf).cummin(0).values
        highest = torch.where(seen, x, -torch.inf).cummax(0).values
        self.growing = (lowest > 0) & (highest >= LEAST_RATIO * lowest)  # so far, [T, N]
        logs = torch.where(x > 0, x, 1.0).log()
        both, seen = torch.cat([self.x, logs], 1), torch.cat([seen, seen & (x > 0)], 1)
        lengths = list(dict.fromkeys(e.season for e in self.experts))
        groups = [
            _Group([e for e in self.experts if e.season == m], both, seen, horizon) for m in lengths
        ]
        self.linear = Autoregressions(both, seen, seasons, horizon, rows)
        self.groups: list[_Group | Autoregressions] = [*groups, self.linear]
        self.medians = Medians(self.x, self.seen, seasons, horizon)
        self.warm = self.medians.begin + untested_rows(seasons)
        # A trend in logarithms grows without limit: it needs a season to prove itself on.
        steady = [e.season > 1 or not (e.trend or e.drift) for e in self.experts]
        steady += [kind.difference != 1 or bool(seasons) for kind in self.linear.kinds]
        prior = [prior_error(expert) for expert in self.experts]
        prior += [0.85 if kind.difference else 0.9 for kind in self.linear.kinds]
        medians, self.per_scale = len(self.medians.kinds), len(steady)
        # The order of all experts: on values, on logarithms, and medians.
        self.usable = torch.tensor([True] * self.per_scale + steady + [True] * medians)[:, None]
        self.prior = x.new_tensor([*prior, *prior, *[1.0] * medians])[:, None]
        self.anchors = sorted({1, -(-self.horizon // 2), self.horizon})
        self.nearness = _nearness(self.anchors, self.horizon).to(x)
        self.weights = x.new_zeros(len(self.anchors), len(self.usable), x.shape[1])

    def run(self) -> tuple[Tensor, Tensor]:
        """Return forecasts ``[origins, H, N]`` and errors ``[origins, N]`` after the rows."""
        pending = [deque(maxlen=h) for h in self.anchors]
        total, count = torch.zeros_like(self.weights), torch.zeros_like(self.weights)
        usual = torch.zeros_like(self.weights)  # median error of all experts at the same rows
        keep, points, errors, wanted = 0.5 ** (1 / HALF_LIFE), [], [], set(self.rows)
        spread = _mean_deviation(self.x, self.seen)
        for t in range(max(self.rows)):
            scored = self.seen[t] & (t >= self.warm)
            for each in (total, count, usual):
                each *= keep
            for i, (h, made) in enumerate(zip(self.anchors, pending, strict=True)):
                if len(made) == h:
                    error = (self.x[t] - made[0]).abs() / h**0.5
                    known = scored & ~error.isnan()
                    total[i] += torch.where(known, error, 0.0)
                    plain = error[: self.per_scale]  # logarithms are not always used
                    middle, mean = plain.nanmedian(0).values, plain.nanmean(0)
                    middle = torch.where(middle > 0, middle, mean)  # most may be exact
                    usual[i] += torch.where(known, middle, 0.0)
                    count[i] += known / h**0.5
            for group in (*self.groups, self.medians):
                group.advance(t)
            for h, made in zip(self.anchors, pending, strict=True):
                paths = self.join([g.path(t, h) for g in self.groups], self.medians.path(t, h))
                made.append(torch.where(self.ready(t), paths, torch.nan))
            if t + 1 in wanted:
                points.append(self.forecast(t, total, usual, count) * self.unit)
                # Few errors say little of those to come: the spread of the values counts too.
                errors_made = count.sum(0).amax(0)
                error = (errors_made * self.error + spread[t]) / (errors_made + 1) * self.unit
                error = error * (1 + YOUNG / (errors_made + 1))
                level = points[-1][0].abs()
                constant = CONSTANT * torch.where(level > 0, level, 1.0)
                errors.append(torch.where(error > 0, error, constant))
        return torch.stack(points), torch.stack(errors)

    def forecast(self, t: int, total: Tensor, usual: Tensor, count: Tensor) -> Tensor:
        """Weigh the experts by their errors so far and return their mean forecast ``[H, N]``.

        Experts that began later are compared on the rows that they forecast.
        """
        usable = self.usable & self.ready(t)
        usable[self.per_scale : 2 * self.per_scale] &= self.growing[t]
        shared = _ratio(total.sum(0), usual.sum(0))
        common = count.sum(0)
        lean = SHARED_ERRORS * common / (common + SHARED_ERRORS)
        paths = self.join([group.paths(t) for group in self.groups], self.medians.paths(t))
        out = torch.zeros_like(paths[0])
        weighed, errors = torch.zeros_like(out[0]), torch.zeros_like(out[0])
        for i in range(len(self.anchors)):
            known = count[i] + lean + PRIOR_ERRORS
            ratio = count[i] * _ratio(total[i], usual[i]) + lean * shared
            ratio = (ratio + PRIOR_ERRORS * self.prior) / known
            ratio = torch.where(usable, ratio, torch.inf)
            power = SHARPNESS * known / (known + FEW_ERRORS)
            weights = torch.where(usable, (ratio / ratio.min(0).values) ** -power, 0.0)
            weights = self.balance(weights, ratio, count[i] + lean)
            weights = torch.where(weights < LEAST_WEIGHT * weights.max(0).values, 0.0, weights)
            weights = self.weights[i] = weights / weights.sum(0)
            mean = torch.where(weights[:, None] > 0, weights[:, None] * paths, 0.0).sum(0)
            out = out + self.nearness[:, i, None] * mean
            place = count[i].argmax(0)[None]
            most = count[i].gather(0, place)[0]
            usual_now = usual[i].gather(0, place)[0]  # times the number of errors
            ratio = torch.where(weights > 0, weights * ratio, 0.0).sum(0)
            errors, weighed = errors + ratio * usual_now, weighed + most
        self.error = errors / weighed.clamp(min=1e-9)
        return out

    def responses(
        self, used: Sequence[int], series: int, kind: int
    ) -> tuple[Float[Tensor, "experts horizon time"], Float[Tensor, "experts horizon"]]:
        """Return the response of some experts' last forecasts to each value, and their constants.

        ``used`` counts the experts of a kind: on values (0), on logarithms (1), medians (2).
        Constants are in the units of values.
        """
        steps, smoothers = len(self.x), len(self.experts)
        if kind == 2:
            response = self.medians.responses(used, series, steps - 1)
            return response, response.new_zeros(response.shape[:2])
        seen = self.seen[:, series : series + 1]
        plain = [self.experts[i] for i in used if i < smoothers]
        linear = [i - smoothers for i in used if i >= smoothers]
        impulses = torch.eye(steps, dtype=self.x.dtype) * seen
        response = respond(plain, impulses, seen, self.horizon)
        column = series + kind * self.x.shape[1]
        others, constant = self.linear.responses(linear, column, steps - 1)
        constant = constant if kind else constant * self.unit[series]
        nothing = constant.new_zeros(len(plain), self.horizon)
        return torch.cat([response, others]), torch.cat([nothing, constant])

    def balance(self, weights: Tensor, ratio: Tensor, count: Tensor) -> Tensor:
        """Weigh autoregressions, and all other experts together, by the mean errors of each.

        Their weights differ less than those of single experts: a mean of both is hard to beat.
        """
        linear = torch.zeros(len(weights), 1, dtype=torch.bool)
        linear[: 2 * self.per_scale].view(2, -1)[:, len(self.experts) :] = True
        most = count.amax(0)
        power = FAMILY_SHARPNESS * most / (most + FEW_TO_CHOOSE)
        shares, means = [], []
        for family in (~linear, linear):
            own = torch.where(family, weights, 0.0)
            whole = own.sum(0)
            shares.append(own / torch.where(whole > 0, whole, 1.0))
            mean = torch.where(own > 0, shares[-1] * ratio, 0.0).sum(0)
            means.append(torch.where(whole > 0, mean, torch.inf))
        best = torch.minimum(*means)
        for share, mean in zip(shares, means, strict=True):
            share *= torch.where(mean.isfinite(), (mean / best) ** -power, 0.0)
        return shares[0] + shares[1]

    def ready(self, t: int) -> Bool[Tensor, "experts series"]:
        """Tell which experts have seen the rows that their first states come from."""
        plain, logs = torch.cat([group.ready(t) for group in self.groups]).chunk(2, -1)
        return torch.cat([plain, logs, self.medians.ready(t)])

    def join(self, paths: Sequence[Tensor], medians: Tensor) -> Tensor:
        """Join forecasts on values and logarithms, side by side in ``paths``, and of medians."""
        plain, logs = torch.cat([*paths]).chunk(2, -1)
        return torch.cat([plain, logs.clamp(max=LARGEST_LOG).exp() / self.unit, medians])


class _Group:
    """Experts of one season, advanced together."""

    def __init__(self, experts: Sequence[Expert], x: Values, seen: Observed, horizon: int):
        def column(name: str) -> Float[Tensor, "experts 1"]:
            return torch.tensor([[float(getattr(e, name))] for e in experts], dtype=x.dtype)

        self.x, self.seen, self.season = x, seen, experts[0].season
        self.begin = seen.int().argmax(0)
        self.alpha, self.damping, self.drift = column("level"), column("damping"), column("drift")
        self.moving = self.alpha > 0
        self.beta, self.gamma = self.alpha * column("trend"), column("seasonal")
        self.steps = torch.arange(1, horizon + 1)
        self.reach = (self.damping**self.steps).cumsum(1)  # [E, H]
        level, slope, self.profile = _first_states(x, seen, self.begin, self.season)
        zero = x.new_zeros(len(experts), x.shape[1])
        self.level, self.trend = level + zero, torch.where(self.damping > 0, slope, zero)
        self.needed = torch.full_like(self.begin[None], 2 * self.season)
        if self.season == 1:  # without a trend, the first value is enough
            moving = self.damping > 0
            self.level = torch.where(moving, self.level, x.gather(0, self.begin[None]))
            self.needed = torch.where(moving, FIRST_VALUES, 1)
        self.phases = [phase + zero for phase in self.profile] if self.season > 1 else []
        self.sums, self.slope = x.new_zeros(5, x.shape[1]), x.new_zeros(x.shape[1])

    def advance(self, t: int) -> None:
        """Correct all states by the error of row t."""
        x, seen, phase = self.x[t], self.seen[t], t % self.season
        begun = self.begin <= t
        age = torch.where(begun, t - self.begin, 0).to(x)
        ahead = self.level + self.damping * self.trend + self.drift * (self.slope / 2)
        whole = ahead + self.phases[phase] if self.phases else ahead
        error = torch.where(seen, x - whole, 0.0)
        # The first values count alike: a fixed rate would rest on the first one for long.
        known = torch.where(self.needed == 1, 1, 2)  # the first level is one value, or a mean
        rate = torch.where(self.moving, torch.maximum(self.alpha, 1 / (age + known)), 0.0)
        self.level = torch.where(begun, ahead + rate * error, self.level)
        self.trend = torch.where(begun, self.damping * self.trend + self.beta * error, self.trend)
        if self.phases:
            rate = torch.maximum(self.gamma, 1 / (age // self.season + 3)) * (1 - rate)
            self.phases[phase] = self.phases[phase] + rate * error
        # The straight line through all values so far, less the first seasonal profile.
        rest = torch.where(seen, x - self.profile[phase], 0.0)
        age = torch.where(seen, age, 0.0)
        self.sums = self.sums + torch.stack([seen.to(x), age, rest, age * age, age * rest])
        n, ages, rests, squares, products = self.sums
        spread = n * squares - ages * ages
        slope = (n * products - ages * rests) / torch.where(spread > 0, spread, 1.0)
        self.slope = torch.where((n >= 3) & (spread > 0), slope, 0.0)

    def ready(self, t: int) -> Bool[Tensor, "experts series"]:
        """Tell which experts have seen the rows that their first states come from."""
        return (t - self.begin + 1 >= self.needed).expand(len(self.alpha), -1)

    def path(self, t: int, h: int) -> States:
        """Forecast step h after row t."""
        y = self.level + self.reach[:, h - 1 : h] * self.trend + self.drift * (self.slope * (h / 2))
        return y + self.phases[(t + h) % self.season] if self.phases else y

    def paths(self, t: int) -> Float[Tensor, "experts horizon series"]:
        """Forecast all steps after row t."""
        y = self.level[:, None] + self.reach[..., None] * self.trend[:, None]
        y = y + self.drift[:, None] * (self.steps[:, None] * (self.slope / 2))
        if self.phases:
            ahead = [self.phases[(t + h) % self.season] for h in self.steps.tolist()]
            y = y + torch.stack(ahead, 1)
        return y


def _ratio(total: Tensor, usual: Tensor) -> Tensor:
    """Return errors in units of those usual at the same rows; 1 where nothing is known."""
    return torch.where(usual > 0, total / usual.clamp(min=1e-300), 1.0)


def _nearness(anchors: Sequence[int], horizon: int) -> Float[Tensor, "horizon anchors"]:
    """Return how much each anchor counts for each step: linearly, between the two next to it."""
    steps = np.arange(1, horizon + 1)
    rows = [np.interp(steps, anchors, each) for each in np.eye(len(anchors))]
    return torch.from_numpy(np.stack(rows, 1))


def _mean_deviation(x: Values, seen: Observed) -> Values:
    """Return the mean distance from the mean, of the values up to each row."""
    count = seen.cumsum(0).clamp(min=1)
    mean = (x * seen).cumsum(0) / count
    return ((x - mean).abs() * seen).cumsum(0) / count


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
