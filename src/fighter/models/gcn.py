"""Graph convolution over time steps on a graph of lags that is fixed: what attention must beat."""

import torch
from torch import Tensor, nn

from .._typing import Float
from ..errors import FighterError
from ..nn import FlexibleGCN
from .base import Task
from .time_core import TimeCore


def lag_graph(steps: int, lags: int, period: int | None = None) -> Float[Tensor, "steps steps"]:
    """Step t looks at t-1, …, t-lags and t-period, as far as they exist, at each alike.

    The first step has nothing before it and looks at itself, so that every row sums to 1.
    """
    t = torch.arange(steps)
    lag = t[:, None] - t
    edges = (lag >= 1) & (lag <= lags) | (lag == (period or 1))
    edges[0, 0] = True
    return edges / edges.sum(1, keepdim=True)


class GCN(TimeCore):
    """X⁽ˡ⁾ = σ(Σᵢ Aⁱ X⁽ˡ⁻¹⁾ Wᵢ) with A the lag graph (paper Eq. 1), then X W.

    The network around it is that of :class:`~fighter.models.transformer.Transformer`, so what
    differs from Fighter over time steps is the graph alone: given here, drawn there. As Eq. 1 has
    it there are no norms, residuals or biases.

    Args:
        task: sizes; ``task.period`` is the long lag.
        width: width of a node.
        layers: convolutions, beside the projection at the end.
        kappa: number of blocks κ, the powers 0 … κ-1 of A.
        lags: short lags, 1 to ``lags``.
        dropout: after the convolutions.
    """

    def __init__(
        self,
        task: Task,
        width: int = 128,
        layers: int = 1,
        kappa: int = 3,
        lags: int = 3,
        dropout: float = 0.1,
    ):
        if lags < 1:
            raise FighterError(f"lags={lags}: needs at least 1, the step before")
        super().__init__(
            task,
            width,
            lambda: LagConvolution(
                FlexibleGCN([width] * (layers + 2), kappa=[kappa] * layers + [1]),
                lag_graph(task.lookback, lags, task.period),
                dropout,
            ),
        )


class LagConvolution(nn.Module):
    """A GCN together with the graph that it is always given."""

    graph: Tensor

    def __init__(self, gcn: FlexibleGCN, graph: Tensor, dropout: float):
        super().__init__()
        self.gcn, self.dropout = gcn, nn.Dropout(dropout)
        self.register_buffer("graph", graph, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """``[batch, nodes, width]`` to the same."""
        return self.dropout(self.gcn(x, self.graph))
