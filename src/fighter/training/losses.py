"""Losses over a batch, as a sum and the number of observed targets it is over."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ..errors import FighterError
from ..shapes import Bool, Float

Loss = Callable[[Tensor, Tensor, Tensor | None], tuple[Tensor, Tensor]]

POINT = {"mae": torch.abs, "mse": torch.square}


def make_loss(point: str, quantiles: Sequence[float]) -> Loss:
    """Point loss on output 0 and pinball loss on the others, averaged over the outputs.

    The pinball loss is doubled, so that at 0.5 it is the absolute error.
    """
    if point not in POINT:
        raise FighterError(f"loss={point!r}: needs one of {', '.join(POINT)}")
    levels = torch.tensor(quantiles)

    def loss(
        forecast: Float[Tensor, "batch horizon series outputs"],
        target: Float[Tensor, "batch horizon series"],
        observed: Bool[Tensor, "batch horizon series"] | None,
    ) -> tuple[Tensor, Tensor]:
        error = target[..., None] - forecast
        parts = POINT[point](error[..., :1])
        if len(quantiles):
            q, rest = levels.to(error), error[..., 1:]
            parts = torch.cat([parts, 2 * torch.maximum(q * rest, (q - 1) * rest)], -1)
        total = parts.mean(-1)
        if observed is None:
            return total.sum(), torch.tensor(float(total.numel()), device=total.device)
        return (total * observed).sum(), observed.sum().to(total.dtype)

    return loss
