"""A learned graph in which half of every node stays where it is."""

from .static import StaticAdjacency


class LazyAdjacency(StaticAdjacency, kind="lazy"):
    """A = (I + softplus(10 Z) / row sums) / 2: a :class:`StaticAdjacency` with s = 1/2."""

    def __init__(self, nodes: int, heads: int = 1):
        super().__init__(nodes, heads, stay=0.5)
