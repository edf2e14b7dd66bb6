"""The layout of a table: which columns are ids, times, targets and covariates."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np

from ..errors import FighterError
from .columns import factorise, listing, missing_column, numbers, open_frame
from .time_axis import TimeAxis

LARGEST_VALUE = 1e150  # its square still fits in float64
TIME_NAMES = ("ds", "date", "time", "timestamp", "datetime")


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


def is_marked(values: np.ndarray, marks: Sequence[float]) -> np.ndarray:
    """Find the values that stand for missing data, also if they were stored as float32."""
    marks = [*marks, *(float(np.float32(mark)) for mark in marks)]
    return np.isin(values, marks) if marks else np.zeros(values.shape, bool)


def read_numbers(
    frame: nw.DataFrame, names: Sequence[str], argument: str, marks: Sequence[float] = ()
) -> np.ndarray:
    """Read the columns that ``argument`` names: ``float64``, NaN where they are empty or marked."""
    for name in names:
        if name not in frame.columns:
            raise missing_column(name, argument, frame.columns)
    columns = [numbers(frame[name]) for name in names]
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


def read_layout(
    table: Any,
    id_col: str,
    time_col: str,
    target_col: str,
    covariates: Sequence[str],
    like: TimeAxis | None = None,
    date_format: str | None = None,
    integer: bool = False,
) -> Layout:
    """Read a long, single-series or wide table.

    ``like`` is the time axis of an earlier table, which this one then follows; the other arguments
    are those of :func:`~fighter.data.frames.to_panel` and :meth:`TimeAxis.read`.
    """
    frame, labels = open_frame(lift_index(table, id_col, time_col))
    columns = frame.columns
    if id_col != "unique_id" and id_col not in columns:
        raise missing_column(id_col, "id_col", columns)
    if target_col not in columns and (target_col != "y" or id_col in columns):
        raise missing_column(target_col, "target_col", columns)
    time_col = find_time_column(frame, time_col)
    axis, times = TimeAxis.read(frame[time_col], like, date_format=date_format, integer=integer)
    if taken := [name for name in covariates if name in (id_col, target_col, time_col)]:
        reason = "is the id, time or target; it cannot be a covariate too"
        raise FighterError(f"column {taken[0]!r} {reason}")
    named = {id_col, target_col, time_col, *covariates}
    rest = tuple(name for name in columns if name not in named)
    if target_col in columns:
        ids, series = (labels.get(target_col, target_col),), None
        if id_col in columns:
            ids, series = factorise(frame[id_col])
        return Layout(frame, ids, axis, times, series, numbers(frame[target_col])[:, None], rest)
    row_numbers = tuple(name for name in rest if _is_row_number(frame[name]))
    rest = tuple(name for name in rest if name not in row_numbers)
    if not rest:
        others = f"besides the time column {time_col!r} there is {listing(covariates) or 'nothing'}"
        raise FighterError(f"the table has no series: {others}")
    alternative = ", or drop it; in a long table, name the id, time and target columns"
    targets = np.stack([numbers(frame[name], alternative) for name in rest], axis=1)
    ids = tuple(labels.get(n, n) for n in rest)
    return Layout(frame, ids, axis, times, None, targets, row_numbers)


def _is_row_number(column: nw.Series) -> bool:
    """Recognise the index of a pandas table, which ``to_csv`` writes without a name."""
    if column.name not in ("", "Unnamed: 0") or not column.dtype.is_integer():
        return False
    return column.null_count() == 0 and bool((np.diff(column.to_numpy()) > 0).all())


def lift_index(table: Any, id_col: str, time_col: str) -> Any:
    """Turn ids and times in the index of a pandas table into columns."""
    if not nw.dependencies.is_pandas_dataframe(table):
        return table
    index: Any = table.index
    if any(name in (id_col, time_col) and name not in table.columns for name in index.names):
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


def find_time_column(frame: nw.DataFrame, time_col: str) -> str:
    """Return ``time_col`` if the table has it, else the only column that looks like a time."""
    columns = frame.columns
    if time_col in columns:
        return time_col
    if time_col in TIME_NAMES:
        stamps = [n for n, t in frame.schema.items() if isinstance(t, nw.Datetime | nw.Date)]
        named = [name for name in columns if name.casefold() in TIME_NAMES]
        for candidates in ([name for name in stamps if name in named], stamps, named):
            if len(candidates) == 1:
                return candidates[0]
        if stamps or named:
            reason = f"several columns could be the time, {listing(stamps or named)}; name one"
            raise FighterError(reason, argument="time_col", value=time_col)
    raise missing_column(time_col, "time_col", columns)
