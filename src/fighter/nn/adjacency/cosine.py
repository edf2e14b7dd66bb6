"""The graph that attention draws with normalised queries and keys."""

import torch
import torch.nn.functional as F
from torch import nn

from .._checks import Heads, Nodes
from .dynamic import DynamicAdjacency


class CosineAdjacency(DynamicAdjacency, kind="cosine"):
    """A = softmax(τ·QKᵀ) with queries and keys of length 1 and a learned τ per head.

    The logits are bounded by τ, which starts at 8, so that A does not start out as one repeated
    row, whose powers would all be the same.

    Args:
        width: width of a node.
        heads: number of graphs (default: 1).
        query_width, bias, members: as in :class:`DynamicAdjacency`.
    """

    def __init__(
        self,
        width: int,
        heads: int = 1,
        *,
        query_width: int | None = None,
        bias: bool = True,
        members: int = 1,
    ):
        super().__init__(width, heads, query_width=query_width, bias=bias, members=members)
        self.temperature = nn.Parameter(torch.full((heads, 1, 1), 8.0))

    def queries_keys(self, x: Nodes) -> tuple[Heads, Heads, float | None]:
        """Return τQ and K, normalised, and the scale 1."""
        q, k, _ = super().queries_keys(x)
        return F.normalize(q, dim=-1) * self.temperature, F.normalize(k, dim=-1), 1.0
