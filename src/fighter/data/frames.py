"""Tables to panels: long, single-series and wide tables of pandas, polars or pyarrow."""

from collections.abc import Sequence
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np

from ..errors import FighterError
from .censored import check_column, read_marks
from .columns import (
    as_table,
    column_name,
    column_names,
    factorise,
    listing,
    missing_column,
    open_frame,
    quote_ids,
)
from .frequency import Frequency, plural
from .holidays import with_holidays
from .layout import (
    DEFAULT_ID,
    DEFAULT_TARGET,
    LARGEST_VALUE,
    Layout,
    check_zone,
    find_time_column,
    is_marked,
    lift_index,
    read_layout,
    read_numbers,
)
from .notes import DataNote, Locator, describe_rows, describe_unused, suspect_sentinels
from .open_week import DAY, WEEKDAYS, OpenWeek
from .panel import Panel, Scheme
from .ragged import true_rows
from .snapping import find_frequency, fit_to_frequency, nearest
from .static import encode_static
from .time_axis import TimeAxis
from .time_grid import TimeGrid, first_rows, place_covariates


def to_panel(
    table: Any,
    *,
    id_col: str | Sequence[str] = DEFAULT_ID,
    time_col: str = "ds",
    target_col: str = DEFAULT_TARGET,
    freq: str | int | Frequency | None = None,
    season: int | Sequence[int] | None = None,
    date_format: str | None = None,
    past: str | Sequence[str] | None = (),
    future: str | Sequence[str] | None = (),
    static: Any = None,
    missing_values: float | Sequence[float] | None = (),
    columns: Sequence[str] | None = (),
    drop: Sequence[str] | None = (),
    holidays: str | None = None,
    censored: str | None = None,
    missing_rows: str = "unknown",
    scheme: Scheme | None = None,
) -> Panel:
    """Read a table onto a regular time grid.

    ``to_panel(df)`` reads a long table ``unique_id, ds, y``, a single series ``ds, y``, or a wide
    table with one column per series. Rows may come in any order. Of equal rows the first is kept;
    rows of one series and time whose values differ are refused. Gaps and empty cells are not
    observed. A long table whose id columns are not named is recognised if only one reading makes
    sense. ``panel.data_notes`` say what was found.

    Args:
        table: a pandas, polars or pyarrow table, a pandas series with a time index, a dictionary of
            columns, or a list of rows.
        id_col: id column or columns of a long table (default: "unique_id").
        time_col: time column (default: "ds", or the only column that looks like one).
        target_col: target column of a long table or a single series (default: "y").
        freq: frequency of the time stamps (default: inferred).
        season: season length or lengths in steps, the preferred one first (default: from the
            frequency).
        date_format: format of dates in text, as ``strptime`` takes it (default: found).
        past: covariates known only in the past.
        future: covariates also known in the future.
        static: table of static covariates, one row per series.
        missing_values: numbers that stand for missing data, such as -9999.
        columns: read only these columns, and those named above (default: all).
        drop: columns to leave out.
        holidays: country whose public holidays are a covariate, or a column of countries in the
            table or in ``static``.
        censored: column of 0 and 1; where it is 1, the target is only a lower bound.
        missing_rows: "zero" if a step without a row has the value 0, from the first row of a series
            to the end of the table, and in a later table from its beginning (default: "unknown",
            not observed).
        scheme: ``panel.scheme`` of an earlier table, which this one then follows.
    """
    id_cols, time_col = column_names(id_col, "id_col"), column_name(time_col, "time_col")
    target_col = column_name(target_col, "target_col")
    if not id_cols:
        raise FighterError("needs the name of a column", argument="id_col", value=id_col)
    known_ids = scheme and id_cols in ((DEFAULT_ID,), scheme.id_cols)
    if scheme and known_ids and target_col == DEFAULT_TARGET:
        id_cols, target_col = scheme.id_cols, scheme.target_col  # they may have been recognised
    past, future = column_names(past, "past"), column_names(future, "future")
    past = past or tuple(scheme.past_names if scheme else ())
    future = future or tuple(scheme.future_names if scheme else ())
    marks = _marks(missing_values)
    check_column(censored, past, future)
    if both := set(past) & set(future):
        reason = f"{listing(sorted(both))} cannot be both a past and a future covariate"
        raise FighterError(reason, argument="future", value=future)
    given = scheme.freq if freq is None and scheme else freq
    layout = read_layout(
        table,
        id_cols,
        time_col,
        target_col,
        dict.fromkeys(past, "past")
        | dict.fromkeys(future, "future")
        | ({censored: "censored"} if censored else {}),
        like=TimeAxis(**scheme.axis) if scheme else None,
        date_format=date_format,
        integer=given is not None and Frequency.parse(given).unit == "integer",
        columns=column_names(columns, "columns"),
        drop=column_names(drop, "drop"),
        known=scheme.series_cols if scheme else None,
    )
    layout, step = _frequency(layout, given, scheme)
    step = step.with_season((scheme.season or None) if season is None and scheme else season)
    sparse = missing_rows == "zero"
    grid = TimeGrid.of(layout, step, inferred=given is None, sparse=sparse)
    told = date_format is not None or scheme is not None
    locator = Locator(layout.ids, grid.times, step, layout.axis)
    values, observed, empty, marked = _place_targets(grid, layout, marks, locator)

    # Rows after the last target, which hold future covariates, are not part of the panel.
    length = int(np.flatnonzero(observed.any(axis=1))[-1]) + 1 if future else len(values)
    present, wide = grid.present[:length], layout.series is None
    # In a long table with such rows, each series ends with its own last target.
    if sparse:
        begun = present if scheme is None else np.ones_like(present)
        begun = np.logical_or.accumulate(begun, axis=0)
        observed[:length] |= begun & ~present
        present = present | begun
    rows = observed[:length] if future and not wide else present
    ends = np.broadcast_to(true_rows(rows)[1] + 1, len(layout.ids)).copy()
    notes = [*layout.notes, *_axis_notes(layout, step, told, given is None), *grid.notes]
    if date_format and not layout.axis.encoding and scheme is None:
        what = f"Time column {layout.axis.name!r} holds time stamps"
        notes.append(DataNote("dates", f"{what}, so the date format is not used."))
    notes += describe_rows(present, grid.duplicates[:length], locator, wide)
    if count := int(empty[:length].sum()):
        what = f"{plural(count, 'empty value')} (NaN) {locator.summary(empty[:length])}"
        notes.append(DataNote("missing", f"{what}; treated as not observed."))
    notes += _describe_ends(observed[:length], ends, layout.ids)
    unused = [name for name in layout.unused if name != holidays]
    notes += marked + suspect_sentinels(values, observed, locator) + describe_unused(unused)
    ahead, ahead_notes = place_covariates(grid, layout, future, "future", length, locator, marks)
    if future and not wide:  # do not fill in covariates after the end of a series
        after = np.arange(length)[:, None] >= ends
        ahead[:length][after & ~present] = np.nan
    at_least = None
    if censored:
        cells = grid.place(read_numbers(layout.frame, (censored,), "censored", marks))[:length]
        marked = read_marks(cells[..., 0], censored) & observed[:length]
        at_least = np.where(marked, values[:length], np.nan)
    behind, behind_notes = place_covariates(grid, layout, past, "past", length, locator, marks)
    encoded, names, categories = None, (), {}
    if static is not None:
        earlier = scheme.static_categories if scheme else None
        encoded, names, categories = encode_static(
            static, layout.ids, layout.id_cols, earlier, scheme.numbered if scheme else ()
        )
    panel = Panel(
        layout.ids, grid.times[:length], values[:length], observed[:length], step, layout.axis,
        behind[:length], ahead, encoded, past, future, names, categories,  # pyright: ignore[reportArgumentType]
        (*notes, *ahead_notes, *behind_notes), ends, id_cols=layout.id_cols,
        target_col=layout.target_col, series_cols=layout.series_cols,
        snapped=layout.left_out is not None, like=layout.frame.head(1).to_native(),
        at_least=at_least,
    )  # fmt: skip
    return with_holidays(panel, holidays, layout, static, later=scheme is not None)


def future_values(
    panel: Panel,
    table: Any,
    horizon: int,
    *,
    time_col: str | None = None,
    needed: np.ndarray | None = None,
    missing_values: float | Sequence[float] = (),
) -> np.ndarray:
    """Read the future covariates of the ``horizon`` steps after a panel: ``float64 [H, N, F]``.

    Args:
        panel: the history.
        table: a row per (id, time), with the id columns of the panel, or per time if all series
            share the values; rows of other times are ignored. What it lacks comes from the rows of
            the first table that follow its last target; None if all of it does.
        horizon: number of steps.
        time_col: time column of the table (default: that of the panel).
        needed: bool ``[N]``, the series that must have values; the others get 0 (default: all).
        missing_values: numbers that stand for missing data, such as -9999.
    """
    names, ids = panel.future_names, panel.ids
    times = panel.freq.future(int(panel.times[-1]), horizon)
    values = np.full((horizon, len(ids), len(names)), np.nan)
    if not names:
        return values

    def show(time: int) -> str:
        return panel.freq.show(panel.axis.clock(int(time)))

    stray = ""
    if table is not None:
        time_col = time_col or panel.axis.name
        table = lift_index(as_table(table, "future"), panel.id_cols, time_col)
        frame, _ = open_frame(table, "future")
        time_col = find_time_column(frame, time_col, {*panel.id_cols, *names})
        axis, stamps = TimeAxis.read(frame[time_col], panel.axis)
        check_zone(axis, panel.axis, "future")
        if panel.snapped and (step := panel.freq.fixed_step):
            stamps = nearest(stamps, step, int(panel.times[0] % step))
        if (axis.kind == "integer") != (panel.axis.kind == "integer"):
            kinds = f"a time axis of type {axis.kind}, the history one of {panel.axis.kind}"
            reason = f"the table of future covariates has {kinds}; use the same type in both"
            raise FighterError(reason, argument="future")
        cells = read_numbers(frame, names, "future", _marks(missing_values))
        steps = np.searchsorted(times, stamps).clip(max=horizon - 1)
        use = times[steps] == stamps
        if not use.any():
            stray = f"no time stamp of this table, such as {show(stamps[0])}, is one of"
        if given := [name for name in panel.id_cols if name in frame.columns]:
            if len(given) < len(panel.id_cols):
                lacking = next(name for name in panel.id_cols if name not in given)
                raise missing_column(lacking, "id_col", frame.columns)
            table_ids, codes = factorise(frame, panel.id_cols)
            column_of = {name: i for i, name in enumerate(ids)}
            series = np.array([column_of.get(name, -1) for name in table_ids])[codes]
            if (series < 0).all() and (needed is None or needed.any()):
                first, own = quote_ids(table_ids[0], ids[0])
                reason = (
                    f"no id of this table, such as {first}, is one of the history, such as {own}"
                )
                raise FighterError(f"{reason}; write the ids as there", argument="future")
            rows = np.flatnonzero(use & (series >= 0))
            rows = _first_of(rows, steps * len(ids) + series, cells)
            values[steps[rows], series[rows]] = cells[rows]
        else:
            rows = _first_of(np.flatnonzero(use), steps, cells)
            values[steps[rows]] = cells[rows, None]
    ahead = panel.future[panel.length :][:horizon]  # rows of the first table
    given = values[: len(ahead)]
    values[: len(ahead)] = np.where(np.isnan(given), ahead, given)
    if needed is not None:
        values[:, ~needed] = 0.0
    if (lacking := np.isnan(values)).any():
        step, series, column = (int(i) for i in np.argwhere(lacking)[0])
        what = stray or f"{lacking.sum()} of {lacking.size} covariate values are missing for"
        when = f"the {horizon} steps after {show(panel.times[-1])}"
        first = f"column {names[column]!r} of series {ids[series]!r} at {show(times[step])}"
        reason = f"{what} {when}; the first needed is {first}; pass a table with these rows"
        raise FighterError(reason, argument="future")
    return values


def _first_of(rows: np.ndarray, slots: np.ndarray, cells: np.ndarray) -> np.ndarray:
    """Return the first of the ``rows`` of each slot; refuse further ones with other values."""
    kept = rows[first_rows(slots[rows])]
    first = kept[np.searchsorted(slots[kept], slots[rows])]
    differ = ~((cells[rows] == cells[first]) | (np.isnan(cells[rows]) & np.isnan(cells[first])))
    if differ.any():
        place = differ.any(axis=1).argmax()
        where = f"rows {first[place]} and {rows[place]} of the table of future covariates"
        reason = f"{where} have the same time and series but other values; keep one"
        raise FighterError(reason, argument="future")
    return kept


def _place_targets(
    grid: TimeGrid, layout: Layout, marks: Sequence[float], locator: Locator
) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[DataNote]]:
    """Place the targets on the grid: values, observed and empty cells ``[T, N]``, and notes."""
    values = grid.place_targets(layout.targets)
    empty: np.ndarray = np.isnan(values) & grid.present
    notes = []
    for sentinel in marks:
        mask = is_marked(values, [sentinel])
        if count := int(mask.sum()):
            what = f"{plural(count, 'value')} of {sentinel:g} {locator.summary(mask)}"
            notes.append(DataNote("missing", f"{what}; treated as not observed."))
        values[mask] = np.nan
    large = np.abs(values) > LARGEST_VALUE
    if large.any() and (infinite := np.isinf(values)).any():
        what = f"{plural(int(infinite.sum()), 'infinite value')} {locator.summary(infinite)}"
        remedy = "correct them, or declare inf and -inf as missing values to leave them out"
        raise FighterError(f"{what}; {remedy}")
    if large.any():
        what = (
            f"{plural(int(large.sum()), 'value')} beyond {LARGEST_VALUE:g} {locator.summary(large)}"
        )
        raise FighterError(f"{what}; correct them, or divide the series by a power of ten")
    observed: np.ndarray = ~np.isnan(values)
    if (silent := ~observed.any(axis=0)).any():
        ids = [layout.ids[i] for i in np.flatnonzero(silent)]
        what = f"{len(ids)} of {len(layout.ids)} series have no observed value"
        remedy = "drop the columns" if layout.series_cols else "leave them out"
        raise FighterError(f"{what}, {listing(ids, 3)}; {remedy}")
    values[~observed] = 0.0
    return values, observed, empty, notes


def _describe_ends(observed: np.ndarray, ends: np.ndarray, ids: tuple) -> list[DataNote]:
    """Describe series whose last rows have no observed value: they are forecast after these."""
    empty = ends - 1 - true_rows(observed)[1]
    if not empty.any():
        return []
    what = f"{int((empty > 0).sum())} series end in rows without an observed value"
    most = f"{ids[empty.argmax()]!r} in {empty.max()} of them"
    return [DataNote("missing", f"{what}, {most}; forecasts begin after the last row.")]


def _frequency(
    layout: Layout, freq: str | int | Frequency | None, scheme: Scheme | None
) -> tuple[Layout, Frequency]:
    """Parse or infer the frequency; also return the layout, axis and stamps suited to it."""
    integer = layout.axis.kind == "integer"
    if freq is None:
        layout, step = find_frequency(layout)
        if step.week is not None and layout.axis.zone not in (None, "UTC"):
            layout, step = _local_clock(layout, step)
    else:
        step = Frequency.parse(freq)
    if (step.unit == "integer") != integer:
        kind, example = ("integers", "1") if integer else ("time stamps", "'h'")
        holds = f"time column {layout.axis.name!r} holds {kind}"
        reason = f"{holds}; pass a frequency such as {example}"
        raise FighterError(reason, argument="freq", value=str(step))
    if freq is not None:
        phase, exact = (scheme.phase, not scheme.snapped) if scheme else (None, False)
        layout = fit_to_frequency(layout, step, phase, exact)
    if layout.axis.kind == "date" and "time_of_day_sin" in step.calendar_names:
        layout = replace(layout, axis=replace(layout.axis, kind="datetime", boxed=False))
    return layout, step


def _local_clock(layout: Layout, step: Frequency) -> tuple[Layout, Frequency]:
    """Keep opening hours on the local clock, if they are closed when clocks change."""
    local = replace(layout.axis, wall=True)
    axis, times = TimeAxis.read(layout.frame[layout.axis.name], local)
    moved = replace(layout, axis=axis, times=times)
    if layout.left_out is not None:
        notes = tuple(note for note in layout.notes if note.kind != "shifted")
        moved, own = find_frequency(replace(moved, left_out=None, notes=notes))
    else:
        own = Frequency.infer(times, layout.series)
    return (layout, step) if own.week is None or own.week.night else (moved, own)


def _marks(missing_values: float | Sequence[float] | None) -> tuple[float, ...]:
    if missing_values is None:
        return ()
    marks = []
    for mark in np.atleast_1d(np.asarray(missing_values, object)):
        if not isinstance(mark, Real):
            raise FighterError("needs numbers", argument="missing_values", value=mark)
        try:
            marks.append(float(mark))
        except OverflowError:
            reason = "holds a number that no cell can hold; leave it out"
            raise FighterError(reason, argument="missing_values") from None
    return tuple(marks)


def _axis_notes(layout: Layout, freq: Frequency, told: bool, inferred: bool) -> list[DataNote]:
    """Describe how the time column was read, unless the user said so or was ``told`` before."""
    axis, notes = layout.axis, []
    column = layout.frame[axis.name]
    if axis.encoding and not told and column.dtype.is_numeric():
        example = f"{int(column[0])} is {freq.show(int(layout.times[0]))}"
        keep = "an integer frequency such as 1 keeps them as they are"
        text = f"Integers of time column {axis.name!r} are read as dates ({example}); {keep}."
        notes.append(DataNote("dates", text))
    if axis.wall and axis.zone is None and not told:
        text = "Time stamps with UTC offsets are kept on the local clock, without a zone."
        notes.append(DataNote("zone", text))
    if axis.zone not in (None, "UTC"):
        converted = "converted to UTC, and forecasts come back in the zone"
        clock = "kept on the local clock" if axis.wall else converted
        notes.append(DataNote("zone", f"Time stamps of zone {axis.zone} are {clock}."))
    if freq.week not in (None, WEEKDAYS) and inferred:
        share = "Nearly all" if freq.closed(layout.times).any() else "All"
        hours = f"{share} rows are on {freq.week}, so only these steps are forecast"
        remedy = f"pass the frequency {freq.every} for all steps"
        notes.append(DataNote("closed", f"{hours}; {remedy}."))
    local = axis.zone in (None, "UTC") or axis.wall
    if freq.unit == "ns" and freq.count <= DAY and local and not inferred and not told:
        week = OpenWeek.infer(layout.times, layout.series, freq.count)
        if week is not None:
            only = Frequency("open", 1, week=week)
            what = f"Hardly any row is outside {week}, but all steps of {freq} are forecast"
            notes.append(DataNote("closed", f"{what}; pass the frequency {only} for open steps."))
    return notes
