"""The network's forecast mixed with exponential smoothing, by their errors on validation rows."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from .._typing import Float
from ..data import Batch, Panel, Scaler, Windows
from ..data.bounds import clamp_to_bounds
from ..models import ForecastNet
from ..models.autoregression import MEMORY
from ..models.local import Prior, Smoothed, learn_prior, smooth
from ..models.widths import FACTORS, apply, fit_powers
from ..training import forecast
from ..training.calibration import sample_windows
from ..training.inference import autocast
from .autoconfig import Plan

SHARES = torch.linspace(0, 1, 11)
MOST_WINDOWS = 240  # more would add little: neighbouring windows share almost all targets
MOST_ROWS = 8192  # of the validation rows, the last
POOLED = 4.0  # windows of a series that count as much as all series together
PRIOR = 0.1  # of a share of 0 or 1, in windows
FEW_WINDOWS = 1.0  # with so much evidence in all, the network's share is halved
NORMAL_WINDOWS = 5.0  # normal errors count as so many windows that test smoothing
FEW_TO_CALIBRATE = 10.0  # the same, of its share in the widths of intervals
PRIOR_CELLS = 30_000  # values of some series that tell which experts are good on a table
ENOUGH_SERIES, EXPERTS = 100, 24  # from so many series on, only the best experts are run
UNUSUAL = 1.5  # times what the training windows held at most

Outputs = Float[Tensor, "batch horizon series outputs"]
Points = Float[Tensor, "windows horizon series"]


@dataclass(frozen=True, eq=False)
class Blend:
    """How the two forecasts of each series are mixed.

    Args:
        share: share of the network ``[N]``; smoothing has the rest.
        width_share: its share in the widths of intervals ``[N]``, smaller where few validation
            windows tested it: a network is too sure of rows that it learned from.
        usual: what the training windows held at most of :func:`window_extremes`, ``[3, N]``. The
            network's share falls where a window exceeds it: it has not learned from such windows,
            for example after a jump of the level.
        spread: quantiles of the errors of smoothing, in multiples of the expected error ``[H, Q]``:
            the mean error so far, times the factors in ``models/widths.py``.
        powers: power of each of these factors.
        prior: usual error of each expert of smoothing, infinite if it is not run.
        seasons: lengths of the seasons that smoothing knows.
    """

    share: Float[Tensor, "series"]
    width_share: Float[Tensor, "series"]
    usual: Float[Tensor, "3 series"]
    spread: Float[Tensor, "horizon quantiles"]
    powers: Float[Tensor, "factors"]
    prior: Float[Tensor, "experts"]
    seasons: tuple[int, ...]

    def select(self, index: Sequence[int]) -> "Blend":
        """Return the blend of other series; -1 stands for a new one, which gets the mean."""
        if list(index) == list(range(len(self.share))):
            return self
        usual = torch.cat([self.usual, self.usual.amax(1, keepdim=True)], 1)[:, index]
        share, width_share = (with_mean(each)[index] for each in (self.share, self.width_share))
        return replace(self, share=share, width_share=width_share, usual=usual)

    def local(self, smoothed: Smoothed, scaler: Scaler) -> Outputs:
        """Return the forecast of smoothing and its quantiles, scaled.

        A series of which nothing is observed has its training mean and deviation.
        """
        scale, shift = torch.from_numpy(scaler.scale), torch.from_numpy(scaler.shift)
        known = smoothed.known[:, None, :, None]
        point = torch.where(known, ((smoothed.point - shift) / scale)[..., None], 0.0)
        error = smoothed.error[:, None] * apply(smoothed.factors, self.powers) / scale
        error = torch.where(known, error[..., None], 1.0)
        return torch.cat([point, point + error * self.spread[:, None].double()], -1)

    def shares(self, batch: Batch) -> Float[Tensor, "batch 1 series 1"]:
        """Return the network's share in the point forecast of each window."""
        return self._trust(batch) * self.share.to(batch.past)[:, None]

    def _trust(self, batch: Batch) -> Float[Tensor, "batch 1 series 1"]:
        """Return 1, or less for windows that the training rows never held."""
        excess = (window_extremes(batch) / self.usual[:, None].to(batch.past)).amax(0)
        return (UNUSUAL / excess.clamp(min=UNUSUAL)).square()[:, None, :, None]

    def mix(self, y: Outputs, batch: Batch, local: Outputs) -> Outputs:
        """Mix the outputs of the network with those of smoothing."""
        local, share = local.to(y), self.shares(batch)
        point = share * y[..., :1] + (1 - share) * local[..., :1]
        share = self._trust(batch) * self.width_share.to(y)[:, None]
        widths = share * (y - y[..., :1]) + (1 - share) * (local - local[..., :1])
        return point + widths


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
        yield batch, clamp_to_bounds(local if y is None else blend.mix(y, batch, local), batch)


def _gather(windows: Windows) -> Iterator[tuple[Batch, None]]:
    for index in windows.batches(windows.eval_batch_size):
        yield windows.gather(index), None


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
    first: Points, second: Points, target: Points, seen: Points
) -> tuple[Float[Tensor, "series"], tuple[float, float, float]]:
    """Choose the share of the first of two forecasts in their mean, for each series.

    It has the smallest absolute error on validation windows. The errors of a series count more the
    more windows it has; those of all series together, and a prior for equal shares, count like a
    few windows. Also returns the mean absolute errors of the first, the second and both mixed.
    """
    count = seen.sum((0, 1))
    errors = torch.stack(
        [((target - s * first - (1 - s) * second).abs() * seen).sum((0, 1)) for s in SHARES]
    ) / count.clamp(min=1)  # [shares, N]
    known = count > 0
    relative = torch.where(known, errors / errors.mean(0).clamp(min=1e-9), 1.0)
    pooled = relative[:, known].mean(1, keepdim=True)
    independent = independent_windows(seen)
    prior = PRIOR * (2 * SHARES - 1).square()[:, None]
    chosen = (independent * relative + POOLED * pooled + prior).argmin(0)
    each = (errors[-1], errors[0], errors.gather(0, chosen[None])[0])
    a, b, mixed = (round(float(e[known].mean()), 6) for e in each)
    return SHARES[chosen], (a, b, mixed)


def independent_windows(seen: Points, apart: float = 1.0) -> Float[Tensor, "series"]:
    """Return how many windows of each series do not overlap; the last may be a part of one.

    Windows begin ``apart`` rows apart in the mean.
    """
    horizon = seen.shape[1]
    windows = seen.sum((0, 1)) / horizon
    return windows.clamp(max=1) + (windows - 1).clamp(min=0) * min(apart / horizon, 1.0)


def weigh_halves(network: ForecastNet, validation: Windows, start_step: int) -> None:
    """Choose how much the members with reversion count beside those without."""
    parts = []
    for index in (sample := recent(validation).thin(MOST_WINDOWS)).batches(sample.eval_batch_size):
        batch = sample.gather(index)
        with torch.no_grad(), autocast(sample.device):
            y = network(batch, batch.start + start_step, per_member=True)[..., 0]
        plain, reverted = clamp_to_bounds(y.to(batch.past)[..., None], batch)[..., 0].chunk(2)
        parts.append([reverted.mean(0).cpu(), plain.mean(0).cpu(), *_truth(batch)])
    shares, _ = choose_shares(*map(torch.cat, zip(*parts, strict=True)))
    if len(network.reverting) != len(shares):
        shares = shares.mean(0, keepdim=True)
    network.reverting.copy_(shares)


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
    apart = float(smoothed.rows[-1] - smoothed.rows[0]) / max(len(seen) - 1, 1)
    windows = float(independent_windows(seen, apart).sum())
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


def is_mature(tested: Tensor, most: Tensor) -> Tensor:
    """Tell where at least half of the values of a series were known, and some had tested it.

    If none ever tested it, the series need only have changed: otherwise an error, once it changes,
    is any multiple of the errors so far. One that never changes counts if no series does.
    """
    half = (tested > 0) & (2 * tested >= most)
    return torch.where(most > 0, half, tested >= most.amax().clamp(max=0))


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


@dataclass(frozen=True)
class Rehearsal:
    """The windows that forecasts are tried on, and what smoothing forecasts for them.

    Every window of the table tests smoothing, which learns nothing from later rows; only validation
    windows test the network.
    """

    windows: Windows
    validation: Windows
    smoothed: Smoothed

    @classmethod
    def make(
        cls, plan: Plan, panel: Panel, windows: Windows, validation: Windows, prior: Prior
    ) -> "Rehearsal":
        """Choose the windows, and smooth once for all of them."""
        windows, validation = (
            sample_windows(recent(each), plan.quantiles) if len(each) else each
            for each in (windows, validation)
        )
        rows = torch.cat([windows.starts, validation.starts]).unique().cpu() + plan.lookback
        return cls(
            windows, validation, smooth_panel(panel, plan.seasons, plan.horizon, rows, prior)
        )

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
    blend = Blend(
        torch.zeros(series),
        torch.zeros(series),
        torch.ones(3, series),
        walk_quantiles(plan.horizon, plan.quantiles),
        torch.zeros(FACTORS),
        prior.float(),
        plan.seasons,
    )
    if rehearsal is None:
        return replace(plan, network_share=0.0), blend
    if plan.quantiles:
        sample = rehearsal.windows
        batch = sample.gather(torch.arange(len(sample), device=sample.device))
        target, seen = (each.double() for each in _truth(batch))
        target = target * torch.from_numpy(scaler.scale) + torch.from_numpy(scaler.shift)
        smoothed = rehearsal.smoothed.at(sample.starts + plan.lookback)
        spread, powers = error_quantiles(smoothed, target, seen, plan.quantiles)
        blend = replace(blend, spread=spread, powers=powers.float())
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
    points = [torch.cat(part) for part in zip(*parts, strict=True)]
    share, errors = choose_shares(*points)
    evidence = float(independent_windows(points[-1]).sum())
    share = share * evidence / (evidence + FEW_WINDOWS)
    errors = dict(zip(("network", "smoothing", "mixed"), errors, strict=True))
    plan = replace(plan, network_share=round(float(share.mean()), 3), errors=errors)
    width_share = share * evidence / (evidence + FEW_TO_CALIBRATE)
    return plan, replace(blend, share=share, width_share=width_share)


def smooth_panel(
    panel: Panel,
    seasons: Sequence[int],
    horizon: int,
    rows: Tensor,
    prior: Prior,
    wanted: np.ndarray | None = None,
) -> Smoothed:
    """Run smoothing over a panel and forecast after its first ``rows`` rows.

    ``wanted`` says which series are smoothed, bool ``[N]`` (default: all); nothing is known of the
    others.
    """
    first, until = max(int(rows.min()) - MEMORY, 0), int(rows.max())
    some = np.flatnonzero(np.ones(panel.n_series, bool) if wanted is None else wanted)
    values = torch.from_numpy(panel.values[first:until, some])
    observed = torch.from_numpy(panel.observed[first:until, some])
    done = smooth(values, observed, seasons, horizon, rows.cpu() - first, prior)
    if wanted is not None:

        def spread(part: Tensor, rest: float = 0.0) -> Tensor:
            whole = part.new_full((*part.shape[:-1], panel.n_series), rest)
            whole[..., some] = part
            return whole

        point, error, known, tested = map(spread, done[:4])
        done = Smoothed(point, error, known, tested, done.rows, spread(done.factors, 1.0))
    return done._replace(rows=done.rows + first)


def panel_prior(plan: Plan, panel: Panel) -> Prior:
    """Learn the usual error of each expert from the last rows of (some of) the series."""
    rows = min(panel.length, MEMORY)
    some = np.unique(np.linspace(0, panel.n_series - 1, -(-PRIOR_CELLS // rows)).astype(int))
    values, observed = (
        torch.from_numpy(each[-rows:, some]) for each in (panel.values, panel.observed)
    )
    most = EXPERTS if panel.n_series >= ENOUGH_SERIES else None
    return learn_prior(values, observed, plan.seasons, plan.horizon, most).float()


def recent(windows: Windows) -> Windows:
    """Leave out windows from long ago."""
    last = windows.starts[-1] - MOST_ROWS
    return replace(windows, starts=windows.starts[windows.starts >= last])


def _truth(batch: Batch) -> tuple[Points, Points]:
    """Return the targets, and 1 where they are observed."""
    seen = batch.future_observed
    seen = torch.ones_like(batch.future) if seen is None else seen.to(batch.future)
    return batch.future.cpu(), seen.cpu()
