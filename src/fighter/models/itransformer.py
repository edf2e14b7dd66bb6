"""iTransformer: series as the words of a Transformer."""

from torch import Tensor, nn

from .base import Core, Task
from .transformer import pre_norm_encoder


class ITransformer(Core):
    """A series with its whole look-back as a node, embedded by one linear map (Liu et al., 2024).

    Attention is between series, and what leaves the encoder goes to the horizon by one linear map.
    Series have no position, so any number of them can be served.

    The paper has post-norm blocks, here they are pre-norm, as in the other networks compared. It
    makes calendar features nodes of their own; here what is known of the moment is added to every
    series. Its normalisation of each window is not here: it belongs to
    :class:`~fighter.models.ForecastNet`, which does it around every network.

    Args:
        task: sizes.
        width, heads, layers, dropout: of the encoder.
        hidden_width: inside the feed-forward network; ``width`` unless given.
    """

    series_specific = False
    nodes = "series"

    def __init__(
        self,
        task: Task,
        width: int = 128,
        heads: int = 8,
        layers: int = 2,
        dropout: float = 0.1,
        hidden_width: int | None = None,
    ):
        super().__init__()
        self.task = task
        self.embed = nn.Linear(task.lookback, width)
        self.context = nn.Linear(task.context, width, bias=False) if task.context else None
        self.encoder = pre_norm_encoder(width, heads, layers, dropout, hidden_width or width)
        self.head = nn.Linear(width, task.horizon * task.outputs)

    def forward(self, past: Tensor, context: Tensor | None = None) -> Tensor:
        """``[batch, lookback, series]`` to ``[batch, horizon, series, outputs]``."""
        x = self.embed(past.transpose(1, 2))  # [B, N, width]
        if self.context is not None and context is not None:
            x = x + self.context(context)[:, None]
        y = self.head(self.encoder(x)).unflatten(-1, (self.task.horizon, self.task.outputs))
        return y.transpose(1, 2)
