"""Choose the shares of a blend: of the network, of smoothing and of those beside smoothing."""

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from .._typing import Float
from ..data import Windows
from ..data.bounds import clamp_to_bounds
from ..models import ForecastNet
from ..models.local import Smoothed
from ..models.widths import FACTORS
from ..training import forecast
from ..training.inference import autocast
from .alone import Untrained
from .autoconfig import Plan
from .blend import Blend, Outputs, measure_values, usual_extremes
from .rehearsal import MOST_WINDOWS, Rehearsal, recent, truth_of
from .shares import LEAST_SHARE, RECENCY, SHARES, choose_shares
from .spread import (
    Points,
    error_quantiles,
    independent_windows,
    is_mature,
    rows_apart,
    usual_widths,
    walk_quantiles,
)

FEW_WINDOWS = 1.0  # with so much evidence in all, a share is halved
NO_VECTOR = 0.5  # against a share of 1 of the vector autoregression, in windows
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
    untrained: Untrained,
    network: ForecastNet,
    series: int,
    training: Windows | None,
    rehearsal: Rehearsal | None,
) -> tuple[Plan, Blend]:
    """Choose how forecasts of so many series are mixed; return that, and the plan that tells it.

    Each step mixes one more forecast with those before it: the pretrained network with smoothing,
    the vector autoregression with both, and the trained network with all of them.
    """
    plan = replace(plan, network_share=0.0, pretrained_share=float(not plan.smoothing))
    blend = start_blend(untrained, series)
    if rehearsal is None:
        return plan, blend
    trial = Trial.of(rehearsal)
    plan, blend = weigh_pretrained(plan, blend, trial)
    plan, blend = weigh_vector(plan, blend, trial)
    # A further forecast that needs no training is weighed here, against those mixed so far.
    blend = measure_widths(plan, blend, trial)
    if plan.trained and training is not None:
        blend = replace(blend, usual=usual_extremes(training))
        plan, blend = weigh_network(plan, blend, network, rehearsal)
    return plan, blend


def start_blend(untrained: Untrained, series: int) -> Blend:
    """Return the blend before any share is chosen: without the network, of usual widths."""
    plan, means = untrained.plan, untrained.plan.point == "mean"
    return Blend(
        share=torch.zeros(series),
        zero_shot=torch.full((series,), float(not plan.smoothing)),
        vector=torch.zeros(series),
        width_share=torch.zeros(series),
        usual=torch.ones(3, series),
        spread=walk_quantiles(plan.horizon, plan.quantiles),
        powers=torch.zeros(FACTORS),
        prior=untrained.prior.float(),
        least=torch.zeros(2, len(plan.quantiles)),
        seasons=plan.seasons,
        mean_prior=untrained.mean_prior if means else None,
        means=means,
    )


class Trial(NamedTuple):
    """What the forecasts without training were after each window of a rehearsal, and the truth.

    All is in the units of the table; ``scale`` is that of each series.
    """

    smoothed: Smoothed
    target: Points
    seen: Points  # 1 where the target is observed
    sizes: Float[Tensor, "windows series"]  # mean size of the values looked back at
    scale: Float[Tensor, "series"]

    @classmethod
    def of(cls, rehearsal: Rehearsal) -> "Trial":
        """Gather the windows of a rehearsal."""
        sample, scaler, parts = rehearsal.windows, rehearsal.scaler, []
        for index in sample.batches(sample.eval_batch_size):
            batch = sample.gather(index)
            truth = (each.double() for each in truth_of(batch))
            parts.append([*truth, measure_values(batch, scaler)[1]])
        target, seen, sizes = (torch.cat(part) for part in zip(*parts, strict=True))
        scale, shift = (torch.from_numpy(each) for each in (scaler.scale, scaler.shift))
        smoothed = rehearsal.smoothed.at(sample.starts + sample.lookback)
        return cls(smoothed, target * scale + shift, seen, sizes, scale)


def weigh_pretrained(plan: Plan, blend: Blend, trial: Trial) -> tuple[Plan, Blend]:
    """Choose the share of the pretrained network beside smoothing; without that, it is 1."""
    outputs = trial.smoothed.zero_shot
    if outputs is None or not plan.smoothing:
        return plan, blend
    others = blend.smoothing(trial.smoothed)
    share, (first, second, mixed) = weigh_beside(outputs, others, trial, squared=blend.means)
    told = {"pretrained": first, "smoothing": second, "mixed": mixed}
    plan = replace(plan, pretrained_share=round(float(share.mean()), 3), errors=told)
    return plan, replace(blend, zero_shot=share)


def weigh_vector(plan: Plan, blend: Blend, trial: Trial) -> tuple[Plan, Blend]:
    """Choose the share of the vector autoregression beside smoothing and the pretrained network."""
    if (outputs := trial.smoothed.vector) is None:
        return plan, blend
    share, _ = weigh_beside(
        outputs, blend.point(trial.smoothed), trial, prior=NO_VECTOR * SHARES, few=FEW_WINDOWS,
        squared=blend.means,
    )  # fmt: skip
    return replace(plan, vector_share=round(float(share.mean()), 3)), replace(blend, vector=share)


def weigh_beside(
    outputs: Outputs,
    others: Points,
    trial: Trial,
    *,
    prior: Float[Tensor, "shares"] | None = None,
    few: float = 0.0,
    squared: bool,
) -> tuple[Float[Tensor, "series"], tuple[float, float, float]]:
    """Choose the share of a forecast that needs no training beside others, see choose_shares.

    It is tried where it was made, NaN elsewhere; ``prior`` is that of choose_shares. No series has
    a share if the mean is very small. With evidence of ``few`` windows in all, it is halved.
    """
    rows, tested = trial.smoothed.rows, trial.smoothed.tested
    weight = trial.seen * is_mature(tested, tested.amax(0))[:, None]
    # Smoothing gets better the more rows it has seen: errors of long ago are too large.
    weight = weight * (rows / rows[-1])[:, None, None] ** RECENCY
    asked = outputs[:, :1, :, 0].isfinite()
    made, weight = asked.any(2)[:, 0], weight * asked
    guess = torch.where(asked, outputs[..., 0], others)
    guess, others, target = (each[made] / trial.scale for each in (guess, others, trial.target))
    apart = rows_apart(rows[made])
    share, errors = choose_shares(
        guess, others, target, weight[made], apart, prior=prior, squared=squared
    )
    if few:
        evidence = float(independent_windows(weight[made], apart).sum())
        share = share * evidence / (evidence + few)
    if float(share.mean()) < LEAST_SHARE:
        share = torch.zeros_like(share)
    return share, errors


def measure_widths(plan: Plan, blend: Blend, trial: Trial) -> Blend:
    """Measure the errors of what is mixed without the network, which set its quantiles."""
    if not plan.quantiles or not blend.smooths:
        return blend
    mixed = trial.smoothed._replace(point=blend.point(trial.smoothed))
    spread, powers = error_quantiles(mixed, trial.target, trial.seen, plan.quantiles)
    least = usual_widths(mixed, trial.target, trial.seen, trial.sizes, plan.quantiles)
    return replace(blend, spread=spread, powers=powers.float(), least=least)


def weigh_network(
    plan: Plan, blend: Blend, network: ForecastNet, rehearsal: Rehearsal
) -> tuple[Plan, Blend]:
    """Choose the share of the network beside all others, on the validation windows."""
    windows, scaler, start_step = rehearsal.validation, rehearsal.scaler, rehearsal.start_step
    if not len(windows):  # nothing prefers one of the two
        half = torch.full_like(blend.share, 0.5)  # but smoothing sets the widths
        return replace(plan, network_share=0.5), replace(blend, share=half)
    parts = []
    for batch, y in forecast(network, windows, start_step):
        local = blend.local(rehearsal.smoothed.at(batch.start + windows.lookback), scaler)
        local = clamp_to_bounds(local.to(batch.past), batch)
        parts.append([y[..., 0].cpu(), local[..., 0].cpu(), *truth_of(batch)])
    ours, others, target, seen = (torch.cat(part) for part in zip(*parts, strict=True))
    apart = rows_apart(windows.starts)
    share, (first, second, mixed) = choose_shares(
        ours, others, target, seen, apart, squared=blend.means
    )
    evidence = float(independent_windows(seen, apart).sum())
    share = share * evidence / (evidence + FEW_WINDOWS)
    width_share = share * evidence / (evidence + FEW_TO_CALIBRATE)
    rest = "others" if blend.zero_shot.any() or blend.vector.any() else "smoothing"
    told = {"network": first, rest: second, "mixed": mixed}
    plan = replace(plan, network_share=round(float(share.mean()), 3), errors=told)
    return plan, replace(blend, share=share, width_share=width_share)
