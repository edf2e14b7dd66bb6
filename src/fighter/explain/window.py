"""Split the forecast of one window, with its normalisation and its cycle."""

import copy
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from operator import itemgetter

import torch
from torch import Tensor

from ..data.bounds import clamp_finished
from ..data.windows import Batch
from ..models import ForecastNet
from .trace import LayerTrace, traces

Clamp = Callable[[Tensor, Batch], Tensor]


@dataclass(frozen=True, eq=False)
class WindowTrace:
    """One forecast, in the units of the batch: level + cycle + covariates + bias + Σ sources.

    If the forecast was clamped to a bound of its series, the term "bound" holds the difference.
    """

    forecast: float
    terms: dict[str, float]
    sources: Tensor  # [1 + hops, lookback, series]
    layers: list[LayerTrace]  # their edges times `unit` are in the units of the batch
    unit: float


def trace_window(
    network: ForecastNet, batch: Batch, position: Tensor, series: int, step: int
) -> WindowTrace:
    """Split the forecast of one series and step (from 0); the batch holds one window."""
    return next(trace_windows(network, batch, position, [(series, step)]))


def trace_windows(
    network: ForecastNet,
    batch: Batch,
    position: Tensor,
    targets: Iterable[tuple[int, int]],
    clamp: Clamp = clamp_finished,
) -> Iterator[WindowTrace]:
    """Split the forecasts of several (series, step) of one window, one after the other.

    ``clamp`` keeps forecasts within their bounds.

    The mean and the deviation of the look-back are held constant. The cycle is one more input of
    the network, whose parts are summed into one term. The work is done on a copy of the network,
    because it needs hooks and other threads may be forecasting.
    """
    network = copy.deepcopy(network)
    lookback, horizon, count = batch.past.shape[1], network.core.task.horizon, batch.past.shape[2]
    with torch.no_grad():
        window = network.window(batch, position)
        z, before, after, level, scale = (
            window.z, window.before, window.after, window.level, window.scale
        )  # fmt: skip
        if network.halves:
            level, scale = network.lerp(window.mean, level), torch.ones_like(scale)
        level, scale, cycle_added = (
            each.expand(1, horizon, count)[0] for each in (level, scale, window.cycle)
        )
        rows = torch.cat([z, before.expand_as(z), after.expand(1, horizon, count)], 1)[0]
        covariates = None if network.covariates is None else network.covariates(batch, horizon)[0]

    none = torch.zeros_like(window.mean)

    def inside(rows: Tensor) -> Tensor:
        z, before, after = rows.split([lookback, lookback, horizon], 1)
        y = network.inside(z, before, after, batch, network.halves)
        return network.by_halves(y, window._replace(mean=none, level=none)) if network.halves else y

    targets = list(targets)
    selects = [itemgetter((step, series, 0)) for series, step in targets]
    for (series, step), trace in zip(targets, traces(network, inside, rows, selects), strict=True):
        unit = float(scale[step, series])
        sources, cycle = trace.inputs.double().split([lookback, lookback + horizon], 1)
        terms = {"level": float(level[step, series])}
        if network.cycle is not None:
            terms["cycle"] = float(cycle.sum()) * unit + float(cycle_added[step, series])
        if covariates is not None:
            terms["covariates"] = float(covariates[step, series, 0])
        terms["bias"] = float(trace.constant) * unit
        forecast = sum(terms.values()) + float(sources.sum()) * unit
        everywhere = torch.full((1, 1, count, 1), forecast, dtype=torch.float64)
        clamped = float(clamp(everywhere.to(z.device), batch)[0, 0, series, 0])
        if clamped != forecast:
            terms["bound"], forecast = clamped - forecast, clamped
        yield WindowTrace(forecast, terms, sources * unit, trace.layers, unit)
