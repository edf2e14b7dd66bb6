"""The layout of a table: which columns are ids, times, targets and covariates."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import narwhals as nw
import numpy as np

from ..errors import FighterError
from .columns import (
    as_table,
    factorise,
    is_missing,
    listing,
    missing_column,
    numbers,
    open_frame,
)
from .frequency import DAY, HOUR, plural
from .keys import (
    distinct_rows,
    find_keys,
    is_constant,
    is_part_of_time,
    is_redundant,
)
from .notes import DataNote
from .numerals import parse_numerals
from .ragged import Ragged, ragged
from .time_axis import TimeAxis

LARGEST_VALUE = 1e150  # its square still fits in float64
TIME_NAMES = ("ds", "date", "time", "timestamp", "datetime")
_SUNDAY, _AUTUMN = 3, (4, 10, 11)  # 1970-01-04 was a Sunday; months
DEFAULT_ID, DEFAULT_TARGET = "unique_id", "y"


@dataclass(frozen=True)
class Layout:
    """The parts of a table, with its rows in their original order.

    A long table has a series number for each row and one target column; a wide table has one
    target column per series and no series numbers.
    """

    frame: nw.DataFrame
    ids: tuple
    axis: TimeAxis
    times: np.ndarray  # int64 [rows]
    series: np.ndarray | None  # int64 [rows], or None for a wide table
    targets: np.ndarray  # float64 [rows, 1] long, [rows, N] wide
    unused: tuple[str, ...] = ()
    id_cols: tuple[str, ...] = (DEFAULT_ID,)
    target_col: str = DEFAULT_TARGET
    series_cols: tuple[str, ...] = ()  # of a wide table
    covariates: tuple[str, ...] = ()
    notes: tuple[DataNote, ...] = ()
    # bool [rows]: rows that give way to another of their step, if stamps were moved to a grid
    left_out: np.ndarray | None = None

    def check_repeats(
        self, rows: np.ndarray | slice, slots: np.ndarray, kept: np.ndarray
    ) -> list[DataNote]:
        """Refuse rows of the same slot whose values differ, but for the end of daylight saving.

        ``slots`` has the slot of each of these ``rows``, ``kept`` the place of the first one of
        each slot, in the order of the slots.
        """
        rows = np.arange(len(self.times))[rows]
        first = rows[kept[np.searchsorted(slots[kept], slots)]]
        again = first != rows
        first, repeats = first[again], rows[again]
        covariates = [numbers(self.frame[name]) for name in self.covariates]
        cells = np.column_stack([self.targets, *covariates])
        one, other = cells[first], cells[repeats]
        differ = ~((one == other) | (np.isnan(one) & np.isnan(other)))
        autumn = differ.any(axis=1) & self._clock_goes_back(repeats)
        differ[autumn] = False
        if not differ.any():
            return [self._about_autumn(repeats[autumn])] if autumn.any() else []
        place = int(differ.any(axis=1).argmax())
        earlier, row, column = int(first[place]), int(repeats[place]), int(differ[place].argmax())
        names = (*(self.series_cols or (self.target_col,)), *self.covariates)
        where, moved = f"rows {earlier} and {row} have the same time", ""
        if self.times[earlier] != self.times[row]:
            stamps = [str(self.frame[self.axis.name][i]) for i in (earlier, row)]
            where = f"rows {earlier} and {row} ({', '.join(stamps)}) fall on the same step"
            moved = "correct one of these stamps, or pass the frequency of the data"
        if self.series is not None:
            where += f" and the same id {self.ids[self.series[row]]!r}"
        values = f"{cells[earlier, column]:g} and {cells[row, column]:g} in {names[column]!r}"
        count = int(differ.any(axis=1).sum())
        count = f"{plural(count, 'row')} {'is' if count == 1 else 'are'} repeated with other values"
        raise FighterError(
            f"{count}: {where} but {values}; {moved or self._about_keys(rows, slots)}",
            argument="freq" if moved else "id_col",
        )

    def _clock_goes_back(self, rows: np.ndarray) -> np.ndarray:
        """Find the rows in the hour that a local clock repeats at the end of daylight saving.

        It is on a Sunday of October or November (of April in the south), once a year.
        """
        times = self.times[rows]
        if self.axis.kind != "datetime" or self.axis.zone or not np.ptp(self.times % DAY):
            return np.zeros(rows.shape, bool)
        dates = times.astype("M8[ns]").astype("M8[D]")
        months, clock = dates.astype("M8[M]").astype(np.int64) % 12 + 1, times % DAY
        found = (times // DAY % 7 == _SUNDAY) & np.isin(months, _AUTUMN)
        found &= (clock >= HOUR) & (clock < 4 * HOUR)
        days = np.unique(dates[found])
        once = np.unique(days.astype("M8[Y]")).size == days.size
        return found if once else np.zeros(rows.shape, bool)

    def _about_autumn(self, rows: np.ndarray) -> DataNote:
        stamp = str(self.frame[self.axis.name][int(rows[0])])
        again = f"repeated in {plural(len(rows), 'row')} (first: {stamp})"
        what = f"The hour in which daylight saving ends is {again}"
        remedy = "convert the time stamps to UTC to keep both"
        return DataNote("duplicates", f"{what}; of each pair the first was kept; {remedy}.")

    def _about_keys(self, rows: np.ndarray, slots: np.ndarray) -> str:
        """Say how rows that repeat with other values could be told apart."""
        frame = self.frame[rows]
        distinct = distinct_rows(frame, slots)
        codes = np.unique(slots[distinct], return_inverse=True)[1]
        rest = [*self.unused, *self.series_cols]
        own = self.id_cols if self.series is not None else ()
        if found := find_keys(frame[distinct], rest, codes):
            sets = " or ".join(listing((*own, *key)) for key in found)
            time_col, names = self.axis.name, [name for key in found for name in key]
            if clock := [name for name in names if is_part_of_time(frame[name], time_col)]:
                return _join_columns(time_col, clock[0])
            return f"if further columns name the series, pass them all as ids: {sets}"
        return "name the columns that tell the series apart as ids, or keep one row of each time"


def _join_columns(time_col: str, clock: str) -> str:
    example = " such as '2024-W05'" if "week" in (time_col + clock).casefold() else ""
    both = f"{time_col!r} and {clock!r} tell the time together"
    return f"{both}; join the two columns into one time stamp{example}"


def is_marked(values: np.ndarray, marks: Sequence[float]) -> np.ndarray:
    """Find the values that stand for missing data, also if they were stored as float32."""
    if isinstance(values, Ragged):
        return ragged(is_marked(values.packed(), marks), values.spans.packed)
    marks = [*marks, *(float(np.float32(mark)) for mark in marks)]
    return np.isin(values, marks) if marks else np.zeros(values.shape, bool)


def read_numbers(
    frame: nw.DataFrame, names: Sequence[str], argument: str, marks: Sequence[float] = ()
) -> np.ndarray:
    """Read the columns that ``argument`` names: ``float64``, NaN where they are empty or marked."""
    for name in names:
        if name not in frame.columns:
            raise missing_column(name, argument, frame.columns)
    frame, _ = read_text(frame, dict.fromkeys(names, argument))
    columns = [numbers(frame[name], argument) for name in names]
    columns = [np.where(is_marked(column, marks), np.nan, column) for column in columns]
    for name, column in zip(names, columns, strict=True):
        if (infinite := np.isinf(column)).any():
            reason = f"{infinite.sum()} rows are infinite, the first is row {infinite.argmax()}"
            raise FighterError(f"{reason}; correct or drop them", argument=argument, value=name)
        if (large := np.abs(column) > LARGEST_VALUE).any():
            reason = f"{large.sum()} rows are larger than {LARGEST_VALUE:g}"
            reason += f", the first is row {large.argmax()}; correct or drop them"
            raise FighterError(reason, argument=argument, value=name)
    return np.stack(columns, axis=1) if columns else np.zeros((len(frame), 0))


def read_text(
    frame: nw.DataFrame, roles: Mapping[str, str | None]
) -> tuple[nw.DataFrame, list[DataNote]]:
    """Replace columns of text that hold numbers by these numbers, and say what was not plain.

    ``roles`` has the columns to look at, each with the argument that named it.
    """
    notes, read = [], []
    for name, argument in roles.items():
        cells = _text_cells(frame[name])
        if cells is None:
            continue
        alternative = {
            None: "drop the column, or name the id and target columns of a long table",
            "target_col": "correct it or leave it empty",
        }.get(argument, "encode categories as numbers, such as one column of 0 and 1 for each")
        values, remark = parse_numerals(cells, name, argument, alternative)
        series = nw.Series.from_numpy(name, values, backend=frame.implementation)
        read.append(series)
        if remark:
            notes.append(DataNote("text", f"Text in column {name!r} was read: {remark}."))
    return frame.with_columns(*read) if read else frame, notes


def _text_cells(column: nw.Series) -> list[str | None] | None:
    """Return the cells of a column that holds text, also beside numbers; None for any other."""
    text = isinstance(column.dtype, nw.String | nw.Categorical | nw.Enum)
    if not text and not isinstance(column.dtype, nw.Object):
        return None
    cells = [None if is_missing(cell) else cell for cell in column.to_list()]
    if not text and not any(isinstance(cell, str) for cell in cells):
        return None
    return [None if cell is None else str(cell) for cell in cells]


def read_layout(
    table: Any,
    id_cols: tuple[str, ...],
    time_col: str,
    target_col: str,
    covariates: Mapping[str, str],
    *,
    like: TimeAxis | None = None,
    date_format: str | None = None,
    integer: bool = False,
    columns: Sequence[str] = (),
    drop: Sequence[str] = (),
    known: Sequence[str] | None = None,
) -> Layout:
    """Read a long, single-series or wide table.

    Args:
        table: the table.
        id_cols: id columns.
        time_col: time column.
        target_col: target column.
        covariates: covariate columns, each with the argument that named it.
        like: the time axis of an earlier table, which this one then follows.
        date_format: format of dates in text.
        integer: whether the time axis holds integers; see :meth:`TimeAxis.read`.
        columns: read only these columns, and those named above (default: all).
        drop: columns to leave out.
        known: the series columns of an earlier table, if there was one; () if it was long.
    """
    frame, labels = open_frame(lift_index(as_table(table), id_cols, time_col))
    time_col = find_time_column(frame, time_col, {*id_cols, target_col, *covariates})
    named = {*id_cols, target_col, time_col, *covariates}
    if time_col in drop:
        raise FighterError("is the time column, keep it", argument="drop", value=time_col)
    frame = _choose(frame, columns, drop, named, known is not None)
    absent = [name for name in id_cols if name not in frame.columns]
    if absent and id_cols != (DEFAULT_ID,):
        raise missing_column(absent[0], "id_col", frame.columns)
    notes: list[DataNote] = []
    if target_col not in frame.columns and (target_col != DEFAULT_TARGET or not absent):
        left = [name for name in frame.columns if name not in named]
        left = [name for name in left if frame[name].dtype.is_numeric()]
        if target_col != DEFAULT_TARGET or len(left) != 1:
            raise missing_column(target_col, "target_col", frame.columns)
        (target_col,) = left
        named.add(target_col)
        text = f"Column {target_col!r} is the target: it is the only one with numbers left."
        notes.append(DataNote("layout", text))
    _check_roles(id_cols, time_col, target_col, covariates)
    read_time = {"like": like, "date_format": date_format, "integer": integer}
    axis, times = TimeAxis.read(frame[time_col], **read_time)
    check_zone(axis, like)
    rest = tuple(name for name in frame.columns if name not in named)
    present = {name: role for name, role in covariates.items() if name in frame.columns}
    if absent:
        clock = _clock(frame[time_col], axis, times)
        redundant = tuple(name for name in rest if is_redundant(frame[name], clock))
        series_cols = tuple(name for name in rest if name not in redundant)
        if not known and (keys := _recognise(frame, times, series_cols, time_col, target_col)):
            ids, target = keys
            names = (ids, time_col, target, covariates)
            layout = read_layout(frame.to_native(), *names, **read_time)
            read_as = f"ids {listing(ids)}, target {target!r}"
            text = f"Time stamps repeat, so the table was read as long: {read_as}."
            return replace(layout, notes=(DataNote("layout", text), *layout.notes))
        if target_col not in frame.columns:
            if known and set(known) <= set(series_cols):  # the earlier columns, and others
                series_cols = tuple(known)
            series_cols = series_cols or rest
            return _read_wide(frame, labels, axis, times, series_cols, rest, present)
    frame, remarks = read_text(frame, {target_col: "target_col", **present})
    ids, series = (labels.get(target_col, target_col),), None
    if not absent:
        ids, series = factorise(frame, id_cols)
    targets = numbers(frame[target_col], "target_col")[:, None]
    return Layout(
        frame, ids, axis, times, series, targets, rest, id_cols, target_col,
        covariates=tuple(present), notes=(*notes, *remarks),
    )  # fmt: skip


def _read_wide(
    frame: nw.DataFrame,
    labels: Mapping[str, Any],
    axis: TimeAxis,
    times: np.ndarray,
    series_cols: tuple[str, ...],
    rest: tuple[str, ...],
    covariates: Mapping[str, str],
) -> Layout:
    """Read a wide table whose series are ``series_cols``; others in ``rest`` are not used."""
    if not series_cols:
        others = listing(covariates) or "nothing"
        reason = f"besides the time column {axis.name!r} there is {others}"
        raise FighterError(f"the table has no series: {reason}")
    frame, notes = read_text(frame, {**dict.fromkeys(series_cols), **covariates})
    alternative = "convert it to numbers or drop the column"
    targets = np.stack([numbers(frame[name], None, alternative) for name in series_cols], axis=1)
    ids = tuple(labels.get(name, name) for name in series_cols)
    unused = tuple(name for name in rest if name not in series_cols)
    return Layout(
        frame, ids, axis, times, None, targets, unused, series_cols=series_cols,
        covariates=tuple(covariates), notes=tuple(notes),
    )  # fmt: skip


def _choose(
    frame: nw.DataFrame, columns: Sequence[str], drop: Sequence[str], named: set[str], later: bool
) -> nw.DataFrame:
    """Keep the columns to read; a ``later`` table may lack some of those that were listed."""
    for argument, names in (("columns", columns), ("drop", drop)):
        absent = [name for name in names if name not in frame.columns]
        if absent and not later:
            raise missing_column(absent[0], argument, frame.columns)
    chosen = [name for name in frame.columns if not columns or name in {*columns, *named}]
    return frame.select([name for name in chosen if name not in drop])


def _check_roles(
    id_cols: tuple[str, ...], time_col: str, target_col: str, covariates: Mapping[str, str]
) -> None:
    """Refuse a column that is named for two roles."""
    roles = [*((name, "id_col") for name in id_cols), (time_col, "time_col")]
    taken: dict[str, str] = {}
    for name, argument in [*roles, (target_col, "target_col"), *covariates.items()]:
        if name in taken:
            reason = f"is the {taken[name].removesuffix('_col')} column already; name another"
            raise FighterError(reason, argument=argument, value=name)
        taken[name] = argument


def _recognise(
    frame: nw.DataFrame, times: np.ndarray, rest: tuple[str, ...], time_col: str, target_col: str
) -> tuple[tuple[str, ...], str] | None:
    """Recognise a long table whose id columns were not named: its id columns and its target.

    None if time stamps do not repeat often enough for several series. Unclear tables are refused.
    """
    if (np.diff(times) > 0).all() or len(np.unique(times)) == len(times):
        return None
    rows = distinct_rows(frame, times)
    stamps, slots = np.unique(times[rows], return_inverse=True)
    if len(rows) < 1.2 * len(stamps):
        return None
    part = frame[rows]
    found = find_keys(part, rest, slots)
    if not found:
        return None  # repeated rows are refused later, with their place
    if len(found) > 1:
        sets = " or ".join(listing(key) for key in found)
        reason = f"time stamps repeat, and several columns could name the series: {sets}"
        raise FighterError(f"{reason}; name the id and the target columns", argument="id_col")
    (keys,) = found
    if clock := [name for name in keys if is_part_of_time(part[name], time_col)]:
        remedy = f"{_join_columns(time_col, clock[0])}, or name {clock[0]!r} as an id"
        raise FighterError(remedy, argument="time_col", value=time_col)
    if target_col in frame.columns:
        return keys, target_col
    series = factorise(part, keys)[1]
    others = [name for name in rest if name not in keys and part[name].dtype.is_numeric()]
    targets = others
    if len(others) > 1:  # attributes of the series, such as the size of a store, do not count
        targets = [name for name in others if not is_constant(part[name], series)]
    if len(targets) != 1:
        found_targets = f"could be {listing(targets)}" if targets else "is not a column of numbers"
        name = "names" if len(keys) == 1 else "name"
        what = f"{listing(keys)} {name} the series, but the target {found_targets}"
        reason = f"time stamps repeat: {what}; name the target and the id columns"
        raise FighterError(reason, argument="target_col")
    return keys, targets[0]


def check_zone(axis: TimeAxis, like: TimeAxis | None, argument: str = "time_col") -> None:
    """Refuse time stamps that cannot be compared with those of an earlier table.

    Stamps of different zones can be, as both are moments in UTC, unless the local clock counts.
    """
    if like is None or _same_zone(axis.zone, like.zone):
        return
    if None not in (axis.zone, like.zone) and not like.wall:
        return
    here = f"have the zone {axis.zone}" if axis.zone else "have no time zone"
    there = f"have the zone {like.zone}" if like.zone else "have none"
    remedy = f"convert them to {like.zone}" if like.zone else "convert them and remove the zone"
    reason = f"the time stamps {here}, those of the training table {there}; {remedy}"
    raise FighterError(reason, argument=argument, value=axis.name)


def _same_zone(one: str | None, other: str | None) -> bool:
    """Compare two zones; UTC has several names."""
    utc = ("UTC", "Etc/UTC", "Etc/UCT", "UCT", "Zulu", "Etc/Zulu", "GMT", "Etc/GMT", "UTC+00:00")
    return one == other or (one in utc and other in utc)


def _clock(column: nw.Series, axis: TimeAxis, times: np.ndarray) -> np.ndarray | None:
    """Return the local clock of the rows, ``datetime64[s]``; None for integers."""
    if axis.kind == "integer":
        return None
    if axis.zone is not None and not axis.wall and isinstance(column.dtype, nw.Datetime):
        return column.dt.replace_time_zone(None).to_numpy().astype("M8[s]")
    return times.astype("M8[ns]").astype("M8[s]")


def lift_index(table: Any, id_cols: Sequence[str], time_col: str) -> Any:
    """Turn ids and times in the index of a pandas table into columns."""
    if not nw.dependencies.is_pandas_dataframe(table):
        return table
    index: Any = table.index
    wanted = {*id_cols, time_col}
    if any(name in wanted and name not in table.columns for name in index.names):
        return table.reset_index()
    if time_col in table.columns:
        return table
    if type(index).__name__ == "PeriodIndex":
        index = index.to_timestamp()
    if getattr(index.dtype, "kind", "") != "M":
        return table
    named = isinstance(index.name, str) and index.name not in table.columns
    lifted = table.reset_index(drop=True)
    lifted.insert(0, index.name if named else time_col, index)
    return lifted


def find_time_column(frame: nw.DataFrame, time_col: str, taken: Collection[str] = ()) -> str:
    """Return ``time_col`` if the table has it, else the only column that looks like a time.

    Columns that are ``taken`` have another role.
    """
    columns = frame.columns
    if time_col in columns:
        return time_col
    if time_col in TIME_NAMES:
        free = {name: dtype for name, dtype in frame.schema.items() if name not in taken}
        stamps = [name for name, t in free.items() if isinstance(t, nw.Datetime | nw.Date)]
        named = [name for name in free if name.casefold() in TIME_NAMES]
        for candidates in ([name for name in stamps if name in named], stamps, named):
            if len(candidates) == 1:
                return candidates[0]
        if stamps or named:
            reason = f"several columns could be the time, {listing(stamps or named)}; name one, "
            reason += "or join date and time into one column"
            raise FighterError(reason, argument="time_col", value=time_col)
    raise missing_column(time_col, "time_col", columns)
