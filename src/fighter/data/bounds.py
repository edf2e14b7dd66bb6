"""Values that a series rests at and does not pass, as rain does at zero."""

import numpy as np
import torch
from torch import Tensor

from .scaling import Scaler
from .windows import Batch

SHARE, BEYOND, PARTS = 0.05, 0.001, 4


def find_bounds(values: np.ndarray, observed: np.ndarray) -> np.ndarray:
    """The lowest and the highest value of each series, infinite where it has none: ``[2, N]``.

    A limit is touched by 5 % of the values of every quarter of the rows, so that the end of a
    trend is none, and passed by one in a thousand at most: a broken sensor hides no limit.
    """
    bounds = np.repeat([[-np.inf], [np.inf]], values.shape[1], 1)
    for series in range(values.shape[1]):
        seen = values[observed[:, series], series]
        if len(seen) < PARTS:
            continue
        beyond = int(BEYOND * len(seen))
        ordered = np.partition(seen, (beyond, len(seen) - 1 - beyond))
        for side, at in enumerate((beyond, len(seen) - 1 - beyond)):
            touched = seen == ordered[at]
            if all(part.mean() >= SHARE for part in np.array_split(touched, PARTS)):
                bounds[side, series] = ordered[at]
    return bounds


def clamp_to_bounds(forecast: Tensor, batch: Batch) -> Tensor:
    """Forecasts ``[batch, horizon, series, outputs]`` within the limits of their series."""
    if batch.bounds is None:
        return forecast
    low, high = _limits(batch, batch.bounds)
    return forecast.clamp(low, high)


def straight_through_clamp(forecast: Tensor, batch: Batch) -> Tensor:
    """:func:`limited`, for a loss: a forecast beyond a limit is right if the target is at it.

    Where the target is inside, the gradient is that of the forecast as it was, so that it comes
    back.
    """
    if batch.bounds is None:
        return forecast
    low, high = _limits(batch, batch.bounds)
    inside = (batch.future[..., None] > low) & (batch.future[..., None] < high)
    held = forecast.clamp(low, high)
    return torch.where(inside, forecast + (held - forecast).detach(), held)


def to_table_units(y: Tensor, batch: Batch, scaler: Scaler) -> np.ndarray:
    """``y [batch, horizon, series, outputs]`` in the units of the table.

    What is at a limit is so exactly: 0, and not -7e-8.
    """
    values = scaler.inverse(y.cpu().numpy().astype(np.float64), axis=-2)
    if batch.bounds is None or scaler.bounds is None:
        return values
    for scaled, limit in zip(batch.bounds, scaler.bounds, strict=True):
        values = np.where((y == scaled[:, None]).cpu().numpy(), limit[:, None], values)
    return values


def _limits(batch: Batch, bounds: Tensor) -> tuple[Tensor, Tensor]:
    """Of each window, ``[batch, 1, series, 1]``: one that has passed a limit is not held by it."""
    low = torch.minimum(bounds[0], batch.past.amin(1))
    high = torch.maximum(bounds[1], batch.past.amax(1))
    return low[:, None, :, None], high[:, None, :, None]
