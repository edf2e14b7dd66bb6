"""Forecasts of a fitted model as graphs, in the words and units of its table."""

from typing import TYPE_CHECKING, Any

import numpy as np

from .data import Panel
from .errors import FighterError
from .explain import LayerGraph, TemporalGraph, WindowTrace, measure, trace_window
from .preparation import extend

if TYPE_CHECKING:
    from .forecaster import Forecaster


def explain(
    model: "Forecaster", panel: Panel, known: np.ndarray, series: int, step: int, like: Any
) -> TemporalGraph:
    """See :meth:`fighter.Forecaster.explain`; ``panel`` ends where the forecast begins."""
    plan, preparation = model.plan, model.preparation
    if isinstance(step, bool) or not isinstance(step, int) or not 1 <= step <= plan.horizon:
        raise FighterError(f"step={step!r}: needs a whole number from 1 to horizon={plan.horizon}")
    recent = panel.slice(max(panel.length - plan.lookback, 0), None)
    whole = extend(recent, plan.lookback, plan.horizon, known)
    first = len(whole.times) - plan.horizon
    scaler, offset = preparation.scaler_of(panel), preparation.offset(whole)
    windows = preparation.windows(whole, plan, model._device(), scaler, slice(first, None))
    batch = windows.gather(windows.starts.new_zeros(1))
    found = trace_window(model.network, batch, batch.start + offset, series, step - 1)
    scale, shift = float(scaler.scale[series]), float(scaler.shift[series])
    rows = slice(first - plan.lookback, first)
    terms = {name: value * scale for name, value in found.terms.items()}
    terms["level"] += shift
    seen = whole.observed[rows]
    return TemporalGraph(
        target=panel.ids[series],
        step=step,
        time=int(whole.times[first + step - 1]),
        forecast=found.forecast * scale + shift,
        terms=terms,
        ids=panel.ids,
        times=whole.times[rows],
        past=np.where(seen, whole.values[rows], np.nan),
        sources=found.sources.cpu().numpy() * scale,
        layers=_layers(model, whole.times[rows], panel, found, series, scale),
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


def _layers(
    model: "Forecaster",
    times: np.ndarray,
    panel: Panel,
    found: WindowTrace,
    series: int,
    scale: float,
) -> tuple[LayerGraph, ...]:
    graphs = []
    for layer in found.layers:
        own = series if len(layer.edges) > 1 else 0  # a graph for each series, or one for all
        weights = np.stack([a[own].cpu().numpy() for a in layer.parts.graphs()], 1)
        graphs.append(
            LayerGraph(
                nodes=_names(model, times, panel, weights.shape[-1]),
                powers=layer.parts.powers,
                weights=weights,
                parts=layer.edges[own].cpu().numpy() * found.unit * scale,
                rest=float(layer.rest) * found.unit * scale,
                diagnostics=measure(layer.parts),
            )
        )
    return tuple(graphs)


def _names(model: "Forecaster", times: np.ndarray, panel: Panel, count: int) -> tuple[str, ...]:
    """What the nodes of the model's graph are called."""
    kind = getattr(model.network.core, "nodes", "")
    if kind == "series":
        return tuple(map(str, panel.ids))
    if kind == "time":
        return tuple(panel.freq.show(int(time)) for time in times)
    return tuple(f"patch {i + 1} of {count}" for i in range(count))
