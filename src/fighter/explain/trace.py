"""One number of a network's output, followed back: over each layer's edges, and to the input."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import FighterError
from ..nn import FighterLayer
from ..nn.common import split_heads
from ..nn.transformer import TransformerBlock
from .freeze import Frozen
from .layer import HopParts, Layer, hop_parts, known_layers


@dataclass(frozen=True, eq=False)
class LayerTrace:
    """What went along the edges of one layer.

    ``edges[…, h, i, j, s]`` is (A_hⁱ)_js ⟨V_s, G_j⟩: what node s sent to node j over the power i of
    head h, as a part of F. With what went around the layer, and with biases from there on, they add
    up to F: F = Σ edges + rest.
    """

    parts: HopParts
    edges: Tensor  # [sequences, heads, powers, nodes, nodes]
    rest: Tensor  # a number


@dataclass(frozen=True, eq=False)
class Trace:
    """F = Σ inputs + constant, exactly."""

    inputs: Tensor  # [1 + hops, *input]: by the number of edges walked on the way
    constant: Tensor  # a number
    total: Tensor  # F
    layers: list[LayerTrace]


def trace(
    network: nn.Module,
    function: Callable[[Tensor], Tensor],
    x: Tensor,
    select: Callable[[Tensor], Tensor],
) -> Trace:
    """Split one number of a network's output.

    Args:
        network: holds the layers; it is taken as in evaluation.
        function: calls it: inputs ``[batch, …]`` to outputs ``[batch, …]``, examples apart.
        x: one input, without the batch.
        select: an output, without the batch, to the number F.

    """
    return next(traces(network, function, x, [select]))


def traces(
    network: nn.Module,
    function: Callable[[Tensor], Tensor],
    x: Tensor,
    selects: Iterable[Callable[[Tensor], Tensor]],
) -> Iterator[Trace]:
    """The same for several numbers of one output, at the cost of a backward pass each.

    Walks are counted by a trick: with A → θA everywhere the frozen network is a polynomial in θ,
    whose coefficient k is what came over k edges. It is evaluated at as many θ as it has
    coefficients, all in one batch.
    """
    layers = known_layers(network)
    degree = sum(max(_powers(layer)) for layer in layers)
    theta = _points(degree).to(x)  # the first is 1
    table = theta[:, None].double() ** torch.arange(degree + 1, device=x.device)
    batch = torch.stack([x] * len(theta) + [torch.zeros_like(x)])  # at 0: what is constant
    training = network.training
    network.eval()
    try:
        frozen = Frozen(function, x[None])
        with _watch(layers, torch.cat([theta, theta[:1]])) as seen, torch.enable_grad():
            start = batch.clone().requires_grad_()
            *outputs, nothing = frozen(start)
    finally:
        network.train(training)
    own = {layer: slice(0, len(seen[layer][0]) // len(batch)) for layer in layers}  # θ = 1
    held = [hop_parts(layer, seen[layer][0][own[layer]].detach()) for layer in layers]
    for select in selects:
        with torch.enable_grad():
            values = torch.stack([select(output) for output in outputs])
            slope, *gains = torch.autograd.grad(
                values.sum(),
                (start, *(seen[layer][1] for layer in layers)),
                retain_graph=True,
                allow_unused=True,
                materialize_grads=True,
            )
        total, parts = values[0].detach(), (slope * batch)[:-1]  # parts of F(θ), by input
        inputs = torch.linalg.solve(table, parts.flatten(1).double()).unflatten(1, x.shape).to(x)
        inputs[inputs.abs() < 1e-14 * inputs.abs().amax()] = 0  # rounding, where no walk leads
        constant = select(nothing).detach()
        _check(select(frozen.output[0]), parts[0], constant)
        edges = [
            _edges(layer, hops, gain[own[layer]], total)
            for layer, hops, gain in zip(layers, held, gains, strict=True)
        ]
        yield Trace(inputs, constant, total, edges)


def _powers(layer: Layer) -> tuple[int, ...]:
    return layer.powers if isinstance(layer, FighterLayer) else (1,)


def _points(degree: int) -> Tensor:
    """Where polynomials of a degree are told apart best, among them 1."""
    if not degree:
        return torch.ones(1)
    return torch.cos(torch.pi * torch.arange(degree + 1, dtype=torch.float64) / degree)


@contextmanager
def _watch(layers: list[Layer], theta: Tensor) -> Iterator[dict[Layer, list[Tensor]]]:
    """Scale what goes over i edges by θⁱ; note each layer's input and the sum of its hops."""
    seen: dict[Layer, list[Tensor]] = {layer: [] for layer in layers}

    def factor(values: Tensor) -> Tensor:
        return theta.repeat_interleave(len(values) // len(theta))[:, None, None]

    def note(layer: Layer, module: nn.Module, args: tuple[Any, ...]) -> None:
        del module
        seen[layer].append(args[0])

    def scale_blocks(
        layer: FighterLayer, module: nn.Module, args: tuple[Any, ...], values: Tensor
    ) -> Tensor:
        del module, args
        blocks = zip(layer.powers, values.chunk(len(layer.powers), -1), strict=True)
        return torch.cat([block * factor(values) ** power for power, block in blocks], -1)

    def scale_attention(
        layer: TransformerBlock, module: nn.Module, args: tuple[Any, ...]
    ) -> Tensor | None:
        del module
        if len(seen[layer]) == 2:  # the same dropout, after the feed-forward network
            return None
        seen[layer].append(args[0])
        bias = 0 if layer.value.bias is None else layer.value.bias  # not of the walk: A1 = 1
        return (args[0] - bias) * factor(args[0]) + bias

    hooks = []
    for layer in layers:
        hooks.append(layer.register_forward_pre_hook(partial(note, layer)))
        if isinstance(layer, FighterLayer):
            hooks.append(layer.mix.register_forward_pre_hook(partial(note, layer)))
            hooks.append(layer.values.register_forward_hook(partial(scale_blocks, layer)))
        else:
            hooks.append(layer.dropout.register_forward_pre_hook(partial(scale_attention, layer)))
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()


def _edges(layer: Layer, parts: HopParts, gain: Tensor, total: Tensor) -> LayerTrace:
    """From the gradient at the sum of the layer's hops."""
    edges = parts.edges(split_heads(gain, layer.heads))
    return LayerTrace(parts, edges, total - edges.sum())


def _check(total: Tensor, parts: Tensor, constant: Tensor) -> None:
    """The parts must add up to what the network says."""
    found, size = parts.sum() + constant, parts.abs().sum() + constant.abs()
    if not (found - total).abs() <= torch.finfo(total.dtype).eps ** 0.5 * size:
        raise FighterError(
            f"the parts add up to {float(found):.6g} instead of {float(total):.6g}: the network "
            "holds an operation that cannot be frozen"
        )
