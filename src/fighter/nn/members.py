"""Members: several small networks computed side by side as one, without seeing each other.

A layer with ``members=4`` is four layers, each with a quarter of the columns and of the heads.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .._typing import Float
from ..errors import FighterError


def check_members(members: int, **shared: int) -> None:
    """Refuse a number of members that does not divide the widths and heads they share."""
    for name, number in shared.items():
        if members < 1 or number % members:
            reason = f"does not divide {name} {number}, which the members share evenly"
            raise FighterError(reason, argument="members", value=members)


class MemberLinear(nn.Module):
    """Linear maps side by side, each from its own input columns to its own output columns.

    ``width`` and ``out_width`` are the columns of all members together.
    """

    def __init__(self, width: int, out_width: int, members: int, *, bias: bool = True):
        super().__init__()
        check_members(members, width=width, out_width=out_width)
        bound = (members / width) ** 0.5
        shape = members, width // members, out_width // members
        self.members = members
        self.weight = nn.Parameter(torch.empty(shape).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(out_width).uniform_(-bound, bound)) if bias else None

    def forward(self, x: Float[Tensor, "*rows width"]) -> Float[Tensor, "*rows out_width"]:
        """Multiply each member's columns by its own matrix."""
        rows = x.unflatten(-1, (self.members, -1)).flatten(0, -3).transpose(0, 1)
        y = torch.bmm(rows, self.weight).transpose(0, 1).flatten(1).unflatten(0, x.shape[:-1])
        return y if self.bias is None else y + self.bias

    def extra_repr(self) -> str:
        """Return the sizes, for ``print(layer)``."""
        return f"members={self.members}, each {self.weight.shape[1]} to {self.weight.shape[2]}"


class MemberNorm(nn.Module):
    """LayerNorm of each member's columns, with a factor and a shift per column."""

    def __init__(self, width: int, members: int):
        super().__init__()
        self.members = members
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x: Float[Tensor, "*rows width"]) -> Float[Tensor, "*rows width"]:
        """Normalise each member's columns to mean 0 and deviation 1, then scale and shift."""
        parts = x.unflatten(-1, (self.members, -1))
        return F.layer_norm(parts, parts.shape[-1:]).flatten(-2) * self.weight + self.bias


def linear(
    width: int, out_width: int, members: int = 1, *, bias: bool = True
) -> nn.Linear | MemberLinear:
    """Return a linear map, or with several members one map per member."""
    if members == 1:
        return nn.Linear(width, out_width, bias=bias)
    return MemberLinear(width, out_width, members, bias=bias)


def layer_norm(width: int, members: int = 1) -> nn.LayerNorm | MemberNorm:
    """Return a LayerNorm, or with several members one per member."""
    return nn.LayerNorm(width) if members == 1 else MemberNorm(width, members)
