"""Bounds of a series: natural ones (zero for rainfall), a floor at zero, or those that were given.

Natural bounds are values at which a series rests. They take part in training. Most other series
that were never negative cannot be, so their forecasts have a floor at zero. It is far away from
most data, and only finished forecasts are clamped to it. A user may give bounds instead.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from .._typing import Float
from .columns import listing
from .scaling import Scaler
from .windows import Batch

Forecast = Float[Tensor, "*members batch horizon series outputs"]

TOUCHED, BEYOND, BLOCKS = 0.05, 0.001, 4
ROUNDING = 1e-9  # of the largest value: a series that is no further below zero is not negative

Wanted = bool | tuple[float | None, float | None]
"""True: detect bounds; False: none; two numbers: the bounds of all series, None for no bound."""


def with_bounds(scaler: Scaler, values: np.ndarray, observed: np.ndarray, wanted: Wanted) -> Scaler:
    """Return the scaler with the bounds of its series, found in ``values`` unless they are given.

    Given bounds replace all others. Those of them that a series touches take part in training.
    """
    if wanted is False:
        return scaler
    touched = find_bounds(values, observed)
    if wanted is True:
        return replace(scaler, bounds=touched, floor=find_floor(values, observed))
    low, high = wanted
    none = np.repeat([[-np.inf], [np.inf]], values.shape[1], 1)
    given = none.copy()
    given[0] = -np.inf if low is None else low
    given[1] = np.inf if high is None else high
    return replace(scaler, bounds=np.where(touched == given, touched, none), given_bounds=given)


def find_bounds(values: np.ndarray, observed: np.ndarray) -> np.ndarray:
    """Find the lower and upper bound of each series, infinite where there is none: ``[2, N]``.

    A bound must be touched by 5 % of the values in every quarter of the rows, so that the end of a
    trend is not a bound. One value in a thousand may lie beyond it, so that a broken sensor does
    not hide it. A series that is constant, but for such values, has no bounds: both would be its
    value, and a later change would lie outside every interval.
    """
    bounds = np.repeat([[-np.inf], [np.inf]], values.shape[1], 1)
    for series in range(values.shape[1]):
        seen = values[observed[:, series], series]
        if len(seen) < BLOCKS:
            continue
        beyond = int(BEYOND * len(seen))
        ordered = np.partition(seen, (beyond, len(seen) - 1 - beyond))
        if ordered[beyond] == ordered[len(seen) - 1 - beyond]:
            continue
        for side, rank in enumerate((beyond, len(seen) - 1 - beyond)):
            touched = seen == ordered[rank]
            size, more = divmod(len(seen), BLOCKS)  # the first ones may have one more
            begins = [size * i + min(i, more) for i in range(BLOCKS)]
            counts = np.add.reduceat(touched, begins, dtype=int)
            if (counts / np.diff([*begins, len(seen)]) >= TOUCHED).all():
                bounds[side, series] = ordered[rank]
    return bounds


def find_floor(values: np.ndarray, observed: np.ndarray) -> np.ndarray:
    """Return bounds ``[2, N]`` with the lower bound 0 for each series that is never negative."""
    lowest = np.where(observed, values, np.inf).min(0, initial=np.inf)
    largest = np.where(observed, np.abs(values), 0.0).max(0, initial=0.0)
    positive = observed.any(0) & (lowest >= -ROUNDING * largest)
    return np.stack([np.where(positive, 0.0, -np.inf), np.full(len(positive), np.inf)])


def clamp_to_bounds(forecast: Forecast, batch: Batch) -> Forecast:
    """Clamp forecasts to the natural bounds of their series, as in training."""
    if batch.bounds is None:
        return forecast
    return forecast.clamp(*_window_bounds(batch, batch.bounds))


def clamp_finished(forecast: Forecast, batch: Batch) -> Forecast:
    """Clamp finished forecasts to all bounds of their series: also the floor and the given ones.

    The floor is lifted where a look-back has been below it. Given bounds hold always.
    """
    forecast = clamp_to_bounds(forecast, batch)
    if batch.floor is not None:
        forecast = forecast.clamp(*_window_bounds(batch, batch.floor))
    if batch.given_bounds is not None:
        forecast = forecast.clamp(*batch.given_bounds[:, :, None])
    return forecast


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
    for name in Scaler.BOUNDS:
        scaled, exact = getattr(batch, name), getattr(scaler, name)
        if scaled is not None and exact is not None:
            for side, bound in zip(scaled, exact, strict=True):
                values = np.where((y == side[:, None]).cpu().numpy(), bound[:, None], values)
    return values


def describe_bounds(scaler: Scaler, ids: Sequence) -> str:
    """Say in a line which series have bounds; empty if none has."""
    if scaler.given_bounds is not None:
        low, high = scaler.given_bounds[:, 0]
        pairs = (("at least", low), ("at most", high))
        sides = [f"{text} {side:g}" for text, side in pairs if np.isfinite(side)]
        return f"{' and '.join(sides)}, as given"
    parts = []
    for text, bounds in (("detected for", scaler.bounds), ("at least 0 for", scaler.floor)):
        bounded = [] if bounds is None else np.flatnonzero(np.isfinite(bounds).any(0)).tolist()
        if len(bounded):
            names = listing([ids[i] for i in bounded], 3)
            parts.append(f"{text} {'all series' if len(bounded) == len(ids) > 1 else names}")
    return "; ".join(parts)


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
