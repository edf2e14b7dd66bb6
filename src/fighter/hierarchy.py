"""Forecasts that add up: sums of the forecasts of the bottom series, on all levels."""

import re
from collections.abc import Sequence
from typing import Any

import narwhals as nw
import numpy as np

from .data.columns import column_name, column_names, factorise, missing_column, open_frame
from .errors import FighterError

_INTERVALS = re.compile(r"-(lo|hi)-[\d.]+$|-q[\d.]+$")


def bottom_up(table: Any, keys: str | Sequence[str], *, time_col: str = "ds") -> Any:
    """Add up the forecasts of the bottom series on every level of a hierarchy.

    .. code-block:: python

        model = Forecaster(horizon=7, id_col=["state", "store", "item"]).fit(sales)
        bottom_up(model.predict(), keys=["state", "store", "item"])

    Every column of point forecasts is added up. That is the forecast of the sum only if they are
    means. Fighter's point forecasts are medians by default, whose sums are too low for items that
    rarely sell: add a column of means, such as the mean of evenly spread quantiles, and use its
    sums. The ends of intervals and quantiles do not add up, because the series are neither
    independent nor all high at the same time: they stay with the bottom series and are empty in
    the sums.

    Args:
        table: a forecast, as ``predict`` or ``cross_validation`` returns it: the key columns, the
            time column and columns of numbers. Rows are also told apart by columns that hold no
            numbers, such as ``cutoff``.
        keys: id columns, from the top of the hierarchy to its bottom.
        time_col: column with the time stamps (default: "ds").

    Returns:
        The table with a column ``level``, which is "total", "state", "state/store" and so on. Keys
        below the level of a row are empty.
    """
    keys, time_col = column_names(keys, "keys"), column_name(time_col, "time_col")
    frame = _open(table, keys, time_col)
    rest = [name for name in frame.columns if name not in (*keys, time_col)]
    values = [name for name in rest if frame[name].dtype.is_numeric()]
    when = (time_col, *(name for name in rest if name not in values))
    times, steps = factorise(frame, when)
    _check_complete(frame, keys, steps)
    parts = []
    for depth in range(len(keys) + 1):
        above, below = keys[:depth], keys[depth:]
        nodes = factorise(frame, above)[1] if above else np.zeros(len(frame), np.int64)
        slots, first, places = np.unique(
            nodes * len(times) + steps, return_index=True, return_inverse=True
        )
        part = frame[first.tolist()].select(*above, *when, *values)
        if below:
            part = part.drop([name for name in values if _INTERVALS.search(name)])
            sums = [name for name in values if name in part.columns]
            cells = {name: np.zeros(len(slots)) for name in sums}
            for name, cell in cells.items():
                np.add.at(cell, places, frame[name].cast(nw.Float64()).to_numpy())
            backend = frame.implementation
            columns = (nw.Series.from_numpy(n, cell, backend=backend) for n, cell in cells.items())
            part = part.with_columns(*(column.fill_nan(None) for column in columns))
        level = "/".join(above) or "total"
        parts.append(part.with_columns(nw.lit(level).alias("level")))
    whole = nw.concat(parts, how="diagonal")
    whole = nw.maybe_reset_index(whole)  # of pandas, each level has its own
    return whole.select("level", *keys, *when, *values).to_native()


def _open(table: Any, keys: Sequence[str], time_col: str) -> nw.DataFrame:
    """Open a forecast and check its columns."""
    frame, _ = open_frame(table, "table")
    if not keys:
        raise FighterError("needs the id columns, from top to bottom", argument="keys", value=keys)
    for name, argument in (*((key, "keys") for key in keys), (time_col, "time_col")):
        if name not in frame.columns:
            raise missing_column(name, argument, frame.columns)
    if "level" in frame.columns:
        reason = "has a column 'level' already, which the result needs; rename it"
        raise FighterError(reason, argument="table")
    whole = [key for key in keys if frame[key].dtype.is_integer()]
    if whole and frame.implementation.is_pandas():  # so that empty keys do not make floats of them
        return nw.from_native(frame.to_native().astype(dict.fromkeys(whole, "Int64")))
    return frame


def _check_complete(frame: nw.DataFrame, keys: Sequence[str], steps: np.ndarray) -> None:
    """Refuse a forecast in which a series lacks a time that others have, or has it twice."""
    ids, codes = factorise(frame, keys)
    counts = np.bincount(codes * (steps.max() + 1) + steps, minlength=len(ids) * (steps.max() + 1))
    if (counts == 1).all():
        return
    place = int((counts != 1).argmax())
    name, step = ids[place // (steps.max() + 1)], place % (steps.max() + 1)
    row = int((steps == step).argmax())
    time = frame.select(nw.exclude(*keys))[row, 0]
    if counts[place]:
        reason = f"series {name} has {counts[place]} rows at {time}; keep one, or name all keys"
    else:
        reason = f"series {name} has no row at {time}, where {ids[codes[row]]} has one: forecasts "
        reason += "add up if all begin at the same time; leave out series that ended earlier, or "
        reason += "give them rows with an empty target up to the end of the table"
    raise FighterError(reason, argument="table")
