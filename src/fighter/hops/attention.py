"""One hop A·b of A = softmax(scale·QKᵀ + mask): with A stored, or by fused attention without it.

Masks: key padding (bool ``[B, S]``) hides nodes from all others. It is added to the logits, and the
values of hidden nodes are set to zero, so that nothing in the padding, not even NaN, reaches a
valid row over any number of hops. A mask over pairs is ``[B|1, heads|1, S, S]``.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from .._typing import Float
from ..errors import FighterError
from .checks import Backend, causal_pairs, differentiating_twice
from .walk import Hop, explicit_hop


def _lowest(dtype: torch.dtype) -> float:
    """Return a logit whose exp() is 0, but finite, so that a row of padding is not NaN."""
    return -min(1e30, torch.finfo(dtype).max / 2)


def _scale(q: Tensor, scale: float | None) -> float:
    return q.shape[-1] ** -0.5 if scale is None else scale


def hidden_nodes(mask: Tensor | None) -> Tensor | None:
    """Return key padding as ``[B, 1, S, 1]``, True at hidden nodes; None for any other mask."""
    return ~mask[:, None, :, None] if mask is not None and mask.ndim == 2 else None


def _bias(mask: Tensor | None, causal: bool, dtype: torch.dtype) -> tuple[Tensor | None, bool]:
    """Return the bias of the logits ``[B|1, heads|1, 1|S, S]``, and if causality is still to do."""
    if mask is None:
        return None, causal
    if mask.ndim == 2:
        bias = torch.zeros_like(mask, dtype=dtype).masked_fill(~mask, _lowest(dtype))
        return bias[:, None, None, :], causal
    if mask.dtype == torch.bool:  # convert once; SDPA would convert and keep it at every hop
        mask = torch.zeros_like(mask, dtype=dtype).masked_fill(~mask, float("-inf"))
    if causal:  # the mask is S×S already, so it can hold the causal rule too
        mask = mask.masked_fill(~causal_pairs(mask.shape[-1], mask.device), float("-inf"))
    return mask.to(dtype), False


def _clear_padding(
    q: Tensor, k: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Clear q and k at hidden nodes, so that NaN there reaches nothing; return the nodes too."""
    if (hidden := hidden_nodes(mask)) is None:
        return q, k, None
    return torch.where(hidden, q.nan_to_num(0, 0, 0), q), k.masked_fill(hidden, 0), hidden


def adjacency(
    q: Float[Tensor, "batch heads nodes query"],
    k: Float[Tensor, "batch heads nodes query"],
    *,
    mask: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
) -> Float[Tensor, "batch heads nodes nodes"]:
    """Compute the row-stochastic graph A = softmax(scale·QKᵀ + mask)."""
    q, k, _ = _clear_padding(q, k, mask)
    return masked_softmax(_scale(q, scale) * (q @ k.transpose(-1, -2)), mask, causal)


def masked_softmax(
    logits: Float[Tensor, "*batch nodes nodes"], mask: Tensor | None = None, causal: bool = False
) -> Float[Tensor, "... nodes nodes"]:
    """Compute a row-stochastic graph from any logits."""
    bias, causal = _bias(mask, causal, logits.dtype)
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
    dropout: float = 0.0,
) -> Hop:
    """Return the function b ↦ A b for b ``[B, heads, S, width]``.

    ``dropout`` is that of A. A stored A is the same in every hop; without it, each hop draws anew.
    """
    if choose_backend(q, mask, backend) != "sdpa":
        a = adjacency(q, k, mask=mask, causal=causal, scale=scale)
        return explicit_hop(F.dropout(a, dropout) if dropout else a, hidden_nodes(mask))
    return _fused_hop(q, k, width, mask, causal, _scale(q, scale), dropout)


def choose_backend(q: Tensor, mask: Tensor | None, backend: Backend) -> Backend:
    """Resolve ``auto``: fused attention for large graphs, if torch has a kernel for the inputs."""
    unfused = _no_kernel(q, mask)
    if backend == "auto" and not unfused and _exporting():
        return "sdpa"  # the number of nodes may be left open, and one graph must serve them all
    if backend == "auto":
        most = STORE_UP_TO_ON_CUDA if q.device.type == "cuda" else STORE_UP_TO
        return "stored" if unfused or q.shape[-2] <= most else "sdpa"
    if backend == "sdpa" and unfused:
        reason = f"{unfused}; use 'auto' or 'stored', which store A"
        raise FighterError(reason, argument="backend", value=backend)
    return backend


NO_SECOND = "fused attention has no second derivative"

# A graph of so few nodes is faster to store than to recompute at every hop: benchmarks/operator.py.
# On CUDA fused attention is faster unless its tiles stay nearly empty.
STORE_UP_TO, STORE_UP_TO_ON_CUDA = 256, 24


def _exporting() -> bool:
    """Return whether torch.export traces; before torch 2.7 also whether torch.compile does."""
    return getattr(torch.compiler, "is_exporting", torch.compiler.is_compiling)()


def _no_kernel(q: Tensor, mask: Tensor | None) -> str | None:
    if differentiating_twice():
        return NO_SECOND
    if mask is not None and mask.requires_grad:
        return "fused attention has no gradient for a float mask"
    if q.device.type == "cuda" and q.dtype == torch.float64:
        return "CUDA has no fused attention in float64"
    return None


def _fused_hop(
    q: Tensor,
    k: Tensor,
    width: int,
    mask: Tensor | None,
    causal: bool,
    scale: float,
    dropout: float = 0.0,
) -> Hop:
    """Make a hop of one ``scaled_dot_product_attention`` call that never stores S×S.

    torch silently falls back to a kernel that stores S×S when queries and values differ in width,
    when the width does not suit the GPU's kernel, or when a causal rule is combined with a mask.
    Therefore all tensors are padded with zeros to one width. This leaves the logits unchanged; the
    scale is passed because SDPA would derive it from the padded width. Key padding under a causal
    rule becomes one more column: 1 in Q, and in K the logit of a hidden node.
    """
    bias, causal = _bias(mask, causal, q.dtype)
    q, k, hidden = _clear_padding(q, k, mask)
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
        b = _widen(b if hidden is None else b.masked_fill(hidden, 0), common)
        y = F.scaled_dot_product_attention(
            *map(once_differentiable, (q, k, b)),
            attn_mask=bias,
            dropout_p=dropout,
            is_causal=causal,
            scale=scale,
        )
        return y[..., :width]

    return hop


def once_differentiable(x: Tensor) -> Tensor:
    """Return x; its gradient, where torch cannot differentiate it again, raises FighterError."""
    if not (torch.is_grad_enabled() and x.requires_grad) or torch.compiler.is_compiling():
        return x
    x = x.view_as(x)  # x may be the caller's, and must not keep the hook
    x.register_hook(_name_remedy)
    return x


def _name_remedy(grad: Tensor) -> Tensor:
    if grad.grad_fn is None or "NotImplemented" not in grad.grad_fn.name():
        return grad
    grad = grad.view_as(grad)
    grad.register_hook(_refuse_second)
    return grad


def _refuse_second(_grad: Tensor) -> None:
    reason = f"{NO_SECOND}; use 'stored' or 'reference', which store A"
    raise FighterError(reason, argument="backend", value="sdpa")


def _widen(x: Tensor, width: int) -> Tensor:
    return x if x.shape[-1] == width else F.pad(x, (0, width - x.shape[-1]))
