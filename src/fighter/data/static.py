"""Static covariates: one row for each series, categories one-hot encoded."""

from collections.abc import Mapping, Sequence
from typing import Any

import narwhals as nw
import numpy as np

from ..errors import FighterError
from .columns import factorise, listing, missing_column, numbers, open_table


def encode_static(
    table: Any, ids: Sequence, id_col: str, categories: Mapping[str, tuple] | None = None
) -> tuple[np.ndarray, tuple[str, ...], dict[str, tuple]]:
    """Encode as ``float64 [N, C]``; also give the names of its columns, and the categories."""
    frame, _ = open_table(table)
    if id_col not in frame.columns:
        raise missing_column(id_col, "id", frame.columns)
    known, codes = factorise(frame[id_col])
    if len(known) < len(codes):
        twice = known[int(np.bincount(codes).argmax())]
        raise FighterError(
            f"The static table has more than one row for series {twice!r}; keep one."
        )
    place = {name: row for row, name in enumerate(known)}
    absent = [name for name in ids if name not in place]
    if absent:
        raise FighterError(
            f"The static table has no row for {len(absent)} of {len(ids)} series: "
            f"{listing(absent, 3)}. Its ids are {listing(known, 3)}."
        )
    rows = [place[name] for name in ids]
    encoded, names, found = [], [], {}
    for name in categories or [column for column in frame.columns if column != id_col]:
        if name not in frame.columns:
            raise missing_column(name, "static", frame.columns)
        column = frame[name]
        if count := int(column.null_count()):
            raise FighterError(
                f"Static column {name!r} has {count} empty cells; fill or drop them."
            )
        known_kinds = tuple((categories or {}).get(name, ()))
        if not known_kinds and (categories or not _is_category(column)):
            encoded.append(numbers(column)[rows][:, None])
            names.append(name)
            found[name] = ()
            continue
        cells = [column.to_list()[row] for row in rows]
        kinds = known_kinds or tuple(sorted(set(cells), key=str))
        strange = [cell for cell in cells if cell not in kinds]
        if strange:
            raise FighterError(
                f"Static column {name!r} holds {strange[0]!r}, which is not among the categories "
                f"known from before: {listing(kinds)}."
            )
        encoded.append(np.array([[cell == kind for kind in kinds] for cell in cells], np.float64))
        names += [f"{name}={kind}" for kind in kinds]
        found[name] = kinds
    return np.concatenate([*encoded, np.zeros((len(rows), 0))], axis=1), tuple(names), found


def _is_category(column: nw.Series) -> bool:
    dtype = column.dtype
    if isinstance(dtype, nw.Object):
        return any(isinstance(cell, str) for cell in column.to_list())
    return isinstance(dtype, nw.String | nw.Categorical | nw.Enum)
