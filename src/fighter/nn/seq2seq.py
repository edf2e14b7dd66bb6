"""What encoder–decoder Transformers share: attention over one or two sequences, and their blocks.

After Vaswani et al. (2017), "Attention Is All You Need": scaled dot-product attention (their
Eq. 1) in several heads (section 3.2.2), the feed-forward network (Eq. 2), a decoder block with
attention over itself, then over the encoder's output. On purpose otherwise:

- LayerNorm comes before each part and not after the sum, as is usual today, and σ is GELU;
- keys and values have no bias. Softmax takes a key's away, and as rows of A add up to 1 a value's
  is part of the bias of O;
- there is no dropout on A, which stays row-stochastic.
"""

import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import FighterError
from ..hops import attention_hop, describe
from ..shapes import Bool, Float
from .common import check_heads, check_nodes, join_heads, split_heads
from .transformer import project


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
