"""The interface of an adjacency, and the registry of the kinds that have a name."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from torch import Tensor, nn

from ...errors import FighterError, did_you_mean
from ...hops import Backend, Hop
from .._checks import Graph, Nodes

KINDS: dict[str, type["Adjacency"]] = {}
"""The adjacency classes by name; a class registers itself with ``kind=``."""


@dataclass(frozen=True)
class Sizes:
    """The sizes of a layer whose adjacency is built by name.

    Args:
        width: width of a node.
        heads: number of graphs.
        nodes: number of nodes, needed by adjacencies that are learned for a fixed set of nodes.
        query_width: width of all heads' queries together (default: ``width``).
        members: layers side by side, see :class:`~fighter.nn.FighterLayer` (default: 1).
    """

    width: int
    heads: int
    nodes: int | None = None
    query_width: int | None = None
    members: int = 1


class Adjacency(nn.Module, ABC):
    """One row-stochastic graph A per head over the nodes of ``x`` ``[batch, nodes, width]``.

    A subclass in a file of this folder that names its ``kind`` can be chosen by that name:

    .. code-block:: python

        class RingAdjacency(Adjacency, kind="ring"):
            node_specific = True

            @classmethod
            def build(cls, sizes): ...
            def hop(self, x, *, width, mask, causal, backend): ...
            def graph(self, x, *, mask, causal): ...
    """

    heads: int
    node_specific: ClassVar[bool] = False
    """Whether the graph is learned for a fixed set of nodes, so that it fits no other nodes."""

    def __init_subclass__(cls, kind: str | None = None, **options: Any):
        super().__init_subclass__(**options)
        if kind is not None:
            KINDS[kind] = cls

    @classmethod
    def build(cls, sizes: Sizes) -> Self:
        """Build the adjacency for a layer; only kinds with a name need this."""
        raise NotImplementedError(f"{cls.__name__} cannot be built by name")

    @abstractmethod
    def hop(
        self,
        x: Nodes,
        *,
        width: int,
        mask: Tensor | None = None,
        causal: bool = False,
        backend: Backend = "auto",
    ) -> Hop:
        """Return the function b ↦ A b for b ``[batch, heads, nodes, width]``."""

    @abstractmethod
    def graph(self, x: Nodes, *, mask: Tensor | None = None, causal: bool = False) -> Graph:
        """Return A."""


def find_adjacency(kind: str) -> type[Adjacency]:
    """Return the adjacency class with this name."""
    if not isinstance(kind, str) or kind not in KINDS:
        hint = did_you_mean(str(kind), KINDS)
        reason = f"needs one of {', '.join(KINDS)}{hint and '.' + hint}"
        raise FighterError(reason, argument="adjacency", value=kind)
    return KINDS[kind]


def make_adjacency(kind: str, sizes: Sizes) -> Adjacency:
    """Build the adjacency with this name for a layer."""
    found = find_adjacency(kind)
    if found.node_specific and sizes.nodes is None:
        raise FighterError(f"adjacency {kind!r} needs the number of nodes", argument="nodes")
    return found.build(sizes)
