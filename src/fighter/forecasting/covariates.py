"""Covariates that are known in advance, for the forecasts that need no training.

Their effects are taken off the values, what is left is forecast, and the effects of the steps ahead
are added again. How much of them is used is chosen by errors on earlier rows of the table, forecast
with effects that were fitted on rows before.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from .._typing import Bool, Float, Int
from ..data import Panel
from ..data.holidays import MARKS, holiday_marks
from ..models.effects import FEWEST_ROWS, Effects, fit_effects
from ..models.local import Smoothed
from ..training.parallel import one_thread

BLOCKS = 4  # of rows, each forecast with effects fitted on the rows before it
HOLIDAYS = ("holiday", "holiday eve", "day after a holiday")
LARGEST_LOG = 30.0  # of a factor

Forecast = Callable[["Applied | None", Int[Tensor, "origins"]], Smoothed]


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

        guess, mean = made.zero_shot, made.mean
        return made._replace(
            point=add(made.point, total, closed),
            error=error,
            factors=factors,
            zero_shot=None if guess is None else add(guess, total[..., None], closed[..., None]),
            mean=None if mean is None else add(mean, total, closed),
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


def rehearse(
    make: Forecast,
    seasons: Sequence[int],
    panel: Panel,
    rows: Int[Tensor, "origins"],
    scale: np.ndarray,
    first: int,
) -> tuple[Smoothed, Bool[Tensor, "origins horizon series"]]:
    """Forecast after some rows, with effects that are fitted on earlier rows only.

    Also returns which steps are known to be zero.
    """
    parts, closed = [], []
    for some in rows.tensor_split(min(BLOCKS, len(rows))):
        until = panel.slice(None, int(some[0]))
        effects = fit_panel_effects(seasons, until, scale, first)
        if until.length < FEWEST_ROWS:
            effects = effects.scaled(torch.zeros(panel.n_series))
        applied = Applied(effects, panel, scale, first)
        made = make(applied, some)
        parts.append(made)
        closed.append(applied.closed[some[:, None] + torch.arange(made.point.shape[1])])
    return concatenate(parts), torch.cat(closed)


def concatenate(parts: Sequence[Smoothed]) -> Smoothed:
    """Join forecasts made after different rows."""
    guesses = [part.zero_shot for part in parts if part.zero_shot is not None]
    guess = torch.cat(guesses) if guesses else None
    means = [part.mean for part in parts if part.mean is not None]
    mean = torch.cat(means) if means else None
    point, error, known, tested, rows = (
        torch.cat(each) for each in list(zip(*parts, strict=True))[:5]
    )
    factors = torch.cat([part.factors for part in parts], 1)
    return Smoothed(point, error, known, tested, rows, factors, guess, mean)


def mix(
    plain: Smoothed, other: Smoothed, share: Float[Tensor, "series"], closed: Tensor
) -> Smoothed:
    """Return the mean of two forecasts; ``share`` is that of the other one.

    Steps that are known to be zero come from the other one.
    """
    share = share.double()
    whole = torch.where(closed, 1.0, share)
    guess = None
    if plain.zero_shot is not None and other.zero_shot is not None:
        guess = torch.lerp(plain.zero_shot, other.zero_shot, whole[..., None])
    mean = None
    if plain.mean is not None and other.mean is not None:
        mean = torch.lerp(plain.mean, other.mean, whole)
    return plain._replace(
        mean=mean,
        point=torch.lerp(plain.point, other.point, whole),
        error=torch.lerp(plain.error, other.error, share),
        factors=torch.lerp(plain.factors, other.factors, share),
        zero_shot=guess,
    )
