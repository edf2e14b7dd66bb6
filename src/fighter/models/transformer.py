"""A Transformer encoder over time steps (Vaswani et al., 2017), as the paper compares with.

Where this departs from the paper of Vaswani et al.: there is no decoder, the blocks are pre-norm
with GELU, positions are learned, and the horizon is a linear map of the encoded look-back.
"""

from abc import ABC
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn

from ..nn import TransformerEncoder
from ..nn._checks import Nodes
from .base import AttentionConfig, Context, Core, ModelConfig, Outputs, Past, Task, value_or
from .embedding import add_context, context_map

PRE_NORM: dict[str, Any] = {"norm": True, "residual": True, "activation": "gelu"}


class TimeCore(Core, ABC):
    """Time steps as nodes: embedding and position, an encoder, linear maps to the horizon.

    ``make_encoder`` makes a module from ``[batch, lookback, width]`` to the same shape.
    """

    series_specific = True
    nodes = "time"

    def __init__(
        self, task: Task, config: ModelConfig, width: int, make_encoder: Callable[[], nn.Module]
    ):
        super().__init__(task, config)
        self.embed = nn.Linear(task.series, width)
        self.position = nn.Parameter(0.02 * torch.randn(task.lookback, width))
        self.context = context_map(task.context, width)
        self.encoder = make_encoder()
        self.over_time = nn.Linear(task.lookback, task.horizon)
        self.head = nn.Linear(width, task.series * task.outputs)

    def forward(self, past: Past, context: Context | None = None) -> Outputs:
        """Forecast."""
        return self.readout(self.encoder(self.node_features(past, context)))

    def node_features(self, past: Past, context: Context | None) -> Nodes:
        """Embed the time steps."""
        return add_context(self.embed(past) + self.position, self.context, context)

    def readout(self, x: Nodes) -> Outputs:
        """Map the encoded time steps to the forecast."""
        y = self.over_time(x.transpose(1, 2)).transpose(1, 2)
        return self.head(y).unflatten(-1, (self.task.series, self.task.outputs))


def pre_norm_encoder(width: int, layers: int, **block: Any) -> TransformerEncoder:
    """Build the usual encoder: pre-norm blocks with residuals, a norm and a projection."""
    return TransformerEncoder([width] * (layers + 2), **PRE_NORM, **block)


class TransformerNet(TimeCore):
    """Time steps as nodes of a Transformer encoder."""

    def __init__(self, task: Task, config: "Transformer"):
        width, dropout = value_or(config.width, 128), value_or(config.dropout, 0.1)
        hidden_width = config.hidden_width or config.expansion * width
        block = {"heads": config.heads, "hidden_width": hidden_width, "dropout": dropout}
        encoder = partial(pre_norm_encoder, width, config.layers, **block)
        super().__init__(task, config, width, encoder)


@dataclass(frozen=True, kw_only=True)
class Transformer(AttentionConfig):
    """Transformer encoder over time steps (Vaswani et al., 2017).

    Args:
        width: width of a node (default: chosen from the size of the data).
        dropout: dropout in the blocks (default: chosen from the size of the data).
    """

    name, column, network = "transformer", "Transformer", TransformerNet

    width: int | None = None
    dropout: float | None = None
