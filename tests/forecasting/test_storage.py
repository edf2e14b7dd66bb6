import datetime as dt
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from safetensors.torch import load_file, save_file

from fighter import FighterError, Forecaster, TextClassifier
from fighter.models import MODELS, Fighter

from ..tables import CONVERT, tiny, waves
from ..training.nets import same_weights
from .small import SIZES, small

FIXTURES = Path(__file__).parents[1] / "fixtures"
CONFIG, WEIGHTS = "config.json", "model.safetensors"


@pytest.mark.filterwarnings("ignore::fighter.errors.DataWarning")
@pytest.mark.parametrize("model", MODELS)
def test_every_model_predicts_bit_equally_after_loading(tmp_path, model):
    """The table has gaps, also at its end."""
    df = waves(80)
    df.loc[[30, 31, 79], "y"] = np.nan
    before = small(model, level=[80], max_epochs=1).fit(df)
    forecast = before.predict()
    name = MODELS[model].column
    assert forecast.columns.tolist()[2:] == [name, f"{name}-lo-80", f"{name}-hi-80"]
    assert len(forecast) == 12
    assert forecast.notna().all(axis=None)
    assert (forecast[f"{name}-lo-80"] < forecast[f"{name}-hi-80"]).all()
    before.save(tmp_path / "m")
    after = Forecaster.load(tmp_path / "m")
    assert same_weights(before.network, after.network)
    assert after.predict().equals(before.predict())
    assert after.predict(waves(90)).equals(before.predict(waves(90)))
    assert after.evaluate(df).equals(before.evaluate(df))
    assert after.get_params() == before.get_params()
    assert next(iter(after.network.state_dict().values()), torch.zeros(1)).device.type == "cpu"
    after.save(tmp_path / "again")  # a copy of a copy is the same
    assert (tmp_path / "again" / CONFIG).read_text() == (tmp_path / "m" / CONFIG).read_text()
    assert after.fit(df, warm_start=True).predict().shape == before.predict().shape


@pytest.mark.filterwarnings("ignore::fighter.errors.DataWarning")
def test_covariates_ends_and_numpy_settings_are_saved(tmp_path):
    """Series have unequal ends and covariates of all kinds."""
    df = waves(80)
    df["temperature"] = np.cos(np.arange(len(df)))
    df["holiday"] = (np.arange(len(df)) % 5 == 0).astype(float)
    df.loc[(df.unique_id == "a") & (df.index >= 70), "y"] = np.nan  # what follows is known future
    df.loc[(df.unique_id == "b") & (df.index >= 140), "y"] = np.nan
    static = pd.DataFrame({"unique_id": ["a", "b"], "kind": ["x", "y"], "size": [1, 2]})
    model = tiny(
        np.int64(6), np.int64(12), level=np.array([80.0]), past=["temperature"],
        future=("holiday",), seed=np.int64(1), missing_values=[float("inf")],
    ).fit(df, static=static)  # fmt: skip
    model.save(tmp_path / "m")
    after = Forecaster.load(tmp_path / "m")
    assert after.predict().equals(model.predict())
    assert after.predict().groupby("unique_id").ds.min().nunique() == 2


@pytest.mark.parametrize("backend", CONVERT)
@pytest.mark.parametrize("ids", [(3, 5), ("a", "ü"), (dt.date(2024, 1, 1), dt.date(2024, 2, 1))])
def test_table_types_and_ids_survive_saving(tmp_path, backend, ids):
    table = CONVERT[backend](waves(60, ids=ids))
    model = tiny().fit(table)
    model.save(tmp_path / "m")
    after = Forecaster.load(tmp_path / "m")
    assert after.fitted.preprocessing.ids == ids
    for forecast in (after.predict(), after.predict(table)):
        assert type(forecast) is type(table)
        found = nested(forecast)
        assert found == nested(model.predict())


def nested(table) -> dict[str, list]:
    if isinstance(table, pd.DataFrame):
        table = pl.from_pandas(table)
    return table.to_pydict() if isinstance(table, pa.Table) else table.to_dict(as_series=False)


def test_the_config_is_readable_json(tmp_path):
    tiny(level=[80]).fit(waves(60)).save(tmp_path / "m")
    assert sorted(p.name for p in (tmp_path / "m").iterdir()) == [CONFIG, WEIGHTS]
    config = json.loads((tmp_path / "m" / CONFIG).read_text())
    assert config["format"] == 2
    assert config["settings"]["horizon"] == 6
    assert config["ids"] == ["a", "b"]
    assert config["plan"]["lookback"] == 12
    assert config["plan"]["model"]["name"] == "fighter"
    assert config["settings"]["model"] == {"name": "fighter", **vars(Fighter(**SIZES))}
    assert config["settings"]["training"]["max_epochs"] == 2


def test_saving_again_replaces_the_model(tmp_path):
    tiny(3).fit(waves(60)).save(tmp_path)
    tiny(4).fit(waves(60)).save(tmp_path)
    assert len(Forecaster.load(tmp_path).predict()) == 8


@pytest.mark.parametrize("name", ["thesis.docx", CONFIG, WEIGHTS])
def test_foreign_files_are_not_overwritten(tmp_path, name):
    model = tiny().fit(waves(60))
    (tmp_path / name).write_text('{"precious": true}')
    with pytest.raises(FighterError, match="exists and is not a saved model"):
        model.save(tmp_path)
    with pytest.raises(FighterError, match="exists and is not a saved model"):
        model.save(tmp_path / name)
    assert [p.name for p in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == '{"precious": true}'


class Killed(BaseException):
    pass


@pytest.mark.parametrize("moment", [0, 1, 2, 3])
def test_a_kill_while_saving_leaves_the_old_or_the_new_model(tmp_path, monkeypatch, moment):
    old, new = tiny(3).fit(waves(60)), tiny(4).fit(waves(60))
    old.save(tmp_path)
    calls = 0
    real = {"fsync": os.fsync, "replace": Path.replace}

    def counted(name):
        def step(*args):
            nonlocal calls
            calls += 1
            if calls > moment:
                monkeypatch.setattr(Path, "unlink", lambda *_, **__: None)
                raise Killed
            return real[name](*args)

        return step

    monkeypatch.setattr(os, "fsync", counted("fsync"))
    monkeypatch.setattr(Path, "replace", counted("replace"))
    with pytest.raises(Killed):
        new.save(tmp_path)
    monkeypatch.undo()
    expected = old if moment < 2 else new
    assert Forecaster.load(tmp_path).predict().equals(expected.predict())
    new.save(tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == [CONFIG, WEIGHTS]


def test_damaged_and_absent_models_are_refused(tmp_path):
    with pytest.raises(FighterError, match=f"holds no saved model: {WEIGHTS} is missing"):
        Forecaster.load(tmp_path / "nowhere")
    tiny().fit(waves(60)).save(tmp_path)
    whole = (tmp_path / WEIGHTS).read_bytes()
    for cut in (0, 5, 100, len(whole) // 2):
        (tmp_path / WEIGHTS).write_bytes(whole[:cut])
        with pytest.raises(FighterError, match="holds a damaged model"):
            Forecaster.load(tmp_path)
    (tmp_path / WEIGHTS).write_bytes(whole)
    tensors = load_file(tmp_path / WEIGHTS)
    config = json.loads((tmp_path / CONFIG).read_text())
    for change, message in (
        ({"format": 99}, "saved in format 99, this version reads formats 1 and 2"),
        ({"settings": {**config["settings"], "depth": 3}}, "damaged model.*depth"),
        ({"plan": {}}, "damaged model"),
    ):
        text = json.dumps({**config, **change})
        save_file(tensors, tmp_path / WEIGHTS, metadata={"config": text})
        with pytest.raises(FighterError, match=message):
            Forecaster.load(tmp_path)
    del tensors["scaler.shift"]
    save_file(tensors, tmp_path / WEIGHTS, metadata={"config": json.dumps(config)})
    with pytest.raises(FighterError, match=r"damaged model.*shift"):
        Forecaster.load(tmp_path)


def test_loading_the_wrong_estimator_names_the_right_one(tmp_path):
    text = TextClassifier(max_epochs=1, width=4, heads=1, validation=0, verbose=False)
    text.fit(["up", "down"], ["good", "bad"]).save(tmp_path / "text")
    with pytest.raises(FighterError) as error:
        Forecaster.load(tmp_path / "text")
    assert "holds a TextClassifier, not a Forecaster" in str(error.value)
    assert "load it with fighter.TextClassifier" in str(error.value)
    tiny().fit(waves(60)).save(tmp_path / "series")
    with pytest.raises(FighterError, match="holds a"):
        TextClassifier.load(tmp_path / "series")

    class Own(Forecaster):
        """A subclass loads what its parent saved, and the other way round."""

    own = Own.load(tmp_path / "series")
    own.save(tmp_path / "own")
    assert Forecaster.load(tmp_path / "own").predict().equals(own.predict())


def test_a_model_is_not_saved_under_other_settings(tmp_path):
    model = small("linear").fit(waves(60))
    with pytest.raises(FighterError) as error:
        model.set_params(model=Fighter(kappa=2)).save(tmp_path)
    assert error.value.argument == "model"
    assert not any(tmp_path.iterdir())
    model.set_params(model="linear").save(tmp_path)
    assert Forecaster.load(tmp_path).predict().equals(model.predict())


def test_saving_before_fit_is_refused(tmp_path):
    with pytest.raises(FighterError, match="has not been fitted"):
        tiny().save(tmp_path / "m")
    assert not (tmp_path / "m").exists()


def golden_model() -> Forecaster:
    """Return the model of ``fixtures/golden-2``; run this file with ``python -m`` to write it."""
    model = tiny(4, 8, level=[80], cycle=6, max_epochs=8, lr=0.01, ema=0.9)
    return model.fit(waves(90, ids=("north", "south")))


@pytest.mark.parametrize("folder", ["golden", "golden-2"])
def test_a_model_saved_long_ago_still_loads(folder):
    """If this fails, saved models of users fail too: raise the format, and read the old one.

    The first has format 1: flat settings, and older names of settings and tensors.
    """
    model = Forecaster.load(FIXTURES / folder)
    expected = pd.read_csv(FIXTURES / f"{folder}.csv", parse_dates=["ds"])
    assert model.training.max_epochs == 8
    assert model.frame.cycle == 6
    assert model.model.width == 16
    forecast = model.predict()
    assert forecast.unique_id.tolist() == expected.unique_id.tolist()
    assert forecast.ds.tolist() == expected.ds.tolist()
    for name in ("Fighter", "Fighter-lo-80", "Fighter-hi-80"):
        assert forecast[name].to_numpy() == pytest.approx(expected[name].to_numpy(), rel=1e-5)


def test_a_model_of_format_1_can_be_fitted_and_saved_again(tmp_path):
    model = Forecaster.load(FIXTURES / "golden")
    before = model.predict()
    model.save(tmp_path)
    assert Forecaster.load(tmp_path).predict().equals(before)
    assert model.fit(waves(90, ids=("north", "south"))).predict().shape == before.shape


if __name__ == "__main__":
    shutil.rmtree(FIXTURES / "golden-2", ignore_errors=True)
    made = golden_model()
    made.save(FIXTURES / "golden-2")
    made.predict().to_csv(FIXTURES / "golden-2.csv", index=False)
