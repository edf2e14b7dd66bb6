"""Powers of a graph from repeated hops. Aⁱ itself is never formed.

A hop is any function ``b -> A b``; how A is stored, or whether it is, is the hop's own business.
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
    """Σᵢ A^powers[i] blocks[i], in max(powers) hops: P₀ + A(P₁ + A(P₂ + …)).

    The cheap order when every head has its own output columns: a hop moves the width of a block.
    """
    total = blocks[-1]
    for i in reversed(range(len(blocks))):
        below = powers[i - 1] if i else 0
        for _ in range(powers[i] - below):
            total = hop(total)
        if i:
            total = blocks[i - 1] + total
    return total


def recursion(
    hop: Hop, x: Float[Tensor, "*batch nodes width"], powers: Sequence[int]
) -> tuple[Float[Tensor, "*batch nodes width"], ...]:
    """A^power x for every power, in max(powers) hops: Hᵢ₊₁ = A Hᵢ.

    The cheap order when every head owns a slice of the input, and the only one that shows each
    hop by itself.
    """
    features, reached = [], 0
    for power in powers:
        for _ in range(power - reached):
            x = hop(x)
        reached = power
        features.append(x)
    return tuple(features)


def explicit_hop(graph: Tensor, hidden: Tensor | None = None) -> Hop:
    """The hop of a graph that is given: dense ``[..., S, S]``, or sparse ``[S, S]``.

    Nodes that are ``hidden`` have no edges in the graph and, lest 0·NaN be NaN, no value either.
    """
    if graph.layout != torch.strided:
        return partial(_sparse_product, graph)
    if hidden is not None:
        return lambda b: graph @ b.masked_fill(hidden, 0)
    # Where a batch shares one graph, einsum does not repeat it for each; matmul would.
    return lambda b: (
        graph @ b if graph.ndim == b.ndim else torch.einsum("...st,b...te->b...se", graph, b)
    )


def _sparse_product(graph: Tensor, b: Tensor) -> Tensor:
    """Sparse products take matrices only, so the batch goes to the columns."""
    columns = b.movedim(-2, 0).reshape(b.shape[-2], -1)  # [S, batch·width]
    moved = (graph @ columns).view(b.shape[-2], *b.shape[:-2], b.shape[-1])
    return moved.movedim(0, -2)
