"""Which columns of a table are ids, times, targets and covariates."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np

from ..errors import FighterError
from .columns import factorise, listing, missing_column, numbers, open_table
from .time_axis import TimeAxis

TIME_NAMES = ("ds", "date", "time", "timestamp", "datetime")


@dataclass(frozen=True)
class Layout:
    """A table taken apart, its rows in the order they came.

    A long table has a series number for each row and one target column; a wide one has a column
    for each series and no numbers.
    """

    frame: nw.DataFrame
    ids: tuple
    axis: TimeAxis
    times: np.ndarray  # int64 [rows]
    series: np.ndarray | None  # int64 [rows], or None for a wide table
    targets: np.ndarray  # float64 [rows, 1] long, [rows, N] wide
    unused: tuple[str, ...] = ()


def is_marked(values: np.ndarray, marks: Sequence[float]) -> np.ndarray:
    """Find the values that stand for missing data, also in single precision."""
    marks = [*marks, *(float(np.float32(mark)) for mark in marks)]
    return np.isin(values, marks) if marks else np.zeros(values.shape, bool)


def read_numbers(
    frame: nw.DataFrame, names: Sequence[str], role: str, marks: Sequence[float] = ()
) -> np.ndarray:
    """Read columns by name, NaN where they are empty or marked. ``float64 [rows, len(names)]``"""
    for name in names:
        if name not in frame.columns:
            raise missing_column(name, role, frame.columns)
    columns = [numbers(frame[name]) for name in names]
    columns = [np.where(is_marked(column, marks), np.nan, column) for column in columns]
    for name, column in zip(names, columns, strict=True):
        if (wild := np.isinf(column)).any():
            raise FighterError(
                f"The {role} column {name!r} is infinite in {wild.sum()} rows, the first is row "
                f"{wild.argmax()}. Mend or drop them."
            )
    return np.stack(columns, axis=1) if columns else np.zeros((len(frame), 0))


def read_layout(
    table: Any,
    id_col: str,
    time_col: str,
    target_col: str,
    covariates: Sequence[str],
    wall: bool | None = None,
) -> Layout:
    """Take a long, single-series or wide table apart."""
    frame, labels = open_table(lift_index(table, id_col, time_col))
    columns = frame.columns
    if id_col in columns and target_col not in columns:
        raise missing_column(target_col, "target", columns)
    if id_col != "unique_id" and id_col not in columns:
        raise missing_column(id_col, "id", columns)
    if target_col != "y" and target_col not in columns:
        raise missing_column(target_col, "target", columns)
    clock = find_time_column(frame, time_col)
    axis, times = TimeAxis.read(frame[clock], wall)
    if taken := [name for name in covariates if name in (id_col, target_col, clock)]:
        raise FighterError(f"{taken[0]!r} is the id, time or target; it cannot be a covariate too.")
    named = {id_col, target_col, clock, *covariates}
    rest = tuple(name for name in columns if name not in named)
    if id_col in columns:
        ids, series = factorise(frame[id_col])
        return Layout(frame, ids, axis, times, series, numbers(frame[target_col])[:, None], rest)
    if target_col in columns:
        targets = numbers(frame[target_col])[:, None]
        return Layout(
            frame, (labels.get(target_col, target_col),), axis, times, None, targets, rest
        )
    numbered = tuple(name for name in rest if _numbers_rows(frame[name]))
    rest = tuple(name for name in rest if name not in numbered)
    if not rest:
        raise FighterError(
            f"The table has no series: besides the time column {clock!r} there is "
            f"{listing(covariates) if covariates else 'nothing'}."
        )
    alternative = (
        ", or drop it; name the columns of a long table with id_col=, time_col=, target_col="
    )
    targets = np.stack([numbers(frame[name], alternative) for name in rest], axis=1)
    ids = tuple(labels.get(n, n) for n in rest)
    return Layout(frame, ids, axis, times, None, targets, numbered)


def _numbers_rows(column: nw.Series) -> bool:
    """Whether it is the index of a pandas table, which ``to_csv`` writes without a name."""
    if column.name not in ("", "Unnamed: 0") or not column.dtype.is_integer():
        return False
    return column.null_count() == 0 and bool((np.diff(column.to_numpy()) > 0).all())


def lift_index(table: Any, id_col: str, time_col: str) -> Any:
    """Turn ids or times in the index of a pandas table into columns."""
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
    name = (
        index.name if isinstance(index.name, str) and index.name not in table.columns else time_col
    )
    lifted = table.reset_index(drop=True)
    lifted.insert(0, name, index)
    return lifted


def find_time_column(frame: nw.DataFrame, time_col: str) -> str:
    """``time_col``, or the only column of time stamps, or one that is called like a time."""
    columns = frame.columns
    if time_col in columns:
        return time_col
    if time_col in TIME_NAMES:
        stamps = [n for n, t in frame.schema.items() if isinstance(t, nw.Datetime | nw.Date)]
        called = [name for name in columns if name.casefold() in TIME_NAMES]
        for found in ([name for name in stamps if name in called], stamps, called):
            if len(found) == 1:
                return found[0]
        if stamps or called:
            raise FighterError(
                f"Several columns could be the time: {listing(stamps or called)}. "
                "Name it with time_col=."
            )
    raise missing_column(time_col, "time", columns)
