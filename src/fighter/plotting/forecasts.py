"""Pictures of forecasts: recent history, forecast, intervals and, where known, actual values."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data.panel import Panel
from .theme import LIGHT, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["MOST_SERIES", "Bands", "Track", "draw", "save_figure", "tracks"]

MOST_SERIES = 24  # in one picture
INK, ACCENT, FAINT = LIGHT.ink, LIGHT.accent, LIGHT.faint

Bands = Mapping[float, tuple[np.ndarray, np.ndarray]]
"""Lower and upper ends of intervals, by level in per cent."""


@dataclass(frozen=True, eq=False)
class Track:
    """One series: its recent past and the forecast that follows."""

    name: str
    past_times: np.ndarray  # datetime64 or integers
    past: np.ndarray  # NaN where nothing was observed
    times: np.ndarray  # [H]
    forecast: np.ndarray  # [H]
    bands: Bands = field(default_factory=dict)  # arrays [H]
    truth: np.ndarray | None = None  # [H], NaN where unknown


def tracks(
    ids: Sequence[Any],
    times: np.ndarray,
    point: np.ndarray,
    bands: Bands,
    history: Panel,
    truth: np.ndarray | None = None,
) -> list[Track]:
    """Join forecasts with the end of the history they follow: three horizons, at least 48 rows.

    All arrays are ``[H, N]``, one column per id; ``times`` is int64, unknown ``truth`` is NaN.
    ``history`` holds at least these series.
    """
    rows = max(3 * len(point), 48)
    place = {name: i for i, name in enumerate(history.ids)}
    series = []
    for k, name in enumerate(ids):
        i = place[name]
        end = int(history.ends[i])
        past = slice(max(end - rows, 0), end)
        series.append(
            Track(
                str(name),
                _stamps(history.times[past], history),
                np.where(history.observed[past, i], history.values[past, i], np.nan),
                _stamps(times[:, k], history),
                point[:, k],
                {level: (low[:, k], high[:, k]) for level, (low, high) in bands.items()},
                None if truth is None else truth[:, k],
            )
        )
    return series


def draw(series: Sequence[Track], *, label: str = "forecast", title: str = "") -> "Figure":
    """Draw the first :data:`MOST_SERIES` in panels of their own, with one legend for all."""
    shown = series[:MOST_SERIES]
    columns = _columns(len(shown))
    rows = math.ceil(len(shown) / max(columns, 1))
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
        # Start at the last observation, so that the line does not break there.
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
    """Return a number of columns, at most four, that leaves few places empty."""
    return count if count <= 3 else 4 if -count % 4 <= -count % 3 and count > 4 else 3


def _stamps(times: np.ndarray, panel: Panel) -> np.ndarray:
    return times if panel.axis.kind == "integer" else times.astype("M8[ns]")
