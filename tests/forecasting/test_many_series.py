"""Tables of more series than a training step takes."""

import numpy as np
import pandas as pd
import pytest

from fighter import Forecaster, Training
from fighter.forecasting import autoconfig, fit, fitted
from fighter.models import DLinear, Fighter

FEW = Training(max_epochs=1)
pytestmark = pytest.mark.filterwarnings("ignore::fighter.DataWarning")


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Make 12 series many, so that tests are quick."""
    monkeypatch.setattr(autoconfig, "MANY_SERIES", 12)
    monkeypatch.setattr(autoconfig, "SERIES_AT_ONCE", 8)
    for room in (autoconfig, fit):
        monkeypatch.setattr(room, "STEPS", 5)
    monkeypatch.setattr(fit, "JUDGES", 10)
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
    assert model.network.core.series_apart
    assert not model.network.core.series_specific
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
    assert model.network.core.series_apart == apart
    assert np.isfinite(model.predict().iloc[:, 2]).all()


def test_weights_that_belong_to_series_see_all_of_them(table):
    config = Fighter(adjacency="lazy", members=1)
    model = Forecaster(7, model=config, training=FEW, verbose=False).fit(table)
    assert model.plan.series_at_once == 0
    assert model.network.core.series_specific
