"""Forecasts of each series by itself: many experts, weighted by their errors so far.

The experts are exponential smoothing (``smoothing.py``) on the values and on their logarithms,
autoregressions and medians, which see what smoothing cannot. At every row the errors so far, recent
ones first, decide the weights, which depend on the step: errors are measured at the first, the
middle and the last step of the horizon. No forecast uses a later row, so every row of a table is an
honest test of the forecast made before it, and a series needs no training to be served.

With its weights frozen, the forecast is an affine map of the values (of their logarithms, for some
experts), see ``attribution.py``. It is written here, and not taken from a library, because of that,
and because all experts, series and rows are run together.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from itertools import pairwise
from typing import NamedTuple, TypeVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from .._typing import Bool, Float, Int
from .autoregression import Autoregressions, make_kinds
from .demand import Intermittent
from .medians import Medians
from .smoothing import (
    Observed,
    Smoothers,
    Values,
    make_experts,
    prior_error,
    respond,
    untested_rows,
)
from .widths import HALF_LIFE, width_factors

SHARPNESS = 20.0  # an expert with errors 1 % larger than the best has 0.82 of its weight
FAMILY_SHARPNESS = 4.0  # the same of all autoregressions, and of all other experts
FEW_TO_CHOOSE = 10.0  # with this many errors, that is halved
SHIFT_HALF_LIFE = 14.0  # rows, of errors that tell of a jump
SHIFT = 1.4  # an expert loses weight once its relative error grows by more than this factor
FEW_ERRORS = 2.0  # with this many errors, the sharpness is halved
PRIOR_ERRORS = 8.0  # number of errors that the prior of an expert counts as
FEW_SERIES = 3.0  # number of series that the prior from many tables counts as
WILD = 5.0  # largest error that counts for the others, in units of the median expert
SHARED_ERRORS = 12.0  # the errors at all steps count as at most so many at each step
YOUNG = 6.0  # with so many errors, those to come are taken to be twice as large
LARGEST_LOG = 600.0
LEAST_RATIO = 2.0  # of the largest value to the smallest; below, logarithms change little
CONSTANT = 0.01  # error of a series that never changed, as a share of its size
EARLY = 6  # experts without a season that are run in any case
LEAST_WEIGHT = 0.01  # of the largest; smaller ones are dropped
SERIES_AT_ONCE = 256  # fit into the caches
AGES = (32, 48, 64, 96, 128, 192, 256, 384, 512, 768)  # rows of series that run together
CELLS = 2**20  # of experts, series and rows that are scored together
BESIDE = ("zero_shot", "vector")  # fields of Smoothed that hold forecasts of others

Result = TypeVar("Result")
Prior = Float[Tensor, "experts"]
States = Float[Tensor, "experts series"]


class Smoothed(NamedTuple):
    """Forecasts made after some rows, in the units of the values."""

    point: Float[Tensor, "origins horizon series"]
    error: Float[Tensor, "origins series"]  # mean absolute error so far, recent ones first
    known: Bool[Tensor, "origins series"]  # False before the first observed value
    tested: Int[Tensor, "origins series"]  # values; 0 until one is a test, -1 until one differs
    rows: Int[Tensor, "origins"]  # a forecast is made after so many rows
    factors: Float[Tensor, "factors origins horizon series"]  # of the error, see ``widths.py``
    # Forecasts of the pretrained network and their quantiles, see ``zero_shot.py``.
    zero_shot: Float[Tensor, "origins horizon series outputs"] | None = None
    # Forecasts of the mean, see :func:`smooth_means`; the point is nearer to a median.
    mean: Float[Tensor, "origins horizon series"] | None = None
    # Forecasts of the vector autoregression, without quantiles, see ``vector.py``.
    vector: Float[Tensor, "origins horizon series 1"] | None = None

    def at(self, rows: Int[Tensor, "batch"]) -> "Smoothed":
        """Return the forecasts made after these rows."""
        index = torch.searchsorted(self.rows, rows.cpu())
        point, error, known, tested, rows = (each[index] for each in self[:5])
        factors, mean = self.factors[:, index], self.mean if self.mean is None else self.mean[index]
        beside = {name: each[index] for name, each in self.beside.items()}
        return Smoothed(point, error, known, tested, rows, factors, mean=mean, **beside)

    @property
    def beside(self) -> dict[str, Float[Tensor, "origins horizon series outputs"]]:
        """The forecasts that were made beside smoothing, by the name of the field.

        Their quantiles follow, if they have any. They are NaN where they were not made.
        """
        found = {name: getattr(self, name) for name in BESIDE}
        return {name: each for name, each in found.items() if each is not None}


@torch.no_grad()
def smooth(
    values: Values,
    observed: Observed,
    seasons: Sequence[int],
    horizon: int,
    rows: Int[Tensor, "origins"] | None = None,
    prior: Prior | None = None,
    workers: int = 1,
) -> Smoothed:
    """Forecast every series after its first ``rows`` rows (default: after the last row).

    ``rows`` rise. A forecast sees no row after its own. ``prior`` is the usual error of each expert
    (default: that on many tables); one with an infinite error is not run. ``workers`` is the number
    of threads that take some series each (default: 1); the result does not depend on it.
    """
    rows = torch.tensor([len(values)]) if rows is None else rows.cpu()
    x, seen = values.double().cpu(), observed.cpu()

    def run(block: Block) -> tuple[Tensor, Tensor, Tensor]:
        point, error, surprise = block.run(x, seen, seasons, horizon, rows, prior)
        return point, error, F.pad(surprise, (0, 0, block.first, 0), value=torch.nan)

    blocks = blocks_of(seen, int(rows[-1]))
    points, errors, surprises = zip(*in_threads(run, blocks, workers), strict=True)
    order = torch.cat([block.series for block in blocks]).argsort()
    point = torch.cat(points, 2)[..., order]
    count = seen.cumsum(0)[rows - 1]
    lowest = torch.where(seen, values.cpu(), torch.inf).cummin(0).values[rows - 1]
    highest = torch.where(seen, values.cpu(), -torch.inf).cummax(0).values[rows - 1]
    tested = torch.where(count > untested_rows(seasons), count, 0)
    tested = torch.where(highest > lowest, tested, -1)
    main = next(iter(seasons), 1)
    factors = width_factors(torch.cat(surprises, 1)[:, order], lowest.double(), point, rows, main)
    return Smoothed(point, torch.cat(errors, 1)[:, order], count > 0, tested, rows, factors)


@torch.no_grad()
def smooth_means(
    values: Values,
    observed: Observed,
    seasons: Sequence[int],
    horizon: int,
    rows: Int[Tensor, "origins"],
    prior: Prior,
    workers: int = 1,
) -> Float[Tensor, "origins horizon series"]:
    """Forecast the mean of every series after its first ``rows`` rows.

    It is the forecast of :func:`smooth` with experts weighed by squared errors, TSB among them.
    ``prior`` is :func:`learn_prior` of squared errors.
    """
    x, seen, rows = values.double().cpu(), observed.cpu(), rows.cpu()

    def run(block: Block) -> Tensor:
        return block.run(x, seen, seasons, horizon, rows, prior, squared=True)[0]

    blocks = blocks_of(seen, int(rows[-1]))
    order = torch.cat([block.series for block in blocks]).argsort()
    return torch.cat(in_threads(run, blocks, workers), 2)[..., order]


class Block(NamedTuple):
    """Some series of about the same age, and the row from which they are read.

    Experts learn anew after ever more rows. Read from the first row of a long table, a young series
    would wait for that, and its forecast would depend on where the table begins.
    """

    series: Int[Tensor, "some"]
    first: int

    def cut(self, x: Values, seen: Observed) -> tuple[Tensor, Tensor]:
        """Return the rows and series of the block."""
        return x[self.first :, self.series], seen[self.first :, self.series]

    def run(
        self,
        x: Values,
        seen: Observed,
        seasons: Sequence[int],
        horizon: int,
        rows: Int[Tensor, "origins"],
        prior: Prior | None,
        *,
        squared: bool = False,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return what :meth:`Bank.run` does, of these series; nothing is known of them before."""
        own, place = (rows - self.first).clamp(min=1).unique(return_inverse=True)
        with torch.no_grad():  # every thread has its own mode
            bank = Bank(*self.cut(x, seen), seasons, horizon, own.tolist(), prior, squared=squared)
            point, error, surprise = bank.run()
        return point[place], error[place], surprise


def blocks_of(seen: Observed, until: int) -> list[Block]:
    """Divide series by the number of rows from their first value up to row ``until``."""
    begun = seen[:until].any(0)
    age = until - torch.where(begun, seen[:until].int().argmax(0), until - 1)
    kind = torch.searchsorted(torch.tensor(AGES), age)
    blocks = []
    for i in kind.unique().tolist():
        first = max(until - AGES[i], 0) if i < len(AGES) else 0
        series = torch.nonzero(kind == i)[:, 0]
        blocks += [Block(some, first) for some in series.split(SERIES_AT_ONCE)]
    return blocks


def in_threads(run: Callable[[Block], Result], blocks: list[Block], workers: int) -> list[Result]:
    """Run a function on all blocks, in ``workers`` threads."""
    # Nearly all of the time goes into operations that let other threads of Python run.
    with ThreadPoolExecutor(workers) if workers > 1 else nullcontext() as pool:
        return [*(pool.map if pool else map)(run, blocks)]


@torch.no_grad()
def learn_prior(
    values: Values,
    observed: Observed,
    seasons: Sequence[int],
    horizon: int,
    most: int | None = None,
    *,
    squared: bool = False,
) -> Prior:
    """Return the usual error of each expert on a table, in units of the median expert.

    It is the geometric mean over the series and the prior from many tables. A single series has
    only the latter: its own errors count anyway. All but the ``most`` best experts, some that need
    no season, and medians, which cost little, get an infinite error (default: none).
    """
    x, seen = values.double().cpu(), observed.cpu()
    banks = []
    for block in blocks_of(seen, len(x)):
        own, known = block.cut(x, seen)
        bank = Bank(own, known, seasons, horizon, [len(own)], squared=squared)
        bank.run()
        banks.append(bank)
    bank = banks[0]
    evidence = torch.cat([each.evidence for each in banks], 1)
    weight = evidence / (evidence + PRIOR_ERRORS)
    others = (weight.sum(1) - 1).clamp(min=0)
    logs = torch.cat([each.ratio for each in banks], 1).clamp(1 / WILD, WILD).log()
    mean = (weight * logs).sum(1) / weight.sum(1).clamp(min=1e-9)
    usual = bank.prior[:, 0].log()
    prior = ((others * mean + FEW_SERIES * usual) / (others + FEW_SERIES)).exp()
    if most is None:
        return prior
    plain, usable = prior[: 2 * bank.per_scale], bank.usable[: 2 * bank.per_scale, 0]
    early = torch.zeros_like(usable)  # those that need no season forecast from the first rows on
    early[: sum(expert.season == 1 for expert in bank.experts)] = True
    kept = _lowest(plain, usable, most) | _lowest(plain, early, EARLY)
    plain[~kept] = torch.inf
    return prior


def _lowest(prior: Prior, among: Bool[Tensor, "experts"], count: int) -> Bool[Tensor, "experts"]:
    """Tell which experts have the ``count`` lowest errors among some."""
    ranked = torch.where(among, prior, torch.inf).sort().values
    return among & (prior <= ranked[min(count, len(ranked)) - 1])


class Bank:
    """All experts over some series, and their weights after the last row.

    Weights follow from absolute errors, or from ``squared`` ones: then the forecast is nearer to
    the mean than to the median, and TSB is one of the experts.
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
    ):
        self.squared = squared
        # A power of two is exact, and keeps the squares of large and tiny values in range.
        size = torch.where(seen, x, 0.0).abs().amax(0)
        self.unit = torch.ldexp(torch.ones_like(size), torch.frexp(size).exponent)
        self.x, self.seen, self.horizon = x / self.unit, seen, int(horizon)
        self.rows = rows
        self.experts, kinds = make_experts(seasons), make_kinds(seasons)
        # The order of all experts: on values, on logarithms, medians, and TSB.
        usual = [prior_error(expert) for expert in self.experts]
        usual += [0.85 if kind.difference else 0.9 for kind in kinds]
        self.medians = Medians(x / self.unit, seen, seasons, horizon)
        self.others: list[Medians | Intermittent] = [self.medians]
        if squared:
            self.others.append(Intermittent(x / self.unit, seen, horizon))
        others = sum(len(group.kinds) for group in self.others)
        if prior is None:
            prior = x.new_tensor([*usual, *usual, *[1.0] * others])
        # A trend in logarithms grows without limit: it needs a season to prove itself on.
        steady = [e.season > 1 or not (e.trend or e.drift) for e in self.experts]
        steady += [kind.difference != 1 or bool(seasons) for kind in kinds]
        usable = torch.tensor([True] * len(steady) + steady + [True] * others)
        kept, smoothers = prior.isfinite(), len(self.experts)
        if not kept.all():  # values and logarithms run together
            either = kept[:-others].view(2, -1).any(0)
            self.experts = [e for e, keep in zip(self.experts, either, strict=False) if keep]
            kinds = [kind for kind, keep in zip(kinds, either[smoothers:], strict=True) if keep]
            every = torch.cat([either, either, kept[-others:]])
            usable, prior, kept = usable[every], prior[every], kept[every]
            prior = prior / prior[kept].median()  # of those that run
        self.per_scale = len(self.experts) + len(kinds)
        self.usable, self.prior = (usable & kept)[:, None], prior.to(x)[:, None]
        lowest = torch.where(seen, x, torch.inf).cummin(0).values
        highest = torch.where(seen, x, -torch.inf).cummax(0).values
        self.growing = (lowest > 0) & (highest >= LEAST_RATIO * lowest)  # so far, [T, N]
        logs = torch.where(x > 0, x, 1.0).log()
        both, seen = torch.cat([self.x, logs], 1), torch.cat([seen, seen & (x > 0)], 1)
        lengths = list(dict.fromkeys(e.season for e in self.experts))
        groups = [
            Smoothers([e for e in self.experts if e.season == m], both, seen, horizon)
            for m in lengths
        ]
        self.linear = Autoregressions(both, seen, seasons, horizon, rows, kinds)
        self.groups: list[Smoothers | Autoregressions] = [*groups, self.linear]
        self.warm = self.medians.begin + untested_rows(seasons)
        self.anchors = sorted({1, -(-self.horizon // 2), self.horizon})
        self.nearness = _nearness(self.anchors, self.horizon).to(x)
        self.weights = x.new_zeros(len(self.anchors), len(self.usable), x.shape[1])

    def run(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return forecasts ``[origins, H, N]`` and errors ``[origins, N]`` after the rows.

        Also returns the median error of the experts at each row ``[T, N]``, NaN where unknown.
        """
        count = self.x.shape[1]
        size = len(self.usable) * count
        block = min(max(CELLS // size, 16), 1024)
        # Forecasts made before a block of the rows in it, for each anchor.
        pending = [self.x.new_full((h, len(self.usable), count), torch.nan) for h in self.anchors]
        total, known, usual = (torch.zeros_like(self.weights) for _ in range(3))
        # Recent errors of the first step, and usual ones.
        late = self.weights.new_zeros(2, *self.weights.shape[1:])
        points, errors, surprises, wanted = [], [], [], sorted(set(self.rows))
        spread = _mean_deviation(self.x, self.seen)
        for begin in range(0, max(self.rows), block):
            end = min(begin + block, max(self.rows))
            for group in (*self.groups, *self.others):
                group.advance(end)
            ready = self.ready()
            scored = self.seen[begin:end] & (torch.arange(begin, end)[:, None] >= self.warm)
            scores = []
            for i, h in enumerate(self.anchors):
                others = [group.path(h) for group in self.others]
                paths = self.join([group.path(h) for group in self.groups], others, 1)
                made = torch.cat([pending[i], torch.where(ready, paths, torch.nan)])
                pending[i] = made[-h:].clone()
                scores.append(self.score(made[: end - begin], begin, scored, h))
            surprises.append(_mean_over_steps(scores) * self.unit)
            rows = [row for row in wanted if begin < row <= end]
            for row, until in pairwise([begin, *rows, end]):
                if row > begin:
                    self.excess = _excess(late, total[0], usual[0])
                    points.append(self.forecast(row - 1, ready, total, usual, known) * self.unit)
                    errors.append(self.estimate(known.sum(0).amax(0), spread[row - 1], points[-1]))
                some = slice(row - begin, until - begin)
                for sums, part in zip(late, scores[0][:2], strict=True):
                    _add_discounted(sums, part[some], SHIFT_HALF_LIFE)
                for i, parts in enumerate(scores):
                    for sums, part in zip((total, usual, known), parts, strict=True):
                        _add_discounted(sums[i], part[some], HALF_LIFE)
        return torch.stack(points), torch.stack(errors), torch.cat(surprises)

    def score(
        self, made: Tensor, begin: int, scored: Observed, h: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return errors of step h, the median error of all experts, and where they count.

        ``made`` holds the forecasts of the rows from ``begin`` on, ``[rows, E, N]``.
        """
        error = (self.x[begin : begin + len(made), None] - made).abs()
        error = (error.square() if self.squared else error) / h**0.5
        known = scored[:, None] & ~error.isnan()
        plain = error[:, : self.per_scale]  # logarithms are not always used
        middle, mean = plain.nanmedian(1).values, plain.nanmean(1)
        middle = torch.where(middle > 0, middle, mean)[:, None]  # most may be exact
        return (
            torch.where(known, error, 0.0),
            torch.where(known, middle, 0.0),
            known.to(error) / h**0.5,
        )

    def estimate(self, count: Tensor, spread: Tensor, point: Tensor) -> Tensor:
        """Return the mean error of the last forecast, in the units of the values.

        Few errors say little of those to come: the spread of the values counts too.
        """
        error = (count * self.error + spread) / (count + 1) * self.unit
        error = error * (1 + YOUNG / (count + 1))
        level = point[0].abs()
        constant = CONSTANT * torch.where(level > 0, level, 1.0)
        return torch.where(error > 0, error, constant)

    def forecast(
        self, t: int, ready: Tensor, total: Tensor, usual: Tensor, count: Tensor
    ) -> Tensor:
        """Weigh the experts by their errors so far and return their mean forecast ``[H, N]``.

        Experts that began later are compared on the rows that they forecast.
        """
        usable = self.usable & ready[t - self.medians.first]
        usable[self.per_scale : 2 * self.per_scale] &= self.growing[t]
        self.ratio = shared = _ratio(total.sum(0), usual.sum(0))
        self.evidence = common = count.sum(0)
        lean = SHARED_ERRORS * common / (common + SHARED_ERRORS)
        others = [group.paths(t) for group in self.others]
        paths = self.join([group.paths(t) for group in self.groups], others)
        out = torch.zeros_like(paths[0])
        weighed, errors = torch.zeros_like(out[0]), torch.zeros_like(out[0])
        for i in range(len(self.anchors)):
            known = count[i] + lean + PRIOR_ERRORS
            ratio = count[i] * _ratio(total[i], usual[i]) + lean * shared
            ratio = self.excess * (ratio + PRIOR_ERRORS * self.prior) / known
            ratio = torch.where(usable, ratio, torch.inf)
            power = SHARPNESS / (1 + self.squared) * known / (known + FEW_ERRORS)
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

        ``used`` counts the experts of a kind: on values (0), on logarithms (1), others (2).
        Constants are in the units of values.
        """
        steps, smoothers = len(self.x), len(self.experts)
        if kind == 2:
            parts, first = [], 0
            for group in self.others:
                own = [i - first for i in used if 0 <= i - first < len(group.kinds)]
                parts.append(group.responses(own, series, steps - 1))
                first += len(group.kinds)
            response = torch.cat(parts)
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

    def ready(self) -> Bool[Tensor, "rows experts series"]:
        """Tell which experts have seen the rows that their first states come from."""
        plain, logs = torch.cat([group.ready() for group in self.groups], 1).chunk(2, -1)
        return torch.cat([plain, logs, *(group.ready() for group in self.others)], 1)

    def join(self, paths: Sequence[Tensor], others: Sequence[Tensor], dim: int = 0) -> Tensor:
        """Join forecasts on values and logarithms, side by side in ``paths``, and of the others."""
        plain, logs = torch.cat([*paths], dim).chunk(2, -1)
        logs = logs.clamp(max=LARGEST_LOG).exp() / self.unit
        return torch.cat([plain, logs, *others], dim)


def _mean_over_steps(
    scores: Sequence[tuple[Tensor, Tensor, Tensor]],
) -> Float[Tensor, "rows series"]:
    """Return the median error of the experts, averaged over the steps where it is known."""
    errors = [torch.where((k > 0).any(1), u.amax(1), torch.nan) for _, u, k in scores]
    return torch.stack(errors).nanmean(0)


def count_experts(seasons: Sequence[int], horizon: int, *, squared: bool = False) -> int:
    """Return the number of experts for a table whose seasons have these lengths."""
    nothing = torch.zeros(1, 1, dtype=torch.float64)
    return len(Bank(nothing, nothing > 0, seasons, horizon, [1], squared=squared).usable)


def _add_discounted(
    sums: States, part: Float[Tensor, "rows experts series"], half_life: float
) -> None:
    """Add rows to discounted sums, in place: after ``half_life`` rows an entry counts half."""
    weight = 0.5 ** (torch.arange(len(part), -1, -1, dtype=torch.float64) / half_life)
    sums *= weight[0]
    sums += torch.tensordot(weight[1:], part, 1)


def _excess(late: Tensor, total: Tensor, usual: Tensor) -> Float[Tensor, "experts series"]:
    """Return how far the recent errors of each expert exceed its earlier ones, at least 1.

    Both are relative to the median expert. After a jump of the level, slow experts stay wrong for
    long, however good they were before. Their errors at later steps do not show it yet.
    """
    now, before = _ratio(*late), _ratio(total, usual)
    return (now / (SHIFT * before.clamp(min=1e-9))).clamp(min=1)


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
