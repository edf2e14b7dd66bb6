"""Split the forecast of one window, with its normalisation and its cycle."""

import copy
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from ..data.bounds import clamp_finished
from ..data.windows import Batch
from ..models import ForecastNet
from .freeze import Frozen
from .trace import LayerTrace, traces

Clamp = Callable[[Tensor, Batch], Tensor]
Mix = tuple[tuple[int, float], ...]
"""Outputs of a network with their weights, which add up to 1: output 0 is the point forecast."""

POINT: Mix = ((0, 1.0),)


@dataclass(frozen=True, eq=False)
class WindowTrace:
    """One forecast, in the units of the batch: Σ terms + Σ covariates + Σ sources.

    Terms are level, cycle, covariates (what these add at the means of training) and bias. If the
    forecast was clamped to a bound of its series, the term "bound" holds the difference.
    """

    forecast: float
    terms: dict[str, float]
    sources: Tensor  # [1 + hops, lookback, series]
    layers: list[LayerTrace]  # their edges times `unit` are in the units of the batch
    unit: float
    covariates: tuple[Tensor, Tensor]  # parts of those known ahead [F] and of past ones [P]


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
    mixes: Iterable[Mix] | None = None,
) -> Iterator[WindowTrace]:
    """Split the forecasts of several (series, step) of one window, one after the other.

    ``clamp`` keeps forecasts within their bounds. ``mixes`` says which outputs of the network, with
    which weights, are explained for each target (default: the point forecast).

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
    covariates = None if network.covariates is None else _FrozenCovariates(network, batch)
    none = torch.zeros_like(window.mean)

    def inside(rows: Tensor) -> Tensor:
        z, before, after = rows.split([lookback, lookback, horizon], 1)
        y = network.inside(z, before, after, batch, network.halves)
        return network.by_halves(y, window._replace(mean=none, level=none)) if network.halves else y

    targets = list(targets)
    mixes = [POINT] * len(targets) if mixes is None else list(mixes)
    selects = [partial(_mixed, place, mix) for place, mix in zip(targets, mixes, strict=True)]
    found = traces(network, inside, rows, selects)
    for (series, step), select, mix, trace in zip(targets, selects, mixes, found, strict=True):
        unit = float(scale[step, series])
        sources, cycle = trace.inputs.double().split([lookback, lookback + horizon], 1)
        terms = {"level": float(level[step, series])}
        if network.cycle is not None:
            terms["cycle"] = float(cycle.sum()) * unit + float(cycle_added[step, series])
        known, past = torch.zeros(0), torch.zeros(0)
        if covariates is not None:
            terms["covariates"], known, past = covariates.split(select)
        terms["bias"] = float(trace.constant) * unit
        own = float(sources.sum()) * unit + float(known.sum() + past.sum())
        forecast = sum(terms.values()) + own
        if mix == POINT:
            everywhere = torch.full((1, 1, count, 1), forecast, dtype=torch.float64)
            clamped = float(clamp(everywhere.to(z.device), batch)[0, 0, series, 0])
        else:
            with torch.no_grad():
                y = network(batch, position).double()
                clamped = forecast + float(select((clamp(y, batch) - y)[0]))
        if clamped != forecast:
            terms["bound"], forecast = clamped - forecast, clamped
        yield WindowTrace(forecast, terms, sources * unit, trace.layers, unit, (known, past))


def _mixed(place: tuple[int, int], mix: Mix, y: Tensor) -> Tensor:
    """Return one number of an output ``[horizon, series, outputs]``."""
    own = y[place[1], place[0]]
    return torch.stack([weight * own[output] for output, weight in mix]).sum()


class _FrozenCovariates:
    """What covariates add to the forecasts of one window, as an affine map of their values."""

    def __init__(self, network: ForecastNet, batch: Batch):
        assert network.covariates is not None
        head, horizon = network.covariates, network.core.task.horizon
        # The vector of a category counts by its difference from the mean vector.
        self.categories: dict[int, Tensor] = {}
        for column, vectors in head.vectors.items():
            assert batch.future_covariates is not None
            numbers = batch.future_covariates[:, -horizon:, :, int(column)]
            with torch.no_grad():
                mean = vectors(torch.zeros_like(numbers))
                leaf = (vectors(numbers) - mean).requires_grad_()
            self.categories[int(column)] = leaf
            vectors.register_forward_hook(lambda *_, x=leaf, m=mean: m + x)
        names = ("future_covariates", "past_covariates")
        self.values = {
            name: x.detach().requires_grad_()
            for name in names
            if (x := getattr(batch, name)) is not None
        }
        with torch.enable_grad():
            added = Frozen(
                lambda *x: head(batch._replace(**dict(zip(self.values, x, strict=True))), horizon),
                *self.values.values(),
            )
        self.output = added.output[0]

    def split(self, select: Callable[[Tensor], Tensor]) -> tuple[float, Tensor, Tensor]:
        """Return the constant, and the parts of the covariates known ahead and of past ones."""
        with torch.enable_grad():
            total = select(self.output)
        leaves = [*self.values.values(), *self.categories.values()]
        found = torch.autograd.grad(total, leaves, retain_graph=True, materialize_grads=True)
        slopes, of_vectors = found[: len(self.values)], found[len(self.values) :]
        parts = {
            name: (slope * x).detach().double().sum((0, 1, 2)).cpu()
            for (name, x), slope in zip(self.values.items(), slopes, strict=True)
        }
        known, past = (
            parts.get(f"{name}_covariates", torch.zeros(0)) for name in ("future", "past")
        )
        for (column, x), slope in zip(self.categories.items(), of_vectors, strict=True):
            known[column] = float((slope * x).detach().sum())
        return float(total.detach()) - float(known.sum() + past.sum()), known, past
