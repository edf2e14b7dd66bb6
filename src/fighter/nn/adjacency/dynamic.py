"""The graph that attention draws from the input."""

from typing import Any, Self

from ...hops import Hop, adjacency, attention_hop, check_scale
from .._checks import Graph, Heads, Nodes, check_heads, split_heads
from ..members import linear
from .base import Adjacency, Sizes


class DynamicAdjacency(Adjacency, kind="dynamic"):
    """A = softmax(τ·QKᵀ), Q = X W_Q + b_Q, K = X W_K: the graph that attention draws.

    A key has no bias: it would add the same number to a whole row, which softmax cancels.

    Args:
        width: width of a node.
        heads: number of graphs (default: 1).
        query_width: width of all heads' queries together, p (default: ``width``).
        scale: τ (default: 1/√(query width per head)). The paper uses 1/√(input width).
        bias: whether queries have a bias (default: True).
        members: layers side by side, see :class:`~fighter.nn.FighterLayer` (default: 1).
    """

    def __init__(
        self,
        width: int,
        heads: int = 1,
        *,
        query_width: int | None = None,
        scale: float | None = None,
        bias: bool = True,
        members: int = 1,
    ):
        super().__init__()
        query_width = width if query_width is None else query_width
        check_heads(query_width, heads, "query_width")
        check_scale(scale)
        self.heads, self.scale = heads, scale
        self.query = linear(width, query_width, members, bias=bias)
        self.key = linear(width, query_width, members, bias=False)

    @classmethod
    def build(cls, sizes: Sizes) -> Self:
        """Build the adjacency for a layer."""
        return cls(sizes.width, sizes.heads, query_width=sizes.query_width, members=sizes.members)

    def queries_keys(self, x: Nodes) -> tuple[Heads, Heads, float | None]:
        """Return Q, K and τ; None stands for the default τ."""
        q, k = (split_heads(part(x), self.heads) for part in (self.query, self.key))
        return q, k, self.scale

    def hop(self, x: Nodes, **options: Any) -> Hop:
        """Return the function b ↦ A b; with fused attention A is never stored."""
        q, k, scale = self.queries_keys(x)
        return attention_hop(q, k, scale=scale, **options)

    def graph(self, x: Nodes, **options: Any) -> Graph:
        """Return A."""
        q, k, scale = self.queries_keys(x)
        return adjacency(q, k, scale=scale, **options)
