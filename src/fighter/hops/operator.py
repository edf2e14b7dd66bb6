"""The operator itself: the sum over hops, and the hops one by one."""

from collections.abc import Sequence

import torch
from torch import Tensor

from .._typing import Float
from ..errors import FighterError
from .attention import adjacency, attention_hop, choose_backend, hidden_nodes
from .checks import Backend, check_attention, check_operand, check_powers, describe
from .walk import horner, recursion


def multi_hop(
    q: Float[Tensor, "batch heads nodes query"],
    k: Float[Tensor, "batch heads nodes query"],
    blocks: Sequence[Float[Tensor, "batch heads nodes width"]],
    *,
    powers: Sequence[int] | None = None,
    mask: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
    backend: Backend = "auto",
) -> Float[Tensor, "batch heads nodes width"]:
    """Compute Σᵢ Aⁱ blocks[i] with A = softmax(scale·QKᵀ + mask), for i = 0 … κ-1.

    Example:
        >>> import torch, fighter
        >>> q, k = torch.randn(2, 8, 96, 64), torch.randn(2, 8, 96, 64)
        >>> blocks = [torch.randn(2, 8, 96, 64) for _ in range(3)]  # X W₀, X W₁, X W₂
        >>> fighter.multi_hop(q, k, blocks).shape
        torch.Size([2, 8, 96, 64])

    Args:
        q: queries, ``[batch, heads, nodes, query width]``.
        k: keys, the same shape.
        blocks: κ tensors ``[batch, heads, nodes, width]``, the features each hop carries.
        powers: the power of A for each block, rising (default: 0 … κ-1).
        mask: key padding, bool ``[batch, nodes]``, True at valid nodes; or a mask over pairs
            ``[batch|1, heads|1, nodes, nodes]``, bool (True: the row may attend to the column) or
            float (added to the logits). The output rows of padded nodes are meaningless. A row
            without a node to attend to is refused; under ``torch.compile``, ``torch.export`` and
            ``torch.func`` it gives NaN.
        causal: a node attends only to itself and to nodes before it (default: False).
        scale: factor of QKᵀ (default: 1/√(query width)).
        backend: ``"sdpa"`` never stores anything S×S; ``"stored"`` forms A once; ``"reference"``
            forms A and each of its powers, as the formula is written; ``"auto"`` takes the
            faster of the first two (default: ``"auto"``). Second derivatives need ``"stored"`` or
            ``"reference"``.

    Returns:
        ``[batch, heads, nodes, width]``.

    Raises:
        FighterError: if an argument does not fit; the message says which and what is needed.

    """
    if isinstance(blocks, Tensor) or not isinstance(blocks, Sequence):
        reason = f"needs a list of κ tensors, one per hop, not {describe(blocks)}"
        raise FighterError(reason, argument="blocks")
    if not blocks:
        raise FighterError("needs at least one tensor, one per hop", argument="blocks", value=[])
    check_attention(q, k, mask, causal, scale, backend)
    for i, block in enumerate(blocks):
        check_operand(f"blocks[{i}]", block, like=q)
        if block.shape != blocks[0].shape:
            reason = f"needs the width of blocks[0], {describe(blocks[0])}, not {describe(block)}"
            raise FighterError(reason, argument=f"blocks[{i}]")
    powers = check_powers(range(len(blocks)) if powers is None else powers, len(blocks))
    width = blocks[0].shape[-1]
    if choose_backend(q, mask, backend) == "reference":
        a = adjacency(q, k, mask=mask, causal=causal, scale=scale)
        terms = [_power(a, p, block, mask) for p, block in zip(powers, blocks, strict=True)]
        return torch.stack(terms).sum(0)
    hop = attention_hop(q, k, width=width, mask=mask, causal=causal, scale=scale, backend=backend)
    return horner(hop, blocks, powers)


def hop_features(
    q: Float[Tensor, "batch heads nodes query"],
    k: Float[Tensor, "batch heads nodes query"],
    x: Float[Tensor, "batch heads nodes width"],
    powers: Sequence[int],
    *,
    mask: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
    backend: Backend = "auto",
) -> tuple[Float[Tensor, "batch heads nodes width"], ...]:
    """Compute Aⁱ x for every i in ``powers``; the arguments are those of :func:`multi_hop`.

    Example:
        >>> import torch
        >>> from fighter.hops import hop_features
        >>> q, k, x = (torch.randn(2, 8, 96, 64) for _ in range(3))
        >>> near, far = hop_features(q, k, x, powers=(1, 3))  # A x and A³ x

    """
    check_attention(q, k, mask, causal, scale, backend)
    check_operand("x", x, like=q)
    powers, width = check_powers(powers), x.shape[-1]
    if choose_backend(q, mask, backend) == "reference":
        a = adjacency(q, k, mask=mask, causal=causal, scale=scale)
        return tuple(_power(a, power, x, mask) for power in powers)
    hop = attention_hop(q, k, width=width, mask=mask, causal=causal, scale=scale, backend=backend)
    return recursion(hop, x, powers)


def _power(a: Tensor, power: int, x: Tensor, mask: Tensor | None) -> Tensor:
    """Compute A^power x as it is written."""
    if power == 0:
        return x
    hidden = hidden_nodes(mask)
    clean = x if hidden is None else x.masked_fill(hidden, 0)
    return torch.linalg.matrix_power(a, power) @ clean
