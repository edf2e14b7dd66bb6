"""The graph that attention draws with normalised queries and keys."""

from typing import Any

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
        options: ``query_width``, ``bias`` and ``members`` of :class:`DynamicAdjacency`.
    """

    def __init__(self, width: int, heads: int = 1, **options: Any):
        super().__init__(width, heads, scale=1.0, **options)
        self.temperature = nn.Parameter(torch.full((heads, 1, 1), 8.0))

    def queries_keys(self, x: Nodes) -> tuple[Heads, Heads, float | None]:
        """Return τQ and K, normalised, and the scale 1."""
        q, k, scale = super().queries_keys(x)
        return F.normalize(q, dim=-1) * self.temperature, F.normalize(k, dim=-1), scale
