"""The rehearsal: the windows that forecasts are tried on, and the forecasts made for them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from .._typing import Bool, Float
from ..data import Batch, Panel, Scaler, Windows
from ..models.local import Smoothed
from ..training.calibration import sample_windows
from .alone import Untrained
from .blend import Outputs
from .covariate_shares import try_covariates
from .spread import Points, is_mature

MOST_WINDOWS = 240  # more would add little: neighbouring windows share almost all targets
MOST_ROWS = 8192  # of the validation rows, the last


@dataclass(frozen=True)
class Rehearsal:
    """The windows that forecasts are tried on, and what is forecast for them without training.

    Every window of the table tests smoothing, which learns nothing from later rows; only validation
    windows test the network. The pretrained network, which takes longer, forecasts for some of all
    these windows; where it does not, the others forecast without it.

    Args:
        windows: windows of the whole table.
        validation: windows of the validation rows.
        scaler: the scales of both.
        start_step: step of the first row of both on the training time axis.
        smoothed: the forecasts that need no training, after the look-back of each window.
        effect_share: share of the effects of covariates that is used ``[N]``; None without any.
        covariates: that share, and what it brings, to be told.
    """

    windows: Windows
    validation: Windows
    scaler: Scaler
    start_step: int
    smoothed: Smoothed
    effect_share: Float[Tensor, "series"] | None = None
    covariates: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def make(
        cls,
        untrained: Untrained,
        panel: Panel,
        windows: Windows,
        validation: Windows,
        scaler: Scaler,
        start_step: int,
    ) -> "Rehearsal":
        """Choose the windows, and forecast once after all of them.

        A fine-tuned network has learned from all but the validation windows.
        """
        plan, tuned = untrained.plan, untrained.tuned is not None
        few = untrained.affordable_origins(panel, samples=2) if plan.pretrained else MOST_WINDOWS
        most = MOST_WINDOWS if plan.smoothing else few
        windows, validation = (
            sample_windows(recent(each), plan.quantiles).thin(most) if len(each) else each
            for each in (windows, validation)
        )
        if tuned:
            both = torch.cat([windows.starts, validation.starts]).unique()
            windows = replace(windows, starts=both) if plan.smoothing else validation
        starts = torch.cat([windows.starts, validation.starts]).unique().cpu()
        asked = (validation,) if tuned else (windows, validation)
        subset = torch.cat([each.thin(few).starts for each in asked]).unique().cpu()
        made, share, told = try_covariates(
            untrained, panel, starts + plan.lookback, subset + plan.lookback, scaler.scale,
            start_step,
        )  # fmt: skip
        if tuned and made.zero_shot is not None:
            learned = learned_rows(starts, validation)
            hidden = torch.where(learned[:, None, :, None], torch.nan, made.zero_shot)
            made = made._replace(zero_shot=hidden)
        return cls(windows, validation, scaler, start_step, made, share, told)

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


def learned_rows(starts: Tensor, validation: Windows) -> Bool[Tensor, "starts series"]:
    """Tell which windows hold training targets, of each series: all but validation windows."""
    series = torch.arange(validation.values.shape[1], device=validation.device)
    learned = torch.ones(len(starts), len(series), dtype=torch.bool)
    place = torch.searchsorted(starts, validation.starts.cpu())
    learned[place] = (validation.targets_of(series) == 0).cpu()
    return learned


def recent(windows: Windows) -> Windows:
    """Leave out windows from long ago."""
    last = windows.starts[-1] - MOST_ROWS
    return replace(windows, starts=windows.starts[windows.starts >= last])


def truth_of(batch: Batch) -> tuple[Points, Points]:
    """Return the targets, and 1 where they are observed."""
    seen = batch.future_observed
    seen = torch.ones_like(batch.future) if seen is None else seen.to(batch.future)
    return batch.future.cpu(), seen.cpu()
