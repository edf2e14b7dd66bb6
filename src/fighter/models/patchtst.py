"""PatchTST: stretches of one series as the words of a Transformer."""

import torch
from torch import Tensor, nn

from ..errors import FighterError
from .base import Core, Task
from .transformer import pre_norm_encoder


class PatchTST(Core):
    """Patches of one series as nodes; series do not see each other (Nie et al., 2023).

    The end of the look-back is repeated for one stride, the whole cut into patches, each embedded
    by one linear map with a position added, and what leaves the encoder flattened into one linear
    map to the horizon. A patch is no longer than the look-back, a stride no longer than a patch.

    The paper has post-norm blocks with batch norm, here they are pre-norm with LayerNorm, as in the
    other networks compared. What is known of the moment (calendar) is added to every patch; the
    paper has none. Its normalisation of each window is not here: it belongs to
    :class:`~fighter.models.ForecastNet`, which does it around every network.

    Args:
        task: sizes.
        width, heads, layers, dropout: of the encoder; dropout also before the head.
        hidden_width: inside the feed-forward network; ``2 * width`` unless given.
        patch, stride: steps in a patch, and from one to the next.
    """

    series_specific = False
    nodes = "patch"

    def __init__(
        self,
        task: Task,
        width: int = 128,
        heads: int = 8,
        layers: int = 3,
        dropout: float = 0.1,
        hidden_width: int | None = None,
        patch: int = 16,
        stride: int = 8,
    ):
        super().__init__()
        if patch < 1 or stride < 1:
            raise FighterError(f"patch={patch}, stride={stride}: both need to be at least 1")
        self.task, self.patch = task, min(patch, task.lookback)
        self.stride = min(stride, self.patch)
        count = (task.lookback - self.patch) // self.stride + 2
        self.embed = nn.Linear(self.patch, width)
        self.position = nn.Parameter(0.02 * torch.randn(count, width))
        self.context = nn.Linear(task.context, width, bias=False) if task.context else None
        self.encoder = pre_norm_encoder(width, heads, layers, dropout, hidden_width or 2 * width)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(count * width, task.horizon * task.outputs)

    def forward(self, past: Tensor, context: Tensor | None = None) -> Tensor:
        """``[batch, lookback, series]`` to ``[batch, horizon, series, outputs]``."""
        task, series = self.task, past.shape[2]
        x = self.embed(self.patches(past)) + self.position  # [B, N, patches, width]
        if self.context is not None and context is not None:
            x = x + self.context(context)[:, None, None]
        x = self.dropout(self.encoder(x.flatten(0, 1)))
        y = self.head(x.flatten(1)).unflatten(-1, (task.horizon, task.outputs))
        return y.unflatten(0, (-1, series)).transpose(1, 2)

    def patches(self, past: Tensor) -> Tensor:
        """``[batch, series, patches, patch]``."""
        x = past.transpose(1, 2)
        x = torch.cat([x, x[..., -1:].expand(-1, -1, self.stride)], -1)
        return x.unfold(-1, self.patch, self.stride)
