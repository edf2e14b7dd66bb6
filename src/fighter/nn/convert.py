"""A Transformer encoder is a Fighter with κ=2 and W₀=0: the conversion, exact."""

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from ..errors import FighterError
from .adjacency import DynamicAdjacency
from .encoder import FighterEncoder
from .layer import FighterLayer
from .transformer import TransformerBlock, TransformerEncoder


@torch.no_grad()
def to_fighter(encoder: TransformerEncoder) -> FighterEncoder:
    """The Fighter that computes what ``encoder`` computes.

    For each block, κ=2 with W₀ = 0 and W₁ = W_V W₁ᶠᶠⁿ; the second feed-forward matrix and its bias
    go into the next layer's query, key and value weights, and the last layer has κ=1:

    .. code-block:: text

        P = I, c = 0                                     (what is still to be applied: σ(U) P + c)
        W_Q ← P W_Q,  b_Q ← c W_Q + b_Q,  W_K ← P W_K    (a key bias has no effect)
        W₁  ← P W_V,  O ← W₁ᶠᶠⁿ,  b ← (c W_V + b_V) W₁ᶠᶠⁿ + b₁ᶠᶠⁿ
        P ← W₂ᶠᶠⁿ,    c ← b₂ᶠᶠⁿ

    With one head W₁ and O are one matrix; with more, O mixes the heads. Dropout is left out.

    Raises:
        FighterError: the encoder has norms or residuals. What stands between two layers is then
            not linear, and the second feed-forward matrix cannot move on.

    """
    blocks = cast(Sequence[TransformerBlock], encoder.layers)
    for i, block in enumerate(blocks):
        normed = not isinstance(block.norm1, nn.Identity)
        if block.residual or normed:
            raise FighterError(
                f"block {i} has norm={normed}, residual={block.residual}: only an encoder without "
                "both equals a Fighter exactly"
            )
    p, c, layers = None, None, []
    for block in blocks:
        layers.append(_convert(block, p, c))
        p, c = block.ffn2.weight.T, block.ffn2.bias
    layers.append(_convert_final(encoder.final, p, c))
    return FighterEncoder.from_layers(layers).train(encoder.training)


def _convert(block: TransformerBlock, p: Tensor | None, c: Tensor | None) -> FighterLayer:
    wide = block.width if p is None else p.shape[0]
    value, ffn1, many = block.value, block.ffn1, block.heads > 1
    graph = DynamicAdjacency(
        wide, block.heads, query_width=block.query.out_features, scale=block.scale
    )
    layer = FighterLayer(
        wide,
        ffn1.out_features,
        kappa=2,
        heads=block.heads,
        adjacency=graph,
        mix_heads=many,
        value_width=value.out_features if many else None,
        activation=block.activation,
    ).to(value.weight)
    graph.query.weight.copy_(_weight(p, block.query))
    cast(Tensor, graph.query.bias).copy_(_bias(c, block.query))
    graph.key.weight.copy_(_weight(p, block.key))
    w1 = _weight(p, value)  # [value_width, wide], as Linear keeps it
    if many:
        cast(nn.Linear, layer.mix).weight.copy_(ffn1.weight)
    else:
        w1 = ffn1.weight @ w1
    layer.values.weight.copy_(torch.cat([torch.zeros_like(w1), w1]))
    cast(Tensor, layer.bias).copy_(_bias(_bias(c, value), ffn1))
    return layer


def _convert_final(final: nn.Linear, p: Tensor | None, c: Tensor | None) -> FighterLayer:
    wide = final.in_features if p is None else p.shape[0]
    layer = FighterLayer(wide, final.out_features, kappa=1, activation="identity")
    layer = layer.to(final.weight)
    layer.values.weight.copy_(_weight(p, final))
    cast(Tensor, layer.bias).copy_(_bias(c, final))
    return layer


def _weight(p: Tensor | None, linear: nn.Linear) -> Tensor:
    """The weight of ``x ↦ linear(x P)``."""
    return linear.weight if p is None else linear.weight @ p.T


def _bias(c: Tensor | None, linear: nn.Linear) -> Tensor:
    """The bias of ``x ↦ linear(x + c)``."""
    moved = torch.zeros_like(linear.weight[:, 0]) if c is None else linear.weight @ c
    return moved if linear.bias is None else moved + linear.bias
