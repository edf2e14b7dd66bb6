"""Forecasts of each series by itself: many experts, weighted by their errors so far.

The experts are exponential smoothing (``smoothing.py``) on the values and on their logarithms,
autoregressions and medians, which see what smoothing cannot. At every row the errors so far, recent
ones first, decide the weights, which depend on the step: errors are measured at the first, the
middle and the last step of the horizon. No forecast uses a later row, so every row of a table is an
honest test of the forecast made before it, and a series needs no training to be served.

``choice.py`` says which experts run, ``bank.py`` runs them, ``teams.py`` measures their errors, and
``weighing.py`` weighs them. With its weights frozen, the forecast is an affine map of the values
(of their logarithms, for some experts), see ``attribution.py``. It is written here, and not taken
from a library, because of that, and because all experts, series and rows are run together.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from .._typing import Bool, Float, Int
from .bank import Bank
from .blocks import Block, blocks_of, in_threads
from .choice import Prior, keep_best
from .smoothing import Observed, Values, untested_rows
from .weighing import PRIOR_ERRORS
from .widths import width_factors

FEW_SERIES = 3.0  # number of series that the prior from many tables counts as
WILD = 5.0  # largest error that counts for the others, in units of the median expert
BESIDE = ("zero_shot", "vector")  # fields of Smoothed that hold forecasts of others


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
        bank = Bank(own, known, seasons, horizon, [len(own)], squared=squared, every=True)
        bank.run()
        banks.append((bank, bank.sums))
    evidence = torch.cat([sums.evidence for _, sums in banks], 1)
    weight = evidence / (evidence + PRIOR_ERRORS)
    others = (weight.sum(1) - 1).clamp(min=0)
    logs = torch.cat([sums.ratio for _, sums in banks], 1).clamp(1 / WILD, WILD).log()
    mean = (weight * logs).sum(1) / weight.sum(1).clamp(min=1e-9)
    choice = banks[0][0].choice
    prior = ((others * mean + FEW_SERIES * choice.prior.log()) / (others + FEW_SERIES)).exp()
    return prior if most is None else keep_best(prior, choice.usable, seasons, most)


def count_experts(seasons: Sequence[int], horizon: int, *, squared: bool = False) -> int:
    """Return the number of experts for a table whose seasons have these lengths."""
    nothing = torch.zeros(1, 1, dtype=torch.float64)
    return len(Bank(nothing, nothing > 0, seasons, horizon, [1], squared=squared).usable)
