"""Forecasts of a fitted model as graphs, in the words and units of its table."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data import Panel
from ..data.bounds import to_table_units
from ..errors import FighterError
from ..explain import (
    HopParts,
    LayerGraph,
    LazyDiagnostics,
    TemporalGraph,
    WindowTrace,
    trace_windows,
)

if TYPE_CHECKING:
    from .forecaster import Forecaster


def explain(
    model: "Forecaster",
    panel: Panel,
    known: np.ndarray,
    targets: Iterable[tuple[int, int]],
    like: Any,
) -> Iterator[TemporalGraph]:
    """Graphs of some series (by number) and steps (from 1); ``panel`` ends where they begin.

    See :meth:`fighter.Forecaster.explain`.
    """
    plan, preparation = model.plan, model.preparation
    targets = list(targets)
    for _, step in targets:
        if isinstance(step, bool) or not isinstance(step, int) or not 1 <= step <= plan.horizon:
            raise FighterError(
                f"step={step!r}: needs a whole number from 1 to horizon={plan.horizon}"
            )
    whole, scaler, windows = preparation.window_after(panel, plan, known, model._device())
    first, start_step = len(whole.times) - plan.horizon, preparation.start_step(whole)
    batch = windows.gather(windows.starts.new_zeros(1))
    rows = slice(first - plan.lookback, first)
    past = np.where(whole.observed[rows], whole.values[rows], np.nan)
    names = partial(_names, model, whole.times[rows], panel)
    shared: list[tuple[np.ndarray, LazyDiagnostics]] = []  # by all targets
    places = [(series, step - 1) for series, step in targets]
    traced = trace_windows(model.network, batch, batch.start + start_step, places)
    for (series, step), found in zip(targets, traced, strict=True):
        scale, shift = float(scaler.scale[series]), float(scaler.shift[series])
        terms = {name: value * scale for name, value in found.terms.items()}
        terms["level"] += shift
        forecast = found.forecast * scale + shift
        if "bound" in terms:  # the forecast is at the bound, to the last digit
            held = batch.past.new_full((1, 1, len(panel.ids), 1), found.forecast)
            exact = float(to_table_units(held, batch, scaler)[0, 0, series, 0])
            terms["bound"], forecast = terms["bound"] + exact - forecast, exact
        if not shared:
            layers = [layer.parts for layer in found.layers]
            shared = [(_weights(parts), LazyDiagnostics(parts)) for parts in layers]
        yield TemporalGraph(
            target=panel.ids[series],
            step=step,
            time=int(whole.times[first + step - 1]),
            forecast=forecast,
            terms=terms,
            ids=panel.ids,
            times=whole.times[rows],
            past=past,
            sources=found.sources.cpu().numpy() * scale,
            layers=_layers(found, shared, names, series, scale),
            freq=panel.freq,
            axis=panel.axis,
            like=like,
        )


def place(panel: Panel, unique_id: Any) -> int:
    """The number of a series; one alone needs no name."""
    if unique_id is None and panel.n_series == 1:
        return 0
    if unique_id not in panel.ids:
        some = ", ".join(map(repr, panel.ids[:5])) + (", …" if panel.n_series > 5 else "")
        raise FighterError(f"unique_id={unique_id!r}: needs one of the series, {some}")
    return panel.ids.index(unique_id)


def _weights(parts: HopParts) -> np.ndarray:
    """Aⁱ ``[sequences, heads, powers, nodes, nodes]``."""
    return np.stack([a.cpu().numpy() for a in parts.graphs()], 2)


def _layers(
    found: WindowTrace,
    shared: list[tuple[np.ndarray, LazyDiagnostics]],
    names: Callable[[int], tuple[str, ...]],
    series: int,
    scale: float,
) -> tuple[LayerGraph, ...]:
    graphs = []
    for layer, (weights, diagnostics) in zip(found.layers, shared, strict=True):
        own = series if len(weights) > 1 else 0  # a graph for each series, or one for all
        graphs.append(
            LayerGraph(
                nodes=names(weights.shape[-1]),
                powers=layer.parts.powers,
                weights=weights[own],
                parts=layer.edges[own].double().cpu().numpy() * found.unit * scale,
                rest=float(layer.rest) * found.unit * scale,
                lazy_diagnostics=diagnostics,
            )
        )
    return tuple(graphs)


def _names(model: "Forecaster", times: np.ndarray, panel: Panel, count: int) -> tuple[str, ...]:
    """What the nodes of the model's graph are called."""
    kind = model.network.core.nodes
    if kind == "series":
        return tuple(map(str, panel.ids))
    if kind == "time":
        return tuple(panel.freq.show(int(time)) for time in times)
    return tuple(f"patch {i + 1} of {count}" for i in range(count))
