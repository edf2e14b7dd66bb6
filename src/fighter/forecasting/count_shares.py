"""Choose how a distribution of counts is mixed with the quantiles of past errors.

Both are tried on windows that test the forecasts. Each series has the shape under which its counts
were likeliest, and the share of these quantiles that had the smallest pinball loss.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from .._typing import Bool
from ..models import ForecastNet
from ..models.counts import SHAPES, log_probability
from ..training.calibration import adjust
from .alone import Untrained
from .autoconfig import Plan
from .blend import Blend, mixed_forecasts
from .counts import Counts, Quantiles
from .rehearsal import Rehearsal, truth_of
from .shares import pick_shares
from .spread import Points, independent_windows, is_mature, rows_apart

SHARES = torch.linspace(0, 1, 5)
STEPS = 6  # most steps of each window on which shapes and shares are chosen
POOLED = 20.0  # targets at which a series' own fit counts as much as that of all series
LEAST_SHARE = 0.05  # in the mean; below, the distribution is not used
COUNT_WINDOWS = 40  # that choose the distribution of counts, at most


def weigh_counts(
    plan: Plan,
    blend: Blend,
    shifts: Tensor,
    network: ForecastNet,
    rehearsal: Rehearsal,
    untrained: Untrained,
    counted: Bool[Tensor, "series"],
) -> tuple[Plan, Blend, Tensor]:
    """Choose how a distribution of counts is mixed with the quantiles of the forecasts.

    ``counted`` tells which series hold counts. Where the network has a share, validation windows
    decide: it has learned the others. ``shifts`` are the conformal shifts of the quantiles. Those
    of the distribution are not shifted: whole numbers would no longer be inside the interval that
    they bound, and an interval from 0 to 0 has no width to shift by.
    """
    validated = bool(blend.share.any()) and len(rehearsal.validation) > 0
    sample = rehearsal.validation if validated else rehearsal.windows
    sample, scaler = sample.thin(COUNT_WINDOWS), rehearsal.scaler
    plain, targets = [], []
    smoothed = rehearsal.smoothed.at(sample.starts + plan.lookback)
    made = mixed_forecasts(network, sample, rehearsal.start_step, scaler, blend, smoothed)
    for batch, y in made:
        plain.append(adjust(y, shifts, plan.quantiles, mean=blend.means)[..., 1:].cpu().double())
        targets.append([each.double() for each in truth_of(batch)])
    target, seen = (torch.cat(each) for each in zip(*targets, strict=True))
    shift, scale = (torch.from_numpy(each) for each in (scaler.shift, scaler.scale))
    assert smoothed.mean is not None
    counts = choose_counts(
        counted, torch.cat(plain) * scale[:, None] + shift[:, None], smoothed.mean,
        target * scale + shift, seen * is_mature(smoothed.tested, smoothed.tested.amax(0))[:, None],
        plan.quantiles, rows_apart(smoothed.rows),
    )  # fmt: skip
    if counts is None:
        return plan, blend, shifts
    plan = replace(plan, count_share=round(float(counts.share.mean()), 3))
    shifts = shifts * (1 - counts.share)[:, None]
    return plan, replace(blend, counts=counts, mean_prior=untrained.mean_prior), shifts


def choose_counts(
    counted: Bool[Tensor, "series"],
    plain: Quantiles,
    mean: Points,
    target: Points,
    seen: Points,
    levels: Sequence[float],
    apart: float,
) -> Counts | None:
    """Choose shape and share for each series; None if past errors are better throughout.

    Args:
        counted: which series hold counts.
        plain: the quantiles that the forecasts have without it.
        mean: forecasts of the means.
        target: the true values.
        seen: 1 where they count.
        levels: the quantiles.
        apart: rows from one window to the next, in the mean.
    """
    independent = independent_windows(seen, apart)
    steps = torch.linspace(0, target.shape[1] - 1, min(target.shape[1], STEPS)).long()
    plain, mean, target, seen = (each[:, steps] for each in (plain, mean, target, seen))
    count = seen.sum((0, 1))
    counted = counted & (count > 0)
    if not counted.any():
        return None
    whole, at_least = target.round().clamp(min=0), mean.clamp(min=0)
    fits = torch.stack([(log_probability(whole, at_least, s) * seen).sum((0, 1)) for s in SHAPES])
    pooled = fits[:, counted].sum(1, keepdim=True) / count[counted].sum()
    own = independent * len(steps) * fits / count.clamp(min=1e-9)
    made = Counts(SHARES.new_ones(len(count)), (own + POOLED * pooled).argmax(0), tuple(levels))
    counts, level = made.quantiles(mean), torch.tensor(levels, dtype=target.dtype)
    losses = []
    for share in SHARES.tolist():
        mixed = torch.lerp(plain.clamp(min=0), counts, share)
        above = target[..., None] - (mixed.round() if share else mixed)
        pinball = torch.maximum(level * above, (level - 1) * above).mean(-1)
        losses.append((pinball * seen).sum((0, 1)))
    chosen = pick_shares(torch.stack(losses), counted, independent, SHARES)
    share = torch.where(counted, SHARES[chosen], 0.0)
    if float(share[counted].mean()) < LEAST_SHARE:
        return None
    return Counts(share, made.shape, made.levels)
