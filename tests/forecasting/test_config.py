"""Settings, warm starts, silence, and what a failed fit leaves behind."""

import inspect
import json
import warnings

import numpy as np
import pytest

from fighter import DataWarning, FighterError, Forecaster, Frame, Training
from fighter.forecasting.config import nest
from fighter.models import DLinear, Fighter, PatchTST

from ..tables import tail, tiny, waves
from ..training.nets import same_weights
from .small import small


def test_get_params_makes_an_equal_forecaster():
    """scikit-learn clones this way: from the parameters alone, each of them the same object."""
    model = tiny(level=[80, 95], channels=4, past=["x"], seed=3)
    clone = type(model)(**model.get_params(deep=False))
    assert clone.get_params() == model.get_params()
    for name, value in model.get_params(deep=False).items():
        assert getattr(clone, name) is value
    assert list(model.get_params(deep=False)) == list(inspect.signature(Forecaster).parameters)
    assert len(inspect.signature(Forecaster).parameters) <= 27


def test_deep_parameters_reach_into_model_frame_and_training():
    deep = Forecaster(6, model=PatchTST(patch=4), frame=Frame(cycle=7)).get_params()
    assert (deep["model__patch"], deep["frame__cycle"], deep["training__loss"]) == (4, 7, "mae")
    assert Forecaster(6).get_params()["model__kappa"] == 3
    model = Forecaster(6).set_params(model__kappa=4, training__lr=0.1, horizon=3)
    assert (model.model, model.training, model.horizon) == (Fighter(kappa=4), Training(lr=0.1), 3)
    model.set_params(model="patchtst", model__patch=8)
    assert model.model == PatchTST(patch=8)


def test_set_params_changes_all_or_nothing():
    model = Forecaster(6)
    for wrong, argument in (
        ({"seed": 5, "horizon": 0}, "horizon"),
        ({"seed": 5, "depth": 3}, "depth"),
        ({"seed": 5, "model__depth": 3}, "model__depth"),
        ({"seed": 5, "training__lr": -1}, "lr"),
    ):
        with pytest.raises(FighterError) as error:
            model.set_params(**wrong)
        assert error.value.argument == argument
        assert (model.horizon, model.seed) == (6, 0)


def test_set_params_takes_effect_at_the_next_fit():
    model = tiny(level=[80]).fit(waves(60))
    model.set_params(level=[50, 95], model="seq2seq", horizon=3)
    assert len(model.fit(waves(60)).predict().columns) == 7


@pytest.mark.parametrize(
    ("changed", "argument", "then"),
    [
        ({"level": [80]}, "level", "None"),
        ({"horizon": 14}, "horizon", "6"),
        ({"model": "patchtst"}, "model", "fighter"),
        ({"model__kappa": 5}, "kappa", "3"),
        ({"training__lr": 0.5}, "lr", "None"),
        ({"past": ["x"]}, "past", "()"),
        ({"device": "cuda"}, "device", "cpu"),
    ],
)
def test_a_model_is_not_used_under_settings_it_was_not_fitted_with(changed, argument, then):
    model = tiny().fit(waves(60))
    before = model.predict()
    model.set_params(**changed)
    for use in (model.predict, model.explain, lambda: model.evaluate(waves(60)), model.forecast):
        with pytest.raises(FighterError) as error:
            use()
        assert (error.value.argument, then in error.value.reason) == (argument, True)
    model.set_params(**{name: tiny().get_params()[name] for name in changed}, verbose=True)
    assert model.predict().equals(before)


def test_a_list_that_is_changed_in_place_is_noticed():
    level = [80]
    model = tiny(level=level).fit(waves(60))
    level.append(95)
    with pytest.raises(FighterError) as error:
        model.predict()
    assert error.value.argument == "level"


def test_repr_shows_what_differs_from_the_defaults():
    assert repr(Forecaster(24)) == "Forecaster(horizon=24)"
    shown = repr(Forecaster(24, 96, level=np.array([80, 95]), training=Training(lr=0.01)))
    assert shown == (
        "Forecaster(horizon=24, lookback=96, level=array([80, 95]), training=Training(lr=0.01))"
    )


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("kappa", "model=Fighter(kappa=…)"),
        ("rounds", "model=Reformer(rounds=…)"),
        ("cycle", "frame=Frame(cycle=…)"),
        ("lr", "training=Training(lr=…)"),
        ("horizn", "Did you mean 'horizon'?"),
    ],
)
def test_a_misplaced_setting_is_sent_to_its_home(name, advice):
    with pytest.raises(FighterError) as error:
        Forecaster(24, **{name: 3})
    assert error.value.argument == name
    assert advice in error.value.reason


def test_flat_settings_are_distributed():
    nested = nest({"horizon": 6, "kappa": 2, "cycle": None, "lr": 0.1, "model": "fighter"})
    assert nested == {
        "horizon": 6,
        "model": Fighter(kappa=2),
        "frame": Frame(cycle=None),
        "training": Training(lr=0.1),
    }


@pytest.mark.parametrize(
    ("wrong", "argument"),
    [
        ({"horizon": 0}, "horizon"),
        ({"horizon": 2.5}, "horizon"),
        ({"horizon": True}, "horizon"),
        ({"lookback": 0}, "lookback"),
        ({"model": "arima"}, "model"),
        ({"model": "DLinear"}, "model"),
        ({"model": 3}, "model"),
        ({"level": [80], "quantiles": [0.1]}, "quantiles"),
        ({"level": [100]}, "level"),
        ({"level": [0]}, "level"),
        ({"level": 80}, "level"),
        ({"level": [0.8]}, "level"),
        ({"level": [0.8, 0.95]}, "level"),
        ({"level": ["80"]}, "level"),
        ({"level": [float("nan")]}, "level"),
        ({"quantiles": ["a"]}, "quantiles"),
        ({"past": [3]}, "past"),
        ({"past": None}, "past"),
        ({"future": [None]}, "future"),
        ({"missing_values": ["-"]}, "missing_values"),
        ({"seed": None}, "seed"),
        ({"seed": "x"}, "seed"),
        ({"seed": 1.5}, "seed"),
        ({"validation": -1}, "validation"),
        ({"validation": 0.2}, "validation"),
        ({"verbose": "no"}, "verbose"),
        ({"device": 0}, "device"),
        ({"quantiles": [1.5]}, "quantiles"),
        ({"quantiles": [0.0]}, "quantiles"),
        ({"past": "temperature"}, "past"),
        ({"frame": {"cycle": 7}}, "frame"),
        ({"training": None}, "training"),
        ({"season": 0}, "season"),
        ({"season": 24.0}, "season"),
        ({"season": "24"}, "season"),
        ({"season": True}, "season"),
        ({"season": []}, "season"),
        ({"season": [24, -1]}, "season"),
        ({"cycle": "daily"}, "cycle"),
        ({"cycle": 0}, "cycle"),
        ({"cycle": -5}, "cycle"),
        ({"calendar": "no"}, "calendar"),
        ({"discount": -1}, "discount"),
        ({"discount": "none"}, "discount"),
        ({"lr": 0}, "lr"),
        ({"ema": 1}, "ema"),
        ({"max_epochs": 0}, "max_epochs"),
        ({"loss": "huber"}, "loss"),
        ({"model": "linear", "heads": 4}, "heads"),
        ({"model": "gcn", "heads": 8}, "heads"),
        ({"model": "naive", "width": 16}, "width"),
        ({"model": "dlinear", "dropout": 0.0}, "dropout"),
        ({"model": "transformer", "kappa": 3}, "kappa"),
        ({"model": "patchtst", "nodes": "series"}, "nodes"),
        ({"model": "gcn", "adjacency": "static"}, "adjacency"),
        ({"model": "normlin", "members": 4}, "members"),
        ({"members": 0}, "members"),
        ({"depth": 1}, "depth"),
    ],
)
def test_wrong_settings_are_named(wrong, argument):
    with pytest.raises(FighterError) as error:
        Forecaster.from_flat(**{"horizon": 6, **wrong})
    assert error.value.argument == argument


def test_errors_help():
    for wrong, hint in (
        ({"model": "DLinear"}, "Did you mean 'dlinear'?"),
        ({"model": "transformer", "kappa": 3}, "fighter, autoformer, gcn"),
        ({"kapa": 3}, "Did you mean 'kappa'?"),
        ({"level": 80}, "[80]"),
        ({"level": [0.8, 0.955]}, "80, 95.5?"),
    ):
        with pytest.raises(FighterError) as error:
            Forecaster.from_flat(**{"horizon": 6, **wrong})
        assert hint in error.value.reason


@pytest.mark.parametrize(
    ("wrong", "argument"),
    [
        ({"validation": 3}, "validation"),
        ({"validation": 0, "level": [80]}, "validation"),
        ({"cycle": 500}, "cycle"),
        ({"cycle": 500, "model": "naive"}, "cycle"),
        ({"device": "gpu"}, "device"),
        ({"device": "cudaa"}, "device"),
        ({"device": "cuda:99"}, "device"),
        ({"nodes": "edges"}, "nodes"),
        ({"heads": 3}, "heads"),
        ({"members": 2, "nodes": "patch"}, "members"),
        ({"freq": "fortnight"}, "freq"),
    ],
)
def test_wrong_settings_that_show_when_fitting_are_named(wrong, argument):
    with pytest.raises(FighterError) as error:
        small(**{"model": "fighter", **wrong}).fit(waves(60))
    assert error.value.argument == argument


def test_the_same_seed_gives_the_same_weights():
    first, second = tiny(dropout=0.3), tiny(dropout=0.3)
    assert first.fit(waves(60)) is first
    second.fit(waves(60))
    assert same_weights(first.fitted.network, second.fitted.network)
    assert first.history == second.history
    assert first.predict().equals(second.predict())
    once = first.predict()
    first.fit(waves(60))  # a second fit starts again
    assert same_weights(first.fitted.network, second.fitted.network)
    assert first.predict().equals(once)


def test_warm_start_continues_from_the_weights():
    df = waves(120)
    cold = tiny(max_epochs=10, lr=0.01, ema=0.9).fit(tail(df, 10))
    first, last = cold.history[0]["loss"], cold.history[-1]["loss"]
    plan, ids = cold.plan, cold.fitted.preprocessing.ids
    warm = cold.set_params(training__max_epochs=2, training__lr=1e-4).fit(
        df.iloc[::-1], warm_start=True
    )
    assert warm is cold
    assert len(warm.history) == 2
    assert warm.history[0]["loss"] < last + 0.2 * (first - last)
    assert (warm.plan.model, warm.fitted.preprocessing.ids) == (plan.model, ids)
    assert warm.predict().ds.min() == df.ds.max() + (df.ds[1] - df.ds[0])
    with pytest.raises(FighterError, match="has not been fitted"):
        tiny().fit(df, warm_start=True)
    with pytest.raises(FighterError, match="'z' is not one of them"):
        warm.fit(waves(60, ids=("a", "z")), warm_start=True)
    with pytest.raises(FighterError, match="'b' is missing"):
        warm.fit(waves(60, ids=("a",)), warm_start=True)


@pytest.mark.parametrize("warm_start", [False, True])
def test_a_failed_fit_leaves_the_model_as_it_was(warm_start):
    model = tiny(level=[80], smoothing=False).fit(waves(60))
    network = model.fitted.network
    before, weights = model.predict(), {k: v.clone() for k, v in network.state_dict().items()}
    model.set_params(training__lr=1e30, training__ema=0.0)
    with pytest.raises(FighterError, match=r"loss became (nan|inf) in epoch"):
        model.fit(waves(80), warm_start=warm_start)
    settings = tiny(level=[80], smoothing=False).get_params(deep=False)
    assert model.set_params(**settings).predict().equals(before)
    assert all((model.fitted.network.state_dict()[k] == v).all() for k, v in weights.items())
    with pytest.raises(FighterError, match="series 'a' has 8 points"):
        model.fit(waves(8), warm_start=warm_start)
    assert model.predict().equals(before)


@pytest.mark.parametrize(
    ("changed", "argument"),
    [
        ({"horizon": 3}, "horizon"),
        ({"lookback": 24}, "lookback"),
        ({"model__kappa": 2}, "kappa"),
        ({"level": [80]}, "level"),
        ({"frame__cycle": 24}, "cycle"),
        ({"future": ["x"]}, "future"),
    ],
)
def test_a_warm_start_keeps_what_the_network_is(changed, argument):
    model = tiny().fit(waves(60))
    with pytest.raises(FighterError) as error:
        model.set_params(**changed).fit(waves(60), warm_start=True)
    assert error.value.argument == argument


def test_a_warm_start_takes_the_training_settings():
    model = tiny(discount=8).fit(waves(60))
    model.set_params(training__discount=0.0, training__lr=0.1).fit(waves(60), warm_start=True)
    assert (model.plan.discount, model.plan.lr) == (0, 0.1)
    assert np.isfinite(model.predict().Fighter).all()


def test_the_horizon_is_fixed_when_the_model_is_fitted():
    model = tiny().fit(waves(60))
    assert model.predict(h=6).equals(model.predict())
    for ask, argument in ((lambda: model.predict(14), "df"), (lambda: model.predict(h=14), "h")):
        with pytest.raises(FighterError) as error:
            ask()
        assert (error.value.argument, error.value.value) == (argument, 14)
        assert "6" in error.value.reason


def test_a_table_too_short_to_validate_on_is_reported():
    short = waves(20)
    with pytest.warns(DataWarning, match="20 rows"):
        tiny(smoothing=False).fit(short)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tiny(validation=0).fit(short)  # asked for
        small("repeat").fit(short)  # nothing to validate


@pytest.mark.parametrize(
    ("config", "argument", "advice"),
    [
        (lambda: DLinear(kappa=3), "kappa", "Fighter"),
        (lambda: PatchTST(pach=3), "pach", "'patch'"),
        (lambda: Frame(limits=True), "limits", "bounds"),
        (lambda: Training(epochs=3), "epochs", "max_epochs"),
    ],
)
def test_an_unknown_option_is_answered_with_advice(config, argument, advice):
    with pytest.raises(FighterError) as error:
        config()
    assert error.value.argument == argument
    assert advice in error.value.reason


def test_nothing_is_printed_or_written_unasked(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        model = tiny(level=[80]).fit(waves(60))
        model.predict()
        model.evaluate(waves(40, start="2024-01-03 12:00"))
        model.cross_validation(waves(60))
    assert capfd.readouterr() == ("", "")
    assert not list(tmp_path.iterdir())


def test_the_folder_holds_the_metrics(tmp_path):
    model = tiny().fit(waves(60), folder=tmp_path / "run")
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == model.history
    model.save(tmp_path / "run")  # beside them
    assert sorted(p.name for p in (tmp_path / "run").iterdir()) == [
        "config.json", "metrics.jsonl", "model.safetensors",
    ]  # fmt: skip


def test_tensorboard_needs_a_folder():
    with pytest.raises(FighterError) as error:
        tiny().fit(waves(60), tensorboard=True)
    assert error.value.argument == "tensorboard"


def test_the_training_table_is_not_kept():
    model = tiny().fit(waves(60))
    assert len(model.fitted.context.like) == 1


def test_defaults_work_for_a_single_short_series():
    df = waves(40, ids=("a",))[["ds", "y"]]
    settings = {"model": Fighter(width=16), "training": Training(max_epochs=1), "verbose": False}
    forecast = Forecaster(4, **settings).fit(df).predict()
    assert forecast.columns.tolist() == ["unique_id", "ds", "Fighter"]
    assert len(forecast) == 4


def test_a_warning_points_at_the_users_line():
    df = waves(60)
    df.loc[7, "y"] = np.nan
    with pytest.warns(DataWarning) as caught:
        tiny().fit(df)
    assert caught[0].filename == __file__


def test_every_method_takes_a_panel_in_place_of_a_table():
    df = waves(90)
    model = tiny(level=[80])
    panel = model.read(df)
    model.fit(panel)
    with pytest.raises(FighterError) as error:
        model.fit(panel, static=df)
    assert error.value.argument == "static"
    assert model.predict().equals(tiny(level=[80]).fit(df).predict())
    assert model.predict(panel).equals(model.predict(df))
    with pytest.warns(DataWarning):
        assert model.evaluate(panel, last=20).equals(model.evaluate(df, last=20))
    assert model.cross_validation(panel).equals(model.cross_validation(df))
    assert model.explain(panel, unique_id="b").forecast == model.explain(df, unique_id="b").forecast


def test_a_forecast_holds_arrays_intervals_and_tables():
    model = tiny(level=[80, 95]).fit(waves(90))
    forecast, table = model.forecast(), model.predict()
    assert forecast.point.shape == (6, 2)
    assert forecast.quantiles.shape == (6, 2, 4)
    low, high = forecast.interval(80)
    assert np.array_equal(low.T.ravel(), table["Fighter-lo-80"])
    assert np.array_equal(high.T.ravel(), table["Fighter-hi-80"])
    assert list(forecast.bands) == [80, 95]
    assert type(forecast.table("polars")).__module__.startswith("polars")
    with pytest.raises(FighterError) as error:
        forecast.interval(50)
    assert error.value.argument == "level"
    asked = tiny(quantiles=[0.1, 0.5, 0.9]).fit(waves(90)).forecast()
    assert list(asked.bands) == [80]


def test_plot_draws_history_intervals_and_truth(tmp_path):
    df = waves(96)
    history = tail(df, 6)
    model = tiny(level=[80]).fit(history)
    figure = model.plot(history, truth=df, path=tmp_path / "f.png")
    assert (tmp_path / "f.png").read_bytes()[:4] == b"\x89PNG"
    first = figure.axes[0]
    drawn = {line.get_label(): line.get_ydata() for line in first.lines}
    assert len(drawn["observed"]) == 48
    assert len(drawn["Fighter"]) == 6
    truth = [line for line in first.lines if len(line.get_ydata()) == 7]
    assert np.array_equal(truth[0].get_ydata()[1:], df[df.unique_id == "a"].y.tail(6))
    with pytest.raises(FighterError):
        model.plot(path=tmp_path / "f.docx")


@pytest.mark.parametrize("level", [[0.95], [80, 0.95], [0.8, 95]])
def test_levels_are_in_per_cent(level):
    with pytest.raises(FighterError) as error:
        Forecaster(3, level=level)
    assert error.value.argument == "level"


@pytest.mark.parametrize(("name", "meant"), [("h", "horizon"), ("input_size", "lookback")])
def test_names_of_other_libraries_are_understood(name, meant):
    with pytest.raises(FighterError, match=f"Did you mean '{meant}'"):
        Forecaster(**{"horizon": 3, name: 3})
    with pytest.raises(FighterError, match=f"Did you mean '{meant}'"):
        Forecaster.from_flat(**{"horizon": 3, name: 3})
