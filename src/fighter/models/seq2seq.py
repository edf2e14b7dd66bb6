"""An encoder and a decoder over time steps: the Transformer as long-horizon forecasting uses it.

The blocks are those of Vaswani et al. (2017), see :mod:`fighter.nn.seq2seq`; that the decoder
gives all steps in one pass is from Zhou et al. (2021), their Eq. 6. On purpose otherwise: positions
are learned, a step is embedded by a linear map and not by a convolution over three, and the
calendar is told once, for the moment of the forecast, and not for every step.
"""

from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import FighterError
from ..nn.seq2seq import DecoderBlock, EncoderBlock
from .core import Core, Task


class StepEmbedding(nn.Module):
    """All series of a step as one vector, with its position and the moment of the forecast.

    There is no bias: it would be a part of the positions.
    """

    def __init__(self, series: int, steps: int, width: int, context: int):
        super().__init__()
        self.values = nn.Linear(series, width, bias=False)
        self.position = nn.Parameter(0.02 * torch.randn(steps, width))
        self.context = nn.Linear(context, width, bias=False) if context else None

    def forward(self, x: Tensor, context: Tensor | None = None) -> Tensor:
        """``[batch, steps, series]`` to ``[batch, steps, width]``."""
        x = self.values(x) + self.position
        if self.context is not None and context is not None:
            x = x + self.context(context)[:, None]
        return x


def label_steps(label: int | None, lookback: int) -> int:
    """How many known steps the decoder begins with: half the look-back unless given."""
    if label is None:
        return max(lookback // 2, 1)
    if isinstance(label, bool) or not isinstance(label, int) or not 1 <= label <= lookback:
        raise FighterError(
            f"label={label!r}: needs a whole number from 1 to lookback {lookback}, "
            "the known steps that the decoder begins with"
        )
    return label


class EncoderDecoder(Core):
    """What :class:`Seq2Seq` and :class:`Informer` share; they differ in their blocks.

    .. code-block:: text

        M = encoder(embed(past))
        forecast = decoder(embed([last label steps of the past, horizon zeros]), M), its last steps

    Args:
        task: sizes.
        width: width of a node.
        encoder: modules of ``x``, one after the other.
        decoder: modules of ``x`` and the encoder's output, one after the other.
        label: known steps that the decoder begins with; half the look-back unless given.
    """

    tied = True
    remedy = 'model="fighter" with adjacency="cosine"'

    def __init__(
        self,
        task: Task,
        width: int,
        encoder: Iterable[nn.Module],
        decoder: Iterable[nn.Module],
        label: int | None,
    ):
        super().__init__()
        self.task, self.label = task, label_steps(label, task.lookback)
        steps = self.label + task.horizon
        self.embed = StepEmbedding(task.series, task.lookback, width, task.context)
        self.embed_decoder = StepEmbedding(task.series, steps, width, task.context)
        self.encoder = nn.Sequential(*encoder, nn.LayerNorm(width))
        self.decoder = nn.ModuleList(decoder)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, task.series * task.outputs)

    def forward(self, past: Tensor, context: Tensor | None = None) -> Tensor:
        """``[batch, lookback, series]`` to ``[batch, horizon, series, outputs]``."""
        horizon = self.task.horizon
        memory = self.encoder(self.embed(past, context))
        y = self.embed_decoder(F.pad(past[:, -self.label :], (0, 0, 0, horizon)), context)
        for block in self.decoder:
            y = block(y, memory)
        y = self.head(self.norm(y[:, -horizon:]))
        return y.unflatten(-1, (self.task.series, self.task.outputs))


class Seq2Seq(EncoderDecoder):
    """An encoder and a decoder with full attention.

    Args:
        task: sizes.
        width, heads, dropout: of all blocks.
        layers, decoder_layers: number of blocks.
        hidden_width: inside the feed-forward networks; ``4 * width`` unless given.
        label: known steps that the decoder begins with; half the look-back unless given.
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
    ):
        hidden = hidden_width or 4 * width

        def block(kind: type[nn.Module]) -> nn.Module:
            return kind(width, heads=heads, hidden_width=hidden, dropout=dropout)

        encoder = [block(EncoderBlock) for _ in range(layers)]
        decoder = [block(DecoderBlock) for _ in range(decoder_layers)]
        super().__init__(task, width, encoder, decoder, label)
