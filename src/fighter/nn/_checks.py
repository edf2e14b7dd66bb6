"""What the layers share: names of shapes, checks of arguments, activations, heads."""

from collections.abc import Sequence

from torch import Tensor, nn

from .._typing import Float
from ..errors import FighterError
from ..hops import check_mask, check_rows, describe

Nodes = Float[Tensor, "batch nodes width"]
Heads = Float[Tensor, "batch heads nodes head_width"]
Graph = Float[Tensor, "batch heads nodes nodes"]

ACTIVATIONS = {"relu": nn.ReLU, "gelu": nn.GELU, "silu": nn.SiLU, "identity": nn.Identity}


def check_nodes(x: Tensor, width: int, heads: int, mask: Tensor | None, causal: bool) -> Tensor:
    """Check the input ``[batch, nodes, width]`` and the mask of a layer; set padding to zero."""
    if not isinstance(x, Tensor) or not x.is_floating_point():
        raise FighterError(f"{describe(x)} is not a floating-point tensor", argument="x")
    if x.ndim != 3 or x.shape[-1] != width or x.shape[1] == 0:
        needed = f"[batch, nodes, {width}] with at least one node"
        raise FighterError(f"{describe(x)} does not fit: needs {needed}", argument="x")
    check_mask(mask, x.shape[0], heads, x.shape[1])
    check_rows(mask, causal)
    # A NaN in the padding would otherwise reach the weights' gradients through 0·NaN.
    return x if mask is None or mask.ndim != 2 else x.masked_fill(~mask[..., None], 0)


def check_padding(x: Tensor, width: int, mask: Tensor | None) -> Tensor:
    """Check the input and the mask like ``check_nodes``, and refuse masks over pairs."""
    if isinstance(mask, Tensor) and mask.ndim != 2:
        needed = "key padding only, a bool [batch, nodes] that is True at the nodes that count"
        reason = f"{describe(mask)} does not fit: this block accepts {needed}"
        raise FighterError(reason, argument="mask")
    return check_nodes(x, width, 1, mask, causal=False)


def check_widths(widths: Sequence[int]) -> int:
    """Return the number of layers that a list of widths describes."""
    if isinstance(widths, int) or len(widths) < 2 or any(w < 1 for w in widths):
        reason = "needs the input width and one width per layer, such as [7, 64]"
        raise FighterError(reason, argument="widths", value=widths)
    return len(widths) - 1


def per_layer(name: str, value: int | Sequence[int], depth: int) -> list[int]:
    """Return one number per layer, from one number for all layers or one each."""
    values = [value] * depth if isinstance(value, int) else list(value)
    if len(values) != depth:
        reason = f"needs one number, or one for each of the {depth} layers"
        raise FighterError(reason, argument=name, value=value)
    return values


def check_heads(width: int, heads: int, name: str = "width") -> None:
    """Refuse a number of heads that does not divide the width."""
    if heads < 1 or width < 1 or width % heads:
        reason = f"does not divide {name} {width}: choose a width that is a multiple of it"
        raise FighterError(reason, argument="heads", value=heads)


def make_activation(activation: str | nn.Module) -> nn.Module:
    """Return an activation by its name; a module is returned as it is."""
    if isinstance(activation, nn.Module):
        return activation
    if activation not in ACTIVATIONS:
        reason = f"needs one of {', '.join(ACTIVATIONS)}, or a module"
        raise FighterError(reason, argument="activation", value=activation)
    return ACTIVATIONS[activation]()


def split_heads(x: Nodes, heads: int) -> Heads:
    """Split the columns into heads."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def join_heads(x: Heads) -> Nodes:
    """Put the columns of all heads side by side."""
    return x.transpose(1, 2).flatten(2)
