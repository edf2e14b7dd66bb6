"""A forecast as a value: arrays with their names, for tables, pictures, pages and scores."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._files import check_target
from ..data import Panel, TimeAxis, forecast_table
from ..errors import FighterError
from ..plotting.forecasts import Track, draw, tracks
from ..plotting.theme import PICTURES, save_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Forecast:
    """The forecast of H steps of N series.

    .. code-block:: python

        forecast = model.forecast()
        forecast.point               # float64 [H, N]
        low, high = forecast.interval(80)
        forecast.table("polars")     # one row per series and step

    Args:
        name: name of the forecast's column, such as ``Fighter``.
        ids: the N series.
        times: time stamps, int64 ``[H, N]``: series may end at different times.
        point: point forecasts ``[H, N]``.
        quantiles: calibrated quantiles ``[H, N, Q]``.
        quantile_levels: the Q levels of the quantiles, as fractions, in rising order.
        interval_levels: the prediction intervals that were asked for, in per cent; empty if
            quantiles were.
        axis: how time stamps are written.
        id_cols: names of the columns with the ids.
        like: a table, or the name of its library, that :meth:`table` follows.
    """

    name: str
    ids: tuple
    times: np.ndarray
    point: np.ndarray
    quantiles: np.ndarray
    quantile_levels: tuple[float, ...]
    interval_levels: tuple[float, ...]
    axis: TimeAxis
    id_cols: tuple[str, ...] = ("unique_id",)
    like: Any = "pandas"

    def interval(self, level: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the lower and upper ends ``[H, N]`` of a prediction interval in per cent."""
        low, high = interval_ends(self.quantile_levels, level)
        return self.quantiles[..., low], self.quantiles[..., high]

    @property
    def bands(self) -> dict[float, tuple[np.ndarray, np.ndarray]]:
        """All central intervals, by level in per cent."""
        levels = self.interval_levels or [
            round(100 * (1 - 2 * q), 4)
            for q in self.quantile_levels
            if q < 0.5 and _position(self.quantile_levels, 1 - q) is not None
        ]
        return {level: self.interval(level) for level in levels}

    def columns(self) -> dict[str, np.ndarray]:
        """Return the columns of the table ``[H, N]`` by name: the forecast, then its intervals."""
        columns = {self.name: self.point}
        if not self.interval_levels:
            for i, q in enumerate(self.quantile_levels):
                columns[f"{self.name}-q{q:g}"] = self.quantiles[..., i]
        for level in self.interval_levels:
            low, high = self.interval(level)
            columns |= {f"{self.name}-lo-{level:g}": low, f"{self.name}-hi-{level:g}": high}
        return columns

    def table(self, like: Any = None) -> Any:
        """Return one row per series and step, as a table of the type of ``like``.

        Args:
            like: a table, or "pandas", "polars" or "pyarrow" (default: the type of the table that
                the forecast was made from).
        """
        return forecast_table(
            self.like if like is None else like,
            self.ids,
            self.times,
            self.columns(),
            axis=self.axis,
            id_cols=self.id_cols,
        )

    def tracks(self, history: Panel, truth: np.ndarray | None = None) -> list[Track]:
        """Return what is drawn of each series: recent past, forecast, intervals and truth."""
        return tracks(self.ids, self.times, self.point, self.bands, history, truth)

    def values_of(self, panel: Panel) -> np.ndarray:
        """Return a panel's observed values at the forecast times ``[H, N]``, NaN where unknown."""
        rows = {int(time): i for i, time in enumerate(panel.times)}
        values = np.full(self.times.shape, np.nan)
        for series, name in enumerate(self.ids):
            if name not in panel.ids:
                continue
            column = panel.ids.index(name)
            for step, time in enumerate(self.times[:, series]):
                row = rows.get(int(time))
                if row is not None and panel.observed[row, column]:
                    values[step, series] = panel.values[row, column]
        return values

    def plot(
        self,
        history: Panel,
        truth: np.ndarray | None = None,
        path: str | Path | None = None,
        *,
        title: str = "",
    ) -> "Figure":
        """Draw history, forecast and intervals, one small picture per series.

        Args:
            history: the panel that the forecast follows.
            truth: the true values ``[H, N]``, NaN where they are unknown (default: not drawn).
            path: file to write, .png, .svg or .pdf (default: none).
            title: title of the figure.
        """
        if path is not None:
            check_target(Path(path), PICTURES)
        figure = draw(self.tracks(history, truth), label=self.name, title=title)
        if path is not None:
            save_figure(figure, path)
        return figure


def interval_ends(quantile_levels: Sequence[float], level: float) -> tuple[int, int]:
    """Return the positions of the two quantiles that bound an interval of ``level`` per cent."""
    tail = (100 - level) / 200
    low, high = (_position(quantile_levels, q) for q in (tail, 1 - tail))
    if low is None or high is None:
        have = ", ".join(f"{q:g}" for q in quantile_levels) or "none"
        raise FighterError(
            f"needs the quantiles {tail:g} and {1 - tail:g}, it has {have}: fit with this level",
            argument="level",
            value=level,
        )
    return low, high


def _position(levels: Sequence[float], level: float) -> int | None:
    return next((i for i, q in enumerate(levels) if abs(q - level) < 1e-6), None)
