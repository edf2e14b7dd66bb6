"""How much of the effects of covariates is used, by errors on earlier rows of the table.

These rows are forecast with effects that were fitted on rows before them.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from .._typing import Bool, Float, Int
from ..data import Panel
from ..models.effects import FEWEST_ROWS
from ..models.local import Smoothed
from .alone import Untrained
from .covariates import Applied, count_known, fit_panel_effects
from .shares import LEAST_SHARE, RECENCY, SHARES, choose_shares
from .spread import Points, independent_windows, is_mature, rows_apart

BLOCKS = 4  # of rows, each forecast with effects fitted on the rows before it
ZERO_SHOT_ORIGINS = 12  # that try covariates at most, where nothing is fitted
NO_EFFECT = 0.6  # of a share of 1 of the effects of covariates, in windows
FEW_TO_TRY = 0.2  # with so many windows in all, that share is halved

Forecast = Callable[[Applied | None, Int[Tensor, "origins"]], Smoothed]


def try_covariates(
    untrained: Untrained,
    panel: Panel,
    rows: Int[Tensor, "origins"],
    subset: Int[Tensor, "some"],
    scale: np.ndarray,
    start_step: int,
) -> tuple[Smoothed, Float[Tensor, "series"] | None, dict[str, float]]:
    """Forecast after some rows of a table, with and without the effects of covariates, and mix.

    The pretrained network forecasts after a ``subset`` of the rows. Also returns the share of the
    effects, None if there are no covariates, and what to tell of it.
    """
    plan = untrained.plan

    def run(applied: Applied | None, rows: Int[Tensor, "origins"]) -> Smoothed:
        here = panel if applied is None else applied.panel
        made = forecast_some(untrained, here, rows, subset)
        return made if applied is None else applied.restore(made)

    plain = run(None, rows)
    if not count_known(panel):
        return plain, None, {}
    other, closed = rehearse(run, plan.seasons, panel, rows, scale, start_step)
    index = rows[:, None] + torch.arange(plan.horizon)
    target, observed = (torch.from_numpy(each)[index] for each in (panel.values, panel.observed))
    weight = observed * (rows / rows[-1])[:, None, None] ** RECENCY
    if plan.smoothing:
        weight = weight * is_mature(plain.tested, plain.tested.amax(0))[:, None]
    used = torch.ones(len(rows), dtype=torch.bool) if plan.smoothing else torch.isin(rows, subset)

    def scaled(made: Smoothed) -> Points:
        if plan.smoothing or made.zero_shot is None:
            point = made.point if made.mean is None or plan.point != "mean" else made.mean
        else:
            point = made.zero_shot[..., 0]
        return point[used] / torch.from_numpy(scale)

    target, weight, hidden = target[used] / torch.from_numpy(scale), weight[used], closed[used]
    apart, open_ = rows_apart(rows[used]), weight * ~hidden
    share, _ = choose_shares(
        scaled(other), scaled(plain), target, open_, apart,
        prior=NO_EFFECT * SHARES, squared=plan.point == "mean",
    )  # fmt: skip
    evidence = float(independent_windows(open_, apart).sum())
    share = share * evidence / (evidence + FEW_TO_TRY)
    if float(share.mean()) < LEAST_SHARE:
        share = torch.zeros_like(share)
    mixed = mix(plain, other, share, closed)
    whole = weight.sum().clamp(min=1e-9)
    without, with_them = (
        round(float(((target - scaled(each)).abs() * weight).sum() / whole), 6)
        for each in (plain, mixed)
    )
    told = {"share": round(float(share.mean()), 3), "without": without, "with": with_them}
    return mixed, share, told


def try_zero_shot(
    untrained: Untrained, panel: Panel, scale: np.ndarray, start_step: int
) -> tuple[Float[Tensor, "series"] | None, dict[str, float]]:
    """Choose the share of the effects of covariates where the pretrained network is not fitted.

    It is tried on few rows of the second half of the table.
    """
    begin, end = panel.length // 2, panel.length - untrained.plan.horizon
    if not count_known(panel) or begin < 1 or end < begin:
        return None, {}
    few = min(untrained.affordable_origins(panel), ZERO_SHOT_ORIGINS)
    rows = torch.linspace(begin, end, few).long().unique()
    return try_covariates(untrained, panel, rows, rows, scale, start_step)[1:]


def forecast_some(
    untrained: Untrained, panel: Panel, rows: Int[Tensor, "origins"], subset: Int[Tensor, "some"]
) -> Smoothed:
    """Forecast after some rows; the pretrained network only after those of a subset, else NaN."""
    made = replace(untrained, pretrained=False).forecast(panel, rows)
    if not untrained.pretrained:
        return made
    size = (*made.point.shape, 1 + len(untrained.plan.quantiles))
    every = made.point.new_full(size, torch.nan)
    if len(some := subset[torch.isin(subset, rows)]):
        asked = replace(untrained, smooths=False, vector=False)
        guess = asked.forecast(panel, some).zero_shot
        assert guess is not None
        every[torch.searchsorted(rows, some)] = guess
    return made._replace(zero_shot=every)


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
    means = [part.mean for part in parts if part.mean is not None]
    mean = torch.cat(means) if means else None
    beside = {name: torch.cat([part.beside[name] for part in parts]) for name in parts[0].beside}
    point, error, known, tested, rows = (
        torch.cat(each) for each in list(zip(*parts, strict=True))[:5]
    )
    factors = torch.cat([part.factors for part in parts], 1)
    return Smoothed(point, error, known, tested, rows, factors, mean=mean, **beside)


def mix(
    plain: Smoothed, other: Smoothed, share: Float[Tensor, "series"], closed: Tensor
) -> Smoothed:
    """Return the mean of two forecasts; ``share`` is that of the other one.

    Steps that are known to be zero come from the other one.
    """
    share = share.double()
    whole = torch.where(closed, 1.0, share)
    mean = None
    if plain.mean is not None and other.mean is not None:
        mean = torch.lerp(plain.mean, other.mean, whole)
    return plain._replace(
        mean=mean,
        point=torch.lerp(plain.point, other.point, whole),
        error=torch.lerp(plain.error, other.error, share),
        factors=torch.lerp(plain.factors, other.factors, share),
        **{
            name: torch.lerp(each, other.beside[name], whole[..., None])
            for name, each in plain.beside.items()
        },
    )
