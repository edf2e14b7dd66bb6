"""Other things to train a forecaster for than its own loss; that one still chooses the epoch."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch
from torch import Tensor, nn

from ..data.windows import Batch
from ..training.losses import Objective


def decayed_loss(offset: int) -> Objective:
    """Absolute error, step h weighted by 1/√h, as in CARD (Wang et al., 2024)."""

    def weigh(error: Tensor) -> Tensor:
        steps = torch.arange(1, error.shape[1] + 1, device=error.device)
        weights = steps.to(error).rsqrt()
        return error.abs() * (weights / weights.mean())[:, None]

    return _loss(weigh, offset)


def spectral_loss(offset: int) -> Objective:
    """Half the absolute error, half that of its Fourier coefficients.

    After FreDF (Wang et al., 2025): steps of a window are correlated, and coefficients hardly are,
    so that each counts for itself.
    """

    def both(error: Tensor) -> Tensor:
        coefficients = torch.fft.rfft(error, dim=1, norm="ortho").abs()
        return (error.abs() + coefficients.mean(1, keepdim=True)) / 2

    return _loss(both, offset)


def _loss(of: Callable[[Tensor], Tensor], offset: int) -> Objective:
    """The mean of a function of errors ``[batch, horizon, series]``; what was not seen has none."""

    def objective(network: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
        error = network(batch, batch.start + offset)[..., 0].float() - batch.future
        if batch.future_observed is not None:
            error = error * batch.future_observed
        parts = of(error)
        return parts.sum(), parts.new_full((), parts.numel())

    return objective


LOSSES: Mapping[str, Callable[[int], Objective]] = MappingProxyType(
    {"decayed loss": decayed_loss, "spectral loss": spectral_loss}
)
