"""Further hops for attention that exists already: A²XW₂ + A³XW₃ + … added to AV, from zero."""

from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor, nn

from ..errors import check_count
from ..hops import Hop, horner
from ._checks import Heads, Nodes, split_heads


class FurtherHops(nn.ModuleDict):
    """Add hops to an attention head: from A V to A V + A² X W₂ + … + A^(κ-1) X W_(κ-1).

    The W start at zero, so that the sum starts as A V exactly. They learn from the first step on,
    because the gradient of W does not depend on W. The power 0 has no weights of its own: in a
    Transformer the residual carries it. With κ=2 nothing is added.

    Example:
        >>> import torch
        >>> from fighter.hops import attention_hop
        >>> from fighter.nn.further import FurtherHops
        >>> x, v = torch.randn(2, 9, 16), torch.randn(2, 4, 9, 4)
        >>> hop = attention_hop(v, v, width=4)
        >>> hops = FurtherHops(16, 16, kappa=3, heads=4)
        >>> torch.equal(hops(hop, x, v), hop(v))
        True

    Args:
        width: width of a node of X.
        value_width: width of V, all heads together.
        kappa: number of powers κ, counted from 0 (so 3 adds A²).
        heads: heads of V; 0 if V is ``[batch, nodes, value_width]`` without heads (default: 0).
        groups: how many heads of V share one head of X W (default: 1). With more than 1,
            ``value_width`` and ``heads`` are those of X W.
    """

    def __init__(
        self, width: int, value_width: int, *, kappa: int, heads: int = 0, groups: int = 1
    ):
        powers = range(2, check_count("kappa", kappa, least=2))
        super().__init__({str(power): zero_linear(width, value_width) for power in powers})
        self.kappa, self.heads, self.groups = kappa, heads, groups

    @property
    def powers(self) -> tuple[int, ...]:
        """The powers of A that are summed: 1 … κ-1."""
        return tuple(range(1, self.kappa))

    def weights(self) -> tuple[Tensor, ...]:
        """Return W₂ᵀ, W₃ᵀ, …, as ``nn.Linear`` keeps them."""
        return tuple(cast(nn.Linear, self[str(power)]).weight for power in self.powers[1:])

    def blocks(self, x: Nodes) -> list[Tensor]:
        """Return X W₂, X W₃, … in the shape of V."""
        blocks = [self[str(power)](x) for power in self.powers[1:]]
        if self.heads:
            blocks = [split_heads(block, self.heads) for block in blocks]
        if self.groups > 1:
            blocks = [block.repeat_interleave(self.groups, 1) for block in blocks]
        return blocks

    def forward(
        self,
        hop: Hop,
        x: Nodes,
        v: Heads | Nodes,
        past: Callable[[Tensor], Tensor] | None = None,
    ) -> Tensor:
        """Return A(V + A(X W₂ + A(X W₃ + …))).

        Args:
            hop: the function b ↦ A b.
            x: X, the nodes that the attention reads.
            v: V, ``[batch, heads, nodes, head_width]``, or without heads.
            past: puts what A multiplied at earlier nodes before ``b``, for a causal A of which
                ``hop`` has the last rows only (default: None, ``b`` has all nodes). It is called
                once per hop, in the order of the hops.
        """
        walk = hop if past is None else lambda b: hop(past(b))
        return horner(walk, [v, *self.blocks(x)], self.powers)

    def extra_repr(self) -> str:
        """Return κ, for ``print(hops)``."""
        return f"kappa={self.kappa}"


def further_hops(width: int, value_width: int, kappa: int, heads: int = 0) -> FurtherHops | None:
    """Make the hops beyond A V, or None for κ=2, which has none."""
    made = FurtherHops(width, value_width, kappa=kappa, heads=heads)
    return made if len(made) else None


def zero_linear(width: int, out_width: int) -> nn.Linear:
    """Make a linear map without bias whose weights are zero; no random number is drawn."""
    linear = nn.Linear(width, out_width, bias=False, device="meta")
    linear.weight = nn.Parameter(torch.zeros(out_width, width))
    return linear
