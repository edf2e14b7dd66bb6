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
    id_cols: Sequence[str] = ("unique_id",),
    time_col: str | None = None,
    time_columns: Sequence[str] = (),
) -> Any:
    """Make a table with one row per series and step, series outermost. NaN becomes an empty cell.

    Args:
        like: a table whose library and id type to use; or "pandas", "polars" or "pyarrow".
        ids: the N series; tuples if there are several id columns.
        times: time stamps of the S rows of each series, ``int64 [S]``. They may repeat, as the
            windows of a cross-validation do.
        columns: values by column name, ``[S, N]``, or ``[S]`` if all series share them.
        axis: type of the time columns.
        id_cols: names of the id columns (default: "unique_id").
        time_col: name of the time column (default: that of ``axis``).
        time_columns: names of further columns that hold time stamps, such as "cutoff".
    """
    backend, types = _table_type(like)
    series, steps = len(ids), len(times)

    def rows(values: np.ndarray) -> np.ndarray:  # [S, N] or [S] -> [N * S]
        return np.tile(values, series) if values.ndim == 1 else values.T.flatten()

    time_col = time_col or axis.name
    table = {}
    for place, name in enumerate(id_cols):
        cells = [own[place] if len(id_cols) > 1 else own for own in ids for _ in range(steps)]
        table[name] = _id_column(name, cells, types.get(name), backend)
    table[time_col] = axis.write(rows(np.asarray(times)), time_col, backend)
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
    """Make a table of the type of ``like`` from columns of equal length.

    Ids over several columns are written as text, such as ``1 / 2``.
    """
    backend, _ = _table_type(like)
    table = {
        name: axis.write(np.asarray(values), name, backend)
        if name in time_columns
        else nw.new_series(name, [_written(v) for v in values], backend=backend)
        for name, values in columns.items()
    }
    return nw.from_dict(table).to_native()


def drop_column(table: Any, name: str) -> Any:
    """Return the table without a column."""
    return nw.from_native(table).drop(name).to_native()


def _written(cell: Any) -> Any:
    return str(cell) if isinstance(cell, tuple) else cell


def _id_column(name: str, cells: list, kind: Any, backend: Any) -> nw.Series:
    """Make an id column of type ``kind``; None leaves the type to the library."""
    if not isinstance(kind, nw.dtypes.DType) and kind is not None:  # a dictionary of pyarrow
        import pyarrow

        array = pyarrow.array(cells, kind.value_type).dictionary_encode().cast(kind)
        return nw.from_native(pyarrow.chunked_array([array]), series_only=True).alias(name)
    return nw.new_series(name, cells, kind, backend=backend)


def _table_type(like: Any) -> tuple[Any, Mapping[str, Any]]:
    """Return the library of ``like`` and the types of its columns, as far as it has any."""
    if isinstance(like, str):
        if like not in LIBRARIES:
            needed = f"a table or one of {listing(LIBRARIES)}"
            raise FighterError(f"needs {needed}", argument="like", value=like)
        return nw.Implementation.from_backend(like), {}
    try:
        frame = nw.from_native(like)
    except TypeError as error:
        needed = f"a table or one of {listing(LIBRARIES)}"
        raise FighterError(f"needs {needed}", argument="like", value=like) from error
    backend = nw.Implementation.POLARS if isinstance(frame, nw.LazyFrame) else frame.implementation
    types: dict[str, Any] = {
        name: kind
        for name, kind in frame.collect_schema().items()
        if not isinstance(kind, nw.Object | nw.Unknown)
    }
    if backend.is_pyarrow():  # narwhals knows only dictionaries of text
        types |= {f.name: f.type for f in like.schema if hasattr(f.type, "value_type")}
    return backend, types
