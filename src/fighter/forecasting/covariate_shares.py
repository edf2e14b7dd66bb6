"""How much of the effects of covariates is used, by errors on earlier rows of the table.

These rows are forecast with effects that were fitted on rows before them.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from .._typing import Bool, Float, Int
from ..data import Panel
from ..models.effects import FEWEST_ROWS
from ..models.local import Prior, Smoothed
from ..models.pretrained import PretrainedNet
from .alone import affordable_origins, forecast_alone
from .autoconfig import Plan
from .covariates import Applied, count_known, fit_panel_effects
from .preprocessing import Preprocessing
from .shares import LEAST_SHARE, RECENCY, SHARES, choose_shares
from .spread import Points, independent_windows, is_mature, rows_apart

BLOCKS = 4  # of rows, each forecast with effects fitted on the rows before it
ZERO_SHOT_ORIGINS = 12  # that try covariates at most, where nothing is fitted
NO_EFFECT = 0.6  # of a share of 1 of the effects of covariates, in windows
FEW_TO_TRY = 0.2  # with so many windows in all, that share is halved

Forecast = Callable[[Applied | None, Int[Tensor, "origins"]], Smoothed]


def try_covariates(
    plan: Plan,
    panel: Panel,
    rows: Int[Tensor, "origins"],
    subset: Int[Tensor, "some"],
    prior: Prior,
    device: torch.device,
    scale: np.ndarray,
    start_step: int,
    mean_prior: Prior | None = None,
    tuned: PretrainedNet | None = None,
) -> tuple[Smoothed, Float[Tensor, "series"] | None, dict[str, float]]:
    """Forecast after some rows of a table, with and without the effects of covariates, and mix.

    The pretrained network forecasts after a ``subset`` of the rows. Also returns the share of the
    effects, None if there are no covariates, and what to tell of it.
    """

    def run(applied: Applied | None, rows: Int[Tensor, "origins"]) -> Smoothed:
        here = panel if applied is None else applied.panel
        made = forecast_alone(
            plan, here, rows, prior, device, smooths=plan.smoothing, pretrained=False,
            mean_prior=mean_prior,
        )  # fmt: skip
        if plan.pretrained:
            size = len(rows), plan.horizon, panel.n_series, 1 + len(plan.quantiles)
            every = made.point.new_full(size, torch.nan)
            if len(some := subset[torch.isin(subset, rows)]):
                guess = forecast_alone(
                    plan, here, some, prior, device, smooths=False, pretrained=True, tuned=tuned
                ).zero_shot
                assert guess is not None
                every[torch.searchsorted(rows, some)] = guess
            made = made._replace(zero_shot=every)
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
    against = NO_EFFECT * SHARES
    share, _ = choose_shares(
        scaled(other), scaled(plain), target, open_, apart,
        prior=against, squared=plan.point == "mean",
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
    plan: Plan, panel: Panel, prior: Prior, device: torch.device, judged: Preprocessing, first: int
) -> tuple[Float[Tensor, "series"] | None, dict[str, float]]:
    """Choose the share of the effects of covariates where the pretrained network is not fitted.

    It is tried on few rows of the second half of the table.
    """
    begin, end = panel.length // 2, panel.length - plan.horizon
    if not count_known(panel) or begin < 1 or end < begin:
        return None, {}
    few = min(affordable_origins(panel, plan.horizon, device), ZERO_SHOT_ORIGINS)
    rows = torch.linspace(begin, end, few).long().unique()
    scale = judged.scaler.scale
    return try_covariates(plan, panel, rows, rows, prior, device, scale, first)[1:]


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
