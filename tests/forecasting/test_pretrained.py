"""The pretrained network as a model of its own, and as one of the forecasts that are mixed."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from fighter import FighterError, Forecaster, Frame
from fighter.forecasting import alone as alone_
from fighter.forecasting import mixture
from fighter.forecasting.blend_shares import make_blend
from fighter.models import Pretrained
from fighter.models.zero_shot import zero_shot

from ..tables import CONVERT, tail, waves
from .small import all_new, tiny
from .test_explain import check
from .test_storage import read, rewrite

QUIET = pytest.mark.filterwarnings("ignore::fighter.errors.DataWarning")


def zero(horizon: int = 6, **settings) -> Forecaster:
    settings = {"model": "pretrained", "verbose": False, "device": "cpu"} | settings
    return Forecaster(horizon, **settings)


def alone(model: Forecaster, share: float = 1.0) -> Forecaster:
    """Return the model with a share of the pretrained network and none of the trained one."""
    fitted = model.fitted
    blend = replace(
        fitted.blend,
        share=torch.zeros_like(fitted.blend.share),
        zero_shot=torch.full_like(fitted.blend.zero_shot, share),
    )
    other = Forecaster(**vars(fitted.config))
    other._fitted = replace(fitted, blend=blend)
    return other


# ---- without fit ----------------------------------------------------------------------------


@pytest.mark.parametrize("library", CONVERT)
def test_it_forecasts_without_fit(library):
    table = waves(120)
    made = zero(level=[80]).predict(CONVERT[library](table))
    assert type(made).__module__.startswith(library)
    made = pd.DataFrame(made.to_pandas() if library != "pandas" else made)
    names = ["unique_id", "ds", "Pretrained", "Pretrained-lo-80", "Pretrained-hi-80"]
    assert list(made) == names
    assert len(made) == 12
    values = torch.from_numpy(np.stack([table.y[:120], table.y[120:]], 1))
    rows, seen = torch.tensor([120]), torch.ones(120, 2, dtype=torch.bool)
    direct = zero_shot(values, seen, (24,), 6, rows, linked=True)[0, ..., 0]
    np.testing.assert_allclose(made.Pretrained, direct.T.flatten(), rtol=1e-4)


def test_the_point_lies_inside_its_intervals():
    made = zero(horizon=24, level=[20, 95]).predict(waves(200, noise=0.5))
    assert (made["Pretrained-lo-95"] <= made["Pretrained-lo-20"]).all()
    assert (made["Pretrained-lo-20"] <= made.Pretrained).all()
    assert (made.Pretrained <= made["Pretrained-hi-20"]).all()


@QUIET
@pytest.mark.parametrize("rows", [1, 2, 5])
def test_a_few_rows_are_enough(rows):
    made = zero(level=[80], freq="h").predict(waves(rows))
    assert made.notna().all().all()


def test_counts_are_not_forecast_below_zero():
    table = waves(90).assign(y=np.random.default_rng(0).poisson(0.3, 180).astype(float))
    made = zero(level=[95]).predict(table)
    assert (made[["Pretrained", "Pretrained-lo-95", "Pretrained-hi-95"]] >= 0).all().all()


def test_without_a_table_it_asks_for_one():
    with pytest.raises(FighterError, match="fit"):
        zero().predict()


def test_it_explains_what_it_took_from_each_series():
    table = waves(90, ids=("a", "b", "c"))
    model = zero()
    made = model.predict(table)
    taken = 0.0
    for step in (1, 6):
        graph = model.explain(table, unique_id="b", step=step)
        value = made[made.unique_id == "b"].Pretrained.iloc[step - 1]
        check(graph, value)
        taken += abs(graph.sources[..., [0, 2]]).sum()
    assert taken > 0


def test_it_plots_and_writes_a_page(tmp_path):
    table, model = waves(90), zero(level=[80])
    assert model.plot(table, path=tmp_path / "f.png") is not None
    model.save_page(tmp_path / "why.html", table)
    assert (tmp_path / "why.html").stat().st_size > 10_000


def test_the_order_of_the_series_does_not_matter():
    table = waves(90, ids=("a", "b", "c"))
    turned = table.assign(unique_id=table.unique_id.map({"a": "c", "b": "b", "c": "a"}))
    one = zero().predict(table).set_index(["unique_id", "ds"]).Pretrained
    other = zero().predict(turned).set_index(["unique_id", "ds"]).Pretrained
    for name, new in {"a": "c", "b": "b", "c": "a"}.items():
        np.testing.assert_allclose(one[name], other[new], rtol=1e-5, atol=1e-6)


# ---- fitted ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fitted() -> Forecaster:
    return zero(level=[80], model=Pretrained(tune=False)).fit(waves(240))


def test_fit_weighs_it_with_smoothing(fitted):
    plan = fitted.plan
    assert not plan.trained
    assert plan.network_share == 0
    assert plan.pretrained_share == pytest.approx(
        float(fitted.fitted.blend.zero_shot.mean()), abs=1e-3
    )
    assert set(plan.errors) == {"pretrained", "smoothing", "mixed"}
    assert plan.errors["mixed"] <= min(plan.errors.values()) + 1e-6


def test_a_share_of_one_is_the_network_itself(fitted):
    made = alone(fitted).predict().Pretrained
    np.testing.assert_allclose(made, zero(level=[80]).predict(waves(240)).Pretrained, rtol=1e-6)


def test_shares_are_those_of_the_mean(fitted):
    network, smoothing, mixed = (
        alone(fitted, share).predict().Pretrained for share in (1, 0, 0.25)
    )
    np.testing.assert_allclose(mixed, 0.25 * network + 0.75 * smoothing, rtol=1e-6)


@all_new
def test_new_series_are_served(fitted):
    other = waves(240, ids=("x",), seed=3)
    assert len(fitted.predict(other)) == 6


@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
def test_it_is_saved_bit_by_bit(fitted, tmp_path, share):
    model = alone(fitted, share)
    model.save(tmp_path)
    loaded = Forecaster.load(tmp_path)
    pd.testing.assert_frame_equal(loaded.predict(), model.predict(), check_exact=True)
    later = waves(250)
    pd.testing.assert_frame_equal(loaded.predict(later), model.predict(later), check_exact=True)


def test_a_model_fitted_with_other_weights_is_refused(fitted, tmp_path):
    alone(fitted).save(tmp_path)
    config, _ = read(tmp_path)
    rewrite(tmp_path, config=config | {"pretrained": "0123456789abcdef"})
    with pytest.raises(FighterError, match="other weights of the pretrained network"):
        Forecaster.load(tmp_path)


# ---- mixed with a trained network -----------------------------------------------------------


def holes() -> pd.DataFrame:
    table = waves(120)
    table.loc[table.index[[30, 31, 112, 115, 150, 200, 236, 239]], "y"] = np.nan
    return table


def late() -> pd.DataFrame:
    table = waves(120)
    return table[(table.unique_id == "a") | (table.ds >= "2024-01-03")]


@QUIET
@pytest.mark.parametrize("data", [waves, holes, late])
@pytest.mark.parametrize("share", [0.3, 1.0])
def test_explanations_add_up(data, share):
    model = alone(tiny(level=[80], cycle=None).fit(data()), share)
    made = model.predict()
    for graph in model.explain_all(steps=[1, 6]):
        value = made[made.unique_id == graph.target].Fighter.iloc[graph.step - 1]
        assert graph.forecast == pytest.approx(value, rel=1e-5, abs=1e-6)
        total = sum(graph.terms.values()) + graph.sources.sum()
        assert total == pytest.approx(graph.forecast, rel=1e-9, abs=1e-9)
        assert not graph.sources[:, np.isnan(graph.past)].any()


def test_the_default_asks_it_on_small_tables_and_can_do_without():
    assert tiny().fit(waves(120)).plan.pretrained
    without = Forecaster(6, frame=Frame(pretrained=False), verbose=False, device="cpu")
    assert not without.fit(waves(120)).plan.pretrained
    assert without.plan.pretrained_share == 0


def test_a_model_that_does_not_ask_it_names_no_weights(tmp_path):
    model = tiny(pretrained=False).fit(waves(120))
    model.save(tmp_path)
    config, _ = read(tmp_path)
    assert "pretrained" not in config
    assert len(Forecaster.load(tmp_path).predict()) == 12


def test_later_rows_do_not_change_the_forecasts_of_earlier_ones():
    table = waves(150)
    model = alone(tiny().fit(tail(table, 30)))
    known = tail(table, 10)
    wild = pd.concat([known, table[~table.index.isin(known.index)].assign(y=1e6)])
    windows = model.cross_validation(wild, n_windows=1, step_size=6)
    assert (windows.Fighter.abs() < 1e5).all() or windows.ds.min() > known.ds.max()


def test_it_is_asked_on_few_windows_and_the_others_on_all(monkeypatch):
    made = []

    def keep(*args):
        made.append(args[5])
        return make_blend(*args)

    monkeypatch.setattr(alone_, "TOKENS", {"cpu": 1})
    monkeypatch.setattr(mixture, "make_blend", keep)
    model = tiny(level=[80]).fit(waves(240, noise=0.3))
    (rehearsal,) = made
    asked = rehearsal.smoothed.zero_shot[:, 0, 0, 0].isfinite()
    assert 4 <= int(asked.sum()) <= 8 < 100 < len(rehearsal.windows)
    assert model.fitted.conformal_shifts.isfinite().all()
    assert np.isfinite(alone(model, 0.5).predict().select_dtypes("number")).all(axis=None)
    blend = alone(model, 0.5).fitted.blend
    point, smoothed = blend.point(rehearsal.smoothed), rehearsal.smoothed.point
    assert torch.equal(point[~asked], smoothed[~asked])
    assert not torch.equal(point[asked], smoothed[asked])
