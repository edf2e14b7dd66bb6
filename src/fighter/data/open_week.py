"""The open steps of a week, such as trading hours: no other step is on the time grid."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

MINUTE = 60 * 10**9
DAY = 24 * 60 * MINUTE
WEEK = 7 * DAY

_MONDAY = 4 * DAY  # 1970-01-05
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_RARE = 0.05  # an hour that is seen less often is closed; also the share of rows that may be
_RARE_DAY = 0.3  # a day of the week that is seen less often than this share of the others is closed
_FILLED = 0.7  # mean share in which the open steps must be seen
_SURE = 7  # rows lost by chance leave out a day with a probability below exp(-7) (Hoeffding)
_FEW_WEEKS, _FEW_DATES = 6, 10  # fewer do not show that a day or an hour is closed
_RECENT = 4 * WEEK


@dataclass(frozen=True)
class OpenWeek:
    """The steps of a week that are open, numbered from Monday 00:00.

    ``str(week)`` is a text such as ``Mon-Fri 09:30-15:55; Sat 10:00-12:55`` (of the first to the
    last step) that :meth:`parse` reads back.
    """

    step: int  # nanoseconds; a day has a whole number of steps
    slots: tuple[int, ...]

    @classmethod
    def parse(cls, text: str, step: int) -> "OpenWeek | None":
        """Read a text such as ``Mon-Thu,Sun 09:00-12:00 13:00-17:00``; None if it is not one."""
        if step < MINUTE or DAY % step:
            return None
        is_open = np.zeros((7, DAY // step), bool)
        for part in text.split(";"):
            names, *hours = part.split() or [""]
            for days in names.split(","):
                first, _, last = days.partition("-")
                if first not in DAYS or (last or first) not in DAYS:
                    return None
                ends = DAYS.index(first), DAYS.index(last or first)
                chosen = slice(ends[0], ends[1] + 1)
                if not hours:
                    is_open[chosen] = True
                for run in hours:
                    match = re.fullmatch(r"(\d\d):(\d\d)(?:-(\d\d):(\d\d))?", run)
                    if not match:
                        return None
                    opens = int(match[1]) * 60 + int(match[2])
                    closes = int(match[3]) * 60 + int(match[4]) if match[3] else opens
                    is_open[chosen, -(-opens * MINUTE // step) : closes * MINUTE // step + 1] = True
        slots = np.flatnonzero(is_open)
        return cls(step, tuple(slots.tolist())) if slots.size else None

    def __str__(self) -> str:
        texts = [self._hours(day) for day in self._table]
        parts = []
        for text in dict.fromkeys(text for text in texts if text is not None):
            days = np.flatnonzero([other == text for other in texts])
            parts.append(",".join(_runs(days, DAYS.__getitem__)) + (text and f" {text}"))
        return "; ".join(parts)

    def _hours(self, day: np.ndarray) -> str | None:
        """Write the open hours of a day: None if it is closed, empty if it is open all day."""
        if day.all() or not day.any():
            return "" if day.all() else None

        def clock(slot: int) -> str:
            minutes = slot * self.step // MINUTE
            return f"{minutes // 60:02d}:{minutes % 60:02d}"

        return " ".join(_runs(np.flatnonzero(day), clock))

    @cached_property
    def _table(self) -> np.ndarray:
        """Tell whether a step is open: ``bool [7, steps of a day]``."""
        table = np.zeros(WEEK // self.step, bool)
        table[list(self.slots)] = True
        return table.reshape(7, -1)

    @cached_property
    def _ranks(self) -> np.ndarray:
        """The number of open steps of the week before each step."""
        return np.cumsum(self._table.ravel()) - self._table.ravel()

    @property
    def season(self) -> tuple[int, ...]:
        """The open steps of a day, if every open day has as many, and of a week."""
        day = self._table.sum(axis=1)
        day = day[day > 0]
        daily = (int(day[0]),) if day[0] > 1 and (day == day[0]).all() else ()
        return daily + ((len(self.slots),) if len(self.slots) not in (1, *daily) else ())

    @property
    def night(self) -> bool:
        """Tell whether a step from midnight to four o'clock is open, when clocks change."""
        return bool(self._table[:, : -(-4 * 60 * MINUTE // self.step)].any())

    def is_open(self, times: np.ndarray) -> np.ndarray:
        """Tell whether the step of each stamp is open: ``bool``."""
        return self._table.ravel()[(times - _MONDAY) // self.step % (WEEK // self.step)]

    def numbers(self, times: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the number of the open step of each stamp, whether it is open, and its phase.

        The number of a closed step is that of the next open one.
        """
        steps, phases = np.divmod(times - _MONDAY, self.step)
        weeks, slots = np.divmod(steps, WEEK // self.step)
        numbers = weeks * len(self.slots) + self._ranks[slots]
        return numbers, self._table.ravel()[slots], phases

    def times(self, numbers: np.ndarray) -> np.ndarray:
        """Return the stamps of open steps: the inverse of :meth:`numbers`, at full steps."""
        weeks, ranks = np.divmod(numbers, len(self.slots))
        return _MONDAY + (weeks * (WEEK // self.step) + np.array(self.slots)[ranks]) * self.step

    @classmethod
    def infer(cls, times: np.ndarray, series: np.ndarray | None, step: int) -> "OpenWeek | None":
        """Find the steps of the week that are closed; None if there is no strong evidence of any.

        A closed day is seen in less than 30 % of the weeks in which the other days are, a closed
        hour in less than 5 %, and neither lately; ``series`` numbers the series of each stamp, none
        of which may have a tenth of its rows in closed steps.
        """
        if step < MINUTE or DAY % step:
            return None
        per_week = WEEK // step
        counts = np.bincount((times - _MONDAY) // step % per_week, minlength=per_week)
        if counts.min() > _RARE_DAY * counts.max():
            return None
        stamps = np.unique(times)
        steps = (stamps - _MONDAY) // step
        per_day = DAY // step
        weekends = 1 if step == DAY else 2
        is_open = _open_days(steps, per_day, weekends)[:, None] & np.ones((7, per_day), bool)
        if step < DAY:
            whole_days = is_open.any(axis=1)
            is_open = _open_hours(steps, is_open)
            if not is_open[whole_days].all():  # with opening hours, one weekend shows enough
                is_open &= _open_days(steps, per_day, weekends=1)[:, None]
        closed = ~is_open.ravel()[steps % per_week]
        late = stamps > stamps[-1] - _RECENT
        few = max(2, _RARE * late.sum())
        if is_open.all() or closed.mean() > _RARE or (closed & late).sum() > few:
            return None
        week = cls(step, tuple(np.flatnonzero(is_open).tolist()))
        if series is not None and closed.any():
            rows = np.bincount(series, ~week.is_open(times))
            return None if (rows > 0.1 * np.bincount(series)).any() else week
        return week


WEEKDAYS = OpenWeek(DAY, (0, 1, 2, 3, 4))


def _open_days(steps: np.ndarray, per_day: int, weekends: int) -> np.ndarray:
    """Find the days of the week that are open: ``bool [7]``; all without strong evidence.

    So many closed ``weekends`` are enough if all other days of the week are open.
    """
    dates = np.unique(steps // per_day)
    seen = np.bincount(dates % 7, minlength=7)
    weeks = np.unique(dates // 7).size
    within = np.isin(dates[dates % 7 == 4] + 3, dates).sum()  # between a Friday and a Monday
    is_open = seen > _RARE_DAY * seen.max()
    usual = weeks < _FEW_WEEKS or is_open[:5].all()
    if usual and within >= weekends and seen[5:].max() <= _RARE_DAY * within:
        return np.arange(7) < 5
    share = seen / weeks
    filled = share[is_open].mean()
    gap = filled - share[~is_open].max(initial=0)
    if weeks < _FEW_WEEKS or filled < _FILLED or 2 * weeks * gap**2 < _SURE:
        return np.ones(7, bool)
    return is_open


def _open_hours(steps: np.ndarray, is_open: np.ndarray) -> np.ndarray:
    """Close the hours of the day, or of single days of the week, that are hardly ever seen."""
    per_day = is_open.shape[1]
    days, clock = np.divmod(steps, per_day)
    dates = np.unique(days)
    dates = np.bincount(dates % 7, minlength=7) * is_open.any(axis=1)
    seen = np.bincount(days % 7 * per_day + clock, minlength=is_open.size).reshape(is_open.shape)
    seen = seen * is_open
    if dates.sum() < _FEW_DATES:
        return is_open
    hours = is_open & (seen.sum(axis=0) > _RARE * dates.sum())
    if dates.max() >= _FEW_WEEKS:
        hours &= seen > _RARE * dates[:, None]
    filled = seen[hours].sum() >= _FILLED * (hours * dates[:, None]).sum()
    return hours if filled and hours.any() else is_open


def _runs(numbers: np.ndarray, name: Callable[[int], str]) -> list[str]:
    """Write runs of neighbouring numbers as ``first-last``."""
    parts = np.split(numbers, np.flatnonzero(np.diff(numbers) > 1) + 1)
    return [
        name(int(part[0])) + (f"-{name(int(part[-1]))}" if part.size > 1 else "") for part in parts
    ]
