"""NormLin: series that take from each other in learned, fixed proportions."""

import torch
from torch import Tensor, nn

from ..nn import FighterLayer, StaticAdjacency
from .base import Core, Task
from .embedding import TimeEmbedding, time_basis


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

    def forward(self, x: Tensor) -> Tensor:
        """``[batch, series, width]`` to the same."""
        x = self.norm1(self.mix(x))
        return self.norm2(x + self.feed(x))


class NormLin(Core):
    """A learned matrix between series in place of attention, after OLinear (Yue et al., 2025).

    .. code-block:: text

        X = flatten((x + before) Q ⊗ e) W + b       Q the time basis of the look-back
        X = norm(blocks(X))
        y = W₂ gelu(W₁ flatten((X U) Q'ᵀ + after))  Q' the time basis of the horizon

    One head, and post-norm, as the authors have it. ``before`` and ``after`` are a number per
    series and step, which start at zero.

    What differs: A moves ten times as fast as its parameter, as in every static graph here, and no
    dropout acts on it; dropout is before the last part instead of on the forecast itself. What is
    known of the moment (calendar) is added to every series. The normalisation of each window
    belongs to :class:`~fighter.models.ForecastNet`, which does it around every network.

    Args:
        task: sizes.
        width, layers, dropout: of the blocks.
        channels: size of the embedding vector e, and columns of U per step of the horizon.
        hidden_width: inside the feed-forward networks and before the forecast; ``width`` unless
            given.
    """

    basis: Tensor
    series_specific = True
    nodes = "series"
    alternative = 'model="itransformer", or "fighter" with adjacency="cosine"'

    def __init__(
        self,
        task: Task,
        width: int = 512,
        layers: int = 2,
        dropout: float = 0.1,
        channels: int = 16,
        hidden_width: int | None = None,
    ):
        super().__init__()
        hidden = hidden_width or width
        self.task = task
        self.embed = TimeEmbedding(task.lookback, width, channels)
        self.context = nn.Linear(task.context, width, bias=False) if task.context else None
        self.before = nn.Parameter(torch.zeros(task.series, task.lookback))
        self.encoder = nn.Sequential(
            *(NormLinBlock(width, task.series, hidden, dropout) for _ in range(layers)),
            nn.LayerNorm(width),
        )
        self.dropout = nn.Dropout(dropout)
        self.steps = nn.Linear(width, channels * task.horizon)
        self.after = nn.Parameter(torch.zeros(task.series, 1, task.horizon))
        self.head = nn.Sequential(
            nn.Linear(channels * task.horizon, hidden),
            nn.GELU(),
            nn.Linear(hidden, task.horizon * task.outputs),
        )
        self.register_buffer("basis", torch.eye(task.horizon))

    def prepare(self, correlation: Tensor) -> None:
        """Set the time bases of look-back and horizon."""
        self.embed.basis.copy_(time_basis(correlation, self.task.lookback))
        self.basis.copy_(time_basis(correlation, self.task.horizon))

    def forward(self, past: Tensor, context: Tensor | None = None) -> Tensor:
        """``[batch, lookback, series]`` to ``[batch, horizon, series, outputs]``."""
        task = self.task
        x = self.embed(past.transpose(1, 2) + self.before)  # [B, N, width]
        if self.context is not None and context is not None:
            x = x + self.context(context)[:, None]
        x = self.steps(self.dropout(self.encoder(x))).unflatten(-1, (-1, task.horizon))
        y = self.head((x @ self.basis.T + self.after).flatten(2))  # [B, N, H·outputs]
        return y.unflatten(-1, (task.horizon, task.outputs)).transpose(1, 2)
