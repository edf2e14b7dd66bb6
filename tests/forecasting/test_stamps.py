"""Forecasts from tables whose time stamps are not quite regular."""

import numpy as np
import pandas as pd
import pytest

from fighter import DataWarning, FighterError, Forecaster


def jittered(rows: int, first: int = 0) -> pd.DataFrame:
    """Return half-hourly rows of two series, off by up to 10 minutes, whose values count steps."""
    exact = pd.date_range("2024-01-01", periods=first + rows, freq="30min")[first:]
    steps = np.arange(first, first + rows)
    parts = []
    for k, name in enumerate("ab"):
        seconds = np.random.default_rng(first + k).integers(-600, 600, rows)
        stamps = exact + pd.to_timedelta(seconds, unit="s")
        parts.append(pd.DataFrame({"unique_id": name, "ds": stamps, "y": 1000.0 * k + steps}))
    return pd.concat(parts, ignore_index=True)


@pytest.fixture(scope="module")
def model() -> Forecaster:
    with pytest.warns(DataWarning, match="480 time stamps moved .* 30min, by at most 9.95 minutes"):
        return Forecaster(4, model="naive", season=48, verbose=False).fit(jittered(240))


def test_forecasts_have_stamps_of_the_grid(model):
    forecast = model.predict()
    stamps = pd.date_range("2024-01-06 00:00", periods=4, freq="30min")
    for k, name in enumerate("ab"):
        rows = forecast[forecast.unique_id == name]
        assert rows.ds.tolist() == stamps.tolist()
        assert rows.SeasonalNaive.tolist() == [1000 * k + step for step in range(192, 196)]


@pytest.mark.parametrize("rows", [1, 3, 60])
def test_later_rows_are_moved_to_the_grid_of_training(model, rows, tmp_path):
    later = jittered(rows, first=240)
    model.save(tmp_path)
    loaded = Forecaster.load(tmp_path)
    with pytest.warns(DataWarning, match="moved to the nearest step of 30min"):
        forecast = loaded.predict(later)
    first = pd.Timestamp("2024-01-01") + (240 + rows) * pd.Timedelta("30min")
    assert forecast.ds.iloc[0] == first
    assert forecast.SeasonalNaive.iloc[0] == 240 + rows - 48


def test_later_rows_on_the_grid_need_no_note(model):
    later = jittered(3, first=240)
    later["ds"] = later.ds.dt.round("30min")
    assert model.predict(later).SeasonalNaive.iloc[0] == 195


def test_later_rows_at_another_frequency_are_refused(model):
    later = jittered(240, first=240)
    begin = later.ds.min()
    later["ds"] = begin + (later.ds - begin) / 3
    with pytest.raises(FighterError) as error:
        model.predict(later)
    assert error.value.argument == "freq"


def test_rows_far_off_the_grid_of_an_exact_table_are_refused():
    exact = jittered(240)
    exact["ds"] = exact.ds.dt.round("30min")
    model = Forecaster(4, model="naive", verbose=False).fit(exact)
    later = exact.tail(3).assign(ds=lambda t: t.ds + pd.Timedelta("42min"))
    with pytest.raises(FighterError) as error:
        model.predict(later)
    assert error.value.argument == "freq"
    near = exact.tail(3).assign(ds=lambda t: t.ds + pd.Timedelta("31min"))
    with pytest.warns(DataWarning, match="3 of 3 time stamps moved .* by at most 1 minute"):
        assert model.predict(near).ds.iloc[0] == pd.Timestamp("2024-01-06 00:30")
