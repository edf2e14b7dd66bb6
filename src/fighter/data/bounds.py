"""Natural bounds of a series (zero for rainfall), detected from the data."""

import numpy as np
import torch
from torch import Tensor

from .._typing import Float
from .scaling import Scaler
from .windows import Batch

Forecast = Float[Tensor, "*members batch horizon series outputs"]

TOUCHED, BEYOND, BLOCKS = 0.05, 0.001, 4


def find_bounds(values: np.ndarray, observed: np.ndarray) -> np.ndarray:
    """Find the lower and upper bound of each series, infinite where there is none: ``[2, N]``.

    A bound must be touched by 5 % of the values in every quarter of the rows, so that the end of a
    trend is not a bound. One value in a thousand may lie beyond it, so that a broken sensor does
    not hide it.
    """
    bounds = np.repeat([[-np.inf], [np.inf]], values.shape[1], 1)
    for series in range(values.shape[1]):
        seen = values[observed[:, series], series]
        if len(seen) < BLOCKS:
            continue
        beyond = int(BEYOND * len(seen))
        ordered = np.partition(seen, (beyond, len(seen) - 1 - beyond))
        for side, rank in enumerate((beyond, len(seen) - 1 - beyond)):
            touched = seen == ordered[rank]
            if all(block.mean() >= TOUCHED for block in np.array_split(touched, BLOCKS)):
                bounds[side, series] = ordered[rank]
    return bounds


def clamp_to_bounds(forecast: Forecast, batch: Batch) -> Forecast:
    """Clamp forecasts to the bounds of their series."""
    if batch.bounds is None:
        return forecast
    low, high = _window_bounds(batch, batch.bounds)
    return forecast.clamp(low, high)


def straight_through_clamp(forecast: Forecast, batch: Batch) -> Forecast:
    """Clamp like :func:`clamp_to_bounds`, with gradients that suit a loss.

    A forecast beyond a bound gets no gradient if the target is at the bound. If the target is
    inside, it gets the gradient of the unclamped forecast, so that it can return.
    """
    if batch.bounds is None:
        return forecast
    low, high = _window_bounds(batch, batch.bounds)
    inside = (batch.future[..., None] > low) & (batch.future[..., None] < high)
    clamped = forecast.clamp(low, high)
    return torch.where(inside, forecast + (clamped - forecast).detach(), clamped)


def to_table_units(y: Forecast, batch: Batch, scaler: Scaler) -> np.ndarray:
    """Convert scaled forecasts to the units of the table, ``float64`` of the same shape.

    A forecast at a bound becomes the bound exactly: 0, not -7e-8.
    """
    values = scaler.inverse(y.cpu().numpy().astype(np.float64), axis=-2)
    if batch.bounds is None or scaler.bounds is None:
        return values
    for scaled, bound in zip(batch.bounds, scaler.bounds, strict=True):
        values = np.where((y == scaled[:, None]).cpu().numpy(), bound[:, None], values)
    return values


def _window_bounds(batch: Batch, bounds: Tensor) -> tuple[Tensor, Tensor]:
    """Return the low and high bounds of each window, ``[batch, 1, series, 1]``.

    A series that was beyond a bound in its look-back, by more than rounding, has none on that side.
    """
    low, high = bounds
    lowest, highest = batch.past, batch.past
    if batch.past_observed is not None:  # cells that are not observed hold the mean
        lowest = lowest.masked_fill(~batch.past_observed, torch.inf)
        highest = highest.masked_fill(~batch.past_observed, -torch.inf)
    rounding = 8 * torch.finfo(bounds.dtype).eps * bounds.abs().clamp(min=1)
    low = torch.where(lowest.amin(1) < low - rounding[0], -torch.inf, low)
    high = torch.where(highest.amax(1) > high + rounding[1], torch.inf, high)
    return low[:, None, :, None], high[:, None, :, None]
