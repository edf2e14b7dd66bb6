"""PatchTST (Nie et al., 2023): patches of one series as the tokens of a Transformer.

The last value of the look-back is repeated for one stride, the whole is cut into patches, each
patch is embedded by one linear map with a position added, and the flattened output of the encoder
is mapped linearly to the horizon. Series do not see each other.

Where this departs from the paper: blocks are pre-norm with LayerNorm, as in the other networks
compared, not post-norm with batch norm. Calendar features are added to every patch; the paper has
none. Windows are normalised by :class:`~fighter.models.ForecastNet`, as around every network.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from .._typing import Float
from .base import Context, Core, HopConfig, Outputs, Past, Task
from .embedding import add_context, context_map
from .transformer import pre_norm_encoder


class PatchTSTNet(Core):
    """Patches of one series as nodes of a Transformer encoder."""

    series_specific = False
    series_apart = True
    nodes = "patch"

    def __init__(self, task: Task, config: "PatchTST"):
        super().__init__(task, config)
        width = config.width
        self.patch = min(config.patch, task.lookback)
        self.stride = min(config.stride, self.patch)
        count = (task.lookback - self.patch) // self.stride + 2
        self.embed = nn.Linear(self.patch, width)
        self.position = nn.Parameter(0.02 * torch.randn(count, width))
        self.context = context_map(task.context, width)
        self.encoder = pre_norm_encoder(width, layers=config.layers, **config.block)
        self.dropout = nn.Dropout(config.dropout)
        self.head = nn.Linear(count * width, task.horizon * task.outputs)

    def forward(self, past: Past, context: Context | None = None) -> Outputs:
        """Forecast."""
        x = self.embed(self.patches(past)) + self.position  # [B, N, patches, width]
        x = add_context(x, self.context, context)
        x = self.dropout(self.encoder(x.flatten(0, 1)))
        y = self.head(x.flatten(1)).unflatten(-1, (self.task.horizon, self.task.outputs))
        return y.unflatten(0, (-1, past.shape[2])).transpose(1, 2)

    def patches(self, past: Past) -> Float[Tensor, "batch series patches patch"]:
        """Cut the look-back of each series into overlapping patches."""
        x = past.transpose(1, 2)
        x = torch.cat([x, x[..., -1:].expand(-1, -1, self.stride)], -1)
        return x.unfold(-1, self.patch, self.stride)


@dataclass(frozen=True, kw_only=True)
class PatchTST(HopConfig):
    """PatchTST (Nie et al., 2023): attention between patches of one series.

    Args:
        layers: number of blocks (default: 3).
        hidden_width: width inside the feed-forward networks (default: twice the width).
        patch: steps in a patch, at most the look-back (default: 16).
        stride: steps from one patch to the next, at most a patch (default: 8).
    """

    name, column, network = "patchtst", "PatchTST", PatchTSTNet
    expansion = 2

    layers: int = 3
    patch: int = 16
    stride: int = 8
