"""Forecasts mixed by their errors: the network, smoothing and the pretrained network."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from .._typing import Float
from ..data import Batch, Panel, Scaler, Windows
from ..data.bounds import clamp_to_bounds
from ..models import ForecastNet
from ..models.local import Prior, Smoothed
from ..models.widths import FACTORS, apply
from ..models.zero_shot import count_tokens
from ..training import forecast
from ..training.calibration import sample_windows
from ..training.inference import autocast
from .alone import forecast_alone
from .autoconfig import Plan
from .spread import (
    Points,
    error_quantiles,
    independent_windows,
    is_mature,
    rows_apart,
    usual_widths,
    walk_quantiles,
)

SHARES = torch.linspace(0, 1, 11)
MOST_WINDOWS = 240  # more would add little: neighbouring windows share almost all targets
MOST_ROWS = 8192  # of the validation rows, the last
POOLED = 4.0  # windows of a series that count as much as all series together
PRIOR = 0.1  # of a share of 0 or 1, in windows
FEW_WINDOWS = 1.0  # with so much evidence in all, the network's share is halved
FEW_TO_CALIBRATE = 10.0  # the same, of its share in the widths of intervals
UNUSUAL = 1.5  # times what the training windows held at most
# Nodes of the pretrained network, at most, in the forecasts that choose its share.
TOKENS = {"cpu": 2**14, "cuda": 2**21}
FEWEST_ORIGINS = 4  # that choose it in any case
YOUNG = 3.0  # values, besides the first, after which half of what is usual in a table counts
RECENCY = 4.0  # an error after half of the rows counts 1 / 2 ** RECENCY as much
LEAST_SHARE = 0.03  # of the pretrained network in the mean; below, it is not run

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

    def select(self, index: Sequence[int]) -> "Blend":
        """Return the blend of other series; -1 stands for a new one, which gets the mean."""
        if list(index) == list(range(len(self.share))):
            return self
        usual = torch.cat([self.usual, self.usual.amax(1, keepdim=True)], 1)[:, index]
        share, zero_shot, width_share = (
            with_mean(each)[index] for each in (self.share, self.zero_shot, self.width_share)
        )
        return replace(self, share=share, zero_shot=zero_shot, width_share=width_share, usual=usual)

    @property
    def smooths(self) -> bool:
        """Whether smoothing has a share anywhere."""
        return not bool((self.zero_shot == 1).all())

    def point(self, smoothed: Smoothed) -> Points:
        """Return the forecast without the network, in the units of the table."""
        if smoothed.zero_shot is None:
            return smoothed.point
        point = torch.lerp(smoothed.point, smoothed.zero_shot[..., 0], self.zero_shot.double())
        return torch.where(point.isnan(), smoothed.point, point)

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

    def _trust(self, batch: Batch) -> Float[Tensor, "batch 1 series 1"]:
        """Return 1, or less for windows that the training rows never held."""
        excess = (window_extremes(batch) / self.usual[:, None].to(batch.past)).amax(0)
        return (UNUSUAL / excess.clamp(min=UNUSUAL)).square()[:, None, :, None]

    def mix(self, y: Outputs, batch: Batch, local: Outputs) -> Outputs:
        """Mix the outputs of the network with the others."""
        local, share = local.to(y), self.shares(batch)
        point = share * y[..., :1] + (1 - share) * local[..., :1]
        share = self._trust(batch) * self.width_share.to(y)[:, None]
        widths = share * (y - y[..., :1]) + (1 - share) * (local - local[..., :1])
        return point + widths

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
    first: Points, second: Points, target: Points, seen: Points, apart: float = 1.0
) -> tuple[Float[Tensor, "series"], tuple[float, float, float]]:
    """Choose the share of the first of two forecasts in their mean, for each series.

    It has the smallest absolute error on validation windows. The errors of a series count more the
    more windows it has; those of all series together, and a prior for equal shares, count like a
    few windows. Also returns the mean absolute errors of the first, the second and both mixed.
    Windows begin ``apart`` rows apart in the mean.
    """
    count = seen.sum((0, 1))
    errors = torch.stack(
        [((target - second - s * (first - second)).abs() * seen).sum((0, 1)) for s in SHARES]
    ) / count.clamp(min=1e-9)  # [shares, N]
    known = count > 0
    relative = torch.where(known, errors / errors.mean(0).clamp(min=1e-9), 1.0)
    pooled = relative[:, known].mean(1, keepdim=True)
    independent = independent_windows(seen, apart)
    prior = PRIOR * (2 * SHARES - 1).square()[:, None]
    chosen = (independent * relative + POOLED * pooled + prior).argmin(0)
    each = (errors[-1], errors[0], errors.gather(0, chosen[None])[0])
    a, b, mixed = (round(float(e[known].mean()), 6) for e in each)
    return SHARES[chosen], (a, b, mixed)


def weigh_halves(network: ForecastNet, validation: Windows, start_step: int) -> None:
    """Choose how much the members with reversion count beside those without."""
    parts = []
    for index in (sample := recent(validation).thin(MOST_WINDOWS)).batches(sample.eval_batch_size):
        batch = sample.gather(index)
        with torch.no_grad(), autocast(sample.device):
            y = network(batch, batch.start + start_step, per_member=True)[..., 0]
        plain, reverted = clamp_to_bounds(y.to(batch.past)[..., None], batch)[..., 0].chunk(2)
        parts.append([reverted.mean(0).cpu(), plain.mean(0).cpu(), *_truth(batch)])
    reverted, plain, target, seen = (torch.cat(part) for part in zip(*parts, strict=True))
    shares, _ = choose_shares(reverted, plain, target, seen)
    if len(network.reverting) != len(shares):
        shares = shares.mean(0, keepdim=True)
    network.reverting.copy_(shares)


@dataclass(frozen=True)
class Rehearsal:
    """The windows that forecasts are tried on, and what smoothing forecasts for them.

    Every window of the table tests smoothing, which learns nothing from later rows; only validation
    windows test the network. The pretrained network, which takes longer, forecasts for some of all
    these windows; where it does not, the others forecast without it.
    """

    windows: Windows
    validation: Windows
    smoothed: Smoothed

    @classmethod
    def make(
        cls, plan: Plan, panel: Panel, windows: Windows, validation: Windows, prior: Prior
    ) -> "Rehearsal":
        """Choose the windows, and forecast once after all of them."""
        few = MOST_WINDOWS
        if plan.pretrained:
            tokens = panel.n_series * count_tokens(panel.length, plan.horizon)
            few = max(TOKENS[windows.device.type] // 2 // tokens, FEWEST_ORIGINS)
        most = MOST_WINDOWS if plan.smoothing else few
        windows, validation = (
            sample_windows(recent(each), plan.quantiles).thin(most) if len(each) else each
            for each in (windows, validation)
        )
        starts = torch.cat([windows.starts, validation.starts]).unique().cpu()
        made = forecast_alone(
            plan, panel, starts + plan.lookback, prior, windows.device,
            smooths=plan.smoothing, pretrained=False,
        )  # fmt: skip
        if plan.pretrained:
            subset = torch.cat([each.thin(few).starts for each in (windows, validation)])
            subset = subset.unique().cpu()
            some = forecast_alone(
                plan, panel, subset + plan.lookback, prior, windows.device,
                smooths=False, pretrained=True,
            ).zero_shot  # fmt: skip
            assert some is not None
            every = some.new_full((len(starts), *some.shape[1:]), torch.nan)
            every[torch.searchsorted(starts, subset)] = some
            made = made._replace(zero_shot=every)
        return cls(windows, validation, made)

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


def make_blend(
    plan: Plan,
    network: ForecastNet,
    scaler: Scaler,
    training: Windows | None,
    rehearsal: Rehearsal | None,
    prior: Prior,
    start_step: int,
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
    )
    if rehearsal is None:
        return replace(plan, network_share=0.0, pretrained_share=alone), blend
    sample = rehearsal.windows
    batch = sample.gather(torch.arange(len(sample), device=sample.device))
    target, seen = (each.double() for each in _truth(batch))
    target = target * torch.from_numpy(scaler.scale) + torch.from_numpy(scaler.shift)
    smoothed = rehearsal.smoothed.at(sample.starts + plan.lookback)
    if smoothed.zero_shot is not None and plan.smoothing:
        mature = seen * is_mature(smoothed.tested, smoothed.tested.amax(0))[:, None]
        # Smoothing gets better the more rows it has seen: errors of long ago are too large.
        mature = mature * (smoothed.rows / smoothed.rows[-1])[:, None, None] ** RECENCY
        scale, made = torch.from_numpy(scaler.scale), smoothed.zero_shot[:, 0, 0, 0].isfinite()
        points = smoothed.zero_shot[..., 0], smoothed.point, target
        first, second, truth = (each[made] / scale for each in points)
        apart = rows_apart(smoothed.rows[made])
        share, (first, second, mixed) = choose_shares(first, second, truth, mature[made], apart)
        if float(share.mean()) < LEAST_SHARE:
            share = torch.zeros_like(share)
        blend = replace(blend, zero_shot=share)
        plan = replace(plan, errors={"pretrained": first, "smoothing": second, "mixed": mixed})
    plan = replace(plan, pretrained_share=round(float(blend.zero_shot.mean()), 3))
    if plan.quantiles and blend.smooths:
        mixed = smoothed._replace(point=blend.point(smoothed))
        spread, powers = error_quantiles(mixed, target, seen, plan.quantiles)
        least = usual_widths(mixed, target, seen, measure_values(batch, scaler)[1], plan.quantiles)
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
    share, (ours, others, mixed) = choose_shares(ours, others, target, seen, apart)
    evidence = float(independent_windows(seen, apart).sum())
    share = share * evidence / (evidence + FEW_WINDOWS)
    errors = {"network": ours, "others": others, "mixed": mixed}
    if not blend.zero_shot.any():
        errors = {"network": ours, "smoothing": others, "mixed": mixed}
    plan = replace(plan, network_share=round(float(share.mean()), 3), errors=errors)
    width_share = share * evidence / (evidence + FEW_TO_CALIBRATE)
    return plan, replace(blend, share=share, width_share=width_share)


def recent(windows: Windows) -> Windows:
    """Leave out windows from long ago."""
    last = windows.starts[-1] - MOST_ROWS
    return replace(windows, starts=windows.starts[windows.starts >= last])


def _truth(batch: Batch) -> tuple[Points, Points]:
    """Return the targets, and 1 where they are observed."""
    seen = batch.future_observed
    seen = torch.ones_like(batch.future) if seen is None else seen.to(batch.future)
    return batch.future.cpu(), seen.cpu()
