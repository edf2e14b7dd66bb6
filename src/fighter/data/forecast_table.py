"""From forecasts back to a table like the one that came in."""

from collections.abc import Mapping, Sequence
from typing import Any

import narwhals as nw
import numpy as np

from ..errors import FighterError
from .columns import listing
from .time_axis import TimeAxis

_LIBRARIES = {
    "pandas": nw.Implementation.PANDAS,
    "polars": nw.Implementation.POLARS,
    "pyarrow": nw.Implementation.PYARROW,
}


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
    """Write one row for each series and step, series outermost, as a table of the type of ``like``.

    ``times`` is ``int64 [S]``, the stamps of the S rows each series has (they may repeat, as the
    windows of a cross-validation do). A column is ``[S, N]``, or ``[S]`` if all series share it;
    ``time_columns`` names those that are stamps themselves, such as ``cutoff``. The id and time
    columns have the types of ``like`` and ``axis``. ``like`` may also be ``"pandas"``,
    ``"polars"`` or ``"pyarrow"``. NaN comes out as an empty cell.
    """
    backend, id_type = _manner(like, id_col)
    series, steps = len(ids), len(times)

    def rows(values: np.ndarray) -> np.ndarray:  # [S, N] or [S] -> [N * S]
        if values.ndim == 1:
            return np.tile(values, series)
        return np.ascontiguousarray(values.T).reshape(-1)

    time_col = time_col or axis.name
    names = [name for name in ids for _ in range(steps)]
    table = {
        id_col: nw.new_series(id_col, names, id_type, backend=backend),
        time_col: axis.write(rows(np.asarray(times)), time_col, backend),
    }
    for name, values in columns.items():
        values = np.asarray(values)
        if values.shape not in ((steps,), (steps, series)):
            raise FighterError(
                f"Column {name!r} has shape {values.shape}, needs ({steps}, {series}): "
                f"{steps} steps of {series} series."
            )
        if name in time_columns:
            table[name] = axis.write(rows(values), name, backend)
        else:
            column = nw.Series.from_numpy(name, rows(values), backend=backend)
            table[name] = column.fill_nan(None) if column.dtype.is_float() else column
    return nw.from_dict(table).to_native()


def plain_table(
    like: Any, columns: Mapping[str, Any], axis: TimeAxis, time_columns: Sequence[str] = ()
) -> Any:
    """Columns of equal length as a table of the type of ``like``; ``time_columns`` hold stamps."""
    backend, _ = _manner(like, "")
    table = {
        name: axis.write(np.asarray(values), name, backend)
        if name in time_columns
        else nw.new_series(name, list(values), backend=backend)
        for name, values in columns.items()
    }
    return nw.from_dict(table).to_native()


def first_row(table: Any) -> Any:
    """All that is needed as ``like``; untyped columns of pandas tell their type by a cell."""
    return nw.from_native(table).head(1).to_native()


def drop_column(table: Any, name: str) -> Any:
    """The table without a column."""
    return nw.from_native(table).drop(name).to_native()


def _manner(like: Any, id_col: str) -> tuple[Any, Any]:
    """Tell the library of ``like`` and the type of its id column, where it has one."""
    if isinstance(like, str):
        if like not in _LIBRARIES:
            raise FighterError(f"like={like!r} must be a table or one of {listing(_LIBRARIES)}.")
        return _LIBRARIES[like], None
    frame = nw.from_native(like)
    schema = frame.collect_schema()
    id_type = schema.get(id_col)
    if isinstance(id_type, nw.Object | nw.Unknown):
        id_type = None
    backend = nw.Implementation.POLARS if isinstance(frame, nw.LazyFrame) else frame.implementation
    return backend, id_type
