"""Series that see only those of their group, and the choice of the graph."""

import warnings

import numpy as np
import pandas as pd
import pytest
import torch

from fighter import Forecaster, Frame, Training
from fighter.errors import FighterError
from fighter.forecasting import autoconfig, fitted, graph_choice, learn, training_data
from fighter.models import Fighter
from fighter.models import fighter as core

FEW = Training(max_epochs=1)
ALONE = Frame(smoothing=False, pretrained=False, calendar=False)
KEYS = ["store", "item"]
pytestmark = pytest.mark.filterwarnings("ignore::fighter.DataWarning")


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Make 12 series many, so that tests are quick."""
    monkeypatch.setattr(autoconfig, "MANY_SERIES", 12)
    monkeypatch.setattr(graph_choice, "MANY_SERIES", 12)
    monkeypatch.setattr(autoconfig, "SERIES_AT_ONCE", 8)
    for room in (autoconfig, learn):
        monkeypatch.setattr(room, "STEPS", 5)
    monkeypatch.setattr(training_data, "JUDGES", 10)
    monkeypatch.setattr(fitted, "SERIES_AT_ONCE", 7)


def shop(stores: int = 8, items: int = 3, rows: int = 60, shared: bool = True) -> pd.DataFrame:
    """Return noisy series around slow waves, which the items of a store share, or each its own."""
    random, count = np.random.default_rng(0), stores * items
    wave = np.zeros((rows, stores if shared else count))
    for t in range(1, rows):
        wave[t] = 0.9 * wave[t - 1] + random.normal(size=wave.shape[1])
    wave = wave.repeat(items, 1) if shared else wave
    y = 10 + wave + 2 * random.normal(size=(rows, count))
    columns = {
        "y": y.T.ravel(),
        "ds": np.tile(pd.date_range("2024-01-01", periods=rows), count),
        "store": np.repeat([f"s{i // items}" for i in range(count)], rows),
        "item": np.repeat([f"i{i % items}" for i in range(count)], rows),
    }
    return pd.DataFrame(columns)


@pytest.fixture(scope="module")
def table():
    return shop()


def forecaster(**model) -> Forecaster:
    return Forecaster(
        3, lookback=14, model=Fighter(**model), level=[80], id_col=KEYS, training=FEW, verbose=False
    )


@pytest.fixture
def model(table):
    return forecaster(groups="store").fit(table)


@pytest.fixture
def alone(table):
    """Return a model whose forecasts are the network's."""
    made = Forecaster(
        3, lookback=14, model=Fighter(groups="store"), id_col=KEYS, training=FEW, frame=ALONE,
        verbose=False,
    )  # fmt: skip
    return made.fit(table)


def indexed(forecast: pd.DataFrame) -> pd.DataFrame:
    return forecast.set_index([*KEYS, "ds"])


def changed(table: pd.DataFrame, store: str) -> pd.DataFrame:
    mask = (table.store == store) & (table["item"] == "i0")
    return table.assign(y=table.y.where(~mask, table.y + 5 * np.sin(np.arange(len(table)))))


def test_a_forecast_depends_on_its_group_only(alone, table):
    assert (alone.plan.model.adjacency, alone.plan.series_at_once) == ("cosine", 8)
    y = indexed(alone.predict(table))
    moved = indexed(alone.predict(changed(table, "s3")))
    differs = (moved - y).abs().max(axis=1).groupby("store").max()
    assert differs["s3"] > 1e-3
    assert differs.drop("s3").max() < 1e-5
    other = (moved - y).abs().max(axis=1).xs("s3").groupby("item").max()
    assert (other > 1e-6).all()  # the other items of the store see the change


def test_a_group_is_forecast_without_the_others(model, table):
    y = indexed(model.predict(table))
    some = indexed(model.predict(table[table.store == "s5"]))
    pd.testing.assert_frame_equal(some, y.loc[some.index], rtol=1e-5)


def test_evaluate_takes_whole_groups(model, table):
    scores = model.evaluate(table, last=10)
    assert len(scores) == 24
    assert np.isfinite(scores.select_dtypes("number").to_numpy()).all()


def test_a_new_series_joins_its_group(alone, table):
    new = table[(table.store == "s2") & (table["item"] == "i0")].assign(item="new")
    both = pd.concat([table[table.store == "s2"], new])
    forecast = indexed(alone.predict(both))
    assert len(forecast) == 4 * 3
    moved = indexed(alone.predict(changed(both, "s2")))
    assert (moved - forecast).loc["s2", "new"].abs().to_numpy().max() > 1e-6


def test_parts_of_groups_are_encoded_as_the_whole(alone, table, monkeypatch):
    y = alone.predict(table)
    monkeypatch.setattr(core, "MOST_TOGETHER", 4)
    pd.testing.assert_frame_equal(alone.predict(table), y, rtol=1e-5)


@pytest.mark.parametrize("name", ["model", "alone"])
def test_an_explanation_holds_the_group(name, request):
    model = request.getfixturevalue(name)
    graph = model.explain(unique_id=("s4", "i1"), step=2)
    y = indexed(model.predict()).loc["s4", "i1"].Fighter.iloc[1]
    assert {store for store, _ in graph.ids} == {"s4"}
    assert len(graph.ids) == 3
    assert graph.forecast == pytest.approx(y, rel=1e-5)
    assert sum(graph.terms.values()) + np.nansum(graph.sources) == pytest.approx(y, rel=1e-5)


def test_the_network_of_a_table_has_links_inside_groups_only(alone, table):
    found = alone.network(table, windows=4)
    stores = np.array([store for store, _ in found.ids])
    apart = stores[:, None] != stores
    assert np.nan_to_num(found.strength)[apart].max() == 0
    assert found.share[apart].max() == 0
    assert found.share[~apart & ~np.eye(len(stores), dtype=bool)].max() > 0


def test_a_static_column_names_the_groups_of_a_small_table(table, tmp_path):
    long = table[table.store < "s4"].assign(unique_id=lambda d: d.store + d["item"])
    regions = long.drop_duplicates("unique_id")[["unique_id", "store"]]
    long = long[["unique_id", "ds", "y"]]
    config = Fighter(groups="store")
    made = Forecaster(3, lookback=14, model=config, training=FEW, verbose=False)
    made.fit(long, static=regions)
    assert made.plan.series_at_once == 0
    made.save(tmp_path / "model")
    loaded = Forecaster.load(tmp_path / "model")
    assert loaded.plan.model.groups == "store"
    pd.testing.assert_frame_equal(loaded.predict(), made.predict())
    group = long[long.unique_id.str.startswith("s1")]
    y = made.predict(long).set_index(["unique_id", "ds"])
    some = made.predict(group).set_index(["unique_id", "ds"])
    pd.testing.assert_frame_equal(some, y.loc[some.index], rtol=1e-5)


@pytest.mark.parametrize(
    "settings",
    [{"adjacency": "lazy"}, {"adjacency": "none"}, {"nodes": "patch"}, {"kappa": 1}],
    ids=str,
)
def test_groups_need_a_graph_that_is_drawn_between_series(settings):
    with pytest.raises(FighterError) as caught:
        Fighter(groups="store", **settings)
    assert caught.value.argument == "groups"


def test_groups_that_no_column_names_are_refused(table):
    with pytest.raises(FighterError, match="store") as caught:
        forecaster(groups="shop").fit(table)
    assert caught.value.argument == "groups"


def choose(table: pd.DataFrame, **options) -> Forecaster:
    made = Forecaster(
        1, lookback=12, model=Fighter(adjacency="auto", groups="store", heads=2), id_col=KEYS,
        validation=20, frame=ALONE, verbose=False, **options,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return made.fit(table)


@pytest.mark.parametrize("shared", [True, False])
def test_groups_are_chosen_if_they_share_a_shock(monkeypatch, shared):
    for room in (autoconfig, learn):
        monkeypatch.setattr(room, "STEPS", 40)
    monkeypatch.setattr(autoconfig, "SERIES_AT_ONCE", 32)
    monkeypatch.setattr(training_data, "JUDGES", 200)
    monkeypatch.setattr(graph_choice, "TRIAL", 1.0)
    made = choose(shop(30, 6, 120, shared), training=Training(max_epochs=2))
    graphs = made.plan.graphs
    assert list(graphs) == ["none", "groups", "cosine"]
    assert graphs["none"] == 1.0
    if shared:
        assert graphs["groups"] < 0.98
        assert (made.plan.model.groups, made.plan.model.adjacency) == ("store", "cosine")
    else:
        assert graphs["groups"] > 0.99
        assert made.plan.model.adjacency == "none"


def test_a_table_that_is_too_short_to_choose_by_has_no_graph(table):
    made = forecaster(adjacency="auto").fit(table[table.ds < "2024-01-20"])
    assert (made.plan.model.adjacency, dict(made.plan.graphs)) == ("none", {})


def test_the_choice_is_saved(table, tmp_path):
    made = choose(table, training=FEW)
    made.save(tmp_path / "model")
    loaded = Forecaster.load(tmp_path / "model")
    assert dict(loaded.plan.graphs) == dict(made.plan.graphs)
    assert len(made.plan.graphs) == 3
    torch.testing.assert_close(loaded.fitted.network.state_dict(), made.fitted.network.state_dict())
