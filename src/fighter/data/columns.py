"""Columns of a table, read through narwhals into numpy. Nothing here depends on time."""

import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np

from ..errors import FighterError, did_you_mean
from .files import import_pandas

# Their cells may be anything, and libraries cannot compare them all.
ODD_TYPES = (nw.Object, nw.List, nw.Array, nw.Struct, nw.Unknown)


class SeriesKey(tuple):
    """The id of a series over several id columns: a tuple, written as ``1 / 2``."""

    __slots__ = ()

    def __str__(self) -> str:
        return " / ".join(map(str, self))


def open_frame(table: Any, argument: str | None = None) -> tuple[nw.DataFrame, dict[str, Any]]:
    """Open a pandas, polars or pyarrow table, or a dictionary of columns or list of rows.

    Also return the original labels of pandas columns that are not strings, by their text.
    ``argument`` is named in errors.
    """
    labels: dict[str, Any] = {}
    table = as_table(table, argument)
    if nw.dependencies.is_pandas_dataframe(table):
        if table.columns.nlevels > 1:
            reason = "the columns of the table have several levels; flatten them to one"
            raise FighterError(reason, argument=argument)
        if table.columns.has_duplicates:
            name = table.columns[table.columns.duplicated()][0]
            reason = f"column {name!r} appears more than once; rename or drop the others"
            raise FighterError(reason, argument=argument)
        if any(not isinstance(label, str) for label in table.columns):
            for label in table.columns:
                if (other := labels.setdefault(str(label), label)) is not label:
                    reason = f"columns {other!r} and {label!r} are written alike; rename one"
                    raise FighterError(reason, argument=argument)
            table = table.set_axis(list(labels), axis=1)
        dtypes = table.dtypes.items()
        sparse = {name: t.subtype for name, t in dtypes if type(t).__name__ == "SparseDtype"}
        table = table.astype(sparse) if sparse else table
    frame = nw.from_native(table)
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
    if len(frame) == 0 or not frame.columns:
        columns = ", ".join(frame.columns) or "none"
        reason = f"the table is empty: {len(frame)} rows, columns {columns}"
        raise FighterError(reason, argument=argument)
    return frame, labels


def as_table(table: Any, argument: str | None = None) -> Any:
    """Return what narwhals can open: a series with its index, and plain Python data, as pandas."""
    if nw.dependencies.is_pandas_dataframe(table):
        return table
    if isinstance(table, str | Path):
        reason = "needs a table, not the name of a file; read the file first, such as with pandas"
        raise FighterError(reason, argument=argument)
    if nw.dependencies.is_pandas_series(table):
        return table.to_frame("y" if table.name is None else table.name)
    if _is_rows(table) or _is_columns(table):
        try:
            return import_pandas().DataFrame(table)
        except ValueError as error:
            raise FighterError(f"is not a table: {error}", argument=argument) from error
    try:
        nw.from_native(table)
    except TypeError:
        remedy = "; make it a table with .to_frame()" if hasattr(table, "to_frame") else ""
        reason = f"needs a pandas, polars or pyarrow table, not {type(table).__name__}{remedy}"
        raise FighterError(reason, argument=argument) from None
    except nw.exceptions.DuplicateError as error:
        reason = f"column names appear more than once; rename or drop the others ({error})"
        raise FighterError(reason, argument=argument) from error
    return table


def _is_rows(table: Any) -> bool:
    return isinstance(table, list) and all(isinstance(row, Mapping) for row in table)


def _is_columns(table: Any) -> bool:
    return isinstance(table, dict) and all(hasattr(cell, "__len__") for cell in table.values())


def column_name(name: Any, argument: str) -> str:
    """Return the name of a column as text; labels of pandas columns may be numbers or dates."""
    if isinstance(name, str):
        return name
    if name is None or hasattr(name, "__len__"):
        raise FighterError("needs the name of a column", argument=argument, value=name)
    return str(name)


def column_names(names: Any, argument: str) -> tuple[str, ...]:
    """Return one name or several as a tuple of text; None is none."""
    if names is None:
        return ()
    if isinstance(names, str) or not isinstance(names, Iterable):
        names = (names,)
    return tuple(column_name(name, argument) for name in names)


def missing_column(name: str, argument: str, columns: Sequence[str]) -> FighterError:
    """Return the error for a column, named by ``argument``, that the table does not have."""
    hint = did_you_mean(name, columns)
    if not hint and argument == "time_col":
        hint = _about_header(columns) or " Name the column of the time stamps"
    reason = f"the table has no such column; it has {listing(columns)}{hint and '.' + hint}"
    return FighterError(reason, argument=argument, value=name)


def _about_header(columns: Sequence[str]) -> str:
    """Say what is wrong with a header of numbers; empty if it holds names."""
    if sum(bool(re.fullmatch(r"(19|20)\d\d", name)) for name in columns) > 2:
        return " Years stand in the header: turn the table, so that each row has one time stamp"
    if all(re.fullmatch(r"[-+]?\d[-\d.,:/ TZ]*", name) for name in columns):
        return " The header is missing: put a line with the names of the columns first"
    return ""


def listing(names: Iterable[Any], most: int = 12) -> str:
    """Write names as ``'a', 'b', 'c' and 17 more``."""
    names = list(names)
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(repr, names[:most])) + rest


def quote_ids(one: Any, other: Any) -> tuple[str, str]:
    """Quote two ids that are not alike, with their types if these differ: ``1 (int)``."""
    kinds = [f" ({type(name).__name__})" * (type(one) is not type(other)) for name in (one, other)]
    return repr(one) + kinds[0], repr(other) + kinds[1]


def numbers(
    column: nw.Series, argument: str | None = None, alternative: str = "convert it to numbers"
) -> np.ndarray:
    """Read a column of numbers as ``float64 [rows]``, NaN where it is empty.

    ``argument`` is what named the column; ``alternative`` ends the error of a column that is not
    numeric: what the user can do.
    """
    dtype = column.dtype
    if dtype.is_numeric() or isinstance(dtype, nw.Boolean):
        native = column.to_native()
        if type(getattr(native, "dtype", None)).__name__ == "ArrowDtype":
            native = native.array.__arrow_array__()
        if hasattr(native, "cast") and not column.implementation.is_polars():
            # Arrow's own cast refuses integers that are rounded.
            native = native.cast("double", safe=False)
            return native.to_numpy(zero_copy_only=False).astype(np.float64, copy=False)
        return column.cast(nw.Float64()).to_numpy().astype(np.float64, copy=False)
    cells = column.to_list()
    values = np.full(len(cells), np.nan)
    for row, cell in enumerate(cells):
        if is_missing(cell):
            continue
        try:
            if not isinstance(cell, int | float | Decimal | np.number | np.bool_):
                raise TypeError
            values[row] = float(cell)
        except (TypeError, ValueError, OverflowError):
            shown = str(cell)
            shown = shown if len(shown) <= 40 else f"{shown[:37]}…"
            holds = f"row {row} of column {column.name!r} holds {shown!r}"
            reason = f"{holds} ({type(cell).__name__}), which is not a number; {alternative}"
            raise FighterError(reason, argument=argument, value=column.name) from None
    return values


def check_full(empty: np.ndarray, argument: str, name: str, remedy: str) -> None:
    """Check that no cell of column ``name`` is ``empty [rows]``."""
    if count := int(empty.sum()):
        where = f"{count} of {len(empty)} cells are empty, the first in row {empty.argmax()}"
        raise FighterError(f"{where}; {remedy}", argument=argument, value=name)


def empty_cells(column: nw.Series) -> np.ndarray:
    """Find the cells that hold nothing, ``bool [rows]``."""
    if isinstance(column.dtype, ODD_TYPES):
        return np.array([is_missing(cell) for cell in column.to_list()])
    return column.is_null().to_numpy()


def factorise(frame: nw.DataFrame, id_cols: Sequence[str]) -> tuple[tuple, np.ndarray]:
    """List the distinct ids in order of appearance, and number the id of each row: ``int64``.

    Ids over several columns are :class:`SeriesKey` tuples.
    """
    parts = [_factorise_column(frame[name]) for name in id_cols]
    if len(parts) == 1:
        return parts[0]
    key = np.zeros(len(frame), np.int64)
    for ids, codes in parts:
        key = number_cells((key * len(ids) + codes).tolist())[1]
    first = np.unique(key, return_index=True)[1]
    return tuple(SeriesKey(ids[codes[row]] for ids, codes in parts) for row in first), key


def _factorise_column(column: nw.Series) -> tuple[tuple, np.ndarray]:
    remedy = "name those series or drop the rows"
    check_full(empty_cells(column), "id_col", column.name, remedy)
    if isinstance(column.dtype, ODD_TYPES):
        return number_cells(column.to_list(), "id_col", column.name)
    # Most tables are sorted by series: only the first row of each run goes through Python.
    heads = (column != column.shift(1)).fill_null(value=True).to_numpy().astype(bool)
    heads[0] = True
    ids, codes = number_cells(column[np.flatnonzero(heads)].to_list(), "id_col", column.name)
    return ids, codes[np.cumsum(heads) - 1]


def number_cells(
    cells: list, argument: str | None = None, name: str = ""
) -> tuple[tuple, np.ndarray]:
    """List the distinct cells in order of appearance, and number each cell: ``int64``.

    ``argument`` and ``name`` say which column they are from, for the error about an odd cell.
    """
    index: dict[Any, int] = {}
    try:
        codes = [index.setdefault(cell, len(index)) for cell in cells]
    except TypeError:
        cell = next(cell for cell in cells if not _is_hashable(cell))
        reason = f"holds {type(cell).__name__} {str(cell)[:40]!r}, needs text or numbers"
        raise FighterError(reason, argument=argument, value=name) from None
    return tuple(index), np.array(codes, np.int64)


def is_missing(cell: Any) -> bool:
    """Recognise None, NaN and pandas' NA and NaT; a signalling NaN cannot even be compared."""
    nan = isinstance(cell, float) and cell != cell
    return cell is None or nan or type(cell).__name__ in ("NAType", "NaTType")


def _is_hashable(cell: Any) -> bool:
    try:
        hash(cell)
    except TypeError:
        return False
    return True
