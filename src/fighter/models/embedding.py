"""What forecasting networks do to a window before and after the graph: normalise, cycle, basis."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .._typing import Bool, Float


def window_statistics(
    past: Float[Tensor, "batch lookback series"],
    observed: Bool[Tensor, "batch lookback series"] | None,
) -> tuple[Float[Tensor, "batch 1 series"], Float[Tensor, "batch 1 series"]]:
    """Mean and deviation of each window, over what was observed; 0 and 1 if nothing was."""
    if observed is None:
        mean = past.mean(1, keepdim=True)
        return mean, ((past - mean).square().mean(1, keepdim=True) + 1e-5).sqrt()
    count = observed.sum(1, keepdim=True)
    mean = (past * observed).sum(1, keepdim=True) / count.clamp(min=1)
    square = ((past - mean).square() * observed).sum(1, keepdim=True) / count.clamp(min=1)
    return mean, torch.where(count > 0, (square + 1e-5).sqrt(), 1.0)


def moving_average(
    x: Float[Tensor, "batch steps series"], kernel: int
) -> Float[Tensor, "batch steps series"]:
    """The mean over ``kernel`` steps around each; the first and last value go on at the ends."""
    before, after = (kernel - 1) // 2, kernel // 2
    x = x.transpose(1, 2)
    x = torch.cat([x[..., :1].expand(-1, -1, before), x, x[..., -1:].expand(-1, -1, after)], -1)
    return F.avg_pool1d(x, kernel, stride=1).transpose(1, 2)


class Cycle(nn.Module):
    """A learned profile ``[period, series]``: what repeats, by position modulo the period."""

    def __init__(self, period: int, series: int):
        super().__init__()
        self.period = period
        self.profile = nn.Parameter(torch.zeros(period, series))

    def forward(self, position: Tensor, steps: int) -> Float[Tensor, "batch steps series"]:
        """The profile over ``steps`` steps from each position ``[batch]`` on."""
        index = position[:, None] + torch.arange(steps, device=position.device)
        return self.profile[index % self.period]


class Reversion(nn.Module):
    """What a forecast keeps of a window's level and deviation, with r and s per step and series.

    .. code-block:: text

        level = (1 - r) · mean          scale = (1 - s) · std + s

    A network sees windows without them, and so cannot know that a level far from the usual one
    seldom stays. Of scaled series 0 and 1 are usual. It begins with r = s = 0: all is kept.
    """

    def __init__(self, horizon: int, series: int):
        super().__init__()
        self.pull = nn.Parameter(torch.zeros(2, horizon, series))

    def forward(
        self, mean: Float[Tensor, "batch 1 series"], std: Float[Tensor, "batch 1 series"]
    ) -> tuple[Float[Tensor, "batch horizon series"], Float[Tensor, "batch horizon series"]]:
        """Level and scale at each step of the horizon."""
        r, s = self.pull
        return mean * (1 - r), std + s * (1 - std)


def lag_correlation(
    values: Float[Tensor, "time series"],
    observed: Bool[Tensor, "time series"] | None,
    lags: int,
) -> Float[Tensor, "lags"]:
    """Correlation of a value with the one k steps later, k = 0 … lags-1, averaged over series."""
    seen = torch.ones_like(values, dtype=torch.bool) if observed is None else observed
    some = zip(values.split(4, 1), seen.split(4, 1), strict=True)  # few at a time, to save memory
    covariance = torch.cat([_lag_covariance(x, mask.to(x), lags) for x, mask in some], 1)
    moving = covariance[0] > 1e-12
    if not bool(moving.any()):
        return torch.eye(lags)[0].to(values)
    return (covariance[:, moving] / covariance[0, moving]).mean(1)


def _lag_covariance(values: Tensor, seen: Tensor, lags: int) -> Tensor:
    """Mean product of pairs k steps apart, over pairs that were observed. ``[lags, series]``"""
    centred = (values - (values * seen).sum(0) / seen.sum(0).clamp(min=1)) * seen
    size = 2 * len(values)  # zero padding, or the end would meet the beginning

    def products(x: Tensor) -> Tensor:
        power = torch.fft.rfft(x, n=size, dim=0).abs().square()
        return torch.fft.irfft(power, n=size, dim=0)[:lags]

    return products(centred) / products(seen).round().clamp(min=1)


def time_basis(correlation: Float[Tensor, "lags"], steps: int) -> Float[Tensor, "steps steps"]:
    """Orthogonal columns: eigenvectors of the lag-correlation matrix, the strongest first.

    In them the steps of a window are uncorrelated, so that each can be weighted by itself.
    """
    index = torch.arange(steps)
    matrix = correlation.double().cpu()[(index[:, None] - index).abs()]
    basis = torch.linalg.eigh(matrix).eigenvectors.flip(1)
    largest = basis.gather(0, basis.abs().argmax(0, keepdim=True))
    return (basis * largest.sign()).to(correlation)  # eigenvectors have no sign of their own


class TimeEmbedding(nn.Module):
    """A window ``[batch, series, lookback]`` as one vector per series.

    x ↦ flatten((x Q) ⊗ e) W + b with Q the time basis and e a learned vector of ``channels``
    numbers. It is linear in x, so e and W are multiplied first, once, and not for every window;
    the extra factor changes how the weights learn, not what they can say.
    """

    basis: Tensor

    def __init__(self, lookback: int, width: int, channels: int = 16):
        super().__init__()
        self.register_buffer("basis", torch.eye(lookback))
        self.vector = nn.Parameter(torch.randn(channels))
        bound = (lookback * channels) ** -0.5
        self.weight = nn.Parameter(torch.empty(lookback, channels, width).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(width).uniform_(-bound, bound))

    def forward(self, x: Float[Tensor, "batch series lookback"]) -> Tensor:
        """``[batch, series, width]``."""
        matrix = torch.einsum("c,lcw->lw", self.vector, self.weight)
        return x @ (self.basis @ matrix) + self.bias
