"""The multi-hop operator Σᵢ Aⁱ Pᵢ with A = softmax(scale·QKᵀ), and nothing else."""

from .attention import adjacency, attention_hop, hidden_nodes, masked_softmax
from .checks import (
    Backend,
    check_backend,
    check_mask,
    check_powers,
    check_rows,
    check_scale,
    describe,
)
from .operator import hop_features, multi_hop
from .walk import Hop, explicit_hop, horner, recursion

__all__ = [
    "Backend",
    "Hop",
    "adjacency",
    "attention_hop",
    "check_backend",
    "check_mask",
    "check_powers",
    "check_rows",
    "check_scale",
    "describe",
    "explicit_hop",
    "hidden_nodes",
    "hop_features",
    "horner",
    "masked_softmax",
    "multi_hop",
    "recursion",
]
