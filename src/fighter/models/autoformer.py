"""Autoformer (Wu et al., 2021) as a forecaster: their Eq. 2 around the blocks of Eq. 3 and 4.

Where the blocks differ from theirs on purpose is said in :mod:`fighter.nn.autoformer`. Around them:
steps are embedded by a linear map with learned positions (theirs have none), the look-back is
decomposed whole before its last steps are taken, as in their code, so that only its two ends are
filled in, and the calendar is told once, for the moment of the forecast.
"""

from collections.abc import Iterable
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..nn.autoformer import AutoformerBlock, AutoformerDecoderBlock, SeasonalNorm, decompose
from .core import Core, Task
from .seq2seq import StepEmbedding, label_steps


class Autoformer(Core):
    """Auto-correlation in place of attention, and a trend that grows from block to block.

    .. code-block:: text

        S, T = decompose(past), their last label steps
        M = encoder(embed(past))
        X, T′ = decoder(embed([S, horizon zeros]), M)
        forecast = X W + [T, the past's mean] + T′, its last steps

    The encoder is not told the calendar: what is the same at all steps leaves with the trend. In
    the decoder, which keeps the trend, it moves the level of the forecast.

    Args:
        task: sizes.
        width, dropout: of all blocks.
        heads: taken as by the other models; the delays are shared by all heads, so the number
            makes no difference.
        layers, decoder_layers: number of blocks.
        hidden_width: inside the feed-forward networks; ``4 * width`` unless given.
        label: known steps that the decoder begins with; half the look-back unless given.
        factor: c in the number of delays ⌊c · ln S⌋.
        kernel: steps in the moving average.
    """

    tied = True
    remedy = 'model="fighter" with adjacency="cosine"'

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
        factor: float = 3.0,
        kernel: int = 25,
    ):
        super().__init__()
        del heads
        hidden, out = hidden_width or 4 * width, task.series * task.outputs
        self.task, self.label, self.kernel = task, label_steps(label, task.lookback), kernel
        steps = self.label + task.horizon
        self.embed = StepEmbedding(task.series, task.lookback, width, 0)
        self.embed_decoder = StepEmbedding(task.series, steps, width, task.context)
        self.encoder = nn.Sequential(
            *(
                AutoformerBlock(
                    width, hidden_width=hidden, dropout=dropout, factor=factor, kernel=kernel
                )
                for _ in range(layers)
            ),
            SeasonalNorm(width),
        )
        self.decoder = nn.ModuleList(
            AutoformerDecoderBlock(
                width, out, hidden_width=hidden, dropout=dropout, factor=factor, kernel=kernel
            )
            for _ in range(decoder_layers)
        )
        self.norm = SeasonalNorm(width)
        self.head = nn.Linear(width, out)

    def forward(self, past: Tensor, context: Tensor | None = None) -> Tensor:
        """``[batch, lookback, series]`` to ``[batch, horizon, series, outputs]``."""
        task = self.task
        memory = self.encoder(self.embed(past))
        seasonal, trend = (part[:, -self.label :] for part in decompose(past, self.kernel))
        mean = past.mean(1, keepdim=True).expand(-1, task.horizon, -1)
        trend = torch.cat([trend, mean], 1).repeat_interleave(task.outputs, -1)
        y = self.embed_decoder(F.pad(seasonal, (0, 0, 0, task.horizon)), context)
        for block in cast(Iterable[AutoformerDecoderBlock], self.decoder):
            y, more = block(y, memory)
            trend = trend + more
        y = (self.head(self.norm(y)) + trend)[:, -task.horizon :]
        return y.unflatten(-1, (task.series, task.outputs))
