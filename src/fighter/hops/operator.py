"""The operator itself: the sum over hops, and the hops one by one."""

from collections.abc import Sequence

import torch
from torch import Tensor

from ..errors import FighterError
from .attention import adjacency, attention_hop, choose_backend, hidden_nodes
from .checks import (
    Backend,
    check_attention,
    check_backend,
    check_mask,
    check_operand,
    check_powers,
    check_rows,
    describe,
)
from .walk import horner, recursion


def multi_hop(
    q: Tensor,
    k: Tensor,
    blocks: Sequence[Tensor],
    *,
    powers: Sequence[int] | None = None,
    mask: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
    backend: Backend = "auto",
) -> Tensor:
    """Σᵢ Aⁱ blocks[i] with A = softmax(scale·QKᵀ + mask), for i = 0 … κ-1.

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
        powers: the power of A for each block, rising; 0 … κ-1 unless given.
        mask: key padding, bool ``[batch, nodes]``, True at the nodes that count; or a mask over
            pairs ``[batch|1, heads|1, nodes, nodes]``, bool (True: row may look at column) or
            float (added to the logits). Rows of padded nodes are computed and mean nothing.
        causal: a node looks only at itself and at nodes before it.
        scale: factor of QKᵀ, 1/√(query width) unless given.
        backend: ``"sdpa"`` never stores anything S×S; ``"stored"`` forms A once; ``"reference"``
            forms A and each of its powers, as the formula is written; ``"auto"`` takes the
            quicker of the first two. Second derivatives need ``"stored"`` or ``"reference"``.

    Returns:
        ``[batch, heads, nodes, width]``.

    Raises:
        FighterError: an argument does not fit; the message names it and what is needed.

    """
    if isinstance(blocks, Tensor) or not isinstance(blocks, Sequence):
        raise FighterError(f"blocks is {describe(blocks)}: needs a list of κ tensors, one per hop")
    if not blocks:
        raise FighterError("blocks is empty: κ must be at least 1, one tensor per hop")
    _check(q, k, mask, causal, scale, backend)
    for i, block in enumerate(blocks):
        check_operand(f"blocks[{i}]", block, like=q)
        if block.shape != blocks[0].shape:
            raise FighterError(
                f"blocks[{i}] is {describe(block)}, blocks[0] is {describe(blocks[0])}: "
                "every block needs the same width"
            )
    powers = check_powers(range(len(blocks)) if powers is None else powers, len(blocks))
    width = blocks[0].shape[-1]
    if choose_backend(q, mask, backend) == "reference":
        a = adjacency(q, k, mask=mask, causal=causal, scale=scale)
        seen = _without_padding(blocks, mask)
        terms = [
            torch.linalg.matrix_power(a, power) @ clean if power else block
            for power, block, clean in zip(powers, blocks, seen, strict=True)
        ]
        return torch.stack(terms).sum(0)
    hop = attention_hop(q, k, width=width, mask=mask, causal=causal, scale=scale, backend=backend)
    return horner(hop, blocks, powers)


def hop_features(
    q: Tensor,
    k: Tensor,
    x: Tensor,
    powers: Sequence[int],
    *,
    mask: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
    backend: Backend = "auto",
) -> tuple[Tensor, ...]:
    """Aⁱ x for every i in ``powers``, one hop after the other; arguments as in :func:`multi_hop`.

    Example:
        >>> import torch
        >>> from fighter.hops import hop_features
        >>> q, k, x = (torch.randn(2, 8, 96, 64) for _ in range(3))
        >>> near, far = hop_features(q, k, x, powers=(1, 3))  # A x and A³ x

    """
    _check(q, k, mask, causal, scale, backend)
    check_operand("x", x, like=q)
    powers = check_powers(powers)
    if choose_backend(q, mask, backend) == "reference":
        a = adjacency(q, k, mask=mask, causal=causal, scale=scale)
        (clean,) = _without_padding([x], mask)
        return tuple(torch.linalg.matrix_power(a, p) @ clean if p else x for p in powers)
    hop = attention_hop(
        q, k, width=x.shape[-1], mask=mask, causal=causal, scale=scale, backend=backend
    )
    return recursion(hop, x, powers)


def _check(
    q: Tensor,
    k: Tensor,
    mask: Tensor | None,
    causal: bool,
    scale: float | None,
    backend: str,
) -> None:
    check_backend(backend)
    check_attention(q, k, scale)
    batch, heads, nodes, _ = q.shape
    check_mask(mask, batch, heads, nodes)
    check_rows(mask, causal)


def _without_padding(blocks: Sequence[Tensor], mask: Tensor | None) -> list[Tensor]:
    hidden = hidden_nodes(mask)
    return [block if hidden is None else block.masked_fill(hidden, 0) for block in blocks]
