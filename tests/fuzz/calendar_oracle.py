"""Time stamps by the calendar, written with Python's datetime alone, to compare Fighter with."""

import calendar
import datetime as dt
from dataclasses import dataclass
from zoneinfo import ZoneInfo

EPOCH = dt.datetime(1970, 1, 1)
ZONES = (
    "UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Sydney", "Asia/Tokyo",
    "America/Los_Angeles",
)  # fmt: skip

# alias, and the length of a step; None where the calendar decides
FIXED = {
    "s": 1, "30s": 30, "min": 60, "5min": 300, "10min": 600, "15min": 900, "30min": 1800,
    "h": 3600, "2h": 7200, "3h": 10800, "6h": 21600, "12h": 43200, "D": 86400, "2D": 2 * 86400,
    "W": 7 * 86400, "2W": 14 * 86400,
}  # fmt: skip
MONTHS = {"MS": 1, "ME": 1, "2MS": 2, "QS": 3, "QE": 3, "YS": 12, "YE": 12}


@dataclass(frozen=True)
class Clock:
    """A regular time axis: a frequency and its first stamp."""

    alias: str
    first: dt.datetime  # naive: UTC for steps below a day in a zone, else the local clock
    zone: str | None = None

    @property
    def daily(self) -> bool:
        """Whether a step is a day or longer."""
        return FIXED.get(self.alias, 86400) >= 86400

    def stamps(self, count: int) -> list[dt.datetime]:
        """Return the first stamps, naive."""
        if self.alias == "B":
            days, day = [], self.first
            while len(days) < count:
                if day.weekday() < 5:
                    days.append(day)
                day += dt.timedelta(days=1)
            return days
        if self.alias in FIXED:
            return [self.first + k * dt.timedelta(seconds=FIXED[self.alias]) for k in range(count)]
        stamps = []
        for k in range(count):
            year, month = divmod(
                self.first.year * 12 + self.first.month - 1 + k * MONTHS[self.alias], 12
            )
            last = calendar.monthrange(year, month + 1)[1]
            day = last if self.alias.endswith("E") else self.first.day
            stamps.append(self.first.replace(year=year, month=month + 1, day=day))
        return stamps

    def aware(self, stamp: dt.datetime) -> dt.datetime:
        """Return a stamp of :meth:`stamps` in its zone; naive if there is none."""
        if self.zone is None:
            return stamp
        if self.daily:
            return stamp.replace(tzinfo=ZoneInfo(self.zone))
        return stamp.replace(tzinfo=dt.UTC).astimezone(ZoneInfo(self.zone))


def nanoseconds(stamp: dt.datetime) -> int:
    """Return nanoseconds from 1970 to a naive stamp."""
    return (stamp - EPOCH) // dt.timedelta(microseconds=1) * 1000


def local(stamp: dt.datetime) -> dt.datetime:
    """Return an aware stamp as its clock on the wall shows it."""
    return stamp.replace(tzinfo=None)


def utc(stamp: dt.datetime) -> dt.datetime:
    """Return an aware stamp in UTC, without a zone."""
    return stamp.astimezone(dt.UTC).replace(tzinfo=None)
