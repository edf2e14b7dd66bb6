"""Static covariates: one row per series, categories one-hot encoded or, if many, numbered."""

from collections.abc import Mapping, Sequence
from typing import Any

import narwhals as nw
import numpy as np

from ..errors import FighterError, warn_user
from .columns import as_table, factorise, listing, missing_column, numbers, open_frame
from .layout import lift_index

MOST_ONE_HOT = 8  # categories of a column; of more, each has a number, from 1


def encode_static(
    table: Any,
    ids: Sequence,
    id_cols: Sequence[str],
    categories: Mapping[str, tuple] | None = None,
    numbered: Sequence[str] = (),
) -> tuple[np.ndarray, tuple[str, ...], dict[str, tuple]]:
    """Encode static covariates as ``float64 [N, C]``.

    Also return the names of the C columns, and the categories of each column of the table, ``()``
    for a number. ``categories`` are those of an earlier table, which this one then follows, and
    ``numbered`` the columns of it whose categories are numbered; one that it did not have is 0.
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
        place = {kind: i for i, kind in enumerate(kinds, 1)}
        unknown = list(dict.fromkeys(cell for cell in cells if cell not in place))
        if name in numbered or (not earlier and len(kinds) > MOST_ONE_HOT):
            if unknown:
                what = f"column {name!r} of the static table holds {listing(unknown, 3)}"
                warn_user(f"{what}, which training did not; the mean of all categories is taken.")
            encoded.append(np.array([[place.get(cell, 0)] for cell in cells], np.float64))
            names.append(name)
            found[name] = kinds
            continue
        if unknown:
            rule = f"which is not among the categories of the first table: {listing(kinds)}"
            raise _error(f"column {name!r} holds {unknown[0]!r}, {rule}")
        encoded.append(np.array([[cell == kind for kind in kinds] for cell in cells], np.float64))
        names += [f"{name}={kind}" for kind in kinds]
        found[name] = kinds
    return np.concatenate([*encoded, np.zeros((len(rows), 0))], axis=1), tuple(names), found


def join_static(
    parts: Sequence[tuple[np.ndarray, Mapping[str, tuple]]],
) -> tuple[np.ndarray, tuple[str, ...], dict[str, tuple]]:
    """Join the static covariates of different series, ``[N, C]`` each with its categories.

    Returns what :func:`encode_static` returns: the categories of all of them together.
    """
    names, joined, found = [], [], {}
    place = [0] * len(parts)
    for name in parts[0][1]:
        own = [categories[name] for _, categories in parts]
        kinds = tuple(sorted({kind for some in own for kind in some}, key=str))
        columns = []
        for i, (encoded, _) in enumerate(parts):
            width = len(own[i]) or 1
            here = encoded[:, place[i] : place[i] + width]
            place[i] += width
            whole = np.zeros((len(encoded), len(kinds) or 1))
            whole[:, [kinds.index(kind) for kind in own[i]] or [0]] = here
            columns.append(whole)
        joined.append(np.concatenate(columns))
        names += [f"{name}={kind}" for kind in kinds] or [name]
        found[name] = kinds
    rows = sum(len(encoded) for encoded, _ in parts)
    return np.concatenate([*joined, np.zeros((rows, 0))], 1), tuple(names), found


def _error(reason: str) -> FighterError:
    return FighterError(reason, argument="static")


def _is_category(column: nw.Series) -> bool:
    dtype = column.dtype
    if isinstance(dtype, nw.Object):
        return any(isinstance(cell, str) for cell in column.to_list())
    return isinstance(dtype, nw.String | nw.Categorical | nw.Enum)
