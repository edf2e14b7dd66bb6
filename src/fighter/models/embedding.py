"""Parts that forecasting networks share: window statistics, learned cycles, time embeddings."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .._typing import Bool, Float, Int
from .base import Context, Observed, Past

Statistics = Float[Tensor, "#batch 1 #series"]
Positions = Int[Tensor, "batch"]
Values = Float[Tensor, "time series"]
Windows = Float[Tensor, "batch steps series"]
Ahead = Float[Tensor, "#batch horizon #series"]
Embedded = Float[Tensor, "batch *nodes width"]


def window_statistics(past: Past, observed: Observed | None) -> tuple[Statistics, Statistics]:
    """Return mean and deviation of each window's observed values; 0 and 1 if it has none."""
    if observed is None:
        mean = past.mean(1, keepdim=True)
        return mean, ((past - mean).square().mean(1, keepdim=True) + 1e-5).sqrt()
    count = observed.sum(1, keepdim=True)
    mean = (past * observed).sum(1, keepdim=True) / count.clamp(min=1)
    square = ((past - mean).square() * observed).sum(1, keepdim=True) / count.clamp(min=1)
    return mean, torch.where(count > 0, (square + 1e-5).sqrt(), 1.0)


def moving_average(x: Windows, kernel: int) -> Windows:
    """Return the mean over ``kernel`` steps around each; the end values are repeated outwards."""
    before, after = (kernel - 1) // 2, kernel // 2
    x = x.transpose(1, 2)
    x = torch.cat([x[..., :1].expand(-1, -1, before), x, x[..., -1:].expand(-1, -1, after)], -1)
    return F.avg_pool1d(x, kernel, stride=1).transpose(1, 2)


class Cycle(nn.Module):
    """A learned profile ``[period, series]``, read by position modulo the period."""

    def __init__(self, period: int, series: int):
        super().__init__()
        self.period = period
        self.profile = nn.Parameter(torch.zeros(period, series))

    def forward(self, position: Positions, steps: int) -> Float[Tensor, "batch {steps} series"]:
        """Return the profile over ``steps`` steps from each position on."""
        index = position[:, None] + torch.arange(steps, device=position.device)
        return self.profile[index % self.period]


class Reversion(nn.Module):
    """How much of a window's level and deviation a forecast keeps, with learned r and s.

    .. code-block:: text

        level = (1 - r) · mean          scale = (1 - s) · std + s

    The network sees normalised windows, so it cannot know that a level far from the long-run mean
    seldom lasts. The series are scaled, so their long-run mean and deviation are 0 and 1. There is
    an r and an s for each step and series; they start at 0, where everything is kept.
    """

    def __init__(self, horizon: int, series: int):
        super().__init__()
        self.pull = nn.Parameter(torch.zeros(2, horizon, series))

    def forward(self, mean: Statistics, std: Statistics) -> tuple[Ahead, Ahead]:
        """Return level and scale at each step of the horizon."""
        r, s = self.pull
        return mean * (1 - r), std + s * (1 - std)


def lag_correlation(
    values: Values, observed: Bool[Tensor, "time series"] | None, lags: int
) -> Float[Tensor, "{lags}"]:
    """Return the correlation of values k = 0 … lags-1 steps apart, averaged over the series."""
    observed = torch.ones_like(values, dtype=torch.bool) if observed is None else observed
    chunks = zip(values.split(4, 1), observed.split(4, 1), strict=True)  # to save memory
    covariance = torch.cat([_lag_covariance(x, mask.to(x), lags) for x, mask in chunks], 1)
    varying = covariance[0] > 1e-12
    if not bool(varying.any()):
        return torch.eye(lags)[0].to(values)
    return (covariance[:, varying] / covariance[0, varying]).mean(1)


def _lag_covariance(values: Values, observed: Values, lags: int) -> Float[Tensor, "{lags} series"]:
    """Return the mean product of the observed pairs that are k steps apart."""
    centred = (values - (values * observed).sum(0) / observed.sum(0).clamp(min=1)) * observed
    # Zero padding, so that the end does not meet the beginning.
    size = 2 * max(len(values), lags)

    def products(x: Values) -> Float[Tensor, "_ series"]:
        power = torch.fft.rfft(x, n=size, dim=0).abs().square()
        return torch.fft.irfft(power, n=size, dim=0)[:lags]

    return products(centred) / products(observed).round().clamp(min=1)


TIE_BREAK = 1e-3  # below the sampling error of a correlation, far above rounding


def time_basis(correlation: Float[Tensor, "lags"], steps: int) -> Float[Tensor, "{steps} {steps}"]:
    """Return the eigenvectors of the lag-correlation matrix as columns, the strongest first.

    In this orthogonal basis the steps of a window are uncorrelated, so that a network can weight
    each by itself. Rounding must not choose the basis, or a shift of the values would change what
    is learned: equal eigenvalues are told apart by a small term whose spectrum 1 - θ/π falls
    linearly with the frequency θ, and each vector's sign makes its largest entry positive.
    """
    index = torch.arange(steps)
    lags = (index[:, None] - index).abs()
    spread = torch.where(lags % 2 == 1, 2 / (torch.pi * lags.clamp(min=1)) ** 2, 0.0).double()
    matrix = correlation.double().cpu()[lags] + TIE_BREAK * spread
    basis = torch.linalg.eigh(matrix).eigenvectors.flip(1)
    # The vectors are symmetric or antisymmetric in time, so that the size of every entry occurs
    # twice: later entries count more.
    position = (basis.abs() * (index + 1)[:, None]).argmax(0, keepdim=True)
    return (basis * basis.gather(0, position).sign()).to(correlation)


class TimeEmbedding(nn.Module):
    """The embedding of a whole look-back as one vector per series.

    x ↦ flatten((x Q) ⊗ e) W + b with Q the time basis and e a learned vector of ``channels``
    numbers. The map is linear in x, so e and W are multiplied first, once for all windows; the
    extra factor changes how the weights learn, not which maps they can represent.
    """

    basis: Tensor

    def __init__(self, lookback: int, width: int, channels: int = 16):
        super().__init__()
        self.register_buffer("basis", torch.eye(lookback))
        self.vector = nn.Parameter(torch.randn(channels))
        bound = (lookback * channels) ** -0.5
        self.weight = nn.Parameter(torch.empty(lookback, channels, width).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(width).uniform_(-bound, bound))

    def forward(
        self, x: Float[Tensor, "batch series lookback"]
    ) -> Float[Tensor, "batch series width"]:
        """Embed each series of each window."""
        matrix = torch.einsum("c,lcw->lw", self.vector, self.weight)
        return x @ (self.basis @ matrix) + self.bias


def feed_forward(
    width: int, hidden_width: int, out_width: int | None = None, bias: bool = True
) -> nn.Sequential:
    """Build GELU(X W₁ + b₁) W₂ + b₂."""
    first = nn.Linear(width, hidden_width, bias=bias)
    return nn.Sequential(first, nn.GELU(), nn.Linear(hidden_width, out_width or width, bias=bias))


def context_map(features: int, width: int) -> nn.Linear | None:
    """Return the map from calendar features to the width of a node; None without features."""
    return nn.Linear(features, width, bias=False) if features else None


def add_context(x: Embedded, embed: nn.Linear | None, context: Context | None) -> Embedded:
    """Add the embedded calendar features to every node, if there are any."""
    if embed is None or context is None:
        return x
    return x + embed(context).unflatten(0, (-1, *[1] * (x.ndim - 2)))
