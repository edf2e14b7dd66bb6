"""How forecasts are mixed, by their shares: the network, smoothing and those beside smoothing."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from .._typing import Float
from ..data import Batch, Scaler, Windows
from ..data.bounds import clamp_to_bounds
from ..models import ForecastNet
from ..models.effects import Effects
from ..models.local import BESIDE, Smoothed
from ..models.widths import apply
from ..training import forecast
from .counts import Counts
from .spread import Points

UNUSUAL = 1.5  # times what the training windows held at most
YOUNG = 3.0  # values, besides the first, after which half of what is usual in a table counts

Outputs = Float[Tensor, "batch horizon series outputs"]


@dataclass(frozen=True, eq=False)
class Blend:
    """How the forecasts of each series are mixed.

    Args:
        share: share of the network ``[N]``; the others have the rest.
        zero_shot: share of the pretrained network beside smoothing ``[N]``.
        vector: share of the vector autoregression beside these two ``[N]``.
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
    vector: Float[Tensor, "series"]
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
        shares = {
            name: with_mean(getattr(self, name))[index]
            for name in ("share", *BESIDE, "width_share")
        }
        counts = self.counts and self.counts.select(index)
        return replace(
            self, **shares, usual=usual, counts=counts,
            effects=self.effects and self.effects.select(index),
        )  # fmt: skip

    @property
    def smooths(self) -> bool:
        """Whether smoothing has a share anywhere."""
        return not bool((self.zero_shot == 1).all())

    def point(self, smoothed: Smoothed) -> Points:
        """Return the forecast without the network, in the units of the table."""
        point = self.smoothing(smoothed)
        for outputs, share in self._beside(smoothed):
            mixed = torch.lerp(point, outputs[..., 0], share)
            point = torch.where(mixed.isnan(), point, mixed)
        return point

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
        for outputs, share in self._beside(smoothed):
            if outputs.shape[-1] == 1:  # it has no quantiles of its own
                continue
            middle, quantiles = outputs.split([1, widths.shape[-1]], -1)
            own = (quantiles - middle) / scale[:, None]
            mixed = torch.lerp(widths, own, share[:, None])
            widths = torch.where(mixed.isnan(), widths, mixed)
        widths = torch.where(known, widths, self.spread[:, None].double())
        return torch.cat([point, point + widths], -1)

    def _beside(self, smoothed: Smoothed) -> Iterator[tuple[Outputs, Float[Tensor, "series"]]]:
        """Yield the forecasts beside smoothing, each with its share of what is mixed with it.

        The first is mixed with smoothing, a further one with both.
        """
        for name, outputs in smoothed.beside.items():
            yield outputs, getattr(self, name).double()

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
