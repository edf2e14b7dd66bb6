"""The frequency of a time axis: its alias, its grid, its natural periods and its calendar.

A time axis is an ``int64`` array: nanoseconds since 1970-01-01 for time stamps, the integers
themselves for an integer axis. No table library is needed here.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from ..errors import FighterError, check_count
from .open_week import DAY, MINUTE, WEEK, WEEKDAYS, OpenWeek

SECOND = 10**9
HOUR = 60 * MINUTE

_CLOCK = {"ns": 1, "us": 10**3, "ms": 10**6, "s": SECOND, "min": MINUTE, "h": HOUR}
_FIXED = {**_CLOCK, "D": DAY, "W": WEEK}
_WORDS = {"week": WEEK, "day": DAY, "hour": HOUR, "minute": MINUTE, "second": SECOND}
_MONTHS = {"M": 1, "Q": 3, "Y": 12}
_ANCHORS = {"S": "", "E": "end", "BS": "first weekday", "BE": "last weekday"}
LARGEST = 2**62  # of an integer time stamp; a sum of two of them still fits in int64
_DAY, _MONTH = np.timedelta64(1, "D"), np.timedelta64(1, "M")  # numpy 2.5 wants the unit named
_MOST_DAYS = (2**63 - 1) // DAY - 1
_SHIFT = 4 * DAY  # by which a stamp of a week or a month may be off
_ENOUGH_ROWS, _ENOUGH_MONTHS = 500_000, 10_000
_USUAL = 0.8  # share of the stamps that must be where a month frequency has them
# Other common spellings, among them those that pandas has retired.
_SPELLINGS = {
    "N": "ns", "U": "us", "L": "ms", "S": "s", "sec": "s", "T": "min", "m": "min", "H": "h",
    "d": "D", "w": "W", "M": "ME", "BM": "BME", "Q": "QE", "BQ": "BQE", "A": "YE", "AS": "YS",
    "Y": "YE", "BA": "BYE", "BAS": "BYS", "BY": "BYE",
}  # fmt: skip


@dataclass(frozen=True)
class Frequency:
    """One step of a time axis.

    ``Frequency.parse("10min")``, ``Frequency.parse("MS")``, ``Frequency.parse(1)`` or
    ``Frequency.infer(times)``; ``str(frequency)`` is an alias that ``parse`` reads back.

    A step is ``count`` units. A unit is an integer step, a nanosecond, a month or an open step of
    ``week``. ``day`` says where in their months the stamps are: "end", "first weekday", "last
    weekday", a day such as "30" (or the last one of a shorter month), or empty for the day of the
    first stamp. ``given_season`` replaces the natural periods of the frequency; it is not part of
    the alias.
    """

    unit: Literal["integer", "ns", "month", "open"]
    count: int
    day: str = ""
    week: OpenWeek | None = None
    given_season: tuple[int, ...] = ()

    @classmethod
    def parse(cls, alias: "str | int | Frequency") -> "Frequency":
        """Read ``"10min"``, ``"h"``, ``"W-SUN"``, ``"MS"``, ``"B"`` or an integer step.

        ``"h[Mon-Fri 09:00-17:00; Sat 09:00-12:00]"`` has only the steps within the brackets.
        """
        if isinstance(alias, Frequency):
            return alias
        text = str(alias).strip() if isinstance(alias, str | int | np.integer) else ""
        text = "" if isinstance(alias, bool) else text
        # An anchor such as -SUN or -JAN is ignored: the stamps of the data say where the grid lies.
        pattern = r"(\d{0,19})\s*([A-Za-z]*)(?:-[A-Z]{3}|-(29|30))?(?:\[(.*)\])?"
        match = re.fullmatch(pattern, text)
        count, name, day, hours = match.groups() if match else ("", "", None, None)
        step = cls._of(int(count or 1), _SPELLINGS.get(name, name), bool(count), day or "")
        if step and hours is not None:
            week = OpenWeek.parse(hours, step.count) if step.unit == "ns" else None
            step = cls("open", 1, week=week) if week else None
        if step and 0 < step.count <= LARGEST:
            return step
        months = [unit + anchor for unit in _MONTHS for anchor in "SE"]
        units = ", ".join([*_FIXED, *months, "BMS", "BME", "B"])
        needed = f"a number and one of {units}, for example '15min' or 'h[Mon-Fri 09:00-17:00]'"
        reason = f"needs {needed}; or an integer step such as 1 for an integer time axis"
        raise FighterError(reason, argument="freq", value=alias)

    @classmethod
    def _of(cls, number: int, name: str, counted: bool, day: str) -> "Frequency | None":
        """Return the frequency of a number and a unit, None if there is no such unit."""
        if not name and counted:
            return cls("integer", number)
        if name in _FIXED:
            return cls("ns", number * _FIXED[name])
        if name == "B":
            return cls("open", number, week=WEEKDAYS)
        for unit, months in _MONTHS.items():
            business, _, anchor = name.rpartition(unit)
            if name and (business + anchor) in _ANCHORS and business + unit + anchor == name:
                return cls("month", number * months, day or _ANCHORS[business + anchor])
        return None

    def __str__(self) -> str:
        if self.week is not None and self.week != WEEKDAYS:
            return f"{self.every}[{self.week}]"
        sizes = {"integer": {"": 1}, "open": {"B": 1}, "ns": _FIXED, "month": _MONTHS}[self.unit]
        size, name = max((size, name) for name, size in sizes.items() if self.count % size == 0)
        number = self.count // size
        if self.unit == "month":
            anchors = {day: anchor for anchor, day in _ANCHORS.items()}
            anchor = anchors.get(self.day, "S")
            name = anchor[:-1] + name + anchor[-1] + (f"-{self.day}" if self.day.isdigit() else "")
        return f"{number}{name}" if number > 1 or not name else name

    def range(self, start: int, n: int, first: int = 0) -> np.ndarray:
        """List ``n`` stamps, the first one ``first`` steps after ``start``: ``int64 [n]``.

        Stamps before the earliest that can be represented are all the earliest.
        """
        start, steps = int(start), np.arange(first, first + n, dtype=np.int64)
        if self.unit in ("integer", "ns"):
            _check_latest(start + (first + n - 1) * self.count, 2**63 - 1)
            least = -((2**63 + start) // self.count)  # no step before it fits in int64
            return start + np.maximum(steps, max(least, -(2**63))) * self.count
        if self.unit == "open":
            week: OpenWeek = self.week  # pyright: ignore[reportAssignmentType]
            numbers = week.numbers(np.array([start]))[0] + steps * self.count
            per_week = len(week.slots)
            _check_latest(int(numbers[-1:].max(initial=0)) // per_week * 7, _MOST_DAYS - 14)
            numbers = np.maximum(numbers, (14 - _MOST_DAYS) // 7 * per_week)
            return week.times(numbers) + start % week.step
        day, clock = divmod(start, DAY)
        origin = np.datetime64(int(day), "D")
        months = origin.astype("M8[M]") + (steps * self.count).astype("m8[M]")
        first_days, next_days = months.astype("M8[D]"), (months + _MONTH).astype("M8[D]")
        if self.day == "first weekday":
            days = np.busday_offset(first_days, 0, roll="forward")
        elif self.day == "last weekday":
            days = np.busday_offset(next_days, -1, roll="forward")
        else:
            # A month-end frequency over stamps that are not month ends keeps their day.
            month_day = 31 if self.day == "end" and _is_month_end(origin) else _month_day(origin)
            month_day = int(self.day) if self.day.isdigit() else month_day
            days = np.minimum(first_days + month_day * _DAY, next_days) - _DAY
        numbers = days.astype(np.int64)
        _check_latest(int(numbers[-1:].max(initial=0)), _MOST_DAYS)
        return np.maximum(numbers, -_MOST_DAYS) * DAY + clock

    @property
    def every(self) -> "Frequency":
        """The frequency that also has the closed steps."""
        return self if self.week is None else Frequency("ns", self.week.step)

    @property
    def fixed_step(self) -> int | None:
        """The nanoseconds of a step, of closed ones too; None for months and integers."""
        if self.week is not None:
            return self.week.step
        return self.count if self.unit == "ns" else None

    def future(self, last: int, n: int) -> np.ndarray:
        """List the ``n`` stamps after ``last``: ``int64 [n]``."""
        return self.range(int(last), n + 1)[1:]

    def start(self, times: np.ndarray) -> int:
        """Find the start of the grid: the first stamp, moved back to the most common phase."""
        first = int(times.min())
        if self.unit == "month":
            return self._month_start(first, times)
        step = self.week.step if self.week is not None else self.count
        if (_since(first, times) % step).any():
            phases, counts = np.unique(times % step, return_counts=True)
            first -= (first - int(phases[counts.argmax()])) % step
        return first if self.week is None else int(self.range(first, 1)[0])

    def _month_start(self, first: int, times: np.ndarray) -> int:
        """Move the first stamp to the day of the month that most stamps have."""
        some = times[:: max(1, times.size // _ENOUGH_MONTHS)]
        days = np.unique(some).astype("M8[ns]").astype("M8[D]")
        day, clock = divmod(first, DAY)
        month = np.datetime64(day, "D").astype("M8[M]")
        last = (month + _MONTH).astype("M8[D]") - _DAY
        usual = int(np.bincount(_month_day(days)).argmax())
        if self.day == "end" and 2 * _is_month_end(days).sum() > days.size:
            usual = 31
        start = min(month.astype("M8[D]") + (usual - 1) * _DAY, last)
        return int(start.astype(np.int64)) * DAY + clock

    def closed(self, times: np.ndarray) -> np.ndarray:
        """Find the stamps whose step of the week is closed: ``bool``."""
        if self.week is None:
            return np.zeros(times.shape, bool)
        return ~self.week.numbers(times)[1]

    def locate(self, times: np.ndarray, start: int) -> tuple[np.ndarray, np.ndarray]:
        """Find the slot of every stamp on the grid that begins at ``start``, and those off it.

        Of stamps that are off the grid by some days, as a weekly one on a holiday may be, the
        nearest slot is returned, which may be -1.
        """
        if self.unit in ("integer", "ns"):
            slots, rest = np.divmod(_since(start, times), self.count)
            slots, off = slots.astype(np.int64, copy=False), rest != 0
            if off.any() and self._tolerant:
                slots += off & (2 * rest > self.count)
            return slots, off
        if self.unit == "open":
            week: OpenWeek = self.week  # pyright: ignore[reportAssignmentType]
            numbers, is_open, phases = week.numbers(times)
            slots = numbers - week.numbers(np.array([start]))[0]
            off = ~is_open | (phases != start % week.step)
            if self.count > 1:
                slots, rest = np.divmod(slots, self.count)
                off |= rest != 0
            return slots, off
        months = times.astype("M8[ns]").astype("M8[M]").astype(np.int64)
        first = np.datetime64(int(start), "ns").astype("M8[M]").astype(np.int64)
        slots = (months - first) // self.count
        if not slots.size:
            return slots, slots != 0
        least = int(slots.min())
        grid = self.range(start, int(slots.max()) - least + 3, first=least - 1)
        nearest = np.searchsorted((grid[1:] - grid[:-1]) // 2 + grid[:-1], times)
        return nearest + least - 1, grid[nearest] != times

    @property
    def _tolerant(self) -> bool:
        return self.unit == "month" or (self.unit == "ns" and self.count % WEEK == 0)

    def nearby(self, times: np.ndarray, slots: np.ndarray, start: int) -> np.ndarray:
        """Find the stamps of weeks and months that are off their slots by a few whole days."""
        if not self._tolerant or not slots.size:
            return np.zeros(times.shape, bool)
        least = int(slots.min())
        grid = self.range(start, int(slots.max()) - least + 1, first=least)
        shift = np.abs(times - grid[slots - least])
        return (shift <= _SHIFT) & (shift % DAY == 0)

    def positions(self, times: np.ndarray, start: int) -> np.ndarray:
        """Find the slot of every stamp on the grid that begins at ``start``: ``int64``."""
        slots, off = self.locate(times, start)
        off |= slots < 0
        if off.any():
            wrong = ", ".join(self.show(time) for time in np.unique(times[off])[:3])
            raise self.off_grid(int(off.sum()), times.size, start, wrong)
        return slots

    def off_grid(self, count: int, total: int, start: int, which: str) -> FighterError:
        """Return the error for stamps off the grid; ``which`` names the first of them."""
        what = f"{count} of {total} time stamps do" if total > 1 else "the time stamp does"
        where = f"{what} not fall on the grid of {self.show(start)}: {which}"
        remedy = "correct these rows, or pass the frequency of the data"
        if 2 * count > total > 1:
            remedy = (
                "round the stamps, aggregate the rows to a regular step such as days, or leave a"
            )
            remedy += " frequency that was given out"
        return FighterError(f"{where}; {remedy}", argument="freq", value=str(self))

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
        if self.unit == "integer":
            return plural(steps, "step")
        name = "weekday" if self.week == WEEKDAYS else "open step" if self.week else "month"
        return plural(steps * self.count, name)

    @classmethod
    def infer(
        cls, times: np.ndarray, series: np.ndarray | None = None, integer: bool = False
    ) -> "Frequency":
        """Infer the frequency of ``times``, in any order; ``series`` numbers the series of each.

        It is the most common difference within a series, so that a few missing or repeated stamps
        do not matter. Months, quarters, years and weekdays are recognised by the calendar, and
        days and hours that are hardly ever seen are left out.
        """
        steps = stamp_differences(times, series)
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
        gaps = not integer and common < WEEK and lengths.size > 1
        # Rows on Tuesdays and Thursdays are two or five days apart.
        week = OpenWeek.infer(times, series, min(common, DAY)) if gaps else None
        if week is not None and (common <= DAY or week != WEEKDAYS):
            return cls("open", 1, week=week)
        if 2 * counts.max() >= counts.sum():
            return cls(unit, common)
        order = np.argsort(-counts, kind="stable")[:5]
        seen = ", ".join(f"{cls(unit, int(lengths[i]))} ({counts[i]} times)" for i in order)
        seen += ", …" if counts.size > 5 else ""
        reason = f"no difference between time stamps is common, seen were {seen}; {remedy}"
        raise FighterError(f"cannot be inferred because {reason}", argument="freq")

    @property
    def season(self) -> tuple[int, ...]:
        """Given or natural periods in steps, the preferred one first; ``()`` if there is none."""
        if self.given_season:
            return self.given_season
        if self.week is not None:
            return self.week.season if self.count == 1 else ()
        known = {("ns", DAY): (7, 365), ("ns", WEEK): (52,)}
        if (self.unit, self.count) in known:
            return known[self.unit, self.count]
        periods, n = {"month": (12,), "ns": (DAY, WEEK)}.get(self.unit, ()), self.count
        return tuple(period // n for period in periods if n < periods[0] and period % n == 0)

    def with_season(self, season: int | Iterable[int] | None) -> "Frequency":
        """Return this frequency with given season lengths; None changes nothing."""
        lengths = season_lengths(season)
        return replace(self, given_season=lengths) if lengths else self

    @property
    def calendar_names(self) -> tuple[str, ...]:
        """Names of the columns of :meth:`calendar`."""
        if self.unit == "integer":
            return ()
        unit = self.week.step if self.week else {"ns": 1, "month": 30 * DAY}[self.unit]
        year, step = 360 * DAY, self.count * unit
        uses = {"time_of_day": step < DAY, "day_of_week": step <= DAY, "day_of_year": step < year}
        return tuple(f"{unit}_{wave}" for unit in uses if uses[unit] for wave in ("sin", "cos"))

    def calendar(self, times: np.ndarray) -> np.ndarray:
        """Compute sine and cosine of the day, the week and the year: ``float64 [T, C]``."""
        years = times.astype("M8[ns]").astype("M8[Y]")
        year_start = years.astype("M8[ns]").astype(np.int64)
        year_end = (years + np.timedelta64(1, "Y")).astype("M8[ns]").astype(np.int64)
        phase = {
            "time_of_day": times % DAY / DAY,
            "day_of_week": (times // DAY + 3) % 7 / 7,  # 1970-01-01 was a Thursday
            "day_of_year": (times - year_start) / (year_end - year_start),
        }
        wave = {"sin": np.sin, "cos": np.cos}
        columns = [wave[name[-3:]](2 * np.pi * phase[name[:-4]]) for name in self.calendar_names]
        return np.stack(columns, axis=-1) if columns else np.zeros((len(times), 0))


def season_lengths(season: Any) -> tuple[int, ...]:
    """Return one season length or several as a tuple, checked; None is the empty tuple."""
    if season is None:
        return ()
    if isinstance(season, str) or not isinstance(season, Iterable):
        return (check_count("season", season),)
    lengths = tuple(dict.fromkeys(check_count("season", length) for length in season))
    if not lengths:
        reason = "needs at least one whole number of steps; 1 stands for no season"
        raise FighterError(reason, argument="season", value=season)
    return lengths


def plural(number: int, name: str) -> str:
    """Write a number and a noun: ``1 hour``, ``2 hours``."""
    return f"{number} {name}" if number == 1 else f"{number} {name}s"


def stamp_differences(times: np.ndarray, series: np.ndarray | None) -> np.ndarray:
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
    """Recognise months, quarters and years, if all stamps have the same time of day.

    A few stamps may be off, as a month end on a holiday is.
    """
    common = int(lengths[counts.argmax()])
    if common < 28 * DAY:
        return None
    stamps = np.unique(times)
    if (stamps % DAY != stamps[0] % DAY).any():
        return None
    # Steps of 28 to 31 days are one month, so months are counted, not days.
    months = np.rint(lengths / (30.436875 * DAY)).astype(np.int64)
    count = int(np.bincount(months, counts).argmax())
    days = stamps.astype("M8[ns]").astype("M8[D]")
    month_days = _month_day(days)
    usual = int(np.bincount(month_days).argmax())
    first, last = (
        days.astype("M8[M]").astype("M8[D]"),
        (days.astype("M8[M]") + _MONTH).astype("M8[D]"),
    )
    kinds = {
        "end": _is_month_end(days),
        "": month_days == usual,
        str(usual): month_days == np.minimum(usual, _month_day(last - _DAY)),
        "first weekday": days == np.busday_offset(first, 0, roll="forward"),
        "last weekday": days == np.busday_offset(last, -1, roll="forward"),
    }
    if usual < 29:
        del kinds[str(usual)]
    shares = {day: float(match.mean()) for day, match in kinds.items()}
    best = max(shares, key=shares.__getitem__)
    return Frequency("month", count, best) if shares[best] >= _USUAL else None


def _since(start: int, times: np.ndarray) -> np.ndarray:
    """Subtract ``start``; a difference of more than 292 years does not fit in ``int64``."""
    far = times.size > 0 and int(times.max()) - int(start) >= 2**63
    return (times - start).view(np.uint64) if far else times - start


def _check_latest(last: int, latest: int) -> None:
    if last > latest:
        reason = "the forecast would pass the last time stamp that can be represented"
        remedy = "of stamps this is in the year 2262, of integers 2^63; give fewer steps"
        raise FighterError(f"{reason}; {remedy}", argument="horizon")


def _month_day(days: np.ndarray | np.datetime64) -> np.ndarray:
    return (days - days.astype("M8[M]").astype("M8[D]")).astype(np.int64) + 1


def _is_month_end(days: np.ndarray | np.datetime64) -> np.ndarray:
    return (days + _DAY).astype("M8[M]") != days.astype("M8[M]")
