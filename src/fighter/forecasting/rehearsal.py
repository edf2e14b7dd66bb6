"""The rehearsal: the windows that forecasts are tried on, and the forecasts made for them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from .._typing import Float
from ..data import Batch, Panel, Windows
from ..models.local import Prior, Smoothed
from ..models.pretrained import PretrainedNet
from ..training.calibration import sample_windows
from .alone import affordable_origins
from .autoconfig import Plan
from .blend import Outputs
from .covariate_shares import try_covariates
from .spread import Points, is_mature

MOST_WINDOWS = 240  # more would add little: neighbouring windows share almost all targets
MOST_ROWS = 8192  # of the validation rows, the last


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
            few = affordable_origins(panel, plan.horizon, windows.device, samples=2)
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


def recent(windows: Windows) -> Windows:
    """Leave out windows from long ago."""
    last = windows.starts[-1] - MOST_ROWS
    return replace(windows, starts=windows.starts[windows.starts >= last])


def truth_of(batch: Batch) -> tuple[Points, Points]:
    """Return the targets, and 1 where they are observed."""
    seen = batch.future_observed
    seen = torch.ones_like(batch.future) if seen is None else seen.to(batch.future)
    return batch.future.cpu(), seen.cpu()
