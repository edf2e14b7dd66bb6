"""Forecasts as a table of the type that came in."""

from collections.abc import Mapping, Sequence
from typing import Any

import narwhals as nw
import numpy as np

from ..errors import FighterError
from .columns import listing
from .time_axis import TimeAxis

LIBRARIES = ("pandas", "polars", "pyarrow")


def forecast_table(
    like: Any,
    ids: Sequence,
    times: np.ndarray,
    columns: Mapping[str, np.ndarray],
    *,
    axis: TimeAxis,
    id_col: str = "unique_id",
    time_col: str | None = None,
    time_columns: Sequence[str] = (),
) -> Any:
    """Make a table with one row per series and step, series outermost. NaN becomes an empty cell.

    Args:
        like: a table whose library and id type to use; or "pandas", "polars" or "pyarrow".
        ids: the N series.
        times: time stamps of the S rows of each series, ``int64 [S]``. They may repeat, as the
            windows of a cross-validation do.
        columns: values by column name, ``[S, N]``, or ``[S]`` if all series share them.
        axis: type of the time columns.
        id_col: name of the id column (default: "unique_id").
        time_col: name of the time column (default: that of ``axis``).
        time_columns: names of further columns that hold time stamps, such as "cutoff".
    """
    backend, id_type = _table_type(like, id_col)
    series, steps = len(ids), len(times)

    def rows(values: np.ndarray) -> np.ndarray:  # [S, N] or [S] -> [N * S]
        return np.tile(values, series) if values.ndim == 1 else values.T.flatten()

    time_col = time_col or axis.name
    names = [name for name in ids for _ in range(steps)]
    table = {
        id_col: nw.new_series(id_col, names, id_type, backend=backend),
        time_col: axis.write(rows(np.asarray(times)), time_col, backend),
    }
    for name, values in columns.items():
        values = np.asarray(values)
        if values.shape not in ((steps,), (steps, series)):
            needed = f"({steps}, {series}): {steps} steps of {series} series"
            raise FighterError(f"column {name!r} has shape {values.shape}, needs {needed}")
        if name in time_columns:
            table[name] = axis.write(rows(values), name, backend)
        else:
            column = nw.Series.from_numpy(name, rows(values), backend=backend)
            table[name] = column.fill_nan(None) if column.dtype.is_float() else column
    return nw.from_dict(table).to_native()


def plain_table(
    like: Any, columns: Mapping[str, Any], axis: TimeAxis, time_columns: Sequence[str] = ()
) -> Any:
    """Make a table of the type of ``like`` from columns of equal length."""
    backend, _ = _table_type(like, "")
    table = {
        name: axis.write(np.asarray(values), name, backend)
        if name in time_columns
        else nw.new_series(name, list(values), backend=backend)
        for name, values in columns.items()
    }
    return nw.from_dict(table).to_native()


def first_row(table: Any) -> Any:
    """Return the first row, enough to serve as ``like``: untyped pandas columns need one cell."""
    return nw.from_native(table).head(1).to_native()


def drop_column(table: Any, name: str) -> Any:
    """Return the table without a column."""
    return nw.from_native(table).drop(name).to_native()


def _table_type(like: Any, id_col: str) -> tuple[Any, Any]:
    """Return the library of ``like`` and the type of its id column, None if it has none."""
    if isinstance(like, str):
        if like not in LIBRARIES:
            needed = f"a table or one of {listing(LIBRARIES)}"
            raise FighterError(f"needs {needed}", argument="like", value=like)
        return nw.Implementation.from_backend(like), None
    frame = nw.from_native(like)
    id_type = frame.collect_schema().get(id_col)
    if isinstance(id_type, nw.Object | nw.Unknown):
        id_type = None
    backend = nw.Implementation.POLARS if isinstance(frame, nw.LazyFrame) else frame.implementation
    return backend, id_type
