"""Powers of a graph from repeated hops. Aⁱ itself is never formed.

A hop is any function ``b -> A b``, whether or not it stores A.
"""

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from .._typing import Float

Hop = Callable[[Tensor], Tensor]


def horner(
    hop: Hop, blocks: Sequence[Float[Tensor, "*batch nodes width"]], powers: Sequence[int]
) -> Float[Tensor, "*batch nodes width"]:
    """Compute Σᵢ A^powers[i] blocks[i] in max(powers) hops: P₀ + A(P₁ + A(P₂ + …)).

    This is the cheap order if every head has its own output columns: a hop is as wide as a block.
    """
    total = blocks[-1]
    for i in reversed(range(len(blocks))):
        for _ in range(powers[i] - (powers[i - 1] if i else 0)):
            total = hop(total)
        total = blocks[i - 1] + total if i else total
    return total


def recursion(
    hop: Hop, x: Float[Tensor, "*batch nodes width"], powers: Sequence[int]
) -> tuple[Float[Tensor, "*batch nodes width"], ...]:
    """Compute A^power x for every power in max(powers) hops: Hᵢ₊₁ = A Hᵢ.

    This is the cheap order if every head has its own slice of the input, and the only one that
    yields the result of each hop.
    """
    features, reached = [], 0
    for power in powers:
        for _ in range(power - reached):
            x = hop(x)
        reached = power
        features.append(x)
    return tuple(features)


def explicit_hop(graph: Tensor, hidden: Tensor | None = None) -> Hop:
    """Make the hop of a stored graph: dense ``[..., S, S]`` or sparse ``[S, S]``.

    The values of ``hidden`` nodes, which have no edges, are set to zero, because 0·NaN is NaN.
    """
    if graph.layout != torch.strided:
        return partial(_sparse_product, graph)
    if hidden is not None:
        return lambda b: graph @ b.masked_fill(hidden, 0)
    # If a batch shares one graph, einsum does not copy it for each element; matmul would.
    return lambda b: (
        graph @ b if graph.ndim == b.ndim else torch.einsum("...st,b...te->b...se", graph, b)
    )


def _sparse_product(graph: Tensor, b: Tensor) -> Tensor:
    """Multiply by a sparse graph, which takes matrices only: the batch moves to the columns."""
    columns = b.movedim(-2, 0).reshape(b.shape[-2], -1)  # [S, batch·width]
    moved = (graph @ columns).view(b.shape[-2], *b.shape[:-2], b.shape[-1])
    return moved.movedim(0, -2)
