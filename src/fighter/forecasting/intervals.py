"""Calibrate the intervals of a fitted model: validation windows, and every row for smoothing."""

from dataclasses import replace
from math import ceil

import torch
from torch import Tensor

from ..data import Panel, Windows
from ..errors import warn_user
from ..models import ForecastNet
from ..training.calibration import FEW_WINDOWS, calibrate, sample_windows
from .autoconfig import Plan
from .blend import Blend, mixed_forecasts, recent
from .preprocessing import Preprocessing


def conformal_shifts(
    plan: Plan,
    panel: Panel,
    preprocessing: Preprocessing,
    network: ForecastNet,
    blend: Blend | None,
    windows: Windows | None,
    validation: Windows | None,
) -> Tensor | None:
    """Compute the conformal shifts of the quantiles.

    Every window of the table tests the forecast of smoothing, which learns nothing from later
    rows; only validation windows test the network.
    """
    scaler, start_step = preprocessing.scaler, preprocessing.start_step(panel)

    def shifts_on(sample: Windows, blend: Blend | None) -> tuple[Tensor, int]:
        sample, smoothed = sample_windows(sample, plan.quantiles), None
        if blend is not None:
            rows = sample.starts.cpu() + sample.lookback
            smoothed = blend.smooth(panel, plan.horizon, rows)
        made = mixed_forecasts(network, sample, start_step, scaler, blend, smoothed)
        return calibrate(made, plan.quantiles)

    prior = shifts = None
    scores = 0
    if blend is not None and windows is not None and len(windows):
        alone = replace(blend, share=torch.zeros_like(blend.share))
        shifts, scores = prior, _ = shifts_on(recent(windows), alone)
    if validation is not None and len(validation) and (blend is None or blend.share.any()):
        shifts, scores = shifts_on(recent(validation), blend)
        if blend is not None:  # these windows chose the shares, so they look too easy
            inward = shifts * torch.tensor([q - 0.5 for q in plan.quantiles]) < 0
            shifts = torch.where(inward, shifts / 2, shifts)
        if prior is not None:
            trust = len(validation) / (len(validation) + FEW_WINDOWS)
            shifts = trust * shifts + (1 - trust) * prior
    warn_if_uncertain(plan.quantiles, scores)
    return shifts


def warn_if_uncertain(quantiles: tuple[float, ...], scores: int) -> None:
    """Warn about quantiles that lie beyond all errors that were seen."""
    beyond = [q for q in quantiles if min(q, 1 - q) * (scores + 1) < 1 - 1e-9]
    if beyond:
        level = 100 - 200 * min(min(q, 1 - q) for q in beyond)
        warn_user(
            f"the {level:g} % interval cannot be calibrated: it rests on {scores} errors, and "
            f"needs at least {ceil(200 / (100 - level) - 1e-9) - 1}. It may be too narrow."
        )
