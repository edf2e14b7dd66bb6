"""The Transformer encoder of the paper's Eq. 3, whose equivalence with Fighter the paper claims."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .._typing import Float
from ..errors import FighterError
from ..hops import Hop, adjacency, attention_hop, check_scale
from ._checks import (
    Graph,
    Heads,
    Nodes,
    check_heads,
    check_nodes,
    check_widths,
    join_heads,
    make_activation,
    split_heads,
)
from .further import further_hops


def project(x: Nodes, *maps: nn.Linear) -> tuple[Float[Tensor, "batch nodes _"], ...]:
    """Return ``map(x)`` for each map, computed as one product, which is faster on a GPU."""
    bias = None
    if any(f.bias is not None for f in maps):
        parts = [f.weight.new_zeros(len(f.weight)) if f.bias is None else f.bias for f in maps]
        bias = torch.cat(parts)
    y = F.linear(x, torch.cat([f.weight for f in maps]), bias)
    return y.split([f.out_features for f in maps], -1)


class TransformerBlock(nn.Module):
    """X_att = softmax(τ X W_Q (X W_K)ᵀ) X W_V, then σ(X_att W₁ + b₁) W₂ + b₂.

    With ``norm`` each of the two reads its input through a LayerNorm, and with ``residual`` each
    is added to its input, as in the usual pre-norm block. With κ above 2, X_att also has the hops
    A² X W₂ + … + A^(κ-1) X W_(κ-1), which start at zero.

    Args:
        width: width of an input node, h₀ in the first block.
        out_width: width of an output node, h_l.
        query_width: p, all heads together (default: ``out_width``).
        value_width: v, all heads together (default: ``out_width``).
        heads: number of attention graphs (default: 1).
        hidden_width: width inside the feed-forward network (default: ``out_width``, as in the
            paper).
        norm: LayerNorm before attention and before the feed-forward network (default: False).
        residual: add the input of each to its output; needs one width (default: False).
        activation: as in :class:`~fighter.nn.FighterLayer` (default: relu).
        dropout: dropout after attention and after the feed-forward network (default: 0).
        bias: biases on all projections (default: True). The paper has them in the feed-forward
            network only.
        scale: τ (default: 1/√(query width per head)). The paper uses 1/√h₀.
        kappa: number of powers κ of A, counted from 0 (default: 2, attention itself).
    """

    def __init__(
        self,
        width: int,
        out_width: int,
        *,
        query_width: int | None = None,
        value_width: int | None = None,
        heads: int = 1,
        hidden_width: int | None = None,
        norm: bool = False,
        residual: bool = False,
        activation: str | nn.Module = "relu",
        dropout: float = 0.0,
        bias: bool = True,
        scale: float | None = None,
        kappa: int = 2,
    ):
        super().__init__()
        query_width, value_width = query_width or out_width, value_width or out_width
        hidden_width = hidden_width or out_width
        check_heads(query_width, heads, "query_width")
        check_heads(value_width, heads, "value_width")
        check_scale(scale)
        if residual and not width == value_width == out_width:
            widths = f"the input has {width}, the values {value_width} and the output {out_width}"
            raise FighterError(
                f"needs one width, but {widths}", argument="residual", value=residual
            )
        self.width, self.heads, self.scale, self.residual = width, heads, scale, residual
        self.norm1 = nn.LayerNorm(width) if norm else nn.Identity()
        self.norm2 = nn.LayerNorm(value_width) if norm else nn.Identity()
        self.query = nn.Linear(width, query_width, bias=bias)
        self.key = nn.Linear(width, query_width, bias=bias)
        self.value = nn.Linear(width, value_width, bias=bias)
        self.ffn1 = nn.Linear(value_width, hidden_width, bias=bias)
        self.ffn2 = nn.Linear(hidden_width, out_width, bias=bias)
        self.activation = make_activation(activation)
        self.dropout = nn.Dropout(dropout)
        self.hops = further_hops(width, value_width, kappa, heads)

    def forward(self, x: Tensor, mask: Tensor | None = None, causal: bool = False) -> Nodes:
        """Map ``[batch, nodes, width]`` to ``[batch, nodes, out_width]``."""
        x = check_nodes(x, self.width, self.heads, mask, causal)
        t = self.norm1(x)
        parts = project(t, self.query, self.key, self.value)
        q, k, v = (split_heads(part, self.heads) for part in parts)
        hop = attention_hop(q, k, width=v.shape[-1], mask=mask, causal=causal, scale=self.scale)
        heads = self.attend(hop, v) if self.hops is None else self.hops(hop, t, v)
        attended = self.dropout(join_heads(heads))
        x = x + attended if self.residual else attended
        y = self.dropout(self.ffn2(self.activation(self.ffn1(self.norm2(x)))))
        return x + y if self.residual else y

    def attend(self, hop: Hop, v: Heads) -> Heads:
        """Return A V; a block with another filter of A overrides this."""
        return hop(v)

    @torch.no_grad()
    def graph(self, x: Tensor, *, mask: Tensor | None = None, causal: bool = False) -> Graph:
        """Return A as this block draws it for ``x``."""
        t = self.norm1(check_nodes(x, self.width, self.heads, mask, causal))
        q, k = (split_heads(f(t), self.heads) for f in (self.query, self.key))
        return adjacency(q, k, mask=mask, causal=causal, scale=self.scale)


class TransformerEncoder(nn.Module):
    """L-1 blocks of attention and feed-forward network, then X⁽ᴸ⁾ = X⁽ᴸ⁻¹⁾ W⁽ᴸ⁾.

    Example:
        >>> import torch
        >>> from fighter.nn import TransformerEncoder, to_fighter
        >>> encoder = TransformerEncoder([7, 64, 64, 8], heads=4)
        >>> x = torch.randn(2, 96, 7)
        >>> torch.allclose(encoder(x), to_fighter(encoder)(x), atol=1e-5)
        True

    Args:
        widths: h₀, h₁, …, h_L. The last is the width of the final projection.
        norm: LayerNorm in each block and before the final projection (default: False).
        bias: biases on all projections (default: True).
        options: options of :class:`~fighter.nn.transformer.TransformerBlock`, such as ``heads``.
    """

    def __init__(
        self, widths: Sequence[int], *, norm: bool = False, bias: bool = True, **options: Any
    ):
        super().__init__()
        check_widths(widths)
        self.layers = nn.ModuleList(
            TransformerBlock(width, out_width, norm=norm, bias=bias, **options)
            for width, out_width in pairwise(widths[:-1])
        )
        self.norm = nn.LayerNorm(widths[-2]) if norm else nn.Identity()
        self.final = nn.Linear(widths[-2], widths[-1], bias=bias)

    def forward(self, x: Tensor, mask: Tensor | None = None, causal: bool = False) -> Nodes:
        """Map to ``[batch, nodes, h_L]``; masks are those of :func:`fighter.multi_hop`."""
        for block in self.layers:
            x = block(x, mask, causal)
        return self.final(self.norm(x))

    @torch.no_grad()
    def graphs(self, x: Tensor, *, mask: Tensor | None = None, causal: bool = False) -> list[Graph]:
        """Return A of each block for the input ``x``."""
        graphs = []
        for block in cast(Iterable[TransformerBlock], self.layers):
            graphs.append(block.graph(x, mask=mask, causal=causal))
            x = block(x, mask, causal)
        return graphs
