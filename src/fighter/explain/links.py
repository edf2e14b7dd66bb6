"""Split the forecasts of many windows over the series that they were made of."""

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from .._typing import Float, Int
from ..data.windows import Batch
from ..models import ForecastNet
from .trace import batch_slopes

Targets = Sequence[int]


class Links(NamedTuple):
    """The forecasts of one series in several windows, in the units of the batch.

    ``parts`` are those of past values, as :func:`fighter.explain.trace_windows` gives them, and
    ``z`` are these values, in deviations of their window.
    """

    target: int
    parts: Float[Tensor, "batch lookback series"]
    z: Float[Tensor, "batch lookback series"]


def split_windows(
    network: ForecastNet,
    batch: Batch,
    position: Tensor,
    step: Int[Tensor, "batch"],
    targets: Targets,
) -> Iterator[Links]:
    """Split the forecasts of each target, at one step (from 0) of each window of a batch.

    Windows do not influence each other, so one pass back splits the forecasts of all of them.
    """
    function, z, pick = _prepare(network, batch, position, step)
    selects = (lambda y, i=i: pick(y)[:, i] for i in targets)
    for target, slopes in zip(targets, batch_slopes(network, function, z, selects), strict=True):
        yield Links(target, slopes[0] * z, z)


def own_parts(
    network: ForecastNet,
    batch: Batch,
    position: Tensor,
    step: Int[Tensor, "batch"],
    targets: Targets,
) -> Iterator[Links]:
    """Split as :func:`split_windows` does, if no series sees another: one pass is enough."""
    function, z, pick = _prepare(network, batch, position, step)
    (slopes,) = batch_slopes(network, function, z, [pick])
    for target in targets:
        parts = torch.zeros_like(z)
        parts[..., target] = slopes[0][..., target] * z[..., target]
        yield Links(target, parts, z)


def count_hops(
    network: ForecastNet,
    batch: Batch,
    position: Tensor,
    step: Int[Tensor, "batch"],
    targets: Targets,
) -> Iterator[Float[Tensor, "series"]]:
    """Yield the mean number of edges walked to each target, weighted by absolute parts.

    The work is done on a copy of the network, because it needs hooks.
    """
    network = copy.deepcopy(network)
    function, z, pick = _prepare(network, batch, position, step)
    selects = (lambda y, i=i: pick(y)[:, i] for i in targets)
    for slopes in batch_slopes(network, function, z, selects, by_hops=True):
        sizes = {edges: (slope * z).abs().sum((0, 1)) for edges, slope in slopes.items()}
        walked = sum((edges * size for edges, size in sizes.items()), torch.zeros_like(z[0, 0]))
        yield walked / sum(sizes.values(), torch.zeros_like(walked)).clamp(min=1e-30)


def _prepare(
    network: ForecastNet, batch: Batch, position: Tensor, step: Tensor
) -> tuple[Callable[[Tensor], Tensor], Tensor, Callable[[Tensor], Tensor]]:
    """Return the network as a function of normalised windows, these, and a choice of steps.

    The function returns forecasts less their level, in the units of the batch.
    """
    with torch.no_grad():
        window = network.window(batch, position)
    nothing = torch.zeros_like(window.mean)
    rows = torch.arange(len(step), device=step.device)

    def forecast(z: Tensor) -> Tensor:
        y = network.inside(z, window.before, window.after, batch, network.halves)
        if network.halves:
            return network.by_halves(y, window._replace(mean=nothing, level=nothing))
        return y * window.scale[..., None]

    return forecast, window.z, lambda y: y[rows, step, :, 0]
