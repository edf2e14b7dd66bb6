"""Informer (Zhou et al., 2021) as a forecaster."""

from torch import nn

from ..nn.informer import Distil, InformerBlock, ProbSparse
from ..nn.seq2seq import DecoderBlock
from .core import Task
from .seq2seq import EncoderDecoder


class Informer(EncoderDecoder):
    """ProbSparse attention in encoder and decoder, half the steps after each encoder block.

    Which equations it follows, and where not, is said in :mod:`fighter.nn.informer` and
    :mod:`fighter.models.seq2seq`. Distilling lies between blocks: with ``layers=1`` there is none.
    The decoder looks at itself sparsely and causally, at the encoder's output in full.

    Args:
        task: sizes.
        width, heads, dropout: of all blocks.
        layers, decoder_layers: number of blocks.
        hidden_width: inside the feed-forward networks; ``4 * width`` unless given.
        label: known steps that the decoder begins with; half the look-back unless given.
        factor: c in u = c · ln S, the number of queries that get full attention.
        distil: whether steps are halved between encoder blocks.
    """

    def __init__(
        self,
        task: Task,
        width: int = 128,
        heads: int = 8,
        layers: int = 2,
        decoder_layers: int = 1,
        dropout: float = 0.1,
        hidden_width: int | None = None,
        label: int | None = None,
        factor: float = 5.0,
        distil: bool = True,
    ):
        hidden = hidden_width or 4 * width
        encoder: list[nn.Module] = []
        for i in range(layers):
            if i and distil:
                encoder.append(Distil(width))
            encoder.append(
                InformerBlock(
                    width, heads=heads, hidden_width=hidden, dropout=dropout, factor=factor
                )
            )
        decoder = [
            DecoderBlock(
                width,
                heads=heads,
                hidden_width=hidden,
                dropout=dropout,
                attend=ProbSparse(factor),
            )
            for _ in range(decoder_layers)
        ]
        super().__init__(task, width, encoder, decoder, label)
