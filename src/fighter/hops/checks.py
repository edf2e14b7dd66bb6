"""Checks of the operator's arguments, with messages that say what is needed."""

from collections.abc import Sequence
from numbers import Real
from typing import Literal, get_args

import torch
from torch import Tensor
from torch._C._functorch import get_interpreter_stack

from ..errors import FighterError

Backend = Literal["auto", "reference", "stored", "sdpa"]


def check_backend(backend: str) -> None:
    """Check the name of a backend."""
    if backend not in (known := get_args(Backend)):
        raise FighterError(f"needs one of {', '.join(known)}", argument="backend", value=backend)


def describe(value: object) -> str:
    """Describe a tensor by its dtype and shape, anything else by its type and value."""
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)}"
    return f"{type(value).__name__} {value!r}"


def check_powers(powers: Sequence[int], blocks: int | None = None) -> tuple[int, ...]:
    """Check that powers are distinct whole numbers of at least 0, in rising order."""
    powers = tuple(powers)
    whole = all(isinstance(p, int) and not isinstance(p, bool) and p >= 0 for p in powers)
    if not powers or not whole or list(powers) != sorted(set(powers)):
        needed = "at least one power, each a whole number ≥ 0, in rising order without repeats"
        raise FighterError(f"needs {needed}, such as (0, 1, 2)", argument="powers", value=powers)
    if blocks is not None and len(powers) != blocks:
        reason = f"{len(powers)} powers for {blocks} blocks; needs one power for each block"
        raise FighterError(reason, argument="powers", value=powers)
    return powers


def check_operand(name: str, tensor: object, like: Tensor | None = None) -> None:
    """Check a floating-point ``[batch, heads, nodes, width]`` that fits the queries ``like``."""
    if not isinstance(tensor, Tensor) or not tensor.is_floating_point():
        raise FighterError(f"needs a floating-point tensor, not {describe(tensor)}", argument=name)
    if tensor.ndim != 4 or 0 in tensor.shape[1:]:
        reason = f"needs four non-empty axes [batch, heads, nodes, width], not {describe(tensor)}"
        raise FighterError(reason, argument=name)
    if like is None:
        return
    if tensor.shape[:3] != like.shape[:3]:
        reason = f"needs the batch, heads and nodes of q, {describe(like)}, not {describe(tensor)}"
        raise FighterError(f"{reason}: powers of A exist only for self-attention", argument=name)
    if tensor.device != like.device:
        reason = f"is on {tensor.device}, but q is on {like.device}; move one of them"
        raise FighterError(reason, argument=name)
    if tensor.dtype != like.dtype and not torch.is_autocast_enabled(like.device.type):
        needed = f"the dtype of q, {describe(like)}, or torch.autocast"
        raise FighterError(f"needs {needed}, not {describe(tensor)}", argument=name)


def check_attention(
    q: Tensor, k: Tensor, mask: Tensor | None, causal: bool, scale: float | None, backend: str
) -> None:
    """Check the arguments of one self-attention."""
    check_backend(backend)
    check_operand("q", q)
    check_operand("k", k, like=q)
    if k.shape != q.shape:
        raise FighterError(f"needs the width of q, {describe(q)}, not {describe(k)}", argument="k")
    check_scale(scale)
    check_mask(mask, *q.shape[:3])
    check_rows(mask, causal)


def check_scale(scale: object) -> None:
    """Check that a scale is None or a finite number other than 0."""
    if scale is not None and not (isinstance(scale, Real) and 0 < abs(float(scale)) < float("inf")):
        needed = "a finite number other than 0, or None for 1/√(query width)"
        remedy = "multiply q by a learned temperature instead"
        raise FighterError(f"needs {needed}, not {describe(scale)}; {remedy}", argument="scale")


def check_mask(mask: Tensor | None, batch: int, heads: int, nodes: int) -> None:
    """Check key padding, bool ``[batch, nodes]``, or pairs ``[batch|1, heads|1, nodes, nodes]``."""
    if mask is None:
        return
    pairs = (
        isinstance(mask, Tensor)
        and mask.ndim == 4
        and mask.shape[0] in (1, batch)
        and mask.shape[1] in (1, heads)
        and mask.shape[2:] == (nodes, nodes)
        and (mask.dtype == torch.bool or mask.is_floating_point())
    )
    padding = isinstance(mask, Tensor) and mask.shape == (batch, nodes) and mask.dtype == torch.bool
    if not pairs and not padding:
        raise FighterError(
            f"needs None, a bool [{batch}, {nodes}] (batch, nodes), True at valid nodes, or a "
            f"[{batch} or 1, {heads} or 1, {nodes}, {nodes}], bool (True: may attend) or float "
            f"(added to the logits), not {describe(mask)}",
            argument="mask",
        )


def check_rows(mask: Tensor | None, causal: bool) -> None:
    """Check that every row of A has a node to attend to, where values may be looked at.

    They may not while torch.compile, torch.export or torch.func trace or a CUDA graph is recorded.
    """
    if mask is None or torch.compiler.is_compiling() or transforming():
        return
    if mask.is_cuda and torch.cuda.is_current_stream_capturing():
        return
    what, where = "sequence", "leaves every node out"
    allowed = mask if mask.dtype == torch.bool else mask > float("-inf")
    if mask.ndim != 2:
        what, where = "row [batch, head, node]", "may attend to no node"
        if causal:
            allowed = allowed & causal_pairs(mask.shape[-1], mask.device)
    if bool((empty := ~allowed.any(-1)).any()):
        first = empty.nonzero()[0].tolist()
        raise FighterError(
            f"{what} {first[0] if len(first) == 1 else first} {where} ({int(empty.sum())} in all), "
            "so its softmax is undefined; let it attend to itself, or drop it from the batch",
            argument="mask",
        )


def transforming() -> bool:
    """Return whether a transform of torch.func is active, such as vmap."""
    return torch._C._are_functorch_transforms_active()


def differentiating_twice() -> bool:
    """Return whether torch.func will ask for second or for forward derivatives."""
    if torch.compiler.is_compiling() or not transforming():
        return False
    kinds = [one.key().name for one in get_interpreter_stack() or ()]
    return "Jvp" in kinds or kinds.count("Grad") > 1


def causal_pairs(nodes: int, device: torch.device) -> Tensor:
    """Return the causal mask: True where node j may attend to node s, s ≤ j."""
    return torch.ones(nodes, nodes, dtype=torch.bool, device=device).tril()
