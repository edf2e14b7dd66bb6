"""Calibrate the intervals of a fitted model: validation windows, and every row for smoothing."""

from dataclasses import replace
from math import ceil

import torch
from torch import Tensor

from ..data import Scaler, Windows
from ..errors import warn_user
from ..models import ForecastNet
from ..training.calibration import FEW_WINDOWS, calibrate, sample_windows
from .autoconfig import Plan
from .blend import Blend, mixed_forecasts
from .rehearsal import Rehearsal, recent


def conformal_shifts(
    plan: Plan,
    scaler: Scaler,
    network: ForecastNet,
    blend: Blend | None,
    rehearsal: Rehearsal | None,
    validation: Windows | None,
    start_step: int,
) -> Tensor | None:
    """Compute the conformal shifts of the quantiles.

    Without smoothing there is no rehearsal, and validation windows are all there is.
    """
    smoothed = None if rehearsal is None else rehearsal.smoothed

    def shifts_on(sample: Windows, blend: Blend | None) -> tuple[Tensor, int]:
        made = mixed_forecasts(network, sample, start_step, scaler, blend, smoothed)
        return calibrate(
            made if rehearsal is None else rehearsal.count_mature(made), plan.quantiles
        )

    prior = shifts = None
    scores = 0
    if blend is not None and rehearsal is not None:
        alone = replace(blend, share=torch.zeros_like(blend.share))
        shifts, scores = prior, _ = shifts_on(rehearsal.windows, alone)
    if validation is not None and len(validation) and (blend is None or blend.share.any()):
        if rehearsal is None:
            sample = sample_windows(recent(validation), plan.quantiles)
        else:
            sample = rehearsal.validation
        shifts, scores = shifts_on(sample, blend)
        if blend is not None:  # these windows chose the shares, so they look too easy
            inward = shifts * torch.tensor([q - 0.5 for q in plan.quantiles]) < 0
            shifts = torch.where(inward, shifts / 2, shifts)
        if prior is not None:
            trust = len(validation) / (len(validation) + FEW_WINDOWS)
            shifts = trust * shifts + (1 - trust) * prior
    warn_if_uncertain(plan.quantiles, scores)
    return shifts if blend is None or shifts is None else keep_centre(shifts, plan.quantiles)


def keep_centre(shifts: Tensor, quantiles: tuple[float, ...]) -> Tensor:
    """Reduce the shifts of quantiles near the median: at 0.1 to 0.64, at 0.4 to 0.04 of them.

    Mixed quantiles are quantiles of past errors already. What shifts add, room for few errors and
    for drift, belongs to the tails; near the median it costs more than it covers.
    """
    return shifts * torch.tensor([(2 * q - 1) ** 2 for q in quantiles]).to(shifts)


def warn_if_uncertain(quantiles: tuple[float, ...], scores: int) -> None:
    """Warn about quantiles that lie beyond all errors that were seen."""
    beyond = [q for q in quantiles if min(q, 1 - q) * (scores + 1) < 1 - 1e-9]
    if beyond:
        level = 100 - 200 * min(min(q, 1 - q) for q in beyond)
        warn_user(
            f"the {level:g} % interval cannot be calibrated: it rests on {scores} errors, and "
            f"needs at least {ceil(200 / (100 - level) - 1e-9) - 1}. It may be too narrow."
        )
