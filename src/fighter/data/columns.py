"""Tables and their columns, read through narwhals into numpy; nothing here knows of time."""

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

import narwhals as nw
import numpy as np

from ..errors import FighterError, did_you_mean


def open_table(table: Any) -> tuple[nw.DataFrame, dict[str, Any]]:
    """Open a pandas, polars or pyarrow table; also give labels that were no strings."""
    labels: dict[str, Any] = {}
    if nw.dependencies.is_pandas_dataframe(table):
        if table.columns.nlevels > 1:
            raise FighterError("The columns of the table have several levels; flatten them to one.")
        if table.columns.has_duplicates:
            twice = table.columns[table.columns.duplicated()][0]
            raise FighterError(
                f"Column {twice!r} appears more than once; rename or drop the others."
            )
        if any(not isinstance(label, str) for label in table.columns):
            labels = {str(label): label for label in table.columns}
            table = table.set_axis(list(labels), axis=1)
    try:
        frame = nw.from_native(table)
    except TypeError:
        raise FighterError(
            f"Expected a pandas, polars or pyarrow table, got {type(table).__name__}"
            + ("; make it a table with .to_frame()." if hasattr(table, "to_frame") else ".")
        ) from None
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
    if len(frame) == 0 or not frame.columns:
        raise FighterError(
            f"The table is empty: {len(frame)} rows, columns {', '.join(frame.columns) or 'none'}."
        )
    return frame, labels


def missing_column(name: str, role: str, columns: Sequence[str]) -> FighterError:
    """Make the error for a column that is not there, with the names that are and the nearest."""
    hint = did_you_mean(name, columns)
    if not hint and role == "time":
        hint = " Name the one with the stamps: time_col='…'."
    return FighterError(
        f"There is no {role} column {name!r}. The table has {listing(columns)}.{hint}"
    )


def listing(names: Iterable[Any], most: int = 12) -> str:
    """Write names as ``'a', 'b', 'c' and 17 more``."""
    names = list(names)
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(repr, names[:most])) + rest


def numbers(column: nw.Series, alternative: str = "") -> np.ndarray:
    """Read a numeric column, NaN where it is empty. ``float64 [rows]``"""
    dtype = column.dtype
    if dtype.is_numeric() or isinstance(dtype, nw.Boolean):
        return column.cast(nw.Float64()).to_numpy().astype(np.float64, copy=False)
    example: Any = None
    if isinstance(dtype, nw.Object):
        cells = [np.nan if cell is None else cell for cell in column.to_list()]
        others = (
            c
            for c in cells
            if not isinstance(c, int | float | Decimal | bool | np.number | np.bool_)
        )
        example = next(others, None)
        if example is None:
            return np.array([float(cell) for cell in cells])
    if example is None:
        example = next((cell for cell in column.drop_nulls().head(1).to_list()), None)
    if example is None:
        return np.full(len(column), np.nan)  # nothing in it, whatever its type
    raise FighterError(
        f"Column {column.name!r} must hold numbers but holds {dtype} such as {str(example)!r}. "
        f"Convert it to numbers{alternative or ' first'}."
    )


def factorise(column: nw.Series) -> tuple[tuple, np.ndarray]:
    """Find the different cells, as they first appear, and which one each row has. ``int64``"""
    if count := int(column.null_count()):
        row = int(column.is_null().to_numpy().argmax())
        raise FighterError(
            f"Id column {column.name!r} has {count} empty cells, the first in row {row}. "
            "Name those series or drop the rows."
        )
    # Tables mostly come series by series: only the head of each run goes through Python.
    heads = (column != column.shift(1)).fill_null(value=True).to_numpy().astype(bool)
    heads[0] = True
    cells = column[np.flatnonzero(heads)].to_list()
    index: dict[Any, int] = {}
    codes = np.fromiter(
        (index.setdefault(cell, len(index)) for cell in cells), np.int64, len(cells)
    )
    return tuple(index), codes[np.cumsum(heads) - 1]
