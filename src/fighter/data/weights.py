"""Weights of series: how much each counts in training and in the score of a table."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import narwhals as nw
import numpy as np

from ..errors import FighterError
from .columns import as_table, factorise, listing, missing_column, numbers, open_frame
from .layout import lift_index
from .panel import Panel

_REMEDY = "give each series one, 0 to leave it out of the loss"


def without_weights(static: Any, weights: Any, id_cols: Sequence[str]) -> Any:
    """Return the static table without the column that ``weights`` names.

    None if only the id columns are left; ``weights`` of another form change nothing.
    """
    if not isinstance(weights, str) or static is None:
        return static
    frame, _ = _open(static, "static", id_cols)
    if weights not in frame.columns:
        raise missing_column(weights, "weights", frame.columns)
    rest = frame.drop(weights)
    return rest.to_native() if len(rest.columns) > len(id_cols) else None


def with_weights(panel: Panel, weights: Any, static: Any = None, remedy: str = _REMEDY) -> Panel:
    """Return the panel with a weight for each series; None leaves it as it is.

    Args:
        panel: the panel.
        weights: a mapping from id to weight, a table with the id columns and one more, a pandas
            series with the ids in its index, or the name of a column of ``static``.
        static: the static table (default: none).
        remedy: what to do about series without a weight (default: give them one).
    """
    if weights is None:
        return panel
    if isinstance(weights, str):
        if static is None:
            reason = "names a column of the static table: pass static= too, or a weight for each id"
            raise FighterError(reason, argument="weights", value=weights)
        frame, _ = _open(static, "static", panel.id_cols)
        weights = frame.select(*panel.id_cols, weights)
    given = _by_id(weights, panel.id_cols)
    if absent := [name for name in panel.ids if name not in given]:
        what = f"no weight for {len(absent)} of {panel.n_series} series, {listing(absent, 3)}"
        raise _error(f"{what}; {remedy}")
    values = np.array([given[name] for name in panel.ids], np.float64)
    wrong = ~(np.isfinite(values) & (values >= 0))
    if wrong.any():
        place = int(wrong.argmax())
        which = f"series {panel.ids[place]!r} has the weight {values[place]:g}"
        raise _error(f"{which}; needs a number of 0 or more")
    if not values.any():
        raise _error("every series has the weight 0; needs at least one above 0")
    return replace(panel, weights=values)


def _by_id(weights: Any, id_cols: Sequence[str]) -> Mapping[Any, Any]:
    """Return the weights as a mapping from id to weight."""
    if isinstance(weights, Mapping) and not all(hasattr(w, "__len__") for w in weights.values()):
        return {name: _number(name, weight) for name, weight in weights.items()}
    if nw.dependencies.is_pandas_series(weights):
        return {name: _number(name, weight) for name, weight in weights.items()}
    frame, _ = _open(weights, "weights", id_cols)
    if absent := [name for name in id_cols if name not in frame.columns]:
        raise missing_column(absent[0], "id_col", frame.columns)
    others = [name for name in frame.columns if name not in id_cols]
    if len(others) != 1:
        have = listing(others) or "none"
        raise _error(f"the table needs one column beside {listing(id_cols)}; it has {have}")
    ids, codes = factorise(frame, id_cols)
    if len(ids) < len(codes):
        repeated = ids[int(np.bincount(codes).argmax())]
        raise _error(f"more than one row for series {repeated!r}; keep one")
    return dict(zip(ids, numbers(frame[others[0]], "weights").tolist(), strict=True))


def _open(table: Any, argument: str, id_cols: Sequence[str]) -> tuple[nw.DataFrame, Any]:
    if isinstance(table, nw.DataFrame):
        return table, {}
    return open_frame(lift_index(as_table(table, argument), id_cols, ""), argument)


def _number(name: Any, weight: Any) -> float:
    try:
        return float(weight)
    except (TypeError, ValueError):
        raise _error(f"series {name!r} has the weight {weight!r}; needs a number") from None


def _error(reason: str) -> FighterError:
    return FighterError(reason, argument="weights")
