"""A learned graph that is the same for every input."""

from typing import Any, Self, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..._typing import Float
from ...errors import FighterError, check_count
from ...hops import Hop, explicit_hop, hidden_nodes, masked_softmax
from .._checks import Graph, Nodes
from .base import Adjacency, Sizes

Graphs = Float[Tensor, "*batch heads nodes nodes"]


class StaticAdjacency(Adjacency, kind="static"):
    """A = s I + (1-s) softplus(10 Z) / row sums, Z a parameter: the same graph for every input.

    It is for a fixed set of nodes, such as the series of a data set. An optimiser like Adam moves
    every parameter by about the learning rate per step, and an edge has further to go than a
    weight; the factor 10 makes up for that.

    Args:
        nodes: number of nodes.
        heads: number of graphs (default: 1).
        stay: s, the share of a node that stays where it is, as in a lazy random walk (default: 0).
            With more staying, high powers reach less far and other nodes contribute less at first.
    """

    node_specific = True
    gain = 10.0

    def __init__(self, nodes: int, heads: int = 1, *, stay: float = 0.0):
        super().__init__()
        if not 0 <= stay < 1:
            raise FighterError("needs a share from 0 to below 1", argument="stay", value=stay)
        self.nodes, self.heads = check_count("nodes", nodes), check_count("heads", heads)
        self.stay = stay
        self.logits = nn.Parameter(torch.randn(heads, nodes, nodes) / self.gain)

    @classmethod
    def build(cls, sizes: Sizes) -> Self:
        """Build the adjacency for a layer."""
        return cls(cast(int, sizes.nodes), sizes.heads)

    def _graph(self, x: Nodes, mask: Tensor | None, causal: bool) -> Graphs:
        if x.shape[1] != self.nodes:
            cure = "build it for that number, or use a dynamic adjacency, which fits any number"
            reason = f"has {x.shape[1]} nodes, this static graph was made for {self.nodes}: {cure}"
            raise FighterError(reason, argument="x")
        graph = masked_softmax(F.softplus(self.gain * self.logits).log(), mask, causal)
        if not self.stay:
            return graph
        eye = torch.eye(self.nodes, dtype=graph.dtype, device=graph.device)
        hidden = hidden_nodes(mask)
        eye = eye if hidden is None else torch.where(hidden, graph, eye)  # no edge leads to padding
        return self.stay * eye + (1 - self.stay) * graph

    def hop(
        self, x: Nodes, *, mask: Tensor | None = None, causal: bool = False, **options: Any
    ) -> Hop:
        """Return the function b ↦ A b."""
        del options  # the width of b and the backend make no difference
        return explicit_hop(self._graph(x, mask, causal), hidden_nodes(mask))

    def graph(self, x: Nodes, *, mask: Tensor | None = None, causal: bool = False) -> Graph:
        """Return A."""
        return self._graph(x, mask, causal).expand(x.shape[0], -1, -1, -1)
