import datetime as dt
from zoneinfo import ZoneInfo

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from fighter.data import TimeAxis, forecast_table, future_values, to_panel
from fighter.errors import FighterError

DAYS = pd.date_range("2024-01-01", periods=60)
MONTHS = pd.date_range("2010-01-01", periods=60, freq="MS")
HOURS = pd.date_range("2024-01-01", periods=60, freq="h")
BACKENDS = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "pyarrow": lambda columns: pa.table({k: np.asarray(v) for k, v in columns.items()}),
}


def table(times, **columns) -> pd.DataFrame:
    return pd.DataFrame({"ds": times, "y": np.arange(float(len(times))), **columns})


def stamps(panel) -> list[str]:
    return panel.times.astype("M8[ns]").astype("M8[m]").astype(str).tolist()


def ahead(like, panel, steps: int = 2) -> list:
    """Return the stamps after a panel as they come back."""
    times = panel.freq.future(int(panel.times[-1]), steps)
    out = forecast_table(like, panel.ids, times, {"F": np.ones((steps, 1))}, axis=panel.axis)
    column = out["ds"]
    return column.to_pylist() if isinstance(out, pa.Table) else column.to_list()


# -- integers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", ["int32", "int64", "float64"])
@pytest.mark.parametrize(("times", "code", "freq"), [(DAYS, "%Y%m%d", "D"), (MONTHS, "%Y%m", "MS")])
def test_integers_that_are_all_dates_are_dates(backend, dtype, times, code, freq):
    numbers = times.strftime(code).astype(dtype).to_numpy()
    df = BACKENDS[backend]({"ds": numbers, "y": np.arange(60.0)})
    panel = to_panel(df)
    assert str(panel.freq) == freq
    np.testing.assert_array_equal(panel.times, times.as_unit("ns").asi8)
    assert [note.kind for note in panel.data_notes] == ["dates"]
    after = pd.date_range(times[-1], periods=3, freq=freq)[1:]
    assert [pd.Timestamp(stamp) for stamp in ahead(df, panel)] == list(after)


@pytest.mark.parametrize("kind", [int, str])
@pytest.mark.parametrize("code", ["%Y%m%d%H", "%Y%m%d%H%M", "%Y%m%d%H%M%S"])
def test_digits_with_hours_are_dates(code, kind):
    panel = to_panel(table(HOURS.strftime(code).astype(kind)))
    assert str(panel.freq) == "h"
    np.testing.assert_array_equal(panel.times, HOURS.as_unit("ns").asi8)


@pytest.mark.parametrize(
    ("times", "code", "row", "wrong"),
    [(DAYS, "%Y%m%d", 7, 20240230), (DAYS, "%Y%m%d", 0, 20240132), (DAYS, "%Y%m%d", 9, 2024011),
     (MONTHS, "%Y%m", 12, 201013), (HOURS, "%Y%m%d%H", 24, 2024010124)],
)  # fmt: skip
def test_one_integer_that_is_no_date_is_named(times, code, row, wrong):
    numbers = times.strftime(code).astype(int).to_numpy().copy()
    numbers[row] = wrong
    with pytest.raises(FighterError, match=f"{wrong} in row {row}") as error:
        to_panel(table(numbers))
    assert (error.value.argument, error.value.value) == ("time_col", "ds")


@pytest.mark.parametrize("code", ["%d%m%Y", "%m%d%Y", "%y%m%d"])
def test_other_integers_that_are_dates_need_their_format(code):
    numbers = DAYS.strftime(code).astype(int)
    with pytest.raises(FighterError, match=f"'{code}'") as error:
        to_panel(table(numbers))
    assert (error.value.argument, error.value.value) == ("time_col", "ds")
    panel = to_panel(table(numbers), date_format=code)
    np.testing.assert_array_equal(panel.times, DAYS.as_unit("ns").asi8)


@pytest.mark.parametrize("text", ["1704067200", "2024013", "20240101000000000", "2024013124"])
def test_digits_that_are_no_date_are_quoted(text):
    with pytest.raises(FighterError, match=f"'{text}' in row 0") as error:
        to_panel(table([text, str(int(text) + 1)]))
    assert error.value.argument == "time_col"


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_epoch_numbers_are_time_stamps(unit):
    df = table(HOURS.as_unit(unit).asi8)
    panel = to_panel(df)
    assert str(panel.freq) == "h"
    np.testing.assert_array_equal(panel.times, HOURS.as_unit("ns").asi8)
    assert [note.kind for note in panel.data_notes] == ["dates"]
    assert ahead(df, panel)[0] == HOURS[-1] + pd.Timedelta("1h")


@pytest.mark.parametrize(
    "numbers",
    [np.arange(60), np.arange(1, 61), np.arange(1960, 2020), np.arange(20240101, 20240161),
     np.arange(202401, 202461), np.arange(10**6, 10**6 + 60), -np.arange(60)[::-1],
     np.arange(60) * 86400, np.arange(101, 161), np.arange(240101, 240161)],
)  # fmt: skip
def test_counters_and_years_stay_integers(numbers):
    panel = to_panel(table(numbers))
    assert panel.axis.kind == "integer"
    np.testing.assert_array_equal(panel.times, numbers)
    assert panel.data_notes == ()


@pytest.mark.parametrize("freq", [None, "W"])
def test_year_and_week_in_an_integer_are_refused(freq):
    """The remedy of the message is read as weeks, and both of its forms as the same ones."""
    weeks = pd.date_range("2024-01-01", periods=104, freq="W-MON")
    numbers = table(weeks.strftime("%G%V").astype(int))
    with pytest.raises(FighterError, match="202401 look like year and week") as error:
        to_panel(numbers, freq=freq)
    assert (error.value.argument, error.value.value) == ("time_col", "ds")
    remedy = error.value.reason.split("convert them: ")[1].split("; ")[0]
    converted = to_panel(table(eval(remedy, {"pd": pd, "df": numbers})), freq=freq)
    assert stamps(converted) == stamps(to_panel(table(weeks.strftime("%G-W%V")), freq=freq))
    assert to_panel(numbers, freq=1).axis.kind == "integer"


@pytest.mark.parametrize(("first", "step"), [(200_013, 1), (200_001, 50), (200_013, 100)])
def test_counters_as_large_as_year_and_week_stay_integers(first, step):
    assert to_panel(table(first + step * np.arange(60))).axis.kind == "integer"


def test_an_integer_frequency_keeps_integers():
    panel = to_panel(table(DAYS[:28].strftime("%Y%m%d").astype(int)), freq=1)
    assert panel.axis.kind == "integer"
    assert panel.times[0] == 20240101


def test_a_later_table_is_read_like_the_first():
    first = to_panel(table(DAYS.strftime("%Y%m%d").astype(int)))
    later = to_panel(table([20240301, 20240302]), scheme=first.scheme)
    assert stamps(later) == ["2024-03-01T00:00", "2024-03-02T00:00"]
    assert later.data_notes == ()
    assert stamps(to_panel(table([20240301]), scheme=first.scheme)) == ["2024-03-01T00:00"]
    with pytest.raises(FighterError) as error:
        to_panel(table([20240301, 20240399]), scheme=first.scheme)
    assert error.value.argument == "time_col"
    counter = to_panel(table(np.arange(20240101, 20240161)))
    again = to_panel(table(np.arange(20240110, 20240115)), scheme=counter.scheme)
    assert again.axis.kind == "integer"


def test_an_axis_stored_before_there_were_encodings_can_be_read():
    state = {"name": "ds", "kind": "integer", "unit": "int64", "zone": None, "wall": False,
             "boxed": False}  # fmt: skip
    axis = TimeAxis(**state)
    days = pd.Series(DAYS.strftime("%Y%m%d").astype(int), name="ds")
    assert TimeAxis.read(nw.from_native(days, series_only=True), axis)[0].kind == "integer"


def test_future_covariates_are_read_like_the_history():
    history = table(DAYS.strftime("%Y%m%d").astype(int), f=1.0)
    panel = to_panel(history, future=["f"])
    rows = pd.DataFrame({"ds": [20240301, 20240302], "f": [7.0, 8.0]})
    np.testing.assert_array_equal(future_values(panel, rows, 2)[:, 0, 0], [7, 8])


@pytest.mark.parametrize(
    "times",
    [[0.0, 1.0, np.inf], [0.0, 1.0, 1e300], [0.0, 1.0, -(2.0**63)], [0, 1, -(2**63)],
     np.arange(2**63 - 21, 2**63 - 1), np.arange(3, dtype=np.uint64) + np.uint64(2**63),
     pd.Series([0, 1, 10**40], dtype=object), pd.Series([0, {}, 2], dtype=object)],
)  # fmt: skip
def test_numbers_that_cannot_be_stamps_are_refused(times):
    with pytest.raises(FighterError) as error:
        to_panel(table(times), freq=1)
    assert (error.value.argument, error.value.value) == ("time_col", "ds")


# -- texts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code",
    ["%m/%d/%y", "%d/%m/%y", "%y/%m/%d", "%y-%m-%d", "%d.%m.%y", "%d-%b-%y", "%d-%b-%Y",
     "%b %d, %Y", "%B %d %Y", "%d%b%Y", "%Y-%b-%d", "%d %B %Y %H:%M", "%m/%d/%Y %I:%M %p",
     "%m/%d/%y %H:%M:%S", "%Y/%m/%d %H:%M", "%d-%m-%Y"],
)  # fmt: skip
def test_dates_are_read_if_their_order_is_certain(code):
    times = pd.date_range("2024-01-01 13:00", periods=60) if "H" in code or "I" in code else DAYS
    np.testing.assert_array_equal(
        to_panel(table(times.strftime(code))).times, times.as_unit("ns").asi8
    )


@pytest.mark.parametrize("texts", [["01/02/24", "01/03/24", "01/04/24"], ["01-02-03", "02-02-03"]])
def test_an_uncertain_order_is_refused(texts):
    with pytest.raises(FighterError, match="date_format") as error:
        to_panel(table(texts))
    assert (error.value.argument, error.value.value) == ("time_col", "ds")


def test_the_order_of_the_first_table_decides():
    first = to_panel(table(DAYS.strftime("%m/%d/%Y")))
    later = to_panel(table(["03/01/2024", "03/02/2024"]), scheme=first.scheme)
    assert stamps(later) == ["2024-03-01T00:00", "2024-03-02T00:00"]


@pytest.mark.parametrize(
    "texts",
    [["2024Q1", "2024Q2", "2024Q3"], ["2024-Q1", "2024-Q2", "2024-Q3"],
     ["Q1 2024", "Q2 2024", "Q3 2024"]],
)  # fmt: skip
def test_quarters_are_read(texts):
    panel = to_panel(table(texts))
    assert str(panel.freq) == "QS"
    assert stamps(panel)[1] == "2024-04-01T00:00"


@pytest.mark.parametrize("code", ["%b-%y", "%b'%y", "%m/%Y", "%YM%m", "%Y-M%m", "%Y-%b", "%Y/%m"])
def test_months_are_read(code):
    panel = to_panel(table(MONTHS.strftime(code)))
    assert str(panel.freq) == "MS"
    np.testing.assert_array_equal(panel.times, MONTHS.as_unit("ns").asi8)


@pytest.mark.parametrize(
    ("code", "freq"), [("%G-W%V", "W"), ("%GW%V", "W"), ("%G-W%V-%u", "D"), ("%Y%m%dT%H%M%S", "h")]
)
def test_iso_weeks_and_basic_stamps_are_read(code, freq):
    times = pd.date_range("2020-11-02", periods=60, freq={"W": "W-MON"}.get(freq, freq))
    panel = to_panel(table([stamp.strftime(code) for stamp in times]))
    assert str(panel.freq) == freq
    np.testing.assert_array_equal(panel.times, times.as_unit("ns").asi8)


@pytest.mark.parametrize("texts", [["2023-W52", "2023-W53"], ["12/2019", "13/2019"]])
def test_months_and_weeks_that_do_not_exist_are_named(texts):
    with pytest.raises(FighterError, match=f"'{texts[1]}' in row 1") as error:
        to_panel(table(texts))
    assert error.value.argument == "time_col"


def test_days_without_a_year_are_not_years():
    with pytest.raises(FighterError) as error:
        to_panel(table(pd.date_range("2024-01-01", periods=366).strftime("%b-%d")))
    assert error.value.argument == "time_col"


@pytest.mark.parametrize(
    ("times", "date_format", "first"),
    [(DAYS.strftime("%y%d%m"), "%y%d%m", "2024-01-01T00:00"),
     (["01/02/2024", "01/03/2024", "01/04/2024"], "%d/%m/%Y", "2024-02-01T00:00"),
     (np.arange(1950, 1990), "%Y", "1950-01-01T00:00"),
     (["2024|01|01 +0200", "2024|01|02 +0200"], "%Y|%m|%d %z", "2023-12-31T22:00")],
)  # fmt: skip
def test_a_date_format_is_followed(times, date_format, first):
    panel = to_panel(table(times), date_format=date_format)
    assert stamps(panel)[0] == first
    assert panel.data_notes == ()
    later = to_panel(table(times[-1:]), scheme=panel.scheme)
    assert later.times[0] == panel.times[-1]


def test_a_wrong_date_format_is_refused():
    with pytest.raises(FighterError) as error:
        to_panel(table(["2024-01-01", "31.12.2024"]), date_format="%Y-%m-%d")
    assert error.value.argument == "time_col"
    assert "'31.12.2024' in row 1" in str(error.value)
    for wrong in ("dmy", "%Q", 3):
        with pytest.raises(FighterError) as error:
            to_panel(table(["2024-01-01", "2024-01-02"]), date_format=wrong)
        assert (error.value.argument, error.value.value) == ("date_format", wrong)


@pytest.mark.parametrize(
    "times",
    [["2024-01-01 00:00", "2024-01-01 03:00+02:00", "2024-01-01 02:00"],
     pd.Series([dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 1, 1, tzinfo=dt.UTC)], dtype=object)],
)  # fmt: skip
def test_stamps_with_and_without_an_offset_are_not_mixed(times):
    with pytest.raises(FighterError, match="row 1") as error:
        to_panel(table(times))
    assert error.value.argument == "time_col"


# -- zones and types -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "zone", ["America/New_York", "America/Sao_Paulo", "Etc/GMT+5", "Etc/GMT-14", "-05:00"]
)
def test_every_zone_of_pandas_is_kept(zone):
    for freq in ("h", "D"):
        times = pd.date_range("2024-03-01", periods=60, freq=freq, tz=zone)
        df = table(times)
        panel = to_panel(df)
        assert str(panel.freq) == freq
        assert panel.axis.wall == (freq == "D")
        out = ahead(df, panel)
        assert out == list(pd.date_range(times[-1], periods=3, freq=freq)[1:])
        assert str(out[0].tz) == str(times.tz)


@pytest.mark.parametrize("kind", ["text", "datetime"])
@pytest.mark.parametrize("freq", ["D", "W", "MS"])
def test_local_days_with_offsets_are_days(kind, freq):
    times = pd.date_range("2024-01-01", periods=150, freq=freq, tz="Europe/Berlin")
    cells = [stamp.isoformat() for stamp in times]
    zone = None
    if kind == "datetime":
        cells, zone = pd.Series(list(times.to_pydatetime()), dtype=object), "Europe/Berlin"
        cells = cells.map(lambda stamp: stamp.replace(tzinfo=ZoneInfo(zone))).astype(object)
    df = table(cells)
    panel = to_panel(df)
    local = times.tz_localize(None)
    assert (str(panel.freq), panel.axis.zone, panel.axis.wall) == (freq, zone, True)
    np.testing.assert_array_equal(panel.times, local.as_unit("ns").asi8)
    later = to_panel(df.iloc[-2:], scheme=panel.scheme)
    np.testing.assert_array_equal(later.times, panel.times[-2:])
    after = pd.date_range(times[-1], periods=3, freq=freq)[1:]
    assert [str(stamp) for stamp in ahead(df, panel)] == [
        str(stamp) for stamp in (after if zone else after.tz_localize(None))
    ]
    hours = pd.date_range("2024-03-01", periods=999, freq="h", tz="Europe/Berlin")
    assert to_panel(table([stamp.isoformat() for stamp in hours])).axis.zone == "UTC"


def test_a_note_shows_the_clock_of_the_zone():
    for zone in ("America/New_York", "-05:00"):
        times = pd.date_range("2024-01-01", periods=60, freq="h", tz=zone).delete(7)
        text = " ".join(map(str, to_panel(table(times)).data_notes))
        assert "2024-01-01 07:00" in text


@pytest.mark.parametrize("backend", BACKENDS)
def test_dates_at_an_hourly_frequency_come_back_as_stamps(backend):
    df = BACKENDS[backend]({"ds": [dt.date(2024, 1, k) for k in range(1, 9)], "y": np.arange(8.0)})
    out = [pd.Timestamp(stamp) for stamp in ahead(df, to_panel(df, freq="6h"))]
    assert out == [pd.Timestamp("2024-01-08 06:00"), pd.Timestamp("2024-01-08 12:00")]
