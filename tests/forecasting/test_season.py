"""Season lengths that the user gives, from the settings to the forecast and back from disk."""

import numpy as np
import pandas as pd
import pytest

from fighter import DataWarning, FighterError, Forecaster
from fighter.cli.main import main
from fighter.data import Frequency, to_panel

from ..tables import waves
from .small import small


def counted(rows: int = 200, period: int = 5) -> pd.DataFrame:
    """Return a series over integers whose values are the phases of a period."""
    return pd.DataFrame({"ds": np.arange(rows), "y": np.arange(rows) % period * 1.0})


def naive(**settings) -> Forecaster:
    return Forecaster(7, model="naive", verbose=False, device="cpu", **settings)


def test_an_integer_axis_has_the_season_that_is_given():
    assert to_panel(counted()).freq.season == ()
    assert naive().fit(counted()).predict().SeasonalNaive.tolist() == [4] * 7
    forecast = naive(season=5).fit(counted()).predict()
    assert forecast.SeasonalNaive.tolist() == [0, 1, 2, 3, 4, 0, 1]


@pytest.mark.parametrize("season", [(7, 5), [7, 5], np.array([7, 5]), (np.int64(7), 5, 7)])
def test_the_first_of_several_seasons_is_preferred(season):
    model = naive(season=season).fit(counted(period=7))
    assert model.read().freq.season == (7, 5)
    assert model.predict().SeasonalNaive.tolist() == [4, 5, 6, 0, 1, 2, 3]


def test_a_given_season_replaces_that_of_the_frequency():
    panel = to_panel(waves(200), season=[8, 3])
    assert (panel.freq.season, str(panel.freq)) == ((8, 3), "h")
    assert to_panel(waves(200), scheme=panel.scheme).freq.season == (8, 3)
    assert Frequency.parse("h").with_season(None).season == (24, 168)
    assert naive(season=1).fit(waves(200)).fitted.network.core.period == 1


def test_the_cycle_is_chosen_among_the_given_seasons():
    table = counted(rows=400, period=11)
    assert small("linear", lookback=24).fit(table).plan.cycle is None
    assert small("linear", lookback=24, season=[7, 11]).fit(table).plan.cycle == 11
    assert small("linear", lookback=24, season=1).fit(table).plan.cycle is None


def test_look_back_and_discount_follow_the_given_season():
    plan = Forecaster.from_flat(
        horizon=3, model="linear", season=70, max_epochs=1, verbose=False
    ).fit(counted(900)).plan  # fmt: skip
    assert (plan.lookback, plan.discount) == (140, 8 / 70)


def test_seasonal_naive_looks_back_a_whole_given_season():
    model = naive(season=150).fit(counted())
    assert (model.plan.lookback, model.fitted.network.core.period) == (150, 150)
    with pytest.raises(FighterError) as error:
        naive(season=194).fit(counted())
    assert error.value.argument == "season"
    assert naive(season=500).fit(counted(600)).plan.lookback == 500


def test_seasonal_naive_looks_back_a_season_of_a_short_table():
    table = waves(40, ids=("a",), freq="MS")
    model = naive().fit(table)
    assert (model.plan.lookback, model.fitted.network.core.period) == (12, 12)
    assert model.predict().SeasonalNaive.tolist() == table.y.tolist()[-12:-5]
    assert naive(lookback=8).fit(table).fitted.network.core.period == 1
    assert naive().fit(table.head(24)).fitted.network.core.period == 1  # too few rows


def test_opening_hours_repeat_the_last_day():
    days = pd.bdate_range("2024-01-01", periods=60)
    slots = pd.to_timedelta(np.arange(7 * 12, 21 * 12 + 1) * 5, unit="min")
    times = (days.to_numpy()[:, None] + slots.to_numpy()).ravel()
    table = pd.DataFrame({"ds": times, "y": np.arange(len(times)) % 169 * 1.0})
    holiday = table.ds.dt.normalize() == "2024-02-05"
    with pytest.warns(DataWarning, match=r"All rows are on Mon-Fri 07:00-21:00.* 169 missing"):
        forecast = naive().fit(table[~holiday]).predict()
    assert forecast.ds.iloc[0] == pd.Timestamp("2024-03-25 07:00")
    assert forecast.SeasonalNaive.tolist() == list(range(7))


@pytest.mark.parametrize("season", [5, [5, 7]])
def test_the_season_is_saved_and_applies_to_later_tables(tmp_path, season):
    model = naive(season=season).fit(counted(200))
    model.save(tmp_path)
    loaded = Forecaster.load(tmp_path)
    assert (loaded.season, loaded.read().freq) == (season, model.read().freq)
    later = counted(203).tail(3)
    assert loaded.read(later).freq.season[0] == 5
    assert loaded.predict(later).SeasonalNaive.tolist() == [3, 4, 0, 1, 2, 3, 4]


def test_the_season_of_a_panel_is_saved(tmp_path):
    model = naive().fit(to_panel(counted(), season=5))
    model.save(tmp_path)
    assert Forecaster.load(tmp_path).predict().equals(model.predict())
    assert naive(season=5).fit(to_panel(counted())).predict().equals(model.predict())


def test_a_fitted_model_keeps_its_season():
    model = naive(season=5).fit(counted())
    assert model.set_params(season=[5]).predict() is not None
    with pytest.raises(FighterError) as error:
        model.set_params(season=7).predict()
    assert error.value.argument == "season"


def test_the_season_is_a_flag(tmp_path, capsys):
    counted().to_csv(tmp_path / "table.csv", index=False)
    out = tmp_path / "forecast.csv"
    command = ["forecast", str(tmp_path / "table.csv"), "--horizon", "7", "--model", "naive"]
    assert main([*command, "--season", "5", "7", "--out", str(out), "--quiet"]) == 0
    assert pd.read_csv(out).SeasonalNaive.tolist() == [0, 1, 2, 3, 4, 0, 1]
    assert main([*command, "--season", "0"]) != 0
    assert "--season" in capsys.readouterr().err
