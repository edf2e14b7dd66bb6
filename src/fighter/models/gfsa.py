"""The Transformer over time steps with graph-filter attention in its blocks."""

from torch import nn

from ..nn import GFSABlock
from .core import Task
from .time_core import TimeCore


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
