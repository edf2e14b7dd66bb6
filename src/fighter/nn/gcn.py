"""Graph convolution on a graph that is given (paper Eq. 1)."""

from collections.abc import Sequence
from itertools import pairwise
from math import comb

import torch
from torch import Tensor, nn

from ..errors import FighterError
from ..hops import describe, explicit_hop, horner
from ._checks import check_kappa, check_widths, make_activation, per_layer


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
        kappa: number of blocks, the powers 0 … κ-1; one number, or one per layer.
        activation: as in :class:`~fighter.nn.FighterLayer`.
        bias: a bias after each sum; the paper has none.

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
        self.kappas = [check_kappa(k) for k in per_layer("kappa", kappa, check_widths(widths))]
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
        """The ordinary GCN, σ((A + I)^κ X W), as a flexible one.

        (A + I)^κ = Σᵢ C(κ, i) Aⁱ, so it is the case with κ+1 blocks Wᵢ = C(κ, i)·W: binomial
        weights, tied. ``weights`` are the W ``[h_{l-1}, h_l]`` of the layers.
        """
        if isinstance(kappa, bool) or not isinstance(kappa, int) or kappa < 0:
            raise FighterError(f"kappa={kappa!r}: (A + I)^kappa needs a whole number ≥ 0")
        if not weights:
            raise FighterError("weights is empty: needs one matrix for each layer")
        widths = [weights[0].shape[0], *(w.shape[1] for w in weights)]
        gcn = cls(widths, kappa=kappa + 1, activation=activation).to(weights[0])
        with torch.no_grad():
            for values, w in zip(gcn.values.parameters(), weights, strict=True):
                values.copy_(torch.cat([comb(kappa, i) * w.T for i in range(kappa + 1)]))
        return gcn

    def forward(self, x: Tensor, adjacency: Tensor) -> Tensor:
        """Convolve ``x`` on ``adjacency``.

        Args:
            x: ``[nodes, width]`` or ``[batch, nodes, width]``.
            adjacency: dense ``[nodes, nodes]`` or ``[batch, nodes, nodes]``, or sparse
                ``[nodes, nodes]``; any values, it is not normalised here.

        """
        wanted = self.width
        if x.ndim not in (2, 3) or x.shape[-1] != wanted:
            raise FighterError(
                f"x is {describe(x)}: needs [nodes, {wanted}] or [batch, nodes, {wanted}]"
            )
        if adjacency.shape[-2:] != (x.shape[-2],) * 2 or adjacency.ndim not in (2, x.ndim):
            raise FighterError(
                f"adjacency is {describe(adjacency)}, x is {describe(x)}: needs "
                f"[{x.shape[-2]}, {x.shape[-2]}], or one such for each of the batch"
            )
        hop = explicit_hop(adjacency)
        for layer, (values, kappa) in enumerate(zip(self.values, self.kappas, strict=True)):
            x = horner(hop, values(x).chunk(kappa, -1), range(kappa))
            x = x + self.biases[layer] if self.biases else x
            x = self.activation(x) if layer < len(self.values) - 1 else x
        return x
