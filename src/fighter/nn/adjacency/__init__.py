"""Where the graph of a layer comes from: drawn from the input, learned once, or a mix of both.

Every adjacency is row-stochastic, has one graph per head, and offers two things: its ``hop``, the
function b ↦ A b that a layer repeats, and its ``graph``, A itself, to look at.

Each kind is one file of this folder. All files are imported here, so that a new kind needs no
other line than its class: ``class RingAdjacency(Adjacency, kind="ring")``.
"""

from importlib import import_module
from pkgutil import iter_modules

from .base import KINDS, Adjacency, Sizes, find_adjacency, make_adjacency
from .cosine import CosineAdjacency
from .dynamic import DynamicAdjacency
from .lazy import LazyAdjacency
from .mixed import MixedAdjacency
from .static import StaticAdjacency

__all__ = [
    "KINDS", "Adjacency", "CosineAdjacency", "DynamicAdjacency", "LazyAdjacency", "MixedAdjacency",
    "Sizes", "StaticAdjacency", "find_adjacency", "make_adjacency",
]  # fmt: skip


def register_all() -> None:
    """Import every file of this folder, so that its classes register themselves."""
    for module in iter_modules(__path__):
        import_module(f"{__name__}.{module.name}")


register_all()
