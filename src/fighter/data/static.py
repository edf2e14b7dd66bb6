"""Static covariates: one row per series, categories one-hot encoded."""

from collections.abc import Mapping, Sequence
from typing import Any

import narwhals as nw
import numpy as np

from ..errors import FighterError
from .columns import as_table, factorise, listing, missing_column, numbers, open_frame
from .layout import lift_index


def encode_static(
    table: Any, ids: Sequence, id_cols: Sequence[str], categories: Mapping[str, tuple] | None = None
) -> tuple[np.ndarray, tuple[str, ...], dict[str, tuple]]:
    """Encode static covariates as ``float64 [N, C]``.

    Also return the names of the C columns, and the categories of each column of the table, ``()``
    for a number. ``categories`` are those of an earlier table, which this one then follows.
    """
    frame, _ = open_frame(lift_index(as_table(table, "static"), id_cols, ""), "static")
    if absent := [name for name in id_cols if name not in frame.columns]:
        raise missing_column(absent[0], "id_col", frame.columns)
    known, codes = factorise(frame, id_cols)
    if len(known) < len(codes):
        repeated = known[int(np.bincount(codes).argmax())]
        raise _error(f"more than one row for series {repeated!r}; keep one")
    row_of = {name: row for row, name in enumerate(known)}
    if absent := [name for name in ids if name not in row_of]:
        reason = f"no row for {len(absent)} of {len(ids)} series, {listing(absent, 3)}"
        raise _error(f"{reason}; the ids of the table are {listing(known, 3)}")
    rows = [row_of[name] for name in ids]
    encoded, names, found = [], [], {}
    for name in categories or [column for column in frame.columns if column not in id_cols]:
        if name not in frame.columns:
            raise missing_column(name, "static", frame.columns)
        column = frame[name]
        if count := int(column.null_count()):
            raise _error(f"column {name!r} has {count} empty cells; fill or drop them")
        earlier = tuple((categories or {}).get(name, ()))
        if not earlier and (categories or not _is_category(column)):
            encoded.append(numbers(column, "static")[rows][:, None])
            names.append(name)
            found[name] = ()
            continue
        cells = [column.to_list()[row] for row in rows]
        kinds = earlier or tuple(sorted(set(cells), key=str))
        if unknown := [cell for cell in cells if cell not in kinds]:
            rule = f"which is not among the categories of the first table: {listing(kinds)}"
            raise _error(f"column {name!r} holds {unknown[0]!r}, {rule}")
        encoded.append(np.array([[cell == kind for kind in kinds] for cell in cells], np.float64))
        names += [f"{name}={kind}" for kind in kinds]
        found[name] = kinds
    return np.concatenate([*encoded, np.zeros((len(rows), 0))], axis=1), tuple(names), found


def _error(reason: str) -> FighterError:
    return FighterError(reason, argument="static")


def _is_category(column: nw.Series) -> bool:
    dtype = column.dtype
    if isinstance(dtype, nw.Object):
        return any(isinstance(cell, str) for cell in column.to_list())
    return isinstance(dtype, nw.String | nw.Categorical | nw.Enum)
