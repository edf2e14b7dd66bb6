"""What the pretrained network learns by: quantile loss beside the error of simple forecasts."""

import torch
from torch import Tensor

from .._typing import Bool, Float, Int
from .pretrained import PATCH, QUANTILES, PretrainedNet, Series, lagged

TARGET = 6.0  # largest target, in the units of z
EASIEST = 0.02  # added to the error of simple forecasts, in the units of z


def relative_losses(
    network: PretrainedNet,
    past: Series,
    observed: Bool[Tensor, "batch series time"],
    future: Float[Tensor, "batch series steps"],
    scored: Bool[Tensor, "batch series steps"],
    seasons: Int[Tensor, "batch 2"],
    links: Bool[Tensor, "batch"] | None = None,
) -> Float[Tensor, "batch series"]:
    """Return the quantile loss of each series, in multiples of the error of a simple forecast.

    Otherwise series that are easy to forecast would hardly count. A series without a step that is
    scored has 0.
    """
    z, mean, deviation = network.units(past, observed)
    y = network.inside(z, observed, seasons, future.shape[-1] // PATCH, links).float()
    target = ((future - mean) / deviation).asinh().clamp(-TARGET, TARGET)
    over = target[..., None] - y
    levels = torch.tensor(QUANTILES, device=y.device)
    cost = 2 * torch.maximum(levels * over, (levels - 1) * over).mean(-1)
    each = (cost * scored).sum(-1) / scored.sum(-1).clamp(min=1)
    return each / (simple_error(z, observed, seasons, target, scored) + EASIEST)


@torch.no_grad()
def simple_error(
    z: Series,
    observed: Bool[Tensor, "batch series time"],
    seasons: Int[Tensor, "batch 2"],
    target: Float[Tensor, "batch series steps"],
    scored: Bool[Tensor, "batch series steps"],
) -> Float[Tensor, "batch series"]:
    """Return the mean error of the last value or of the last season, the smaller one."""
    season = lagged(z, observed, seasons[:, 0], target.shape[-1])
    step = lagged(z, observed, torch.ones_like(seasons[:, 0]), target.shape[-1])
    last = step.last[..., z.shape[-1] :]
    earlier = torch.where(season.known, season.last, step.last)[..., z.shape[-1] :]
    count = scored.sum(-1).clamp(min=1)
    errors = (((target - y).abs() * scored).sum(-1) / count for y in (last, earlier))
    return torch.minimum(*errors)
