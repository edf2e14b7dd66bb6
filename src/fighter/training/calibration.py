"""Split-conformal calibration of quantiles on validation windows, with room for drift.

The score of a target says how many predicted interval widths it lies above a predicted quantile,
so scores from a volatile season also fit a calm one. The q-quantile of the scores of a series, over
all steps, is added to its quantile q (split conformal prediction; Romano et al., 2019).

This is exact if the future resembles the validation rows. To allow for drift, shifts computed from
the earlier blocks of windows are tested on the next block, and the tails are moved out until they
would have covered it.
"""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from .._typing import Float
from ..data.windows import Batch, Windows

Scores = Float[Tensor, "windows horizon series quantiles"]
Shifts = Float[Tensor, "series quantiles"]
Levels = Float[Tensor, "quantiles"]
Forecast = Float[Tensor, "*batch horizon series outputs"]

EXACT = 1e-4  # error of an exact forecast, at most, in interval widths
MOST_WINDOWS = 240  # more would add little: neighbouring windows share almost all targets
MOST_CELLS = 2**25  # upper limit of scores in memory, for panels of many series
BLOCKS = 8
ALLOWANCES = [0.02 * i for i in range(51)]  # for drift, in interval widths
FEW_WINDOWS = 10.0  # with this many, a series counts as much as all series together


def sample_windows(windows: Windows, quantiles: Sequence[float]) -> Windows:
    """Take the windows to calibrate on: as many as are of use and fit into memory."""
    cells = windows.horizon * windows.values.shape[1] * max(len(quantiles), 1)
    return windows.thin(min(max(MOST_CELLS // cells, 8 * BLOCKS), MOST_WINDOWS))


def calibrate(
    forecasts: Iterable[tuple[Batch, Forecast]], quantiles: Sequence[float]
) -> tuple[Shifts, int]:
    """Compute the conformal shift of each quantile, in units of the predicted interval width.

    ``forecasts`` are windows in the order of time, with their forecasts. Also returns the
    number of targets that were scored, over all windows and series.
    """
    scores, missed, bounds = [], [], None
    for batch, y in forecasts:
        bounds, width = batch.bounds, _interval_width(y)
        score = (batch.future[..., None] - y[..., 1:]) / width  # [B, H, N, Q]
        wrong = (batch.future - y[..., 0]).abs() > EXACT * width[..., 0]
        if batch.future_observed is not None:
            score = score.masked_fill(~batch.future_observed[..., None], float("nan"))
            wrong = wrong & batch.future_observed
        scores.append(score.cpu())
        missed.append(wrong.any(1).cpu())
    score = torch.cat(scores)
    count = int((~score[..., 0].isnan()).sum())
    # A series that never changed was forecast exactly, which says nothing of later errors.
    score[:, :, ~torch.cat(missed).any(0)] = float("nan")
    # A series at one of its bounds is covered more often than asked for and says nothing of drift.
    unbounded = torch.ones(score.shape[2], dtype=torch.bool)
    if bounds is not None and (without := bounds.isinf().all(0).cpu()).any():
        unbounded = without
    levels = torch.tensor(quantiles)
    allowance = _drift_allowance(score[:, :, unbounded], levels)
    own, pooled = _sort_scores(score), _sort_scores(score.flatten(1, 2)[:, :, None])
    shifts, shared = _conformal_quantiles(own, levels), _conformal_quantiles(pooled, levels)
    # Beyond all errors that were seen, a quantile is not moved inward.
    targets = _count_targets(score)
    shifts = torch.where(_is_beyond(levels, targets), _outward(shifts, levels), shifts)
    shared = torch.where(_is_beyond(levels, targets.sum(0)), _outward(shared, levels), shared)
    # Neighbouring windows share targets: a series with few of its own leans on all of them.
    windows = (~score.isnan()).any(3).sum((0, 1)).double() / score.shape[1]
    trust = (windows / (windows + FEW_WINDOWS))[:, None].to(shifts)
    shifts = torch.where(shifts.isnan(), shared, trust * shifts + (1 - trust) * shared)
    return shifts.nan_to_num(0.0) + allowance, count


def adjust(
    y: Forecast, conformal_shifts: Shifts, quantile_levels: Sequence[float], *, mean: bool = False
) -> Forecast:
    """Add the conformal shifts to the quantiles of a forecast, and sort them around the point.

    The lower half of the quantiles is at most the point forecast, the upper half at least. The
    median is the point forecast, unless that is a ``mean``.
    """
    point = y[..., :1]
    quantiles = (y[..., 1:] + conformal_shifts.to(y) * _interval_width(y)).sort(-1).values
    low = torch.minimum(quantiles, point)
    high = torch.maximum(quantiles, point)
    levels = torch.tensor(quantile_levels, device=y.device)
    middle = quantiles if mean else point
    quantiles = torch.where(levels < 0.5, low, torch.where(levels > 0.5, high, middle))
    return torch.cat([point, quantiles], -1)


def _interval_width(y: Forecast) -> Float[Tensor, "*batch horizon series 1"]:
    """Measure from the lowest to the highest quantile: at least half the mean over the horizon.

    Without that minimum, quantiles that touch would make scores unbounded.
    """
    width = (y[..., -1:] - y[..., 1:2]).abs()
    return torch.maximum(width, width.mean(-3, keepdim=True) / 2).clamp(min=1e-3)


def _drift_allowance(score: Scores, quantiles: Levels) -> Levels:
    """Find how far to move the tails out, so that shifts from earlier blocks cover the next block.

    The allowance is in interval widths, and negative for low quantiles. The two sides of an
    interval move together.
    """
    if len(score) < 2 * BLOCKS:
        return torch.zeros_like(quantiles)
    outward = torch.where(quantiles < 0.5, -1.0, 1.0).to(quantiles)
    rates, blocks = [], score.tensor_split(BLOCKS)
    for i in range(1, BLOCKS):
        shifts = _conformal_quantiles(_sort_scores(torch.cat(blocks[:i])), quantiles)
        moved = [shifts + outward * step for step in ALLOWANCES]
        rates.append(torch.stack([_miss_rate(blocks[i], shift, quantiles) for shift in moved]))
    rates = torch.stack(rates).nanmean(0)  # [allowances, Q]
    allowance, tails = torch.zeros_like(quantiles), torch.minimum(quantiles, 1 - quantiles)
    for tail in tails[tails < 0.5].unique():
        pair = (tails - tail).abs() < 1e-6
        if rates[:, pair].isnan().any():  # no series has windows in two blocks
            continue
        enough = (rates[:, pair].sum(1) <= tail * pair.sum()).tolist()
        step = ALLOWANCES[enough.index(True) if any(enough) else -1]
        allowance[pair] = outward[pair] * step
    return allowance


def _count_targets(score: Scores) -> Float[Tensor, "series 1"]:
    """Count the targets of each series; windows that begin at neighbouring rows share most."""
    known = ~score[..., 0].isnan()
    steps = score.shape[1]
    return (known.sum((0, 1)) / steps + known.any(0).sum(0) - 1).clamp(min=0)[:, None]


def _is_beyond(levels: Levels, targets: Tensor) -> Tensor:
    """Tell which levels are so close to 0 or 1 that no target was expected beyond them."""
    return torch.minimum(levels, 1 - levels) * (targets + 1) < 1


def _outward(shifts: Shifts, levels: Levels) -> Shifts:
    """Replace shifts that would narrow an interval by zero."""
    return torch.where(levels < 0.5, shifts.clamp(max=0), shifts.clamp(min=0))


def _miss_rate(score: Scores, shifts: Shifts, quantiles: Levels) -> Levels:
    """Measure the share of targets below each low quantile and above each high one."""
    missed = torch.where(quantiles < 0.5, score < shifts, score > shifts)
    seen = ~(score.isnan() | shifts.isnan())
    return (missed & seen).sum((0, 1, 2)) / seen.sum((0, 1, 2))


def _sort_scores(score: Scores) -> tuple[Float[Tensor, "scores series quantiles"], Tensor]:
    """Sort the scores of each series, NaN last, and count those that are numbers."""
    flat = score.flatten(0, 1)  # [B * H, N, Q]
    return flat.sort(0).values, (~flat.isnan()).sum(0)


def _conformal_quantiles(scores: tuple[Tensor, Tensor], levels: Levels) -> Shifts:
    """Take quantiles of sorted scores, corrected for finite samples: the outer neighbour."""
    values, count = scores
    rank = (count + 1) * levels.double()
    rank = torch.where(levels < 0.5, rank.floor(), rank.ceil()).long()
    return values.gather(0, (rank - 1).clamp(min=0).minimum((count - 1).clamp(min=0))[None])[0]
