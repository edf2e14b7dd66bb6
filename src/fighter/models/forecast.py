"""The frame around every core: normalisation, cycle, reversion, covariates, the same for all."""

import torch
from torch import Tensor, nn

from ..data.windows import Batch
from ..nn.series import Cycle, Reversion, window_statistics
from .core import Core


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


class ForecastNet(nn.Module):
    """What happens around a core, from the data's units to the window's and back.

    .. code-block:: text

        z = (x - mean) / std                    mean and std of the window's observed past
        ŷ = unaffine(core(affine(z - cycle))) + cycle
        forecast = std · ŷ + (1 - r) · mean + covariates

    The affine map has a factor and a shift per series, the reversion r a number per step and
    series. The first comes with a core or a cycle that belong to the series anyway, without which
    the second is the same for all series, so that a network that can serve any series still does. A
    core that learns nothing stands alone: the forecast is core(x).

    Args:
        core: the network inside.
        normalise: whether each window is brought to mean 0 and deviation 1.
        period: length of the learned cycle, None for none.
        reversion: whether the level of a window may be left again.
        covariates: numbers of covariates known of the past only, and of the future too.
    """

    def __init__(
        self,
        core: Core,
        *,
        normalise: bool = True,
        period: int | None = None,
        reversion: bool = False,
        covariates: tuple[int, int] = (0, 0),
    ):
        super().__init__()
        task = core.task
        if not core.learned:
            normalise, period, covariates = False, None, (0, 0)
        self.core, self.normalise = core, normalise
        self.cycle = Cycle(period, task.series) if period else None
        own = core.tied or bool(period)  # weights belong to the series
        self.affine = Affine(task.series) if normalise and own else None
        self.reversion = (
            Reversion(task.horizon, task.series if own else 1) if normalise and reversion else None
        )
        self.covariates = CovariateHead(*covariates, task.outputs) if any(covariates) else None

    def forward(self, batch: Batch, position: Tensor) -> Tensor:
        """``[batch, horizon, series, outputs]``.

        ``position [batch]`` is the place of the windows' first step on the training data's axis,
        which the cycle is counted on.
        """
        horizon = self.core.task.horizon
        z, mean, std = self.normalised(batch)
        before, after = self.cycles(batch, position)
        y = self.inside(z, before, after, batch)
        y = y * std[..., None] + self.level(mean)[..., None]
        return y if self.covariates is None else y + self.covariates(batch, horizon)

    def normalised(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """The past in the window's units, and their mean and deviation in the data's."""
        past = batch.past
        if not self.normalise:
            return past, past.new_zeros(1, 1, 1), past.new_ones(1, 1, 1)
        mean, std = window_statistics(past, batch.past_observed)
        return (past - mean) / std, mean, std

    def level(self, mean: Tensor) -> Tensor:
        """What is kept of a window's mean ``[batch, 1, series]``, at every step or at all alike."""
        return mean if self.reversion is None else self.reversion(mean)

    def cycles(self, batch: Batch, position: Tensor) -> tuple[Tensor, Tensor]:
        """The cycle over the look-back and over the horizon; zeros where there is none."""
        lookback, horizon = batch.past.shape[1], self.core.task.horizon
        if self.cycle is None:
            nothing = batch.past.new_zeros(1, 1, 1)
            return nothing, nothing
        before, after = self.cycle(position, lookback + horizon).split([lookback, horizon], 1)
        return before, after

    def inside(self, z: Tensor, before: Tensor, after: Tensor, batch: Batch) -> Tensor:
        """From past to forecast in the window's units; of the batch, masks and calendar."""
        z = z - before
        if self.affine is not None:
            z = self.affine(z)
        if batch.past_observed is not None:
            z = self.core.fill(z, batch.past_observed)
        context = None if batch.calendar is None else batch.calendar[:, z.shape[1] - 1]
        y = self.core(z, context)
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
