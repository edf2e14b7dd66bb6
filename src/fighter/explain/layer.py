"""Split the output of one layer over the edges of its graph: which node sent what, by which hop."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from math import comb
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import FighterError
from ..hops import describe, recursion
from ..nn import FighterLayer
from ..nn._checks import check_nodes, join_heads, split_heads
from ..nn.transformer import TransformerBlock
from .freeze import Frozen

Layer = FighterLayer | TransformerBlock
KNOWN = (FighterLayer, TransformerBlock)  # no subclasses: they may filter A in another way
Mask = Tensor | None
Map = Callable[[Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class HopParts:
    """The terms AⁱVᵢ, Vᵢ = TWᵢ, that a layer adds up, for each head and power.

    The terms of a lazy layer, A = s I + (1-s) P, are expanded in powers of P by default. The sum
    is the same, but what stays at a node then counts as hop 0.
    """

    inputs: Tensor  # T [B, heads or 1, S, D]: what a head reads, after the layer's norm
    graph: Tensor  # A [B, heads, S, S]
    powers: tuple[int, ...]
    weights: tuple[Tensor, ...]  # Wᵢᵀ [heads · width, D]
    values: tuple[Tensor, ...]  # Vᵢ [B, heads, S, width]

    def graphs(self) -> tuple[Tensor, ...]:
        """Return Aⁱ for each power, ``[batch, heads, nodes, nodes]``."""
        return self._graphs

    @cached_property
    def _graphs(self) -> tuple[Tensor, ...]:
        eye = torch.eye(self.graph.shape[-1]).to(self.graph).expand_as(self.graph)
        return recursion(lambda b: self.graph if b is eye else self.graph @ b, eye, self.powers)

    def edges(self, gain: Tensor) -> Tensor:
        """Return Eᵢ = Aⁱ ∘ (G Vᵢᵀ) ``[B, heads, powers, S, S]`` for G ``[B, heads, S, width]``."""
        pairs = zip(self.graphs(), self.values, strict=True)
        return torch.stack([a * (gain @ v.transpose(-1, -2)) for a, v in pairs], 2)


def known_layers(network: nn.Module) -> list[Any]:
    """Return the layers of a network whose edges can be traced, in order."""
    return [module for module in network.modules() if type(module) in KNOWN]


@torch.no_grad()
def hop_parts(
    layer: Layer, x: Tensor, mask: Mask = None, causal: bool = False, *, staying: bool = False
) -> HopParts:
    """Compute the terms of a Fighter layer, or of the attention in a Transformer block.

    ``x`` is the layer's input ``[batch, nodes, width]``; ``mask`` and ``causal`` are as the layer
    takes them. With ``staying``, a lazy layer is expanded in powers of A, in which staying at a
    node is an edge of the graph, instead of powers of P.
    """
    if type(layer) not in KNOWN:
        reason = f"needs a FighterLayer or a TransformerBlock, not {type(layer).__name__}"
        raise FighterError(reason, argument="layer")
    x = check_nodes(x, layer.width, layer.heads, mask, causal)
    graph = layer.graph(x, mask=mask, causal=causal)
    if isinstance(layer, FighterLayer):
        t, powers = layer.norm(x), layer.powers
        weights = tuple(layer.weight(block).T for block in range(len(powers)))
        stay = getattr(layer.adjacency, "stay", 0.0)
        if stay and mask is None and not staying:
            graph, powers, weights = _without_staying(graph, powers, weights, stay)
    else:
        t, powers, weights = layer.norm1(x), (1,), (layer.value.weight,)
        if layer.hops is not None:
            powers, weights = layer.hops.powers, (*weights, *layer.hops.weights())
    values = tuple(split_heads(F.linear(t, weight), layer.heads) for weight in weights)
    inputs = t[:, None]
    if isinstance(layer, FighterLayer) and layer.members > 1:  # a head reads its member's columns
        inputs = split_heads(t, layer.members).repeat_interleave(layer.heads // layer.members, 1)
    return HopParts(inputs, graph, powers, weights, values)


def _without_staying(
    graph: Tensor, powers: tuple[int, ...], weights: Sequence[Tensor], stay: float
) -> tuple[Tensor, tuple[int, ...], tuple[Tensor, ...]]:
    """Expand the terms of a lazy graph A = s I + (1-s) P in powers of P; return P, j and Uⱼ.

    Σᵢ AⁱTWᵢ = Σⱼ PʲTUⱼ with Uⱼ = Σᵢ (i over j) sⁱ⁻ʲ (1-s)ʲ Wᵢ.
    """
    p = (graph - stay * torch.eye(graph.shape[-1]).to(graph)) / (1 - stay)
    hops = tuple(range(max(powers) + 1))
    share = [[comb(i, j) * stay ** max(i - j, 0) * (1 - stay) ** j for i in powers] for j in hops]
    return p, hops, tuple(torch.tensordot(graph.new_tensor(share), torch.stack([*weights]), 1))


@dataclass(frozen=True, eq=False)
class Edges:
    """One number F per example, split exactly: F = Σ edges + skip + constant.

    An edge is what node s (column) sent to node j (row) by hop i of head h,
    (A_hⁱ)_js ⟨T_s Wᵢʰ, G_j⟩. It is an exact share of F, but not what F would lose without the
    node, because the graph would then change too.
    """

    edges: Tensor  # [B, heads, hops, S, S]
    skip: Tensor  # [B], what bypasses the layer
    constant: Tensor  # [B], biases and all else that does not depend on the input
    total: Tensor  # [B], F
    powers: tuple[int, ...]

    def graph(self) -> Tensor:
        """Return the edges summed over heads and hops, ``[batch, nodes, nodes]``."""
        return self.edges.sum((1, 2))

    def slack(self) -> Tensor:
        """Return Σ|edges| / |Σ edges| ``[batch]``: 1 if all have one sign, large if they cancel."""
        return self.edges.abs().sum((1, 2, 3, 4)) / self.edges.sum((1, 2, 3, 4)).abs()


def layer_edges(
    layer: Layer, x: Tensor, readout: Map, mask: Mask = None, causal: bool = False
) -> Edges:
    """Split a number F of a layer's output over the edges of each head and hop.

    Eᵢ = Aⁱ ∘ (G Vᵢᵀ) with G the gradient of F at the sum of the hops. Dropout is switched off.

    Example:
        >>> import torch
        >>> from fighter.nn import FighterLayer
        >>> from fighter.explain import layer_edges
        >>> layer, head = FighterLayer(8, kappa=3, norm=True), torch.nn.Linear(8, 1)
        >>> split = layer_edges(layer, torch.randn(2, 5, 8), lambda y: head(y)[:, -1, 0])
        >>> split.edges.shape
        torch.Size([2, 1, 3, 5, 5])

    Args:
        layer: a Fighter layer, or a Transformer block for the edges of its attention.
        x: input of the layer ``[batch, nodes, width]``.
        readout: affine map from the layer's output ``[batch, nodes, width]`` to one number F per
            example ``[batch]``.
        mask: as the layer takes it (default: none).
        causal: as the layer takes it (default: False).
    """
    parts = hop_parts(layer, x, mask, causal)
    x = check_nodes(x, layer.width, layer.heads, mask, causal).detach()
    with torch.no_grad():
        sent = [a @ v for a, v in zip(parts.graphs(), parts.values, strict=True)]
        z = torch.stack(sent).sum(0)
        after = Frozen(partial(_after_hops, layer), z, x)
        constant = _read(readout, after(torch.zeros_like(z), torch.zeros_like(x)))
    with torch.enable_grad():
        z, x = z.requires_grad_(), x.requires_grad_()
        total = _read(readout, after(z, x))
        to_hops, to_skip = torch.autograd.grad(total.sum(), (z, x), materialize_grads=True)
    z, x, total = z.detach(), x.detach(), total.detach()
    skip_terms, hop_terms = (to_skip * x).flatten(1), (to_hops * z).flatten(1)
    _check_affine(total, torch.cat([skip_terms, hop_terms, constant[:, None]], 1))
    return Edges(parts.edges(to_hops), skip_terms.sum(1), constant, total, parts.powers)


def _after_hops(layer: Layer, z: Tensor, x: Tensor) -> Tensor:
    """Return the output of a layer, from the sum z of its hops and its input."""
    mixed = join_heads(z)
    if isinstance(layer, FighterLayer):
        u = layer.mix(mixed)
        y = layer.project(layer.activation(u if layer.bias is None else u + layer.bias))
        return x + y if layer.residual else y
    if layer.value.bias is not None:
        mixed = mixed + layer.value.bias  # A1 = 1: the graph leaves it unchanged
    mixed = x + mixed if layer.residual else mixed
    y = layer.ffn2(layer.activation(layer.ffn1(layer.norm2(mixed))))
    return mixed + y if layer.residual else y


def _read(readout: Map, y: Tensor) -> Tensor:
    f = readout(y)
    if f.shape != y.shape[:1]:
        reason = f"returned {describe(f)}; needs one number per example, [{len(y)}]"
        raise FighterError(reason, argument="readout")
    return f


def _check_affine(total: Tensor, terms: Tensor) -> None:
    miss = (total - terms.sum(1)).abs()
    if not (miss <= torch.finfo(total.dtype).eps ** 0.5 * terms.abs().sum(1)).all():
        advice = "pass one without activation, norm or dropout (put a model in evaluation mode)"
        reason = f"is not affine: its parts miss its value by up to {float(miss.max()):.3g}"
        raise FighterError(f"{reason}; {advice}", argument="readout")
