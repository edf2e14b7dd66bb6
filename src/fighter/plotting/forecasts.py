"""Pictures of forecasts: what was, what is expected, how sure that is, and what came."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np

from ..data.panel import Panel
from ..forecasting.forecaster import Forecaster
from .theme import LIGHT, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["MOST_SERIES", "Track", "draw", "draw_forecast", "save_figure", "tracks"]

MOST_SERIES = 24  # on one picture
INK, ACCENT, FAINT = LIGHT.ink, LIGHT.accent, LIGHT.faint


@dataclass(frozen=True, eq=False)
class Track:
    """One series: its recent past and the forecast after it."""

    name: str
    past_times: np.ndarray  # datetime64 or integers
    past: np.ndarray  # NaN where nothing was observed
    times: np.ndarray
    forecast: np.ndarray
    bands: Mapping[float, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)  # per cent
    truth: np.ndarray | None = None


def tracks(
    model: Forecaster, forecasts: Any, history: Panel, truth: np.ndarray | None = None
) -> list[Track]:
    """The forecasts of :meth:`Forecaster.predict` with the panel they follow.

    ``truth`` is ``[H, N]`` in the order of the panel's series, NaN where it is not known.
    """
    table = nw.from_native(forecasts, eager_only=True)
    steps = model.plan.horizon
    ids = table[model.id_col].to_list()[::steps]
    columns = {
        name: table[name].to_numpy().reshape(len(ids), steps)
        for name in table.columns
        if name.startswith(model.column)
    }
    bands = _bands(model, columns)
    place = {name: i for i, name in enumerate(history.ids)}
    found = []
    for row, name in enumerate(ids):
        i = place[name]
        end = int(history.ends[i])
        past = slice(max(end - max(3 * steps, 48), 0), end)
        after = history.freq.future(int(history.times[end - 1]), steps)
        found.append(
            Track(
                str(name),
                _stamps(history.times[past], history),
                np.where(history.observed[past, i], history.values[past, i], np.nan),
                _stamps(after, history),
                columns[model.column][row],
                {level: (low[row], high[row]) for level, (low, high) in bands.items()},
                None if truth is None else truth[:, i],
            )
        )
    return found


def draw_forecast(
    model: Forecaster, forecasts: Any, history: Panel, truth: np.ndarray | None = None
) -> "Figure":
    """A small picture for each series, as :func:`tracks` gives them."""
    return draw(tracks(model, forecasts, history, truth), label=model.column)


def draw(series: Sequence[Track], *, label: str = "forecast", title: str = "") -> "Figure":
    """One small picture a series, with one legend for all."""
    shown = series[:MOST_SERIES]
    columns = _columns(len(shown))
    rows = math.ceil(len(shown) / columns)
    size = (9.0, 3.1) if len(shown) == 1 else (4.1, 2.3)
    figure, grid = LIGHT.panels(rows, columns, *size, below=0.5)
    grid = grid.ravel()
    for axes, track in zip(grid, shown, strict=False):
        _draw_track(axes, track, label)
    for axes in grid[len(shown) :]:
        axes.set_visible(False)
    if len(series) > len(shown):
        title = f"{title}{', ' if title else ''}the first {len(shown)} of {len(series):,} series"
    if title:
        figure.suptitle(title, x=0.01, ha="left", fontsize=11, color=INK)
    LIGHT.legend(figure, grid[0], columns=4, where="upper right")
    return figure


def _draw_track(axes: "Axes", track: Track, label: str) -> None:
    from matplotlib.colors import to_rgba_array
    from matplotlib.ticker import MaxNLocator

    axes.plot(track.past_times, track.past, color=INK, lw=1.1, label="observed")
    for nth, level in enumerate(sorted(track.bands, reverse=True), start=1):
        low, high = track.bands[level]
        shade = to_rgba_array([ACCENT, "white"]).T @ (share := 0.18 * nth, 1 - share)
        axes.fill_between(track.times, low, high, color=shade, lw=0, label=f"{level:g} %")
    if track.truth is not None:
        # From the last observation on, so that the line does not break at the cut.
        times = np.concatenate([track.past_times[-1:], track.times])
        axes.plot(times, np.concatenate([track.past[-1:], track.truth]), color=INK, lw=1.1)
    axes.plot(track.times, track.forecast, color=ACCENT, lw=1.6, label=label)
    if len(track.past_times):
        axes.axvline(track.past_times[-1], color=FAINT, lw=1, zorder=0)
    LIGHT.tidy(axes, track.name)
    axes.margins(x=0.01)
    axes.yaxis.set_major_locator(MaxNLocator(5))
    if track.times.dtype.kind == "M":
        LIGHT.time_axis(axes)


def _columns(count: int) -> int:
    """So many in a row that few places stay empty."""
    return count if count <= 3 else 4 if -count % 4 <= -count % 3 and count > 4 else 3


def _bands(
    model: Forecaster, columns: Mapping[str, np.ndarray]
) -> dict[float, tuple[np.ndarray, np.ndarray]]:
    """Intervals by level, from levels or from pairs of quantiles."""
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


def _stamps(times: np.ndarray, panel: Panel) -> np.ndarray:
    return times if panel.axis.kind == "integer" else times.astype("M8[ns]")
