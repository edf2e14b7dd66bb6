"""The frame around every core: normalisation, cycle and covariates, the same for all."""

import torch
from torch import Tensor, nn

from ..data.windows import Batch
from ..nn.series import Cycle, window_statistics
from .core import Core


class CovariateHead(nn.Module):
    """What covariates add to each step, in units of the window: a small perceptron per step.

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
    """ŷ = std · (core((x - cycle - mean) / std) + covariates) + mean + cycle.

    Args:
        core: the network inside.
        normalise: whether each window is brought to mean 0 and deviation 1.
        period: length of the learned cycle, None for none.
        covariates: numbers of covariates known of the past only, and of the future too.
    """

    def __init__(
        self,
        core: Core,
        *,
        normalise: bool = True,
        period: int | None = None,
        covariates: tuple[int, int] = (0, 0),
    ):
        super().__init__()
        task = core.task
        self.core, self.normalise = core, normalise
        self.cycle = Cycle(period, task.series) if period else None
        self.covariates = CovariateHead(*covariates, task.outputs) if any(covariates) else None

    def forward(self, batch: Batch, position: Tensor) -> Tensor:
        """``[batch, horizon, series, outputs]``.

        ``position [batch]`` is the place of the windows' first step on the training data's axis,
        which the cycle is counted on.
        """
        past, observed = batch.past, batch.past_observed
        lookback, horizon = past.shape[1], self.core.task.horizon
        shift = past.new_zeros(1, 1, 1)  # what is taken from the past and given to the future
        if self.cycle is not None:
            before, shift = self.cycle(position, lookback + horizon).split([lookback, horizon], 1)
            past = past - before
        scale = past.new_ones(1, 1, 1)
        if self.normalise:
            mean, scale = window_statistics(past, observed)
            past, shift = (past - mean) / scale, shift + mean
        if observed is not None:
            past = past * observed
        context = None if batch.calendar is None else batch.calendar[:, lookback - 1]
        y = self.core(past, context)
        if self.covariates is not None:
            y = y + self.covariates(batch, horizon)
        return y * scale[..., None] + shift[..., None]
