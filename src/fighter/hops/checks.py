"""What the operator accepts. Each message says which argument, what came, and what is needed."""

from collections.abc import Sequence
from numbers import Real
from typing import Literal, get_args

import torch
from torch import Tensor

from ..errors import FighterError

Backend = Literal["auto", "reference", "stored", "sdpa"]


def check_backend(backend: str) -> None:
    """A backend by its name."""
    if backend not in get_args(Backend):
        raise FighterError(f"backend={backend!r}: needs one of {', '.join(get_args(Backend))}")


def describe(value: object) -> str:
    """A tensor as its dtype and shape, anything else as its type and value."""
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)}"
    return f"{type(value).__name__} {value!r}"


def check_powers(powers: Sequence[int], blocks: int | None = None) -> tuple[int, ...]:
    """Powers are distinct whole numbers from 0 up, in rising order."""
    powers = tuple(powers)
    whole = all(isinstance(p, int) and not isinstance(p, bool) and p >= 0 for p in powers)
    if not powers or not whole or list(powers) != sorted(set(powers)):
        raise FighterError(
            f"powers={powers}: needs at least one power, each a whole number ≥ 0, "
            "in rising order without repeats, such as (0, 1, 2)"
        )
    if blocks is not None and len(powers) != blocks:
        raise FighterError(
            f"powers={powers} names {len(powers)} powers, blocks holds {blocks} tensors: "
            "needs one block for each power"
        )
    return powers


def check_operand(name: str, tensor: object, like: Tensor | None = None) -> None:
    """A floating-point ``[batch, heads, nodes, width]`` that fits the queries."""
    if not isinstance(tensor, Tensor) or not tensor.is_floating_point():
        raise FighterError(f"{name} is {describe(tensor)}: needs a floating-point tensor")
    if tensor.ndim != 4 or 0 in tensor.shape[1:]:
        raise FighterError(
            f"{name} is {describe(tensor)}: needs four non-empty axes [batch, heads, nodes, width]"
        )
    if like is None:
        return
    if tensor.shape[:3] != like.shape[:3]:
        raise FighterError(
            f"{name} is {describe(tensor)}, q is {describe(like)}: batch, heads and nodes must be "
            "the same (powers of A need a square A, so self-attention only)"
        )
    if tensor.device != like.device:
        raise FighterError(f"{name} is on {tensor.device}, q on {like.device}: move one of them")
    if tensor.dtype != like.dtype and not torch.is_autocast_enabled(like.device.type):
        raise FighterError(
            f"{name} is {describe(tensor)}, q is {describe(like)}: needs one dtype, "
            "or torch.autocast"
        )


def check_attention(q: Tensor, k: Tensor, scale: float | None) -> None:
    """Queries and keys of one self-attention."""
    check_operand("q", q)
    check_operand("k", k, like=q)
    if k.shape != q.shape:
        raise FighterError(
            f"k is {describe(k)}, q is {describe(q)}: queries and keys need the same width"
        )
    check_scale(scale)


def check_scale(scale: object) -> None:
    """A scale is a finite number other than 0, or None for 1/√(query width)."""
    if scale is not None and not (isinstance(scale, Real) and 0 < abs(float(scale)) < float("inf")):
        raise FighterError(
            f"scale={describe(scale)}: needs a finite number other than 0, or None for "
            "1/√(query width); "
            "multiply q by a learned temperature instead"
        )


def check_mask(mask: Tensor | None, batch: int, heads: int, nodes: int) -> None:
    """Key padding, bool ``[batch, nodes]``, or pairs ``[batch|1, heads|1, nodes, nodes]``."""
    if mask is None:
        return
    wanted = (
        f"a bool [batch={batch}, nodes={nodes}], True at the nodes that count, or "
        f"[{batch} or 1, {heads} or 1, {nodes}, {nodes}], bool (True: may look) or float (added)"
    )
    if not isinstance(mask, Tensor):
        raise FighterError(f"mask is {describe(mask)}: needs None or {wanted}")
    pairs = (
        mask.ndim == 4
        and mask.shape[0] in (1, batch)
        and mask.shape[1] in (1, heads)
        and mask.shape[2:] == (nodes, nodes)
        and (mask.dtype == torch.bool or mask.is_floating_point())
    )
    padding = mask.shape == (batch, nodes) and mask.dtype == torch.bool
    if not pairs and not padding:
        raise FighterError(f"mask is {describe(mask)}: needs {wanted}")


def check_rows(mask: Tensor | None, causal: bool) -> None:
    """Every row of A must have something to look at; a recorded graph cannot stop to ask."""
    if mask is None or torch.compiler.is_compiling() or _recording(mask):
        return
    if mask.ndim == 2:
        empty = ~mask.any(-1)
        what, where = "sequence", "leaves every node out"
    else:
        open_ = mask if mask.dtype == torch.bool else mask > float("-inf")
        if causal:
            open_ = open_ & causal_pairs(mask.shape[-1], mask.device)
        empty = ~open_.any(-1)
        what, where = "row [batch, head, node]", "may look at no node"
    if bool(empty.any()):
        first = empty.nonzero()[0].tolist()
        raise FighterError(
            f"mask: {what} {first[0] if len(first) == 1 else first} {where} "
            f"({int(empty.sum())} such in all): softmax has no value there; "
            "let it see itself, or drop it from the batch"
        )


def _recording(mask: Tensor) -> bool:
    return mask.is_cuda and torch.cuda.is_current_stream_capturing()


def causal_pairs(nodes: int, device: torch.device) -> Tensor:
    """True where node j may look at node s: s ≤ j."""
    return torch.ones(nodes, nodes, dtype=torch.bool, device=device).tril()
