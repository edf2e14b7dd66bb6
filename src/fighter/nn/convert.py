"""The exact conversion of a Transformer encoder into a Fighter with κ=2 and W₀=0."""

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from .._typing import Float
from ..errors import FighterError
from .adjacency import DynamicAdjacency
from .encoder import FighterEncoder
from .layer import FighterLayer
from .transformer import TransformerBlock, TransformerEncoder

Matrix = Float[Tensor, "_ _"]
Vector = Float[Tensor, "_"]


@torch.no_grad()
def to_fighter(encoder: TransformerEncoder) -> FighterEncoder:
    """Return the Fighter that computes the same function as ``encoder``.

    For each block, κ=2 with W₀ = 0 and W₁ = W_V W₁ᶠᶠⁿ; the second feed-forward matrix and its bias
    go into the next layer's query, key and value weights, and the last layer has κ=1:

    .. code-block:: text

        P = I, c = 0                                     (still to be applied: σ(U) P + c)
        W_Q ← P W_Q,  b_Q ← c W_Q + b_Q,  W_K ← P W_K    (a key bias has no effect)
        W₁  ← P W_V,  O ← W₁ᶠᶠⁿ,  b ← (c W_V + b_V) W₁ᶠᶠⁿ + b₁ᶠᶠⁿ
        P ← W₂ᶠᶠⁿ,    c ← b₂ᶠᶠⁿ

    A block with κ above 2 gives a layer with that κ, with Wᵢ ← P Wᵢ and c Wᵢ beside c W_V. With one
    head W₁ and O are one matrix; with more, O mixes the heads. The copy has no dropout.

    Raises:
        FighterError: the encoder is one of torch's, or has norms or residuals. The step between two
            layers is then not linear, and the second feed-forward matrix cannot be moved into the
            next layer.
    """
    if not isinstance(encoder, TransformerEncoder):
        reason = (
            f"needs a fighter.nn.TransformerEncoder without norms and residuals, not a "
            f"{type(encoder).__module__.partition('.')[0]} {type(encoder).__name__}: torch's "
            "encoders have both, so that no Fighter computes the same; fighter.explain.trace "
            "explains them as they are"
        )
        raise FighterError(reason, argument="encoder")
    blocks = cast(Sequence[TransformerBlock], encoder.layers)
    for i, block in enumerate(blocks):
        normed = not isinstance(block.norm1, nn.Identity)
        if block.residual or normed:
            what = "a norm" if normed else "a residual"
            reason = "only an encoder without norms and residuals equals a Fighter exactly"
            raise FighterError(f"block {i} has {what}: {reason}", argument="encoder")
    p, c, layers = None, None, []
    for block in blocks:
        layers.append(_convert(block, p, c))
        p, c = block.ffn2.weight.T, block.ffn2.bias
    layers.append(_convert_final(encoder.final, p, c))
    return FighterEncoder.from_layers(layers).train(encoder.training)


def _convert(block: TransformerBlock, p: Matrix | None, c: Vector | None) -> FighterLayer:
    width = block.width if p is None else p.shape[0]
    value, ffn1, several_heads = block.value, block.ffn1, block.heads > 1
    further = [] if block.hops is None else cast(list[nn.Linear], [*block.hops.values()])
    maps = [value, *further]
    graph = DynamicAdjacency(
        width, block.heads, query_width=block.query.out_features, scale=block.scale
    )
    layer = FighterLayer(
        width,
        ffn1.out_features,
        kappa=1 + len(maps),
        heads=block.heads,
        adjacency=graph,
        mix_heads=several_heads,
        value_width=value.out_features if several_heads else None,
        activation=block.activation,
    ).to(value.weight)
    graph.query.weight.copy_(_weight(p, block.query))
    cast(Tensor, graph.query.bias).copy_(_bias(c, block.query))
    graph.key.weight.copy_(_weight(p, block.key))
    weights = [_weight(p, f) for f in maps]  # [value_width, width], as Linear keeps them
    if several_heads:
        cast(nn.Linear, layer.mix).weight.copy_(ffn1.weight)
    else:
        weights = [ffn1.weight @ w for w in weights]
    bias = torch.stack([_bias(c, f) for f in maps]).sum(0)
    layer.values.weight.copy_(torch.cat([torch.zeros_like(weights[0]), *weights]))
    cast(Tensor, layer.bias).copy_(_bias(bias, ffn1))
    return layer


def _convert_final(final: nn.Linear, p: Matrix | None, c: Vector | None) -> FighterLayer:
    width = final.in_features if p is None else p.shape[0]
    layer = FighterLayer(width, final.out_features, kappa=1, activation="identity").to(final.weight)
    layer.values.weight.copy_(_weight(p, final))
    cast(Tensor, layer.bias).copy_(_bias(c, final))
    return layer


def _weight(p: Matrix | None, linear: nn.Linear) -> Matrix:
    """Return the weight of ``x ↦ linear(x P)``."""
    return linear.weight if p is None else linear.weight @ p.T


def _bias(c: Vector | None, linear: nn.Linear) -> Vector:
    """Return the bias of ``x ↦ linear(x + c)``."""
    moved = torch.zeros_like(linear.weight[:, 0]) if c is None else linear.weight @ c
    return moved if linear.bias is None else moved + linear.bias
