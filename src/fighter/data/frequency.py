"""The frequency of a time axis: its alias, its grid, its natural periods and its calendar.

A time axis is an ``int64`` array: nanoseconds since 1970-01-01 for time stamps, the integers
themselves for an integer axis. No table library is needed here.
"""

import re
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ..errors import FighterError

SECOND = 10**9
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
WEEK = 7 * DAY

_CLOCK = {"ns": 1, "us": 10**3, "ms": 10**6, "s": SECOND, "min": MINUTE, "h": HOUR}
_FIXED = {**_CLOCK, "D": DAY, "W": WEEK}
_WORDS = {"week": WEEK, "day": DAY, "hour": HOUR, "minute": MINUTE, "second": SECOND}
_MONTHS = {"MS": 1, "ME": 1, "QS": 3, "QE": 3, "YS": 12, "YE": 12}
_ENOUGH_ROWS = 500_000
# Other common spellings, among them those that pandas has retired.
_SPELLINGS = {
    "N": "ns", "U": "us", "L": "ms", "S": "s", "sec": "s", "T": "min", "m": "min", "H": "h",
    "d": "D", "w": "W", "M": "ME", "BMS": "MS", "BME": "ME", "Q": "QE", "BQS": "QS", "BQE": "QE",
    "A": "YE", "AS": "YS", "Y": "YE", "BYS": "YS", "BYE": "YE", "C": "B",
}  # fmt: skip


@dataclass(frozen=True)
class Frequency:
    """One step of a time axis.

    ``Frequency.parse("10min")``, ``Frequency.parse("MS")``, ``Frequency.parse(1)`` or
    ``Frequency.infer(times)``; ``str(frequency)`` is an alias that ``parse`` reads back.

    A step is ``count`` units. A unit is an integer step, a nanosecond, a month (``end``: the stamps
    are the last days of their months) or a weekday (Monday to Friday).
    """

    unit: Literal["integer", "ns", "month", "weekday"]
    count: int
    end: bool = False

    @classmethod
    def parse(cls, alias: "str | int | Frequency") -> "Frequency":
        """Read ``"10min"``, ``"h"``, ``"W-SUN"``, ``"MS"``, ``"B"`` or an integer step."""
        if isinstance(alias, Frequency):
            return alias
        if isinstance(alias, int | np.integer) and not isinstance(alias, bool) and alias > 0:
            return cls("integer", int(alias))
        # An anchor such as -SUN or -JAN is ignored: the stamps of the data say where the grid lies.
        match = re.fullmatch(r"(\d*)\s*([A-Za-z]*)(-[A-Z]{3})?", str(alias).strip())
        count, name = (match[1], match[2]) if match else ("", "")
        number = int(count) if count else 1
        name = _SPELLINGS.get(name, name)
        if number > 0:
            if count and not name:
                return cls("integer", number)
            if name in _FIXED:
                return cls("ns", number * _FIXED[name])
            if name in _MONTHS:
                return cls("month", number * _MONTHS[name], end=name.endswith("E"))
            if name == "B":
                return cls("weekday", number)
        units = ", ".join([*_FIXED, *_MONTHS, "B"])
        needed = f"a number and one of {units}, for example '15min'"
        reason = f"needs {needed}; or an integer step such as 1 for an integer time axis"
        raise FighterError(reason, argument="freq", value=alias)

    def __str__(self) -> str:
        sizes = {"integer": {"": 1}, "weekday": {"B": 1}, "ns": _FIXED, "month": _MONTHS}[self.unit]
        if self.unit == "month":
            sizes = {name: size for name, size in sizes.items() if name[1] == "SE"[self.end]}
        size, name = max((size, name) for name, size in sizes.items() if self.count % size == 0)
        number = self.count // size
        return f"{number}{name}" if number > 1 or not name else name

    def range(self, start: int, n: int, first: int = 0) -> np.ndarray:
        """List ``n`` stamps, the first one ``first`` steps after ``start``: ``int64 [n]``."""
        steps = np.arange(first, first + n, dtype=np.int64)
        if self.unit in ("integer", "ns"):
            return start + steps * self.count
        day, clock = divmod(start, DAY)
        origin = np.datetime64(int(day), "D")
        if self.unit == "weekday":
            days = np.busday_offset(origin, steps * self.count, roll="forward")
            return days.astype(np.int64) * DAY + clock
        months = origin.astype("M8[M]") + (steps * self.count).astype("m8[M]")
        first_days, next_days = months.astype("M8[D]"), (months + 1).astype("M8[D]")
        # A month-end frequency over stamps that are not month ends keeps their day of the month.
        month_day = 31 if self.end and _is_month_end(origin) else _month_day(origin)
        days = np.minimum(first_days + month_day, next_days) - 1
        return days.astype(np.int64) * DAY + clock

    def future(self, last: int, n: int) -> np.ndarray:
        """List the ``n`` stamps after ``last``: ``int64 [n]``."""
        return self.range(int(last), n + 1)[1:]

    def start(self, times: np.ndarray) -> int:
        """Find the start of the grid: the first stamp, moved back to the most common phase."""
        first = int(times.min())
        if self.unit in ("month", "weekday") or np.all((times - first) % self.count == 0):
            return first
        phases, counts = np.unique(times % self.count, return_counts=True)
        return first - (first - int(phases[counts.argmax()])) % self.count

    def positions(self, times: np.ndarray, start: int) -> np.ndarray:
        """Find the slot of every stamp on the grid that begins at ``start``: ``int64``."""
        if self.unit in ("integer", "ns"):
            slots, rest = np.divmod(times - start, self.count)
            off = rest != 0
        else:
            days = times.astype("M8[ns]").astype("M8[D]")
            first = np.datetime64(int(start // DAY), "D")
            if self.unit == "weekday":
                slots = np.busday_count(first, days).astype(np.int64) // self.count
            else:
                months = days.astype("M8[M]") - first.astype("M8[M]")
                slots = months.astype(np.int64) // self.count
            grid = self.range(start, int(slots.max(initial=0)) + 1)
            off = (slots < 0) | (grid[np.maximum(slots, 0)] != times)
        if off.any():
            wrong = ", ".join(map(self.show, np.unique(times[off])[:3]))
            what = f"{off.sum()} of {times.size} time stamps do not fall on the grid that begins at"
            remedy = "pass the frequency of the data, or round the stamps"
            reason = f"{what} {self.show(start)}, the first of them {wrong}; {remedy}"
            raise FighterError(reason, argument="freq", value=str(self))
        return slots

    def show(self, time: int) -> str:
        """Write a stamp for people: ``2020-05-12 06:00``."""
        if self.unit == "integer":
            return str(int(time))
        text = str(np.datetime64(int(time), "ns")).replace("T", " ").rstrip("0").rstrip(".")
        return text.removesuffix(" 00:00:00").removesuffix(":00") if len(text) == 19 else text

    def span(self, steps: int) -> str:
        """Write the length of some steps in words: ``"24 hours"``."""
        if self.unit == "ns":
            length = steps * self.count
            for name, unit in _WORDS.items():
                if length % unit == 0 and (length >= 2 * unit or length == unit):
                    return plural(length // unit, name)
            return f"{length / SECOND:g} seconds"
        size, name = (1, "step") if self.unit == "integer" else (self.count, self.unit)
        return plural(steps * size, name)

    @classmethod
    def infer(
        cls, times: np.ndarray, series: np.ndarray | None = None, integer: bool = False
    ) -> "Frequency":
        """Infer the frequency of ``times``, in any order; ``series`` numbers the series of each.

        It is the most common difference within a series, so that a few missing or repeated stamps
        do not matter. Months, quarters, years and weekdays are recognised by the calendar.
        """
        steps = _differences(times, series)
        remedy = "pass a frequency such as 'h'"
        if steps.size == 0:
            reason = f"no series has two different time stamps ({times.size} in all); {remedy}"
            raise FighterError(f"cannot be inferred because {reason}", argument="freq")
        lengths, counts = steps[:1], np.array([steps.size])
        if (steps != steps[0]).any():
            lengths, counts = np.unique(steps, return_counts=True)
        common = int(lengths[counts.argmax()])
        unit = "integer" if integer else "ns"
        if not integer and common >= DAY and (calendar := _infer_calendar(times, lengths, counts)):
            return calendar
        if 2 * counts.max() >= counts.sum():
            return cls(unit, common)
        order = np.argsort(-counts, kind="stable")[:5]
        seen = ", ".join(f"{cls(unit, int(lengths[i]))} ({counts[i]} times)" for i in order)
        seen += ", …" if counts.size > 5 else ""
        reason = f"no difference between time stamps is common, seen were {seen}; {remedy}"
        raise FighterError(f"cannot be inferred because {reason}", argument="freq")

    @property
    def season(self) -> tuple[int, ...]:
        """Natural periods in steps, the preferred one first; ``()`` if there is none."""
        known = {("weekday", 1): (5,), ("ns", DAY): (7, 365), ("ns", WEEK): (52,)}
        if (self.unit, self.count) in known:
            return known[self.unit, self.count]
        periods, n = {"month": (12,), "ns": (DAY, WEEK)}.get(self.unit, ()), self.count
        return tuple(period // n for period in periods if n < periods[0] and period % n == 0)

    @property
    def calendar_names(self) -> tuple[str, ...]:
        """Names of the columns of :meth:`calendar`."""
        if self.unit == "integer":
            return ()
        year, step = 360 * DAY, self.count * {"ns": 1, "weekday": DAY, "month": 30 * DAY}[self.unit]
        uses = {"time_of_day": step < DAY, "day_of_week": step <= DAY, "day_of_year": step < year}
        return tuple(f"{unit}_{wave}" for unit in uses if uses[unit] for wave in ("sin", "cos"))

    def calendar(self, times: np.ndarray) -> np.ndarray:
        """Compute sine and cosine of the day, the week and the year: ``float64 [T, C]``."""
        years = times.astype("M8[ns]").astype("M8[Y]")
        year_start = years.astype("M8[ns]").astype(np.int64)
        year_end = (years + 1).astype("M8[ns]").astype(np.int64)
        phase = {
            "time_of_day": times % DAY / DAY,
            "day_of_week": (times // DAY + 3) % 7 / 7,  # 1970-01-01 was a Thursday
            "day_of_year": (times - year_start) / (year_end - year_start),
        }
        wave = {"sin": np.sin, "cos": np.cos}
        columns = [wave[name[-3:]](2 * np.pi * phase[name[:-4]]) for name in self.calendar_names]
        return np.stack(columns, axis=-1) if columns else np.zeros((len(times), 0))


def plural(number: int, name: str) -> str:
    """Write a number and a noun: ``1 hour``, ``2 hours``."""
    return f"{number} {name}" if number == 1 else f"{number} {name}s"


def _differences(times: np.ndarray, series: np.ndarray | None) -> np.ndarray:
    """List the positive differences between neighbouring stamps of the same series."""
    if series is None:
        series = np.zeros(times.shape, np.int64)
    steps, same = np.diff(times), np.diff(series) == 0
    if (steps[same] < 0).any() or (np.diff(series) < 0).any():
        # Sorting many rows takes long, and the first series suffice.
        some = np.bincount(series).cumsum() <= _ENOUGH_ROWS
        some[0] = True
        times, series = times[some[series]], series[some[series]]
        order = np.lexsort((times, series))
        steps, same = np.diff(times[order]), np.diff(series[order]) == 0
    return steps[same & (steps > 0)]


def _infer_calendar(times: np.ndarray, lengths: np.ndarray, counts: np.ndarray) -> Frequency | None:
    """Recognise months, quarters, years or weekdays, if all stamps have the same time of day."""
    stamps = np.unique(times)
    if (stamps % DAY != stamps[0] % DAY).any():
        return None
    days = stamps.astype("M8[ns]").astype("M8[D]")
    common = int(lengths[counts.argmax()])
    ends = _is_month_end(days).all()
    if common >= 28 * DAY and (ends or (_month_day(days) == _month_day(days[0])).all()):
        # Steps of 28 to 31 days are one month, so months are counted, not days.
        months = np.rint(lengths / (30.436875 * DAY)).astype(np.int64)
        return Frequency("month", int(np.bincount(months, counts).argmax()), end=bool(ends))
    weekend = (days.astype(np.int64) + 3) % 7 >= 5
    if common == DAY and not weekend.any() and (lengths == 3 * DAY).any():
        return Frequency("weekday", 1)
    return None


def _month_day(days: np.ndarray | np.datetime64) -> np.ndarray:
    return (days - days.astype("M8[M]").astype("M8[D]")).astype(np.int64) + 1


def _is_month_end(days: np.ndarray | np.datetime64) -> np.ndarray:
    return (days + np.timedelta64(1, "D")).astype("M8[M]") != days.astype("M8[M]")
