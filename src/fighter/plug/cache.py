"""The cache of Hugging Face transformers, extended by what each hop multiplies.

Under a causal graph Aⁱ b at a position depends on earlier positions only, so it never changes once
it is computed. To decode a token, a hop needs its own row of A and what A multiplied so far.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer, EncoderDecoderCache

from ..errors import FighterError


class HopLayer(DynamicLayer):
    """One layer of a ``DynamicCache`` that holds, besides keys and values, one tensor per hop."""

    operands: dict[int, Tensor]  # by the order in which hops are done, [batch, heads, nodes, width]

    def reset(self) -> None:
        """Forget everything."""
        super().reset()
        self.operands = {}

    def crop(self, tokens_to_remove: int) -> None:
        """Remove the last tokens, given as a negative number."""
        super().crop(tokens_to_remove)
        if tokens_to_remove:
            self._change(lambda b: b[..., :tokens_to_remove, :])

    def reorder_cache(self, beam_idx: torch.LongTensor) -> None:
        """Take the beams that go on."""
        super().reorder_cache(beam_idx)
        self._change(lambda b: b.index_select(0, beam_idx.to(b.device)))

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Repeat every sequence of the batch."""
        super().batch_repeat_interleave(repeats)
        self._change(lambda b: b.repeat_interleave(repeats, 0))

    def batch_select_indices(self, indices: Tensor) -> None:
        """Keep some sequences of the batch."""
        super().batch_select_indices(indices)
        self._change(lambda b: b[indices])

    def offload(self) -> None:
        """Move the tensors to the CPU."""
        super().offload()
        self._change(lambda b: b.to("cpu", non_blocking=True))

    def prefetch(self) -> None:
        """Move the tensors back to the device of the layer."""
        super().prefetch()
        self._change(lambda b: b.to(self.device, non_blocking=True))

    def _change(self, change: Callable[[Tensor], Tensor]) -> None:
        self.operands = {order: change(b) for order, b in self.operands.items()}


class Past:
    """What each hop of one layer multiplied at earlier positions.

    A call appends what a hop multiplies to what it multiplied before, and returns both; it is made
    once per hop, in their order.

    Args:
        cache: the cache of a model, after keys and values have been appended to it.
        place: the layer's place in the cache.
        new: number of new positions.
        hops: number of hops.
    """

    def __init__(self, cache: Any, place: int, new: int, hops: int):
        self.layer = _hop_layer(cache, place, new)
        self.seen = self.layer.get_seq_length() - new
        operands = self.layer.operands
        held = [operands[i].shape[-2] if i in operands else 0 for i in range(hops)]
        if any(length != self.seen for length in held):
            raise FighterError(_foreign(self.seen), argument="past_key_values")
        self._orders = iter(range(hops))

    def __call__(self, b: Tensor) -> Tensor:
        """Append ``b`` to what the next hop multiplied before."""
        order, operands = next(self._orders), self.layer.operands
        operands[order] = torch.cat([operands[order], b], -2) if order in operands else b
        return operands[order]


def _hop_layer(cache: Any, place: int, new: int) -> HopLayer:
    if isinstance(cache, EncoderDecoderCache):
        cache = cache.self_attention_cache
    layer = cache.layers[place] if isinstance(cache, Cache) else None
    if type(layer) is DynamicLayer:
        if (seen := layer.get_seq_length() - new) > 0:
            raise FighterError(_foreign(seen), argument="past_key_values")
        layer.__class__ = HopLayer  # the layer belongs to the caller's cache, so it stays in place
        layer.operands = {}  # pyright: ignore[reportAttributeAccessIssue]
    if not isinstance(layer, HopLayer):
        kind = type(cache if layer is None else layer).__name__
        raise FighterError(
            f"{kind} cannot hold the features of the hops: needs a DynamicCache without a sliding "
            'window; pass cache_implementation="dynamic", or use_cache=False',
            argument="past_key_values",
        )
    return layer


def _foreign(seen: int) -> str:
    return (
        f"holds {seen} positions without the features of their hops, because another model or "
        "another kappa filled it; start with an empty DynamicCache"
    )
