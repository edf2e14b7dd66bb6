"""Columns of a table, read through narwhals into numpy. Nothing here depends on time."""

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

import narwhals as nw
import numpy as np

from ..errors import FighterError, did_you_mean


def open_frame(table: Any) -> tuple[nw.DataFrame, dict[str, Any]]:
    """Open a pandas, polars or pyarrow table.

    Also return the original labels of pandas columns that are not strings, by their text.
    """
    labels: dict[str, Any] = {}
    if nw.dependencies.is_pandas_dataframe(table):
        if table.columns.nlevels > 1:
            raise FighterError("the columns of the table have several levels; flatten them to one")
        if table.columns.has_duplicates:
            name = table.columns[table.columns.duplicated()][0]
            raise FighterError(f"column {name!r} appears more than once; rename or drop the others")
        if any(not isinstance(label, str) for label in table.columns):
            labels = {str(label): label for label in table.columns}
            table = table.set_axis(list(labels), axis=1)
    try:
        frame = nw.from_native(table)
    except TypeError:
        remedy = "; make it a table with .to_frame()" if hasattr(table, "to_frame") else ""
        reason = f"needs a pandas, polars or pyarrow table, not {type(table).__name__}{remedy}"
        raise FighterError(reason) from None
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
    if len(frame) == 0 or not frame.columns:
        columns = ", ".join(frame.columns) or "none"
        raise FighterError(f"the table is empty: {len(frame)} rows, columns {columns}")
    return frame, labels


def missing_column(name: str, argument: str, columns: Sequence[str]) -> FighterError:
    """Return the error for a column, named by ``argument``, that the table does not have."""
    hint = did_you_mean(name, columns)
    if not hint and argument == "time_col":
        hint = " Name the column of the time stamps"
    reason = f"the table has no such column; it has {listing(columns)}{hint and '.' + hint}"
    return FighterError(reason, argument=argument, value=name)


def listing(names: Iterable[Any], most: int = 12) -> str:
    """Write names as ``'a', 'b', 'c' and 17 more``."""
    names = list(names)
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(repr, names[:most])) + rest


def numbers(column: nw.Series, alternative: str = "") -> np.ndarray:
    """Read a numeric column as ``float64 [rows]``, NaN where it is empty.

    ``alternative`` ends the error of a column that is not numeric: what else the user can do.
    """
    dtype = column.dtype
    if dtype.is_numeric() or isinstance(dtype, nw.Boolean):
        return column.cast(nw.Float64()).to_numpy().astype(np.float64, copy=False)
    examples = column.drop_nulls().head(1).to_list()
    if isinstance(dtype, nw.Object):
        cells = [np.nan if cell is None else cell for cell in column.to_list()]
        number = int | float | Decimal | np.number | np.bool_
        examples = [cell for cell in cells if not isinstance(cell, number)]
        if not examples:
            return np.array([float(cell) for cell in cells])
    if not examples:
        return np.full(len(column), np.nan)  # an empty column of any type
    holds = f"{dtype} such as {str(examples[0])!r}; convert it to numbers{alternative}"
    raise FighterError(f"column {column.name!r} must hold numbers but holds {holds}")


def check_full(empty: np.ndarray, argument: str, name: str, remedy: str) -> None:
    """Check that no cell of column ``name`` is ``empty [rows]``."""
    if count := int(empty.sum()):
        where = f"{count} of {len(empty)} cells are empty, the first in row {empty.argmax()}"
        raise FighterError(f"{where}; {remedy}", argument=argument, value=name)


def factorise(column: nw.Series) -> tuple[tuple, np.ndarray]:
    """List the distinct ids in order of appearance, and number the id of each row: ``int64``."""
    remedy = "name those series or drop the rows"
    check_full(column.is_null().to_numpy(), "id_col", column.name, remedy)
    # Most tables are sorted by series: only the first row of each run goes through Python.
    heads = (column != column.shift(1)).fill_null(value=True).to_numpy().astype(bool)
    heads[0] = True
    ids, codes = number_cells(column[np.flatnonzero(heads)].to_list())
    return ids, codes[np.cumsum(heads) - 1]


def number_cells(cells: list) -> tuple[tuple, np.ndarray]:
    """List the distinct cells in order of appearance, and number each cell: ``int64``."""
    index: dict[Any, int] = {}
    codes = [index.setdefault(cell, len(index)) for cell in cells]
    return tuple(index), np.array(codes, np.int64)
