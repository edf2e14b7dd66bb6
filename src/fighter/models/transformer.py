"""A Transformer encoder over time steps, as the paper compares with."""

from ..nn import TransformerEncoder
from .base import Task
from .time_core import TimeCore


def pre_norm_encoder(
    width: int, heads: int, layers: int, dropout: float, hidden_width: int
) -> TransformerEncoder:
    """The usual encoder: ``layers`` pre-norm blocks with residuals, a norm and a projection."""
    return TransformerEncoder(
        [width] * (layers + 2),
        heads=heads,
        hidden_width=hidden_width,
        norm=True,
        residual=True,
        activation="gelu",
        dropout=dropout,
    )


class Transformer(TimeCore):
    """Time steps as nodes: embedding and position, encoder blocks, linear maps to the horizon.

    Args:
        task: sizes.
        width, heads, layers, dropout: of the encoder.
        hidden_width: inside the feed-forward network; ``4 * width`` unless given.
    """

    def __init__(
        self,
        task: Task,
        width: int = 128,
        heads: int = 8,
        layers: int = 2,
        dropout: float = 0.1,
        hidden_width: int | None = None,
    ):
        super().__init__(
            task,
            width,
            lambda: pre_norm_encoder(width, heads, layers, dropout, hidden_width or 4 * width),
        )
