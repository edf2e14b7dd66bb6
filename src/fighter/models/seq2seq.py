"""An encoder and a decoder over time steps: the Transformer as long-horizon forecasting uses it.

The blocks are those of Vaswani et al. (2017), see :mod:`fighter.models.seq2seq`; that the decoder
gives all steps in one pass is from Zhou et al. (2021), their Eq. 6. On purpose otherwise: positions
are learned, a step is embedded by a linear map and not by a convolution over three, and the
calendar is told once, for the moment of the forecast, and not for every step.

What encoder–decoder Transformers share: attention over one or two sequences, and their blocks.

After Vaswani et al. (2017), "Attention Is All You Need": scaled dot-product attention (their
Eq. 1) in several heads (section 3.2.2), the feed-forward network (Eq. 2), a decoder block with
attention over itself, then over the encoder's output. On purpose otherwise:

- LayerNorm comes before each part and not after the sum, as is usual today, and σ is GELU;
- keys and values have no bias. Softmax takes a key's away, and as rows of A add up to 1 a value's
  is part of the bias of O;
- there is no dropout on A, which stays row-stochastic.
"""

from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .._typing import Bool, Float
from ..errors import FighterError
from ..hops import attention_hop, describe
from ..nn._checks import check_heads, check_nodes, join_heads, project, split_heads
from .base import Core, Task


def full_attention(
    q: Float[Tensor, "batch heads nodes head_width"],
    k: Float[Tensor, "batch heads others head_width"],
    v: Float[Tensor, "batch heads others head_width"],
    mask: Bool[Tensor, "batch others"] | None = None,
    causal: bool = False,
) -> Float[Tensor, "batch heads nodes head_width"]:
    """softmax(QKᵀ/√d) V; ``mask`` is key padding, ``causal`` is for one sequence with itself."""
    if q.shape == k.shape:
        return attention_hop(q, k, width=v.shape[-1], mask=mask, causal=causal)(v)
    return F.scaled_dot_product_attention(
        q, k, v, attn_mask=None if mask is None else mask[:, None, None]
    )


class FullAttention(nn.Module):
    """:func:`full_attention` as a module, in whose place another kind of attention can stand."""

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, causal: bool = False
    ) -> Tensor:
        """``[batch, heads, nodes, width / heads]``."""
        return full_attention(q, k, v, mask, causal)


class Attention(nn.Module):
    """concat over heads( attend(X W_Q + b_Q, M W_K, M W_V) ) O + b, M another sequence or X.

    Args:
        width: width of a node, coming in and going out.
        heads: number of graphs.
        attend: a module of ``(q, k, v, mask, causal)``; :class:`FullAttention` unless given.
    """

    def __init__(self, width: int, heads: int, attend: nn.Module | None = None):
        super().__init__()
        check_heads(width, heads)
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, width)
        self.attend = attend or FullAttention()

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        mask: Tensor | None = None,
        causal: bool = False,
    ) -> Tensor:
        """``[batch, nodes, width]``; ``mask`` is the padding of ``memory``, or else of ``x``."""
        if memory is None:
            parts = project(x, self.query, self.key, self.value)
        else:
            parts = (self.query(x), *project(memory, self.key, self.value))
        q, k, v = (split_heads(part, self.heads) for part in parts)
        return self.out(join_heads(self.attend(q, k, v, mask, causal)))


def feed_forward(width: int, hidden_width: int, bias: bool = True) -> nn.Sequential:
    """GELU(X W₁ + b₁) W₂ + b₂."""
    return nn.Sequential(
        nn.Linear(width, hidden_width, bias=bias),
        nn.GELU(),
        nn.Linear(hidden_width, width, bias=bias),
    )


def check_padding(x: Tensor, width: int, mask: Tensor | None) -> Tensor:
    """As :func:`check_nodes`, for blocks whose only mask is key padding."""
    if isinstance(mask, Tensor) and mask.ndim != 2:
        raise FighterError(
            f"mask is {describe(mask)}: this block takes key padding alone, a bool "
            "[batch, nodes], True at the nodes that count"
        )
    return check_nodes(x, width, 1, mask, causal=False)


class EncoderBlock(nn.Module):
    """X ← X + attention(norm(X)), X ← X + FFN(norm(X)).

    Args:
        width: width of a node, coming in and going out.
        heads: number of graphs.
        hidden_width: inside the feed-forward network.
        dropout: on each of the two before it is added.
        attend: the kind of attention, see :class:`Attention`.
    """

    def __init__(
        self,
        width: int,
        *,
        heads: int,
        hidden_width: int,
        dropout: float,
        attend: nn.Module | None = None,
    ):
        super().__init__()
        self.width = width
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads, attend)
        self.ffn = feed_forward(width, hidden_width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """``[batch, nodes, width]``; ``mask`` is key padding, bool ``[batch, nodes]``."""
        x = check_padding(x, self.width, mask)
        x = x + self.dropout(self.attention(self.norm1(x), mask=mask))
        return x + self.dropout(self.ffn(self.norm2(x)))


class DecoderBlock(nn.Module):
    """X ← X + causal attention(norm(X)), X ← X + attention(norm(X), M), X ← X + FFN(norm(X)).

    M is what the encoder made, and is looked at in full.

    Args:
        width, heads, hidden_width, dropout: as in :class:`EncoderBlock`.
        attend: the kind of attention over itself.
    """

    def __init__(
        self,
        width: int,
        *,
        heads: int,
        hidden_width: int,
        dropout: float,
        attend: nn.Module | None = None,
    ):
        super().__init__()
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(width) for _ in range(3))
        self.attention = Attention(width, heads, attend)
        self.cross = Attention(width, heads)
        self.ffn = feed_forward(width, hidden_width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        """``[batch, nodes, width]`` and the encoder's ``[batch, others, width]``."""
        x = x + self.dropout(self.attention(self.norm1(x), causal=True))
        x = x + self.dropout(self.cross(self.norm2(x), memory))
        return x + self.dropout(self.ffn(self.norm3(x)))


class StepEmbedding(nn.Module):
    """All series of a step as one vector, with its position and the moment of the forecast.

    There is no bias: it would be a part of the positions.
    """

    def __init__(self, series: int, steps: int, width: int, context: int):
        super().__init__()
        self.values = nn.Linear(series, width, bias=False)
        self.position = nn.Parameter(0.02 * torch.randn(steps, width))
        self.context = nn.Linear(context, width, bias=False) if context else None

    def forward(self, x: Tensor, context: Tensor | None = None) -> Tensor:
        """``[batch, steps, series]`` to ``[batch, steps, width]``."""
        x = self.values(x) + self.position
        if self.context is not None and context is not None:
            x = x + self.context(context)[:, None]
        return x


def label_steps(label: int | None, lookback: int) -> int:
    """How many known steps the decoder begins with: half the look-back unless given."""
    if label is None:
        return max(lookback // 2, 1)
    if isinstance(label, bool) or not isinstance(label, int) or not 1 <= label <= lookback:
        raise FighterError(
            f"label={label!r}: needs a whole number from 1 to lookback {lookback}, "
            "the known steps that the decoder begins with"
        )
    return label


class EncoderDecoder(Core):
    """What :class:`Seq2Seq` and :class:`Informer` share; they differ in their blocks.

    .. code-block:: text

        M = encoder(embed(past))
        forecast = decoder(embed([last label steps of the past, horizon zeros]), M), its last steps

    Args:
        task: sizes.
        width: width of a node.
        encoder: modules of ``x``, one after the other.
        decoder: modules of ``x`` and the encoder's output, one after the other.
        label: known steps that the decoder begins with; half the look-back unless given.
    """

    series_specific = True
    alternative = 'model="fighter" with adjacency="cosine"'

    def __init__(
        self,
        task: Task,
        width: int,
        encoder: Iterable[nn.Module],
        decoder: Iterable[nn.Module],
        label: int | None,
    ):
        super().__init__()
        self.task, self.label = task, label_steps(label, task.lookback)
        steps = self.label + task.horizon
        self.embed = StepEmbedding(task.series, task.lookback, width, task.context)
        self.embed_decoder = StepEmbedding(task.series, steps, width, task.context)
        self.encoder = nn.Sequential(*encoder, nn.LayerNorm(width))
        self.decoder = nn.ModuleList(decoder)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, task.series * task.outputs)

    def forward(self, past: Tensor, context: Tensor | None = None) -> Tensor:
        """``[batch, lookback, series]`` to ``[batch, horizon, series, outputs]``."""
        horizon = self.task.horizon
        memory = self.encoder(self.embed(past, context))
        y = self.embed_decoder(F.pad(past[:, -self.label :], (0, 0, 0, horizon)), context)
        for block in self.decoder:
            y = block(y, memory)
        y = self.head(self.norm(y[:, -horizon:]))
        return y.unflatten(-1, (self.task.series, self.task.outputs))


class Seq2Seq(EncoderDecoder):
    """An encoder and a decoder with full attention.

    Args:
        task: sizes.
        width, heads, dropout: of all blocks.
        layers, decoder_layers: number of blocks.
        hidden_width: inside the feed-forward networks; ``4 * width`` unless given.
        label: known steps that the decoder begins with; half the look-back unless given.
    """

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
    ):
        hidden = hidden_width or 4 * width

        def block(kind: type[nn.Module]) -> nn.Module:
            return kind(width, heads=heads, hidden_width=hidden, dropout=dropout)

        encoder = [block(EncoderBlock) for _ in range(layers)]
        decoder = [block(DecoderBlock) for _ in range(decoder_layers)]
        super().__init__(task, width, encoder, decoder, label)
