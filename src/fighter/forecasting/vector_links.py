"""What the vector autoregression took from each series, in the windows of a network."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from .._typing import Float
from ..data import Panel
from ..models.vector import fill_gaps, fit_after
from .fitted import Fitted


class VectorLinks:
    """The forecasts of the vector autoregression after some rows, in deviations of the series.

    Args:
        fitted: the model.
        panel: the rows.
        ends: the windows: each forecast is made after so many rows.
    """

    def __init__(self, fitted: Fitted, panel: Panel, ends: Sequence[int]):
        plan, blend = fitted.plan, fitted.blend_of(panel.ids)
        assert blend is not None
        scaler = fitted.preprocessing.scaler_of(panel)
        first = fitted.preprocessing.start_step(panel)
        applied = fitted.applied(blend, panel, scaler, first)
        table = panel if applied is None else applied.panel
        values, observed = (
            torch.from_numpy(np.ascontiguousarray(each)) for each in (table.values, table.observed)
        )
        x, begin, _ = fill_gaps(values, observed)
        self.x = (x - torch.from_numpy(scaler.shift)) / torch.from_numpy(scaler.scale)
        self.ends, self.lookback = list(ends), plan.lookback
        self.fits = list(fit_after(self.x, begin, plan.seasons, plan.horizon, self.ends))
        self.reach = max([plan.lookback, *(fit.reach for fit in self.fits if fit is not None)])

    def split(
        self, windows: Sequence[int], steps: Sequence[int]
    ) -> tuple[
        Float[Tensor, "windows series"],
        Float[Tensor, "windows reach source target"],
        Float[Tensor, "windows reach source"],
    ]:
        """Return forecasts, their parts, and the last values, less the mean of their look-back.

        Each window, by its place, is forecast at one step from 1. Forecasts are NaN where there
        are none. All look-backs are as long as the longest one of network and regression.
        """
        count = self.x.shape[1]
        made = self.x.new_full((len(windows), count), torch.nan)
        parts = torch.zeros(len(windows), self.reach, count, count)
        z = torch.zeros(len(windows), self.reach, count)
        for place, (window, step) in enumerate(zip(windows, steps, strict=True)):
            end = self.ends[window]
            own = self.x[max(end - self.reach, 0) : end]
            own = own - own[-self.lookback :].mean(0)
            z[place, -len(own) :] = own.float()
            if (fit := self.fits[window]) is not None:
                made[place] = fit.forecast(self.x[None, end - fit.reach : end], step)[0, -1]
                slopes = fit.slopes(step) * own[-fit.reach :, :, None]
                parts[place, -fit.reach :] = slopes.float()
        return made, parts, z
