"""The Transformer over time steps with graph-filter attention in its blocks.

Attention as a graph filter of low order, after GFSA (Choi et al., 2024).
"""

import torch
from torch import Tensor, nn

from ..errors import FighterError
from ..hops import Hop, horner
from ..nn.transformer import TransformerBlock
from .base import Task
from .time_core import TimeCore


class GFSABlock(TransformerBlock):
    """A Transformer block whose attention is a filter of the graph A that it draws.

    .. code-block:: text

        H V = (w₀ I + w₁ A + w_K Ā) V,    Ā = A + (K-1)(A² - A)   for A^K, to first order
            = w₀ V + A((w₁ - (K-2) w_K) V + A((K-1) w_K V))       so A² is never formed

    The weights are one number per head. They start at w₀ = 0, w₁ = 1, w_K = 0, plain attention, and
    are not bounded: H need not be row-stochastic.

    Args:
        width, heads, hidden_width, activation, dropout, norm, residual, bias, scale: as in
            :class:`~fighter.nn.TransformerEncoder`.
        power: K, at least 2. The first-order form lies in the span of I, A and A² for every K.

    """

    def __init__(
        self,
        width: int,
        *,
        heads: int,
        hidden_width: int,
        power: int = 3,
        norm: bool = True,
        residual: bool = True,
        activation: str | nn.Module = "gelu",
        dropout: float = 0.0,
        bias: bool = True,
        scale: float | None = None,
    ):
        super().__init__(
            width,
            width,
            query_width=width,
            value_width=width,
            heads=heads,
            hidden_width=hidden_width,
            norm=norm,
            residual=residual,
            activation=activation,
            dropout=dropout,
            bias=bias,
            scale=scale,
        )
        if isinstance(power, bool) or not isinstance(power, int) or power < 2:
            raise FighterError(f"power={power!r}: needs a whole number ≥ 2, the K of A^K")
        self.power = power
        start = torch.tensor([0.0, 1.0, 0.0])
        self.weights = nn.Parameter(start[:, None, None, None].repeat(1, heads, 1, 1))  # w₀ w₁ w_K

    def attend(self, hop: Hop, v: Tensor) -> Tensor:
        """(w₀I + w₁A + w_K A^K) V, by two hops."""
        w0, w1, w = self.weights.to(v.dtype)
        blocks = [w0 * v, (w1 - (self.power - 2) * w) * v, (self.power - 1) * w * v]
        return horner(hop, blocks, (0, 1, 2))


class GFSA(TimeCore):
    """As :class:`~fighter.models.transformer.Transformer`, with :class:`~fighter.nn.GFSABlock`.

    The filter w₀I + w₁A + w_K(A + (K-1)(A² - A)) is that of Choi et al. (2024), who put it into
    existing networks in place of attention; the network around it is the one compared with here.

    Args:
        task: sizes.
        width, heads, layers, dropout: of the encoder.
        hidden_width: inside the feed-forward network; ``4 * width`` unless given.
        power: K.
    """

    def __init__(
        self,
        task: Task,
        width: int = 128,
        heads: int = 8,
        layers: int = 1,
        dropout: float = 0.1,
        hidden_width: int | None = None,
        power: int = 3,
    ):
        def block() -> GFSABlock:
            return GFSABlock(
                width,
                heads=heads,
                hidden_width=hidden_width or 4 * width,
                power=power,
                dropout=dropout,
            )

        super().__init__(
            task,
            width,
            lambda: nn.Sequential(
                *(block() for _ in range(layers)), nn.LayerNorm(width), nn.Linear(width, width)
            ),
        )
