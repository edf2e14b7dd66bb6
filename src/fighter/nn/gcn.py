"""Graph convolution on a given graph (paper Eq. 1)."""

from collections.abc import Sequence
from itertools import pairwise
from math import comb

import torch
from torch import Tensor, nn

from .._typing import Float
from ..errors import FighterError, check_count
from ..hops import describe, explicit_hop, horner
from ._checks import check_widths, make_activation, per_layer


class FlexibleGCN(nn.Module):
    """X⁽ˡ⁾ = σ(A^[κ] blkdiag(X⁽ˡ⁻¹⁾; κ) W⁽ˡ⁾) = σ(Σᵢ Aⁱ X⁽ˡ⁻¹⁾ Wᵢ); no σ in the last layer.

    Example:
        >>> import torch
        >>> from fighter.nn import FlexibleGCN
        >>> ring = torch.eye(6).roll(1, 0)
        >>> FlexibleGCN([4, 16, 2], kappa=3)(torch.randn(6, 4), ring).shape
        torch.Size([6, 2])

    Args:
        widths: h₀, h₁, …, h_L.
        kappa: number of blocks, the powers 0 … κ-1; one number, or one per layer (default: 2).
        activation: as in :class:`~fighter.nn.FighterLayer` (default: relu).
        bias: add a bias after each sum; the paper has none (default: False).
    """

    def __init__(
        self,
        widths: Sequence[int],
        *,
        kappa: int | Sequence[int] = 2,
        activation: str | nn.Module = "relu",
        bias: bool = False,
    ):
        super().__init__()
        self.width = widths[0]
        kappas = per_layer("kappa", kappa, check_widths(widths))
        self.kappas = [check_count("kappa", k) for k in kappas]
        self.values = nn.ModuleList(
            nn.Linear(wide, k * out, bias=False)
            for k, (wide, out) in zip(self.kappas, pairwise(widths), strict=True)
        )
        self.biases = nn.ParameterList(torch.zeros(w) for w in widths[1:] if bias)
        self.activation = make_activation(activation)

    @classmethod
    def conventional(
        cls, weights: Sequence[Tensor], kappa: int, activation: str | nn.Module = "relu"
    ) -> "FlexibleGCN":
        """Build the ordinary GCN, σ((A + I)^κ X W), as a flexible one.

        (A + I)^κ = Σᵢ C(κ, i) Aⁱ, so it has κ+1 blocks Wᵢ = C(κ, i)·W with shared, binomial
        weights. ``weights`` are the W ``[h_{l-1}, h_l]`` of the layers.
        """
        check_count("kappa", kappa, least=0)
        if not weights:
            raise FighterError("needs one matrix for each layer", argument="weights", value=weights)
        widths = [weights[0].shape[0], *(w.shape[1] for w in weights)]
        gcn = cls(widths, kappa=kappa + 1, activation=activation).to(weights[0])
        with torch.no_grad():
            for values, w in zip(gcn.values.parameters(), weights, strict=True):
                values.copy_(torch.cat([comb(kappa, i) * w.T for i in range(kappa + 1)]))
        return gcn

    def forward(self, x: Tensor, adjacency: Tensor) -> Float[Tensor, "*batch nodes h_L"]:
        """Convolve ``x`` on ``adjacency``.

        Args:
            x: ``[nodes, width]`` or ``[batch, nodes, width]``.
            adjacency: dense ``[nodes, nodes]`` or ``[batch, nodes, nodes]``, or sparse
                ``[nodes, nodes]``; any values, they are not normalised here.
        """
        width = self.width
        if x.ndim not in (2, 3) or x.shape[-1] != width:
            needed = f"[nodes, {width}] or [batch, nodes, {width}]"
            raise FighterError(f"{describe(x)} does not fit: needs {needed}", argument="x")
        nodes = x.shape[-2]
        if adjacency.shape[-2:] != (nodes, nodes) or adjacency.ndim not in (2, x.ndim):
            needed = f"[{nodes}, {nodes}], or one such matrix per example"
            reason = f"{describe(adjacency)} does not fit x, {describe(x)}: needs {needed}"
            raise FighterError(reason, argument="adjacency")
        hop = explicit_hop(adjacency)
        for layer, (values, kappa) in enumerate(zip(self.values, self.kappas, strict=True)):
            x = horner(hop, values(x).chunk(kappa, -1), range(kappa))
            x = x + self.biases[layer] if self.biases else x
            x = self.activation(x) if layer < len(self.values) - 1 else x
        return x
