"""Covariates that are known in advance, for the forecasts that need no training.

Their effects are taken off the values, what is left is forecast, and the effects of the steps ahead
are added again.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from .._typing import Float
from ..data import Panel
from ..data.holidays import MARKS, holiday_marks
from ..models.effects import Effects, fit_effects
from ..models.local import Smoothed
from ..training.parallel import one_thread

HOLIDAYS = ("holiday", "holiday eve", "day after a holiday")
LARGEST_LOG = 30.0  # of a factor


def count_known(panel: Panel) -> int:
    """Return the number of covariates known in advance, holidays included."""
    return panel.future.shape[2] + len(MARKS) * bool(panel.holidays)


def names_of(panel: Panel) -> tuple[str, ...]:
    """Return their names."""
    return (*panel.future_names, *(HOLIDAYS if panel.holidays else ()))


def known_ahead(panel: Panel) -> Float[Tensor, "time series covariates"]:
    """Return them for all rows, also for those after the last target."""
    known = panel.future
    if panel.holidays:
        times = panel.freq.range(int(panel.times[0]), len(known))
        marks = holiday_marks(replace(panel, times=times), len(known))
        known = np.concatenate([known, marks], 2)
    return torch.from_numpy(np.ascontiguousarray(known, np.float64))


def fit_panel_effects(
    plan_seasons: Sequence[int], panel: Panel, scale: np.ndarray, first: int
) -> Effects:
    """Fit the effects on the rows of a panel; ``first`` is the step of the first one."""
    rows = panel.length
    values, seen = (
        torch.from_numpy(np.ascontiguousarray(e)) for e in (panel.values, panel.observed)
    )
    with one_thread():
        return fit_effects(
            values.double(), seen, known_ahead(panel)[:rows], plan_seasons, first,
            torch.from_numpy(scale),
        )  # fmt: skip


class Applied:
    """Effects on a panel: the panel without them, and how they return to a forecast."""

    def __init__(self, effects: Effects, panel: Panel, scale: np.ndarray, first: int):
        known, rows = known_ahead(panel), panel.length
        self.effects = effects
        self.parts = effects.parts(known, first, torch.from_numpy(scale))
        self.closing = effects.is_closed(known)
        self.closed = self.closing.any(2)
        total = self.total = self.parts.sum(2)
        values = torch.from_numpy(np.ascontiguousarray(panel.values, np.float64))
        if effects.log:
            self.total = total.clamp(-LARGEST_LOG, LARGEST_LOG)
            values = values * (-self.total[:rows]).exp()
        else:
            values = values - total[:rows]
        values = torch.where(self.closed[:rows], 0.0, values)
        seen = panel.observed & ~effects.is_odd(self.closed[:rows], first).numpy()
        self.panel = replace(panel, values=np.where(seen, values.numpy(), 0.0), observed=seen)

    def restore(self, made: Smoothed) -> Smoothed:
        """Return the effects, of the steps ahead, to forecasts that were made without them."""
        horizon = made.point.shape[1]
        index = made.rows[:, None] + torch.arange(horizon)
        total, closed = self.total[index], self.closed[index]
        error, factors, log = made.error, made.factors, self.effects.log
        if log:
            total = total.exp()
            size = total.mean(1)
            error = error * size
            level = factors[-1] * total / size[:, None]
            factors = torch.cat([factors[:-1], level[None]])

        def add(made: Tensor, total: Tensor, closed: Tensor) -> Tensor:
            return torch.where(closed, 0.0, made * total if log else made + total)

        return made._replace(
            point=add(made.point, total, closed),
            error=error,
            factors=factors,
            mean=None if made.mean is None else add(made.mean, total, closed),
            **{
                name: add(each, total[..., None], closed[..., None])
                for name, each in made.beside.items()
            },
        )

    def split(self, series: int, row: int, forecast: float) -> list[float]:
        """Return what each covariate adds to a forecast, made without them, of a row."""
        parts, closing = self.parts[row, series], self.closing[row, series]
        if closing.any():
            return (-forecast * closing / closing.sum()).tolist()
        total = float(parts.sum())
        if self.effects.log:  # each has its part of what all together bring
            rise = float(self.total[row, series].expm1())
            parts = forecast * parts * (rise / total if total else 1.0)
        return parts.tolist()
