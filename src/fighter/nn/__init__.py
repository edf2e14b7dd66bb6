"""Layers on tensors, ``[batch, nodes, width]`` in and out.

A node is whatever the graph connects: a time step, a patch of time, a series, a word.
"""

from .adjacency import (
    Adjacency,
    CosineAdjacency,
    DynamicAdjacency,
    LazyAdjacency,
    MixedAdjacency,
    StaticAdjacency,
)
from .convert import to_fighter
from .encoder import FighterEncoder
from .gcn import FlexibleGCN
from .layer import FighterLayer
from .transformer import TransformerEncoder

__all__ = [
    "Adjacency", "CosineAdjacency", "DynamicAdjacency", "FighterEncoder", "FighterLayer",
    "FlexibleGCN", "LazyAdjacency", "MixedAdjacency", "StaticAdjacency", "TransformerEncoder",
    "to_fighter",
]  # fmt: skip
