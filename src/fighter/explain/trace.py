"""One number of a network's output, followed back: over each layer's edges, and to the input."""

from collections.abc import Callable, Iterator
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
from .layer import HopParts, Layer, hop_parts


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

    Walks are counted by a trick: with A → θA everywhere the frozen network is a polynomial in θ,
    whose coefficient k is what came over k edges. It is evaluated at as many θ as it has
    coefficients, all in one batch.

    Args:
        network: holds the layers, in evaluation mode.
        function: calls it: inputs ``[batch, …]`` to outputs ``[batch, …]``, examples apart.
        x: one input, without the batch.
        select: an output, without the batch, to the number F.

    """
    layers: list[Layer] = [
        m for m in network.modules() if isinstance(m, FighterLayer | TransformerBlock)
    ]
    degree = sum(max(_powers(layer)) for layer in layers)
    theta = _points(degree).to(x)  # the first is 1
    batch = x.expand(len(theta), *x.shape)
    frozen = Frozen(function, batch)
    with _watch(layers, theta) as seen, torch.enable_grad():
        start = batch.clone().requires_grad_()
        outputs = frozen(start)
        values = torch.stack([select(output) for output in outputs])
        sums = [seen[layer][1] for layer in layers]
        slope, *gains = torch.autograd.grad(
            values.sum(), (start, *sums), allow_unused=True, materialize_grads=True
        )
    total, parts = values[0].detach(), slope * batch  # parts of F(θ), by input
    table = theta[:, None].double() ** torch.arange(degree + 1, device=x.device)
    inputs = torch.linalg.solve(table, parts.flatten(1).double()).unflatten(1, x.shape).to(x)
    inputs[inputs.abs() < 1e-14 * inputs.abs().amax()] = 0  # rounding, where no walk leads
    copies = len(theta)
    traced = []
    for layer, gain in zip(layers, gains, strict=True):
        own = slice(0, len(gain) // copies)  # of the first example, θ = 1
        traced.append(_edges(layer, seen[layer][0][own].detach(), gain[own], total))
    with torch.no_grad():
        constant = select(frozen(torch.zeros_like(batch))[0])
    _check(select(frozen.output[0]), parts[0], constant)
    return Trace(inputs, constant, total, traced)


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

    def note(layer: Layer, module: nn.Module, args: tuple[Any, ...]) -> None:
        del module
        if len(seen[layer]) < 2:  # a Transformer's dropout is called again
            seen[layer].append(args[0])

    def scale(layer: Layer, module: nn.Module, args: tuple[Any, ...], values: Tensor) -> Tensor:
        del module, args
        factor = theta.repeat_interleave(len(values) // len(theta))[:, None, None]
        powers = _powers(layer)
        blocks = values.chunk(len(powers), -1)
        if isinstance(layer, TransformerBlock) and layer.value.bias is not None:
            bias = layer.value.bias  # it passes the graph unchanged: A1 = 1
            return (values - bias) * factor + bias
        return torch.cat([b * factor**i for i, b in zip(powers, blocks, strict=True)], -1)

    hooks = []
    for layer in layers:
        ours = isinstance(layer, FighterLayer)
        hooks += [
            layer.register_forward_pre_hook(partial(note, layer)),
            (layer.mix if ours else layer.dropout).register_forward_pre_hook(partial(note, layer)),
            (layer.values if ours else layer.value).register_forward_hook(partial(scale, layer)),
        ]
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()


def _edges(layer: Layer, x: Tensor, gain: Tensor, total: Tensor) -> LayerTrace:
    """Eᵢ = Aⁱ ∘ (G Vᵢᵀ) for the layer's input and the gradient at the sum of its hops."""
    parts, gain = hop_parts(layer, x), split_heads(gain, layer.heads)
    edges = [
        a * (gain @ v.transpose(-1, -2)) for a, v in zip(parts.graphs(), parts.values, strict=True)
    ]
    stacked = torch.stack(edges, 2)
    return LayerTrace(parts, stacked, total - stacked.sum())


def _check(total: Tensor, parts: Tensor, constant: Tensor) -> None:
    """The parts must add up to what the network says."""
    found, size = parts.sum() + constant, parts.abs().sum() + constant.abs()
    if not (found - total).abs() <= torch.finfo(total.dtype).eps ** 0.5 * size:
        raise FighterError(
            f"the parts add up to {float(found):.6g} instead of {float(total):.6g}: the network "
            "holds an operation that cannot be frozen, or is not in evaluation mode"
        )
