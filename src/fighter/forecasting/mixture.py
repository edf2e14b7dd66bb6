"""Mix the forecasts: try them on past rows, choose their shares, and calibrate the quantiles."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from .._typing import Float
from ..models import ForecastNet
from ..models.pretrained import PretrainedNet
from .alone import Untrained
from .autoconfig import Plan
from .blend import Blend, with_mean
from .blend_shares import make_blend
from .count_shares import weigh_counts
from .counts import are_counts
from .covariate_shares import try_zero_shot
from .covariates import fit_panel_effects
from .intervals import conformal_shifts
from .rehearsal import Rehearsal
from .training_data import TrainingData


@dataclass(frozen=True, eq=False)
class Mixture:
    """How the forecasts of some series are mixed and calibrated.

    Args:
        blend: the shares; None if the network forecasts alone.
        shifts: the conformal shifts ``[N, Q]``; None if nothing was calibrated.
        effect_share: the share of the effects of covariates that is used ``[N]``; None without.
    """

    blend: Blend | None = None
    shifts: Tensor | None = None
    effect_share: Float[Tensor, "series"] | None = None

    def select(self, index: Sequence[int]) -> "Mixture":
        """Return that of other series; -1 stands for a new one, which gets the mean."""
        shifts, share = (
            None if each is None else with_mean(each)[index]
            for each in (self.shifts, self.effect_share)
        )
        return Mixture(self.blend and self.blend.select(index), shifts, share)

    def with_effects(self, plan: Plan, data: TrainingData) -> "Mixture":
        """Fit the effects of covariates on all rows, and use their share."""
        if self.blend is None or self.effect_share is None:
            return self
        effects = fit_panel_effects(plan.seasons, data.panel, data.scaler.scale, data.start_step)
        effects = effects.scaled(self.effect_share)
        return replace(self, blend=replace(self.blend, effects=effects if effects.any() else None))


def mix(
    plan: Plan,
    network: ForecastNet,
    judges: TrainingData,
    tuned: PretrainedNet | None,
    *,
    learn: bool = True,
) -> tuple[Plan, Mixture]:
    """Mix and calibrate the forecasts of the ``judges``; return the plan that tells how, too.

    If ``learn`` is False, the pretrained network forecasts alone, and nothing is calibrated.
    """
    if not plan.mixes:
        return plan, Mixture(shifts=calibrate(plan, network, judges, learn=learn))
    counted = are_counts(judges.panel)
    means = plan.point == "mean" or bool(plan.quantiles and counted.any())
    untrained = Untrained.learn(plan, judges.panel, judges.device, tuned, means=means)
    rehearsal, effect_share, told = rehearse(untrained, judges, learn=learn)
    plan, blend = make_blend(
        replace(plan, covariates=told), untrained, network, judges.panel.n_series,
        judges.training, rehearsal,
    )  # fmt: skip
    shifts = calibrate(plan, network, judges, blend, rehearsal, learn=learn)
    if rehearsal and shifts is not None and untrained.mean_prior is not None and counted.any():
        plan, blend, shifts = weigh_counts(
            plan, blend, shifts, network, rehearsal, untrained, counted
        )
    return plan, Mixture(blend, shifts, effect_share)


def rehearse(
    untrained: Untrained, judges: TrainingData, *, learn: bool
) -> tuple[Rehearsal | None, Float[Tensor, "series"] | None, Mapping[str, float]]:
    """Try the forecasts that need no training, where there are windows.

    Also returns the share of the effects of covariates, and what to tell of it.
    """
    scaler, start_step = judges.scaler, judges.start_step
    if judges.windows and judges.validation is not None:
        made = Rehearsal.make(
            untrained, judges.panel, judges.windows, judges.validation, scaler, start_step
        )
        return made, made.effect_share, made.covariates
    if learn:
        return None, None, {}
    return None, *try_zero_shot(untrained, judges.panel, scaler.scale, start_step)


def calibrate(
    plan: Plan,
    network: ForecastNet,
    judges: TrainingData,
    blend: Blend | None = None,
    rehearsal: Rehearsal | None = None,
    *,
    learn: bool,
) -> Tensor | None:
    """Return the conformal shifts of the quantiles; None if there are none, or nothing to learn."""
    if not plan.quantiles or not learn:
        return None
    return conformal_shifts(
        plan, judges.scaler, network, blend, rehearsal, judges.validation, judges.start_step
    )
