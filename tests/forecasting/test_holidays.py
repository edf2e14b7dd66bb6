import sys

import numpy as np
import pandas as pd
import pytest

from fighter import FighterError, Forecaster
from fighter.cli import main
from fighter.data.holidays import holiday_marks, holidays_of
from fighter.forecasting.preprocessing import count_known_ahead

from ..tables import CONVERT, tiny, waves
from .small import all_new, small

pytest.importorskip("holidays", reason="holidays is not installed")


def shops(days: int = 1090, start: str = "2021-01-01") -> pd.DataFrame:
    """Return the sales of a German and an American shop, which are closed on holidays."""
    dates = pd.date_range(start, periods=days)
    number = dates.to_numpy("M8[D]").astype(int)
    parts = []
    for name, country in (("ulm", "DE"), ("ohio", "US")):
        closed = np.isin(number, holidays_of(country, 2020, 2025))
        y = np.where(closed, 0.0, 100 + 10 * np.sin(2 * np.pi * np.arange(days) / 7))
        parts.append(pd.DataFrame({"unique_id": name, "ds": dates, "y": y, "country": country}))
    return pd.concat(parts, ignore_index=True)


def marked(panel, day: str) -> list[list[float]]:
    row = int(np.flatnonzero(panel.times.astype("M8[ns]") == np.datetime64(day))[0])
    return holiday_marks(panel, panel.length)[row].tolist()


def test_days_are_marked():
    panel = tiny(holidays="country").read(shops())
    none = [0.0, 0.0, 0.0]
    assert panel.holidays == ("DE", "US")
    assert marked(panel, "2023-05-01") == [[1, 0, 0], none]
    assert marked(panel, "2023-07-03") == [none, [0, 1, 0]]
    assert marked(panel, "2023-07-05") == [none, [0, 0, 1]]
    assert marked(panel, "2023-12-25") == [[1, 1, 0], [1, 0, 0]]


def test_a_state_has_holidays_of_its_own():
    bavaria, germany = (
        tiny(holidays=code).read(shops(400)[["unique_id", "ds", "y"]]) for code in ("DE-BY", "DE")
    )
    assert marked(bavaria, "2021-01-06") == [[1, 0, 0]] * 2  # Epiphany
    assert marked(germany, "2021-01-06") == [[0, 0, 0]] * 2


@pytest.mark.filterwarnings("ignore::fighter.errors.DataWarning")
def test_the_day_is_that_of_the_local_clock():
    df = waves(96, start="2023-04-30").assign(ds=lambda t: t.ds.dt.tz_localize("America/New_York"))
    panel = tiny(holidays="DE").read(df)
    assert panel.axis.zone == "America/New_York"
    assert not panel.axis.wall
    assert holiday_marks(panel, 96)[:, 0, 0].tolist() == [0.0] * 24 + [1.0] * 24 + [0.0] * 48


@pytest.mark.parametrize("backend", CONVERT)
def test_holidays_are_known_in_predict(backend, tmp_path):
    """The training table ends just before Christmas; nothing else is passed."""
    df = shops()
    train = df[df.ds < "2023-12-22"]
    settings = {"max_epochs": 30, "lr": 0.01, "calendar": False, "cycle": None, "ema": 0.9}
    model = small("linear", 7, 14, holidays="country", **settings)
    model.fit(CONVERT[backend](train))
    model.save(tmp_path / "m")
    model = Forecaster.load(tmp_path / "m")
    later = CONVERT[backend](train[["unique_id", "ds", "y"]])  # without the countries
    for forecast in (model.predict(), model.predict(later)):
        y = np.array(forecast[model.model_config.column]).reshape(2, 7)  # 22 to 28 December
        assert (y[:, [0, 1, 5]] > 60).all()
        assert (y[:, 3] < 40).all()
        assert y[0, 4] < 40 < y[1, 4]  # the 26th is one in Germany only


def test_countries_come_from_the_static_table():
    df = shops(200)
    static = df[["unique_id", "country"]].drop_duplicates().iloc[::-1]
    model = small("linear", holidays="country").fit(df.drop(columns="country"), static=static)
    context = model.fitted.context
    assert context.holidays == ("DE", "US")
    assert count_known_ahead(context) == 2 + 3
    later = shops(210).drop(columns="country")
    assert model.read(later).holidays == ("DE", "US")
    assert model.read(later[later.unique_id == "ohio"]).holidays == ("US",)


@all_new
def test_other_series_need_a_country():
    df = shops(200)
    model = small("linear", holidays="country", cycle=None).fit(df)
    new = df[df.unique_id == "ulm"].assign(unique_id="bonn")
    assert model.predict(new).shape[0] == 6
    with pytest.raises(FighterError, match="'bonn' was not trained on") as error:
        model.predict(new.drop(columns="country"))
    assert error.value.argument == "holidays"


def test_holidays_that_cannot_be_used_are_refused(monkeypatch):
    df = shops(200)
    sales = df.drop(columns="country")
    weekly = waves(60, freq="W")
    integers = waves(60).assign(ds=lambda t: t.groupby("unique_id").cumcount())
    mixed = df.assign(country=np.where(df.ds < "2021-02-01", "DE", "FR"))
    for table, holidays, words in (
        (sales, "Germany", "DE-BY"),
        (sales, "DE-XX", "DE-BY"),
        (weekly, "DE", "a day or less, the table has W"),
        (integers, "DE", "a day or less, the table has 1"),
        (mixed, "country", "'ulm' has more than one country, 'DE', 'FR'"),
        (df.assign(country=df.country.where(df.unique_id == "ulm")), "country", "empty"),
        (df.assign(country="Mars"), "country", "'Mars'"),
        (df, 49, "name of a column"),
    ):
        with pytest.raises(FighterError, match=words) as error:
            tiny(holidays=holidays).fit(table)
        assert error.value.argument == "holidays"
    holidays_of.cache_clear()
    monkeypatch.setitem(sys.modules, "holidays", None)
    with pytest.raises(FighterError, match="pip install holidays"):
        tiny(holidays="DE").fit(sales)


def test_holidays_on_the_command_line(tmp_path, capsys):
    shops(200).to_csv(tmp_path / "t.csv", index=False)
    command = ["fit", str(tmp_path / "t.csv"), "--horizon", "4", "--model", "linear"]
    command += ["--max-epochs", "1", "--holidays", "country", "--out", str(tmp_path / "m")]
    assert main(command) == 0
    assert main(["info", str(tmp_path / "m")]) == 0
    assert "holidays: DE, US" in capsys.readouterr().out
