"""The Transformer over time steps with graph-filter attention, after GFSA (Choi et al., 2024).

Where this departs from the paper: Choi et al. put their filter into existing networks in place of
attention; here the network around it is the one of :mod:`fighter.models.transformer`.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from ..errors import check_count
from ..hops import Hop, horner
from ..nn._checks import Heads
from ..nn.transformer import TransformerBlock
from .base import BlockConfig, Task
from .transformer import PRE_NORM, TimeCore


class GFSABlock(TransformerBlock):
    """A Transformer block whose attention is a filter of the graph A that it draws.

    .. code-block:: text

        H V = (w₀ I + w₁ A + w_K Ā) V,    Ā = A + (K-1)(A² - A)   for A^K, to first order
            = w₀ V + A((w₁ - (K-2) w_K) V + A((K-1) w_K V))       so A² is never formed

    The weights are one number per head. They start at w₀ = 0, w₁ = 1, w_K = 0, plain attention, and
    are not bounded: H need not be row-stochastic. For every K the first-order form lies in the span
    of I, A and A². ``power`` is K, at least 2.
    """

    def __init__(self, width: int, *, power: int = 3, **options: Any):
        super().__init__(width, width, **PRE_NORM | options)
        self.power = check_count("power", power, least=2)
        start = torch.tensor([0.0, 1.0, 0.0])[:, None, None, None]
        self.weights = nn.Parameter(start.repeat(1, self.heads, 1, 1))  # w₀, w₁, w_K

    def attend(self, hop: Hop, v: Heads) -> Heads:
        """Return (w₀I + w₁A + w_K A^K) V, computed by two hops."""
        w0, w1, w = self.weights.to(v.dtype)
        blocks = [w0 * v, (w1 - (self.power - 2) * w) * v, (self.power - 1) * w * v]
        return horner(hop, blocks, (0, 1, 2))


class GFSANet(TimeCore):
    """Time steps as nodes of a Transformer encoder with :class:`GFSABlock`."""

    def __init__(self, task: Task, config: "GFSA"):
        width = config.width

        def encoder() -> nn.Module:
            options = {"power": config.power, **config.block}
            blocks = (GFSABlock(width, **options) for _ in range(config.layers))
            return nn.Sequential(*blocks, nn.LayerNorm(width), nn.Linear(width, width))

        super().__init__(task, config, width, encoder)


@dataclass(frozen=True, kw_only=True)
class GFSA(BlockConfig):
    """Transformer encoder with graph-filter attention (GFSA, Choi et al., 2024).

    Args:
        layers: number of blocks (default: 1).
        power: K, the power of the graph that the filter approximates, at least 2 (default: 3).
    """

    name, column, network = "gfsa", "GFSA", GFSANet

    layers: int = 1
    power: int = 3

    def __post_init__(self) -> None:
        """Check the values."""
        super().__post_init__()
        check_count("power", self.power, least=2)
