"""Losses of a batch, each as a sum and the number of its terms."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from .._typing import Bool, Float
from ..data.bounds import straight_through_clamp
from ..errors import FighterError

Loss = Callable[..., tuple[Tensor, Tensor]]
Objective = Callable[[nn.Module, Any], tuple[Tensor, Tensor]]
"""Training objective: maps (network, batch) to (summed loss, number of terms)."""

POINT = {"mae": torch.abs, "mse": torch.square}


def make_loss(point: str, quantiles: Sequence[float], discount: float = 0.0) -> Loss:
    """Make the loss of a forecast: point loss of output 0, pinball loss of the others, averaged.

    The loss takes the forecast, the target, where the target is observed, weights of the series
    (then the number of terms is their sum), and lower bounds of targets that are not known exactly,
    NaN for the others. A forecast above a lower bound has no error.

    Args:
        point: loss of the point forecast, "mae" or "mse".
        quantiles: levels of the other outputs. Their pinball loss is doubled, so that it equals the
            absolute error at level 0.5.
        discount: step h of the horizon has a weight proportional to 1 / (1 + discount (h - 1)); the
            mean weight is 1 (default: 0, equal weights).
    """
    if point not in POINT:
        raise FighterError(f"needs one of {', '.join(POINT)}", argument="loss", value=point)
    levels = torch.tensor(quantiles, dtype=torch.float32)

    def loss(
        forecast: Float[Tensor, "*members batch horizon series outputs"],
        target: Float[Tensor, "batch horizon series"],
        observed: Bool[Tensor, "batch horizon series"] | None,
        weights: Float[Tensor, "series"] | None = None,
        at_least: Float[Tensor, "batch horizon series"] | None = None,
    ) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        error = target[..., None] - forecast
        if at_least is not None:  # a forecast above a lower bound may be right
            short = (at_least.nan_to_num()[..., None] - forecast).clamp(min=0)
            error = torch.where(at_least.isnan()[..., None], error, short)
        parts = POINT[point](error[..., :1])
        if len(quantiles):
            nonlocal levels
            levels, rest = levels.to(error), error[..., 1:]  # moved once, not at every step
            pinball = torch.maximum(levels * rest, (levels - 1) * rest)
            parts = torch.cat([parts, 2 * pinball], -1)
        total = parts.mean(-1)
        if discount:
            steps = 1 / (1 + discount * torch.arange(total.shape[-2], device=total.device))
            total = total * (steps / steps.mean())[:, None]
        counted = observed
        if weights is not None:
            counted = weights if observed is None else weights * observed
        if counted is None:
            return total.sum(), total.new_full((), total.numel())
        return (total * counted).sum(), counted.expand_as(total).sum().to(total.dtype)

    return loss


def forecast_objective(
    point: str,
    quantiles: Sequence[float],
    start_step: int = 0,
    discount: float = 0.0,
    *,
    per_member: bool = False,
) -> Objective:
    """Make the objective of a forecasting network from :func:`make_loss`.

    ``start_step`` is the step of the windows' first row on the training time axis. ``per_member``
    averages the losses of the network's members instead of taking the loss of their mean, so that
    each member learns to forecast by itself.
    """
    loss = make_loss(point, quantiles, discount)

    def objective(network: nn.Module, batch: Any) -> tuple[Tensor, Tensor]:
        forecast = network(batch, batch.start + start_step, per_member).float()
        forecast = straight_through_clamp(forecast, batch)
        return loss(forecast, batch.future, batch.future_observed, batch.weights, batch.at_least)

    return objective
