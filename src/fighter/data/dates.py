"""Dates as people write them, converted to nanoseconds since 1970-01-01."""

import re
import warnings
from collections.abc import Sequence
from datetime import UTC, date, datetime

import numpy as np

from ..errors import FighterError
from .columns import check_full
from .frequency import HOUR, SECOND

_EARLIEST, _LATEST = np.datetime64("1678-01-01", "D"), np.datetime64("2262-01-01", "D")
_REMEDY = "write dates as '2024-01-31 12:00', or pass their date_format, such as '%d/%m/%Y'"
_ZONE = re.compile(r"(.*\d)\s*(Z|UTC|[+-]\d\d:?\d\d)")
_TIME = r"(?:[T ,]+(\d{1,2}):(\d{2})(?::(\d{2}(?:\.\d+)?))?(?:\s*([AaPp])\.?[Mm]\.?)?)?"
_NUMBERS = re.compile(r"(\d{1,4})[-/.](\d{1,2})[-/.](\d{1,4})" + _TIME)
_MONTH = r"(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_DAY_MONTH = re.compile(r"(\d{1,2})[-/ .]*" + _MONTH + r"[-/ .,]*(\d{4}|\d\d)" + _TIME, re.I)
_MONTH_DAY = re.compile(_MONTH + r"[-/ .]*(\d{1,2})(?:, *|[-/ .]+)(\d{4}|\d\d)" + _TIME, re.I)
_YEAR_MONTH = re.compile(r"(\d{4})[-/ .]*" + _MONTH + r"[-/ .]*(\d{1,2})" + _TIME, re.I)
_MONTH_YEAR = re.compile(_MONTH + r"(?:[-/ .]*(\d{4})|[-'](\d\d))", re.I)
_YEAR_NAME = re.compile(r"(\d{4})[-/ .]*" + _MONTH, re.I)
_NUMBER_YEAR = re.compile(r"(\d{1,2})[-/.](\d{4})")
_YEAR_NUMBER = re.compile(r"(\d{4})(?:[-/. ]?M|[/.])(\d{1,2})", re.I)
_ISO_WEEK = re.compile(r"(\d{4})-?W(\d\d)(?:-?([1-7]))?")
_BASIC = re.compile(r"(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)?")
_QUARTER = re.compile(r"(\d{4})[- ]?Q([1-4])|Q([1-4])[-/ ]?(\d{4})", re.I)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
# Where year, month and day are in three numbers.
_ORDERS = {"YMD": (0, 1, 2), "DMY": (2, 1, 0), "MDY": (2, 0, 1)}
_EPOCHS = {"s": SECOND, "ms": 10**6, "us": 10**3, "ns": 1}
# Formats of integers by their number of digits: smaller numbers are years or counters.
_DIGITS = {
    6: "%Y%m", 8: "%Y%m%d", 10: "%Y%m%d%H", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S",
}  # fmt: skip
DIGITS = tuple(_DIGITS.values())
_CLOCK = {"H": (24, 3600), "M": (60, 60), "S": (60, 1)}  # how many there are, and their seconds
_SHORT = {"%d%m%Y": (2, 1, 0), "%m%d%Y": (2, 0, 1), "%y%m%d": (0, 1, 2)}  # as in _ORDERS
_MOSTLY = 0.8  # share of integers that must be dates
_SECONDS = (631_152_000, 4_102_444_800)  # 1990 to 2100


class DateError(ValueError):
    """A text that cannot be read: its number among the texts, and what is wrong with it."""

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(reason)
        self.index = index


def nanoseconds(stamps: np.ndarray, name: str) -> np.ndarray:
    """Convert ``datetime64`` stamps of time column ``name`` to ``int64`` nanoseconds."""
    days = stamps.astype("M8[D]")
    check_full(np.isnat(days), "time_col", name, "drop those rows")
    outside = (days < _EARLIEST) | (days > _LATEST)
    if outside.any():
        where = f"{stamps[outside][0]} in row {outside.argmax()}"
        reason = f"{where} is outside the years 1678 to 2261 of time stamps"
        raise time_error(name, f"{reason}; correct it or use an integer time axis")
    return stamps.astype("M8[ns]").astype(np.int64)


def number_encoding(numbers: np.ndarray, name: str) -> str:
    """Tell how integers ``int64`` encode time: a format such as "%Y%m%d", or an epoch's unit.

    Empty if they do not, as counters and years. Raise if they are dates of time column ``name``
    whose format must be given.
    """
    low, high = int(numbers.min()), int(numbers.max())
    if low == high:
        return ""
    usual = str(int(np.median(numbers)))
    encoding = _DIGITS.get(len(usual), "")
    plausible = encoding and 1800 <= int(usual[:4]) < 2200
    if plausible and _read_digits(numbers, encoding)[1].mean() >= _MOSTLY:
        return encoding
    for unit, factor in _EPOCHS.items():
        scale = SECOND // factor
        if _SECONDS[0] * scale <= low and high < _SECONDS[1] * scale:
            return unit
    for date_format, order in _SHORT.items():
        if _is_short_date(numbers, date_format, order):
            reason = f"integers such as {numbers[0]} look like dates; pass the date_format"
            reason += f" {date_format!r}, or an integer frequency such as 1 if they count"
            raise time_error(name, reason)
    if _is_year_week(numbers):
        reason = f"integers such as {numbers[0]} look like year and week; write them as text such "
        reason += f"as '2024-W05', or convert them: pd.to_datetime(df[{name!r}].astype(str) + '1', "
        reason += "format='%G%V%u'); pass an integer frequency such as 1 if they count"
        raise time_error(name, reason)
    return ""


def _is_year_week(numbers: np.ndarray) -> bool:
    """Tell whether integers are year and week, such as 202431, which jump where years end."""
    years, weeks = np.divmod(np.unique(numbers), 100)
    if years[0] < 1900 or years[-1] > 2100 or weeks.min() < 1 or not 12 < weeks.max() <= 53:
        return False
    gaps, ends = np.diff(years * 100 + weeks), np.diff(years) > 0
    return bool(ends.any() and np.median(gaps) < gaps[ends].min())


def _is_short_date(numbers: np.ndarray, date_format: str, order: tuple[int, ...]) -> bool:
    """Tell whether integers are dates of several months such as 31012024 or 240131."""
    digits = 4 if "Y" in date_format else 2
    rest, last = np.divmod(numbers, 10**digits)
    parts = np.stack([rest // 100, rest % 100, last], axis=1)[:, list(order)]
    shortest = 10**6 if digits == 4 else 10**5  # 01012024 is 1012024
    plausible = (parts[:, 0] >= 1800) & (parts[:, 0] < 2200) if digits == 4 else parts[:, 0] < 100
    plausible &= numbers >= shortest
    if plausible.mean() < _MOSTLY:
        return False
    months = parts[:, 0] * 12 + parts[:, 1]
    valid = _days(np.where(plausible[:, None], parts, 1), digits)[1] & plausible
    return valid.mean() >= _MOSTLY and months[valid].min() < months[valid].max()


def decode_numbers(numbers: np.ndarray, encoding: str, name: str) -> np.ndarray:
    """Convert integers in an encoding of :func:`number_encoding` to ``int64`` nanoseconds."""
    if encoding in _EPOCHS:
        return nanoseconds(numbers.astype(f"M8[{encoding}]"), name)
    stamps, valid = _read_digits(numbers, encoding)
    if not valid.all():
        row = int(valid.argmin())
        example = datetime(2024, 1, 31, tzinfo=UTC).strftime(encoding)
        reason = f"{numbers[row]} in row {row} is not a date such as {example}, as the others are"
        remedy = "correct it, or pass an integer frequency such as 1 if the integers count"
        raise time_error(name, f"{reason}; {remedy}")
    return nanoseconds(stamps, name)


def parse_dates(texts: list[str], encoding: str = "") -> tuple[np.ndarray, np.ndarray | None, str]:
    """Read ISO 8601 dates, or dates whose order of day and month is certain: ``datetime64[us]``.

    Stamps with a UTC offset are converted to UTC. Also return their offsets, ``timedelta64[us]`` or
    None, and the encoding, with which later texts are read alike: a format of ``strptime``, "DMY",
    "MDY" or "YMD", or empty for ISO 8601.
    """
    texts = [text.strip() for text in texts]
    if "%" in encoding and encoding not in DIGITS:
        return *_parse_format(texts, encoding), encoding
    shift, zoned = np.zeros(len(texts), np.int64), np.zeros(len(texts), bool)
    for i, text in enumerate(texts):
        # A bare date ends like an offset ("2024-01-31" does not, "2024-01-31-0500" does).
        if (match := _ZONE.fullmatch(text)) and len(match[1]) > 10:
            texts[i], zoned[i] = match[1], True
            if match[2] not in ("Z", "UTC"):
                offset = int(match[2][1:3]) * HOUR + int(match[2][-2:]) * HOUR // 60
                shift[i] = -offset if match[2][0] == "-" else offset
    _check_alike(zoned)
    if len(texts[0]) > 4 and all(text.isdecimal() for text in texts):
        return _parse_digits(texts), None, ""
    try:
        if not all(text[:4].isdigit() or not text for text in texts):
            raise ValueError
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # numpy only warns about dates it parses in part
            stamps = np.array(texts, "M8[us]")
    except (ValueError, UserWarning, DeprecationWarning):
        stamps, encoding = _parse_parts(texts, encoding)
    offsets = shift.astype("m8[ns]").astype("m8[us]")
    return stamps - offsets, offsets if zoned.any() else None, encoding


def _parse_digits(texts: list[str]) -> np.ndarray:
    """Read texts such as ``20240131`` or ``2024013112``: ``datetime64[us]``."""
    encoding = _DIGITS.get(len(texts[0]))
    alike = np.array([len(text) == len(texts[0]) for text in texts])
    if encoding is None or not alike.all():
        odd = int(alike.argmin()) if encoding else 0
        reason = "is not a date such as 20240131; correct it, or write a column of numbers"
        raise DateError(odd, reason)
    stamps, valid = _read_digits(np.array([int(text) for text in texts]), encoding)
    _check_valid(valid)
    return stamps.astype("M8[us]")


def time_error(name: str, reason: str) -> FighterError:
    """Return an error about time column ``name``."""
    return FighterError(reason, argument="time_col", value=name)


def check_format(date_format: str | None) -> str:
    """Return a format of ``strptime``, empty for None; raise if it is not one."""
    if date_format is None:
        return ""
    needed = "a format such as '%d/%m/%y'"
    if not isinstance(date_format, str) or "%" not in date_format:
        raise FighterError(f"needs {needed}", argument="date_format", value=date_format)
    try:
        text = datetime(2024, 1, 31, tzinfo=UTC).strftime(date_format)
        datetime.strptime(text, date_format)
    except ValueError as error:
        reason = f"{error}; needs {needed}"
        raise FighterError(reason, argument="date_format", value=date_format) from None
    return date_format


def _check_alike(zoned: np.ndarray) -> None:
    """Check that all stamps have a UTC offset, or none."""
    if zoned.any() and not zoned.all():
        odd = int((zoned != zoned[0]).argmax())
        has, others = ("a", "none") if zoned[odd] else ("no", "one")
        reason = f"has {has} UTC offset, but the stamps before it have {others}"
        raise DateError(odd, f"{reason}; write all with an offset, or none")


def _parse_format(texts: list[str], date_format: str) -> tuple[np.ndarray, np.ndarray | None]:
    """Read texts in a format of ``strptime`` as :func:`naive_stamps` does."""
    stamps = []
    for index, text in enumerate(texts):
        try:
            stamps.append(datetime.strptime(text, date_format))
        except ValueError:
            reason = f"is not a date in the format {date_format!r}; correct one of them"
            raise DateError(index, reason) from None
    return naive_stamps(stamps)


def naive_stamps(stamps: Sequence[datetime]) -> tuple[np.ndarray, np.ndarray | None]:
    """Convert stamps to UTC, ``datetime64[us]``; also return their offsets, None without zones."""
    aware = np.array([stamp.tzinfo is not None for stamp in stamps])
    _check_alike(aware)
    if not aware.any():
        return np.array(stamps, "M8[us]"), None
    offsets = np.array([stamp.utcoffset() for stamp in stamps], "m8[us]")
    return np.array([stamp.replace(tzinfo=None) for stamp in stamps], "M8[us]") - offsets, offsets


def _parse_parts(texts: list[str], encoding: str) -> tuple[np.ndarray, str]:
    """Read ``31.12.2020 23:00``, ``1/31/24 3:00 PM``, ``31-Jan-24``, ``Jan-24`` or ``2020Q1``."""
    parts, clocks = [], np.zeros(len(texts), np.int64)
    wordy = np.zeros(len(texts), bool)
    for index, text in enumerate(texts):
        found = _split_words(text)
        wordy[index] = found is not None
        if found is None:
            match = _NUMBERS.fullmatch(text)
            if not match:
                raise DateError(index, f"is not a date that can be read; {_REMEDY}")
            found = match.groups()[:3], match.groups()[3:]
        parts.append(found[0])
        clocks[index] = _clock(found[1], index)
    lengths = np.array([[len(part) for part in row] for row in parts])
    numbers = np.array(parts, np.int64)
    if wordy.all():
        order = "YMD"  # as _split_words returns them
        days, valid = _days(numbers, lengths[:, 0])
        _check_valid(valid)
        short = np.array([len(text) == 6 and text[3] in "-'" for text in texts])
        months = np.abs(np.diff(days.astype("M8[M]").astype(np.int64)))
        if short.any() and months.size and np.median(months) > 3:
            raise DateError(0, f"does not show whether it ends with a day or a year; {_REMEDY}")
    elif wordy.any():
        odd = int((wordy != wordy[0]).argmax())
        raise DateError(odd, f"is not written like the dates before it; {_REMEDY}")
    else:
        order, days = _find_order(numbers, lengths, texts, encoding)
    return days.astype("M8[us]") + clocks.astype("m8[us]"), "" if wordy.all() else order


def _find_order(
    numbers: np.ndarray, lengths: np.ndarray, texts: list[str], encoding: str
) -> tuple[str, np.ndarray]:
    """Find the order of year, month and day in which all dates exist, if there is only one."""
    four = lengths == 4
    if (wrong := (lengths == 3).any(axis=1) | (four.any(axis=1) != four.any())).any():
        index = int(wrong.argmax())
        raise DateError(index, f"is not a date that can be read; {_REMEDY}")
    orders = {
        order: _days(numbers[:, columns], lengths[:, columns[0]])
        for order, columns in _ORDERS.items()
        if four[:, columns[0]].all() or not four.any()
    }
    if encoding in orders:
        orders = {encoding: orders[encoding]}
    fits = {order: days for order, (days, valid) in orders.items() if valid.all()}
    if not fits:
        valid = max((valid for _, valid in orders.values()), key=np.mean, default=~wrong & wrong)
        _check_valid(valid)
    if "DMY" in fits and all("." in text.split()[0] for text in texts):
        return "DMY", fits["DMY"]
    if len(fits) > 1:
        spans = sorted((float(np.ptp(days).astype(int)), order) for order, days in fits.items())
        certain = "YMD" in fits and len(fits) == 2 and 4 * spans[0][0] < spans[1][0]
        if not certain and any((days != fits[spans[0][1]]).any() for days in fits.values()):
            parts = "year, month and day" if "YMD" in fits else "day and month"
            raise DateError(0, f"does not show the order of {parts}; {_REMEDY}")
        return spans[0][1], fits[spans[0][1]]
    return next(iter(fits.items()))


def _split_words(text: str) -> tuple[tuple[str, str, str], tuple] | None:
    """Split a date that is not three numbers: (year, month, day) and the time of day.

    It has an English month, or is a month, a quarter, a week, or ISO 8601 without separators.
    """
    if match := _QUARTER.fullmatch(text):
        quarter = int(match[2] or match[3])
        return (match[1] or match[4], str(3 * quarter - 2), "1"), (None,) * 4
    if match := _MONTH_YEAR.fullmatch(text):
        return (match[2] or match[3], _month(match[1]), "1"), (None,) * 4
    if match := _YEAR_NAME.fullmatch(text):
        return (match[1], _month(match[2]), "1"), (None,) * 4
    if match := _NUMBER_YEAR.fullmatch(text):
        return (match[2], match[1], "1"), (None,) * 4
    if match := _YEAR_NUMBER.fullmatch(text):
        return (match[1], match[2], "1"), (None,) * 4
    if match := _ISO_WEEK.fullmatch(text):
        year, week, day = (int(part or 1) for part in match.groups())
        if not 1 <= week <= date(year, 12, 28).isocalendar().week:
            return (match[1], "0", "0"), (None,) * 4  # no such week
        first = date.fromisocalendar(year, week, day)
        return (str(first.year), str(first.month), str(first.day)), (None,) * 4
    if match := _BASIC.fullmatch(text):
        return (match[1], match[2], match[3]), (*match.groups()[3:], None)
    if match := _DAY_MONTH.fullmatch(text):
        return (match[3], _month(match[2]), match[1]), match.groups()[3:]
    if match := _MONTH_DAY.fullmatch(text):
        return (match[3], _month(match[1]), match[2]), match.groups()[3:]
    if match := _YEAR_MONTH.fullmatch(text):
        return (match[1], _month(match[2]), match[3]), match.groups()[3:]
    return None


def _month(name: str) -> str:
    return str(_MONTHS.index(name.lower()) + 1)


def _clock(groups: tuple, index: int) -> int:
    """Return the time of day in microseconds."""
    if groups[0] is None:
        return 0
    hour, minute, half = int(groups[0]), int(groups[1]), (groups[3] or "").lower()
    second = float(groups[2] or 0)
    fine = 1 <= hour <= 12 if half else hour < 24
    if not fine or minute > 59 or second >= 60:
        raise DateError(index, "has a time of day that does not exist; correct it")
    if half:
        hour = hour % 12 + 12 * (half == "p")
    return (hour * 60 + minute) * 60 * 10**6 + round(second * 10**6)


def _days(numbers: np.ndarray, digits: np.ndarray | int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Return the dates of years, months and days ``[rows, 3]``, and which of them exist.

    ``digits`` of the years; those of two are from 1969 to 2068.
    """
    year, month, day = numbers.T
    year = np.where(np.equal(digits, 4), year, year + np.where(year < 69, 2000, 1900))
    valid = (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)
    months = ((year - 1970) * 12 + np.where(valid, month, 1) - 1).astype("M8[M]")
    days = months.astype("M8[D]") + np.where(valid, day - 1, 0).astype("m8[D]")
    return days, valid & (days.astype("M8[M]") == months)


def _read_digits(numbers: np.ndarray, encoding: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the stamps of numbers such as 20240131 or 202401, and which of them exist."""
    year, parts = numbers, {"d": np.ones_like(numbers)}
    for part in reversed(encoding.split("%")[2:]):
        year, parts[part] = np.divmod(year, 100)
    valid = (year >= 1) & (year <= 9999)
    days, exist = _days(np.stack([np.where(valid, year, 1970), parts["m"], parts["d"]], axis=1))
    seconds = np.zeros_like(numbers)
    for part, (count, length) in _CLOCK.items():
        number = parts.get(part, np.zeros_like(numbers))
        valid &= number < count
        seconds += number * length
    return days.astype("M8[s]") + seconds.astype("m8[s]"), valid & exist


def _check_valid(valid: np.ndarray) -> None:
    if not valid.all():
        raise DateError(int(valid.argmin()), f"is not a date that exists; {_REMEDY}")
