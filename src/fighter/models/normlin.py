"""NormLin (OLinear, Yue et al., 2025): series mix in learned proportions, the same for every input.

.. code-block:: text

    X = flatten((x + before) Q ⊗ e) W + b       Q the time basis of the look-back
    X = norm(blocks(X))
    y = W₂ gelu(W₁ flatten((X U) Q'ᵀ + after))  Q' the time basis of the horizon

Blocks have one head and are post-norm, as in the paper. ``before`` and ``after`` are one number per
series and step, which start at zero.

Where this departs from the paper: A moves ten times as fast as its parameter, as in every static
graph here, and has no dropout; there is dropout before the head instead of on the forecast.
Calendar features are added to every series. Windows are normalised by
:class:`~fighter.models.ForecastNet`, as around every network.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from .._typing import Float
from ..nn import FighterLayer, StaticAdjacency
from ..nn._checks import Nodes
from .base import Context, Core, ModelConfig, Outputs, Past, Task
from .embedding import TimeEmbedding, add_context, context_map, feed_forward, time_basis


class NormLinBlock(nn.Module):
    """X ← norm(X + A X V O + b), then X ← norm(X + W₂ gelu(W₁ X)).

    A = softplus(10 Z) / row sums is learned and the same for every input; Z starts as noise with
    more weight on each series itself.
    """

    def __init__(self, width: int, series: int, hidden_width: int, dropout: float):
        super().__init__()
        graph = StaticAdjacency(series)
        with torch.no_grad():
            graph.logits.add_(torch.eye(series) / graph.gain)
        self.mix = FighterLayer(
            width,
            powers=(1,),
            adjacency=graph,
            mix_heads=True,
            residual=True,
            activation="identity",
            dropout=dropout,
        )
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.feed = nn.Sequential(
            nn.Linear(width, hidden_width),
            nn.GELU(),
            nn.Dropout(dropout),
            nn.Linear(hidden_width, width),
            nn.Dropout(dropout),
        )

    def forward(self, x: Nodes) -> Nodes:
        """Mix the series, then transform each by itself."""
        x = self.norm1(self.mix(x))
        return self.norm2(x + self.feed(x))


class NormLinNet(Core):
    """A learned matrix between series in place of attention."""

    basis: Tensor
    series_specific = True
    nodes = "series"
    alternative = "iTransformer, or Fighter with a cosine adjacency"

    def __init__(self, task: Task, config: "NormLin"):
        super().__init__(task, config)
        width, channels, dropout = config.width, config.channels, config.dropout
        hidden = config.hidden_width or width
        self.embed = TimeEmbedding(task.lookback, width, channels)
        self.context = context_map(task.context, width)
        self.before = nn.Parameter(torch.zeros(task.series, task.lookback))
        sizes = width, task.series, hidden, dropout
        blocks = (NormLinBlock(*sizes) for _ in range(config.layers))
        self.encoder = nn.Sequential(*blocks, nn.LayerNorm(width))
        self.dropout = nn.Dropout(dropout)
        self.steps = nn.Linear(width, channels * task.horizon)
        self.after = nn.Parameter(torch.zeros(task.series, 1, task.horizon))
        self.head = feed_forward(channels * task.horizon, hidden, task.horizon * task.outputs)
        self.register_buffer("basis", torch.eye(task.horizon))

    def prepare(self, correlation: Float[Tensor, "lags"]) -> None:
        """Set the time bases of look-back and horizon."""
        self.embed.basis.copy_(time_basis(correlation, self.task.lookback))
        self.basis.copy_(time_basis(correlation, self.task.horizon))

    def forward(self, past: Past, context: Context | None = None) -> Outputs:
        """Forecast."""
        task = self.task
        x = self.embed(past.transpose(1, 2) + self.before)  # [B, N, width]
        x = add_context(x, self.context, context)
        x = self.steps(self.dropout(self.encoder(x))).unflatten(-1, (-1, task.horizon))
        y = self.head((x @ self.basis.T + self.after).flatten(2))  # [B, N, H·outputs]
        return y.unflatten(-1, (task.horizon, task.outputs)).transpose(1, 2)


@dataclass(frozen=True, kw_only=True)
class NormLin(ModelConfig):
    """A learned matrix between series in place of attention (OLinear, Yue et al., 2025).

    Args:
        width: width of a node (default: 512).
        layers: number of blocks (default: 2).
        dropout: dropout in the blocks and before the head (default: 0.1).
        channels: size of the embedding vector e, and columns of U per step of the horizon
            (default: 16).
        hidden_width: width inside the feed-forward networks and the head (default: the width).
    """

    name, column, network = "normlin", "NormLin", NormLinNet

    width: int = 512
    layers: int = 2
    dropout: float = 0.1
    channels: int = 16
    hidden_width: int | None = None
