"""Layers on tensors, ``[batch, nodes, width]`` in and out.

A node is whatever the graph connects: a time step, a patch of time, a series, a word.
"""

from .adjacency import Adjacency, DynamicAdjacency, MixedAdjacency, StaticAdjacency
from .autoformer import AutoformerBlock
from .convert import to_fighter
from .encoder import FighterEncoder
from .gcn import FlexibleGCN
from .gfsa import GFSABlock
from .informer import InformerBlock
from .layer import FighterLayer
from .reformer import ReformerBlock, ReformerEncoder
from .transformer import TransformerEncoder

__all__ = [
    "Adjacency",
    "AutoformerBlock",
    "DynamicAdjacency",
    "FighterEncoder",
    "FighterLayer",
    "FlexibleGCN",
    "GFSABlock",
    "InformerBlock",
    "MixedAdjacency",
    "ReformerBlock",
    "ReformerEncoder",
    "StaticAdjacency",
    "TransformerEncoder",
    "to_fighter",
]
