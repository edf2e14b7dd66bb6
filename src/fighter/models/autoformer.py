"""Autoformer (Wu et al., 2021) as a forecaster: their Eq. 2 around the blocks of Eq. 3 and 4.

Where the blocks differ from theirs on purpose is said in :mod:`fighter.models.autoformer`. Around them:
steps are embedded by a linear map with learned positions (theirs have none), the look-back is
decomposed whole before its last steps are taken, as in their code, so that only its two ends are
filled in, and the calendar is told once, for the moment of the forecast.

Series decomposition and auto-correlation, after Wu et al. (2021), "Autoformer".

The moving average is their Eq. 1, the encoder block Eq. 3, the decoder block Eq. 4, the
correlation Eq. 5 and 8 and the aggregation of delays Eq. 6. On purpose otherwise:

- each window chooses its own delays, in training too, where the authors' code takes the same for
  a whole batch: windows stay independent of each other. As in that code, delays and weights are
  shared by all heads and channels, so heads make no difference;
- all delays are aggregated at once, by one product with a matrix, not by a roll each, and the
  correlation is read off the products of all pairs of steps. A transform to frequencies is less
  arithmetic, and slower at lengths that series have: it moves all columns in single precision;
- R has no factor 1/L, as in the authors' code: the softmax over delays would be close to uniform;
- of a longer sequence to look at, the last steps are taken and not the first;
- there are no biases. They are constant in time, and the decomposition takes such away.
"""

from collections.abc import Iterable
from math import log
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .._typing import Bool, Float
from ..errors import FighterError
from ..nn._checks import project
from .base import Core, Task
from .embedding import moving_average
from .seq2seq import StepEmbedding, check_padding, feed_forward, label_steps


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
    trend = _apply(averaging(x, kernel, mask), x)
    return x - trend, trend


def averaging(x: Tensor, kernel: int, mask: Tensor | None = None) -> Float[Tensor, "graphs S S"]:
    """The matrix that makes the trend of ``x``: one, or one for each padding.

    As a product with it a decomposition is one kernel, and one more for its gradient.
    """
    nodes = x.shape[1]
    kernel = min(kernel, nodes)
    kernel -= 1 - kernel % 2
    average = moving_average(_eye(x)[None], kernel)
    if mask is None:
        return average
    counts = mask.to(average.dtype)
    average = average * counts[:, None]
    return average / average.sum(-1, keepdim=True).clamp(min=0.5 / kernel) * counts[..., None]


def _eye(x: Tensor) -> Tensor:
    dtype = torch.promote_types(x.dtype, torch.float32)
    return torch.eye(x.shape[1], dtype=dtype, device=x.device)


def _apply(matrix: Tensor, x: Tensor) -> Tensor:
    """Not in half precision, in which the rows of ``matrix`` would not add up."""
    with torch.autocast(x.device.type, enabled=False):
        return torch.bmm(matrix.expand(len(x), -1, -1), x.to(matrix.dtype)).to(x.dtype)


def correlate(
    q: Float[Tensor, "batch nodes width"],
    k: Float[Tensor, "batch others width"],
    delays: Tensor | None = None,
) -> Float[Tensor, "batch delays"]:
    """R(τ) = Σₜ qₜ₊τ kₜ, the end followed by the beginning; its mean over the columns.

    At ``delays [batch, delays]``, or at all. Keys that are fewer are followed by zeros.
    """
    nodes = q.shape[1]
    if delays is None:
        delays = torch.arange(nodes, device=q.device)[None]
    pairs = k @ q.mT
    diagonals = torch.take_along_dim(pairs, _ahead(delays, k.shape[1], nodes), 2)
    return diagonals.sum(1, dtype=torch.promote_types(q.dtype, torch.float32)) / q.shape[2]


def aggregate(
    v: Float[Tensor, "batch others width"],
    delays: Tensor,
    weights: Float[Tensor, "batch delays"],
    nodes: int | None = None,
) -> Float[Tensor, "batch nodes width"]:
    """Σᵢ weightᵢ · Roll(V, τᵢ), where Roll(V, τ) at step t is V at t + τ, modulo their number.

    The sum of rolls is A V, weightᵢ on the τᵢ-th diagonal of A, at one cost for any number of
    delays ``[batch, delays]``, which are different from each other. To reach ``nodes``, values
    that are fewer are followed by zeros.
    """
    batch, steps, _ = v.shape
    nodes = nodes or steps
    ahead = _ahead(delays, nodes, nodes)
    graph = v.new_zeros(batch, nodes, nodes)
    graph.scatter_(2, ahead, weights.to(v.dtype)[:, None].expand_as(ahead))
    return graph[:, :, :steps] @ v


def _ahead(delays: Tensor, steps: int, nodes: int) -> Tensor:
    """(t + τᵢ) modulo ``nodes`` for each step t, ``[batch, steps, delays]``."""
    return (torch.arange(steps, device=delays.device)[:, None] + delays[:, None]) % nodes


def auto_correlation(
    q: Float[Tensor, "batch nodes width"],
    k: Float[Tensor, "batch others width"],
    v: Float[Tensor, "batch others width"],
    factor: float = 3.0,
) -> Float[Tensor, "batch nodes width"]:
    """The values at the ⌊factor · ln S⌋ delays of largest R, weighted by their softmax.

    Keys and values that are fewer than queries are followed by zeros.
    Read as a graph, A has one weight on each of those diagonals and its rows add up to 1.
    """
    nodes = q.shape[1]
    count = min(max(int(factor * log(nodes)), 1), nodes)
    with torch.no_grad():
        delays = correlate(q, k).topk(count).indices
    return aggregate(v, delays, correlate(q, k, delays).softmax(-1), nodes)


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
        if memory is None:
            q, k, v = project(x, self.query, self.key, self.value)
        else:
            q, (k, v) = self.query(x), project(memory[:, -x.shape[1] :], self.key, self.value)
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
        seasonal = _eye(x) - averaging(x, self.kernel, mask)
        for part in (self.attention, self.ffn):
            x = x + self.dropout(part(x))
            if mask is not None:
                x = x.masked_fill(~mask[..., None], 0)
            x = _apply(seasonal, x)
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
        average = averaging(x, self.kernel)
        seasonal = _eye(x) - average
        x1 = x + self.dropout(self.attention(x))
        s1 = _apply(seasonal, x1)
        x2 = s1 + self.dropout(self.cross(s1, memory))
        s2 = _apply(seasonal, x2)
        x3 = s2 + self.dropout(self.ffn(s2))
        # Each trend is the same mean over time, taken once of all after W, where there is less.
        trend = _apply(average, self.trend(torch.cat([x1, x2, x3], -1)))
        return _apply(seasonal, x3), trend


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


class Autoformer(Core):
    """Auto-correlation in place of attention, and a trend that grows from block to block.

    .. code-block:: text

        S, T = decompose(past), their last label steps
        M = encoder(embed(past))
        X, T′ = decoder(embed([S, horizon zeros]), M)
        forecast = X W + [T, the past's mean] + T′, its last steps

    The encoder is not told the calendar: what is the same at all steps leaves with the trend. In
    the decoder, which keeps the trend, it moves the level of the forecast.

    Args:
        task: sizes.
        width, dropout: of all blocks.
        heads: taken as by the other models; the delays are shared by all heads, so the number
            makes no difference.
        layers, decoder_layers: number of blocks.
        hidden_width: inside the feed-forward networks; ``4 * width`` unless given.
        label: known steps that the decoder begins with; half the look-back unless given.
        factor: c in the number of delays ⌊c · ln S⌋.
        kernel: steps in the moving average.
    """

    series_specific = True
    alternative = 'model="fighter" with adjacency="cosine"'

    def __init__(
        self,
        task: Task,
        width: int = 128,
        heads: int = 8,
        layers: int = 2,
        decoder_layers: int = 1,
        dropout: float = 0.1,
        hidden_width: int | None = None,
        label: int | None = None,
        factor: float = 3.0,
        kernel: int = 25,
    ):
        super().__init__()
        del heads
        hidden, out = hidden_width or 4 * width, task.series * task.outputs
        self.task, self.label, self.kernel = task, label_steps(label, task.lookback), kernel
        steps = self.label + task.horizon
        self.embed = StepEmbedding(task.series, task.lookback, width, 0)
        self.embed_decoder = StepEmbedding(task.series, steps, width, task.context)
        self.encoder = nn.Sequential(
            *(
                AutoformerBlock(
                    width, hidden_width=hidden, dropout=dropout, factor=factor, kernel=kernel
                )
                for _ in range(layers)
            ),
            SeasonalNorm(width),
        )
        self.decoder = nn.ModuleList(
            AutoformerDecoderBlock(
                width, out, hidden_width=hidden, dropout=dropout, factor=factor, kernel=kernel
            )
            for _ in range(decoder_layers)
        )
        self.norm = SeasonalNorm(width)
        self.head = nn.Linear(width, out)

    def forward(self, past: Tensor, context: Tensor | None = None) -> Tensor:
        """``[batch, lookback, series]`` to ``[batch, horizon, series, outputs]``."""
        task = self.task
        memory = self.encoder(self.embed(past))
        seasonal, trend = (part[:, -self.label :] for part in decompose(past, self.kernel))
        mean = past.mean(1, keepdim=True).expand(-1, task.horizon, -1)
        trend = torch.cat([trend, mean], 1).repeat_interleave(task.outputs, -1)
        y = self.embed_decoder(F.pad(seasonal, (0, 0, 0, task.horizon)), context)
        for block in cast(Iterable[AutoformerDecoderBlock], self.decoder):
            y, more = block(y, memory)
            trend = trend + more
        y = (self.head(self.norm(y)) + trend)[:, -task.horizon :]
        return y.unflatten(-1, (task.series, task.outputs))
