"""The report on a model's forecasts: which of them are explained, and what is shown beside them."""

from pathlib import Path
from typing import Any

import numpy as np

from ..data import Panel
from ..explain.page import Outlook, write
from ..plotting.forecasts import tracks
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
    drawn = tracks(model, forecasts, panel, truth)
    outlooks = {
        name: Outlook(track.times.astype(np.int64), track.forecast, track.bands, track.truth)
        for name, track in zip(panel.ids, drawn, strict=True)
    }
    note = _note(len(series), panel.n_series, len(steps), model.plan.horizon)
    targets = [(i, step) for i in series for step in steps]
    graphs = model._explain(panel, targets, future, "pandas")
    title = title or f"Where the forecasts of {model.column} come from"
    write(graphs, path, outlooks=outlooks, title=title, note=note, first=first)
    return note


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
