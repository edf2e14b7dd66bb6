"""Choose the shares of a blend: of the network, of smoothing and of the pretrained network."""

from dataclasses import replace

import torch

from ..data import Scaler, Windows
from ..data.bounds import clamp_to_bounds
from ..models import ForecastNet
from ..models.local import Prior
from ..models.widths import FACTORS
from ..training import forecast
from ..training.inference import autocast
from .autoconfig import Plan
from .blend import Blend, measure_values, usual_extremes
from .rehearsal import MOST_WINDOWS, Rehearsal, recent, truth_of
from .shares import LEAST_SHARE, RECENCY, choose_shares
from .spread import (
    error_quantiles,
    independent_windows,
    is_mature,
    rows_apart,
    usual_widths,
    walk_quantiles,
)

FEW_WINDOWS = 1.0  # with so much evidence in all, the network's share is halved
FEW_TO_CALIBRATE = 10.0  # the same, of its share in the widths of intervals


def weigh_halves(
    network: ForecastNet, validation: Windows, start_step: int, *, squared: bool = False
) -> None:
    """Choose how much the members with reversion count beside those without.

    It has the smallest absolute or ``squared`` errors.
    """
    parts = []
    for index in (sample := recent(validation).thin(MOST_WINDOWS)).batches(sample.eval_batch_size):
        batch = sample.gather(index)
        with torch.no_grad(), autocast(sample.device):
            y = network(batch, batch.start + start_step, per_member=True)[..., 0]
        plain, reverted = clamp_to_bounds(y.to(batch.past)[..., None], batch)[..., 0].chunk(2)
        parts.append([reverted.mean(0).cpu(), plain.mean(0).cpu(), *truth_of(batch)])
    reverted, plain, target, seen = (torch.cat(part) for part in zip(*parts, strict=True))
    shares, _ = choose_shares(reverted, plain, target, seen, squared=squared)
    if len(network.reverting) != len(shares):
        shares = shares.mean(0, keepdim=True)
    network.reverting.copy_(shares)


def make_blend(
    plan: Plan,
    network: ForecastNet,
    scaler: Scaler,
    training: Windows | None,
    rehearsal: Rehearsal | None,
    prior: Prior,
    start_step: int,
    mean_prior: Prior | None = None,
) -> tuple[Plan, Blend]:
    """Choose how the network is mixed with smoothing; return that, and the plan that tells it."""
    series = len(scaler.shift)
    alone = float(not plan.smoothing)
    blend = Blend(
        torch.zeros(series),
        torch.full((series,), alone),
        torch.zeros(series),
        torch.ones(3, series),
        walk_quantiles(plan.horizon, plan.quantiles),
        torch.zeros(FACTORS),
        prior.float(),
        torch.zeros(2, len(plan.quantiles)),
        plan.seasons,
        means=plan.point == "mean",
    )
    if blend.means:
        blend = replace(blend, mean_prior=mean_prior)
    if rehearsal is None:
        return replace(plan, network_share=0.0, pretrained_share=alone), blend
    sample = rehearsal.windows
    parts = []
    for index in sample.batches(sample.eval_batch_size):
        batch = sample.gather(index)
        parts.append(
            [*(each.double() for each in truth_of(batch)), measure_values(batch, scaler)[1]]
        )
    target, seen, sizes = (torch.cat(part) for part in zip(*parts, strict=True))
    target = target * torch.from_numpy(scaler.scale) + torch.from_numpy(scaler.shift)
    smoothed = rehearsal.smoothed.at(sample.starts + plan.lookback)
    if smoothed.zero_shot is not None and plan.smoothing:
        mature = seen * is_mature(smoothed.tested, smoothed.tested.amax(0))[:, None]
        # Smoothing gets better the more rows it has seen: errors of long ago are too large.
        mature = mature * (smoothed.rows / smoothed.rows[-1])[:, None, None] ** RECENCY
        scale, asked = torch.from_numpy(scaler.scale), smoothed.zero_shot[:, :1, :, 0].isfinite()
        made, mature = asked.any(2)[:, 0], mature * asked
        alone = blend.smoothing(smoothed)
        guess = torch.where(asked, smoothed.zero_shot[..., 0], alone)
        first, second, truth = (each[made] / scale for each in (guess, alone, target))
        apart = rows_apart(smoothed.rows[made])
        share, (first, second, mixed) = choose_shares(
            first, second, truth, mature[made], apart, squared=blend.means
        )
        if float(share.mean()) < LEAST_SHARE:
            share = torch.zeros_like(share)
        blend = replace(blend, zero_shot=share)
        plan = replace(plan, errors={"pretrained": first, "smoothing": second, "mixed": mixed})
    plan = replace(plan, pretrained_share=round(float(blend.zero_shot.mean()), 3))
    if plan.quantiles and blend.smooths:
        mixed = smoothed._replace(point=blend.point(smoothed))
        spread, powers = error_quantiles(mixed, target, seen, plan.quantiles)
        least = usual_widths(mixed, target, seen, sizes, plan.quantiles)
        blend = replace(blend, spread=spread, powers=powers.float(), least=least)
    if not plan.trained or training is None:
        return replace(plan, network_share=0.0), blend
    blend = replace(blend, usual=usual_extremes(training))
    if not len(rehearsal.validation):  # nothing prefers one of the two
        blend = replace(blend, share=torch.full((series,), 0.5))  # but smoothing sets the widths
        return replace(plan, network_share=0.5), blend
    parts = []
    for batch, y in forecast(network, rehearsal.validation, start_step):
        local = blend.local(rehearsal.smoothed.at(batch.start + plan.lookback), scaler)
        local = clamp_to_bounds(local.to(batch.past), batch)
        parts.append([y[..., 0].cpu(), local[..., 0].cpu(), *truth_of(batch)])
    ours, others, target, seen = (torch.cat(part) for part in zip(*parts, strict=True))
    apart = rows_apart(rehearsal.validation.starts)
    share, (ours, others, mixed) = choose_shares(
        ours, others, target, seen, apart, squared=blend.means
    )
    evidence = float(independent_windows(seen, apart).sum())
    share = share * evidence / (evidence + FEW_WINDOWS)
    errors = {"network": ours, "others": others, "mixed": mixed}
    if not blend.zero_shot.any():
        errors = {"network": ours, "smoothing": others, "mixed": mixed}
    plan = replace(plan, network_share=round(float(share.mean()), 3), errors=errors)
    width_share = share * evidence / (evidence + FEW_TO_CALIBRATE)
    return plan, replace(blend, share=share, width_share=width_share)
