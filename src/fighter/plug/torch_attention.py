"""torch's ``nn.MultiheadAttention`` with further hops; it also serves torch's encoder layers."""

from collections.abc import Iterator
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import FighterError
from ..hops import Backend, adjacency, attention_hop, explicit_hop
from ..nn._checks import Heads, Nodes, join_heads, split_heads
from ..nn.further import FurtherHops


class MultiHopAttention(nn.MultiheadAttention):
    """``nn.MultiheadAttention`` that adds A² X W₂ + … to A V before the output projection.

    :func:`fighter.plug.replace_attention` turns an existing module into one; its weights keep
    their names, and the new ones are ``hops.2.weight`` and so on. X is what the values are made of.
    Set ``backend`` to compute A in another way; it is that of :func:`fighter.multi_hop`.
    """

    hops: FurtherHops
    backend: Backend = "auto"

    @property
    def _qkv_same_embed_dim(self) -> bool:
        """False, so that torch's encoder layers call ``forward`` in place of a fused kernel."""
        return False

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend over several hops; arguments and results are those of the original."""
        if query is not key:
            raise FighterError(
                "is not the same tensor as key, so this is not self-attention and A has no "
                "powers; leave this module out with where=, or pass one tensor as both",
                argument="query",
            )
        if query.is_nested:
            raise FighterError("is a nested tensor; pad it and pass a mask", argument="query")
        batched = query.ndim == 3
        x, t = (self._batch_first(tensor, batched) for tensor in (query, value))
        q, k, v = self._project(x, t)
        padded = key_padding_mask is not None
        causal = is_causal and attn_mask is not None and not padded and not need_weights
        mask = merge_masks(None if causal else attn_mask, key_padding_mask, q, batched)
        dropout = self.dropout if self.training else 0.0
        graph = None
        if need_weights:
            graph = F.dropout(adjacency(q, k, mask=mask), dropout)
            hop = explicit_hop(graph)
        else:
            options: dict[str, Any] = {"backend": self.backend, "dropout": dropout}
            hop = attention_hop(q, k, width=self.head_dim, mask=mask, causal=causal, **options)
        y = self.out_proj(join_heads(self.hops(hop, t, v)))
        if graph is not None:
            graph = graph.mean(1) if average_attn_weights else graph
            graph = graph if batched else graph[0]
        return self._original_layout(y, batched), graph

    def _project(self, x: Nodes, t: Nodes) -> tuple[Heads, Heads, Heads]:
        weights, biases = self.in_proj_weight.chunk(3), (None,) * 3
        if self.in_proj_bias is not None:
            biases = self.in_proj_bias.chunk(3)
        parts = map(F.linear, (x, x, t), weights, biases)
        q, k, v = (split_heads(part, self.num_heads) for part in parts)
        return q, k, v

    def _batch_first(self, x: Tensor, batched: bool) -> Nodes:
        if not batched:
            return x[None]
        return x if self.batch_first else x.transpose(0, 1)

    def _original_layout(self, y: Nodes, batched: bool) -> Tensor:
        if not batched:
            return y[0]
        return y if self.batch_first else y.transpose(0, 1)


def merge_masks(
    pairs: Tensor | None, padding: Tensor | None, q: Heads, batched: bool
) -> Tensor | None:
    """Return torch's two masks, in which True hides, as one that is added to the logits."""
    if padding is not None:
        padding = _to_logits("key_padding_mask", padding, q)
        padding = (padding if batched else padding[None])[:, None, None, :]
    if pairs is not None:
        pairs = _to_logits("attn_mask", pairs, q)
        pairs = pairs[None, None] if pairs.ndim == 2 else pairs.unflatten(0, (-1, q.shape[1]))
    if pairs is None or padding is None:
        return padding if pairs is None else pairs
    return pairs + padding


def _to_logits(name: str, mask: Tensor, q: Heads) -> Tensor:
    if mask.is_floating_point():
        return mask
    if mask.dtype != torch.bool:
        raise FighterError("needs a bool or floating-point tensor", argument=name, value=mask.dtype)
    return q.new_zeros(mask.shape).masked_fill(mask, float("-inf"))


def is_attention(module: nn.Module) -> bool:
    """Return whether a module is torch's attention, with or without further hops."""
    return type(module) in (nn.MultiheadAttention, MultiHopAttention)


def is_self_attention(name: str, module: nn.Module, parent: nn.Module | None) -> bool:
    """Return whether a module attends to its own input, as far as its place says."""
    cross = isinstance(parent, nn.TransformerDecoderLayer) and name.endswith("multihead_attn")
    attention = cast(nn.MultiheadAttention, module)
    return not cross and attention.kdim == attention.embed_dim


def refusal(module: Any) -> str | None:
    """Return why a module cannot have further hops, or None."""
    if module.bias_k is not None or module.add_zero_attn:
        return "add_bias_kv and add_zero_attn give A a column without a row, so it has no powers"
    if module.vdim != module.embed_dim:
        return f"vdim={module.vdim} differs from embed_dim={module.embed_dim}"
    return None


def plug(module: nn.Module, kappa: int) -> None:
    """Give an attention further hops, in place."""
    attention = cast(nn.MultiheadAttention, module)
    width, weight = attention.embed_dim, attention.in_proj_weight
    hops = FurtherHops(width, width, kappa=kappa, heads=attention.num_heads)
    attention.hops = hops.to(weight)
    attention.__class__ = MultiHopAttention


def unplug(module: nn.Module) -> None:
    """Take the further hops away, in place."""
    del module.hops
    module.__class__ = nn.MultiheadAttention


def stop_nesting(model: nn.Module) -> None:
    """Let torch's encoders with further hops pad: nested tensors are for its fused kernel only."""
    for encoder in _encoders(model):
        if any(isinstance(module, MultiHopAttention) for module in encoder.modules()):
            if not hasattr(encoder, "nested_before_hops"):
                encoder.nested_before_hops = encoder.use_nested_tensor
            encoder.use_nested_tensor = False


def allow_nesting(model: nn.Module) -> None:
    """Undo :func:`stop_nesting`."""
    for encoder in _encoders(model):
        if hasattr(encoder, "nested_before_hops"):
            encoder.use_nested_tensor = encoder.nested_before_hops
            del encoder.nested_before_hops


def _encoders(model: nn.Module) -> Iterator[Any]:
    return (module for module in model.modules() if isinstance(module, nn.TransformerEncoder))
