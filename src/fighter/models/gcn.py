"""Graph convolution over time steps on a fixed graph of lags (paper Eq. 1).

The network around the convolutions is the Transformer's, so the only difference from Fighter over
time steps is the graph: fixed here, drawn from the input there. As in Eq. 1 there are no norms,
residuals or biases.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from .._typing import Float
from ..nn import FlexibleGCN
from ..nn._checks import Nodes
from .base import ModelConfig, Task
from .transformer import TimeCore


def lag_graph(steps: int, lags: int, period: int | None = None) -> Float[Tensor, "{steps} {steps}"]:
    """Return the graph in which step t looks at t-1, …, t-lags and t-period with equal weights.

    The first step has none before it and looks at itself, so that every row sums to 1.
    """
    t = torch.arange(steps)
    lag = t[:, None] - t
    edges = (lag >= 1) & (lag <= lags) | (lag == (period or 1))
    edges[0, 0] = True
    return edges / edges.sum(1, keepdim=True)


class LagConvolution(nn.Module):
    """A GCN together with its fixed graph."""

    graph: Tensor

    def __init__(self, gcn: FlexibleGCN, graph: Float[Tensor, "nodes nodes"], dropout: float):
        super().__init__()
        self.gcn, self.dropout = gcn, nn.Dropout(dropout)
        self.register_buffer("graph", graph, persistent=False)

    def forward(self, x: Nodes) -> Nodes:
        """Convolve the nodes on the graph."""
        return self.dropout(self.gcn(x, self.graph))


class GCNNet(TimeCore):
    """X⁽ˡ⁾ = σ(Σᵢ Aⁱ X⁽ˡ⁻¹⁾ Wᵢ) with A the lag graph, then X W; ``task.period`` is the long lag."""

    def __init__(self, task: Task, config: "GCN"):
        width, layers = config.width, config.layers
        graph = lag_graph(task.lookback, config.lags, task.period)

        def encoder() -> nn.Module:
            gcn = FlexibleGCN([width] * (layers + 2), kappa=[config.kappa] * layers + [1])
            return LagConvolution(gcn, graph, config.dropout)

        super().__init__(task, config, width, encoder)


@dataclass(frozen=True, kw_only=True)
class GCN(ModelConfig):
    """Graph convolution over time steps on a fixed graph of lags.

    Args:
        width: width of a node.
        layers: number of convolutions before the final projection.
        kappa: number of blocks κ, the powers 0 … κ-1 of the graph.
        lags: short lags of the graph, 1 to this number.
        dropout: dropout after the convolutions.
    """

    name, column, network = "gcn", "GCN", GCNNet

    width: int = 128
    layers: int = 1
    kappa: int = 3
    lags: int = 3
    dropout: float = 0.1
