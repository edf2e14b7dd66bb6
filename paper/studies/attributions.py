"""Other people's attributions, in the same units as ours, to be compared with them.

All of them score every past value of a window for one number of its forecast: ``[B, L, N]``. They
start from one origin, the look-back's mean, and take its mean and deviation as numbers, as ours do:
the normalisation undoes any scaling of a window, so that nothing can be learned along such a path.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from fighter.data.windows import Batch
from fighter.errors import FighterError
from fighter.explain.freeze import Frozen
from fighter.explain.layer import Layer, known_layers
from fighter.models import ForecastNet

Function = Callable[[Tensor], Tensor]


def forecast_parts(network: ForecastNet, batch: Batch, position: Tensor) -> tuple[Tensor, Function]:
    """The windows in their own units ``[B, L, N]``, and what makes of them a forecast.

    That is ``[B, H, N, outputs]`` in the units of the batch, less the look-back's mean.
    """
    with torch.no_grad():
        window = network.window(batch, position)

    def forecast(z: Tensor) -> Tensor:
        return network.inside(z, window.before, window.after, batch) * window.scale[..., None]

    return window.z, forecast


def frozen_input(function: Function, x: Tensor) -> Tensor:
    """Ours for many windows at once: gradient by input of the network frozen at each of them."""
    return gradient_input(lambda x: Frozen(function, x).output, x)


def gradient_input(function: Function, x: Tensor) -> Tensor:
    """∂F/∂x · x of ``function``: ``[B, …]`` to a number for each window ``[B]``."""
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        (slope,) = torch.autograd.grad(function(x).sum(), x)
    return slope * x.detach()


def integrated_gradients(function: Function, x: Tensor, steps: int = 32) -> Tensor:
    """Of ``function``, x · ∫₀¹ ∂F/∂x(αx) dα by the midpoint rule (Sundararajan et al., 2017)."""
    slopes = torch.zeros_like(x)
    for place in range(steps):
        alpha = (place + 0.5) / steps
        slopes += gradient_input(function, alpha * x) / alpha
    return slopes / steps


@torch.no_grad()
def layer_graphs(network: torch.nn.Module, call: Callable[[], object]) -> list[Tensor]:
    """A of every layer while ``call()`` runs the network, heads averaged: ``[B, S, S]`` each."""
    graphs: list[Tensor] = []

    def note(layer: Layer, args: tuple[Tensor, ...]) -> None:
        graphs.append(layer.graph(args[0]).mean(1))

    hooks = [layer.register_forward_pre_hook(note) for layer in known_layers(network)]
    try:
        call()
    finally:
        for hook in hooks:
            hook.remove()
    return graphs


def rollout(graphs: Sequence[Tensor]) -> Tensor:
    """∏ (A + I)/2 over the layers, the last on the left (Abnar and Zuidema, 2020)."""
    eye = torch.eye(graphs[0].shape[-1]).to(graphs[0])
    product = eye.expand_as(graphs[0])
    for graph in graphs:
        product = (graph + eye) / 2 @ product
    return product


def over_inputs(weights: Tensor, network: ForecastNet, series: int) -> Tensor:
    """Weights between nodes ``[B, S, S]`` as scores of past values ``[B, L, N]``.

    A node's weight is shared evenly by the values in it: attention says nothing of them. Nodes are
    series: the row of the target. Nodes are time steps: the mean of all rows, for the head reads
    them all.
    """
    task, kind = network.core.task, network.core.nodes
    if kind == "series":
        return (weights[:, series] / task.lookback)[:, None].expand(-1, task.lookback, -1)
    if kind == "time":
        return (weights.mean(1) / task.series)[..., None].expand(-1, -1, task.series)
    raise FighterError(f"nodes={kind!r}: attention over inputs needs nodes that are series or time")
