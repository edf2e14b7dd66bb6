"""Dates as people write them, converted to nanoseconds since 1970-01-01."""

import re
import warnings

import numpy as np

from ..errors import FighterError
from .columns import check_full
from .frequency import HOUR

_EARLIEST, _LATEST = np.datetime64("1678-01-01", "D"), np.datetime64("2262-01-01", "D")
_REMEDY = "write dates as '2024-01-31 12:00' or pass a column of time stamps"
_ZONE = re.compile(r"(.*\d)\s*(Z|UTC|[+-]\d\d:?\d\d)")
_DATE = re.compile(
    r"(\d{1,4})[-/.](\d{1,2})[-/.](\d{1,4})(?:[T ]+(\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?))?"
)


def nanoseconds(stamps: np.ndarray, name: str) -> np.ndarray:
    """Convert ``datetime64`` stamps of time column ``name`` to ``int64`` nanoseconds."""
    days = stamps.astype("M8[D]")
    check_full(np.isnat(days), "time_col", name, "drop those rows")
    outside = (days < _EARLIEST) | (days > _LATEST)
    if outside.any():
        reason = f"{stamps[outside][0]} is outside the years 1678 to 2261 of time stamps"
        raise time_error(name, f"{reason}; use an integer time axis")
    return stamps.astype("M8[ns]").astype(np.int64)


def parse_dates(texts: list[str], name: str) -> tuple[np.ndarray, bool]:
    """Read ISO 8601 dates, or dates whose order of day and month is certain, as nanoseconds.

    Stamps with a UTC offset are converted to UTC. Also return whether there were any.
    """
    texts = [text.strip() for text in texts]
    shift, aware = np.zeros(len(texts), np.int64), False
    for i, text in enumerate(texts):
        # A bare date ends like an offset ("2024-01-31" does not, "2024-01-31-0500" does).
        if (match := _ZONE.fullmatch(text)) and len(match[1]) > 10:
            texts[i], aware = match[1], True
            if match[2] not in ("Z", "UTC"):
                offset = int(match[2][1:3]) * HOUR + int(match[2][-2:]) * HOUR // 60
                shift[i] = -offset if match[2][0] == "-" else offset
    if all(len(text) == 8 and text.isdigit() for text in texts):
        texts = [f"{text[:4]}-{text[4:6]}-{text[6:]}" for text in texts]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # numpy only warns about dates it parses in part
            stamps = np.array(texts, "M8[us]")
    except (ValueError, UserWarning, DeprecationWarning):
        iso = _as_iso(texts, name)
        try:
            stamps = np.array(iso, "M8[us]")
        except ValueError as error:
            reason = f"a date does not exist ({error}); write dates as '2024-01-31 12:00'"
            raise time_error(name, reason) from None
    return nanoseconds(stamps, name) - shift, aware


def time_error(name: str, reason: str) -> FighterError:
    """Return an error about time column ``name``."""
    return FighterError(reason, argument="time_col", value=name)


def _as_iso(texts: list[str], name: str) -> list[str]:
    """Write ``31.12.2020 23:00`` or ``2020/12/31`` as ISO 8601; the order must be certain."""
    parts = [match for text in texts if (match := _DATE.fullmatch(text))]
    year_first = bool(parts) and len(parts[0][1]) == 4
    year = 1 if year_first else 3
    wrong = [t for t in texts if not (m := _DATE.fullmatch(t)) or len(m[year]) != 4]
    if wrong:
        raise time_error(name, f"{wrong[0]!r} is not a date that can be read; {_REMEDY}")
    month_first = not year_first and max(int(part[2]) for part in parts) > 12
    day_first = not year_first and max(int(part[1]) for part in parts) > 12
    if not (year_first or month_first or day_first or "." in texts[0]):
        reason = f"day and month cannot be distinguished in {texts[0]!r}"
        raise time_error(name, f"{reason}; {_REMEDY}")
    order = (1, 2, 3) if year_first else (3, 1, 2) if month_first else (3, 2, 1)
    iso = []
    for part in parts:
        year, month, day = (part[i] for i in order)
        hour, _, rest = (part[4] or "0:00").partition(":")
        iso.append(f"{year}-{int(month):02d}-{int(day):02d}T{int(hour):02d}:{rest}")
    return iso
