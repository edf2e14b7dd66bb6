"""Time columns of tables, converted to and from the ``int64`` time axis of a panel."""

from collections import Counter
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any, Literal
from zoneinfo import ZoneInfo

import narwhals as nw
import numpy as np

from .columns import check_full, empty_cells, number_cells
from .dates import (
    DIGITS,
    DateError,
    check_format,
    decode_numbers,
    naive_stamps,
    nanoseconds,
    number_encoding,
    parse_dates,
    time_error,
)
from .frequency import DAY, LARGEST, SECOND


@dataclass(frozen=True)
class TimeAxis:
    """The type of a time column, so that forecasts come back in the type that came in.

    ``zone`` is the time zone of aware stamps. Their axis is UTC, unless every stamp has the same
    time of day on the local clock (daily data and coarser), or the table has opening hours. Then
    the axis is the local clock (``wall``), because a local day does not always have 24 hours. The
    zone of texts with UTC offsets is not known: on the local clock they have none.
    """

    name: str = "ds"
    kind: Literal["datetime", "date", "integer"] = "datetime"
    unit: str = "us"  # time unit of datetimes, or dtype of integers
    zone: str | None = None
    wall: bool = False
    boxed: bool = False  # Python objects in an untyped column (dates in pandas)
    # How integers or texts stand for time stamps: a format of strptime, the unit of epoch numbers
    # ("s", "ms", "us", "ns"), or the order of the parts of a date ("DMY", "MDY", "YMD").
    encoding: str = ""

    def state(self) -> dict[str, Any]:
        """Return plain values from which ``TimeAxis(**state)`` makes the same axis."""
        return asdict(self)

    @classmethod
    def read(
        cls,
        column: nw.Series,
        like: "TimeAxis | None" = None,
        *,
        date_format: str | None = None,
        integer: bool = False,
    ) -> "tuple[TimeAxis, np.ndarray]":
        """Read a time column: its axis and its stamps, ``int64 [rows]``.

        Args:
            column: the column.
            like: the axis of an earlier table, which this one follows.
            date_format: format of texts, as ``strptime`` takes it (default: found).
            integer: whether integers are no dates (default: found).
        """
        name = column.name
        native = column.to_native()
        if str(getattr(native, "dtype", "")).startswith("period"):
            column = nw.from_native(native.dt.to_timestamp(), series_only=True)
        check_full(empty_cells(column), "time_col", name, "drop those rows")
        encoding = check_format(date_format) or (like.encoding if like else "")
        dtype = column.dtype
        if dtype.is_integer() or dtype.is_float():
            integer = integer or (like is not None and like.kind == "integer")
            return cls._read_numbers(name, column.to_numpy(), encoding, integer)
        wall = None if like is None else like.wall
        if isinstance(dtype, nw.Date):
            return cls(name, "date"), nanoseconds(column.to_numpy(), name)
        if isinstance(dtype, nw.Datetime) or hasattr(getattr(native, "dtype", None), "tz"):
            return cls._read_stamps(column, wall)
        return cls._read_objects(name, column.to_list(), encoding, wall)

    @classmethod
    def _read_numbers(
        cls, name: str, numbers: np.ndarray, encoding: str, integer: bool
    ) -> "tuple[TimeAxis, np.ndarray]":
        """Read integers: dates such as 20240131, epoch numbers, or an axis of integers."""
        dtype = str(numbers.dtype)
        if numbers.dtype.kind == "f":
            dtype = "int64"
            whole = np.isfinite(numbers) & (np.floor(numbers) == numbers)
            _check_numbers(name, numbers, whole, "needs time stamps, dates or integers")
            exact = np.abs(numbers) <= 2**53
            _check_numbers(
                name, numbers, exact, "needs whole numbers up to 2^53, or a column of integers"
            )
        fits = (numbers >= -LARGEST) & (numbers <= LARGEST)
        _check_numbers(name, numbers, fits, "needs integers from -2^62 to 2^62")
        numbers = numbers.astype(np.int64)
        if integer:
            return cls(name, "integer", dtype), numbers
        if "%" in encoding and encoding not in DIGITS:
            distinct, codes = np.unique(numbers, return_inverse=True)
            width = len(datetime(2024, 1, 1).strftime(encoding))  # 01012024 is 1012024
            texts = [str(number).zfill(width) for number in distinct]
            axis, stamps = cls._read_objects(name, texts, encoding)
            return axis, stamps[codes]
        encoding = encoding or number_encoding(numbers, name)
        if encoding in ("", "DMY", "MDY", "YMD"):
            return cls(name, "integer", dtype), numbers
        unit = {"s": "ms"}.get(encoding, encoding) if "%" not in encoding else "us"
        return cls(name, unit=unit, encoding=encoding), decode_numbers(numbers, encoding, name)

    @classmethod
    def _read_stamps(cls, column: nw.Series, wall: bool | None) -> "tuple[TimeAxis, np.ndarray]":
        """Read a column of time stamps; ``wall`` as of the axis, or None if that is open."""
        name, dtype = column.name, column.dtype
        if isinstance(dtype, nw.Datetime) and dtype.time_zone is None:
            return cls(name, unit=dtype.time_unit), nanoseconds(column.to_numpy(), name)
        native = column.to_native()
        if hasattr(getattr(native, "dtype", None), "tz"):  # pandas: narwhals misses some zones
            axis = cls(name, unit=native.dtype.unit, zone=str(native.dtype.tz))
            local, utc = native.dt.tz_localize(None), native.dt.tz_convert(None)
        else:
            axis = cls(name, unit=dtype.time_unit, zone=dtype.time_zone)  # pyright: ignore[reportAttributeAccessIssue]
            local = column.dt.replace_time_zone(None)
            utc = column.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
        times = nanoseconds(local.to_numpy(), name)
        if wall or (wall is None and _same_clock(times)):
            return replace(axis, wall=True), times
        return axis, nanoseconds(utc.to_numpy(), name)

    @classmethod
    def _read_objects(
        cls, name: str, cells: list, encoding: str, wall: bool | None = None
    ) -> "tuple[TimeAxis, np.ndarray]":
        """Read strings and Python objects, parsing each distinct cell once."""
        distinct, codes = number_cells(cells, "time_col", name)
        kinds = {type(cell).__name__ for cell in distinct}
        try:
            if kinds == {"str"}:
                stamps, offsets, encoding = parse_dates(list(distinct), encoding)
                axis, times = cls(name, encoding=encoding)._place(stamps, offsets, wall)
                return axis, times[codes]
            if kinds <= {"datetime", "Timestamp"}:
                axis, times = cls(name)._place(*naive_stamps(distinct), wall)
                zones = {getattr(cell.tzinfo, "key", None) for cell in distinct}
                if axis.wall and len(zones) == 1:
                    axis = replace(axis, zone=zones.pop())
                return axis, times[codes]
        except DateError as error:
            row = int((codes == error.index).argmax())
            raise time_error(name, f"{str(distinct[error.index])!r} in row {row} {error}") from None
        if kinds <= {"date"}:
            days = np.array(distinct, "M8[D]")
            return cls(name, "date", boxed=True), nanoseconds(days, name)[codes]
        if all(isinstance(cell, int | float) and not isinstance(cell, bool) for cell in distinct):
            large = [np.inf if abs(cell) > 2**63 else cell for cell in distinct]  # out of range
            numbers = np.array(large)
            axis, stamps = cls._read_numbers(name, numbers, encoding, integer=False)
            return axis, stamps[codes]
        needed = "time stamps, dates, integers or strings such as '2024-01-31 12:00'"
        types = [type(cell) for cell in distinct]
        counts = Counter(types)
        odd = types.index(min(counts, key=counts.__getitem__))  # the type of the fewest cells
        row = int((codes == odd).argmax())
        came = f"{', '.join(sorted(kinds))} such as {str(distinct[odd])!r} in row {row}"
        raise time_error(name, f"holds {came}; needs {needed}")

    def _place(
        self, stamps: np.ndarray, offsets: np.ndarray | None, wall: bool | None
    ) -> "tuple[TimeAxis, np.ndarray]":
        """Place stamps in UTC that were written with offsets on the local clock or in UTC."""
        times = nanoseconds(stamps, self.name)
        if offsets is None:
            return self, times
        local = times + offsets.astype("m8[ns]").astype(np.int64)
        if wall or (wall is None and np.ptp(offsets) and _same_clock(local)):
            return replace(self, wall=True), local
        return replace(self, zone="UTC"), times

    def clock(self, time: int) -> int:
        """Return the stamp that a clock in the zone shows."""
        if self.zone in (None, "UTC") or self.wall:
            return time
        fixed = self.zone[-6:-5] in ("+", "-")  # UTC+01:00 or +01:00
        zone = datetime.strptime(self.zone[-6:], "%z").tzinfo if fixed else ZoneInfo(self.zone)
        offset = datetime.fromtimestamp(time // SECOND, zone).utcoffset()
        return time + int(offset.total_seconds()) * SECOND if offset else time

    def write(self, times: np.ndarray, name: str, backend: Any) -> nw.Series:
        """Write stamps ``int64 [rows]`` as a column in the type of this axis."""
        if self.kind == "integer":
            bounds = np.iinfo(self.unit)  # small integers may overflow
            fits = times.min(initial=0) >= bounds.min and times.max(initial=0) <= bounds.max
            numbers = times.astype(self.unit if fits else np.int64)
            return nw.Series.from_numpy(name, numbers, backend=backend)
        stamps = times.astype("M8[ns]")
        if self.kind == "date":
            if self.boxed or backend is nw.Implementation.PANDAS:
                days = np.array(stamps.astype("M8[D]").astype(object), dtype=object)
                return nw.new_series(name, days, backend=backend)
            return nw.Series.from_numpy(name, stamps, backend=backend).cast(nw.Date())
        column = nw.Series.from_numpy(name, stamps.astype(f"M8[{self.unit}]"), backend=backend)
        if self.zone is None:
            return column
        if self.wall:
            return column.dt.replace_time_zone(self.zone)
        return column.dt.replace_time_zone("UTC").dt.convert_time_zone(self.zone)


def _same_clock(times: np.ndarray) -> bool:
    """Tell whether all stamps have the same time of day."""
    return bool(times.size and (times % DAY == times[0] % DAY).all())


def _check_numbers(name: str, numbers: np.ndarray, fine: np.ndarray, needed: str) -> None:
    if not fine.all():
        row = int(fine.argmin())
        raise time_error(name, f"holds numbers such as {numbers[row]} in row {row}; {needed}")
