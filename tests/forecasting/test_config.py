"""Manners of an estimator: settings, warm starts, silence, what a failure leaves behind."""

import inspect
import json
import warnings

import numpy as np
import pytest

from fighter import FighterError, Forecaster

from ..tables import tail, tiny, waves
from ..training.nets import same_weights


def test_get_params_makes_the_same_again():
    """As scikit-learn clones: from the parameters alone, each of them the very same object."""
    given = {"level": [80, 95], "options": {"channels": 4}, "past": ["x"], "seed": 3}
    model = tiny(**given)
    clone = type(model)(**model.get_params(deep=False))
    assert clone.get_params() == model.get_params()
    for name, value in model.get_params().items():
        assert getattr(clone, name) is value
    assert model.get_params()["level"] is given["level"]
    assert list(model.get_params()) == list(inspect.signature(Forecaster).parameters)


def test_set_params_all_or_nothing():
    model = tiny()
    assert model.set_params(horizon=3, lr=0.1) is model
    assert (model.horizon, model.lr) == (3, 0.1)
    with pytest.raises(FighterError, match="horizon=0"):
        model.set_params(lr=0.5, horizon=0)
    assert (model.horizon, model.lr) == (3, 0.1)
    with pytest.raises(FighterError, match="there is no setting 'depth'; there are horizon"):
        model.set_params(depth=3)


def test_set_params_waits_for_the_next_fit():
    model = tiny(level=[80]).fit(waves(60))
    before = model.predict()
    model.set_params(level=[50, 95], model="seq2seq", horizon=3)
    assert model.predict().equals(before)
    assert len(model.fit(waves(60)).predict().columns) == 7


def test_repr_shows_what_differs():
    assert repr(Forecaster(24)) == "Forecaster(horizon=24)"
    shown = repr(Forecaster(24, 96, level=np.array([80, 95]), lr=0.01))
    assert shown == "Forecaster(horizon=24, lookback=96, level=array([80, 95]), lr=0.01)"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"horizon": 0}, "horizon=0: needs a whole number of at least 1"),
        ({"horizon": 2.5}, "horizon=2.5"),
        ({"horizon": True}, "horizon=True"),
        ({"model": "arima"}, "model='arima': needs one of fighter"),
        ({"level": [80], "quantiles": [0.1]}, "give one of them"),
        ({"level": [100]}, "100 is not between 0 and 100 per cent"),
        ({"level": 80}, r"level=80: needs a list, such as \[80\]"),
        ({"quantiles": [1.5]}, "1.5 is not between 0 and 1"),
        ({"past": "temperature"}, r"past='temperature': needs a list, such as \['temperature'\]"),
        ({"cycle": "daily"}, "cycle='daily'"),
        ({"cycle": 0}, "cycle=0"),
        ({"cycle": -5}, "cycle=-5"),
        ({"discount": -1}, "discount=-1"),
        ({"discount": "none"}, "discount='none'"),
        (
            {"model": "linear", "heads": 4},
            "heads=4: model='linear' has no such setting; leave it out, or take a model that has "
            "it: fighter, autoformer",
        ),
        ({"model": "DLinear"}, r"model='DLinear': needs one of .*\. Did you mean 'dlinear'\?$"),
        ({"model": "gcn", "heads": 8}, "heads=8: model='gcn' has no such setting"),
        ({"model": "naive", "width": 16}, "width=16: model='naive'"),
        ({"model": "dlinear", "dropout": 0.0}, "dropout=0.0: model='dlinear'"),
        ({"model": "transformer", "kappa": 3}, "kappa=3: .* has it: fighter, gcn$"),
        ({"model": "patchtst", "nodes": "series"}, "nodes='series': .* has it: fighter$"),
        ({"model": "gcn", "adjacency": "static"}, "adjacency='static': model='gcn'"),
        ({"model": "normlin", "members": 4}, "members=4: .* has it: fighter$"),
        ({"members": 0}, "members=0: needs a whole number of at least 1"),
    ],
)
def test_wrong_settings(wrong, message):
    with pytest.raises(FighterError, match=message):
        Forecaster(**{"horizon": 6, **wrong})


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"validation": 3}, "validation=3: needs 0, or from horizon 6 to"),
        ({"nodes": "edges"}, "nodes='edges': needs series, patch or time"),
        ({"heads": 3}, "heads=3 does not divide width=16"),
        ({"members": 2, "nodes": "patch"}, 'members=2: needs nodes="series"'),
        ({"options": {"depth": 1}}, "no option depth"),
        ({"loss": "huber"}, "loss='huber': needs one of mae, mse"),
        ({"freq": "fortnight"}, "freq='fortnight'"),
    ],
)
def test_wrong_settings_that_show_when_fitting(wrong, message):
    with pytest.raises(FighterError, match=message):
        tiny(**wrong).fit(waves(60))


def test_fit_returns_self_and_is_the_same_every_time():
    first, second = tiny(dropout=0.3), tiny(dropout=0.3)
    assert first.fit(waves(60)) is first
    second.fit(waves(60))
    assert same_weights(first.network, second.network)
    assert first.history == second.history
    assert first.predict().equals(second.predict())
    once = first.predict()
    assert same_weights(first.fit(waves(60)).network, second.network)  # a second fit begins anew
    assert first.predict().equals(once)


def test_warm_start_goes_on():
    df = waves(120)
    cold = tiny(max_epochs=10, lr=0.01, ema=0.9).fit(tail(df, 10))
    first, last = cold.history[0]["loss"], cold.history[-1]["loss"]
    plan, ids = cold.plan, cold.preparation.ids
    warm = cold.set_params(max_epochs=2, lr=1e-4).fit(df.iloc[::-1], warm_start=True)
    assert warm is cold
    assert len(warm.history) == 2
    assert warm.history[0]["loss"] < last + 0.2 * (first - last)
    assert (warm.plan.network, warm.preparation.ids) == (plan.network, ids)
    assert warm.predict().ds.min() == df.ds.max() + (df.ds[1] - df.ds[0])
    with pytest.raises(FighterError, match="has not been fitted"):
        tiny().fit(df, warm_start=True)
    with pytest.raises(FighterError, match="'z' is not one of them"):
        warm.fit(waves(60, ids=("a", "z")), warm_start=True)


@pytest.mark.parametrize("warm_start", [False, True])
def test_a_fit_that_fails_leaves_the_model_as_it_was(warm_start):
    model = tiny(level=[80]).fit(waves(60))
    before, weights = model.predict(), {k: v.clone() for k, v in model.network.state_dict().items()}
    model.set_params(lr=1e30, ema=0.0)
    with pytest.raises(FighterError, match=r"lr=1e\+30: .*loss became (nan|inf) in epoch"):
        model.fit(waves(80), warm_start=warm_start)
    assert model.predict().equals(before)
    assert all((model.network.state_dict()[k] == v).all() for k, v in weights.items())
    with pytest.raises(FighterError, match="series 'a' has 8 points"):
        model.fit(waves(8), warm_start=warm_start)
    assert model.predict().equals(before)


def test_silence(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        model = tiny(level=[80]).fit(waves(60))
        model.predict()
        model.evaluate(waves(60))
        model.cross_validation(waves(60))
    assert capfd.readouterr() == ("", "")
    assert not list(tmp_path.iterdir())


def test_folder_holds_the_metrics(tmp_path):
    model = tiny().fit(waves(60), folder=tmp_path / "run")
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == model.history
    model.save(tmp_path / "run")  # beside them
    assert sorted(p.name for p in (tmp_path / "run").iterdir()) == [
        "config.json", "metrics.jsonl", "model.safetensors",
    ]  # fmt: skip


def test_tensorboard_needs_a_place():
    with pytest.raises(FighterError, match="tensorboard=True needs folder="):
        tiny().fit(waves(60), tensorboard=True)


def test_the_training_table_is_not_kept():
    model = tiny().fit(waves(60))
    assert len(model._like) == 1


def test_defaults_serve_a_single_short_series():
    df = waves(40, ids=("a",))[["ds", "y"]]
    forecast = Forecaster(4, max_epochs=1, width=16, verbose=False).fit(df).predict()
    assert forecast.columns.tolist() == ["unique_id", "ds", "Fighter"]
    assert len(forecast) == 4
