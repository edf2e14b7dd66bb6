"""Groups of series: those with the same value in an id column or in a static column."""

from typing import TYPE_CHECKING

import numpy as np

from ..errors import FighterError
from .columns import listing

if TYPE_CHECKING:
    from .panel import Panel


def group_codes(panel: "Panel", name: str) -> np.ndarray:
    """Return a number for the group of each series, ``int64 [N]``; equal numbers, one group.

    A series whose category was not among those of training is a group of its own.
    """
    if name in panel.id_cols and len(panel.id_cols) > 1:
        place = panel.id_cols.index(name)
        number: dict[object, int] = {}
        return np.array([number.setdefault(key[place], len(number)) for key in panel.ids])
    if name not in panel.static_categories:
        known = [*(panel.id_cols if len(panel.id_cols) > 1 else ()), *panel.static_categories]
        reason = "needs one of several id columns, or a column of the static table"
        found = f"; here: {listing(known, 5)}" if known else ""
        raise FighterError(reason + found, argument="groups", value=name)
    kinds = panel.static_categories[name]
    if name in panel.static_names:  # a number, or the number of a category from 1
        column = panel.static[:, panel.static_names.index(name)]
        codes = np.unique(column, return_inverse=True)[1]
        unknown = np.flatnonzero(column == 0) if kinds else np.zeros(0, int)
        codes[unknown] = len(column) + unknown
        return codes.astype(np.int64)
    columns = [panel.static_names.index(f"{name}={kind}") for kind in kinds]
    return panel.static[:, columns].argmax(1).astype(np.int64)


def pack(codes: np.ndarray, most: int) -> list[np.ndarray]:
    """Divide series into parts that hold whole groups, as many as ``most`` series allow.

    A larger group is a part by itself.
    """
    order = np.argsort(codes, kind="stable")
    parts, begin, end = [], 0, 0
    for stop in [*np.flatnonzero(np.diff(codes[order])) + 1, len(order)]:
        if stop - begin > most and end > begin:
            parts.append(order[begin:end])
            begin = end
        end = int(stop)
    return [*parts, order[begin:]]


def some_series(count: int, most: int, codes: np.ndarray | None = None) -> np.ndarray:
    """Return about ``most`` series in rising order: evenly spread ones, or whole groups."""
    if codes is None or count <= most:
        return np.unique(np.linspace(0, count - 1, most).astype(int))
    order = np.random.default_rng(0).permutation(np.unique(codes))
    sizes = np.unique(codes, return_counts=True)[1][np.searchsorted(np.unique(codes), order)]
    kept = order[: max(int((sizes.cumsum() <= most).sum()), 1)]
    return np.flatnonzero(np.isin(codes, kept))[:most]
