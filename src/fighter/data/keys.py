"""Recognise what a table does not say: the id columns of a long table, and columns about time."""

import re
from collections.abc import Callable, Sequence
from itertools import combinations

import narwhals as nw
import numpy as np

from .columns import ODD_TYPES, factorise, numbers

_MOST_KEYS = 3  # id columns that are looked for together
_COUNTERS = ("index", "id", "idx", "row", "rowid", "rownumber", "no", "nr")
_HOURS = ("hour", "hr", "hourofday", "time", "timeofday")
_MONTHS = ("month", "mon", "mo")
_WEEKS = ("week", "weekofyear", "isoweek", "weeknumber")
_Clock = np.ndarray  # datetime64[s] [rows], on the local clock


def distinct_rows(frame: nw.DataFrame, slots: np.ndarray) -> np.ndarray:
    """Find the rows that are not copies of an earlier row of their slot, ``int64 [rows]``.

    Columns of odd types do not count.
    """
    names = [name for name, kind in frame.schema.items() if not isinstance(kind, ODD_TYPES)]
    slot = nw.Series.from_numpy("__slot", slots, backend=frame.implementation)
    numbered = frame.select(names).with_columns(slot) if names else slot.to_frame()
    kept = numbered.with_row_index("__row").unique(
        [*names, "__slot"], keep="first", maintain_order=True
    )
    return kept["__row"].to_numpy().astype(np.int64)


def find_keys(
    frame: nw.DataFrame, names: Sequence[str], slots: np.ndarray
) -> list[tuple[str, ...]]:
    """Find the smallest sets of columns whose values, with the slot of a row, occur only once.

    ``slots`` numbers the time stamps (and known series) of the rows. Sets that divide the rows
    into the same series count once. A set is sensible if its series are few and meet at most time
    stamps; if one set fills the table of series and slots and others do not, it is the only one.
    """
    columns = {}
    for name in names:
        if may_be_id(frame[name]):
            ids, codes = factorise(frame, [name])
            if 1 < len(ids) <= len(frame) // 2:
                columns[name] = codes
    counts = np.bincount(slots)
    together = int(counts.max())
    busiest = slots == counts.argmax()
    for size in range(1, _MOST_KEYS + 1):
        found: dict[bytes, tuple[tuple[str, ...], float]] = {}
        for key in combinations(columns, size):
            series = _combine([columns[name] for name in key], busiest, together)
            if series is None or (count := int(series.max()) + 1) > 3 * together:
                continue
            if len(np.unique(slots * count + series)) == len(slots):
                filled = len(slots) / (count * (counts > 0).sum())
                found.setdefault(series.tobytes(), (key, filled))
        if found:
            full = [key for key, filled in found.values() if filled > 0.9]
            return full if len(full) == 1 else [key for key, _ in found.values()]
    return []


def may_be_id(column: nw.Series) -> bool:
    """Return True for full columns of text or integers."""
    dtype = column.dtype
    text = isinstance(dtype, nw.String | nw.Categorical | nw.Enum)
    return (text or dtype.is_integer()) and column.null_count() == 0


def is_constant(column: nw.Series, series: np.ndarray) -> bool:
    """Return True if every series has one value throughout, as an attribute of it has."""
    if not may_be_id(column) and not column.dtype.is_numeric():
        return False
    codes = (
        np.unique(numbers(column), return_inverse=True)[1]
        if column.dtype.is_numeric()
        else (factorise(column.to_frame(), [column.name])[1])
    )
    return len(np.unique(series * (codes.max() + 1) + codes)) == len(np.unique(series))


def is_redundant(column: nw.Series, clock: _Clock | None) -> bool:
    """Recognise columns that only repeat a part of the time stamp, or count the rows."""
    name = _plain(column.name)
    counter, part = name in ("", "unnamed0", *_COUNTERS), _PARTS.get(name)
    if not (counter or (part and clock is not None)) or column.null_count() or len(column) < 3:
        return False
    if column.dtype.is_numeric():
        cells = numbers(column)
    else:  # hours such as "07" stay text in a CSV file
        texts = [str(cell) for cell in column.to_list()]
        if not all(text.isdecimal() for text in texts):
            return False
        cells = np.array(texts, np.float64)
    if counter:
        # pandas writes its index without a name, and rows of it may have been dropped
        unnamed = name in ("", "unnamed0") and column.dtype.is_integer()
        steps = np.diff(cells)
        return bool((steps > 0).all() if unnamed else (steps == 1).all())
    values = part(clock) if part and clock is not None else ()
    return any(np.array_equal(cells, other) for other in values)


def is_part_of_time(column: nw.Series, time_col: str) -> bool:
    """Recognise a column that tells the time together with the time column.

    It holds the hours of the day, the weeks or the months of the year beside a column of dates or
    years, or the years beside weeks, months or quarters. The name must say so, and but for years
    all of them must be there; times such as ``07:30`` need the name only.
    """
    name = _plain(column.name)
    texts = {str(cell) for cell in column.unique().to_list()}
    if name in _HOURS and all(re.fullmatch(r"\d{1,2}(:\d\d){1,2}", text) for text in texts):
        return True
    if not all(text.isdecimal() for text in texts):
        return False
    numbers = {int(text) for text in texts}
    if name in ("year", "yr", "isoyear"):
        beside = _plain(time_col) in (*_WEEKS, *_MONTHS, "quarter")
        return beside and min(numbers) >= 1900 and max(numbers) <= 2100
    return (
        (name in _HOURS and numbers in ({*range(24)}, {*range(1, 25)}))
        or (name in _MONTHS and numbers == {*range(1, 13)})
        or (name in _WEEKS and numbers in ({*range(1, 53)}, {*range(1, 54)}))
    )


def _plain(name: str) -> str:
    """Return the letters and digits of a column's name, in lower case."""
    return "".join(letter for letter in name.casefold() if letter.isalnum())


def _combine(columns: list[np.ndarray], busiest: np.ndarray, together: int) -> np.ndarray | None:
    """Return the number of each combination, by appearance; None if one slot has one twice."""
    combined = columns[0]
    for codes in columns[1:]:
        combined = combined * (int(codes.max()) + 1) + codes
    if len(np.unique(combined[busiest])) < together:
        return None
    _, first, codes = np.unique(combined, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[codes]


def _since(clock: _Clock, unit: str, base: str) -> np.ndarray:
    """Count the units that have passed since the last beginning of ``base``."""
    return (clock.astype(f"M8[{unit}]") - clock.astype(f"M8[{base}]")).astype(np.int64)


def _weekdays(clock: _Clock) -> list[np.ndarray]:
    monday = (clock.astype("M8[D]").astype(np.int64) + 3) % 7  # 0 on Mondays
    sunday = (monday + 1) % 7
    return [monday, monday + 1, sunday, sunday + 1]


def _week(clock: _Clock) -> list[np.ndarray]:
    days = clock.astype("M8[D]")
    thursday = days - (days.astype(np.int64) + 3) % 7 + 3  # its year is that of the week
    return [_since(thursday, "D", "Y") // 7 + 1]


def _month(clock: _Clock) -> np.ndarray:
    return clock.astype("M8[M]").astype(np.int64) % 12 + 1


_PARTS: dict[str, Callable[[_Clock], list[np.ndarray]]] = {
    "year": lambda t: [t.astype("M8[Y]").astype(np.int64) + 1970],
    "quarter": lambda t: [(_month(t) + 2) // 3],
    "month": lambda t: [_month(t)],
    "week": _week,
    "day": lambda t: [_since(t, "D", "M") + 1],
    "dayofyear": lambda t: [_since(t, "D", "Y") + 1],
    "dayofweek": _weekdays,
    "isweekend": lambda t: [(_weekdays(t)[0] >= 5).astype(np.int64)],
    "hour": lambda t: [_since(t, "h", "D")],
    "minute": lambda t: [_since(t, "m", "h")],
    "second": lambda t: [_since(t, "s", "m")],
}
_PARTS |= {
    other: _PARTS[name]
    for name, others in {
        "year": ("yr",),
        "month": ("mon", "mo", "monthofyear"),
        "week": ("weekofyear", "isoweek", "weeknumber"),
        "day": ("dayofmonth", "dom", "mday"),
        "dayofyear": ("doy", "yday"),
        "dayofweek": ("dow", "weekday", "wday"),
        "isweekend": ("weekend",),
        "hour": ("hr", "hourofday"),
    }.items()
    for other in others
}  # fmt: skip
