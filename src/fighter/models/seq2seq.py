"""An encoder and a decoder over time steps: the Transformer as long-horizon forecasting uses it.

After Vaswani et al. (2017), "Attention Is All You Need": scaled dot-product attention (their
Eq. 1) in several heads (section 3.2.2), the feed-forward network (Eq. 2), and a decoder block with
attention over itself and then over the encoder's output. The decoder forecasts all steps in one
pass, after Zhou et al. (2021), Eq. 6.

Where this departs from the papers:

- LayerNorm comes before each part and not after the sum, as is usual today, and σ is GELU;
- keys and values have no bias: softmax cancels a key bias, and because rows of A sum to 1, a value
  bias equals one in O;
- there is no dropout on A, which stays row-stochastic;
- positions are learned, and a step is embedded by a linear map, not by a convolution over three;
- calendar features are given once, for the moment of the forecast, and not for every step.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .._typing import Bool, Float
from ..errors import FighterError
from ..hops import Hop, attention_hop
from ..nn._checks import Heads, Nodes, check_heads, check_padding, join_heads, split_heads
from ..nn.further import further_hops
from ..nn.transformer import project
from .base import Context, Core, HopConfig, Outputs, Past, Task
from .embedding import Windows, add_context, context_map, feed_forward

Modules = Iterable[nn.Module]
Memory = Float[Tensor, "batch others width"]
Keys = Float[Tensor, "batch heads others head_width"]
Padding = Bool[Tensor, "batch others"] | None


def full_hop(q: Heads, k: Heads, mask: Padding = None, causal: bool = False) -> Hop:
    """Return b ↦ softmax(QKᵀ/√d) b, for b as wide as a query."""
    return attention_hop(q, k, width=q.shape[-1], mask=mask, causal=causal)


def full_attention(q: Heads, k: Keys, v: Keys, mask: Padding = None, causal: bool = False) -> Heads:
    """Return softmax(QKᵀ/√d) V; ``causal`` is for attention of a sequence over itself."""
    if q.shape == k.shape:
        return attention_hop(q, k, width=v.shape[-1], mask=mask, causal=causal)(v)
    mask = None if mask is None else mask[:, None, None]
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


class Attention(nn.Module):
    """concat over heads( A M W_V ) O + b, A from X W_Q + b_Q and M W_K, M another sequence or X.

    ``hop`` is a function of ``(q, k, mask, causal)``, or a module, that returns the function
    b ↦ A b for M = X. With κ above 2, A X W_V + A² X W₂ + … + A^(κ-1) X W_(κ-1) stands for it.
    """

    def __init__(self, width: int, heads: int, hop: Callable[..., Hop] = full_hop, kappa: int = 2):
        super().__init__()
        check_heads(width, heads)
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key, self.value = (nn.Linear(width, width, bias=False) for _ in range(2))
        self.out = nn.Linear(width, width)
        self.hop = hop
        self.hops = further_hops(width, width, kappa, heads)

    def forward(
        self, x: Nodes, memory: Memory | None = None, mask: Padding = None, causal: bool = False
    ) -> Nodes:
        """Attend to ``memory``, or to ``x`` itself; ``mask`` is the padding of that sequence."""
        if memory is not None:
            parts = (self.query(x), *project(memory, self.key, self.value))
            q, k, v = (split_heads(part, self.heads) for part in parts)
            return self.out(join_heads(full_attention(q, k, v, mask, causal)))
        parts = project(x, self.query, self.key, self.value)
        q, k, v = (split_heads(part, self.heads) for part in parts)
        hop = self.hop(q, k, mask, causal)
        y = hop(v) if self.hops is None else self.hops(hop, x, v)
        return self.out(join_heads(y))


class EncoderBlock(nn.Module):
    """X ← X + attention(norm(X)), X ← X + FFN(norm(X)), with dropout of each before it is added.

    ``extra`` are further options of its :class:`Attention`.
    """

    def __init__(self, width: int, *, heads: int, hidden_width: int, dropout: float, **extra: Any):
        super().__init__()
        self.width = width
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads, **extra)
        self.ffn = feed_forward(width, hidden_width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Nodes:
        """Map ``[batch, nodes, width]`` to the same shape; ``mask`` is key padding."""
        x = check_padding(x, self.width, mask)
        x = x + self.dropout(self.attention(self.norm1(x), mask=mask))
        return x + self.dropout(self.ffn(self.norm2(x)))


class DecoderBlock(nn.Module):
    """X ← X + causal attention(norm(X)), X ← X + attention(norm(X), M), X ← X + FFN(norm(X)).

    M is the output of the encoder, which is attended to in full. ``extra`` are further options of
    its :class:`Attention` over itself.
    """

    def __init__(self, width: int, *, heads: int, hidden_width: int, dropout: float, **extra: Any):
        super().__init__()
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(width) for _ in range(3))
        self.attention = Attention(width, heads, **extra)
        self.cross = Attention(width, heads)
        self.ffn = feed_forward(width, hidden_width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Nodes, memory: Memory) -> Nodes:
        """Decode ``x`` given the encoder's output."""
        x = x + self.dropout(self.attention(self.norm1(x), causal=True))
        x = x + self.dropout(self.cross(self.norm2(x), memory))
        return x + self.dropout(self.ffn(self.norm3(x)))


class StepEmbedding(nn.Module):
    """All series of a step as one vector, with its position and the calendar features."""

    def __init__(self, series: int, steps: int, width: int, context: int):
        super().__init__()
        self.values = nn.Linear(series, width, bias=False)  # a bias would be part of the positions
        self.position = nn.Parameter(0.02 * torch.randn(steps, width))
        self.context = context_map(context, width)

    def forward(self, x: Windows, context: Context | None = None) -> Nodes:
        """Embed the steps."""
        return add_context(self.values(x) + self.position, self.context, context)


def label_steps(label: int | None, lookback: int) -> int:
    """Return how many known steps the decoder begins with."""
    if label is not None and label > lookback:
        reason = f"needs a whole number from 1 to the look-back {lookback}"
        raise FighterError(reason, argument="label", value=label)
    return label or max(lookback // 2, 1)


@dataclass(frozen=True, kw_only=True)
class EncoderDecoderConfig(HopConfig):
    """Options that networks with an encoder and a decoder share.

    Args:
        decoder_layers: number of decoder blocks (default: 1).
        label: known steps that the decoder begins with (default: half the look-back).
    """

    decoder_layers: int = 1
    label: int | None = None


class EncoderDecoder(Core):
    """The network of :class:`Seq2Seq` and Informer, which differ in their blocks.

    .. code-block:: text

        M = encoder(embed(past))
        forecast = decoder(embed([last label steps of the past, horizon zeros]), M), its last steps

    ``encoder`` are modules of ``x``, ``decoder`` modules of ``x`` and the encoder's output.
    """

    series_specific = True

    def __init__(
        self, task: Task, config: EncoderDecoderConfig, encoder: Modules, decoder: Modules
    ):
        super().__init__(task, config)
        width, self.label = config.width, label_steps(config.label, task.lookback)
        steps = self.label + task.horizon
        self.embed = StepEmbedding(task.series, task.lookback, width, task.context)
        self.embed_decoder = StepEmbedding(task.series, steps, width, task.context)
        self.encoder = nn.Sequential(*encoder, nn.LayerNorm(width))
        self.decoder = nn.ModuleList(decoder)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, task.series * task.outputs)

    def forward(self, past: Past, context: Context | None = None) -> Outputs:
        """Forecast."""
        horizon = self.task.horizon
        memory = self.encoder(self.embed(past, context))
        y = self.embed_decoder(F.pad(past[:, -self.label :], (0, 0, 0, horizon)), context)
        for block in self.decoder:
            y = block(y, memory)
        y = self.head(self.norm(y[:, -horizon:]))
        return y.unflatten(-1, (self.task.series, self.task.outputs))


class Seq2SeqNet(EncoderDecoder):
    """An encoder and a decoder with full attention."""

    def __init__(self, task: Task, config: "Seq2Seq"):
        width, block = config.width, config.block
        encoder = [EncoderBlock(width, **block) for _ in range(config.layers)]
        decoder = [DecoderBlock(width, **block) for _ in range(config.decoder_layers)]
        super().__init__(task, config, encoder, decoder)


@dataclass(frozen=True, kw_only=True)
class Seq2Seq(EncoderDecoderConfig):
    """Transformer with an encoder and a decoder (Vaswani et al., 2017)."""

    name, column, network = "seq2seq", "Seq2Seq", Seq2SeqNet
