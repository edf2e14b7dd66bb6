"""A learned mix of two graphs."""

from typing import Any, Self

import torch
from torch import nn

from ...errors import FighterError
from ...hops import Hop
from .._checks import Graph, Nodes
from .base import Adjacency, Sizes
from .cosine import CosineAdjacency
from .static import StaticAdjacency


class MixedAdjacency(Adjacency, kind="mixed"):
    """A = g·A_static + (1-g)·A_dynamic with a learned gate g in (0, 1) per head.

    Args:
        dynamic: the adjacency drawn from the input.
        static: the adjacency learned once, with as many heads.
    """

    node_specific = True

    def __init__(self, dynamic: Adjacency, static: Adjacency):
        super().__init__()
        if dynamic.heads != static.heads:
            reason = f"has {static.heads} heads, dynamic has {dynamic.heads}: needs the same number"
            raise FighterError(reason, argument="static")
        self.heads, self.dynamic, self.static = dynamic.heads, dynamic, static
        self.gate = nn.Parameter(torch.zeros(self.heads, 1, 1))

    @classmethod
    def build(cls, sizes: Sizes) -> Self:
        """Build a mix of cosine and static for a layer."""
        static = StaticAdjacency.build(sizes)
        return cls(CosineAdjacency.build(sizes), static)

    def hop(self, x: Nodes, **options: Any) -> Hop:
        """Return the function b ↦ A b, a mix of two hops."""
        g = self.gate.sigmoid()
        static, dynamic = self.static.hop(x, **options), self.dynamic.hop(x, **options)
        return lambda b: g * static(b) + (1 - g) * dynamic(b)

    def graph(self, x: Nodes, **options: Any) -> Graph:
        """Return A."""
        g = self.gate.sigmoid()
        return g * self.static.graph(x, **options) + (1 - g) * self.dynamic.graph(x, **options)
