import datetime as dt
import json
from dataclasses import asdict
from decimal import Decimal

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fighter.data import Frequency, Scheme, forecast_table, future_values, to_panel
from fighter.data.forecast_table import drop_column, plain_table
from fighter.errors import FighterError

from ..pairs import pairs

CONVERT = {
    "pandas": lambda df: df,
    "polars": pl.from_pandas,
    "pyarrow": lambda df: pa.Table.from_pandas(df, preserve_index=False),
}
BACKENDS = list(CONVERT)
HOURS = pd.date_range("2024-03-30", periods=60, freq="h")


def notes(panel) -> list[tuple[str, str]]:
    """Return the notes of a panel as plain pairs of kind and text."""
    return [(note.kind, str(note)) for note in panel.data_notes]


def long_table(ids=("b", "a"), times=HOURS) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    parts = [
        pd.DataFrame({"unique_id": i, "ds": times, "y": rng.normal(size=len(times))}) for i in ids
    ]
    return pd.concat(parts, ignore_index=True)


# -- reading tables ------------------------------------------------------------------------------


NAMES = ["x", "a", "m"]
CELL = st.sampled_from([None, -3, 5])  # few values, so that repeated rows may be equal
STEP = st.integers(0, 12)  # too few for a series with a row in every third step only
LONG = st.lists(st.tuples(STEP, st.sampled_from(NAMES), CELL), min_size=12, max_size=40)
WIDE = st.lists(st.tuples(STEP, CELL, CELL, CELL), min_size=6, max_size=30)


@pytest.mark.parametrize("backend", BACKENDS)
@settings(max_examples=40)
@given(rows=LONG)
def test_long_tables_agree_with_a_dictionary(backend, rows):
    frame = pd.DataFrame(
        {"unique_id": [name for _, name, _ in rows], "ds": HOURS[[step for step, _, _ in rows]],
         "y": pd.Series([value for _, _, value in rows], dtype="float64")}
    )  # fmt: skip
    check_against_a_dictionary(CONVERT[backend](frame), rows, len(rows))


@pytest.mark.parametrize("backend", BACKENDS)
@settings(max_examples=40)
@given(rows=WIDE)
def test_wide_tables_agree_with_a_dictionary(backend, rows):
    frame = pd.DataFrame({"ds": HOURS[[row[0] for row in rows]]})
    for k, name in enumerate(NAMES):
        frame[name] = pd.Series([row[k + 1] for row in rows], dtype="float64")
    cells = [(row[0], name, row[k + 1]) for row in rows for k, name in enumerate(NAMES)]
    check_against_a_dictionary(CONVERT[backend](frame), cells, len(rows))


def check_against_a_dictionary(table, cells, n_rows):
    """Compare a panel of shuffled rows, with gaps, repeats and empty cells, to a dictionary."""
    expected = {}
    if any(expected.setdefault((step, name), value) != value for step, name, value in cells):
        with pytest.raises(FighterError, match="repeated with other values") as error:
            to_panel(table, freq="h")
        assert error.value.argument == "id_col"
        return
    names = tuple(dict.fromkeys(name for _, name, _ in cells))
    if any(all(v is None for (_, n), v in expected.items() if n == name) for name in names):
        with pytest.raises(FighterError, match="no observed value"):
            to_panel(table, freq="h")
        return
    panel = to_panel(table, freq="h")
    first = min(step for step, _ in expected)
    assert panel.ids == names
    assert panel.length == max(step for step, _ in expected) - first + 1
    for row, column in np.ndindex(panel.values.shape):
        value = expected.get((row + first, names[column]))
        assert panel.observed[row, column] == (value is not None)
        assert panel.values[row, column] == (value or 0.0)
    repeats = n_rows - len(expected) * n_rows // len(cells)
    duplicates = [str(note) for note in panel.data_notes if note.kind == "duplicates"]
    assert [int(text.split()[0]) for text in duplicates] == ([repeats] if repeats else [])


@pytest.mark.parametrize("backend", BACKENDS)
def test_long_and_wide_tables_give_the_same_panel(backend):
    long = long_table()
    wide = long.pivot(index="ds", columns="unique_id", values="y")[["b", "a"]].reset_index()
    one, other = (to_panel(CONVERT[backend](t.rename_axis(columns=None))) for t in (long, wide))
    np.testing.assert_array_equal(one.values, other.values)
    np.testing.assert_array_equal(one.times, other.times)
    assert one.ids == other.ids == ("b", "a")
    assert str(one.freq) == "h"
    assert one.data_notes == other.data_notes == ()


def test_a_single_series_and_renamed_columns():
    single = long_table(["only"]).drop(columns="unique_id")
    assert to_panel(single).ids == ("y",)
    renamed = long_table().rename(
        columns={"unique_id": "item_id", "ds": "timestamp", "y": "target"}
    )
    panel = to_panel(renamed, id_col="item_id", time_col="timestamp", target_col="target")
    assert panel.ids == ("b", "a")
    assert panel.axis.name == "timestamp"


def test_ids_and_times_may_be_in_a_pandas_index():
    wide = long_table().pivot(index="ds", columns="unique_id", values="y")
    expected = to_panel(wide.reset_index().rename_axis(columns=None))
    for table in (wide, wide.rename_axis(index=None), wide.to_period("h")):
        np.testing.assert_array_equal(to_panel(table).values, expected.values)
    indexed = long_table().set_index(["unique_id", "ds"])
    assert to_panel(indexed).ids == ("b", "a")
    assert to_panel(long_table().set_index("unique_id")).ids == ("b", "a")


def test_column_labels_may_be_numbers():
    panel = to_panel(pd.DataFrame({"date": HOURS, 0: 1.0, 1: 2.0}))
    assert panel.ids == (0, 1)


DATES = (
    [["2024-01-01", "2024-01-02", "2024-01-03"], ["2024/01/01", "2024/01/02", "2024/01/03"],
     ["20240101", "20240102", "20240103"], ["01.01.2024", "02.01.2024", "03.01.2024"],
     ["1/14/2024 0:00", "1/15/2024 0:00", "1/16/2024 0:00"],
     ["14/01/2024", "15/01/2024", "16/01/2024"],
     ["2024-01-01T00:00:00Z", "2024-01-02T00:00:00Z", "2024-01-03T00:00:00Z"],
     ["2024-01-01 00:00:00+02:00", "2024-01-02 00:00:00+02:00", "2024-01-03 00:00:00+02:00"],
     ["2024-01-01T00:00:00.500", "2024-01-02T00:00:00.500", "2024-01-03T00:00:00.500"]]
)  # fmt: skip


@pytest.mark.parametrize(
    ("texts", "backend"),
    [*((texts, "pandas") for texts in DATES), (DATES[3], "polars"), (DATES[7], "pyarrow")],
)
def test_dates_in_text_are_parsed(texts, backend):
    table = CONVERT[backend](pd.DataFrame({"date": texts, "v": [1.0, 2.0, 3.0]}))
    panel = to_panel(table)
    assert str(panel.freq) == "D"
    day = pd.to_datetime(texts[0], dayfirst=texts[0].startswith("14"), utc=True).tz_localize(None)
    assert panel.times[0] == day.as_unit("ns").value


@pytest.mark.parametrize(
    ("times", "message"),
    [(["01/02/2024", "02/02/2024"], "'01/02/2024' in row 0 .* day and month"),
     (["soon", "later"], "'soon' in row 0 is not a date"),
     (["2024-02-30", "2024-02-29"], "'2024-02-30' in row 0 is not a date that exists"),
     (["2024-01-01", ""], "1 of 2 cells are empty, the first in row 1"),
     ([1.5, 2.0], "such as 1.5 in row 0; needs time stamps, dates or integers"),
     ([True, "x"], "holds bool, str such as 'True'"),
     (np.array(["1500-01-01", "1500-01-02"], "M8[s]"), "1500-01-01.* the years 1678 to 2261")],
)  # fmt: skip
def test_unreadable_times_are_refused(times, message):
    with pytest.raises(FighterError, match=message) as error:
        to_panel(pd.DataFrame({"date": times, "v": [1.0, 2.0]}))
    assert (error.value.argument, error.value.value) == ("time_col", "date")


@pytest.mark.parametrize("backend", BACKENDS)
def test_all_kinds_of_numbers_are_read(backend):
    table = pd.DataFrame(
        {"ds": HOURS[:4], "b": [True, False, True, True], "i": np.arange(4, dtype=np.int8)}
    )
    table["n"] = pd.array([1, None, 3, 4], dtype="Int64")
    table["d"] = [Decimal("1.5"), Decimal("2"), None, Decimal("4")]
    panel = to_panel(CONVERT[backend](table))
    np.testing.assert_array_equal(
        panel.values, [[1, 0, 1, 1.5], [0, 1, 0, 2], [1, 2, 3, 0], [1, 3, 4, 4]]
    )
    assert panel.observed.sum() == 14


@pytest.mark.parametrize("backend", BACKENDS)
def test_sentinels_gaps_and_ends_are_noted(backend):
    table = long_table().drop(index=[5, 6, 118, 119])
    table.loc[10:12, "y"] = -9999
    panel = to_panel(CONVERT[backend](table), missing_values=[-9999])
    assert notes(panel) == [
        ("gaps", "2 missing time stamps in 1 series ('b' 2; first: 'b' at 2024-03-30 05:00); "
         "treated as not observed."),
        ("unequal", "1 series end before the last time stamp, 'a' by 2 steps; each is forecast "
         "from its own end."),
        ("missing", "3 values of -9999 in 1 series ('b' 3; first: 'b' at 2024-03-30 10:00); "
         "treated as not observed."),
    ]  # fmt: skip
    assert (~panel.observed).sum() == 7
    undeclared = to_panel(CONVERT[backend](table))
    kind, text = undeclared.data_notes[-1]
    assert kind == "sentinel"
    assert text.startswith("3 values of -9999 in 1 series ('b' 3; first: 'b' at 2024-03-30 10:00)")
    assert undeclared.observed.sum() == panel.observed.sum() + 3


def test_a_sentinel_in_single_precision_is_recognised():
    table = pd.DataFrame({"ds": HOURS[:3], "v": np.array([1, -999.9, 2], np.float32)})
    assert to_panel(table, missing_values=[-999.9]).observed[:, 0].tolist() == [True, False, True]


def test_infinite_values_are_refused_unless_declared_missing():
    table = long_table()
    table.loc[7, "y"] = np.inf
    with pytest.raises(FighterError, match=r"1 infinite value .*'b' at 2024-03-30 07:00"):
        to_panel(table)
    assert not to_panel(table, missing_values=[np.inf]).observed[7, 0]


def test_a_constant_series_needs_no_note():
    assert to_panel(pd.DataFrame({"ds": HOURS, "v": 7.0})).data_notes == ()


def test_an_index_written_by_pandas_is_not_a_series():
    wide = pd.DataFrame(
        {"date": pd.date_range("2024", periods=6, freq="h"), "a": 1.5, "Unnamed: 9": range(6)}
    )
    ids = ("a", "Unnamed: 9")  # not a name that pandas gives to an index
    for numbers in (range(6), (0, 1, 4, 5, 8, 9)):  # rows were dropped
        panel = to_panel(wide.assign(**{"Unnamed: 0": numbers}))
        assert panel.ids == ids
        (note,) = panel.data_notes
        assert note.kind == "unused"
        assert "'Unnamed: 0'" in str(note)
    assert len(to_panel(wide.assign(**{"Unnamed: 0": [0.5] * 6})).ids) == 3
    polars = pl.DataFrame({"": range(6), "date": wide["date"].to_numpy(), "a": [1.5] * 6})
    assert to_panel(polars).ids == ("a",)
    # It may also be the time.
    alone = pd.DataFrame({"Unnamed: 0": range(6), "a": 1.5})
    assert to_panel(alone, time_col="Unnamed: 0").ids == ("a",)


def test_unused_columns_are_noted():
    table = long_table().assign(temperature=1.0)
    assert notes(to_panel(table)) == [
        ("unused",
         "Columns not used: 'temperature'; name them as past or future covariates to use them.")
    ]  # fmt: skip


@pytest.mark.parametrize("backend", BACKENDS)
def test_time_zones_are_kept_or_converted(backend):
    zone = "Europe/Berlin"
    hours = pd.date_range("2024-03-30", periods=60, freq="h", tz=zone)  # over a change of clocks
    panel = to_panel(CONVERT[backend](pd.DataFrame({"ds": hours, "v": 1.0})))
    assert str(panel.freq) == "h"
    assert panel.length == 60
    assert notes(panel) == [
        ("zone", f"Time stamps of zone {zone} are converted to UTC, and forecasts come back in the "
         "zone.")
    ]  # fmt: skip
    days = pd.date_range("2024-03-28", periods=6, freq="D", tz=zone)
    panel = to_panel(CONVERT[backend](pd.DataFrame({"ds": days, "v": 1.0})))
    assert str(panel.freq) == "D"
    assert panel.length == 6
    assert panel.axis.wall
    assert notes(panel) == [("zone", f"Time stamps of zone {zone} are kept on the local clock.")]


# -- ids that are not named, or over several columns ---------------------------------------------

DAYS = pd.date_range("2013-01-01", periods=40)


def sales(**columns) -> pd.DataFrame:
    """Sales of 3 stores and 5 items a day, whose ids are numbers."""
    rng = np.random.default_rng(0)
    keys = [(day, store, item) for day in DAYS for store in (1, 2, 3) for item in range(1, 6)]
    table = pd.DataFrame(keys, columns=["date", "store", "item"])
    return table.assign(sales=rng.poisson(20, len(keys)), **columns)


@pytest.mark.parametrize("backend", BACKENDS)
def test_id_columns_are_recognised(backend):
    table = sales(year=2013, size=lambda t: t["store"] * 10, town=lambda t: "T" + str(t["item"][0]))
    panel = to_panel(CONVERT[backend](pd.concat([table, table.tail(2)], ignore_index=True)))
    assert (panel.id_cols, panel.target_col) == (("store", "item"), "sales")
    assert panel.ids[:2] == ((1, 1), (1, 2))
    assert str(panel.ids[1]) == "1 / 2"
    assert panel.observed.sum() == len(table)
    kinds = [note.kind for note in panel.data_notes]
    assert kinds == ["layout", "duplicates", "unused"]
    named = to_panel(
        CONVERT[backend](table), id_col=["store", "item"], time_col="date", target_col="sales"
    )
    assert named.ids == panel.ids
    np.testing.assert_array_equal(named.values, panel.values)
    later = to_panel(CONVERT[backend](table.tail(150)), scheme=panel.scheme)
    assert (later.ids, later.length) == (panel.ids, 10)


def test_ids_are_recognised_beside_dates_as_objects():
    table = sales().assign(date=lambda t: t["date"].dt.date, sales=1)
    assert to_panel(table.assign(sales=lambda t: t["item"] * 2.5)).values.shape == (40, 15)
    assert to_panel(table, target_col="sales").values.shape == (40, 15)


def test_one_text_column_names_the_series():
    table = long_table().rename(columns={"unique_id": "zone", "y": "load"})
    panel = to_panel(table)
    assert (panel.ids, panel.id_cols, panel.target_col) == (("b", "a"), ("zone",), "load")


@pytest.mark.parametrize(
    ("table", "arguments", "argument", "named"),
    [
        (sales(price=lambda t: np.sqrt(t.index)), {}, "target_col", ["sales", "price"]),
        (sales(), {"id_col": "store", "target_col": "sales"}, "id_col", ["store", "item"]),
        (sales(), {"id_col": ["store", "shelf"]}, "id_col", ["item"]),
        (sales(), {"drop": ["item"]}, "id_col", ["rows 0 and 1"]),
        (long_table().drop(columns="unique_id"), {}, "id_col", ["rows 0 and 60"]),
    ],
)
def test_unclear_ids_are_refused(table, arguments, argument, named):
    with pytest.raises(FighterError) as error:
        to_panel(table, **arguments)
    assert error.value.argument == argument
    for name in named:
        assert name in error.value.reason


def test_a_repeated_hour_with_other_values_is_refused():
    """The flag differs in these rows, but it does not name series."""
    table = pd.DataFrame({"ds": HOURS, "a": np.arange(60.0), "flag": [0, 1] * 30})
    table = pd.concat([table, table.iloc[[7]].assign(a=0.5, flag=0)], ignore_index=True)
    with pytest.raises(FighterError, match=r"rows 7 and 60 .* 7 and 0\.5 in 'a'") as error:
        to_panel(table)
    assert error.value.argument == "id_col"


@pytest.mark.parametrize("freq", ["30min", "h"])
@pytest.mark.parametrize(
    ("zone", "start"), [("Europe/Berlin", "2023-10-20"), ("Australia/Sydney", "2023-03-25")]
)
def test_the_hour_in_which_daylight_saving_ends_may_repeat(zone, start, freq):
    times = pd.date_range(start, periods=800 * 24, freq=freq, tz=zone).tz_localize(None)
    df = pd.DataFrame({"ds": times, "y": np.arange(float(len(times)))})
    panel = to_panel(df)
    repeats = times.duplicated()
    assert panel.observed.sum() == len(times) - repeats.sum()
    assert any("daylight saving" in str(note) for note in panel.data_notes)
    np.testing.assert_array_equal(panel.values[panel.observed], df["y"][~repeats])
    with pytest.raises(FighterError) as error:
        to_panel(df.assign(ds=times + pd.Timedelta("12h")))
    assert error.value.argument == "id_col"


def test_two_stamps_that_fall_on_one_week_are_quoted():
    times = pd.date_range("2024-01-07", periods=40, freq="W").insert(31, pd.Timestamp("2024-08-14"))
    with pytest.raises(FighterError, match="2024-08-14") as error:
        to_panel(pd.DataFrame({"ds": times, "y": np.arange(41.0)}))
    assert error.value.argument == "freq"


def test_repeated_rows_of_the_future_must_agree():
    panel = to_panel(long_table().assign(f=1.0), future="f")
    later = pd.date_range(HOURS[-1], periods=3, freq="h")[1:]
    rows = pd.DataFrame({"ds": [*later, later[0]], "f": [1.0, 2.0, 1.0]})
    assert future_values(panel, rows, 2)[:, 0, 0].tolist() == [1, 2]
    with pytest.raises(FighterError, match="rows 0 and 2") as error:
        future_values(panel, rows.assign(f=[1.0, 2.0, 3.0]), 2)
    assert error.value.argument == "future"


@pytest.mark.parametrize("backend", BACKENDS)
def test_several_id_columns_come_out_again(backend):
    table = CONVERT[backend](sales(item=lambda t: t["item"].astype(np.int16)))
    panel = to_panel(table)
    like = panel.like
    ahead = panel.freq.future(panel.times[-1], 2)
    out = forecast_table(
        like, panel.ids, ahead, {"sales": np.ones((2, 15))}, axis=panel.axis, id_cols=panel.id_cols
    )
    schemas = [dict(nw.from_native(t).schema) for t in (table, out)]
    assert list(schemas[1]) == ["store", "item", "date", "sales"]
    assert all(schemas[0][name] == schemas[1][name] for name in ("store", "item", "date"))


def test_several_id_columns_in_other_tables():
    static = pd.DataFrame({"item": [1, 2, 1, 2], "store": [1, 1, 2, 2], "size": [1, 2, 3, 4]})
    table = sales(promo=1.0).query("store < 3 and item < 3")
    names = {"id_col": ("store", "item"), "target_col": "sales", "future": "promo"}
    panel = to_panel(table, static=static, **names)
    assert panel.static[:, 0].tolist() == [1, 2, 3, 4]
    ahead = static.assign(date=DAYS[-1] + pd.Timedelta("1D"), promo=static["size"] * 2.0)
    assert future_values(panel, ahead[::-1], 1)[0, :, 0].tolist() == [2, 4, 6, 8]
    for change, argument in ((static.drop(columns="store"), "id_col"), (static[:3], "static")):
        with pytest.raises(FighterError) as error:
            to_panel(table, static=change, **names)
        assert error.value.argument == argument
    with pytest.raises(FighterError) as error:
        future_values(panel, ahead.drop(columns="store"), 1)
    assert error.value.argument == "id_col"


# -- columns that are left out -------------------------------------------------------------------


def test_parts_of_the_time_stamp_are_not_series():
    days = pd.date_range("2023-11-20", periods=60)
    parts = {
        "year": days.year, "Month": days.month, "day": days.day, "dow": days.day_of_week,
        "weekday": days.day_of_week + 1, "week": days.isocalendar().week.to_numpy(int),
        "quarter": days.quarter.astype(float), "day_of_year": days.day_of_year, "index": range(60),
    }  # fmt: skip
    table = pd.DataFrame({"date": days, "a": 1.5, **parts})
    panel = to_panel(table)
    assert panel.ids == ("a",)
    (note,) = panel.data_notes
    assert note.kind == "unused"
    assert all(repr(name) in str(note) for name in parts)
    table.loc[3, list(parts)] = 5  # now they are something else
    assert len(to_panel(table).ids) == 1 + len(parts)
    hours = pd.date_range("2024-01-01", periods=60, freq="h", tz="Europe/Berlin")
    assert to_panel(pd.DataFrame({"ds": hours, "a": 1.5, "hour": hours.hour})).ids == ("a",)
    assert to_panel(pd.DataFrame({"ds": hours, "hour": hours.hour})).ids == ("hour",)  # alone


@pytest.mark.parametrize("ids", [(), ("unique_id",), ("item",)])
@pytest.mark.parametrize(
    ("part", "other"),
    [("week", "year"), ("year", "week"), ("Month", "year"), ("year", "Month")],
)
def test_columns_that_tell_the_time_together_are_to_be_joined(ids, part, other):
    weeks = pd.date_range("2023-01-02", periods=104, freq="W-MON")
    table = pd.DataFrame({"year": weeks.year, "week": weeks.isocalendar().week.to_numpy(int)})
    if "Month" in (part, other):
        months = pd.date_range("2018-01-01", periods=72, freq="MS")
        table = pd.DataFrame({"year": months.year, "Month": months.month})
    table["y"] = np.random.default_rng(0).poisson(5, len(table))
    parts = [table.assign(**dict.fromkeys(ids, name)) for name in ("0001", "0002")[: 1 + len(ids)]]
    together = rf"'{part}' and '{other}' tell the time together; join"
    with pytest.raises(FighterError, match=together):
        to_panel(pd.concat(parts), time_col=part, id_col=ids or "unique_id")
    if not ids:
        assert len(to_panel(table, time_col=part, id_col=other).ids) == table[other].nunique()


def test_columns_are_chosen_and_dropped():
    table = pd.DataFrame({"ds": HOURS, "a": 1.0, "b": 2.0, "t": 3.0, "remark": "fine"})
    assert to_panel(table, columns=["b"]).ids == ("b",)
    assert to_panel(table, columns=["b"], future=["t"]).ids == ("b",)
    panel = to_panel(table, drop=["remark", "t"])
    assert panel.ids == ("a", "b")
    for argument in ("columns", "drop"):
        with pytest.raises(FighterError) as error:
            to_panel(table, **{argument: ["remarks"]})
        assert (error.value.argument, error.value.value) == (argument, "remarks")
    later = table.drop(columns="remark").assign(note="new", c=4.0)
    again = to_panel(later, drop=["remark", "t"], scheme=panel.scheme)
    assert again.ids == ("a", "b")
    assert "'note', 'c'" in str(again.data_notes[-1])
    assert to_panel(later[["ds", "c"]], scheme=panel.scheme).ids == ("c",)  # other series


@pytest.mark.parametrize("cell", ["high", {}, 10**400, Decimal("sNaN")])
def test_a_column_that_is_not_numeric_is_named(cell):
    table = pd.DataFrame(
        {"ds": HOURS[:3], "a": 1.0, "b": pd.Series([1.5, cell, 2.0], dtype=object)}
    )
    with pytest.raises(FighterError, match=r"row 1 of column 'b' .*drop"):
        to_panel(table)
    with pytest.raises(FighterError, match=r"'b'.*drop"):
        to_panel(table.assign(b=np.nan))


# -- numbers as text -----------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["1,234.5", "12", "-1,000,000"], [1234.5, 12, -1e6]),
        (["1.234,5", "12", "0,25"], [1234.5, 12, 0.25]),
        (["1 234", "12", "1 000,5"], [1234, 12, 1000.5]),
        (["12%", "13 %", "1.5%"], [12, 13, 1.5]),
        (["$1,200.50", "-$3", "$0"], [1200.5, -3, 0]),
        (["1.5", "-", "n.a."], [1.5, None, None]),
        (["1.125", "NULL", "#N/A"], [1.125, None, None]),
        (["1e3", " 2 ", ".5"], [1000, 2, 0.5]),
    ],
)
def test_numbers_are_read_from_text(backend, cells, values):
    panel = to_panel(CONVERT[backend](pd.DataFrame({"ds": [1, 2, 3], "y": cells})))
    np.testing.assert_array_equal(panel.observed[:, 0], [v is not None for v in values])
    np.testing.assert_allclose(panel.values[:, 0], [v or 0.0 for v in values])
    plain = cells == ["1e3", " 2 ", ".5"]
    assert ("text" in {note.kind for note in panel.data_notes}) != plain


@pytest.mark.parametrize(
    ("cells", "row"),
    [(["1,234", "12"], 0), (["5", "x"], 1), (["1%", "2"], 0), (["1_000", "2"], 0),
     (["(5)", "2"], 0), (["1,23,4", "2"], 0), (["1.2.3", "2"], 0)],
)  # fmt: skip
def test_unclear_numbers_are_refused(cells, row):
    with pytest.raises(FighterError, match=f"row {row} of column 'y'") as error:
        to_panel(pd.DataFrame({"ds": [1, 2], "y": cells}))
    assert error.value.argument == "target_col"
    assert repr(cells[row]) in error.value.reason


def test_text_covariates_are_refused():
    table = long_table().assign(holiday=["", "Easter"] * 60)
    with pytest.raises(FighterError, match=r"row 1 .*encode categories") as error:
        to_panel(table, future="holiday")
    assert error.value.argument == "future"


# -- refused tables and arguments ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "argument", "message"),
    [
        (lambda t: t.iloc[:0], None, "empty: 0 rows, columns unique_id, ds, y"),
        (lambda t: t.rename(columns={"y": "Y"}).assign(x=1.0), "target_col",
         r"'unique_id', 'ds', 'Y', 'x'\. Did you mean 'Y'\?"),
        (lambda t: t.rename(columns={"ds": "dss"}).astype({"dss": str}), "time_col",
         r"mean 'dss'\?"),
        (lambda t: t.rename(columns={"ds": "stamp"}).astype({"stamp": str}), "time_col",
         r"'stamp', 'y'\. Name the column of the time stamps"),
        (lambda t: t.assign(y="high"), "target_col", "row 0 of column 'y' holds 'high'"),
        (lambda t: t.assign(unique_id=[None, *t["unique_id"][1:]]), "id_col",
         "1 of 120 cells are empty, the first in row 0"),
        (lambda t: t.assign(ds=t["ds"].where(t.index != 3)), "time_col",
         "1 of 120 cells are empty, the first in row 3"),
        (lambda t: t.assign(y=t["y"].where(t["unique_id"] != "a")), None,
         "1 of 2 series have no observed value, 'a'"),
        (lambda t: t.assign(ds=t["ds"].where(t.index % 9 > 0, t["ds"] + pd.Timedelta("30min"))),
         "freq", "14 of 120 time stamps .* grid of 2024-03-30.*: first: 2024-03-30 .* in row 0"),
        (lambda t: pl.Series(t["y"]), None, r"not Series; make it a table with .to_frame\(\)"),
        (lambda t: 7, None, "not int$"),
        (lambda t: "table.csv", None, "name of a file"),
        (lambda t: {"y": [1], "ds": [1, 2]}, None, "not a table"),
        (lambda t: pd.concat([t, t[["y"]]], axis=1), None, "'y' appears more than once"),
        (lambda t: t.set_axis(pd.MultiIndex.from_product([["a"], t.columns]), axis=1), None,
         "several levels"),
        (lambda t: t.rename(columns={"y": 1}).assign(**{"1": 2.0}), None, "1 and '1' are written"),
        (lambda t: t.assign(unique_id=[[1]] * 120), "id_col", "holds list"),
        (lambda t: t.assign(unique_id=[*t["unique_id"][1:], {1}]), "id_col", "holds set"),
        (lambda t: t.assign(unique_id=pd.Series([np.ones(2), "a"] * 60)), "id_col", "ndarray"),
        (lambda t: pa.table({"unique_id": [[1]], "ds": [1], "y": [1]}), "id_col", "holds list"),
        (lambda t: t.assign(ds=pd.Series([{}, 1] * 60)), "time_col", "holds dict"),
        (lambda t: t.assign(ds=pd.Series([Decimal("sNaN"), 1] * 60)), "time_col", "Decimal"),
        (lambda t: t.assign(unique_id=pd.Series([Decimal("sNaN"), 1] * 60)), "id_col", "Decimal"),
        (lambda t: t[["ds"]], None, "no series: besides the time column 'ds' there is nothing"),
        (lambda t: t.drop(columns="unique_id").rename(columns={"y": "v"}).assign(city="Bonn"), None,
         "row 0 of column 'city' holds 'Bonn'.*drop"),
    ],
)  # fmt: skip
def test_a_wrong_table_is_refused(change, argument, message):
    with pytest.raises(FighterError, match=message) as error:
        to_panel(change(long_table()))
    assert error.value.argument == argument


@pytest.mark.parametrize(
    ("arguments", "argument", "message"),
    [
        ({"freq": 1}, "freq", "'ds' holds time stamps; pass a frequency such as 'h'"),
        ({"id_col": "uniqe_id"}, "id_col", "Did you mean 'unique_id'"),
        ({"target_col": "z"}, "target_col", "it has 'unique_id', 'ds', 'y', 't', 'i'$"),
        ({"future": "y"}, "future", "is the target column already"),
        ({"past": ["q"]}, "past", "no such column"),
        ({"future": ["q"]}, "future", "no such column"),
        ({"past": ["t"], "future": ["t"]}, "future", "'t' cannot be both"),
        ({"past": "i"}, "past", "2 rows are infinite, the first is row 3"),
        ({"missing_values": ["NA"]}, "missing_values", "'NA'"),
        ({"missing_values": [10**400]}, "missing_values", "no cell can hold"),
        ({"target_col": ["zz"]}, "target_col", "name of a column"),
        ({"time_col": ["ds"]}, "time_col", "name of a column"),
        ({"id_col": []}, "id_col", "name of a column"),
        ({"id_col": [None]}, "id_col", "name of a column"),
        ({"past": [3]}, "past", "no such column"),
        ({"drop": ["ds"]}, "drop", "time column"),
        ({"target_col": "unique_id"}, "target_col", "id column already"),
        ({"id_col": ["unique_id", "ds"]}, "time_col", "id column already"),
    ],
)
def test_a_wrong_argument_is_refused(arguments, argument, message):
    table = long_table().assign(t=1.0, i=1.0)
    table.loc[[3, 70], "i"] = np.inf
    with pytest.raises(FighterError, match=message) as error:
        to_panel(table, **arguments)
    assert error.value.argument == argument


def test_a_frequency_must_suit_the_table():
    with pytest.raises(FighterError, match="holds integers; pass a frequency such as 1") as error:
        to_panel(pd.DataFrame({"ds": [1, 2, 3], "y": 1.0}), freq="h")
    assert (error.value.argument, error.value.value) == ("freq", "h")
    far = pd.DataFrame({"ds": HOURS.insert(0, pd.Timestamp(0).as_unit("us")), "y": 1.0})
    with pytest.raises(
        FighterError, match=r"1711756800 steps away .* \(1970-01-01 in row 0\)"
    ) as error:
        to_panel(far, freq="s")
    assert (error.value.argument, error.value.value) == ("freq", "s")


def test_an_unclear_time_column_is_refused():
    with pytest.raises(FighterError, match="several columns could be the time, 'p', 'q'") as error:
        to_panel(pd.DataFrame({"p": HOURS, "q": HOURS, "v": 1.0}))
    assert error.value.argument == "time_col"


def test_simple_python_data_is_a_table():
    index = pd.DatetimeIndex(HOURS[:3])
    for table, ids in [
        (pd.Series([1.0, 2.0, 3.0], index), ("y",)),
        (pd.Series([1.0, 2.0, 3.0], index, name="load"), ("load",)),
        ({"ds": list(index), "a": [1, 2, 3]}, ("a",)),
        ([{"ds": stamp, "a": i + 1} for i, stamp in enumerate(index)], ("a",)),
    ]:
        panel = to_panel(table, past=None, missing_values=None)
        assert panel.ids == ids
        assert panel.values[:, 0].tolist() == [1, 2, 3]


def test_unusual_columns_of_numbers():
    big = pa.table({"ds": [1, 2, 3], "y": [2**53 + 1, None, 2]})
    assert to_panel(big).values[:, 0].tolist() == [2.0**53, 0, 2]
    sparse = pd.DataFrame({"ds": [1, 2, 3], "a": pd.arrays.SparseArray([1.0, 0.0, 2.0])})
    assert to_panel(sparse).values[:, 0].tolist() == [1, 0, 2]


def test_ids_in_a_dictionary_of_pyarrow():
    ids = pa.array([0, 0, 1, 1]).dictionary_encode()
    table = pa.table({"unique_id": ids, "ds": [1, 2, 1, 2], "y": [1.0, 2, 3, 4]})
    panel = to_panel(table)
    out = forecast_table(
        panel.like, panel.ids, np.array([3]), {"y": np.ones((1, 2))}, axis=panel.axis
    )
    assert out.schema.field("unique_id").type == ids.type
    assert out["unique_id"].to_pylist() == [0, 1]


# -- covariates ----------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_covariates_of_a_long_table(backend):
    table = long_table().assign(p=np.arange(120.0), f=np.arange(120.0) * 2)
    table.loc[[4, 60], "p"] = np.nan
    panel = to_panel(CONVERT[backend](table), past=["p"], future=["f"])
    assert panel.past.shape == panel.future.shape == (60, 2, 1)
    assert panel.past[4, 0, 0] == 3.0  # the last value is carried forward
    assert np.isnan(panel.past[0, 1, 0])  # no later value is used
    np.testing.assert_array_equal(panel.future[:, 1, 0], np.arange(60, 120) * 2)
    assert notes(panel) == [
        ("missing", "2 empty values of the past covariate 'p' in 2 series ('b' 1, 'a' 1; first: "
         "'a' at 2024-03-30); the last value was carried forward; where none comes before, the "
         "average is taken."),
    ]  # fmt: skip


def test_a_series_without_a_value_of_a_covariate_is_refused():
    table = long_table().assign(p=1.0)
    table.loc[60:, "p"] = np.nan
    with pytest.raises(FighterError, match="series 'a' has no value") as error:
        to_panel(table, past="p")
    assert (error.value.argument, error.value.value) == ("past", "p")


def test_series_of_a_wide_table_share_covariates_without_copies():
    table = pd.DataFrame({"date": HOURS, "a": 1.0, "b": 2.0, "t": np.arange(60.0)})
    table.loc[[5, 6], "t"] = np.nan
    panel = to_panel(table, future=["t"])
    assert panel.ids == ("a", "b")
    assert panel.future.shape == (60, 2, 1)
    assert panel.future.strides[1] == 0
    assert [str(note) for note in panel.data_notes] == [
        "2 empty values of the future covariate 't' (first: 2024-03-30 05:00); "
        "the last value was carried forward."
    ]


@pytest.mark.parametrize("backend", BACKENDS)
def test_future_covariates_are_read_from_a_table(backend):
    table = long_table().assign(f=1.0)
    panel = to_panel(CONVERT[backend](table), future=["f"])
    later = pd.date_range(HOURS[-1], periods=6, freq="h")  # one row too early, two too late
    ahead = pd.concat(
        [pd.DataFrame({"unique_id": i, "ds": later, "f": np.arange(6.0) + k})
         for i, k in (("a", 10), ("b", 20), ("c", 0))]
    ).sample(frac=1, random_state=0)  # fmt: skip
    values = future_values(panel, CONVERT[backend](ahead), 3)
    np.testing.assert_array_equal(values[..., 0], [[21, 11], [22, 12], [23, 13]])
    shared = pd.DataFrame({"ds": later, "f": np.arange(6.0)})
    np.testing.assert_array_equal(
        future_values(panel, CONVERT[backend](shared), 2)[..., 0], [[1, 1], [2, 2]]
    )
    with pytest.raises(
        FighterError, match=r"2 of 12 .* 6 steps .*'f' of series 'b' at 2024-04-01 17:00"
    ) as error:
        future_values(panel, CONVERT[backend](ahead), 6)
    assert error.value.argument == "future"
    with pytest.raises(FighterError, match="no such column") as error:
        future_values(panel, CONVERT[backend](ahead.rename(columns={"f": "g"})), 3)
    assert (error.value.argument, error.value.value) == ("future", "f")
    with pytest.raises(FighterError, match="type integer, the history one of datetime"):
        future_values(panel, CONVERT[backend](shared.assign(ds=np.arange(6))), 3)
    assert future_values(to_panel(long_table()), None, 3).shape == (3, 2, 0)


def test_rows_after_the_last_target_hold_future_covariates():
    table = long_table().assign(f=np.arange(120.0))
    table.loc[table["ds"] >= HOURS[50], "y"] = np.nan
    panel = to_panel(table, future=["f"])
    assert (panel.length, len(panel.future)) == (50, 60)
    assert panel.data_notes == ()
    np.testing.assert_array_equal(future_values(panel, None, 10)[:, 0, 0], np.arange(50, 60))
    with pytest.raises(FighterError, match="at 2024-04-01 12:00"):
        future_values(panel, None, 11)
    assert to_panel(table).length == 60


def test_static_columns():
    static = pd.DataFrame(
        {"unique_id": ["a", "b"], "zone": ["north", "south"], "size": [1, 2], "old": [True, False]}
    )
    panel = to_panel(long_table(), static=static)
    assert panel.static_names == ("zone=north", "zone=south", "size", "old")
    np.testing.assert_array_equal(panel.static, [[0, 1, 2, 0], [1, 0, 1, 1]])
    later = static[static["unique_id"] == "a"]
    again = to_panel(long_table(["a"]), static=later, scheme=panel.scheme)
    np.testing.assert_array_equal(again.static, [[1, 0, 1, 1]])
    for change, argument, message in [
        (later, "static", "no row for 1 of 2 series, 'b'; the ids of the table are 'a'"),
        (pd.concat([static, later]), "static", "more than one row for series 'a'"),
        (static.replace("south", "west"), "static", "'zone' holds 'west', .* 'north', 'south'"),
        (static.assign(size=[None, 1.0]), "static", "'size' has 1 empty"),
        (static.drop(columns="size"), "static", "static='size': the table has no such column"),
        (static.drop(columns="unique_id"), "id_col", "no such column"),
    ]:
        with pytest.raises(FighterError, match=message) as error:
            to_panel(long_table(), static=change, scheme=panel.scheme)
        assert error.value.argument == argument


@pytest.mark.parametrize("wide", [True, False])
@pytest.mark.parametrize("future", [True, False])
def test_where_series_with_empty_last_cells_end(wide, future):
    """Only rows after the last target that hold future covariates are not part of a series."""
    long = long_table().assign(f=1.0)
    long.loc[58:59, "y"] = np.nan  # the last two of 'b'
    table = long
    if wide:
        table = long.pivot(index="ds", columns="unique_id", values="y").reset_index().assign(f=1.0)
    panel = to_panel(table, future="f" if future else (), drop=() if future else ["f"])
    end = dict(zip(panel.ids, panel.ends.tolist(), strict=True))
    assert end == {"a": 60, "b": 58 if future and not wide else 60}
    told = [str(note) for note in panel.data_notes if "forecasts begin" in str(note)]
    assert len(told) == (end["b"] == 60)


def test_one_covariate_and_one_missing_value_need_no_list():
    table = long_table().assign(p=-9999.0)
    table.loc[[0, 60], ["y", "p"]] = [-9999.0, 1.0]
    panel = to_panel(table, past="p", missing_values=-9999)
    assert panel.past.min() == 1.0
    assert (~panel.observed).sum() == 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_text_with_a_utc_offset_comes_back_aware(backend):
    text = [f"2024-01-01T{hour:02d}:00:00+02:00" for hour in range(4)]
    table = CONVERT[backend](pd.DataFrame({"ds": text, "y": 1.0}))
    panel = to_panel(table)
    out = forecast_table(table, panel.ids, panel.times[:1], {"F": np.ones((1, 1))}, axis=panel.axis)
    out = out if backend == "pandas" else out.to_pandas()
    assert out["ds"][0] == pd.Timestamp(text[0])


def test_series_of_unequal_length_are_noted():
    table = pd.concat([long_table(["a"]), long_table(["b"], HOURS[20:50])])
    panel = to_panel(table)
    assert notes(panel) == [
        ("unequal", "1 series begin after the first time stamp, 'b' by 20 steps."),
        ("unequal", "1 series end before the last time stamp, 'b' by 10 steps; each is forecast "
         "from its own end."),
    ]  # fmt: skip
    assert panel.observed.sum() == 90


def test_a_scheme_can_be_stored_as_json():
    static = pd.DataFrame({"unique_id": ["b", "a"], "zone": ["n", "s"], "size": [1, 2]})
    panel = to_panel(long_table().assign(f=1.0), future="f", static=static)
    scheme = Scheme(**json.loads(json.dumps(asdict(panel.scheme))))
    again = to_panel(
        long_table().assign(f=1.0), static=static[["unique_id", "size", "zone"]], scheme=scheme
    )
    assert again.future_names == ("f",)
    assert again.static_names == panel.static_names
    np.testing.assert_array_equal(again.static, panel.static)


def test_a_scheme_is_followed():
    panel = to_panel(long_table().assign(f=1.0), future=["f"], freq="30min")
    again = to_panel(long_table().assign(f=2.0), scheme=panel.scheme)
    assert str(again.freq) == "30min"
    assert again.future_names == ("f",)


# -- writing tables ------------------------------------------------------------------------------

AXES = {
    "ms": HOURS.as_unit("ms"),
    "ns": HOURS.as_unit("ns"),
    "zone": HOURS.tz_localize("Europe/Berlin", nonexistent="NaT").dropna(),
    "local days": pd.date_range("2024-03-01", periods=30, freq="D", tz="Europe/Berlin"),
    "date": [dt.date(2024, 2, 26) + dt.timedelta(days=i) for i in range(5)],
    "integer": np.arange(10, 20, dtype=np.int32),
}
IDS = {
    "text": ["b", "a"],
    "integer": np.array([3, 1], np.int16),
    "category": pd.Categorical(["b", "a"], categories=["a", "b"]),
}


@pairs(backend=BACKENDS, axis=AXES, ids=IDS)
def test_forecasts_have_the_types_of_the_table(backend, axis, ids):
    """A table and the forecasts that follow it can be concatenated."""
    times = pd.Series(AXES[axis], name="ds")
    n = len(times)
    names = pd.Series(IDS[ids]).repeat(n).reset_index(drop=True)
    table = CONVERT[backend](
        pd.DataFrame(
            {
                "unique_id": names,
                "ds": pd.concat([times, times], ignore_index=True),
                "y": np.arange(2.0 * n),
            }
        )
    )
    panel = to_panel(table)
    ahead = panel.freq.future(panel.times[-1], 3)
    out = forecast_table(
        table, panel.ids, ahead, {"y": np.arange(6.0).reshape(3, 2)}, axis=panel.axis
    )
    assert type(out) is type(table)
    if backend == "pandas":
        assert dict(out.dtypes) == dict(table.dtypes)
        joined = pd.concat([table, out])
    elif backend == "polars":
        if ids == "category":
            assert out.schema["unique_id"] == table.schema["unique_id"]
        joined = pl.concat([table, out])
    else:
        joined = pa.concat_tables([table, out.cast(table.schema)])
        assert out.schema.types[1:] == table.schema.types[1:]
    again = to_panel(joined)
    assert again.length == n + 3
    assert again.ids == panel.ids
    np.testing.assert_array_equal(again.values[-3:], [[0, 1], [2, 3], [4, 5]])
    np.testing.assert_array_equal(again.times[-3:], ahead)


def test_types_that_need_care_are_kept():
    small = pl.DataFrame({"ds": pl.Series([253, 254, 255], dtype=pl.UInt8), "y": [1, 2, 3]})
    panel = to_panel(small)
    out = forecast_table(
        small, panel.ids, panel.freq.future(255, 1), {"F": np.ones((1, 1))}, axis=panel.axis
    )
    assert out["ds"].to_list() == [256]
    offset = pd.DataFrame({"ds": HOURS.tz_localize("+01:00"), "y": 1.0})
    panel = to_panel(offset)
    out = forecast_table(offset, panel.ids, panel.times, {"F": np.ones((60, 1))}, axis=panel.axis)
    assert out["ds"].tolist() == offset["ds"].tolist()


@pytest.mark.parametrize("backend", BACKENDS)
def test_rows_of_a_cross_validation(backend):
    table = CONVERT[backend](long_table())
    panel = to_panel(table)
    cutoffs = np.repeat(panel.times[[9, 19]], 2)
    times = cutoffs + np.tile([1, 2], 2) * panel.freq.count
    truth = np.array([[1, 2], [np.nan, 4], [5, 6], [7, 8]])
    out = forecast_table(
        table, panel.ids, times, {"cutoff": cutoffs, "y": truth, "Fighter": truth + 1},
        axis=panel.axis, time_columns=["cutoff"],
    )  # fmt: skip
    out = out if backend == "pandas" else out.to_pandas()
    assert list(out.columns) == ["unique_id", "ds", "cutoff", "y", "Fighter"]
    assert out["unique_id"].tolist() == ["b"] * 4 + ["a"] * 4
    assert (out["cutoff"] == list(HOURS[[9, 9, 19, 19]]) * 2).all()
    assert (out["ds"] == list(HOURS[[10, 11, 20, 21]]) * 2).all()
    assert out["y"].isna().tolist() == [False, True] + [False] * 6
    with pytest.raises(FighterError, match=r"'Fighter' has shape \(3, 2\), needs \(4, 2\)"):
        forecast_table(table, panel.ids, times, {"Fighter": truth[:3]}, axis=panel.axis)


def test_forecasts_in_the_library_of_choice():
    panel = to_panel(pl.from_pandas(long_table()).lazy())
    ahead = panel.freq.future(panel.times[-1], 1)
    for like, kind in (("polars", pl.DataFrame), ("pandas", pd.DataFrame), ("pyarrow", pa.Table),
                       (pl.LazyFrame({"unique_id": ["a"]}), pl.DataFrame)):  # fmt: skip
        assert (
            type(forecast_table(like, panel.ids, ahead, {"F": np.ones((1, 2))}, axis=panel.axis))
            is kind
        )


def test_an_unknown_library_is_refused():
    panel = to_panel(long_table())
    with pytest.raises(FighterError, match="'pandas', 'polars', 'pyarrow'") as error:
        forecast_table("excel", panel.ids, panel.times, {}, axis=panel.axis)
    assert (error.value.argument, error.value.value) == ("like", "excel")


@pytest.mark.parametrize("backend", BACKENDS)
def test_plain_tables_rows_and_columns(backend):
    table = CONVERT[backend](long_table())
    panel = to_panel(table)
    columns = {"when": panel.times[:2], "share": [0.5, None]}
    out = plain_table(table, columns, panel.axis, time_columns=["when"])
    assert type(out) is type(table)
    out = out if backend == "pandas" else out.to_pandas()
    assert out["when"].tolist() == list(HOURS[:2])
    assert out["share"].isna().tolist() == [False, True]
    dropped = drop_column(table, "y")
    names = dropped.column_names if backend == "pyarrow" else list(dropped.columns)
    assert names == ["unique_id", "ds"]


def test_a_panel_is_sliced_and_series_are_selected():
    panel = to_panel(long_table().assign(f=np.arange(120.0), p=1.0), future=["f"], past=["p"])
    part = panel.slice(10, 20).select(["a"])
    assert (part.length, part.n_series, part.ids) == (10, 1, ("a",))
    np.testing.assert_array_equal(part.values[:, 0], panel.values[10:20, 1])
    np.testing.assert_array_equal(part.future[:, 0, 0], np.arange(70, 120))
    assert panel.slice(-5, None).length == 5
    with pytest.raises(FighterError, match=r"1 of 2 series .* 'z'; it has 'b', 'a'") as error:
        panel.select(["a", "z"])
    assert error.value.argument == "ids"


# -- real data -----------------------------------------------------------------------------------


def test_weather_is_read_with_its_notes(data_dir):
    table = pd.read_parquet(data_dir / "weather.parquet")
    panel = to_panel(table, missing_values=[-9999])
    assert panel.values.shape == (52704, 21)
    assert panel.freq == Frequency.parse("10min")
    assert notes(panel) == [
        ("duplicates", "1 duplicated time stamp (first: 2020-05-12 06:00); the first row of each "
         "was kept."),
        ("gaps", "9 missing time stamps (first: 2020-05-29 09:40); treated as not observed."),
        ("missing", "81 values of -9999 in 3 series ('OT' 50, 'max. PAR (umol/m2/s)' 30, 'wv (m/s)'"
         " 1; first: 'OT' at 2020-02-20 07:30); treated as not observed."),
    ]  # fmt: skip
    assert (~panel.observed).sum() == 9 * 21 + 81
    assert any(
        note.kind == "sentinel" and "81 values of -9999" in str(note)
        for note in to_panel(table).data_notes
    )


@pytest.mark.parametrize(("name", "freq", "shape"), [
    ("ETTh1", "h", (17420, 7)), ("eia_demand_hourly", "h", (43848, 118)),
    ("electricity_last840_321cols", "h", (840, 321)),
])  # fmt: skip
def test_other_real_tables_are_read(data_dir, name, freq, shape):
    panel = to_panel(pl.read_parquet(data_dir / f"{name}.parquet"))
    assert (str(panel.freq), panel.values.shape) == (freq, shape)
    assert panel.observed.all()
    assert not any(note.kind == "sentinel" for note in panel.data_notes)


def test_the_only_column_of_numbers_is_the_target_if_ids_are_named():
    days = pd.date_range("2024-01-01", periods=20).repeat(2)
    table = pd.DataFrame({"ds": days, "shop": ["a", "b"] * 20, "sales": np.arange(40.0)})
    panel = to_panel(table, id_col="shop")
    assert panel.ids == ("a", "b")
    assert panel.target_col == "sales"
    assert "layout" in {note.kind for note in panel.data_notes}
    later = table.assign(price=1.0)
    assert to_panel(later, id_col="shop", scheme=panel.scheme).target_col == "sales"
    with pytest.raises(FighterError) as error:
        to_panel(later, id_col="shop")
    assert error.value.argument == "target_col"


@pytest.mark.parametrize(
    "cells", [range(24), range(1, 25), [f"{hour:02}:00" for hour in range(24)]]
)
def test_the_hours_of_dates_are_not_series(cells):
    days = pd.date_range("2024-01-01", periods=20).repeat(24)
    table = pd.DataFrame({"date": days, "Hour": [*cells] * 20, "load": np.arange(480.0)})
    with pytest.raises(FighterError) as error:
        to_panel(table)
    assert error.value.argument == "time_col"
    assert len(to_panel(table, id_col="Hour").ids) == 24
    shops = table.rename(columns={"Hour": "shop"})
    assert len(to_panel(shops).ids) == 24


def test_the_months_of_years_are_not_series():
    years = np.arange(2000, 2020).repeat(12)
    table = pd.DataFrame({"year": years, "month": [*range(1, 13)] * 20, "y": np.arange(240.0)})
    with pytest.raises(FighterError) as error:
        to_panel(table, time_col="year")
    assert error.value.argument == "time_col"


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["2024-01-01", "100.13", "-3"], "header is missing"),
        (["country", "2019", "2020", "2021"], "turn the table"),
        (["when", "load"], "Name the column"),
    ],
)
def test_a_header_without_names_is_noticed(columns, message):
    with pytest.raises(FighterError, match=message) as error:
        to_panel(pd.DataFrame([range(len(columns))], columns=columns))
    assert error.value.argument == "time_col"


def test_a_date_format_that_is_not_used_is_reported():
    table = long_table()
    notes = to_panel(table, date_format="%d.%m.%Y").data_notes
    assert "dates" in {note.kind for note in notes}
    text = table.assign(ds=table.ds.dt.strftime("%d.%m.%Y %H:%M"))
    notes = to_panel(text, date_format="%d.%m.%Y %H:%M").data_notes
    assert "dates" not in {note.kind for note in notes}


def test_the_odd_cell_of_a_time_column_is_named():
    table = long_table()
    stamps = table.ds.astype(object)
    stamps[7] = "soon"
    with pytest.raises(FighterError, match="'soon' in row 7") as error:
        to_panel(table.assign(ds=stamps))
    assert error.value.argument == "time_col"
