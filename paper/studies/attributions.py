"""Compute published attribution methods in the same units as ours, to compare them.

All of them score every past value of a window for one number of its forecast: ``[B, L, N]``. Like
ours they start from the look-back's mean and treat its mean and deviation as constants: the
normalisation undoes any scaling of a window, so a path along which both change shows nothing.
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
    """Return normalised windows ``[B, L, N]`` and the function that forecasts from them.

    The forecast ``[B, H, N, outputs]`` is in the units of the batch, minus the look-back's mean.
    """
    with torch.no_grad():
        window = network.window(batch, position)

    def forecast(z: Tensor) -> Tensor:
        return network.inside(z, window.before, window.after, batch) * window.scale[..., None]

    return window.z, forecast


def frozen_input(function: Function, x: Tensor) -> Tensor:
    """Return our attributions for many windows: gradient × input of the frozen networks."""
    return gradient_input(lambda x: Frozen(function, x).output, x)


def gradient_input(function: Function, x: Tensor) -> Tensor:
    """Return ∂F/∂x · x, where ``function`` maps ``[B, …]`` to one number per window ``[B]``."""
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        (slope,) = torch.autograd.grad(function(x).sum(), x)
    return slope * x.detach()


def integrated_gradients(function: Function, x: Tensor, steps: int = 32) -> Tensor:
    """Return x · ∫₀¹ ∂F/∂x(αx) dα by the midpoint rule (Sundararajan et al., 2017)."""
    slopes = torch.zeros_like(x)
    for step in range(steps):
        alpha = (step + 0.5) / steps
        slopes += gradient_input(function, alpha * x) / alpha
    return slopes / steps


@torch.no_grad()
def layer_graphs(network: torch.nn.Module, call: Callable[[], object]) -> list[Tensor]:
    """Return A of every layer while ``call()`` runs the network, averaged over heads.

    Each is ``[B, S, S]``.
    """
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
    """Return ∏ (A + I)/2 over the layers, the last on the left (Abnar and Zuidema, 2020)."""
    eye = torch.eye(graphs[0].shape[-1]).to(graphs[0])
    product = eye.expand_as(graphs[0])
    for graph in graphs:
        product = (graph + eye) / 2 @ product
    return product


def over_inputs(weights: Tensor, network: ForecastNet, series: int) -> Tensor:
    """Turn weights between nodes ``[B, S, S]`` into scores of past values ``[B, L, N]``.

    The values of a node share its weight evenly, as attention does not tell them apart. With
    series as nodes the row of the target counts; with time steps as nodes the mean of all rows,
    because the head reads them all.
    """
    task, kind = network.core.task, network.core.nodes
    if kind == "series":
        return (weights[:, series] / task.lookback)[:, None].expand(-1, task.lookback, -1)
    if kind == "time":
        return (weights.mean(1) / task.series)[..., None].expand(-1, -1, task.series)
    raise FighterError(
        "attention over inputs needs series or time steps as nodes", argument="nodes", value=kind
    )
