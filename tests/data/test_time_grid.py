import json

import numpy as np
import pandas as pd
import pytest

from fighter.data import to_panel
from fighter.errors import FighterError

DAYS = pd.date_range("2020-01-01", periods=1000)
HALF_HOURS = pd.date_range("2020-01-01", periods=400, freq="30min")


def table(times, name: str = "a") -> pd.DataFrame:
    return pd.DataFrame({"unique_id": name, "ds": times, "y": np.arange(float(len(times)))})


@pytest.mark.parametrize("freq", [None, "D"])
@pytest.mark.parametrize("typo", ["2204-02-20", "1900-01-01", "1700-01-01", "2030-01-01"])
def test_a_mistyped_date_is_named(typo, freq):
    times = DAYS.to_list()
    times[500] = pd.Timestamp(typo)
    with pytest.raises(FighterError) as error:
        to_panel(table(times), freq=freq)
    assert error.value.argument == "freq"
    assert f"{typo} of 'a' in row 500" in str(error.value)


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize(("n", "row"), [(700, 690), (700, 699), (300, 50), (300, 299), (1000, 980)])
def test_a_year_mistyped_by_one_is_named(n, row, backwards):
    times = DAYS[:n].to_list()
    row = n - 1 - row if backwards else row
    times[row] += pd.DateOffset(years=-1 if backwards else 1)
    beside = pd.concat([table(DAYS, "b"), table(times)])
    for df, where in ((table(times), row), (beside, 1000 + row)):
        with pytest.raises(FighterError, match=f"of 'a' in row {where}\\)") as error:
            to_panel(df)
        assert error.value.argument in ("time_col", "freq")


@pytest.mark.parametrize("freq", [None, "MS"])
def test_a_row_out_of_order_where_a_step_is_missing_is_named(freq):
    times = pd.date_range("2015-01-01", periods=60, freq="MS").to_list()
    times[57] += pd.DateOffset(years=1)
    with pytest.raises(FighterError, match="2020-10-01 of 'a' in row 57") as error:
        to_panel(table(times), freq=freq)
    assert error.value.argument == "time_col"


def test_rows_in_any_order_are_read():
    rng = np.random.default_rng(0)
    for n in (10, 20, 60):
        for _ in range(100):
            kept = rng.permutation(np.sort(rng.choice(n, n - n // 5, replace=False)))
            assert to_panel(table(DAYS[kept]), freq="D").observed.sum() == kept.size
    late = [*range(20), *range(21, 60), 20]  # a row that came late
    assert to_panel(table(DAYS[late])).observed.all()
    moved = [*range(20), 50, *range(20, 50), *range(51, 60)]
    assert to_panel(table(DAYS[moved])).observed.all()


def test_a_few_rows_after_a_long_gap_are_read_at_a_given_frequency():
    times = DAYS[np.r_[:300, 500:502]]
    with pytest.raises(FighterError) as error:
        to_panel(table(times))
    assert error.value.argument == "time_col"
    assert to_panel(table(times), freq="D").length == 502
    assert to_panel(table(DAYS[np.r_[:300, 500:520]])).length == 520
    assert to_panel(table(DAYS[np.r_[:300:2, 300:310, 500:502]]), freq="D").length == 502


def test_two_blocks_far_apart_are_refused():
    times = [
        *pd.date_range("2000", periods=500, freq="min"),
        *pd.date_range("2024", periods=500, freq="min"),
    ]
    with pytest.raises(FighterError, match="2000-01-01") as error:
        to_panel(table(times))
    assert error.value.argument == "freq"


def test_long_gaps_are_read():
    halves = [
        *pd.date_range("2022", periods=1500, freq="h"),
        *pd.date_range("2023", periods=1500, freq="h"),
    ]
    assert to_panel(table(halves)).observed.sum() == 3000
    rng = np.random.default_rng(0)
    rare = DAYS[np.sort(rng.choice(1000, 60, replace=False))]
    assert to_panel(table(rare), freq="D").observed.sum() == 60
    beside = pd.concat([table(DAYS), table(rare, "rare")])
    assert to_panel(beside).observed.sum() == 1060


@pytest.mark.parametrize("freq", [None, "D"])
@pytest.mark.parametrize("coarse", ["MS", "W", "QS"])
def test_a_coarser_series_is_named(coarse, freq):
    slow = table(pd.date_range("2018-01-01", periods=30, freq=coarse), "slow")
    with pytest.raises(FighterError, match="'slow'") as error:
        to_panel(pd.concat([table(DAYS), slow]), freq=freq)
    assert (error.value.argument, error.value.value) == ("freq", "D")


def test_a_quarterly_series_beside_monthly_ones_is_named():
    months = table(pd.date_range("2018-01-01", periods=60, freq="MS"))
    quarters = table(pd.date_range("2018-01-01", periods=20, freq="QS"), "slow")
    with pytest.raises(FighterError, match="'slow'") as error:
        to_panel(pd.concat([months, quarters]))
    assert (error.value.argument, error.value.value) == ("freq", "MS")


@pytest.mark.parametrize(
    ("fast", "slow"),
    [(HALF_HOURS, HALF_HOURS[::2]),
     (DAYS, pd.bdate_range("2020", periods=700)),
     (DAYS[DAYS.day_of_week < 6], pd.bdate_range("2020", periods=700))],
)  # fmt: skip
def test_a_note_names_a_series_with_fewer_steps(fast, slow):
    def texts(*names):
        parts = [table(slow if name == "slow" else fast, name) for name in names]
        return [str(note) for note in to_panel(pd.concat(parts)).data_notes]

    assert any("'slow'" in text and "of their own" in text for text in texts("a", "b", "slow"))
    assert not any("of their own" in text for text in texts("a", "b"))


@pytest.mark.parametrize(("rows", "freq"), [("D", "h"), ("D", "min"), ("MS", "D"), ("YS", "MS")])
def test_a_frequency_far_finer_than_the_rows_is_refused(rows, freq):
    df = table(pd.date_range("2010-01-01", periods=30, freq=rows)).drop(columns="unique_id")
    with pytest.raises(FighterError) as error:
        to_panel(df, freq=freq)
    assert (error.value.argument, error.value.value) == ("freq", freq)
    fine = to_panel(df.assign(ds=pd.date_range("2010-01-01", periods=30, freq=freq)))
    with pytest.raises(FighterError) as error:
        to_panel(df, scheme=fine.scheme)
    assert error.value.argument == "freq"


@pytest.mark.parametrize("freq", ["W", "ME", "BME", "BMS", "MS"])
@pytest.mark.parametrize("row", [0, 3, 40])
def test_a_stamp_shifted_by_a_day_is_read_with_a_note(freq, row):
    times = pd.date_range("2010-01-04", periods=60, freq=freq).to_list()
    regular = to_panel(table(times))
    times[row] -= pd.Timedelta(days=1)
    panel = to_panel(table(times))
    assert str(panel.freq) == freq
    np.testing.assert_array_equal(panel.values, regular.values)
    np.testing.assert_array_equal(panel.times[1:], regular.times[1:])
    (note,) = panel.data_notes
    assert note.kind == "shifted"
    assert f"in row {row}" in str(note)


def test_a_grid_is_named_by_a_stamp_of_the_table():
    with pytest.raises(FighterError) as error:
        to_panel(table(DAYS), freq="W")
    assert "grid of 2020-01-" in str(error.value)
    hours = pd.date_range("2024-01-01", periods=99, freq="h", tz="America/New_York").to_series()
    hours.iloc[9::9] += pd.Timedelta("30min")
    with pytest.raises(FighterError) as error:
        to_panel(table(hours.array))
    assert "grid of 2024-01-01: first: 2024-01-01 09:30" in str(error.value)


def test_a_stamp_shifted_by_an_hour_is_named():
    times = pd.date_range("2010-01-04", periods=60, freq="W").to_list()
    times[5] += pd.Timedelta(hours=1)
    (note,) = to_panel(table(times)).data_notes
    assert note.kind == "shifted"
    assert "2010-02-14 01:00:00 of 'a' in row 5" in str(note)


def test_values_that_cannot_be_squared_are_refused_with_their_place():
    values = np.ones(10)
    values[4] = 1e160
    with pytest.raises(FighterError, match="'a' at 2020-01-05"):
        to_panel(table(DAYS[:10]).assign(y=values))
    with pytest.raises(FighterError, match="row 4") as error:
        to_panel(table(DAYS[:10]).assign(f=values), past=["f"])
    assert error.value.argument == "past"


IRREGULAR = ("parking_raw", "glucose")  # their stamps have no grid
HOURS = {
    "parking_halfhour": "30min[Mon-Sun 08:00-16:30]",
    "bank_calls": "5min[Mon-Fri 07:00-21:00]",
}


def test_real_tables_have_the_frequency_they_are_known_for(data_dir):
    folder = data_dir / "zoo"
    if not folder.is_dir():
        pytest.skip("the zoo of real tables is not on this machine (../shared/data/zoo)")
    for entry in json.loads((folder / "zoo.json").read_text())["tables"]:
        name = entry["file"].removesuffix(".parquet")
        if name in IRREGULAR:
            continue
        df = pd.read_parquet(folder / entry["file"])[["unique_id", "ds", "y"]]
        panel = to_panel(df)
        expected = HOURS.get(name, entry["freq"].split("-")[0])
        assert (name, str(panel.freq)) == (name, expected)
        assert panel.observed.sum() == df["y"].notna().sum()
        if name in HOURS:
            assert list(panel.freq.season) == entry["season"]
