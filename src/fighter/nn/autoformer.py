"""Series decomposition and auto-correlation, after Wu et al. (2021), "Autoformer".

The moving average is their Eq. 1, the encoder block Eq. 3, the decoder block Eq. 4, the
correlation Eq. 5 and 8 and the aggregation of delays Eq. 6. On purpose otherwise:

- each window chooses its own delays, in training too, where the authors' code takes the same for
  a whole batch: windows stay independent of each other. As in that code, delays and weights are
  shared by all heads and channels, so heads make no difference;
- all delays are aggregated at once, as a convolution in frequencies, not by a roll each;
- R has no factor 1/L, as in the authors' code: the softmax over delays would be close to uniform;
- of a longer sequence to look at, the last steps are taken and not the first;
- there are no biases. They are constant in time, and the decomposition takes such away.
"""

from math import log

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import FighterError
from ..shapes import Bool, Float
from .seq2seq import check_padding, feed_forward


def decompose(
    x: Float[Tensor, "batch nodes width"],
    kernel: int,
    mask: Bool[Tensor, "batch nodes"] | None = None,
) -> tuple[Float[Tensor, "batch nodes width"], Float[Tensor, "batch nodes width"]]:
    """X = seasonal + trend, the trend a mean over ``kernel`` steps around each.

    The first and the last value stand in for what lies outside; a kernel that is even, or longer
    than the sequence, becomes the next smaller odd one that fits. Padding, where ``x`` has to be
    zero, does not enter the mean and is zero in both parts.
    """
    kernel = min(kernel, x.shape[1])
    kernel -= 1 - kernel % 2
    trend = _moving_mean(x, kernel)
    if mask is not None:
        counts = mask[..., None].to(x.dtype)
        trend = trend / _moving_mean(counts, kernel).clamp(min=0.5 / kernel) * counts
    return x - trend, trend


def _moving_mean(x: Tensor, kernel: int) -> Tensor:
    before, after = (end.expand(-1, kernel // 2, -1) for end in (x[:, :1], x[:, -1:]))
    x = torch.cat([before, x, after], 1)
    return F.avg_pool1d(x.transpose(1, 2), kernel, stride=1).transpose(1, 2)


def correlate(
    q: Float[Tensor, "batch nodes width"], k: Float[Tensor, "batch nodes width"]
) -> Float[Tensor, "batch nodes"]:
    """R(τ) = Σₜ qₜ kₜ₋τ, the end followed by the beginning; its mean over the columns.

    By Wiener and Khinchin's theorem a product in frequencies. The mean is taken there as well, so
    that one transform leads back and not one for each column.
    """
    product = torch.fft.rfft(_single(q), dim=1) * torch.fft.rfft(_single(k), dim=1).conj()
    return torch.fft.irfft(product.mean(-1), n=q.shape[1], dim=1)


def aggregate(
    v: Float[Tensor, "batch nodes width"],
    delays: Tensor,
    weights: Float[Tensor, "batch delays"],
) -> Float[Tensor, "batch nodes width"]:
    """Σᵢ weightᵢ · Roll(V, τᵢ), where Roll(V, τ) at step t is V at t + τ, modulo their number.

    The sum of rolls is V convolved with the weights, each at its delay: a product in frequencies,
    at one cost for any number of delays ``[batch, delays]``, which are different from each other.
    """
    nodes = v.shape[1]
    graph = weights.new_zeros(v.shape[0], nodes).scatter(1, delays, weights)  # a row of A
    product = torch.fft.rfft(_single(v), dim=1) * torch.fft.rfft(graph, dim=1).conj()[..., None]
    return torch.fft.irfft(product, n=nodes, dim=1).to(v.dtype)


def _single(x: Tensor) -> Tensor:
    """At least float32, which transforms need."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def auto_correlation(
    q: Float[Tensor, "batch nodes width"],
    k: Float[Tensor, "batch nodes width"],
    v: Float[Tensor, "batch nodes width"],
    factor: float = 3.0,
) -> Float[Tensor, "batch nodes width"]:
    """The values at the ⌊factor · ln S⌋ delays of largest R, weighted by their softmax.

    Read as a graph, A has one weight on each of those diagonals and its rows add up to 1.
    """
    nodes = q.shape[1]
    count = min(max(int(factor * log(nodes)), 1), nodes)
    strongest, delays = correlate(q, k).topk(count)
    return aggregate(v, delays, strongest.softmax(-1))


class AutoCorrelation(nn.Module):
    """auto-correlation(X W_Q, M W_K, M W_V) O, M another sequence or X.

    M is brought to the length of X: its last steps if it is longer, zeros after it if shorter.

    Args:
        width: width of a node, coming in and going out.
        factor: c in the number of delays ⌊c · ln S⌋.
    """

    def __init__(self, width: int, factor: float = 3.0):
        super().__init__()
        if not factor > 0:
            raise FighterError(f"factor={factor!r}: needs a number above 0, such as 3")
        self.factor = factor
        self.query, self.key, self.value, self.out = (
            nn.Linear(width, width, bias=False) for _ in range(4)
        )

    def forward(self, x: Tensor, memory: Tensor | None = None) -> Tensor:
        """``[batch, nodes, width]``."""
        nodes = x.shape[1]
        memory = x if memory is None else memory[:, -nodes:]
        memory = F.pad(memory, (0, 0, 0, nodes - memory.shape[1]))
        q, k, v = self.query(x), self.key(memory), self.value(memory)
        return self.out(auto_correlation(q, k, v, self.factor))


class AutoformerBlock(nn.Module):
    """The seasonal part of X + auto-correlation(X), then that of X + FFN(X).

    Padding is zero throughout. The sequence goes round with its padding, so its length with the
    padding, which delays are counted in, is part of the result.

    Args:
        width: width of a node, coming in and going out.
        heads: taken so that blocks can be exchanged. All heads share their delays, so the number
            makes no difference.
        hidden_width: inside the feed-forward network.
        dropout: on each of the two before it is added.
        factor: as in :class:`AutoCorrelation`.
        kernel: steps in the moving average.
    """

    def __init__(
        self,
        width: int,
        *,
        heads: int = 1,
        hidden_width: int,
        dropout: float,
        factor: float = 3.0,
        kernel: int = 25,
    ):
        super().__init__()
        del heads
        self.width, self.kernel = width, check_kernel(kernel)
        self.attention = AutoCorrelation(width, factor)
        self.ffn = feed_forward(width, hidden_width, bias=False)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """``[batch, nodes, width]``; ``mask`` is padding, bool ``[batch, nodes]``."""
        x = check_padding(x, self.width, mask)
        for part in (self.attention, self.ffn):
            x = x + self.dropout(part(x))
            if mask is not None:
                x = x.masked_fill(~mask[..., None], 0)
            x, _ = decompose(x, self.kernel, mask)
        return x


class AutoformerDecoderBlock(nn.Module):
    """The seasonal part after each of three, and what the three trends add to the forecast's.

    .. code-block:: text

        S₁, T₁ = decompose(X + auto-correlation(X))
        S₂, T₂ = decompose(S₁ + auto-correlation(S₁, M))       M: what the encoder made
        S₃, T₃ = decompose(S₂ + FFN(S₂))
        result: S₃, T₁ W₁ + T₂ W₂ + T₃ W₃

    Args:
        width, hidden_width, dropout, factor, kernel: as in :class:`AutoformerBlock`.
        trend_width: width of the trend.
    """

    def __init__(
        self,
        width: int,
        trend_width: int,
        *,
        hidden_width: int,
        dropout: float,
        factor: float = 3.0,
        kernel: int = 25,
    ):
        super().__init__()
        self.kernel = check_kernel(kernel)
        self.attention, self.cross = (AutoCorrelation(width, factor) for _ in range(2))
        self.ffn = feed_forward(width, hidden_width, bias=False)
        self.trend = nn.Linear(3 * width, trend_width, bias=False)  # [W₁ | W₂ | W₃]
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """``[batch, nodes, width]`` and ``[batch, nodes, trend_width]``."""
        x, trend1 = decompose(x + self.dropout(self.attention(x)), self.kernel)
        x, trend2 = decompose(x + self.dropout(self.cross(x, memory)), self.kernel)
        x, trend3 = decompose(x + self.dropout(self.ffn(x)), self.kernel)
        return x, self.trend(torch.cat([trend1, trend2, trend3], -1))


class SeasonalNorm(nn.Module):
    """LayerNorm, less its mean over time: what the authors' code ends a stack of blocks with."""

    def __init__(self, width: int):
        super().__init__()
        self.norm = nn.LayerNorm(width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """``[batch, nodes, width]``."""
        x = self.norm(x)
        return x - x.mean(1, keepdim=True)


def check_kernel(kernel: int) -> int:
    """A moving average is over one step at least."""
    if isinstance(kernel, bool) or not isinstance(kernel, int) or kernel < 1:
        raise FighterError(f"kernel={kernel!r}: needs a whole number of steps ≥ 1, such as 25")
    return kernel
