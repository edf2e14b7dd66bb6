"""Tables of more series than a training step takes."""

import numpy as np
import pandas as pd
import pytest

from fighter import Forecaster, Frame, Training
from fighter.data import panel as panels
from fighter.data import ragged
from fighter.forecasting import autoconfig, fitted, learn, reaction, training_data
from fighter.models import DLinear, Fighter

FEW = Training(max_epochs=1)
pytestmark = pytest.mark.filterwarnings("ignore::fighter.DataWarning")


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Make 12 series many, so that tests are quick."""
    monkeypatch.setattr(autoconfig, "MANY_SERIES", 12)
    monkeypatch.setattr(autoconfig, "SERIES_AT_ONCE", 8)
    for room in (autoconfig, learn):
        monkeypatch.setattr(room, "STEPS", 5)
    monkeypatch.setattr(training_data, "JUDGES", 10)
    monkeypatch.setattr(fitted, "SERIES_AT_ONCE", 7)


def shop(series: int = 30, rows: int = 80, seed: int = 0) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    level = random.uniform(1, 50, series)
    wave = 1 + 0.5 * np.sin(2 * np.pi * np.arange(rows) / 7)[:, None]
    y = random.poisson(level * wave).astype(float)
    table = pd.DataFrame(y, columns=[f"item{i}" for i in range(series)])
    table["ds"] = pd.date_range("2024-01-01", periods=rows)
    long = table.melt("ds", var_name="unique_id", value_name="y")
    late = long.unique_id.isin(["item3", "item4"]) & (long.ds < "2024-02-20")
    early = long.unique_id.isin(["item5"]) & (long.ds > "2024-03-10")
    return long[~late & ~early]


@pytest.fixture(scope="module")
def table():
    return shop()


@pytest.fixture
def model(table):
    return Forecaster(7, level=[80], training=FEW, verbose=False).fit(table)


def test_a_step_takes_some_series(model):
    plan = model.plan
    assert (plan.series_at_once, plan.model.adjacency, plan.cycle) == (8, "none", None)
    assert model.fitted.network.core.series_apart
    assert not model.fitted.network.core.series_specific
    assert len(model.fitted.blend.share) == len(model.fitted.conformal_shifts) == 30


def test_series_do_not_depend_on_their_company(model, table):
    every = model.predict().set_index(["unique_id", "ds"])
    assert len(every) == 30 * 7
    assert np.isfinite(every.to_numpy()).all()
    some = table[table.unique_id.isin(["item2", "item5", "item20"])]
    apart = model.predict(some).set_index(["unique_id", "ds"])
    pd.testing.assert_frame_equal(apart, every.loc[apart.index], rtol=1e-5)


def test_new_series_are_served(model, table):
    new = table[table.unique_id == "item7"].assign(unique_id="new", y=lambda d: 2 * d.y)
    forecast = model.predict(new)
    assert (forecast.unique_id == "new").all()
    known = model.predict(table[table.unique_id == "item7"])
    assert forecast.Fighter.mean() == pytest.approx(2 * known.Fighter.mean(), rel=0.2)


def test_an_explanation_holds_the_series_alone(model, table):
    graph = model.explain(unique_id="item9", step=3)
    forecast = model.predict().set_index("unique_id").loc["item9"].Fighter.iloc[2]
    assert graph.ids == ("item9",)
    assert graph.forecast == pytest.approx(forecast, rel=1e-6)
    total = sum(graph.terms.values()) + np.nansum(graph.sources)
    assert total == pytest.approx(forecast, rel=1e-5)


def test_it_is_saved_and_trained_again_alike(model, table, tmp_path):
    model.save(tmp_path / "model")
    loaded = Forecaster.load(tmp_path / "model")
    pd.testing.assert_frame_equal(loaded.predict(), model.predict())
    again = Forecaster(7, level=[80], training=FEW, verbose=False).fit(table)
    pd.testing.assert_frame_equal(again.predict(), model.predict())


def test_evaluate_and_cross_validation(model, table):
    later = shop(rows=100)
    scores = model.evaluate(later, last=20)
    assert len(scores) == 30
    made = model.cross_validation(table[~table.unique_id.isin(["item5"])], n_windows=1)
    assert len(made) == 29 * 7


@pytest.mark.parametrize(
    ("config", "apart"),
    [(Fighter(adjacency="cosine"), False), (DLinear(), True), (Fighter(nodes="patch"), True)],
)
def test_other_models_train_on_some_series(table, config, apart):
    model = Forecaster(7, model=config, training=FEW, verbose=False).fit(table)
    assert model.plan.series_at_once == 8
    assert model.fitted.network.core.series_apart == apart
    assert np.isfinite(model.predict().iloc[:, 2]).all()


def test_weights_that_belong_to_series_see_all_of_them(table):
    config = Fighter(adjacency="lazy", members=1)
    model = Forecaster(7, model=config, training=FEW, verbose=False).fit(table)
    assert model.plan.series_at_once == 0
    assert model.fitted.network.core.series_specific


def staggered() -> pd.DataFrame:
    """Return items that are sold for 60 or 100 of 300 weeks; some rows and cells are missing."""
    random, weeks = np.random.default_rng(0), pd.date_range("2018-01-01", periods=300, freq="W-MON")
    parts = []
    for i in range(24):
        begin, rows = (0, 70, 200)[i % 3], 100 if i % 3 else 60
        y = random.poisson(20 + 10 * np.sin(2 * np.pi * np.arange(begin, begin + rows) / 52))
        y[: 3 * (i % 2)] = 0
        part = pd.DataFrame(
            {"unique_id": f"item{i}", "ds": weeks[begin : begin + rows], "y": y * 1.0}
        )
        part.loc[part.index[[30, -1]], "y"] = [np.nan, np.nan] if i % 7 == 0 else [5, 6]
        parts.append(part.drop(part.index[[20, 21, 40]]) if i % 5 == 0 else part)
    return pd.concat(parts, ignore_index=True)


@pytest.mark.parametrize(
    "options",
    [{}, {"leading_zeros": False}, {"frame": Frame(smoothing=True)}],
    ids=["plain", "leading zeros", "smoothing"],
)
def test_a_mostly_empty_grid_is_not_stored(monkeypatch, tmp_path, options):
    """Fits and forecasts, also of later rows, are the same to the last digit."""
    df = staggered()
    later = df.groupby("unique_id").tail(6).assign(ds=lambda t: t.ds + pd.Timedelta(weeks=6))
    new = df[df.unique_id == "item9"].assign(unique_id="new")
    later = pd.concat([later[later.unique_id != "item3"], new])
    sizes = pd.DataFrame({"unique_id": [f"item{i}" for i in range(24)], "size": np.arange(24.0)})
    found = []
    for dense in (10**9, 1500):
        monkeypatch.setattr(ragged, "DENSE", dense)
        monkeypatch.setattr(panels, "DENSE", dense)
        plain = {"lookback": 24, "validation": 20, "level": [80], "verbose": False}
        model = Forecaster(4, model=DLinear(), training=FEW, **plain, **options)
        model.fit(df, static=None if options else sizes)
        assert model.fitted.context.ragged == (dense == 1500)
        model.save(tmp_path / str(dense))
        model = Forecaster.load(tmp_path / str(dense))
        known = None if options else pd.concat([sizes, sizes[:1].assign(unique_id="new")])
        found.append([model.predict(), model.predict(later, static=known)])
        if not options:
            found[-1].append(model.evaluate(df))
        else:
            found[-1].append(model.explain(unique_id="item4").edges(top=5))
    for one, other in zip(*found, strict=True):
        pd.testing.assert_frame_equal(one, other, check_exact=True)


def test_what_if_takes_some_series_at_a_time(model, table, monkeypatch):
    changes = {"item7": "+20%", ("item5", "2024-03-10"): 90.0}
    monkeypatch.setattr(reaction, "SERIES_AT_ONCE", 7)
    some = model.what_if(None, changes)
    monkeypatch.setattr(reaction, "SERIES_AT_ONCE", 700)
    whole = model.what_if(None, changes)
    assert set(some.parts) == set(whole.parts)
    for name, part in whole.parts.items():
        np.testing.assert_allclose(some.parts[name], part, rtol=1e-4, atol=1e-6)
    moved = np.abs(some.difference).max(0) > 0
    assert {name for name, yes in zip(some.before.ids, moved, strict=True) if yes} == {
        "item5", "item7"
    }  # fmt: skip
    point = model.forecast().point
    np.testing.assert_allclose(some.before.point, point, rtol=2e-5, atol=2e-4)
