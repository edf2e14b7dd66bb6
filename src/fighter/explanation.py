"""Forecasts of a fitted model as graphs, in the words and units of its table."""

from typing import TYPE_CHECKING, Any

import numpy as np

from .data import Panel
from .errors import FighterError
from .explain import LayerGraph, TemporalGraph, diagnose, trace_window
from .preparation import extend

if TYPE_CHECKING:
    from .forecaster import Forecaster


def explain(
    model: "Forecaster", panel: Panel, known: np.ndarray, unique_id: Any, step: int, like: Any
) -> TemporalGraph:
    """See :meth:`fighter.Forecaster.explain`; ``panel`` ends where the forecast begins."""
    plan, preparation = model.plan, model.preparation
    series = _place(panel, unique_id)
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
        layers=_layers(model, panel, whole.times[rows], found, series, scale),
        freq=panel.freq,
        axis=panel.axis,
        like=like,
    )
