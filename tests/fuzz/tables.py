"""Ordinary tables of every type, with an oracle that knows each value at its time and series.

A case draws a time axis, series, values, holes, covariates and a layout, writes them as a table
of pandas, polars or pyarrow, and remembers what was written. The oracle shares no code with
Fighter. Some tables have a fault that must be refused.
"""

import datetime as dt
import decimal
import math
import warnings
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

from fighter import DataWarning, FighterError, Forecaster
from fighter.data import to_panel
from fighter.forecasting.config import Frame
from tests.fuzz.calendar_oracle import FIXED, MONTHS, ZONES, Clock, local, nanoseconds, utc
from tests.fuzz.runner import Outcome, Suite, place

LIBRARIES = ("pandas", "pandas arrow", "pandas nullable", "polars", "polars lazy", "pyarrow")
LAYOUTS = ("long", "long", "several ids", "wide", "single")
AXES = ("datetime", "datetime", "zone", "date", "integer", "text", "yyyymmdd", "yyyymm", "epoch")
IDS = ("text", "text", "category", "integer", "small integer", "date", "unicode", "digits")
VALUES = ("float64", "float64", "float32", "int64", "int32", "bool", "decimal", "large")
FAULTS = (
    "conflicting duplicate", "empty time", "empty id", "infinite", "silent series", "off grid",
    "text target", "ambiguous dates", "infinite covariate", "no target column",
)  # fmt: skip
MARK, LOOKBACK = -9999.0, 8
DIGITS = {"yyyymmdd": "%Y%m%d", "yyyymm": "%Y%m"}


@dataclass
class Drawn:
    """A table before it is written, and what it means."""

    rng: np.random.Generator
    layout: str
    library: str
    axis: str
    clock: Clock | None  # None for an integer axis
    stamps: list  # one per step, with those of the horizon: datetimes or integers
    ids: list  # of the series; tuples for several id columns
    cells: list[dict[int, Any]]  # by series: step to value, None where the cell is empty
    covariates: dict[str, list[dict[int, float | None]]]  # by name and series
    settings: dict[str, Any]
    unit: str = "us"
    id_type: str = "text"
    value_type: str = "float64"
    horizon: int = 2
    repeated: list[tuple[int, int]] = field(default_factory=list)  # (series, step) written twice
    fault: str | None = None

    @property
    def group(self) -> str:
        return f"must be refused: {self.fault}" if self.fault else self.layout


# ---- drawing ----------------------------------------------------------------------------------


def draw(number: int) -> Drawn:
    """Draw the table of a case."""
    rng = np.random.default_rng(number)
    layout, library, axis = (str(rng.choice(names)) for names in (LAYOUTS, LIBRARIES, AXES))
    horizon = int(rng.integers(1, 4))
    length = int(rng.integers(26, 48))
    clock, stamps = _draw_axis(rng, axis, length + horizon)
    series = 1 if layout == "single" else int(rng.integers(1, 5))
    id_type = str(rng.choice(IDS))
    ids = _draw_ids(rng, layout, id_type, series, library)
    value_type = str(rng.choice(VALUES))
    drawn = Drawn(
        rng, layout, library, axis, clock, stamps, ids, [], {}, {}, id_type=id_type,
        value_type=value_type, horizon=horizon,
        unit=str(rng.choice(["s", "ms", "us", "ns"])),
    )  # fmt: skip
    _draw_rows(drawn, length)
    _draw_covariates(drawn, length)
    if rng.random() < 0.15:
        drawn.fault = str(rng.choice(FAULTS))
    elif rng.random() < 0.25:
        for _ in range(int(rng.integers(1, 4))):
            k = int(rng.integers(series))
            drawn.repeated.append((k, int(rng.choice(list(drawn.cells[k])))))
    drawn.settings["freq"] = None
    if not _inferable(drawn) or rng.random() < 0.2:
        alias = clock.alias if clock else drawn.stamps[1] - drawn.stamps[0]
        drawn.settings["freq"] = alias
    return drawn


def _draw_axis(rng: np.random.Generator, axis: str, count: int) -> tuple[Clock | None, list]:
    if axis == "integer":
        step = int(rng.choice([1, 1, 1, 2, 5, 24]))
        first = int(rng.integers(-500, 5_000))
        return None, [first + k * step for k in range(count)]
    day_long = ["D", "2D", "W", "2W", "B", *MONTHS]
    whole_days = axis in ("date", "yyyymmdd", "yyyymm")
    alias = str(rng.choice(day_long if whole_days else [*FIXED, *MONTHS, "B"]))
    if axis == "yyyymm":
        alias = str(rng.choice([name for name in MONTHS if name.endswith("S")]))
    year = int(rng.integers(1991, 2020) if axis in ("zone", "epoch") else rng.integers(1930, 2060))
    if axis == "zone":  # after 2037 the libraries differ in the rules of zones
        year = min(year, 2035 - MONTHS.get(alias, 1) * count // 12)
    first = dt.datetime(year, int(rng.integers(1, 13)), int(rng.integers(1, 29)))
    if alias in MONTHS:
        first = first.replace(day=1 if axis == "yyyymm" else int(rng.choice([1, 15])))
    if alias.endswith("E"):
        first = Clock("ME", first.replace(day=1)).stamps(1)[0]
    while alias == "B" and first.weekday() > 4:
        first += dt.timedelta(days=1)
    if not whole_days:
        minute = 0 if alias not in ("s", "30s", "min") else int(rng.integers(60))
        first = first.replace(hour=int(rng.choice([0, 0, 6, 12, 17])), minute=minute)
    zone = str(rng.choice(ZONES)) if axis == "zone" else None
    if axis == "text" and rng.random() < 0.2:
        zone = "UTC"  # written with a UTC offset
    clock = Clock(alias, first, zone)
    return clock, [clock.aware(stamp) for stamp in clock.stamps(count)]


def _draw_ids(
    rng: np.random.Generator, layout: str, kind: str, count: int, library: str
) -> list[Any]:
    if layout == "single":
        return ["y"]
    names = {
        "unicode": ["Zürich", "東京", "a b", "x;y\"'", "-", "NaN "],
        "digits": ["007", "7", "0x7", "1e3", "10", "1"],
        "integer": [7, -3, 10**12, 0, 42, 5],
        "small integer": [1, 2, 3, 4, 5, 6],
        "date": [dt.date(2020, 1, k) for k in range(1, 7)],
    }.get(kind, ["a", "b", "c", "dd", "E", "f"])
    if layout == "wide" and (library != "pandas" or "integer" not in kind):
        names = [str(name) for name in names]
    chosen = [names[int(i)] for i in rng.permutation(len(names))[:count]]
    if layout == "several ids":
        towns = ["north", "south", "3"]
        pairs = [(town, name) for town in towns for name in chosen]
        return [pairs[int(i)] for i in rng.permutation(len(pairs))[:count]]
    return chosen


def _draw_value(rng: np.random.Generator, kind: str, level: float) -> Any:
    if kind == "bool":
        return bool(rng.random() < 0.5)
    if kind in ("int32", "int64"):
        return int(rng.normal(level, 50))
    if kind == "large":
        return int(2**53 + rng.integers(2**40)) * int(rng.choice([-1, 1]))
    if kind == "decimal":
        return decimal.Decimal(int(rng.normal(level, 50) * 100)) / 100
    value = float(rng.normal(level, 1 + abs(level) / 10))
    return float(np.float32(value)) if kind == "float32" else value


def _draw_rows(drawn: Drawn, length: int) -> None:
    """Draw the values and the holes of each series."""
    rng, kind = drawn.rng, drawn.value_type
    gaps = float(rng.choice([0, 0, 0.05, 0.2]))
    empty = float(rng.choice([0, 0, 0.1]))
    unequal = drawn.layout in ("long", "several ids") and rng.random() < 0.4
    shared = rng.random(length) < gaps  # a wide table has or lacks a whole row
    for _ in drawn.ids:
        level = float(rng.choice([0, 10, 1e4]))
        begin, end = 0, length
        if unequal:
            begin, end = int(rng.integers(0, 6)), length - int(rng.integers(0, 6))
        lacking = shared if drawn.layout == "wide" else rng.random(length) < gaps
        steps = [k for k in range(begin, end) if not lacking[k] or k in (begin, end - 1)]
        if drawn.layout == "wide":
            steps = [k for k in range(length) if not shared[k] or k in (0, length - 1)]
        cells: dict[int, Any] = {k: _draw_value(rng, kind, level) for k in steps}
        for k in steps[1:-1]:
            if rng.random() < empty:
                cells[k] = None
        drawn.cells.append(cells)
    if kind in ("float64", "float32", "int64", "int32") and rng.random() < 0.2:
        drawn.settings["missing_values"] = [MARK]
        for cells in drawn.cells:
            for k in list(cells)[1:-1]:
                if rng.random() < 0.1:
                    cells[k] = int(MARK) if kind.startswith("int") else MARK


def _draw_covariates(drawn: Drawn, length: int) -> None:
    rng = drawn.rng
    for name, role, chance in (
        ("wind", "past", 0.2),
        ("holiday", "future", 0.25),
        ("price", "future", 0.08),
    ):
        if rng.random() > chance:
            continue
        drawn.settings.setdefault(role, []).append(name)
        shared = drawn.layout == "wide"
        columns: list[dict[int, float | None]] = []
        for cells in drawn.cells:
            steps = list(cells)
            if role == "future":  # the rows after the last target hold only these
                steps += range(max(cells) + 1, max(cells) + 1 + drawn.horizon)
            column: dict[int, float | None] = {k: float(rng.normal()) for k in steps}
            for k in list(cells)[1:]:
                if rng.random() < 0.05:
                    column[k] = None
            columns.append(columns[0] if shared and columns else column)
        drawn.covariates[name] = columns


def _inferable(drawn: Drawn) -> bool:
    """Tell whether anybody would read the frequency off the stamps."""
    steps = [sorted(cells) for cells in drawn.cells]
    gaps = [b - a for row in steps for a, b in pairwise(row)]
    if len(gaps) < 4 or gaps.count(1) < 0.65 * len(gaps):
        return False
    if drawn.clock is None or drawn.clock.alias not in ("D", "B", "2D"):
        return True
    days = [drawn.stamps[k].weekday() for row in steps for k in row]
    if drawn.clock.alias != "B":
        return sum(day > 4 for day in days) > 0.2 * len(days)
    return any(
        b == a + 1 and drawn.stamps[a].weekday() == 4 for row in steps for a, b in pairwise(row)
    )


# ---- writing ----------------------------------------------------------------------------------


@dataclass
class Column:
    """Cells of one column, and the types that the libraries give it."""

    cells: list
    arrow: pa.DataType
    pandas: str | None = None  # None: as pandas makes it of the cells


def write(drawn: Drawn) -> tuple[Any, dict[str, Any], list[dict[str, Any]]]:
    """Write the table; return it, the settings to read it with, and its rows as they stand."""
    rng, rows = drawn.rng, _rows(drawn)
    settings = dict(drawn.settings)
    time_name = str(rng.choice(["ds", "ds", "date", "Zeit"]))
    if time_name == "Zeit" or (time_name != "ds" and rng.random() < 0.5):
        settings["time_col"] = time_name
    order = str(rng.choice(["series", "time", "shuffled", "reversed"]))
    if order == "time":
        rows.sort(key=lambda row: row["step"])
    elif order == "reversed":
        rows.reverse()
    elif order == "shuffled":
        rows = [rows[int(i)] for i in rng.permutation(len(rows))]
    columns: dict[str, Column] = {}
    if drawn.layout in ("long", "several ids"):
        _write_ids(drawn, rows, columns, settings)
    columns[time_name] = _time_column(drawn, rows, settings)
    if drawn.layout == "wide":
        for k, name in enumerate(drawn.ids):
            columns[name] = _value_column(drawn, [row[k] for row in rows])
        if rng.random() < 0.2:
            columns["remark"] = Column(["text"] * len(rows), pa.string())
            chosen = {"drop": ["remark"], "columns": [str(name) for name in drawn.ids]}
            name = str(rng.choice(list(chosen)))
            settings[name] = chosen[name]
    else:
        target = str(rng.choice(["y", "y", "sales"]))
        if target != "y":
            settings["target_col"] = target
            drawn.ids = ["sales"] if drawn.layout == "single" else drawn.ids
        columns[target] = _value_column(drawn, [row["y"] for row in rows])
        if drawn.fault == "no target column":
            settings["target_col"] = "missing"
        if rng.random() < 0.1 and drawn.layout == "long":
            columns["remark"] = Column(["text"] * len(rows), pa.string())
    for name in drawn.covariates:
        columns[name] = Column([row[name] for row in rows], pa.float64())
    if rng.random() < 0.3:
        columns = {name: columns[name] for name in rng.permutation(np.array(list(columns), object))}
    return _to_library(drawn, columns, time_name, settings), settings, rows


def _rows(drawn: Drawn) -> list[dict[Any, Any]]:
    """List the rows of the table, series by series, with what was drawn and its fault."""
    rows: list[dict[Any, Any]] = []
    wide = drawn.layout == "wide"
    for k, cells in enumerate(drawn.cells[:1] if wide else drawn.cells):
        extra = {step for column in drawn.covariates.values() for step in column[k]}
        for step in sorted(set(cells) | extra):
            row: dict[Any, Any] = {"series": k, "step": step, "time": drawn.stamps[step]}
            row |= {name: column[k].get(step) for name, column in drawn.covariates.items()}
            if wide:
                row |= {i: each.get(step) for i, each in enumerate(drawn.cells)}
            else:
                row["y"] = cells.get(step)
            rows.append(row)
            rows += [dict(row)] * sum((k, step) == at for at in drawn.repeated)
            if wide:
                others = [at for at in drawn.repeated if at[0] != k and at[1] == step]
                rows += [dict(row)] * len(others)
    _spoil(drawn, rows, 0 if wide else "y")
    return rows


def _spoil(drawn: Drawn, rows: list[dict[Any, Any]], target: Any) -> None:
    """Give the rows the fault that was drawn; forget a fault that this table cannot have."""
    rng, fault = drawn.rng, drawn.fault
    i = int(rng.choice([n for n, row in enumerate(rows) if row[target] is not None]))
    if fault == "conflicting duplicate":
        value = rows[i][target]
        other = (not value) if isinstance(value, bool) else value + 1
        if float(other) == float(value):
            other = value + 4096
        rows.insert(int(rng.integers(len(rows) + 1)), {**rows[i], target: other})
    elif fault == "empty time" and drawn.axis != "integer":
        rows[i]["time"] = None
    elif fault == "empty id" and drawn.layout == "long":
        rows[i]["no id"] = True
    elif fault == "infinite" and drawn.value_type in ("float64", "float32"):
        rows[i][target] = math.inf
    elif fault == "silent series" and "future" not in drawn.settings:
        for row in rows:
            if drawn.layout == "wide" or row["series"] == rows[i]["series"]:
                row[target] = None
    elif (
        fault == "off grid"
        and drawn.clock
        and drawn.clock.alias in MONTHS  # other stamps are moved to the grid
        and drawn.axis in ("datetime", "zone")
    ):
        rows[i]["time"] = rows[i]["time"] + dt.timedelta(milliseconds=7)
        drawn.unit = "ms"
        drawn.settings["freq"] = drawn.clock.alias
    elif fault == "text target" and drawn.library != "pandas nullable":
        pass  # the column is written as text
    elif fault == "ambiguous dates" and drawn.axis == "text":
        pass  # the dates are written as 01/02/2020
    elif fault == "infinite covariate" and drawn.covariates:
        rows[i][next(iter(drawn.covariates))] = math.inf
    elif fault == "no target column" and drawn.layout != "wide":
        pass  # the settings name a column that is not there
    else:
        drawn.fault = None


def _write_ids(
    drawn: Drawn, rows: list[dict], columns: dict[str, Column], settings: dict[str, Any]
) -> None:
    names = ["unique_id"]
    if drawn.layout == "several ids":
        names = ["town", "shop"]
        settings["id_col"] = names
    elif drawn.rng.random() < 0.3:
        names = ["shop"]
        settings["id_col"] = "shop"
    kinds = {
        "integer": (pa.int64(), "int64"), "small integer": (pa.int8(), "int8"),
        "date": (pa.date32(), "object"), "category": (pa.dictionary(pa.int32(), pa.string()),
        "category"),
    }  # fmt: skip
    arrow, pandas = kinds.get(drawn.id_type, (pa.string(), None))
    for part, name in enumerate(names):
        several = len(names) > 1
        cells = [drawn.ids[row["series"]] for row in rows]
        cells = [cell[part] for cell in cells] if several else cells
        cells = [None if row.get("no id") else c for row, c in zip(rows, cells, strict=True)]
        town = several and part == 0
        kind = None if None in cells and pandas in ("int64", "int8") else pandas
        columns[name] = Column(cells, pa.string() if town else arrow, None if town else kind)


def _time_column(drawn: Drawn, rows: list[dict], settings: dict[str, Any]) -> Column:
    rng, stamps = drawn.rng, [row["time"] for row in rows]
    if drawn.axis == "integer":
        width = str(rng.choice(["int64", "int32", "int16"]))
        return Column(stamps, getattr(pa, width)(), width)
    if drawn.axis == "date":
        days = [stamp and stamp.date() for stamp in stamps]
        return Column(days, pa.date32(), "object")
    if drawn.axis in ("yyyymmdd", "yyyymm"):
        form = DIGITS[drawn.axis]
        numbers = [None if s is None else int(s.strftime(form)) for s in stamps]
        return Column(numbers, pa.int64(), None if None in numbers else "int64")
    if drawn.axis == "epoch":
        size = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[drawn.unit]
        numbers = [None if s is None else nanoseconds(s) // size for s in stamps]
        return Column(numbers, pa.int64(), None if None in numbers else "int64")
    if drawn.axis == "text":
        return Column(_as_text(drawn, stamps, settings), pa.string())
    zone = drawn.clock.zone if drawn.clock else None
    unit = "us" if drawn.library.startswith("polars") and drawn.unit == "s" else drawn.unit
    dtype = f"datetime64[{drawn.unit}, {zone}]" if zone else f"datetime64[{drawn.unit}]"
    return Column(stamps, pa.timestamp(unit, zone), dtype)


def _as_text(drawn: Drawn, stamps: list, settings: dict[str, Any]) -> list[str | None]:
    """Write stamps as people do; where the order of day and month is open, that is a fault."""
    clock = drawn.clock
    assert clock is not None
    if clock.zone:
        zone = dt.timezone(dt.timedelta(minutes=int(drawn.rng.choice([0, 120, -330]))))
        drawn.fault = None if drawn.fault == "ambiguous dates" else drawn.fault
        return [s and s.astimezone(zone).isoformat() for s in stamps]
    forms = ["%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y/%m/%d %H:%M:%S", "%d.%m.%Y %H:%M:%S"]
    if clock.alias not in ("s", "30s"):
        forms += ["%Y-%m-%d %H:%M", "%d.%m.%Y %H:%M"]
    whole = all(s is None or s.time() == dt.time(0) for s in stamps)
    if whole:
        forms += ["%Y-%m-%d", "%Y%m%d", "%Y/%m/%d", "%d.%m.%Y", "%d-%b-%Y", "%B %d, %Y"]
    days = [s.day for s in stamps if s is not None]
    if max(days) > 12:
        forms += ["%d/%m/%Y %H:%M:%S", "%m/%d/%Y %H:%M:%S"]
    form = str(drawn.rng.choice(forms))
    if drawn.rng.random() < 0.2:
        form = str(
            drawn.rng.choice(["%d/%m/%Y %H:%M:%S", "%m/%d/%Y %H:%M:%S", "%H:%M:%S|%Y %d %m"])
        )
        settings["date_format"] = form
        drawn.fault = None if drawn.fault == "ambiguous dates" else drawn.fault
    if drawn.fault == "ambiguous dates":
        form = "%d/%m/%Y %H:%M:%S"
        if max(days) > 12 or all(s is None or s.day == s.month for s in stamps):
            drawn.fault = None
    return [s and s.strftime(form) for s in stamps]


def _value_column(drawn: Drawn, cells: list) -> Column:
    if drawn.fault == "text target":
        return Column(["n/a" if cell is None else f"about {cell}" for cell in cells], pa.string())
    types = {
        "float64": (pa.float64(), "float64"), "float32": (pa.float32(), "float32"),
        "int64": (pa.int64(), "int64"), "int32": (pa.int32(), "int32"),
        "large": (pa.int64(), "int64"), "bool": (pa.bool_(), "bool"),
        "decimal": (pa.decimal128(20, 4), "object"),
    }  # fmt: skip
    arrow, pandas = types[drawn.value_type]
    if None in cells and pandas in ("int64", "int32", "bool"):
        pandas = "object"
    return Column(cells, arrow, pandas)


def _to_library(
    drawn: Drawn, columns: dict[Any, Column], time_name: str, settings: dict[str, Any]
) -> Any:
    library = drawn.library
    if library == "pandas":
        table = pd.DataFrame(
            {name: _pandas_series(column, drawn) for name, column in columns.items()}
        )
        return _to_index(drawn, table, time_name, settings)
    arrays = {str(name): _arrow_array(column) for name, column in columns.items()}
    if library == "pandas arrow":
        return pd.DataFrame(
            {n: pd.Series(array, dtype=pd.ArrowDtype(array.type)) for n, array in arrays.items()}
        )
    if library == "pandas nullable":
        return pa.table(arrays).to_pandas(types_mapper=_nullable, date_as_object=True)
    table = pa.table(arrays)
    if library == "pyarrow":
        return table
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame.lazy() if library == "polars lazy" else frame


def _arrow_array(column: Column) -> pa.Array:
    if pa.types.is_dictionary(column.arrow):
        return pa.array(column.cells, pa.string()).dictionary_encode()
    if pa.types.is_timestamp(column.arrow) and column.arrow.tz:
        cells = [cell and cell.astimezone(dt.UTC) for cell in column.cells]
        return pa.array(cells, column.arrow)
    return pa.array(column.cells, column.arrow)


def _nullable(kind: pa.DataType) -> Any:
    names = {
        pa.int64(): pd.Int64Dtype(), pa.int32(): pd.Int32Dtype(), pa.int16(): pd.Int16Dtype(),
        pa.int8(): pd.Int8Dtype(), pa.float64(): pd.Float64Dtype(), pa.float32():
        pd.Float32Dtype(), pa.bool_(): pd.BooleanDtype(), pa.string(): pd.StringDtype(),
    }  # fmt: skip
    return names.get(kind)


def _pandas_series(column: Column, drawn: Drawn) -> pd.Series:
    if column.pandas and column.pandas.startswith("datetime64"):
        zone = drawn.clock.zone if drawn.clock else None
        cells = [cell and (utc(cell) if zone else cell) for cell in column.cells]
        series = pd.Series(np.array(cells, f"M8[{drawn.unit}]"))
        return series.dt.tz_localize("UTC").dt.tz_convert(zone) if zone else series
    if column.pandas is None and None in column.cells:
        return pd.Series(column.cells, dtype=object)
    return pd.Series(column.cells, dtype=column.pandas)


def _to_index(
    drawn: Drawn, table: pd.DataFrame, time_name: str, settings: dict[str, Any]
) -> pd.DataFrame:
    """Put time stamps, or ids and time stamps, into the index of some pandas tables."""
    if drawn.axis not in ("datetime", "zone") or drawn.rng.random() < 0.7:
        return table
    if drawn.layout in ("wide", "single"):
        table = table.set_index(time_name)
        if drawn.rng.random() < 0.5 and "time_col" not in settings:
            table.index.name = None
        return _to_periods(drawn, table)
    if drawn.layout == "long":
        settings["time_col"] = time_name
        return table.set_index([settings.get("id_col", "unique_id"), time_name])
    return table


def _to_periods(drawn: Drawn, table: pd.DataFrame) -> pd.DataFrame:
    """Turn stamps that begin a period of pandas into periods, for some tables."""
    clock, first = drawn.clock, drawn.stamps[0]
    periods = {"s": "s", "min": "min", "h": "h", "D": "D", "MS": "M", "YS": "Y"}
    if clock is None or clock.zone or clock.alias not in periods or drawn.fault:
        return table
    begins = {"D": first.hour == 0, "MS": first.day == 1 and first.hour == 0}
    begins["YS"] = begins["MS"] and first.month == 1
    if not begins.get(clock.alias, True) or drawn.rng.random() < 0.5:
        return table
    return table.set_axis(table.index.to_period(periods[clock.alias]), axis=0)


# ---- checking ---------------------------------------------------------------------------------


def truth(drawn: Drawn) -> list[dict[int, float | None]]:
    """Return the value of each series at each of its steps, None where it was not observed."""
    marks = drawn.settings.get("missing_values", [])
    return [
        {k: None if v is None or v in marks else float(v) for k, v in cells.items()}
        for cells in drawn.cells
    ]


def ends(drawn: Drawn) -> list[int]:
    """Return the last step of each series, after which it is forecast."""
    known = truth(drawn)
    if drawn.layout == "wide":
        rows = known
        if "future" in drawn.settings:
            rows = [{k: v for k, v in cells.items() if v is not None} for cells in known]
        return [max(max(cells) for cells in rows)] * len(known)
    if "future" in drawn.settings:
        return [max(k for k, v in cells.items() if v is not None) for cells in known]
    return [max(cells) for cells in known]


def check_panel(drawn: Drawn, panel: Any) -> str:
    """Compare a panel with what was drawn; return what differs."""
    known, last = truth(drawn), max(ends(drawn))
    first = min(min(cells) for cells in drawn.cells)
    want = drawn.stamps[first : last + 1 + drawn.horizon]
    if drawn.clock is not None and drawn.clock.zone is not None:
        want = [local(s) if panel.axis.wall else utc(s) for s in want]
    times = want if drawn.clock is None else [nanoseconds(stamp) for stamp in want]
    length = last + 1 - first
    if panel.times.tolist() != times[:length]:
        return f"times: {panel.times.tolist()[:3]} … instead of {times[:3]} …"
    ahead = panel.freq.future(int(panel.times[-1]), drawn.horizon).tolist()
    if ahead != times[length:]:
        return f"future times: {ahead} instead of {times[length:]}"
    if sorted(map(repr, panel.ids)) != sorted(map(repr, drawn.ids)):
        return f"ids: {panel.ids} instead of {drawn.ids}"
    for k, name in enumerate(drawn.ids):
        column = panel.ids.index(name)
        for step in range(first, last + 1):
            value = known[k].get(step)
            if bool(panel.observed[step - first, column]) != (value is not None):
                return f"observed: {name!r} at step {step}"
            got = float(panel.values[step - first, column])
            # Arrow divides the digits of a decimal, which may be one bit off.
            bit = math.ulp(got) if drawn.value_type == "decimal" else 0
            if value is not None and abs(got - value) > bit:
                return f"value: {name!r} at step {step}: {got!r} instead of {value!r}"
        for role, names in (("past", panel.past_names), ("future", panel.future_names)):
            for i, covariate in enumerate(names):
                placed = getattr(panel, role)
                for step, value in drawn.covariates[covariate][k].items():
                    inside = first <= step < first + len(placed)
                    if value is None or (role == "past" and step > last) or not inside:
                        continue
                    if placed[step - first, column, i] != value:
                        return f"{role} covariate {covariate!r} of {name!r} at step {step}"
    return ""


def as_list(column: Any) -> list:
    """Return the cells of a column of any library."""
    for method in ("to_pylist", "to_list", "tolist"):
        if hasattr(column, method):
            return getattr(column, method)()
    raise TypeError(type(column))


def read_stamp(drawn: Drawn, cell: Any) -> Any:
    """Return a stamp of a forecast as the oracle writes it."""
    if isinstance(cell, str):
        cell = dt.datetime.fromisoformat(cell)
    if drawn.clock is None:
        return int(cell)
    if isinstance(cell, int | np.integer):
        if drawn.axis in DIGITS:
            return dt.datetime.strptime(str(cell), DIGITS[drawn.axis])
        size = {"s": 10**6, "ms": 10**3, "us": 1}.get(drawn.unit)
        micro = int(cell) * size if size else int(cell) // 1000
        return dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=micro)
    if isinstance(cell, pd.Timestamp):
        cell = cell.to_pydatetime()
    if not isinstance(cell, dt.datetime):
        return dt.datetime.combine(cell, dt.time())
    return cell


def check_forecast(drawn: Drawn, model: Forecaster, rows: Any, period: int) -> str:
    """Compare a forecast of the last season, ``period`` steps, with the oracle's."""
    kind = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.Table}
    library = drawn.library.split()[0]
    if not isinstance(rows, kind[library]):
        return f"type: {type(rows)} instead of a table of {library}"
    id_col = model.id_col if isinstance(model.id_col, list | tuple) else [model.id_col]
    columns = list(rows.column_names if library == "pyarrow" else rows.columns)
    if columns[: len(id_col)] != list(id_col):
        return f"columns: {columns}"
    cells = {name: as_list(rows[name]) for name in columns}
    *_, time_name, value_name = columns
    names = list(zip(*(cells[name] for name in id_col), strict=True))
    names = [tuple(map(_plain, n)) if len(id_col) > 1 else _plain(n[0]) for n in names]
    found: dict[Any, list] = {}
    for name, stamp, value in zip(names, cells[time_name], cells[value_name], strict=True):
        found.setdefault(name, []).append((read_stamp(drawn, stamp), value))
    if sorted(map(repr, found)) != sorted(map(repr, drawn.ids)):
        return f"ids: {list(found)} instead of {drawn.ids}"
    known, last = truth(drawn), ends(drawn)
    for k, name in enumerate(drawn.ids):
        want = drawn.stamps[last[k] + 1 : last[k] + 1 + drawn.horizon]
        got = [stamp for stamp, _ in found[name]]
        if got != want or [str(s.tzinfo) for s in got if drawn.clock] != [
            str(s.tzinfo) for s in want if drawn.clock
        ]:
            return f"stamps of {name!r}: {got} instead of {want}"
        wrong = _check_values(drawn, known[k], last[k], [value for _, value in found[name]], period)
        if wrong:
            return f"{name!r}: {wrong}"
    return ""


def _plain(cell: Any) -> Any:
    if isinstance(cell, np.generic):
        return cell.item()
    return cell.date() if isinstance(cell, dt.datetime) else cell


def _check_values(
    drawn: Drawn, cells: dict[int, float | None], last: int, got: list, period: int
) -> str:
    window = {k: v for k, v in cells.items() if v is not None and k > last - LOOKBACK}
    spread = float(np.std([v for v in cells.values() if v is not None]))
    for h, value in enumerate(got):
        step = last - period + 1 + h % period
        while step not in window and step > last - LOOKBACK:
            step -= period
        if step not in window:
            continue  # the mean of the window stands in
        wanted = window[step]
        if value is None or abs(value - wanted) > 1e-4 * spread + 1e-6 * abs(wanted) + 1e-9:
            return f"step {h + 1} is {value} instead of {wanted}"
    return ""


def run(number: int, folder: Path | None = None) -> Outcome:
    """Draw, write, read and check one table; every third goes through a forecast too."""
    drawn = draw(number)
    table, settings, _ = write(drawn)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", DataWarning)
        try:
            wrong = check_panel(drawn, to_panel(table, **settings))
            if not wrong and number % 3 == 0 and drawn.fault is None:
                wrong = forecast(drawn, table, settings)
        except FighterError as error:
            kind = "refused" if drawn.fault else "needless refusal"
            return Outcome(drawn.group, kind, place(error))
        except Exception as error:
            return Outcome(drawn.group, "exception", place(error))
    if drawn.fault:
        return Outcome(drawn.group, "wrong", "was not refused")
    return Outcome(drawn.group, "wrong" if wrong else "right", wrong)


def forecast(drawn: Drawn, table: Any, settings: dict[str, Any]) -> str:
    """Forecast the table by its last value or its last season, and check every row."""
    period = int(drawn.rng.choice([1, 1, 2, 4]))
    model = Forecaster(
        drawn.horizon, LOOKBACK, model="repeat" if period == 1 else "naive", verbose=False,
        device="cpu", frame=Frame(cycle=period if period > 1 else None, bounds=False), **settings,
    )  # fmt: skip
    model.fit(table)
    rows = model.predict() if drawn.rng.random() < 0.5 else model.predict(table)
    return check_forecast(drawn, model, rows, period)


SUITE = Suite("tables", run, cases=20_000)
