"""The frame around every core: normalisation, cycle, reversion, covariates, the same for all."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from ..data.windows import Batch
from .base import Core
from .embedding import Cycle, Reversion, window_statistics


class CovariateHead(nn.Module):
    """What covariates add to each step, whatever the window's scale: a small perceptron per step.

    It reads what is known of that step, by itself and against its mean over the look-back, and the
    mean and the last value of what is known of the past only. It begins at zero.
    """

    def __init__(self, past: int, future: int, outputs: int, hidden: int = 64):
        super().__init__()
        last = nn.Linear(hidden, outputs)
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
        self.net = nn.Sequential(nn.Linear(2 * past + 2 * future, hidden), nn.GELU(), last)

    def forward(self, batch: Batch, horizon: int) -> Tensor:
        """``[batch, horizon, series, outputs]``."""
        parts = []
        if batch.future_covariates is not None:  # [B, L + H, N, F]
            before, known = batch.future_covariates.split([batch.past.shape[1], horizon], 1)
            parts += [known, known - before.mean(1, keepdim=True)]
        if batch.past_covariates is not None:  # [B, L, N, P]
            seen = batch.past_covariates
            summary = torch.cat([seen.mean(1, keepdim=True), seen[:, -1:]], -1)
            parts.append(summary.expand(-1, horizon, -1, -1))
        return self.net(torch.cat(parts, -1))


class Window(NamedTuple):
    """Windows in units of their own, and the way back."""

    z: Tensor  # (past - centre) / std, [batch, lookback, series]
    before: Tensor  # the cycle over the look-back, in the same units
    after: Tensor  # and over the horizon, if it is inside
    centre: Tensor  # [batch, 1, series]
    std: Tensor
    level: Tensor  # forecast = scale · ŷ + level + cycle, [batch, horizon or 1, series]
    scale: Tensor
    cycle: Tensor  # over the horizon, if it is outside


class ForecastNet(nn.Module):
    """What happens around a core, from the data's units to the window's and back.

    .. code-block:: text

        z = (x - mean) / std                    mean and std of the window's observed past
        ŷ = unaffine(core(affine(z - cycle))) + cycle
        forecast = std' · ŷ + mean' + covariates

    The affine map has a factor and a shift per series. It comes with a core or a cycle that belong
    to the series anyway, so that a network that can serve any series still does. With reversion,
    mean' and std' go from the window's to the usual ones over the horizon, else they stay. A core
    that learns nothing stands alone: the forecast is core(x).

    A cycle may also stand outside, in the data's units:

    .. code-block:: text

        z = (x - cycle - mean) / std            mean and std of what the cycle leaves
        forecast = std' · unaffine(core(affine(z))) + mean' + cycle + covariates

    Args:
        core: the network inside.
        normalise: whether each window is brought to mean 0 and deviation 1.
        period: length of the learned cycle, None for none.
        outside: whether the cycle is taken off before windows are normalised, and not after.
        reversion: whether a forecast may leave the level and the deviation of its window.
        covariates: numbers of covariates known of the past only, and of the future too.
    """

    def __init__(
        self,
        core: Core,
        *,
        normalise: bool = True,
        period: int | None = None,
        cycle_before_norm: bool = False,
        reversion: bool = False,
        covariates: tuple[int, int] = (0, 0),
    ):
        super().__init__()
        task = core.task
        if not core.trainable:
            normalise, period, covariates = False, None, (0, 0)
        self.core, self.normalise = core, normalise
        self.cycle = Cycle(period, task.series) if period else None
        own = core.series_specific or bool(period)  # weights belong to the series
        self.affine = Affine(task.series) if normalise and own else None
        self.reversion = (
            Reversion(task.horizon, task.series if own else 1) if normalise and reversion else None
        )
        self.cycle_before_norm = cycle_before_norm and self.cycle is not None
        self.covariates = CovariateHead(*covariates, task.outputs) if any(covariates) else None

    def forward(self, batch: Batch, position: Tensor, per_member: bool = False) -> Tensor:
        """``[batch, horizon, series, outputs]``.

        ``position [batch]`` is the place of the windows' first step on the training data's axis,
        which the cycle is counted on. With ``apart``, the forecast of each of the core's members,
        ``[members, …]``, if it has several.
        """
        window = self.window(batch, position)
        y = self.inside(window.z, window.before, window.after, batch, per_member)
        y = y * window.scale[..., None] + (window.level + window.cycle)[..., None]
        if self.covariates is None:
            return y
        return y + self.covariates(batch, self.core.task.horizon)

    def window(self, batch: Batch, position: Tensor) -> Window:
        """The past and the cycle in the window's units."""
        past, nothing = batch.past, batch.past.new_zeros(1, 1, 1)
        before, after = self.cycles(batch, position)
        rest = past - before if self.cycle_before_norm else past
        mean, std = self.statistics(rest, batch.past_observed)
        level, scale = (mean, std) if self.reversion is None else self.reversion(mean, std)
        if not self.cycle_before_norm:
            return Window((past - mean) / std, before, after, mean, std, level, scale, nothing)
        shift = before.mean(1, keepdim=True)
        centre, before = mean + shift, (before - shift) / std
        return Window((past - centre) / std, before, nothing, centre, std, level, scale, after)

    def statistics(self, past: Tensor, observed: Tensor | None) -> tuple[Tensor, Tensor]:
        """Mean and deviation that windows are brought to 0 and 1 by, ``[batch, 1, series]``."""
        if not self.normalise:
            return past.new_zeros(1, 1, 1), past.new_ones(1, 1, 1)
        return window_statistics(past, observed)

    def cycles(self, batch: Batch, position: Tensor) -> tuple[Tensor, Tensor]:
        """The cycle over the look-back and over the horizon; zeros where there is none."""
        lookback, horizon = batch.past.shape[1], self.core.task.horizon
        if self.cycle is None:
            nothing = batch.past.new_zeros(1, 1, 1)
            return nothing, nothing
        before, after = self.cycle(position, lookback + horizon).split([lookback, horizon], 1)
        return before, after

    def inside(
        self, z: Tensor, before: Tensor, after: Tensor, batch: Batch, per_member: bool = False
    ) -> Tensor:
        """From past to forecast in the window's units; of the batch, masks and calendar."""
        z = z - before
        if self.affine is not None:
            z = self.affine(z)
        if batch.past_observed is not None:
            z = self.core.fill(z, batch.past_observed)
        context = None if batch.calendar is None else batch.calendar[:, z.shape[1] - 1]
        several = {"per_member": per_member} if self.core.members > 1 else {}
        y = self.core(z, context, **several)
        if self.affine is not None:
            y = self.affine.undo(y)
        return y + after[..., None]


class Affine(nn.Module):
    """x · factor + shift, a learned factor and shift per series."""

    def __init__(self, series: int):
        super().__init__()
        self.factor = nn.Parameter(torch.ones(series))
        self.shift = nn.Parameter(torch.zeros(series))

    def forward(self, x: Tensor) -> Tensor:
        """``[..., series]``."""
        return x * self.factor + self.shift

    def undo(self, y: Tensor) -> Tensor:
        """The other way, on ``[..., series, outputs]``."""
        return (y - self.shift[:, None]) / (self.factor[:, None] + 1e-8)
