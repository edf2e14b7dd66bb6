"""The vector autoregression in the mixture: chosen, explained, stored, and read as links."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from fighter import FighterError, Forecaster, Frame
from fighter.models import Fighter

from ..tables import tiny

pytestmark = pytest.mark.filterwarnings("ignore::fighter.errors.DataWarning")


def follow(rows: int = 160, seed: int = 0) -> pd.DataFrame:
    """Return three series: the second follows the first by two steps, the third is noise."""
    rng = np.random.default_rng(seed)
    y = rng.normal(size=(rows, 3))
    y[2:, 1] = y[:-2, 0] + 0.2 * y[2:, 1]
    times = pd.date_range("2024-01-01", periods=rows, freq="D")
    table = pd.DataFrame(10 + y, columns=["lead", "lag", "noise"]).assign(ds=times)
    return table.melt("ds", var_name="unique_id", value_name="y")[["unique_id", "ds", "y"]]


@pytest.fixture(scope="module")
def fitted() -> Forecaster:
    return tiny(2, None, level=[80]).fit(follow())


def with_share(model: Forecaster, share: float, network: float = 0.5) -> Forecaster:
    """Return the model with other shares of the vector autoregression and of the network."""
    blend = model.fitted.blend
    assert blend is not None
    vector, own = (torch.full_like(blend.vector, each) for each in (share, network))
    blend = replace(blend, vector=vector, share=own)
    made = Forecaster(**model.get_params(deep=False))
    made._fitted = replace(model.fitted, blend=blend)
    return made


def test_it_has_a_share_where_one_series_leads_another(fitted):
    blend = fitted.fitted.blend
    assert blend is not None
    shares = dict(zip(fitted.fitted.context.ids, blend.vector.tolist(), strict=True))
    assert shares["lag"] > 0.3
    assert fitted.plan.vector_share == pytest.approx(float(blend.vector.mean()), abs=1e-3)
    table, errors = follow(200), {}
    for name, frame in (("with", Frame()), ("without", Frame(vector=False))):
        model = tiny(2, None, frame=frame).fit(table[table.ds < "2024-06-09"])
        score = model.evaluate(table, last=40, metrics=["mae"])
        errors[name] = float(score[score.unique_id == "lag"].mae.iloc[0])
    assert errors["with"] < 0.8 * errors["without"]


@pytest.mark.parametrize(
    "settings",
    [
        {"frame": Frame(vector=False)},
        {"frame": Frame(smoothing=False)},
        {"model": Fighter(nodes="patch", width=16, heads=2)},
        {"model": Fighter(adjacency="none", width=16, heads=2)},
        {"model": Fighter(kappa=1, width=16, heads=2)},
        {"model": "dlinear"},
    ],
)
def test_it_is_left_out_where_series_do_not_see_each_other(settings):
    common = {"max_epochs": 1, "verbose": False, "device": "cpu"}
    made = Forecaster.from_flat(horizon=2, lookback=12, **common, **settings)
    plan = made.fit(follow(80)).plan
    assert not plan.vector
    assert plan.vector_share == 0


def test_a_single_series_has_none():
    table = follow(80)
    assert not tiny(2).fit(table[table.unique_id == "lead"]).plan.vector


def test_the_setting_is_checked():
    with pytest.raises(FighterError) as caught:
        Frame(vector="yes")
    assert caught.value.argument == "vector"


@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
def test_parts_add_up_to_the_forecast(fitted, share):
    model = with_share(fitted, share)
    forecast = model.predict().set_index(["unique_id", "ds"]).Fighter
    for series in ("lead", "lag", "noise"):
        for step in (1, 2):
            graph = model.explain(unique_id=series, step=step)
            total = sum(graph.terms.values()) + float(graph.sources.sum())
            assert graph.forecast == pytest.approx(total, rel=1e-9)
            expected = forecast[series].iloc[step - 1]
            assert graph.forecast == pytest.approx(expected, rel=1e-6)


def test_parts_of_other_series_took_one_hop(fitted):
    model = with_share(fitted, 1.0, network=0.0)
    graph = model.explain(unique_id="lag", step=1)
    edges = graph.edges()
    strongest = edges[edges.source == "lead"].iloc[0]
    assert (strongest.lag, strongest.hop) == (2, 1)


def test_a_saved_model_forecasts_the_same(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    loaded = Forecaster.load(tmp_path / "model")
    pd.testing.assert_frame_equal(loaded.predict(), fitted.predict())
    assert loaded.plan == fitted.plan


def test_some_series_are_forecast_as_with_all(fitted):
    table = follow(170)
    every = fitted.predict(table)
    some = fitted.predict(table[table.unique_id != "lead"])
    late = every[every.unique_id != "lead"].reset_index(drop=True)
    assert some.unique_id.unique().tolist() == ["lag", "noise"]
    assert (some.ds.to_numpy() == late.ds.to_numpy()).all()
    assert np.isfinite(some.Fighter).all()


def test_what_if_adds_up(fitted):
    model, table = with_share(fitted, 0.6), follow()
    last = table.ds.max()
    change = model.what_if(table, {("lead", last): "+3"})
    np.testing.assert_allclose(sum(change.parts.values()), change.difference, atol=1e-9)
    after = table.copy()
    after.loc[(after.unique_id == "lead") & (after.ds == last), "y"] += 3
    for forecast, rows in ((change.before, table), (change.after, after)):
        expected = model.predict(rows).Fighter.to_numpy().reshape(-1, 2).T
        np.testing.assert_allclose(forecast.point, expected, rtol=1e-5)
    place = change.before.ids.index("lag")
    effect = change.effects[f"lead {last}"]
    assert effect[1, place] > 0.5 * 0.4 * 3  # half the mixture, most of a share of 0.6


def test_links_are_read_from_it(fitted):
    network = fitted.network()
    links = network.table(own=False)
    best = links.iloc[0]
    assert (best.source, best.target, best.lag) == ("lead", "lag", 2)
    assert best.sign == 1
    assert best.stability > 0.9
    others = links.strength[1:]
    assert best.strength > 5 * others.max()
    np.testing.assert_allclose(network.share.sum(0), 1)


def test_a_table_too_short_for_a_network_can_have_links():
    table = follow(40)
    model = tiny(1, None).fit(table)
    assert not model.plan.trained
    network = with_share(model, 0.5, network=0.0).network(table)
    best = network.table(own=False).iloc[0]
    assert (best.source, best.target, best.lag) == ("lead", "lag", 2)
    np.testing.assert_allclose(network.share.sum(0), 1)
