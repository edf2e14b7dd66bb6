"""How far forecasts without a trained network are from the truth: quantiles of past errors."""

from collections.abc import Sequence

import torch
from torch import Tensor

from .._typing import Float
from ..models.local import Smoothed
from ..models.widths import apply, fit_powers

NORMAL_WINDOWS = 5.0  # normal errors count as so many windows that test smoothing

Points = Float[Tensor, "windows horizon series"]


def error_quantiles(
    smoothed: Smoothed, target: Points, seen: Points, quantiles: Sequence[float]
) -> tuple[Float[Tensor, "horizon quantiles"], Float[Tensor, "factors"]]:
    """Return the quantiles of the errors of smoothing, in multiples of the expected error.

    Also returns the power of each factor of the expected error.

    The shape of the distribution is taken over all steps and series, its width by step. Only the
    second half of each series counts: before, little was known of it. Without any errors, they are
    those of a normal random walk.
    """
    mature = is_mature(smoothed.tested, smoothed.tested.amax(0))
    seen, steps = seen * mature[:, None], target.shape[1]
    # A series that never changed was forecast exactly, which says nothing of later errors.
    wrong = (target - smoothed.point).abs() * seen > 1e-6 * smoothed.error[:, None]
    seen = seen * wrong.any(0).any(0)
    # A series that was quiet so far has small errors, and large scores when it wakes up.
    usual = (smoothed.error * smoothed.known).sum(0) / smoothed.known.sum(0).clamp(min=1)
    error = torch.maximum(smoothed.error, 0.1 * usual).clamp(min=1e-12)[:, None]  # [B, 1, N]
    windows = float(independent_windows(seen, rows_apart(smoothed.rows)).sum())
    size = (target - smoothed.point).abs() / error
    size = size / ((size * seen).sum((0, 2)) / seen.sum((0, 2)).clamp(min=1))[:, None].clamp(1e-9)
    powers = fit_powers(smoothed.factors, size, seen > 0, windows)
    error = error * apply(smoothed.factors, powers)  # [B, H, N]
    usual = usual.clamp(min=1e-12)
    sizes = ((target - smoothed.point).abs() / usual * seen).sum((0, 2))
    width = sizes / (error / usual * seen).sum((0, 2)).clamp(min=1e-12)
    width = torch.where(width > 0, width, width.mean()).clamp(min=1e-3)
    # Few windows say little: they count beside normal errors that are as large as those so far.
    trust = windows / (windows + NORMAL_WINDOWS)
    width = trust * width + (1 - trust) * torch.maximum(width, torch.ones_like(width))
    width, score = _running_mean(width), (target - smoothed.point) / error
    shape = (score / width[:, None])[seen > 0]
    if not len(shape):
        return walk_quantiles(steps, quantiles), powers
    shape = shape[torch.linspace(0, len(shape) - 1, min(len(shape), 10**6)).long()]
    levels = torch.quantile(shape, torch.tensor(quantiles, dtype=shape.dtype))
    levels = trust * levels + (1 - trust) * normal_quantiles(quantiles)
    return (width[:, None] * levels).float(), powers


def usual_widths(
    smoothed: Smoothed,
    target: Points,
    seen: Points,
    size: Float[Tensor, "windows series"],
    quantiles: Sequence[float],
) -> Float[Tensor, "2 quantiles"]:
    """Return the usual distances of normal quantiles from the point forecast.

    They are those of the median series: in sizes of its values, and in units of the table.
    """
    seen = seen * is_mature(smoothed.tested, smoothed.tested.amax(0))[:, None]
    count = seen.sum((0, 1))
    error = ((target - smoothed.point).abs() * seen).sum((0, 1)) / count.clamp(min=1)
    size = (size * seen.any(1)).sum(0) / seen.any(1).sum(0).clamp(min=1)
    relative, known = error / size.clamp(min=1e-300), count > 0
    some = [relative[known & (size > 0)], error[known]]
    usual = torch.stack([each.median() if len(each) else each.new_zeros(()) for each in some])
    largest = torch.finfo(torch.float32).max  # values may be larger
    return (usual[:, None] * normal_quantiles(quantiles)).clamp(-largest, largest).float()


def is_mature(tested: Tensor, most: Tensor) -> Tensor:
    """Tell where at least half of the values of a series were known, and some had tested it.

    If none ever tested it, the series need only have changed: otherwise an error, once it changes,
    is any multiple of the errors so far. One that never changes counts if no series does.
    """
    half = (tested > 0) & (2 * tested >= most)
    return torch.where(most > 0, half, tested >= most.amax().clamp(max=0))


def independent_windows(seen: Points, apart: float = 1.0) -> Float[Tensor, "series"]:
    """Return how many windows of each series do not overlap; the last may be a part of one.

    Windows begin ``apart`` rows apart in the mean.
    """
    horizon = seen.shape[1]
    windows = seen.sum((0, 1)) / horizon
    return windows.clamp(max=1) + (windows - 1).clamp(min=0) * min(apart / horizon, 1.0)


def rows_apart(rows: Tensor) -> float:
    """Return how many rows lie between neighbours in the mean."""
    return float(rows[-1] - rows[0]) / max(len(rows) - 1, 1) if len(rows) else 1.0


def normal_quantiles(quantiles: Sequence[float]) -> Float[Tensor, "quantiles"]:
    """Return the quantiles of a normal distribution, in units of its mean absolute value."""
    return (torch.pi / 2) ** 0.5 * torch.special.ndtri(torch.tensor(quantiles, dtype=torch.float64))


def walk_quantiles(steps: int, quantiles: Sequence[float]) -> Float[Tensor, "horizon quantiles"]:
    """Return the quantiles of a normal random walk, in mean absolute errors of its first step."""
    walk = torch.arange(1.0, steps + 1).double().sqrt()
    return (walk[:, None] * normal_quantiles(quantiles)).float()


def _running_mean(x: Tensor, reach: int = 2) -> Tensor:
    """Average each entry with its neighbours: single steps rest on few errors."""
    padded = torch.cat([x[:1].expand(reach), x, x[-1:].expand(reach)])
    return padded.unfold(0, 2 * reach + 1, 1).mean(-1)
