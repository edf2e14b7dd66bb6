"""The report on a model's forecasts: which of them are explained, and what is shown beside them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np

from ..data import Panel
from ..explain.page import Outlook, write_page
from ..plotting.forecasts import Track, tracks
from .forecaster import Forecaster

MOST = 240  # forecasts explained unless told otherwise: seconds, and a page that opens at once


def save_report(
    model: Forecaster,
    path: str | Path,
    df: Any = None,
    *,
    future: Any = None,
    static: Any = None,
    truth: np.ndarray | None = None,
    title: str = "",
    first: tuple[Any, int] | None = None,
    most: int = MOST,
) -> str:
    """Explain the forecasts after a history, as :meth:`Forecaster.predict` makes them, in a page.

    Args:
        model: fitted.
        path: of the page, ``.html``.
        df: as in :meth:`Forecaster.predict`, as are ``future`` and ``static``.
        future: see ``df``.
        static: see ``df``.
        truth: what came, ``[H, N]``, to be drawn beside the forecast.
        title: of the page.
        first: series and step to show first.
        most: explain at most so many; steps are left out before series.

    Returns:
        What the page holds, in a sentence.
    """
    panel = model.context if df is None else model._history(df, static)
    series, steps = _chosen(panel, model.plan.horizon, first, most)
    forecasts = model.predict(df, future=future, static=static)
    drawn = forecast_tracks(model, forecasts, panel, truth)
    outlooks = {
        name: Outlook(track.times.astype(np.int64), track.forecast, track.bands, track.truth)
        for name, track in zip(panel.ids, drawn, strict=True)
    }
    note = _note(len(series), panel.n_series, len(steps), model.plan.horizon)
    targets = [(i, step) for i in series for step in steps]
    graphs = model._explain(panel, targets, future, "pandas")
    title = title or f"Where the forecasts of {model.column} come from"
    write_page(graphs, path, outlooks=outlooks, title=title, note=note, first=first)
    return note


def forecast_tracks(
    model: Forecaster, forecasts: Any, history: Panel, truth: np.ndarray | None = None
) -> list[Track]:
    """Return what to draw of the forecasts of :meth:`Forecaster.predict` after ``history``.

    ``truth`` is ``[H, N]`` in the order of the panel's series.
    """
    table, steps = nw.from_native(forecasts, eager_only=True), model.plan.horizon
    ids = table[model.id_col].to_list()[::steps]
    columns = {
        name: table[name].to_numpy().reshape(len(ids), steps).T
        for name in table.columns
        if name.startswith(model.column)
    }
    rows = [history.ids.index(name) for name in ids]
    last = history.times[history.ends[rows] - 1]
    times = np.stack([history.freq.future(int(time), steps) for time in last], 1)
    bands, actual = _bands(model, columns), None if truth is None else truth[:, rows]
    return tracks(ids, times, columns[model.column], bands, history, actual)


def _bands(
    model: Forecaster, columns: Mapping[str, np.ndarray]
) -> dict[float, tuple[np.ndarray, np.ndarray]]:
    """Return intervals by level, from levels or from pairs of quantiles."""
    name = model.column
    if model.quantiles:
        pairs = {q: round(1 - q, 6) for q in model.quantiles if q < 0.5}
        return {
            round(100 * (1 - 2 * low), 4): (
                columns[f"{name}-q{low:g}"],
                columns[f"{name}-q{high:g}"],
            )
            for low, high in pairs.items()
            if f"{name}-q{high:g}" in columns
        }
    return {
        level: (columns[f"{name}-lo-{level:g}"], columns[f"{name}-hi-{level:g}"])
        for level in model.levels
    }


def _chosen(
    panel: Panel, horizon: int, first: tuple[Any, int] | None, most: int
) -> tuple[list[int], list[int]]:
    """Which series and which steps: evenly spread where not all can be had."""
    own = [] if first is None else [panel.ids.index(first[0])]
    series = (own + [i for i in range(panel.n_series) if i not in own])[:most]
    count = min(max(most // len(series), 1), horizon)
    steps = {int(step) for step in np.linspace(1, horizon, count).round()}
    return sorted(series), sorted(steps | (set() if first is None else {first[1]}))


def _note(series: int, all_series: int, steps: int, horizon: int) -> str:
    def some(count: int, total: int, what: str) -> str:
        if count == total:
            return f"all {total:,} {what}" if total > 1 else "the one step"
        return f"{count if count > 1 else 'one'} of {total:,} {what}"

    whose = "one series" if all_series == 1 else some(series, all_series, "series")
    return f"Explained: {some(steps, horizon, 'steps')} of {whose}."
