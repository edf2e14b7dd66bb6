"""From the table people have to the panel the models read."""

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np

from ..errors import FighterError
from .columns import factorise, listing, open_table
from .frequency import Frequency
from .layout import (
    Layout,
    find_time_column,
    is_marked,
    lift_index,
    read_layout,
    read_numbers,
)
from .notes import Finder, describe_rows, describe_unused, suspect_sentinels
from .panel import Panel, Scheme
from .static import encode_static
from .time_axis import TimeAxis
from .time_grid import Grid, first_rows, place_covariates


def to_panel(
    table: Any,
    *,
    id_col: str = "unique_id",
    time_col: str = "ds",
    target_col: str = "y",
    freq: str | int | Frequency | None = None,
    past: str | Sequence[str] = (),
    future: str | Sequence[str] = (),
    static: Any = None,
    missing_values: float | Sequence[float] = (),
    scheme: Scheme | None = None,
) -> Panel:
    """Read a pandas, polars or pyarrow table, long or wide, onto a regular time grid.

    ``to_panel(df)`` reads ``unique_id, ds, y``, a single series ``ds, y``, or a wide table with one
    column a series. Rows may come in any order; of repeated stamps the first is kept; gaps, empty
    cells and ``missing_values`` are not observed. What was found is told in ``panel.quirks``.

    ``past`` and ``future`` name covariate columns (``future``: known in advance), ``static`` is a
    table with one row for each id, ``scheme`` is the ``panel.scheme`` of a table to follow.
    """
    past = _names(past) or tuple(scheme.past_names if scheme else ())
    future = _names(future) or tuple(scheme.future_names if scheme else ())
    marks = _marks(missing_values)
    if both := set(past) & set(future):
        raise FighterError(f"{listing(sorted(both))} cannot be both a past and a future covariate.")
    wall = scheme.axis["wall"] if scheme else None
    layout = read_layout(table, id_col, time_col, target_col, (*past, *future), wall)
    step = _frequency(layout, scheme.freq if freq is None and scheme else freq)
    grid = Grid.of(layout, step)
    finder = Finder(layout.ids, grid.times, step)
    data_notes = _zone_quirks(layout.axis)

    values = grid.place(layout.targets).reshape(len(grid.times), -1)  # [T, N]
    empty: np.ndarray = np.isnan(values) & grid.present
    marked = []
    for sentinel in marks:
        mask = is_marked(values, [sentinel])
        if count := int(mask.sum()):
            marked.append(
                f"{count} values of {sentinel:g} {finder.cells(mask)}; treated as not observed."
            )
        values[mask] = np.nan
    if (wild := np.isinf(values)).any():
        raise FighterError(
            f"{wild.sum()} values are infinite {finder.cells(wild)}. Mend them, or pass "
            "missing_values=[float('inf'), float('-inf')] to leave them out."
        )
    observed: np.ndarray = ~np.isnan(values)
    if (nothing := ~observed.any(axis=0)).any():
        silent = [layout.ids[i] for i in np.flatnonzero(nothing)]
        raise FighterError(
            f"{len(silent)} of {len(layout.ids)} series have no observed value: "
            f"{listing(silent, 3)}. Drop them."
        )
    values[~observed] = 0.0

    # Where the table knows more of the future than of the targets, the panel ends with the targets.
    length = int(np.flatnonzero(observed.any(axis=1))[-1]) + 1 if future else len(values)
    # Then, in a long table, each series ends with its own last target.
    told = observed if future and layout.series is not None else grid.present
    ends = _ends(told[:length], len(layout.ids))
    data_notes += describe_rows(
        grid.present[:length], grid.duplicates[:length], finder, layout.series is None
    )
    if count := int(empty[:length].sum()):
        data_notes.append(
            f"{count} empty values (NaN) {finder.cells(empty[:length])}; treated as not observed."
        )
    data_notes += (
        marked + suspect_sentinels(values, observed, finder) + describe_unused(layout.unused)
    )
    known, known_quirks = place_covariates(grid, layout, future, "future", length, finder, marks)
    if layout.series is not None:  # nothing was told of the time after a series' end: not invented
        after = np.arange(length)[:, None] >= ends
        known[:length][after & ~grid.present[:length]] = np.nan
    seen, seen_quirks = place_covariates(grid, layout, past, "past", length, finder, marks)
    encoded = names = categories = None
    if static is not None:
        encoded, names, categories = encode_static(
            static, layout.ids, id_col, scheme.static_categories if scheme else None
        )
    return Panel(
        layout.ids, grid.times[:length], values[:length], observed[:length], step, layout.axis,
        seen[:length], known, encoded, past, future, names or (), categories or {},  # pyright: ignore[reportArgumentType]
        (*data_notes, *known_quirks, *seen_quirks), ends,
    )  # fmt: skip


def future_values(
    panel: Panel,
    table: Any,
    horizon: int,
    *,
    id_col: str = "unique_id",
    time_col: str | None = None,
    needed: np.ndarray | None = None,
    missing_values: float | Sequence[float] = (),
) -> np.ndarray:
    """Read the future covariates of the ``horizon`` steps after the panel. ``float64 [H, N, F]``

    ``table`` has a row for each (id, time), or for each time if all series share the values; rows
    of other times are passed over. Without a table, what the panel knows beyond its end is used.
    ``needed`` (bool [N]) says for which series there must be values; the others get 0.
    """
    names, ids = panel.future_names, panel.ids
    times = panel.freq.future(int(panel.times[-1]), horizon)
    values = np.full((horizon, len(ids), len(names)), np.nan)
    if not names:
        return values
    if table is None:
        known = panel.future[panel.length :][:horizon]
        values[: len(known)] = known
    else:
        time_col = time_col or panel.axis.name
        frame, _ = open_table(lift_index(table, id_col, time_col))
        axis, stamps = TimeAxis.read(frame[find_time_column(frame, time_col)], panel.axis.wall)
        if (axis.kind == "integer") != (panel.axis.kind == "integer"):
            raise FighterError(
                f"The future table has a time axis of type {axis.kind}, the history one of "
                f"{panel.axis.kind}. Use the same type in both."
            )
        cells = read_numbers(frame, names, "future covariate", _marks(missing_values))
        steps = np.searchsorted(times, stamps).clip(max=horizon - 1)
        use = times[steps] == stamps
        if id_col in frame.columns:
            known_ids, codes = factorise(frame[id_col])
            place = {name: i for i, name in enumerate(ids)}
            series = np.array([place.get(name, -1) for name in known_ids])[codes]
            rows = np.flatnonzero(use & (series >= 0))
            rows = rows[first_rows(steps[rows] * len(ids) + series[rows])]
            values[steps[rows], series[rows]] = cells[rows]
        else:
            rows = np.flatnonzero(use)
            rows = rows[first_rows(steps[rows])]
            values[steps[rows]] = cells[rows, None]
    if needed is not None:
        values[:, ~needed] = 0.0
    if (lacking := np.isnan(values)).any():
        step, series, column = (int(i) for i in np.argwhere(lacking)[0])
        show = panel.freq.show
        raise FighterError(
            f"Future covariates are missing: {lacking.sum()} of {lacking.size} values for the "
            f"{horizon} steps after {show(panel.times[-1])}; the first is column {names[column]!r} "
            f"of series {ids[series]!r} at {show(times[step])}. Give a future table with these "
            "rows."
        )
    return values


def _ends(present: np.ndarray, series: int) -> np.ndarray:
    """The step after the last row of each series. ``int64 [N]``"""
    last = len(present) - present[::-1].argmax(axis=0)
    return np.broadcast_to(last, (series,)).copy()


def _frequency(layout: Layout, freq: str | int | Frequency | None) -> Frequency:
    integer = layout.axis.kind == "integer"
    if freq is None:
        return Frequency.infer(layout.times, layout.series, integer)
    step = Frequency.parse(freq)
    if (step.unit == "integer") != integer:
        kind = "integers: pass an integer step such as freq=1" if integer else "time stamps"
        raise FighterError(
            f"freq={str(step)!r} does not suit time column {layout.axis.name!r}, which holds "
            f"{kind}."
        )
    return step


def _names(names: str | Sequence[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _marks(missing_values: float | Sequence[float]) -> tuple[float, ...]:
    marks: tuple[Any, ...] = tuple(np.atleast_1d(np.asarray(missing_values, object)))
    for mark in marks:
        if not isinstance(mark, Real):
            raise FighterError(f"missing_values must be numbers, got {mark!r}.")
    return tuple(float(mark) for mark in marks)


def _zone_quirks(axis: TimeAxis) -> list[str]:
    if axis.zone in (None, "UTC"):
        return []
    clock = (
        "kept on the local clock"
        if axis.wall
        else "converted to UTC, forecasts come back in the zone"
    )
    return [f"Time stamps of zone {axis.zone}: {clock}."]
