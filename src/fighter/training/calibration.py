"""Split-conformal calibration of quantiles on validation windows, with room for drift.

A score says by how many predicted widths a target lies above a predicted quantile, so that what is
learned in a wild season serves a calm one. The q-quantile of the scores, by series and over all
steps, is what is added to quantile q (split conformal; Romano et al., 2019).

That would be right if the future were like the validation rows. How far it is not can be seen in
them: corrections from the earlier blocks of windows are tried on the next block, and the tails are
taken so far out that they would have covered there.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from .._typing import Float
from ..data.windows import Windows
from .inference import forecast

MOST_WINDOWS = 240  # more would sharpen nothing: neighbouring windows share almost all targets
MOST_CELLS = 2**25  # scores held at once, for many series
BLOCKS = 8


def calibrate(
    network: nn.Module, windows: Windows, quantiles: Sequence[float], start_step: int = 0
) -> Float[Tensor, "series quantiles"]:
    """What to add to each quantile, in predicted widths, so that it is one on later rows."""
    cells = windows.horizon * windows.values.shape[1] * len(quantiles)
    most = min(max(MOST_CELLS // cells, 8 * BLOCKS), MOST_WINDOWS, len(windows))
    picked = torch.linspace(0, len(windows) - 1, most).long().unique()
    chosen = Windows(**{**vars(windows), "starts": windows.starts[picked]})
    scores = []
    for batch, y in forecast(network, chosen, start_step):
        score = (batch.future[..., None] - y[..., 1:]) / _width(y)  # [B, H, N, Q]
        if batch.future_observed is not None:
            score = score.masked_fill(~batch.future_observed[..., None], float("nan"))
        scores.append(score.cpu())
    score = torch.cat(scores)
    # A series that rests at a limit is inside more often than asked for, and says nothing of drift.
    free = torch.ones(score.shape[2], dtype=torch.bool)
    if chosen.bounds is not None and (unlimited := chosen.bounds.isinf().all(0).cpu()).any():
        free = unlimited
    conformal_shifts = _quantiles(
        _ordered(score), _widened(score[:, :, free], torch.tensor(quantiles))
    )
    # A series without a target in these rows takes the mean of the others.
    return torch.where(
        conformal_shifts.isnan(), conformal_shifts.nanmean(0), conformal_shifts
    ).nan_to_num(0.0)


def adjust(
    y: Float[Tensor, "*batch horizon series outputs"],
    conformal_shifts: Float[Tensor, "series quantiles"],
) -> Tensor:
    """Forecasts with calibrated quantiles, in order."""
    later = (y[..., 1:] + conformal_shifts.to(y) * _width(y)).sort(-1).values
    return torch.cat([y[..., :1], later], -1)


def _width(y: Tensor) -> Tensor:
    """From the lowest quantile to the highest, half of the mean over the horizon at least.

    Quantiles that touch would make scores without bound; and a model that knows no widths has one
    for all steps.
    """
    width = (y[..., -1:] - y[..., 1:2]).abs()
    return torch.maximum(width, width.mean(-3, keepdim=True) / 2).clamp(min=1e-3)


def _widened(score: Tensor, quantiles: Tensor) -> Tensor:
    """Levels whose tails, calibrated on the past, would have held what came next. ``[Q]``"""
    shares = torch.arange(1.0, 0.0, -0.05)[:, None]
    narrower = torch.where(quantiles < 0.5, shares * quantiles, 1 - shares * (1 - quantiles))
    if len(score) < 2 * BLOCKS:
        return quantiles
    missed, blocks = [], score.tensor_split(BLOCKS)
    for i in range(1, BLOCKS):
        before = _ordered(torch.cat(blocks[:i]))
        tried = [_missed(blocks[i], _quantiles(before, levels), quantiles) for levels in narrower]
        missed.append(torch.stack(tried))
    missed = torch.stack(missed).nanmean(0)  # [shares, Q]
    levels, tails = quantiles.clone(), torch.minimum(quantiles, 1 - quantiles)
    for tail in tails[tails < 0.5].unique():
        mine = (tails - tail).abs() < 1e-6  # the two sides of an interval are widened together
        enough = (missed[:, mine].sum(1) <= tail * mine.sum()).tolist()
        first = enough.index(True) if any(enough) else -1
        levels[mine] = narrower[first, mine]
    return levels


def _missed(score: Tensor, conformal_shifts: Tensor, quantiles: Tensor) -> Tensor:
    """The share of targets outside, below low quantiles and above high ones. ``[Q]``"""
    outside = torch.where(quantiles < 0.5, score < conformal_shifts, score > conformal_shifts)
    seen = ~(score.isnan() | conformal_shifts.isnan())
    return (outside & seen).sum((0, 1, 2)) / seen.sum((0, 1, 2))


def _ordered(score: Tensor) -> tuple[Tensor, Tensor]:
    """Scores of each series in order, NaN last, and how many there are."""
    flat = score.flatten(0, 1)  # [B * H, N, Q]
    return flat.sort(0).values, (~flat.isnan()).sum(0)


def _quantiles(ordered: tuple[Tensor, Tensor], levels: Tensor) -> Tensor:
    """Quantiles, corrected for finite samples: the outer neighbour is taken. ``[N, Q]``"""
    values, count = ordered
    rank = (count + 1) * levels.double()
    rank = torch.where(levels < 0.5, rank.floor(), rank.ceil()).long()
    return values.gather(0, (rank - 1).clamp(min=0).minimum((count - 1).clamp(min=0))[None])[0]
