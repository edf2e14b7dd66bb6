"""Follow one number of a network's output back over each layer's edges and to the input."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import FighterError
from ..nn import FighterLayer
from ..nn._checks import join_heads, split_heads
from .freeze import Frozen
from .layer import HopParts, Layer, Map, hop_parts, known_layers


@dataclass(frozen=True, eq=False)
class LayerTrace:
    """The parts of F that went along the edges of one layer: F = Σ edges + rest.

    ``edges[…, h, i, j, s]`` is (A_hⁱ)_js ⟨V_s, G_j⟩: what node s sent to node j over the power i of
    head h. ``rest`` is what bypassed the layer, and the biases from there on.
    """

    parts: HopParts
    edges: Tensor  # [sequences, heads, powers, nodes, nodes]
    rest: Tensor  # a number


@dataclass(frozen=True, eq=False)
class Trace:
    """One number F of an output, split exactly: F = Σ inputs + constant."""

    inputs: Tensor  # [1 + hops, *input]: parts of F by how often they went to another node
    constant: Tensor  # a number
    total: Tensor  # F
    layers: list[LayerTrace]


def trace(network: nn.Module, function: Map, x: Tensor, select: Map) -> Trace:
    """Split one number of a network's output over its input and the edges of its layers.

    Args:
        network: the module that holds the layers; it is evaluated without dropout.
        function: how to call it, from inputs ``[batch, …]`` to outputs ``[batch, …]``; examples
            must not influence each other.
        x: one input, without the batch dimension.
        select: picks the number F from an output without the batch dimension.
    """
    return next(traces(network, function, x, [select]))


def traces(network: nn.Module, function: Map, x: Tensor, selects: Iterable[Map]) -> Iterator[Trace]:
    """Split several numbers of one output as :func:`trace` does; each costs backward passes only.

    The frozen network is cut where a layer begins and where its hops are summed. Gradients of F
    walk from the last cut to the first, separately for each number of edges walked so far. The
    power i of a layer's graph adds as many as there are steps from one node to another in its i
    steps: a step from a node to itself walks no edge. Everything else adds none.
    """
    with _eval_mode(network):
        with torch.enable_grad(), _cutting(known_layers(network)) as cuts:
            start = _leaf(x[None])
            frozen = Frozen(function, start)
        with torch.no_grad():
            at_zero = frozen(torch.zeros_like(start))[0]
        hops = sum(max(cut.parts.powers) for cut in cuts)
    for select in selects:
        with torch.enable_grad():
            total = select(frozen.output[0])
        slopes, gains = _walk(total, start, cuts)
        if not any(slope.any() for slope in slopes.values()):
            _check_independent(function, start, select)
        zero = torch.zeros_like(start)
        inputs = torch.cat([slopes.get(edges, zero) for edges in range(hops + 1)]) * x
        total, constant = total.detach(), select(at_zero)
        _check(total, inputs, constant)
        layers = []
        for cut, gain in zip(cuts, gains, strict=True):
            edges = cut.parts.edges(split_heads(gain, cut.layer.heads))
            layers.append(LayerTrace(cut.parts, edges, total - edges.sum()))
        yield Trace(inputs, constant, total, layers)


def batch_slopes(
    network: nn.Module,
    function: Map,
    x: Tensor,
    selects: Iterable[Map],
    *,
    by_hops: bool = False,
) -> Iterator[dict[int, Tensor]]:
    """Yield the slopes of several numbers of many outputs ``[batch, …]`` at once.

    Each ``select`` picks numbers that belong to one example each. Slopes are those of the network
    frozen at ``x``, by edges walked if ``by_hops``, else all under 0.
    """
    layers = known_layers(network) if by_hops else []
    with _eval_mode(network), torch.enable_grad(), _cutting(layers) as cuts:
        start = _leaf(x)
        frozen = Frozen(function, start)
    for select in selects:
        with torch.enable_grad():
            total = select(frozen.output).sum()
        slopes, _ = _walk(total, start, cuts)
        yield slopes or {0: torch.zeros_like(x)}


@contextmanager
def _eval_mode(network: nn.Module) -> Iterator[None]:
    """Switch the modules that are in training mode to eval mode, and back at the end."""
    training = [module for module in network.modules() if module.training]
    network.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True


Slopes = dict[int, Tensor]
"""Gradients of F at one place, by the number of edges walked from there on."""


@dataclass(eq=False)
class _Cut:
    """One call of a layer; gradients stop at the leaves ``x`` and ``z``."""

    layer: Layer
    masks: list[Any]
    options: dict[str, Any]
    before: Tensor  # the layer's input, attached to what precedes it
    x: Tensor  # the same, as a leaf
    t: Tensor = field(init=False)  # x after the norm
    z: Tensor = field(init=False)  # the sum of the hops

    @cached_property
    def parts(self) -> HopParts:
        return hop_parts(self.layer, self.x.detach(), *self.masks, **self.options)

    @torch.no_grad()
    def back(self, gain: Tensor) -> Iterator[tuple[int, Tensor]]:
        """Yield the terms of (Aⁱ)ᵀ G Wᵢᵀ, from the sum of the hops to the layer's input.

        A term comes with the number of its steps that lead to another node.
        """
        graph = self.parts.graph.transpose(-1, -2)
        stay = graph.diagonal(dim1=-2, dim2=-1)
        go, stay = graph - torch.diag_embed(stay), stay[..., None]
        by_edges = split_heads(gain, self.layer.heads)[None]  # [edges walked, B, heads, S, width]
        none, reached = torch.zeros_like(by_edges), 0
        for power, weight in zip(self.parts.powers, self.parts.weights, strict=True):
            for _ in range(power - reached):
                stayed, gone = stay * by_edges, go @ by_edges
                by_edges = torch.cat([stayed, none]) + torch.cat([none, gone])
            reached = power
            for edges, g in enumerate(by_edges):
                yield edges, join_heads(g) @ weight


def _leaf(x: Tensor) -> Tensor:
    return x.detach().requires_grad_()


@contextmanager
def _cutting(layers: list[Layer]) -> Iterator[list[_Cut]]:
    """Cut every call of a layer; the list fills in the order of the calls."""
    cuts: list[_Cut] = []

    def begin(layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        x, *masks = args
        cuts.append(_Cut(layer, masks, kwargs, x, _leaf(x)))
        return (cuts[-1].x, *masks), kwargs

    def after_norm(_module: nn.Module, _args: tuple[Any, ...], t: Tensor) -> None:
        cuts[-1].t = t

    def after_hops(_module: nn.Module, args: tuple[Any, ...]) -> Tensor | None:
        if hasattr(cuts[-1], "z"):  # a block calls its dropout again after the feed-forward network
            return None
        cuts[-1].z = _leaf(args[0])
        return cuts[-1].z

    hooks = []
    for layer in layers:
        fighter = isinstance(layer, FighterLayer)
        norm, after = (layer.norm, layer.mix) if fighter else (layer.norm1, layer.dropout)
        hooks.append(layer.register_forward_pre_hook(begin, with_kwargs=True))
        hooks.append(norm.register_forward_hook(after_norm))
        hooks.append(after.register_forward_pre_hook(after_hops))
    try:
        yield cuts
    finally:
        for hook in hooks:
            hook.remove()


def _walk(total: Tensor, start: Tensor, cuts: list[_Cut]) -> tuple[Slopes, list[Tensor]]:
    """Return the gradients of F at the input, by edges walked, and at each layer's sum of hops."""
    leaves = [start, *(leaf for cut in cuts for leaf in (cut.x, cut.z))]
    at_leaf: dict[Tensor, Slopes] = {leaf: {} for leaf in leaves}

    def push(value: Tensor, slopes: Slopes, to: list[Tensor]) -> None:
        for edges, slope in slopes.items() if value.requires_grad else ():
            grads = torch.autograd.grad(value, to, slope, retain_graph=True, allow_unused=True)
            for leaf, grad in zip(to, grads, strict=True):
                if grad is not None:
                    _add(at_leaf[leaf], edges, grad)

    push(total, {0: torch.ones_like(total)}, leaves)
    for place, cut in reversed([*enumerate(cuts)]):
        at_norm: Slopes = {}
        for edges, slope in at_leaf[cut.z].items():
            for walked, more in cut.back(slope):
                _add(at_norm, edges + walked, more)
        push(cut.t, at_norm, [cut.x])
        push(cut.before, at_leaf[cut.x], leaves[: 1 + 2 * place])
    return at_leaf[start], [sum(at_leaf[cut.z].values(), torch.zeros_like(cut.z)) for cut in cuts]


def _add(slopes: Slopes, edges: int, slope: Tensor) -> None:
    slopes[edges] = slopes[edges] + slope if edges in slopes else slope


def _check_independent(function: Map, x: Tensor, select: Map) -> None:
    """Raise if a number depends on an input of which the affine map keeps nothing."""
    with torch.enable_grad():
        total = select(function(x)[0])
        if not x.any() or not total.requires_grad:
            return
        (slope,) = torch.autograd.grad(total, x, allow_unused=True)
    if slope is not None and slope.any():
        raise FighterError(
            "the network ends in softmax, or in another operation that is held constant, so that "
            "no input would have a part: explain the scores before it"
        )


def _check(total: Tensor, parts: Tensor, constant: Tensor) -> None:
    """Raise unless the parts add up to the network's output."""
    added, size = parts.sum() + constant, parts.abs().sum() + constant.abs()
    if not (added - total).abs() <= torch.finfo(total.dtype).eps ** 0.5 * size:
        raise FighterError(
            f"the parts add up to {float(added):.6g} instead of {float(total):.6g}: the network "
            "holds an operation that cannot be frozen, such as a recurrent cell or a product of "
            "two parts of the signal (for a gated unit, use torch's GLU)"
        )
