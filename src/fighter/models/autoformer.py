"""Autoformer (Wu et al., 2021): series decomposition and auto-correlation in place of attention.

The moving average is their Eq. 1, the network Eq. 2, the encoder block Eq. 3, the decoder block
Eq. 4, the correlation Eq. 5 and 8 and the aggregation of delays Eq. 6.

Where this departs from the paper:

- each window chooses its own delays, in training too, where the authors' code uses the same for a
  whole batch, so that windows stay independent of each other. As in that code, delays and weights
  are shared by all heads and channels, so the number of heads makes no difference;
- all delays are aggregated at once, by one product with a matrix, not by one roll each, and the
  correlation is computed from the products of all pairs of steps. A Fourier transform needs less
  arithmetic but is slower at the usual lengths: it moves all columns in single precision;
- R has no factor 1/L, as in the authors' code: the softmax over delays would be close to uniform;
- if the sequence attended to is longer, its last steps are used, not its first;
- there are no biases: they are constant in time, and the decomposition removes constants;
- steps are embedded by a linear map with learned positions (theirs have none);
- the whole look-back is decomposed before its last steps are taken, as in the authors' code, so
  that only its two ends are extended;
- calendar features are given once, for the moment of the forecast, and to the decoder only: in the
  encoder, anything that is the same at all steps would be removed with the trend.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import log
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .._typing import Bool, Float, Int
from ..errors import check_count
from ..nn._checks import Nodes, check_padding
from ..nn.further import further_hops
from ..nn.transformer import project
from .base import Context, Core, Outputs, Past, Task, check_factor
from .embedding import feed_forward, moving_average
from .seq2seq import EncoderDecoderConfig, Memory, StepEmbedding, label_steps

Padding = Bool[Tensor, "batch nodes"] | None
Graphs = Float[Tensor, "#batch nodes nodes"]
Delays = Int[Tensor, "#batch delays"]
Trend = Float[Tensor, "batch nodes trend_width"]


def decompose(x: Nodes, kernel: int, mask: Padding = None) -> tuple[Nodes, Nodes]:
    """Split X into seasonal + trend, where the trend is the mean over ``kernel`` steps around each.

    The first and the last value are repeated beyond the ends; a kernel that is even, or longer than
    the sequence, is reduced to the next odd one that fits. Padding, where ``x`` must be zero, does
    not enter the mean and is zero in both parts.
    """
    trend = _apply(averaging(x, kernel, mask), x)
    return x - trend, trend


def averaging(x: Nodes, kernel: int, mask: Padding = None) -> Graphs:
    """Return the matrix that maps ``x`` to its trend, with a mask one matrix per window."""
    kernel = min(kernel, x.shape[1])
    kernel -= 1 - kernel % 2
    average = moving_average(_eye(x)[None], kernel)
    if mask is None:
        return average
    counts = mask.to(average.dtype)
    average = average * counts[:, None]
    return average / average.sum(-1, keepdim=True).clamp(min=0.5 / kernel) * counts[..., None]


def _eye(x: Nodes) -> Float[Tensor, "nodes nodes"]:
    dtype = torch.promote_types(x.dtype, torch.float32)
    return torch.eye(x.shape[1], dtype=dtype, device=x.device)


def _apply(matrix: Graphs, x: Nodes) -> Nodes:
    """Multiply, but not in half precision, where the rows of ``matrix`` would not sum to 1."""
    with torch.autocast(x.device.type, enabled=False):
        return torch.bmm(matrix.expand(x.shape[0], -1, -1), x.to(matrix.dtype)).to(x.dtype)


def correlate(q: Nodes, k: Memory, delays: Delays | None = None) -> Float[Tensor, "batch _"]:
    """Return R(τ) = Σₜ qₜ₊τ kₜ, averaged over the columns, at the delays or at all.

    The end is followed by the beginning. Zeros are appended to keys that are fewer than queries.
    """
    nodes = q.shape[1]
    if delays is None:
        delays = torch.arange(nodes, device=q.device)[None]
    pairs = k @ q.mT
    ahead = _ahead(delays, k.shape[1], nodes)
    diagonals = pairs.gather(2, ahead.expand(pairs.shape[0], -1, -1))
    return diagonals.sum(1, dtype=torch.promote_types(q.dtype, torch.float32)) / q.shape[2]


def aggregate(
    v: Memory, delays: Delays, weights: Float[Tensor, "batch delays"], nodes: int | None = None
) -> Nodes:
    """Return Σᵢ weightᵢ · Roll(V, τᵢ), where Roll(V, τ) at step t is V at t + τ, modulo the length.

    The sum of rolls is A V with weightᵢ on the τᵢ-th diagonal of A, which costs the same for any
    number of delays; the delays must differ. Zeros are appended to values that are fewer than
    ``nodes`` (default: the number of values).
    """
    batch, steps, _ = v.shape
    nodes = nodes or steps
    ahead = _ahead(delays, nodes, nodes)
    graph = v.new_zeros(batch, nodes, nodes)
    graph.scatter_(2, ahead, weights.to(v.dtype)[:, None].expand_as(ahead))
    return graph[:, :, :steps] @ v


def _ahead(delays: Delays, steps: int, nodes: int) -> Int[Tensor, "#batch {steps} delays"]:
    """Return (t + τᵢ) modulo ``nodes`` for each step t."""
    return (torch.arange(steps, device=delays.device)[:, None] + delays[:, None]) % nodes


def choose_delays(
    q: Nodes, k: Memory, factor: float
) -> tuple[Delays, Float[Tensor, "batch delays"]]:
    """Return the ⌊factor · ln S⌋ delays of largest R, and the softmax of their R.

    Zeros are appended to keys that are fewer than queries. Read as a graph, the A of
    :func:`aggregate` has one weight on each of those diagonals, and its rows sum to 1.
    """
    nodes = q.shape[1]
    count = min(max(int(factor * log(nodes)), 1), nodes)
    with torch.no_grad():
        delays = correlate(q, k).topk(count).indices
    return delays, correlate(q, k, delays).softmax(-1)


class AutoCorrelation(nn.Module):
    """auto-correlation(X W_Q, M W_K, M W_V) O, M another sequence or X.

    M is brought to the length of X: its last steps if it is longer, zeros appended if shorter. With
    κ above 2, A X W_V + A² X W₂ + … + A^(κ-1) X W_(κ-1) stands for A X W_V, where M is X.
    """

    def __init__(self, width: int, factor: float = 3.0, kappa: int = 2):
        super().__init__()
        self.factor = check_factor(factor)
        maps = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.query, self.key, self.value, self.out = maps
        self.hops = further_hops(width, width, kappa)

    def forward(self, x: Nodes, memory: Memory | None = None) -> Nodes:
        """Attend to ``memory``, or to ``x`` itself."""
        if memory is None:
            q, k, v = project(x, self.query, self.key, self.value)
        else:
            q, (k, v) = self.query(x), project(memory[:, -x.shape[1] :], self.key, self.value)
        delays, weights = choose_delays(q, k, self.factor)

        def hop(b: Memory) -> Nodes:
            return aggregate(b, delays, weights, x.shape[1])

        further = self.hops if memory is None else None
        return self.out(hop(v) if further is None else further(hop, x, v))


class AutoformerBlock(nn.Module):
    """The seasonal part of X + auto-correlation(X), then that of X + FFN(X).

    Padding is zero throughout. A sequence is circular together with its padding, so the result
    depends on the length with padding. There is dropout of each of the two before it is added.
    ``heads`` is accepted so that blocks can be exchanged; all heads would share their delays.
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
        kappa: int = 2,
    ):
        super().__init__()
        del heads
        self.width, self.kernel = width, check_count("kernel", kernel)
        self.attention = AutoCorrelation(width, factor, kappa)
        self.ffn = feed_forward(width, hidden_width, bias=False)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Nodes:
        """Map ``[batch, nodes, width]`` to the same shape; ``mask`` is key padding."""
        x = check_padding(x, self.width, mask)
        seasonal = _eye(x) - averaging(x, self.kernel, mask)
        for part in (self.attention, self.ffn):
            x = x + self.dropout(part(x))
            if mask is not None:
                x = x.masked_fill(~mask[..., None], 0)
            x = _apply(seasonal, x)
        return x


class AutoformerDecoderBlock(nn.Module):
    """Three steps that each split off a trend, whose sum is added to the trend of the forecast.

    .. code-block:: text

        S₁, T₁ = decompose(X + auto-correlation(X))
        S₂, T₂ = decompose(S₁ + auto-correlation(S₁, M))       M: output of the encoder
        S₃, T₃ = decompose(S₂ + FFN(S₂))
        result: S₃, T₁ W₁ + T₂ W₂ + T₃ W₃
    """

    def __init__(
        self,
        width: int,
        trend_width: int,
        *,
        heads: int = 1,
        hidden_width: int,
        dropout: float,
        factor: float = 3.0,
        kernel: int = 25,
        kappa: int = 2,
    ):
        super().__init__()
        del heads
        self.kernel = check_count("kernel", kernel)
        self.attention = AutoCorrelation(width, factor, kappa)
        self.cross = AutoCorrelation(width, factor)
        self.ffn = feed_forward(width, hidden_width, bias=False)
        self.trend = nn.Linear(3 * width, trend_width, bias=False)  # [W₁ | W₂ | W₃]
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Nodes, memory: Memory) -> tuple[Nodes, Trend]:
        """Return the seasonal part and the addition to the trend."""
        average = averaging(x, self.kernel)
        seasonal = _eye(x) - average
        x1 = x + self.dropout(self.attention(x))
        s1 = _apply(seasonal, x1)
        x2 = s1 + self.dropout(self.cross(s1, memory))
        s2 = _apply(seasonal, x2)
        x3 = s2 + self.dropout(self.ffn(s2))
        # All trends have the same mean over time, applied once after W, where columns are fewer.
        trend = _apply(average, self.trend(torch.cat([x1, x2, x3], -1)))
        return _apply(seasonal, x3), trend


class SeasonalNorm(nn.Module):
    """LayerNorm minus its mean over time, with which the authors' code ends a stack of blocks."""

    def __init__(self, width: int):
        super().__init__()
        self.norm = nn.LayerNorm(width, bias=False)

    def forward(self, x: Nodes) -> Nodes:
        """Normalise."""
        x = self.norm(x)
        return x - x.mean(1, keepdim=True)


class AutoformerNet(Core):
    """Auto-correlation in place of attention, and a trend that grows from block to block.

    .. code-block:: text

        S, T = decompose(past), their last label steps
        M = encoder(embed(past))
        X, T′ = decoder(embed([S, horizon zeros]), M)
        forecast = X W + [T, the past's mean] + T′, its last steps
    """

    series_specific = True

    def __init__(self, task: Task, config: "Autoformer"):
        super().__init__(task, config)
        width, out = config.width, task.series * task.outputs
        block: dict[str, Any] = {**config.block, "factor": config.factor, "kernel": config.kernel}
        self.label, self.kernel = label_steps(config.label, task.lookback), config.kernel
        steps = self.label + task.horizon
        self.embed = StepEmbedding(task.series, task.lookback, width, 0)
        self.embed_decoder = StepEmbedding(task.series, steps, width, task.context)
        blocks = (AutoformerBlock(width, **block) for _ in range(config.layers))
        self.encoder = nn.Sequential(*blocks, SeasonalNorm(width))
        self.decoder = nn.ModuleList(
            AutoformerDecoderBlock(width, out, **block) for _ in range(config.decoder_layers)
        )
        self.norm = SeasonalNorm(width)
        self.head = nn.Linear(width, out)

    def forward(self, past: Past, context: Context | None = None) -> Outputs:
        """Forecast."""
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


@dataclass(frozen=True, kw_only=True)
class Autoformer(EncoderDecoderConfig):
    """Autoformer (Wu et al., 2021): auto-correlation and decomposition; ignores the heads.

    Args:
        factor: c in the number of delays ⌊c · ln S⌋ (default: 3.0).
        kernel: steps in the moving average (default: 25).
    """

    name, column, network = "autoformer", "Autoformer", AutoformerNet
    heads_share_width = False

    factor: float = 3.0
    kernel: int = 25
