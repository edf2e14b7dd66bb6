"""A stack of Fighter layers: the paper's Algorithm 1 in executable form."""

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, cast

import torch
from torch import Tensor, nn

from .._typing import Float
from ._checks import Nodes, check_widths, per_layer
from .adjacency import Adjacency
from .layer import FighterLayer


class FighterEncoder(nn.Module):
    """X⁽ˡ⁾ = layer_l(X⁽ˡ⁻¹⁾) for l = 1 … L; the last layer has no activation.

    With norm and residual each layer is pre-norm, X + σ(Σᵢ Aⁱ norm(X) Wᵢ + b). A layer whose input
    and output differ in width has no residual.

    Example:
        >>> import torch
        >>> from fighter.nn import FighterEncoder
        >>> encoder = FighterEncoder([7, 64, 64, 8], kappa=3, heads=4)  # widths h₀ … h_L
        >>> x = torch.randn(2, 96, 7)
        >>> encoder(x).shape, len(encoder.graphs(x))
        (torch.Size([2, 96, 8]), 3)

    Args:
        widths: h₀, h₁, …, h_L: the input width, then the width of each layer.
        kappa: κ of every layer, or one number per layer (default: 3).
        heads: heads of every layer, or one number per layer (default: 1).
        adjacency: a name, or a function from a layer's input width to an adjacency
            (default: "dynamic").
        norm, residual: as in :class:`~fighter.nn.FighterLayer` (default: True).
        activation: as in :class:`~fighter.nn.FighterLayer` (default: gelu).
        final_activation: whether the last layer has an activation too (default: False).
        options: further options of :class:`~fighter.nn.FighterLayer`, such as ``powers``, ``nodes``
            or ``dropout``.
    """

    def __init__(
        self,
        widths: Sequence[int],
        *,
        kappa: int | Sequence[int] = 3,
        heads: int | Sequence[int] = 1,
        adjacency: str | Callable[[int], Adjacency] = "dynamic",
        norm: bool = True,
        residual: bool = True,
        activation: str | nn.Module = "gelu",
        final_activation: bool = False,
        **options: Any,
    ):
        super().__init__()
        depth = check_widths(widths)
        kappas, head_counts = per_layer("kappa", kappa, depth), per_layer("heads", heads, depth)
        self.layers = nn.ModuleList(
            FighterLayer(
                wide,
                out,
                kappa=kappas[i],
                heads=head_counts[i],
                adjacency=adjacency if isinstance(adjacency, str) else adjacency(wide),
                norm=norm,
                residual=residual and wide == out,
                activation=activation if final_activation or i < depth - 1 else "identity",
                **options,
            )
            for i, (wide, out) in enumerate(pairwise(widths))
        )

    @classmethod
    def from_layers(cls, layers: Sequence[FighterLayer]) -> "FighterEncoder":
        """Build a stack from existing layers."""
        encoder = cls.__new__(cls)
        nn.Module.__init__(encoder)
        encoder.layers = nn.ModuleList(layers)
        return encoder

    def forward(self, x: Tensor, mask: Tensor | None = None, causal: bool = False) -> Nodes:
        """Map ``[batch, nodes, h₀]`` to ``[batch, nodes, h_L]``."""
        for layer in self.layers:
            x = layer(x, mask, causal)
        return x

    @torch.no_grad()
    def graphs(
        self, x: Tensor, *, power: int = 1, mask: Tensor | None = None, causal: bool = False
    ) -> list[Float[Tensor, "batch _ nodes nodes"]]:
        """Return A^power of each layer for the input ``x``, with one graph per head."""
        graphs = []
        for layer in cast(Iterable[FighterLayer], self.layers):
            graphs.append(layer.graph(x, power=power, mask=mask, causal=causal))
            x = layer(x, mask, causal)
        return graphs
