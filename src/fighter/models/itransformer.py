"""iTransformer (Liu et al., 2024): series as the tokens of a Transformer.

A node is a series with its whole look-back, embedded by one linear map. Attention is between
series, and one linear map leads from the encoder to the horizon. Series have no position, so any
number of them can be forecast.

Where this departs from the paper: blocks are pre-norm, as in the other networks compared, not
post-norm. Calendar features are added to every series; the paper makes them nodes of their own.
Windows are normalised by :class:`~fighter.models.ForecastNet`, as around every network.
"""

from dataclasses import dataclass

from torch import nn

from .base import Context, Core, HopConfig, Outputs, Past, Task
from .embedding import add_context, context_map
from .transformer import pre_norm_encoder


class ITransformerNet(Core):
    """Series as nodes of a Transformer encoder."""

    series_specific = False
    nodes = "series"

    def __init__(self, task: Task, config: "ITransformer"):
        super().__init__(task, config)
        width = config.width
        self.embed = nn.Linear(task.lookback, width)
        self.context = context_map(task.context, width)
        self.encoder = pre_norm_encoder(width, layers=config.layers, **config.block)
        self.head = nn.Linear(width, task.horizon * task.outputs)

    def forward(self, past: Past, context: Context | None = None) -> Outputs:
        """Forecast."""
        x = add_context(self.embed(past.transpose(1, 2)), self.context, context)  # [B, N, width]
        y = self.head(self.encoder(x)).unflatten(-1, (self.task.horizon, self.task.outputs))
        return y.transpose(1, 2)


@dataclass(frozen=True, kw_only=True)
class ITransformer(HopConfig):
    """iTransformer (Liu et al., 2024): attention between series.

    Args:
        hidden_width: width inside the feed-forward networks (default: the width).
    """

    name, column, network = "itransformer", "iTransformer", ITransformerNet
    expansion = 1
