"""The network of a table: exact parts, planted links, the same for any order of the series."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

from fighter import FighterError, Forecaster, Frame, Network
from fighter.data import grid_load
from fighter.explain.links import count_hops, own_parts, split_windows
from fighter.models import MODELS

from ..tables import tiny, waves, wide
from .small import small

COLUMNS = ["source", "target", "lag", "strength", "share", "sign", "hops", "stability"]
ALONE = ("cyclenet", "dlinear", "linear", "patchtst")


def led(rows: int = 300, lag: int = 3, noise: float = 0.1, seed: int = 0) -> pd.DataFrame:
    """Return a wide table where b follows a by some steps, and c follows nobody."""
    rng = np.random.default_rng(seed)
    a, c = rng.normal(size=(2, rows))
    b = np.roll(a, lag) + noise * rng.normal(size=rows)
    return pd.DataFrame({"ds": np.arange(rows), "a": a, "b": b, "c": c})


def learned(table: Any, **more) -> Forecaster:
    settings = {"lookback": 8, "cycle": None, "max_epochs": 25, "lr": 0.01, "smoothing": False}
    return tiny(2, **{**settings, **more}).fit(table)


@pytest.fixture(scope="module")
def model():
    return learned(led())


@pytest.fixture(scope="module")
def network(model):
    return model.network(led())


def whole(network: Network) -> pd.DataFrame:
    return network.table("pandas").set_index(["source", "target"]).sort_index()


@pytest.mark.filterwarnings("ignore::fighter.errors.DataWarning")
@pytest.mark.parametrize("name", [name for name in MODELS if name != "pretrained"])
def test_parts_and_hops_are_those_of_the_explanation(name):
    df = waves(90, ids=("a", "b", "c"))
    model = small(name, smoothing=False).fit(df)
    fitted = model.fitted
    panel = model.read()
    known = np.zeros((fitted.plan.horizon, 3, 0))
    served, scaler, windows = fitted.window_after(panel, known)
    batch, step = windows.gather(torch.zeros(1, dtype=torch.long)), 3
    position = batch.start + fitted.preprocessing.start_step(served)
    given = fitted.network, batch, position, torch.tensor([step - 1]), range(3)
    split = own_parts if fitted.network.core.series_apart else split_windows
    hops = list(count_hops(*given))
    for links, walked in zip(split(*given), hops, strict=True):
        graph = model.explain(unique_id=served.ids[links.target], step=step)
        parts = links.parts[0].double().numpy() * scaler.scale[links.target]
        size = max(np.abs(graph.sources).max(), 1e-9)
        assert parts == pytest.approx(graph.sources.sum(0), abs=2e-5 * size)
        if not graph.layers:
            continue
        weights = np.abs(graph.sources).sum(1)  # [hops, N]
        mean = (np.arange(len(weights))[:, None] * weights).sum(0) / weights.sum(0).clip(1e-30)
        assert walked.double().numpy() == pytest.approx(mean, abs=1e-3)


@pytest.mark.filterwarnings("ignore::fighter.errors.DataWarning")
@pytest.mark.parametrize("name", list(MODELS))
def test_every_model_has_a_network(name):
    df = waves(90, ids=("a", "b", "c"))
    network = small(name).fit(df).network(df, windows=5)
    table = network.table()
    assert list(table.columns) == COLUMNS
    shares = table.groupby("target").share.sum()
    assert shares.to_numpy() == pytest.approx(np.ones(3), abs=1e-5)
    links = table[table.source != table.target]
    if name in ALONE:
        assert not len(links)
        assert "so no link between series can exist" in network.summary()


def test_a_planted_link_is_found(network):
    first = network.table(top=1, own=False).iloc[0]
    assert (first.source, first.target, first.lag, first.sign) == ("a", "b", 3, 1)
    assert first.stability == 1
    assert first.strength > 0.5
    others = network.table(own=False).iloc[1:]
    assert others.strength.max() < first.strength / 3


def test_a_link_that_pulls_down_has_a_negative_sign():
    table = led()
    table["b"] = -table["b"]
    first = learned(table).network(table).table(top=1, own=False).iloc[0]
    assert (first.source, first.target, first.sign) == ("a", "b", -1)


def test_a_link_that_is_not_borne_out_is_weak(model):
    """On later rows, where b no longer follows a, the model still takes from a."""
    later = led(seed=1)
    rng = np.random.default_rng(2)
    later["b"] = rng.normal(size=len(later))
    later["ds"] += 300
    before, after = (whole(model.network(table)) for table in (led(), later))
    link = ("a", "b")
    assert after.share[link] > before.share[link] / 2
    assert after.strength[link] < before.strength[link] / 3


def test_the_order_of_the_series_permutes_the_network(model):
    def of(columns: str) -> Network:
        table = led()[["ds", *columns]]
        cosine = {"adjacency": "cosine", "max_epochs": 2}
        if columns == "abc":
            of.model = learned(table, **cosine)
        return of.model.network(table)

    one, other = whole(of("abc")), whole(of("cab"))
    pd.testing.assert_frame_equal(one, other, rtol=1e-4, atol=1e-5)
    assert model.network(led()[["ds", "c", "a", "b"]]).table(top=1, own=False).target[0] == "b"


def test_a_saved_model_has_the_same_network(model, network, tmp_path):
    model.save(tmp_path / "m")
    again = Forecaster.load(tmp_path / "m").network(led())
    pd.testing.assert_frame_equal(again.table(), network.table())
    assert not len(again.compare(network))


def test_tables_come_as_the_type_that_was_explained(model):
    network = model.network(pl.from_pandas(led()), windows=10)
    assert isinstance(network.table(), pl.DataFrame)
    assert isinstance(network.compare(network), pl.DataFrame)
    assert isinstance(network.table("pandas"), pd.DataFrame)


def test_missing_values_have_no_part():
    table = led()
    table.loc[100:140, "a"] = np.nan
    with pytest.warns(match="in the data"):
        panel = Forecaster(2, verbose=False).read(table)
    network = learned(panel, max_epochs=3).network(panel)
    assert np.isfinite(network.strength).all()
    assert network.share.sum(0) == pytest.approx(np.ones(3), abs=1e-5)


def test_the_end_of_the_training_table_may_be_too_short(model):
    with pytest.raises(FighterError, match=r"pass a longer table") as caught:
        model.network()
    assert caught.value.argument == "df"
    with pytest.raises(FighterError) as caught:
        model.network(led(), windows=0)
    assert caught.value.argument == "windows"


def test_few_windows_are_noted(model, network):
    assert "stability says little" in model.network(led(), windows=3).summary()
    assert not network.notes


def test_too_many_series_are_refused(model, monkeypatch):
    monkeypatch.setattr("fighter.forecasting.network.MOST_SERIES", 2)
    with pytest.raises(FighterError, match="at most 2"):
        model.network(led())


def test_targets_in_groups_give_the_same(model, network, monkeypatch):
    monkeypatch.setattr("fighter.forecasting.network.PROFILE_CELLS", 1)
    monkeypatch.setattr("fighter.forecasting.network.AT_ONCE", 7)
    grouped = model.network(led())
    pd.testing.assert_frame_equal(grouped.table(), network.table(), rtol=1e-4, atol=1e-6)


def test_one_series_has_no_links():
    table = wide(waves(90)).reset_index()[["ds", "a"]]
    network = tiny().fit(table).network(table)
    assert "only one series" in network.summary()
    assert len(network.table()) == 1
    assert not len(network.table(own=False))


@pytest.mark.filterwarnings("ignore::fighter.errors.DataWarning")
def test_a_short_table_has_no_links_and_says_why():
    table = waves(30, ids=("a", "b"))
    frame = Frame(vector=False)
    model = Forecaster(6, frame=frame, verbose=False, device="cpu").fit(table)
    assert not model.plan.trained
    network = model.network()
    assert "look at each series alone, so no link between series can exist" in network.summary()
    assert not len(network.table(own=False))
    assert network.table().share.tolist() == [1.0, 1.0]


@pytest.mark.filterwarnings("ignore::fighter.errors.DataWarning")
def test_the_mixture_counts_smoothing_as_the_own_past():
    table = led(200)
    frame = {"cycle": None, "smoothing": True, "pretrained": False, "vector": False}
    model = tiny(2, **frame, max_epochs=8, lr=0.01).fit(table)
    shares = model.fitted.blend.share.numpy()
    network = model.network(windows=20)
    assert (np.diagonal(network.share) >= 1 - shares - 1e-6).all()
    assert network.share.sum(0) == pytest.approx(np.ones(3), abs=1e-5)


@pytest.mark.slow
def test_the_pretrained_network_links_series():
    table = led(200, noise=0.01)
    model = Forecaster(2, model="pretrained", verbose=False, device="cpu")
    network = model.network(table, windows=4)
    graph = model.explain(table, unique_id="b", step=1)
    assert network.share.sum(0) == pytest.approx(np.ones(3), abs=1e-5)
    assert bool(np.abs(graph.sources[:, :, [0, 2]]).sum()) == bool(network.share[[0, 2], 1].sum())


@pytest.mark.slow
def test_in_the_generated_grid_east_follows_west_by_nine_hours():
    grid = grid_load(24 * 7 * 10)
    df = grid.frame().drop(columns="temperature")
    links = Forecaster(24, verbose=False, device="cpu").fit(df).network().table(own=False)
    east = links[(links.source == "west") & (links.target == "east")]
    assert east.index[0] < 3  # among the three strongest
    assert abs(east.lag.iloc[0] - 9) <= 1
    planted = {(link.source, link.target) for link in grid.links}
    assert len(planted & {*zip(links.source[:5], links.target[:5], strict=True)}) >= 3
