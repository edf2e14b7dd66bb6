"""The frame around every core: normalisation, cycle, reversion and covariates, the same for all."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from .._typing import Float
from ..data.windows import Batch
from .base import Core, Observed, Outputs, Past
from .embedding import Cycle, Positions, Reversion, Statistics, window_statistics

Forecasts = Float[Tensor, "*members batch horizon series outputs"]
Before = Float[Tensor, "#batch #lookback #series"]  # the cycle, or a zero
After = Float[Tensor, "#batch #horizon #series"]


def vector_width(categories: int) -> int:
    """Return the width of the vectors of so many categories."""
    return min(max(round(categories**0.5), 4), 16)


class CategoryVectors(nn.Module):
    """A learned vector for each of many categories, and their mean for any other."""

    def __init__(self, categories: int):
        super().__init__()
        width = vector_width(categories)
        self.weight = nn.Parameter(torch.randn(categories, width) / width**0.5)

    def forward(self, numbers: Float[Tensor, "*cells"]) -> Float[Tensor, "*cells width"]:
        """Return the vectors of categories by their numbers, from 1; of 0, the mean."""
        table = torch.cat([self.weight.mean(0, keepdim=True), self.weight])
        return table[numbers.long()]


class CovariateHead(nn.Module):
    """A small perceptron that turns the covariates of a step into an addition to its forecast.

    Its inputs are the known covariates of the step, as they are and relative to their mean over the
    look-back, and the mean and the last value of the covariates that are known of the past only.
    Its last layer starts at zero. A known covariate that is the number of a category, from 1, is
    replaced by a learned vector; 0 stands for a category that was not trained on, and has the mean
    vector.

    Args:
        past: number of covariates that are known of the past only.
        future: number of those that are known ahead.
        outputs: number of outputs.
        categories: columns of the latter that are numbers of categories, and how many these are.
        hidden: hidden width (default: 64).
    """

    def __init__(
        self,
        past: int,
        future: int,
        outputs: int,
        categories: Mapping[int, int] | None = None,
        hidden: int = 64,
    ):
        super().__init__()
        categories = categories or {}
        self.plain = [i for i in range(future) if i not in categories]
        self.vectors = nn.ModuleDict({str(i): CategoryVectors(n) for i, n in categories.items()})
        future = len(self.plain)
        learned = sum(map(vector_width, categories.values()))
        last = nn.Linear(hidden, outputs)
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
        self.net = nn.Sequential(
            nn.Linear(2 * past + 2 * future + learned, hidden), nn.GELU(), last
        )

    def forward(self, batch: Batch, horizon: int) -> Outputs:
        """Return the addition to the forecast of each step."""
        parts = []
        if batch.future_covariates is not None:  # [B, L + H, N, F]
            before, known = batch.future_covariates.split([batch.past.shape[1], horizon], 1)
            parts += [vectors(known[..., int(i)]) for i, vectors in self.vectors.items()]
            if self.vectors:
                before, known = before[..., self.plain], known[..., self.plain]
            parts += [known, known - before.mean(1, keepdim=True)]
        if batch.past_covariates is not None:  # [B, L, N, P]
            past = batch.past_covariates
            summary = torch.cat([past.mean(1, keepdim=True), past[:, -1:]], -1)
            parts.append(summary.expand(-1, horizon, -1, -1))
        return self.net(torch.cat(parts, -1))


class Affine(nn.Module):
    """x · factor + shift, with a learned factor and shift per series."""

    def __init__(self, series: int):
        super().__init__()
        self.factor = nn.Parameter(torch.ones(series))
        self.shift = nn.Parameter(torch.zeros(series))

    def forward(self, x: Past) -> Past:
        """Apply the map."""
        return x * self.factor + self.shift

    def undo(self, y: Forecasts) -> Forecasts:
        """Apply the inverse map to a forecast."""
        return (y - self.shift[:, None]) / (self.factor[:, None] + 1e-8)


class Window(NamedTuple):
    """Windows in their own units, and the way back to the units of the data."""

    z: Tensor  # (past - centre) / std, [batch, lookback, series]
    before: Tensor  # the cycle over the look-back, in the same units
    after: Tensor  # the cycle over the horizon, zero if it is removed before normalisation
    centre: Tensor  # [batch, 1, series]
    std: Tensor
    level: Tensor  # forecast = scale · ŷ + level + cycle, [batch, horizon or 1, series]
    scale: Tensor
    cycle: Tensor  # the cycle over the horizon in data units, if removed before normalisation
    mean: Tensor  # of the look-back, without reversion, [batch, 1, series]


class ForecastNet(nn.Module):
    """The frame around a core, from the units of the data to the window's units and back.

    .. code-block:: text

        z = (x - mean) / std                    mean and std of the window's observed past
        ŷ = unaffine(core(affine(z - cycle))) + cycle
        forecast = std' · ŷ + mean' + covariates

    The affine map has a factor and a shift per series. It is used only if the core or the
    cycle is series-specific anyway; otherwise the network could no longer serve other series. With
    reversion, mean' and std' move from the window's values to the long-run ones over the horizon;
    without, they stay. A core without weights stands alone: the forecast is core(x).

    The cycle may also be removed before normalisation, in the units of the data:

    .. code-block:: text

        z = (x - cycle - mean) / std            mean and std of the rest
        forecast = std' · unaffine(core(affine(z))) + mean' + cycle + covariates

    Args:
        core: the network inside.
        normalise: bring each window to mean 0 and deviation 1 (default: True).
        period: length of the learned cycle (default: None, no cycle).
        cycle_before_norm: remove the cycle before windows are normalised, not after
            (default: False).
        reversion: learn how quickly forecasts revert to the series' long-run mean and deviation
            (default: False).
        covariates: number of past covariates, and of future and static ones together
            (default: none).
        categories: which of the latter are numbers of categories, and how many (default: none).
        halves: only the second half of the core's members uses reversion; ``reverting``, chosen
            after training, is the share of that half in the forecast (default: False).
    """

    reverting: Tensor

    def __init__(
        self,
        core: Core,
        *,
        normalise: bool = True,
        period: int | None = None,
        cycle_before_norm: bool = False,
        reversion: bool = False,
        covariates: tuple[int, int] = (0, 0),
        categories: Mapping[int, int] | None = None,
        halves: bool = False,
    ):
        super().__init__()
        task = core.task
        if not core.trainable:
            normalise, period, covariates = False, None, (0, 0)
        self.core, self.normalise = core, normalise
        self.cycle = Cycle(period, task.series) if period else None
        series_specific = core.series_specific or bool(period)
        self.affine = Affine(task.series) if normalise and series_specific else None
        own = task.series if series_specific else 1
        self.reversion = Reversion(task.horizon, own) if normalise and reversion else None
        self.halves = halves and self.reversion is not None and core.members % 2 == 0
        if self.halves:
            self.register_buffer("reverting", torch.full((own,), 0.5))
        self.cycle_before_norm = cycle_before_norm and self.cycle is not None
        self.covariates = None
        if any(covariates):
            self.covariates = CovariateHead(*covariates, task.outputs, categories)

    def forward(self, batch: Batch, position: Positions, per_member: bool = False) -> Forecasts:
        """Forecast a batch of windows.

        Args:
            batch: the windows.
            position: step of each window's first row on the training time axis, which indexes
                the cycle.
            per_member: return the forecast of each of the core's members, if it has several, and
                not their mean (default: False).
        """
        window = self.window(batch, position)
        y = self.inside(window.z, window.before, window.after, batch, per_member or self.halves)
        if self.halves:
            y = self.by_halves(y, window, per_member)
        else:
            y = y * window.scale[..., None] + window.level[..., None]
        y = y + window.cycle[..., None]
        if self.covariates is None:
            return y
        return y + self.covariates(batch, self.core.task.horizon)

    def by_halves(
        self, y: Forecasts, window: Window, per_member: bool = False
    ) -> Float[Tensor, "*parts batch horizon series outputs"]:
        """Bring the forecasts of members to data units; weigh the halves unless ``per_member``."""
        plain, reverted = y.chunk(2)
        plain = plain * window.std[..., None] + window.mean[..., None]
        reverted = reverted * window.scale[..., None] + window.level[..., None]
        if per_member:
            return torch.cat([plain, reverted])
        return self.lerp(plain.mean(0), reverted.mean(0), self.reverting[:, None])

    def lerp(self, plain: Tensor, reverted: Tensor, share: Tensor | None = None) -> Tensor:
        """Weigh what belongs to the two halves of the members."""
        share = self.reverting if share is None else share
        return plain + (reverted - plain) * share.to(plain)

    def window(self, batch: Batch, position: Positions) -> Window:
        """Return the past and the cycle in the window's units."""
        past, zero = batch.past, batch.past.new_zeros(1, 1, 1)
        before, after = self.cycles(batch, position)
        rest = past - before if self.cycle_before_norm else past
        mean, std = self.statistics(rest, batch.past_observed)
        level, scale = (mean, std) if self.reversion is None else self.reversion(mean, std)
        if not self.cycle_before_norm:
            return Window((past - mean) / std, before, after, mean, std, level, scale, zero, mean)
        shift = before.mean(1, keepdim=True)
        centre, before = mean + shift, (before - shift) / std
        return Window((past - centre) / std, before, zero, centre, std, level, scale, after, mean)

    def statistics(self, past: Past, observed: Observed | None) -> tuple[Statistics, Statistics]:
        """Return the mean and deviation that windows are normalised by."""
        if not self.normalise:
            return past.new_zeros(1, 1, 1), past.new_ones(1, 1, 1)
        return window_statistics(past, observed)

    def cycles(self, batch: Batch, position: Positions) -> tuple[Before, After]:
        """Return the cycle over the look-back and over the horizon; zeros without a cycle."""
        if self.cycle is None:
            return batch.past.new_zeros(1, 1, 1), batch.past.new_zeros(1, 1, 1)
        spans = batch.past.shape[1], self.core.task.horizon
        before, after = self.cycle(position, sum(spans)).split(spans, 1)
        return before, after

    def inside(
        self, z: Past, before: Before, after: After, batch: Batch, per_member: bool = False
    ) -> Forecasts:
        """Forecast in the window's units; the batch provides masks and calendar features."""
        z = z - before
        if self.affine is not None:
            z = self.affine(z)
        if batch.past_observed is not None:
            z = self.core.fill(z, batch.past_observed)
        context = None if batch.calendar is None else batch.calendar[:, z.shape[1] - 1]
        options: dict[str, Any] = {"per_member": per_member} if self.core.members > 1 else {}
        if batch.groups is not None:
            options["groups"] = batch.groups
        y = self.core(z, context, **options)
        if self.affine is not None:
            y = self.affine.undo(y)
        return y + after[..., None]
