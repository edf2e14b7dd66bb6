"""Hostile tables: odd cells, names and settings, in any column. Fighter may only read or refuse."""

import datetime as dt
import decimal
import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

from fighter import FighterError, Forecaster
from fighter.data import to_panel
from fighter.forecasting.config import Frame
from tests.fuzz.runner import Outcome, Suite, place


class _Odd:
    """An object that is nothing a table should hold."""

    __hash__ = None  # type: ignore[assignment]


CELLS: tuple[Any, ...] = (
    None, math.nan, math.inf, -math.inf, 1e300, -1e300, 5e-324, 10**400, -(10**30), 2**63, -(2**63),
    2**64 - 1, 2**53 + 1, -0.0, True, "", " ", "NaN", "inf", "1e5", "1,5", "\x00", "日本",
    "a" * 10_000, "<script>", "2020-13-45", "0000-00-00", "9999-12-31", b"bytes",
    (), (1, 2), [1], {"a": 1}, {1},
    1 + 2j, decimal.Decimal("NaN"), decimal.Decimal("sNaN"), decimal.Decimal("1e400"),
    decimal.Decimal("Infinity"), dt.datetime.min, dt.datetime.max, dt.date.min, dt.date.max,
    dt.timedelta(days=1), dt.time(12), dt.datetime(2020, 1, 1, tzinfo=dt.UTC), pd.NaT, pd.NA,
    np.datetime64("NaT"), np.float16(1), np.array([1, 2]), object, _Odd(), range(3), Ellipsis,
)  # fmt: skip
NAMES: tuple[Any, ...] = (
    "", " ", "unique_id", "ds", "y", "cutoff", "Fighter", "RepeatLast", "Unnamed: 0", "\x00",
    "日本", "a" * 5_000, 1, 1.5, None, ("a", "b"), math.nan, True, dt.date(2020, 1, 1),
    b"y", "index",
)  # fmt: skip
SETTINGS: tuple[Any, ...] = (
    None, "", " ", "y", "ds", "unique_id", "nothing", 0, -1, 1, 1.5, math.nan, math.inf, True, [],
    ["y"], [None], [["y"]], ("ds", "ds"), {"y": 1}, {"y"}, b"y", object(), "1" * 30 + "D", "0D",
    "D-", "B", "MS", "-1h", "h" * 999, "99999999999999999999h", 2**63, 10**30, "W-XXX", "%", "%Y",
    [-9999], [10**400], [math.nan], ["-9999"], np.array([1.0]), pd.Series([1.0]), range(3), "1970",
)  # fmt: skip
ARGUMENTS = ("id_col", "time_col", "target_col", "freq", "past", "future", "missing_values")
KINDS = ("cell", "cells", "names", "settings", "types", "shape", "extremes")


def draw(number: int) -> tuple[str, Any, dict[str, Any]]:
    """Draw the table and the settings of a case, and name its sort."""
    rng = np.random.default_rng([7, number])
    kind, settings = str(rng.choice(KINDS)), {}
    rows, long = 30, bool(rng.random() < 0.6)
    times: Any = pd.date_range("2020-01-01", periods=rows, freq=str(rng.choice(["h", "D", "MS"])))
    columns: dict[Any, list] = {"ds": list(times.to_pydatetime())}
    if rng.random() < 0.3:
        columns["ds"] = list(range(rows))
    columns["y"] = rng.normal(size=rows).tolist()
    columns["x"] = rng.normal(size=rows).tolist()
    if long:
        columns = {name: cells * 2 for name, cells in columns.items()}
        columns = {"unique_id": ["a"] * rows + ["b"] * rows, **columns}
    if rng.random() < 0.4:
        settings["past"] = ["x"]
    names = list(columns)

    def pick(things: tuple[Any, ...]) -> Any:
        return things[int(rng.integers(len(things)))]

    if kind in ("cell", "cells"):
        name, cell = pick(tuple(names)), pick(CELLS)
        count = 1 if kind == "cell" else int(rng.integers(2, len(columns[name]) + 1))
        for i in rng.permutation(len(columns[name]))[:count]:
            columns[name][int(i)] = cell
    elif kind == "names":
        old, new = pick(tuple(names)), pick(NAMES)
        columns = {new if name == old else name: cells for name, cells in columns.items()}
        if rng.random() < 0.5:
            settings[pick(ARGUMENTS[:3])] = new
    elif kind == "settings":
        for _ in range(int(rng.integers(1, 3))):
            settings[pick(ARGUMENTS)] = pick(SETTINGS)
    elif kind == "types":
        name = pick(tuple(names))
        columns[name] = [pick(CELLS) for _ in columns[name]]
    elif kind == "extremes":
        _make_extreme(rng, columns)
    table = _to_library(rng, columns)
    if kind == "shape":
        table = _misshapen(rng, columns, table)
    return kind, table, settings


def _make_extreme(rng: np.random.Generator, columns: dict[Any, list]) -> None:
    """Scale the values, or move the stamps, to where numbers end."""
    length = len(columns["y"])
    if rng.random() < 0.5:
        scale = float(10.0 ** rng.integers(-320, 308))
        columns["y"] = [value * scale for value in columns["y"]]
    else:
        first = int(rng.choice([2**63 - 40, -(2**63), 2**62, 10**18, 2**31 - 20, 2**53]))
        columns["ds"] = [min(first + k % 30, 2**63 - 1) for k in range(length)]


def _to_library(rng: np.random.Generator, columns: dict[Any, list]) -> Any:
    """Return the columns as a table of a library that takes them, else of pandas."""
    library = str(rng.choice(["pandas", "pandas object", "polars", "pyarrow", "lazy"]))
    if not library.startswith("pandas"):
        try:
            table = pa.table({name: pa.array(cells) for name, cells in columns.items()})
            if library == "pyarrow":
                return table
            frame = pl.from_arrow(table)
            return frame.lazy() if library == "lazy" else frame
        except (TypeError, ValueError, OverflowError, pa.ArrowException, pl.exceptions.PolarsError):
            pass
    kind = object if library == "pandas object" else None
    made = {}
    for name, cells in columns.items():
        series = pd.Series([None] * len(cells), dtype=object)
        for i, cell in enumerate(cells):
            series.iat[i] = cell
        try:
            made[name] = series if kind else series.infer_objects()
        except (TypeError, ValueError, OverflowError):
            made[name] = series
    table = pd.DataFrame(dict(enumerate(made.values())))
    table.columns = pd.Index(list(made), dtype=object, tupleize_cols=False)
    return table


def _misshapen(rng: np.random.Generator, columns: dict[Any, list], table: Any) -> Any:
    """Return something that is hardly a table."""
    frame = pd.DataFrame({"ds": columns["ds"], "y": columns["y"]})
    shapes = (
        None, 1, "table.csv", [], {}, columns, [1, 2, 3], np.zeros((3, 2)), frame.y, frame.iloc[:0],
        frame.iloc[:1], frame.iloc[:, :0], frame[["y"]], frame[["ds"]], frame.T,
        frame.set_index("y"), pd.concat([frame, frame], axis=1),
        pd.concat([frame] * 2), pl.DataFrame(), pa.table({}),
        pl.LazyFrame(), frame.groupby("ds"), object(), frame.set_index(["ds", "y"]),
        frame.rename_axis("ds"), pd.DataFrame(np.zeros((3, 3)), columns=pd.MultiIndex.from_product(
        [["a"], [1, 2, 3]])), frame.assign(z=[[1]] * len(frame)), iter([1]), frame.to_numpy(),
        frame.assign(y=frame.y.astype("category")), frame.assign(ds=frame.ds.astype(str)),
        frame.assign(ds=pd.Categorical(frame.ds)), frame.assign(y=frame.y.astype(str)),
    )  # fmt: skip
    return shapes[int(rng.integers(len(shapes)))]


def run(number: int, _: Path | None = None) -> Outcome:
    """Read a hostile table, and forecast what was read."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of pandas, while the table is made
        kind, table, settings = draw(number)
        warnings.simplefilter("error", RuntimeWarning)
        try:
            panel = to_panel(table, **settings)
            wrong = _check(panel)
            if not wrong and number % 2 == 0:
                wrong = _forecast(table, settings)
        except FighterError as error:
            return Outcome(kind, "refused", place(error))
        except Exception as error:
            return Outcome(kind, "exception", place(error))
    return Outcome(kind, "wrong" if wrong else "right", wrong)


def _check(panel: Any) -> str:
    """Check what every panel promises."""
    if (np.diff(panel.times) <= 0).any():
        return "times do not rise"
    if not np.isfinite(panel.values).all() or not panel.observed.any(axis=0).all():
        return "values that are not finite, or a series without any"
    if len(set(map(repr, panel.ids))) != panel.n_series:
        return f"ids are not distinct: {panel.ids}"
    return ""


def _forecast(table: Any, settings: dict[str, Any]) -> str:
    model = Forecaster(
        2, 4, model="repeat", verbose=False, device="cpu", frame=Frame(cycle=None), **settings
    )
    found = model.fit(table).forecast()
    if not np.isfinite(found.point).all():
        return f"forecasts {found.point.ravel()[:4]}"
    if (found.times[0] <= model.fitted.context.times[0]).any():
        return f"forecasts for {found.times[:, 0]}, before the table begins"
    found.table()
    return ""


SUITE = Suite("hostile", run, cases=8_000)
