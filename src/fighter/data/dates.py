"""Dates as people write them, as nanoseconds since 1970-01-01."""

import re
import warnings

import numpy as np

from ..errors import FighterError
from .frequency import HOUR

_EARLIEST, _LATEST = np.datetime64("1678-01-01", "D"), np.datetime64("2262-01-01", "D")
_ZONE = re.compile(r"(.*\d)\s*(Z|UTC|[+-]\d\d:?\d\d)")
_DATE = re.compile(
    r"(\d{1,4})[-/.](\d{1,2})[-/.](\d{1,4})(?:[T ]+(\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?))?"
)


def nanoseconds(stamps: np.ndarray, name: str) -> np.ndarray:
    """Turn ``datetime64`` stamps of time column ``name`` into ``int64``, if their years fit."""
    days = stamps.astype("M8[D]")
    if (empty := np.isnat(days)).any():
        raise FighterError(
            f"Time column {name!r} has {empty.sum()} empty cells, the first in row "
            f"{empty.argmax()}. Drop those rows."
        )
    outside = (days < _EARLIEST) | (days > _LATEST)
    if outside.any():
        raise FighterError(
            f"Time column {name!r} holds {stamps[outside][0]}, outside the years 1678 to 2261 that "
            "time stamps can have. Use an integer time axis for such data."
        )
    return stamps.astype("M8[ns]").astype(np.int64)


def parse_dates(texts: list[str], name: str) -> tuple[np.ndarray, bool]:
    """Read strings as nanoseconds: ISO 8601, or day and month first where that is certain.

    Stamps with an offset are taken to UTC; also tells whether there were any.
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
            warnings.simplefilter("error")  # numpy only warns about what it half understands
            stamps = np.array(texts, "M8[us]")
    except (ValueError, UserWarning, DeprecationWarning):
        try:
            stamps = np.array(_as_iso(texts, name), "M8[us]")
        except ValueError as error:
            if isinstance(error, FighterError):
                raise
            raise FighterError(
                f"Time column {name!r} holds a date that does not exist: {error}. "
                "Write stamps as '2024-01-31 12:00'."
            ) from None
    return nanoseconds(stamps, name) - shift, aware


def _as_iso(texts: list[str], name: str) -> list[str]:
    """Write ``31.12.2020 23:00`` or ``2020/12/31`` as ISO; day and month must be certain."""
    parts = [match for text in texts if (match := _DATE.fullmatch(text))]
    year_first = bool(parts) and len(parts[0][1]) == 4
    year = 1 if year_first else 3
    wrong = [t for t in texts if not (m := _DATE.fullmatch(t)) or len(m[year]) != 4]
    if wrong:
        raise FighterError(
            f"Time column {name!r} holds {wrong[0]!r}, which is no date Fighter can read. "
            "Write stamps as '2024-01-31 12:00' or give a column of time stamps."
        )
    month_first = not year_first and max(int(part[2]) for part in parts) > 12
    day_first = not year_first and max(int(part[1]) for part in parts) > 12
    if not (year_first or month_first or day_first or "." in texts[0]):
        raise FighterError(
            f"Time column {name!r} holds dates such as {texts[0]!r}: day and month cannot be told "
            "apart. Write stamps as '2024-01-31' or give a column of time stamps."
        )
    order = (1, 2, 3) if year_first else (3, 1, 2) if month_first else (3, 2, 1)
    iso = []
    for part in parts:
        year, month, day = (part[i] for i in order)
        hour, _, rest = (part[4] or "0:00").partition(":")
        iso.append(f"{year}-{int(month):02d}-{int(day):02d}T{int(hour):02d}:{rest}")
    return iso
