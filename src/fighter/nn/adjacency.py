"""Where the graph of a layer comes from: drawn from the input, learned once, or a mix of both.

Every adjacency is row-stochastic, one graph per head, and gives two things: its ``hop`` (the
function b ↦ A b, which a layer repeats) and its ``graph`` (A itself, to look at).
"""

from abc import ABC, abstractmethod

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import FighterError
from ..hops import (
    Backend,
    Hop,
    adjacency,
    attention_hop,
    check_scale,
    explicit_hop,
    hidden_nodes,
    masked_softmax,
)
from ._checks import check_heads, linear, split_heads

KINDS = ("dynamic", "cosine", "static", "lazy", "mixed")
"""Drawn from the input, or with queries and keys of length 1; learned once, or lazy: half of every
node stays where it is; a mix of cosine and static."""


class Adjacency(nn.Module, ABC):
    """One row-stochastic graph per head over the nodes of ``x`` ``[batch, nodes, width]``."""

    heads: int

    @abstractmethod
    def hop(
        self,
        x: Tensor,
        *,
        width: int,
        mask: Tensor | None = None,
        causal: bool = False,
        backend: Backend = "auto",
    ) -> Hop:
        """The function b ↦ A b for b ``[batch, heads, nodes, width]``."""

    @abstractmethod
    def graph(self, x: Tensor, *, mask: Tensor | None = None, causal: bool = False) -> Tensor:
        """A, ``[batch, heads, nodes, nodes]``."""


class DynamicAdjacency(Adjacency):
    """A = softmax(τ·QKᵀ), Q = X W_Q + b_Q, K = X W_K: the graph that attention draws.

    With ``normalise`` queries and keys have length 1 and τ is learned per head, so that logits are
    bounded by τ and A does not start out as one repeated row, whose powers would be copies.

    A key has no bias: it would add the same number to a whole row, and softmax takes it away.

    Args:
        width: width of a node.
        heads: number of graphs.
        query_width: width of all heads' queries together (p); ``width`` unless given.
        normalise: unit queries and keys with a learned temperature, which starts at 8.
        scale: τ; 1/√(query width per head) unless given. The paper takes 1/√(input width).
        bias: whether queries have a bias.
        members: layers side by side, see :class:`~fighter.nn.FighterLayer`.

    """

    def __init__(
        self,
        width: int,
        heads: int = 1,
        *,
        query_width: int | None = None,
        normalise: bool = False,
        scale: float | None = None,
        bias: bool = True,
        members: int = 1,
    ):
        super().__init__()
        query_width = width if query_width is None else query_width
        check_heads(query_width, heads, "query_width")
        check_scale(scale)
        if normalise and scale is not None:
            raise FighterError(f"scale={scale} with normalise=True: the temperature is learned")
        self.heads = heads
        self.scale = scale
        self.query = linear(width, query_width, members, bias=bias)
        self.key = linear(width, query_width, members, bias=False)
        self.temperature = nn.Parameter(torch.full((heads, 1, 1), 8.0)) if normalise else None

    def _queries_keys(self, x: Tensor) -> tuple[Tensor, Tensor, float | None]:
        q, k = split_heads(self.query(x), self.heads), split_heads(self.key(x), self.heads)
        if self.temperature is None:
            return q, k, self.scale
        return F.normalize(q, dim=-1) * self.temperature, F.normalize(k, dim=-1), 1.0

    def hop(  # noqa: D102
        self,
        x: Tensor,
        *,
        width: int,
        mask: Tensor | None = None,
        causal: bool = False,
        backend: Backend = "auto",
    ) -> Hop:
        q, k, scale = self._queries_keys(x)
        return attention_hop(
            q, k, width=width, mask=mask, causal=causal, scale=scale, backend=backend
        )

    def graph(self, x: Tensor, *, mask: Tensor | None = None, causal: bool = False) -> Tensor:  # noqa: D102
        q, k, scale = self._queries_keys(x)
        return adjacency(q, k, mask=mask, causal=causal, scale=scale)


class StaticAdjacency(Adjacency):
    """A = s I + (1-s) softplus(10 Z) / row sums, Z a parameter: the same graph for every input.

    For a fixed set of nodes, such as the series of a data set. An optimiser like Adam moves every
    parameter by about the learning rate a step, and an edge has further to go than a weight: the
    factor lets it.

    Args:
        nodes: number of nodes.
        heads: number of graphs.
        stay: s, the share of a node that stays where it is, as in a lazy random walk: far hops
            then reach less far, and what comes from others starts out smaller.
    """

    gain = 10.0

    def __init__(self, nodes: int, heads: int = 1, *, stay: float = 0.0):
        super().__init__()
        if not 0 <= stay < 1:
            raise FighterError(f"stay={stay}: needs a share from 0 to below 1")
        if nodes < 1 or heads < 1:
            raise FighterError(f"nodes={nodes}, heads={heads}: both need to be at least 1")
        self.nodes = nodes
        self.heads = heads
        self.stay = stay
        self.logits = nn.Parameter(torch.randn(heads, nodes, nodes) / self.gain)

    def _graph(self, x: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
        if x.shape[1] != self.nodes:
            raise FighterError(
                f"x has {x.shape[1]} nodes, this static graph was made for {self.nodes}: "
                "build it with that number, or take a dynamic adjacency, which fits any"
            )
        graph = masked_softmax(F.softplus(self.gain * self.logits).log(), mask, causal)
        if not self.stay:
            return graph  # [(B,) heads, S, S]
        eye = torch.eye(self.nodes, dtype=graph.dtype, device=graph.device)
        hidden = hidden_nodes(mask)
        eye = eye if hidden is None else torch.where(hidden, graph, eye)  # no edge leads to those
        return self.stay * eye + (1 - self.stay) * graph

    def hop(  # noqa: D102
        self,
        x: Tensor,
        *,
        width: int,
        mask: Tensor | None = None,
        causal: bool = False,
        backend: Backend = "auto",
    ) -> Hop:
        return explicit_hop(self._graph(x, mask, causal), hidden_nodes(mask))

    def graph(self, x: Tensor, *, mask: Tensor | None = None, causal: bool = False) -> Tensor:  # noqa: D102
        return self._graph(x, mask, causal).expand(x.shape[0], -1, -1, -1)


class MixedAdjacency(Adjacency):
    """A = g·A_static + (1-g)·A_dynamic with a learned gate g in (0, 1) per head."""

    def __init__(self, dynamic: Adjacency, static: Adjacency):
        super().__init__()
        if dynamic.heads != static.heads:
            raise FighterError(
                f"dynamic has {dynamic.heads} heads, static has {static.heads}: needs the same"
            )
        self.heads = dynamic.heads
        self.dynamic = dynamic
        self.static = static
        self.gate = nn.Parameter(torch.zeros(self.heads, 1, 1))

    def hop(  # noqa: D102
        self,
        x: Tensor,
        *,
        width: int,
        mask: Tensor | None = None,
        causal: bool = False,
        backend: Backend = "auto",
    ) -> Hop:
        g = self.gate.sigmoid()
        static = self.static.hop(x, width=width, mask=mask, causal=causal, backend=backend)
        dynamic = self.dynamic.hop(x, width=width, mask=mask, causal=causal, backend=backend)
        return lambda b: g * static(b) + (1 - g) * dynamic(b)

    def graph(self, x: Tensor, *, mask: Tensor | None = None, causal: bool = False) -> Tensor:  # noqa: D102
        g = self.gate.sigmoid()
        static = self.static.graph(x, mask=mask, causal=causal)
        return g * static + (1 - g) * self.dynamic.graph(x, mask=mask, causal=causal)


def make_adjacency(
    kind: str,
    width: int,
    heads: int,
    nodes: int | None = None,
    query_width: int | None = None,
    members: int = 1,
) -> Adjacency:
    """An adjacency by name, one of :data:`KINDS`."""
    if kind not in KINDS:
        raise FighterError(f"adjacency={kind!r}: needs one of {', '.join(KINDS)}")

    def dynamic(normalise: bool) -> Adjacency:
        return DynamicAdjacency(
            width, heads, query_width=query_width, normalise=normalise, members=members
        )

    if kind in ("dynamic", "cosine"):
        return dynamic(kind == "cosine")
    if nodes is None:
        raise FighterError(f"adjacency={kind!r} needs nodes=, the number of nodes it is over")
    static = StaticAdjacency(nodes, heads, stay=0.5 if kind == "lazy" else 0.0)
    return static if kind != "mixed" else MixedAdjacency(dynamic(True), static)
