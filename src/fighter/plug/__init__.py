"""Further hops for models that exist already: torch's attention and Hugging Face transformers.

:func:`replace_attention` gives the self-attention of a model more powers of its graph A. The model
computes the same as before, and training does the rest. :func:`graphs` reads what came of it.
"""

from .read import AttentionGraph, graphs
from .replace import hop_weights, load_hop_weights, replace_attention, restore_attention

__all__ = [
    "AttentionGraph", "graphs", "hop_weights", "load_hop_weights", "replace_attention",
    "restore_attention",
]  # fmt: skip
