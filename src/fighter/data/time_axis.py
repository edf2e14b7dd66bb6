"""Time columns of tables, converted to and from the ``int64`` time axis of a panel."""

from dataclasses import asdict, dataclass, replace
from datetime import UTC
from typing import Any, Literal

import narwhals as nw
import numpy as np

from .columns import check_full, empty_cells, number_cells
from .dates import nanoseconds, parse_dates, time_error
from .frequency import DAY


@dataclass(frozen=True)
class TimeAxis:
    """The type of a time column, so that forecasts come back in the type that came in.

    ``zone`` is the time zone of aware stamps. Their axis is UTC, unless every stamp has the same
    time of day on the local clock (daily data and coarser). Then the axis is the local clock
    (``wall``), because a local day does not always have 24 hours.
    """

    name: str = "ds"
    kind: Literal["datetime", "date", "integer"] = "datetime"
    unit: str = "us"  # time unit of datetimes, or dtype of integers
    zone: str | None = None
    wall: bool = False
    boxed: bool = False  # Python objects in an untyped column (dates in pandas)

    def state(self) -> dict[str, Any]:
        """Return plain values from which ``TimeAxis(**state)`` makes the same axis."""
        return asdict(self)

    @classmethod
    def read(cls, column: nw.Series, wall: bool | None = None) -> "tuple[TimeAxis, np.ndarray]":
        """Read a time column: its axis and its stamps, ``int64 [rows]``.

        ``wall``: whether an earlier table was kept on the local clock (default: inferred).
        """
        name = column.name
        native = column.to_native()
        if str(getattr(native, "dtype", "")).startswith("period"):
            column = nw.from_native(native.dt.to_timestamp(), series_only=True)
        check_full(empty_cells(column), "time_col", name, "drop those rows")
        dtype = column.dtype
        if dtype.is_integer():
            numbers = column.to_numpy()
            return cls(name, "integer", str(numbers.dtype)), numbers.astype(np.int64)
        if isinstance(dtype, nw.Date):
            return cls(name, "date"), nanoseconds(column.to_numpy(), name)
        if isinstance(dtype, nw.Datetime):
            axis = cls(name, "datetime", dtype.time_unit, dtype.time_zone)
            if dtype.time_zone is None:
                return axis, nanoseconds(column.to_numpy(), name)
            local = nanoseconds(column.dt.replace_time_zone(None).to_numpy(), name)
            if wall is None:
                wall = bool(local.size and (local % DAY == local[0] % DAY).all())
            if wall:
                return replace(axis, wall=True), local
            utc = column.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
            return axis, nanoseconds(utc.to_numpy(), name)
        if dtype.is_float():
            numbers = column.to_numpy()
            if (odd := ~(np.floor(numbers) == numbers)).any():
                reason = f"holds numbers such as {numbers[odd][0]}"
                raise time_error(name, f"{reason}; needs time stamps, dates or integers")
            return cls(name, "integer", "int64"), numbers.astype(np.int64)
        return cls._read_objects(name, column.to_list())

    @classmethod
    def _read_objects(cls, name: str, cells: list) -> "tuple[TimeAxis, np.ndarray]":
        """Read strings and Python objects, parsing each distinct cell once."""
        distinct, codes = number_cells(cells, "time_col", name)
        kinds = {type(cell).__name__ for cell in distinct}
        if kinds == {"str"}:
            stamps, aware = parse_dates(list(distinct), name)
            return cls(name, zone="UTC" if aware else None), stamps[codes]
        if kinds <= {"date"}:
            days = np.array(distinct, "M8[D]")
            return cls(name, "date", boxed=True), nanoseconds(days, name)[codes]
        if kinds <= {"datetime", "Timestamp"}:
            aware = any(cell.tzinfo for cell in distinct)
            naive = [c.astimezone(UTC).replace(tzinfo=None) if c.tzinfo else c for c in distinct]
            stamps = nanoseconds(np.array(naive, "M8[us]"), name)
            return cls(name, zone="UTC" if aware else None), stamps[codes]
        needed = "time stamps, dates, integers or strings such as '2024-01-31 12:00'"
        came = f"{', '.join(sorted(kinds))} such as {str(distinct[0])!r}"
        raise time_error(name, f"holds {came}; needs {needed}")

    def write(self, times: np.ndarray, name: str, backend: Any) -> nw.Series:
        """Write stamps ``int64 [rows]`` as a column in the type of this axis."""
        if self.kind == "integer":
            fits = (times.astype(self.unit) == times).all()  # small integers may overflow
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
