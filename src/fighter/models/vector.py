"""Vector autoregression: forecasts that are linear in the last values of all series of a table.

The weights are those of a ridge regression, which shrinks values the more the longer ago they are.
How strongly, and towards which simple forecast (the mean, the last value, or the value one season
earlier), is chosen for each series by generalised cross-validation. The regressors are the same for
all series, so one decomposition serves them all.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from .._typing import Bool, Float, Int

MEMORY = 1024  # rows that are fitted on, the last
MOST_LAGS = 12  # in a row
MOST_FEATURES = 300  # values of all series that are regressed on
FEWEST_ROWS = 20  # to fit on
MOST_SERIES = 128  # of a table
MOST_APART = 64  # rows between two fits
SEASONAL = 2.0  # pull on values of one season ago; on those of lag k it is k
PENALTIES = torch.logspace(-1, 5, 25, dtype=torch.float64)
LEAST_FREE = 0.1  # of the degrees of freedom must be left
STEADY = 5.0  # largest response to a change of a series by 1, both in deviations, ever after

Values = Float[Tensor, "time series"]
Observed = Bool[Tensor, "time series"]


class VectorFit(NamedTuple):
    """Weights that were fitted on some rows.

    Args:
        lags: how many steps ago the values are that count.
        weights: what each of these values adds, less the centre of its series.
        centre: mean of each series.
    """

    lags: Int[Tensor, "lags"]
    weights: Float[Tensor, "lags source target"]
    centre: Float[Tensor, "series"]

    @property
    def reach(self) -> int:
        """Number of last rows that a forecast is made of."""
        return int(self.lags[-1])

    def forecast(
        self, last: Float[Tensor, "rows reach series"], horizon: int
    ) -> Float[Tensor, "rows horizon series"]:
        """Forecast step by step: each forecast counts as a value for the next ones."""
        path = [*(last - self.centre).unbind(1)]
        weights = self.weights.flatten(0, 1)
        for _ in range(horizon):
            path.append(torch.cat([path[-lag] for lag in self.lags.tolist()], 1) @ weights)
        return torch.stack(path[last.shape[1] :], 1) + self.centre

    def slopes(self, step: int) -> Float[Tensor, "reach source target"]:
        """Return the slope of the forecasts of a step from 1 by each of the last values."""
        count = len(self.centre)
        slopes = self.weights.new_zeros(self.reach + step, count, count)
        slopes[-1] = torch.eye(count)
        for place in range(len(slopes) - 1, self.reach - 1, -1):  # from the forecast back
            for lag, weight in zip(self.lags.tolist(), self.weights, strict=True):
                slopes[place - lag] += weight @ slopes[place]
        return slopes[: self.reach]


@torch.no_grad()
def forecast_vector(
    values: Values,
    observed: Observed,
    seasons: Sequence[int],
    horizon: int,
    rows: Int[Tensor, "origins"],
) -> Float[Tensor, "origins horizon series"]:
    """Forecast all series after their first ``rows`` rows; NaN where the rows are too few.

    A forecast sees no row after its own; its weights may be some rows older.
    """
    x, begin, _ = fill_gaps(values, observed)
    made = x.new_full((len(rows), horizon, x.shape[1]), torch.nan)
    for place, fit in enumerate(fit_after(x, begin, seasons, horizon, rows.tolist())):
        if fit is not None:
            row = int(rows[place])
            made[place] = fit.forecast(x[None, row - fit.reach : row], horizon)[0]
    return made


def fit_after(
    x: Values, begin: int, seasons: Sequence[int], horizon: int, rows: Sequence[int]
) -> Iterator[VectorFit | None]:
    """Yield the weights to forecast with after each of some rows, which rise.

    They are fitted on the rows from ``begin`` on, and again after an eighth more rows, at most 64.
    When they are fitted does not depend on ``rows``, so a forecast does not depend on the others.
    """
    fit, fitted, due = None, 0, FEWEST_ROWS
    for row in rows:
        latest = fitted
        while due <= row - begin:
            latest, due = due, due + max(1, min(due // 8, MOST_APART))
        if latest > fitted:
            fit, fitted = fit_vector(x[begin : begin + latest], seasons, horizon), latest
        yield fit


class VectorAttribution:
    """The forecasts after the last row, split over the past values of all series."""

    @torch.no_grad()
    def __init__(self, values: Values, observed: Observed, seasons: Sequence[int], horizon: int):
        self.x, begin, self.source = fill_gaps(values, observed)
        (self.fit,) = fit_after(self.x, begin, seasons, horizon, [len(values)])
        if self.fit is not None:
            self.made = self.fit.forecast(self.x[None, -self.fit.reach :], horizon)[0]

    @torch.no_grad()
    def slopes(self, step: int) -> Float[Tensor, "time source target"]:
        """Return the slopes of the forecasts of a step from 1; 0 where nothing was observed."""
        assert self.fit is not None
        slopes, count = self.fit.slopes(step), self.x.shape[1]
        source = self.source[-len(slopes) :, :, None].expand(-1, -1, count)
        return slopes.new_zeros(len(self.x), count, count).scatter_add_(0, source, slopes)


def fill_gaps(values: Values, observed: Observed) -> tuple[Values, int, Int[Tensor, "time series"]]:
    """Put the last observed value where none is.

    Also returns the row from which all series have begun, and the row that each value comes from.
    """
    index = torch.arange(len(values))[:, None]
    source = torch.where(observed, index, 0).cummax(0).values
    begun = torch.where(observed.any(0), observed.int().argmax(0), 0)
    source = torch.maximum(source, begun)
    return values.double().gather(0, source), int(begun.max()), source


def fit_vector(x: Values, seasons: Sequence[int], horizon: int) -> VectorFit | None:
    """Fit the last rows of all series; None if they are too few, or forecasts would run away."""
    x = x[-MEMORY:]
    rows, count = x.shape
    if rows < FEWEST_ROWS:
        return None
    lags, pull = choose_lags(rows, count, seasons)
    centre, size = x.mean(0), x.std(0, correction=0)
    varies = size > 1e-9 * x.abs().amax(0)
    size = torch.where(varies, size, 1.0)
    z = torch.where(varies, (x - centre) / size, 0.0)
    past = torch.stack([z[lags[-1] - lag : rows - lag] for lag in lags], 1)
    bases: list[int | None] = [None, 0]
    if seasons and seasons[0] in lags[1:]:
        bases.append(lags.index(seasons[0]))
    weights = _ridge(past, z[lags[-1] :], 1 / x.new_tensor(pull), bases)
    weights = weights * varies * varies[:, None]  # constant series tell and are told nothing
    fit = VectorFit(torch.tensor(lags), weights, torch.zeros_like(centre))
    impulse = x.new_zeros(count, fit.reach, count)
    impulse[:, -1] = torch.eye(count)
    if not bool((fit.forecast(impulse, horizon).abs() <= STEADY).all()):
        return None
    return VectorFit(fit.lags, fit.weights / size[:, None] * size, centre)


def choose_lags(rows: int, series: int, seasons: Sequence[int]) -> tuple[list[int], list[float]]:
    """Return how many steps ago the values are that are regressed on, and the pull on each."""
    most = max(min(MOST_FEATURES // series, rows // 5), 1)
    seasonal = [lag for m in seasons for lag in (m, m + 1, 2 * m) if m > 1 and lag < rows / 2.5]
    seasonal = seasonal[: most // 2]
    dense = max(min(MOST_LAGS, most - len(seasonal)), 1)
    pull = {lag: SEASONAL * (1 + i // 3) for i, lag in enumerate(seasonal)}
    pull |= {lag: float(lag) for lag in range(1, dense + 1)}
    return sorted(pull), [pull[lag] for lag in sorted(pull)]


def _ridge(
    past: Float[Tensor, "rows lags series"],
    y: Float[Tensor, "rows series"],
    scale: Float[Tensor, "lags"],
    bases: Sequence[int | None],
) -> Float[Tensor, "lags series series"]:
    """Regress on past values; choose penalty and base of each series by cross-validation.

    A base is the place of a lag whose value the forecast is pulled to, or None for the mean.
    """
    rows, lags, count = past.shape
    scale = scale[:, None].expand(-1, count).flatten()
    features = past.flatten(1) * scale
    values, vectors = torch.linalg.eigh(features.T @ features)
    values = values.clamp(min=0)
    least, weights = y.new_full((count,), torch.inf), y.new_zeros(lags, count, count)
    for base in bases:
        rest = y if base is None else y - past[:, base]
        product, total = vectors.T @ (features.T @ rest), rest.square().sum(0)
        for penalty in PENALTIES.tolist():
            inverse = 1 / (values + penalty)
            free = rows - float((values * inverse).sum())  # degrees of freedom that are left
            if free < LEAST_FREE * rows:
                continue
            fitted = (2 * inverse - values * inverse.square())[:, None] * product.square()
            error = (total - fitted.sum(0)).clamp(min=0) / free**2
            better = error < least
            if better.any():
                slopes = (vectors @ (inverse[:, None] * product)) * scale[:, None]
                slopes = slopes.view(lags, count, count)
                if base is not None:
                    slopes[base] += torch.eye(count).to(slopes)
                weights, least = torch.where(better, slopes, weights), error.minimum(least)
    return weights
