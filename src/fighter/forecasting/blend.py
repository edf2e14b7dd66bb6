"""Forecasts mixed by their errors: the network, smoothing and the pretrained network."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from .._typing import Bool, Float, Int
from ..data import Batch, Panel, Scaler, Windows
from ..data.bounds import clamp_to_bounds
from ..models import ForecastNet
from ..models.effects import Effects
from ..models.local import Prior, Smoothed
from ..models.pretrained import PretrainedNet
from ..models.widths import FACTORS, apply
from ..models.zero_shot import count_tokens
from ..training import forecast
from ..training.calibration import adjust, sample_windows
from ..training.inference import autocast
from .alone import forecast_alone
from .autoconfig import Plan
from .counts import Counts, choose_counts
from .covariates import Applied, count_known, mix, rehearse
from .preprocessing import Preprocessing
from .spread import (
    Points,
    error_quantiles,
    independent_windows,
    is_mature,
    pick_shares,
    rows_apart,
    usual_widths,
    walk_quantiles,
)

SHARES = torch.linspace(0, 1, 11)
MOST_WINDOWS = 240  # more would add little: neighbouring windows share almost all targets
MOST_ROWS = 8192  # of the validation rows, the last
FEW_WINDOWS = 1.0  # with so much evidence in all, the network's share is halved
FEW_TO_CALIBRATE = 10.0  # the same, of its share in the widths of intervals
UNUSUAL = 1.5  # times what the training windows held at most
# Nodes of the pretrained network, at most, in the forecasts that choose its share.
TOKENS = {"cpu": 2**14, "cuda": 2**21}
FEWEST_ORIGINS = 4  # that choose it in any case
ZERO_SHOT_ORIGINS = 12  # that try covariates at most, where nothing is fitted
YOUNG = 3.0  # values, besides the first, after which half of what is usual in a table counts
RECENCY = 4.0  # an error after half of the rows counts 1 / 2 ** RECENCY as much
COUNT_WINDOWS = 40  # that choose the distribution of counts, at most
LEAST_SHARE = 0.03  # of the pretrained network in the mean; below, it is not run
NO_EFFECT = 0.6  # of a share of 1 of the effects of covariates, in windows
FEW_TO_TRY = 0.2  # with so many windows in all, that share is halved

Outputs = Float[Tensor, "batch horizon series outputs"]


@dataclass(frozen=True, eq=False)
class Blend:
    """How the forecasts of each series are mixed.

    Args:
        share: share of the network ``[N]``; smoothing and the pretrained network have the rest.
        zero_shot: share of the pretrained network in that rest ``[N]``.
        width_share: its share in the widths of intervals ``[N]``, smaller where few validation
            windows tested it: a network is too sure of rows that it learned from.
        usual: what the training windows held at most of :func:`window_extremes`, ``[3, N]``. The
            network's share falls where a window exceeds it: it has not learned from such windows,
            for example after a jump of the level.
        spread: quantiles of the errors of that rest, in multiples of the expected error ``[H, Q]``:
            the mean error so far, times the factors in ``models/widths.py``.
        powers: power of each of these factors.
        prior: usual error of each expert of smoothing, infinite if it is not run.
        least: least distances of the quantiles from the point for a series with a single value: in
            sizes of its values, and in units of the table if it is zero, ``[2, Q]``.
        seasons: lengths of the seasons that smoothing knows.
        effects: what covariates that are known in advance add to smoothing and the pretrained
            network; None if nothing.
        mean_prior: usual squared error of each expert in forecasts of the mean; None without them.
        counts: distribution of the counts of each series, around their mean; None without it.
        means: whether the point forecast is a mean, see :func:`~fighter.models.local.smooth_means`.
    """

    share: Float[Tensor, "series"]
    zero_shot: Float[Tensor, "series"]
    width_share: Float[Tensor, "series"]
    usual: Float[Tensor, "3 series"]
    spread: Float[Tensor, "horizon quantiles"]
    powers: Float[Tensor, "factors"]
    prior: Float[Tensor, "experts"]
    least: Float[Tensor, "2 quantiles"]
    seasons: tuple[int, ...]
    effects: Effects | None = None
    mean_prior: Float[Tensor, "experts"] | None = None
    counts: Counts | None = None
    means: bool = False

    def select(self, index: Sequence[int]) -> "Blend":
        """Return the blend of other series; -1 stands for a new one, which gets the mean."""
        if list(index) == list(range(len(self.share))):
            return self
        usual = torch.cat([self.usual, self.usual.amax(1, keepdim=True)], 1)[:, index]
        share, zero_shot, width_share = (
            with_mean(each)[index] for each in (self.share, self.zero_shot, self.width_share)
        )
        counts = self.counts and self.counts.select(index)
        return replace(
            self, share=share, zero_shot=zero_shot, width_share=width_share, usual=usual,
            effects=self.effects and self.effects.select(index), counts=counts,
        )  # fmt: skip

    @property
    def smooths(self) -> bool:
        """Whether smoothing has a share anywhere."""
        return not bool((self.zero_shot == 1).all())

    def point(self, smoothed: Smoothed) -> Points:
        """Return the forecast without the network, in the units of the table."""
        alone = self.smoothing(smoothed)
        if smoothed.zero_shot is None:
            return alone
        point = torch.lerp(alone, smoothed.zero_shot[..., 0], self.zero_shot.double())
        return torch.where(point.isnan(), alone, point)

    def smoothing(self, smoothed: Smoothed) -> Points:
        """Return the forecast of smoothing alone: of the mean or, as it is, nearer the median."""
        return smoothed.mean if self.means and smoothed.mean is not None else smoothed.point

    def local(self, smoothed: Smoothed, scaler: Scaler) -> Outputs:
        """Return the forecast without the network and its quantiles, scaled.

        A series of which nothing is observed has its training mean and deviation.
        """
        scale, shift = torch.from_numpy(scaler.scale), torch.from_numpy(scaler.shift)
        known = smoothed.known[:, None, :, None]
        point = torch.where(known, ((self.point(smoothed) - shift) / scale)[..., None], 0.0)
        error = smoothed.error[:, None] * apply(smoothed.factors, self.powers) / scale
        widths = error[..., None] * self.spread[:, None].double()
        if smoothed.zero_shot is not None:
            middle, quantiles = smoothed.zero_shot.split([1, len(widths[0, 0, 0])], -1)
            own = (quantiles - middle) / scale[:, None]
            mixed = torch.lerp(widths, own, self.zero_shot.double()[:, None])
            widths = torch.where(mixed.isnan(), widths, mixed)
        widths = torch.where(known, widths, self.spread[:, None].double())
        return torch.cat([point, point + widths], -1)

    def shares(self, batch: Batch) -> Float[Tensor, "batch 1 series 1"]:
        """Return the network's share in the point forecast of each window."""
        return self._trust(batch) * self.share.to(batch.past)[:, None]

    def width_shares(self, batch: Batch) -> Float[Tensor, "batch 1 series 1"]:
        """Return the network's share in the widths of intervals."""
        return self._trust(batch) * self.width_share.to(batch.past)[:, None]

    def _trust(self, batch: Batch) -> Float[Tensor, "batch 1 series 1"]:
        """Return 1, or less for windows that the training rows never held."""
        excess = (window_extremes(batch) / self.usual[:, None].to(batch.past)).amax(0)
        return (UNUSUAL / excess.clamp(min=UNUSUAL)).square()[:, None, :, None]

    def mix(self, y: Outputs, batch: Batch, local: Outputs) -> Outputs:
        """Mix the outputs of the network with the others."""
        local, share = local.to(y), self.shares(batch)
        point = share * y[..., :1] + (1 - share) * local[..., :1]
        share = self.width_shares(batch).to(y)
        widths = share * (y - y[..., :1]) + (1 - share) * (local - local[..., :1])
        return point + widths

    def with_counts(self, y: Outputs, smoothed: Smoothed, scaler: Scaler) -> Outputs:
        """Mix the quantiles of a distribution of counts with the others."""
        if self.counts is None or smoothed.mean is None:
            return y
        shift, scale = (torch.from_numpy(each)[:, None] for each in (scaler.shift, scaler.scale))
        own = ((self.counts.quantiles(smoothed.mean) - shift) / scale).to(y)
        share = (self.counts.share[:, None] * smoothed.known[:, None, :, None]).to(y)
        return torch.cat([y[..., :1], torch.lerp(y[..., 1:], own, share)], -1)

    def widen(self, y: Outputs, batch: Batch, scaler: Scaler) -> Outputs:
        """Keep the quantiles of a series of which little is known as far away as is usual."""
        count, size = measure_values(batch, scaler)
        least = torch.where(size[..., None] > 0, size[..., None] * self.least[0], self.least[1])
        count = count.clamp(min=1)
        least = least * ((1 + 1 / count).sqrt() * YOUNG / (YOUNG + count - 1))[..., None]
        least = (least / torch.from_numpy(scaler.scale)[:, None])[:, None].to(y)
        widths = y[..., 1:] - y[..., :1]
        widths = torch.where(least.abs() > widths.abs(), least, widths)
        return torch.cat([y[..., :1], y[..., :1] + widths], -1)


def with_mean(rows: Float[Tensor, "series *rest"]) -> Float[Tensor, "more *rest"]:
    """Append the mean over the series, which -1 then takes."""
    return torch.cat([rows, rows.mean(0, keepdim=True)])


def mixed_forecasts(
    network: ForecastNet,
    windows: Windows,
    start_step: int,
    scaler: Scaler,
    blend: Blend | None,
    smoothed: Smoothed | None,
) -> Iterator[tuple[Batch, Outputs]]:
    """Yield every batch of windows, in order, with its forecast: network and smoothing mixed.

    ``smoothed`` holds the forecasts of smoothing, in the units of the table, by the row of the
    windows after which they are made.
    """
    if blend is None or smoothed is None:
        yield from forecast(network, windows, start_step)
        return
    alone = not bool(blend.share.any())
    for batch, y in _gather(windows) if alone else forecast(network, windows, start_step):
        local = blend.local(smoothed.at(batch.start + windows.lookback), scaler).to(batch.past)
        mixed = local if y is None else blend.mix(y, batch, local)
        mixed = blend.with_counts(mixed, smoothed.at(batch.start + windows.lookback), scaler)
        yield batch, clamp_to_bounds(blend.widen(mixed, batch, scaler), batch)


def _gather(windows: Windows) -> Iterator[tuple[Batch, None]]:
    for index in windows.batches(windows.eval_batch_size):
        yield windows.gather(index), None


def measure_values(batch: Batch, scaler: Scaler) -> tuple[Tensor, Tensor]:
    """Return the number of values in each look-back ``[batch, N]``, and their mean size."""
    past, seen = batch.past.double().cpu(), batch.past_observed
    seen = torch.ones_like(past) if seen is None else seen.double().cpu()
    values = past * torch.from_numpy(scaler.scale) + torch.from_numpy(scaler.shift)
    count = seen.sum(1)
    return count, (values.abs() * seen).sum(1) / count.clamp(min=1)


def window_extremes(batch: Batch) -> Float[Tensor, "3 batch series"]:
    """Return the deviation of each window, how far its last values are from its mean, and its mean.

    All are sizes, in deviations of the training rows.
    """
    past, seen = batch.past, batch.past_observed
    seen = torch.ones_like(past) if seen is None else seen.to(past)

    def mean(x: Tensor, weight: Tensor) -> Tensor:
        return (x * weight).sum(1) / weight.sum(1).clamp(min=1)

    centre, last = mean(past, seen), max(past.shape[1] // 8, 1)
    recent = mean(past[:, -last:], seen[:, -last:])
    recent = torch.where(seen[:, -last:].any(1), recent, centre)
    deviation = mean((past - centre[:, None]).square(), seen).sqrt()
    return torch.stack([deviation, (recent - centre).abs(), centre.abs()])


def usual_extremes(training: Windows) -> Float[Tensor, "3 series"]:
    """Return the largest :func:`window_extremes` of (a sample of) the training windows.

    A mean may be one deviation further away: levels drift.
    """
    sample = training.thin(2048)
    largest = torch.zeros(3, sample.values.shape[1], device=sample.device)
    for index in sample.batches(sample.eval_batch_size):
        largest = torch.maximum(largest, window_extremes(sample.gather(index)).amax(1))
    largest[2] += largest[0]
    return largest.clamp(min=1e-6).cpu()


def choose_shares(
    first: Points,
    second: Points,
    target: Points,
    seen: Points,
    apart: float = 1.0,
    *,
    prior: Float[Tensor, "shares"] | None = None,
    squared: bool = False,
) -> tuple[Float[Tensor, "series"], tuple[float, float, float]]:
    """Choose the share of the first of two forecasts in their mean, for each series.

    It has the smallest absolute error on validation windows, see :func:`pick_shares`. Also returns
    the mean absolute errors of the first, the second and both mixed. Windows begin ``apart`` rows
    apart in the mean; ``prior`` is what speaks against each share, in windows (default: that
    against unequal ones). Errors may be ``squared``.
    """
    count, size = seen.sum((0, 1)), torch.square if squared else torch.abs
    errors = torch.stack(
        [(size(target - second - s * (first - second)) * seen).sum((0, 1)) for s in SHARES]
    ) / count.clamp(min=1e-9)  # [shares, N]
    known = count > 0
    chosen = pick_shares(errors, known, independent_windows(seen, apart), SHARES, prior)
    each = (errors[-1], errors[0], errors.gather(0, chosen[None])[0])
    a, b, mixed = (round(float(e[known].mean()), 6) for e in each)
    return SHARES[chosen], (a, b, mixed)


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
        parts.append([reverted.mean(0).cpu(), plain.mean(0).cpu(), *_truth(batch)])
    reverted, plain, target, seen = (torch.cat(part) for part in zip(*parts, strict=True))
    shares, _ = choose_shares(reverted, plain, target, seen, squared=squared)
    if len(network.reverting) != len(shares):
        shares = shares.mean(0, keepdim=True)
    network.reverting.copy_(shares)


@dataclass(frozen=True)
class Rehearsal:
    """The windows that forecasts are tried on, and what smoothing forecasts for them.

    Every window of the table tests smoothing, which learns nothing from later rows; only validation
    windows test the network. The pretrained network, which takes longer, forecasts for some of all
    these windows; where it does not, the others forecast without it.

    ``effect_share`` is the share of the effects of covariates that is used ``[N]``; None if there
    are none. ``covariates`` tells it and what it brings.
    """

    windows: Windows
    validation: Windows
    smoothed: Smoothed
    effect_share: Float[Tensor, "series"] | None = None
    covariates: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def make(
        cls,
        plan: Plan,
        panel: Panel,
        windows: Windows,
        validation: Windows,
        prior: Prior,
        scale: np.ndarray,
        start_step: int,
        mean_prior: Prior | None = None,
        tuned: PretrainedNet | None = None,
    ) -> "Rehearsal":
        """Choose the windows, and forecast once after all of them.

        A fine-tuned network has learned from all but the validation windows.
        """
        few = MOST_WINDOWS
        if plan.pretrained:
            tokens = panel.n_series * count_tokens(panel.length, plan.horizon)
            few = max(TOKENS[windows.device.type] // 2 // tokens, FEWEST_ORIGINS)
        most = MOST_WINDOWS if plan.smoothing else few
        windows, validation = (
            sample_windows(recent(each), plan.quantiles).thin(most) if len(each) else each
            for each in (windows, validation)
        )
        if tuned is not None:
            both = torch.cat([windows.starts, validation.starts]).unique()
            windows = replace(windows, starts=both) if plan.smoothing else validation
        starts = torch.cat([windows.starts, validation.starts]).unique().cpu()
        asked = (windows, validation) if tuned is None else (validation,)
        subset = torch.cat([each.thin(few).starts for each in asked])
        made, share, told = try_covariates(
            plan, panel, starts + plan.lookback, subset.unique().cpu() + plan.lookback, prior,
            windows.device, scale, start_step, mean_prior, tuned,
        )  # fmt: skip
        if tuned is not None and made.zero_shot is not None:
            learned = torch.ones(len(starts), panel.n_series, dtype=torch.bool)
            place = torch.searchsorted(starts, validation.starts.cpu())
            every = torch.arange(panel.n_series, device=validation.device)
            learned[place] = (validation.targets_of(every) == 0).cpu()
            hidden = torch.where(learned[:, None, :, None], torch.nan, made.zero_shot)
            made = made._replace(zero_shot=hidden)
        return cls(windows, validation, made, share, told)

    def count_mature(
        self, forecasts: Iterable[tuple[Batch, Outputs]]
    ) -> Iterator[tuple[Batch, Outputs]]:
        """Hide the targets of series of which little was known yet."""
        most = self.smoothed.tested.amax(0)
        for batch, y in forecasts:
            tested = self.smoothed.at(batch.start + self.windows.lookback).tested
            mature = is_mature(tested, most)[:, None].to(y.device)
            seen = batch.future_observed
            seen = mature.expand_as(batch.future) if seen is None else seen & mature
            yield batch._replace(future_observed=seen), y


def try_covariates(
    plan: Plan,
    panel: Panel,
    rows: Int[Tensor, "origins"],
    subset: Int[Tensor, "some"],
    prior: Prior,
    device: torch.device,
    scale: np.ndarray,
    start_step: int,
    mean_prior: Prior | None = None,
    tuned: PretrainedNet | None = None,
) -> tuple[Smoothed, Float[Tensor, "series"] | None, dict[str, float]]:
    """Forecast after some rows of a table, with and without the effects of covariates, and mix.

    The pretrained network forecasts after a ``subset`` of the rows. Also returns the share of the
    effects, None if there are no covariates, and what to tell of it.
    """

    def run(applied: Applied | None, rows: Int[Tensor, "origins"]) -> Smoothed:
        here = panel if applied is None else applied.panel
        made = forecast_alone(
            plan, here, rows, prior, device, smooths=plan.smoothing, pretrained=False,
            mean_prior=mean_prior,
        )  # fmt: skip
        if plan.pretrained:
            size = len(rows), plan.horizon, panel.n_series, 1 + len(plan.quantiles)
            every = made.point.new_full(size, torch.nan)
            if len(some := subset[torch.isin(subset, rows)]):
                guess = forecast_alone(
                    plan, here, some, prior, device, smooths=False, pretrained=True, tuned=tuned
                ).zero_shot
                assert guess is not None
                every[torch.searchsorted(rows, some)] = guess
            made = made._replace(zero_shot=every)
        return made if applied is None else applied.restore(made)

    plain = run(None, rows)
    if not count_known(panel):
        return plain, None, {}
    other, closed = rehearse(run, plan.seasons, panel, rows, scale, start_step)
    index = rows[:, None] + torch.arange(plan.horizon)
    target, observed = (torch.from_numpy(each)[index] for each in (panel.values, panel.observed))
    weight = observed * (rows / rows[-1])[:, None, None] ** RECENCY
    if plan.smoothing:
        weight = weight * is_mature(plain.tested, plain.tested.amax(0))[:, None]
    used = torch.ones(len(rows), dtype=torch.bool) if plan.smoothing else torch.isin(rows, subset)

    def scaled(made: Smoothed) -> Points:
        if plan.smoothing or made.zero_shot is None:
            point = made.point if made.mean is None or plan.point != "mean" else made.mean
        else:
            point = made.zero_shot[..., 0]
        return point[used] / torch.from_numpy(scale)

    target, weight, hidden = target[used] / torch.from_numpy(scale), weight[used], closed[used]
    apart, open_ = rows_apart(rows[used]), weight * ~hidden
    against = NO_EFFECT * SHARES
    share, _ = choose_shares(
        scaled(other), scaled(plain), target, open_, apart,
        prior=against, squared=plan.point == "mean",
    )  # fmt: skip
    evidence = float(independent_windows(open_, apart).sum())
    share = share * evidence / (evidence + FEW_TO_TRY)
    if float(share.mean()) < LEAST_SHARE:
        share = torch.zeros_like(share)
    mixed = mix(plain, other, share, closed)
    whole = weight.sum().clamp(min=1e-9)
    without, with_them = (
        round(float(((target - scaled(each)).abs() * weight).sum() / whole), 6)
        for each in (plain, mixed)
    )
    told = {"share": round(float(share.mean()), 3), "without": without, "with": with_them}
    return mixed, share, told


def try_zero_shot(
    plan: Plan, panel: Panel, prior: Prior, device: torch.device, judged: Preprocessing, first: int
) -> tuple[Float[Tensor, "series"] | None, dict[str, float]]:
    """Choose the share of the effects of covariates where the pretrained network is not fitted.

    It is tried on few rows of the second half of the table.
    """
    begin, end = panel.length // 2, panel.length - plan.horizon
    if not count_known(panel) or begin < 1 or end < begin:
        return None, {}
    tokens = panel.n_series * count_tokens(panel.length, plan.horizon)
    few = min(max(TOKENS[device.type] // tokens, FEWEST_ORIGINS), ZERO_SHOT_ORIGINS)
    rows = torch.linspace(begin, end, few).long().unique()
    scale = judged.scaler.scale
    return try_covariates(plan, panel, rows, rows, prior, device, scale, first)[1:]


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
        parts.append([*(each.double() for each in _truth(batch)), measure_values(batch, scaler)[1]])
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
        parts.append([y[..., 0].cpu(), local[..., 0].cpu(), *_truth(batch)])
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


def weigh_counts(
    plan: Plan,
    blend: Blend,
    shifts: Tensor,
    network: ForecastNet,
    scaler: Scaler,
    rehearsal: Rehearsal,
    start_step: int,
    counted: Bool[Tensor, "series"],
    mean_prior: Prior,
) -> tuple[Plan, Blend, Tensor]:
    """Choose how a distribution of counts is mixed with the quantiles of the forecasts.

    ``counted`` tells which series hold counts. Where the network has a share, validation windows
    decide: it has learned the others. ``shifts`` are the conformal shifts of the quantiles. Those
    of the distribution are not shifted: whole numbers would no longer be inside the interval that
    they bound, and an interval from 0 to 0 has no width to shift by.
    """
    validated = bool(blend.share.any()) and len(rehearsal.validation) > 0
    sample = rehearsal.validation if validated else rehearsal.windows
    sample = sample.thin(COUNT_WINDOWS)
    plain, targets = [], []
    smoothed = rehearsal.smoothed.at(sample.starts + plan.lookback)
    for batch, y in mixed_forecasts(network, sample, start_step, scaler, blend, smoothed):
        plain.append(adjust(y, shifts, plan.quantiles, mean=blend.means)[..., 1:].cpu().double())
        targets.append([each.double() for each in _truth(batch)])
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
    return plan, replace(blend, counts=counts, mean_prior=mean_prior), shifts


def recent(windows: Windows) -> Windows:
    """Leave out windows from long ago."""
    last = windows.starts[-1] - MOST_ROWS
    return replace(windows, starts=windows.starts[windows.starts >= last])


def _truth(batch: Batch) -> tuple[Points, Points]:
    """Return the targets, and 1 where they are observed."""
    seen = batch.future_observed
    seen = torch.ones_like(batch.future) if seen is None else seen.to(batch.future)
    return batch.future.cpu(), seen.cpu()
