"""Losses over a batch, as a sum and the number of terms it is over."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from .._typing import Bool, Float
from ..data.bounds import straight_through_clamp
from ..errors import FighterError

Loss = Callable[[Tensor, Tensor, Tensor | None], tuple[Tensor, Tensor]]
Objective = Callable[[nn.Module, Any], tuple[Tensor, Tensor]]
"""What is made small: a network and a batch to a sum and the number of its terms."""

POINT = {"mae": torch.abs, "mse": torch.square}


def make_loss(point: str, quantiles: Sequence[float], discount: float = 0.0) -> Loss:
    """Point loss on output 0 and pinball loss on the others, averaged over the outputs.

    The pinball loss is doubled, so that at 0.5 it is the absolute error. Step h of the horizon
    weighs as 1 / (1 + discount (h - 1)), the mean weight being 1.
    """
    if point not in POINT:
        raise FighterError(f"loss={point!r}: needs one of {', '.join(POINT)}")
    levels = torch.tensor(quantiles, dtype=torch.float32)

    def loss(
        forecast: Float[Tensor, "*members batch horizon series outputs"],
        target: Float[Tensor, "batch horizon series"],
        observed: Bool[Tensor, "batch horizon series"] | None,
    ) -> tuple[Tensor, Tensor]:
        error = target[..., None] - forecast
        parts = POINT[point](error[..., :1])
        if len(quantiles):
            nonlocal levels
            levels, rest = levels.to(error), error[..., 1:]  # moved once, not at every step
            pinball = torch.maximum(levels * rest, (levels - 1) * rest)
            parts = torch.cat([parts, 2 * pinball], -1)
        total = parts.mean(-1)
        if discount:
            weights = 1 / (1 + discount * torch.arange(total.shape[-2], device=total.device))
            total = total * (weights / weights.mean())[:, None]
        if observed is None:
            return total.sum(), total.new_full((), total.numel())
        return (total * observed).sum(), observed.expand_as(total).sum().to(total.dtype)

    return loss


def forecast_objective(
    point: str,
    quantiles: Sequence[float],
    start_step: int = 0,
    discount: float = 0.0,
    *,
    per_member: bool = False,
) -> Objective:
    """:func:`make_loss` of a forecasting network.

    ``offset`` is the place of the windows' first row on the time axis that its cycle is counted on.
    With ``apart`` it is the mean over the network's members of the loss of each, not that of their
    mean: each learns to forecast by itself, and differs from the others where none can know.
    """
    loss = make_loss(point, quantiles, discount)

    def objective(network: nn.Module, batch: Any) -> tuple[Tensor, Tensor]:
        forecast = network(batch, batch.start + start_step, per_member)
        return loss(
            straight_through_clamp(forecast.float(), batch), batch.future, batch.future_observed
        )

    return objective
