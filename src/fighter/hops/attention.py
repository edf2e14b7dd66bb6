"""One hop A·b of A = softmax(scale·QKᵀ + mask): with A stored, or by fused attention without it.

Masks. Key padding (bool ``[B, S]``) hides nodes from everybody. It is carried by the logits alone
and hidden nodes are given no value, so whatever lies in the padding, NaN included, cannot reach a
valid row, however many hops. A mask over pairs is ``[B|1, heads|1, S, S]``.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from .._typing import Float
from ..errors import FighterError
from .checks import Backend, causal_pairs
from .walk import Hop, explicit_hop


def _lowest(dtype: torch.dtype) -> float:
    """Low enough that exp() is exactly 0, finite so that a row of padding alone is not NaN."""
    return -min(1e30, torch.finfo(dtype).max / 2)


def _scale(q: Tensor, scale: float | None) -> float:
    return q.shape[-1] ** -0.5 if scale is None else scale


def hidden_nodes(mask: Tensor | None) -> Tensor | None:
    """Key padding as ``[B, 1, S, 1]``, True where nobody looks; None for any other mask."""
    return ~mask[:, None, :, None] if mask is not None and mask.ndim == 2 else None


def _sort_masks(
    mask: Tensor | None, causal: bool, dtype: torch.dtype
) -> tuple[Tensor | None, bool]:
    """What is added to the logits, ``[B|1, heads|1, 1|S, S]``, and if a causal rule is left."""
    if mask is None:
        return None, causal
    if mask.ndim == 2:
        bias = torch.zeros_like(mask, dtype=dtype).masked_fill(~mask, _lowest(dtype))
        return bias[:, None, None, :], causal
    if mask.dtype == torch.bool:  # once for all hops, or SDPA would convert and keep it at each
        mask = torch.zeros_like(mask, dtype=dtype).masked_fill(~mask, float("-inf"))
    if causal:  # the caller already holds S×S: one more pair rule goes into the same mask
        mask = mask.masked_fill(~causal_pairs(mask.shape[-1], mask.device), float("-inf"))
    return mask.to(dtype), False


def _clear_padding(q: Tensor, k: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
    """Numbers in the padding stay (they cannot be seen); what is not a number is taken out."""
    return torch.where(hidden, q.nan_to_num(0, 0, 0), q), k.masked_fill(hidden, 0)


def adjacency(
    q: Float[Tensor, "batch heads nodes query"],
    k: Float[Tensor, "batch heads nodes query"],
    *,
    mask: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
) -> Float[Tensor, "batch heads nodes nodes"]:
    """A = softmax(scale·QKᵀ + mask), row-stochastic, stored."""
    hidden = hidden_nodes(mask)
    if hidden is not None:
        q, k = _clear_padding(q, k, hidden)
    return masked_softmax(_scale(q, scale) * (q @ k.transpose(-1, -2)), mask, causal)


def masked_softmax(
    logits: Float[Tensor, "*batch nodes nodes"], mask: Tensor | None = None, causal: bool = False
) -> Float[Tensor, "... nodes nodes"]:
    """A row-stochastic graph from any logits."""
    bias, causal = _sort_masks(mask, causal, logits.dtype)
    if bias is not None:
        logits = logits + bias
    if causal:
        logits = logits.masked_fill(~causal_pairs(logits.shape[-1], logits.device), float("-inf"))
    return logits.softmax(-1)


def attention_hop(
    q: Float[Tensor, "batch heads nodes query"],
    k: Float[Tensor, "batch heads nodes query"],
    *,
    width: int,
    mask: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
    backend: Backend = "auto",
) -> Hop:
    """The function b ↦ A b for b ``[B, heads, S, width]``."""
    if choose_backend(q, mask, backend) != "sdpa":
        a = adjacency(q, k, mask=mask, causal=causal, scale=scale)
        return explicit_hop(a, hidden_nodes(mask))
    return _fused_hop(q, k, width, mask, causal, _scale(q, scale))


def choose_backend(q: Tensor, mask: Tensor | None, backend: Backend) -> Backend:
    """``auto`` takes fused attention wherever torch has a kernel that does not store A."""
    unfused = _no_kernel(q, mask)
    if backend == "auto":
        most = STORE_UP_TO_ON_CUDA if q.device.type == "cuda" else STORE_UP_TO
        small = q.shape[-2] <= most
        return "stored" if unfused or small else "sdpa"
    if backend == "sdpa" and unfused:
        raise FighterError(f'backend="sdpa": {unfused}; take "auto" or "stored", which store A')
    return backend


# A graph this small is quicker to form once than to recompute at each hop (benchmarks/operator.py).
# On CUDA fused attention is quicker, but for so few nodes that they leave its tiles nearly empty.
STORE_UP_TO, STORE_UP_TO_ON_CUDA = 256, 24


def _no_kernel(q: Tensor, mask: Tensor | None) -> str | None:
    if mask is not None and mask.requires_grad:
        return "fused attention has no gradient for a float mask"
    if q.device.type == "cuda" and q.dtype == torch.float64:
        return "CUDA has no fused attention in float64"
    return None


def _fused_hop(
    q: Tensor, k: Tensor, width: int, mask: Tensor | None, causal: bool, scale: float
) -> Hop:
    """One ``scaled_dot_product_attention`` call per hop, kept off the path that stores S×S.

    torch falls back to that path without a word when queries and values differ in width, when the
    width does not suit the GPU's kernel, or when a causal rule comes together with a mask. So all
    get one width, padded with zeros (the logits do not change; the scale is passed, for SDPA would
    take it from the padded width), and padding under a causal rule travels as one more column:
    1 in Q, and in K the logit of a hidden node.
    """
    bias, causal = _sort_masks(mask, causal, q.dtype)
    hidden = hidden_nodes(mask)
    if hidden is not None:
        q, k = _clear_padding(q, k, hidden)
    if hidden is not None and causal:
        most = torch.finfo(k.dtype).max / 2
        logit = max(-most, min(most, _lowest(k.dtype) / scale))
        column = torch.zeros_like(k[..., :1]).masked_fill(hidden, logit)
        q, k = torch.cat([q, torch.ones_like(q[..., :1])], -1), torch.cat([k, column], -1)
        bias = None
    common = max(q.shape[-1], width)
    if q.device.type == "cuda":
        common = -(-common // 8) * 8
    q, k = _widen(q, common), _widen(k, common)

    def hop(b: Tensor) -> Tensor:
        b = b if hidden is None else b.masked_fill(hidden, 0)
        moved = F.scaled_dot_product_attention(
            q, k, _widen(b, common), attn_mask=bias, is_causal=causal, scale=scale
        )
        return moved[..., :width]

    return hop


def _widen(x: Tensor, width: int) -> Tensor:
    return x if x.shape[-1] == width else F.pad(x, (0, width - x.shape[-1]))
