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

from fighter import FighterError, Forecaster
from fighter.training import checkpoint

from ..tables import CONVERT, tiny, waves
from ..training.nets import same_weights

GOLDEN = Path(__file__).parents[1] / "fixtures" / "golden"
CONFIG, WEIGHTS = "config.json", "model.safetensors"


@pytest.mark.parametrize("model", ["fighter", "linear", "naive", "transformer"])
def test_predictions_are_bit_equal(tmp_path, model):
    df = waves(80)
    before = tiny(model=model, level=[80, 95]).fit(df)
    before.save(tmp_path / "m")
    after = Forecaster.load(tmp_path / "m")
    assert same_weights(before.network, after.network)
    assert after.predict().equals(before.predict())
    assert after.predict(waves(90)).equals(before.predict(waves(90)))
    assert after.evaluate(df).equals(before.evaluate(df))
    assert json.dumps(after.get_params()) == json.dumps(before.get_params())
    assert next(iter(after.network.state_dict().values()), torch.zeros(1)).device.type == "cpu"
    after.save(tmp_path / "again")  # a copy of a copy is the same
    assert (tmp_path / "again" / CONFIG).read_text() == (tmp_path / "m" / CONFIG).read_text()
    assert after.fit(df, warm_start=True).predict().shape == before.predict().shape


@pytest.mark.filterwarnings("ignore::fighter.forecaster.DataWarning")
def test_everything_is_kept(tmp_path):
    """Unequal ends, covariates of all kinds, numbers of numpy in the settings."""
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
def test_types_of_tables_and_ids(tmp_path, backend, ids):
    table = CONVERT[backend](waves(60, ids=ids))
    model = tiny().fit(table)
    model.save(tmp_path / "m")
    after = Forecaster.load(tmp_path / "m")
    assert after.preparation.ids == ids
    for forecast in (after.predict(), after.predict(table)):
        assert type(forecast) is type(table)
        found = nested(forecast)
        assert found == nested(model.predict())


def nested(table) -> dict[str, list]:
    if isinstance(table, pd.DataFrame):
        table = pl.from_pandas(table)
    return table.to_pydict() if isinstance(table, pa.Table) else table.to_dict(as_series=False)


def test_config_can_be_read(tmp_path):
    tiny(level=[80]).fit(waves(60)).save(tmp_path / "m")
    assert sorted(p.name for p in (tmp_path / "m").iterdir()) == [CONFIG, WEIGHTS]
    config = json.loads((tmp_path / "m" / CONFIG).read_text())
    assert config["format"] == 1
    assert config["settings"]["horizon"] == 6
    assert config["ids"] == ["a", "b"]
    assert config["plan"]["lookback"] == 12


def test_saving_again_replaces(tmp_path):
    tiny(3).fit(waves(60)).save(tmp_path)
    tiny(4).fit(waves(60)).save(tmp_path)
    assert len(Forecaster.load(tmp_path).predict()) == 8


@pytest.mark.parametrize("name", ["thesis.docx", CONFIG, WEIGHTS])
def test_what_is_not_ours_is_not_overwritten(tmp_path, name):
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
def test_a_kill_while_saving_leaves_the_old_or_the_new(tmp_path, monkeypatch, moment):
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

    monkeypatch.setattr(checkpoint.os, "fsync", counted("fsync"))
    monkeypatch.setattr(Path, "replace", counted("replace"))
    with pytest.raises(Killed):
        new.save(tmp_path)
    monkeypatch.undo()
    expected = old if moment < 2 else new
    assert Forecaster.load(tmp_path).predict().equals(expected.predict())
    new.save(tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == [CONFIG, WEIGHTS]


def test_damaged_or_absent(tmp_path):
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
        ({"format": 99}, "saved in format 99, this version reads 1"),
        ({"settings": {"horizon": 6, "depth": 3}}, "damaged model.*depth"),
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


def test_not_fitted(tmp_path):
    with pytest.raises(FighterError, match="has not been fitted"):
        tiny().save(tmp_path / "m")
    assert not (tmp_path / "m").exists()


def golden_model() -> Forecaster:
    """How the golden model was made; run this file with ``python -m`` to make it anew."""
    model = tiny(4, 8, level=[80], cycle=6, max_epochs=8, lr=0.01, ema=0.9)
    return model.fit(waves(90, ids=("north", "south")))


def test_a_model_that_was_saved_long_ago():
    """If this fails, saved models of users fail too: raise the format, and read the old one."""
    model = Forecaster.load(GOLDEN)
    expected = pd.read_csv(GOLDEN.with_suffix(".csv"), parse_dates=["ds"])
    forecast = model.predict()
    assert forecast.unique_id.tolist() == expected.unique_id.tolist()
    assert forecast.ds.tolist() == expected.ds.tolist()
    for name in ("Fighter", "Fighter-lo-80", "Fighter-hi-80"):
        assert forecast[name].to_numpy() == pytest.approx(expected[name].to_numpy(), rel=1e-5)


if __name__ == "__main__":
    shutil.rmtree(GOLDEN, ignore_errors=True)
    GOLDEN.parent.mkdir(exist_ok=True)
    made = golden_model()
    made.save(GOLDEN)
    made.predict().to_csv(GOLDEN.with_suffix(".csv"), index=False)
