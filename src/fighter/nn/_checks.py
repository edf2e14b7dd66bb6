"""What the layers share: checks on the way in, heads, activations."""

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .._typing import Float
from ..errors import FighterError
from ..hops import check_mask, check_rows, describe

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
    "identity": nn.Identity,
}


def check_nodes(x: Tensor, width: int, heads: int, mask: Tensor | None, causal: bool) -> Tensor:
    """Input ``[batch, nodes, width]`` that fits the layer and its mask, padding set to zero.

    A NaN in the padding would otherwise reach the weights' gradients through 0·NaN.
    """
    if not isinstance(x, Tensor) or not x.is_floating_point():
        raise FighterError(f"x is {describe(x)}: needs a floating-point tensor")
    if x.ndim != 3 or x.shape[-1] != width or x.shape[1] == 0:
        raise FighterError(
            f"x is {describe(x)}: needs [batch, nodes, width={width}] with nodes ≥ 1"
        )
    check_mask(mask, x.shape[0], heads, x.shape[1])
    check_rows(mask, causal)
    if mask is None or mask.ndim != 2:
        return x
    return x.masked_fill(~mask[..., None], 0)


def make_activation(activation: str | nn.Module) -> nn.Module:
    """An activation by name, or the module itself."""
    if isinstance(activation, nn.Module):
        return activation
    if activation not in ACTIVATIONS:
        raise FighterError(
            f"activation={activation!r}: needs one of {', '.join(ACTIVATIONS)}, or a module"
        )
    return ACTIVATIONS[activation]()


def check_kappa(kappa: int) -> int:
    """κ counts the blocks."""
    if isinstance(kappa, bool) or not isinstance(kappa, int) or kappa < 1:
        raise FighterError(f"kappa={kappa!r}: needs a whole number ≥ 1, the powers 0 … kappa-1")
    return kappa


def check_widths(widths: Sequence[int]) -> int:
    """The number of layers that a list of widths describes."""
    if isinstance(widths, int) or len(widths) < 2 or any(w < 1 for w in widths):
        raise FighterError(
            f"widths={widths!r}: needs the width coming in and one for each layer, such as [7, 64]"
        )
    return len(widths) - 1


def per_layer(name: str, value: int | Sequence[int], depth: int) -> list[int]:
    """One number for all layers, or one each."""
    values = [value] * depth if isinstance(value, int) else list(value)
    if len(values) != depth:
        raise FighterError(f"{name}={value!r}: there are {depth} layers, needs one number or each")
    return values


def check_heads(width: int, heads: int, name: str = "width") -> None:
    """Heads share a width evenly."""
    if heads < 1 or width < 1 or width % heads:
        raise FighterError(
            f"heads={heads} does not divide {name}={width}: each head takes {name}/heads columns"
        )


def split_heads(
    x: Float[Tensor, "batch nodes width"], heads: int
) -> Float[Tensor, "batch heads nodes head_width"]:
    """Columns to heads."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def join_heads(
    x: Float[Tensor, "batch heads nodes head_width"],
) -> Float[Tensor, "batch nodes width"]:
    """Heads to columns."""
    return x.transpose(1, 2).flatten(2)


class MemberLinear(nn.Module):
    """Linear maps side by side: each takes its share of the columns to its share of what comes out.

    Args:
        width: columns coming in, over all members.
        out_width: columns going out, over all members.
        members: number of maps.
        bias: whether they have a bias.
    """

    def __init__(self, width: int, out_width: int, members: int, *, bias: bool = True):
        super().__init__()
        check_members(members, width=width, out_width=out_width)
        bound = (members / width) ** 0.5
        shape = members, width // members, out_width // members
        self.members = members
        self.weight = nn.Parameter(torch.empty(shape).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(out_width).uniform_(-bound, bound)) if bias else None

    def forward(self, x: Float[Tensor, "... width"]) -> Float[Tensor, "... out_width"]:
        """Each member's columns by its own matrix."""
        rows = x.unflatten(-1, (self.members, -1)).flatten(0, -3).transpose(0, 1)
        y = torch.bmm(rows, self.weight).transpose(0, 1).flatten(1).unflatten(0, x.shape[:-1])
        return y if self.bias is None else y + self.bias

    def extra_repr(self) -> str:
        """Sizes, in ``print(layer)``."""
        return f"members={self.members}, each {self.weight.shape[1]} to {self.weight.shape[2]}"


class MemberNorm(nn.Module):
    """LayerNorm of each member's columns by themselves."""

    def __init__(self, width: int, members: int):
        super().__init__()
        self.members = members
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x: Float[Tensor, "... width"]) -> Float[Tensor, "... width"]:
        """Mean 0 and deviation 1 in each member; then a factor and a shift per column."""
        parts = x.unflatten(-1, (self.members, -1))
        return F.layer_norm(parts, parts.shape[-1:]).flatten(-2) * self.weight + self.bias


def linear(
    width: int, out_width: int, members: int = 1, *, bias: bool = True
) -> nn.Linear | MemberLinear:
    """A linear map, or several side by side."""
    if members == 1:
        return nn.Linear(width, out_width, bias=bias)
    return MemberLinear(width, out_width, members, bias=bias)


def check_members(members: int, **shared: int) -> None:
    """Members share widths and heads evenly."""
    for name, number in shared.items():
        if members < 1 or number % members:
            raise FighterError(
                f"members={members} does not divide {name}={number}: each takes {name}/members"
            )


def project(x: Tensor, *maps: nn.Linear) -> tuple[Tensor, ...]:
    """Each map of ``x``, all as one product: on a GPU a few small products cost more than one."""
    bias = None
    if any(f.bias is not None for f in maps):
        bias = torch.cat(
            [f.weight.new_zeros(len(f.weight)) if f.bias is None else f.bias for f in maps]
        )
    y = F.linear(x, torch.cat([f.weight for f in maps]), bias)
    return y.split([f.out_features for f in maps], -1)
