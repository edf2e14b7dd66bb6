import datetime as dt
import json
import math
import os
import resource
import shutil
import time
from contextlib import suppress
from dataclasses import fields
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import save_file

from fighter import DataWarning, FighterError, Forecaster, TextClassifier
from fighter._files import CHECKPOINT, CONFIG, METRICS, WEIGHTS, own_folder
from fighter.data import to_panel
from fighter.models import MODELS, Fighter
from fighter.training import checkpoint as disk

from ..tables import CONVERT, tiny, waves, wide
from ..training.nets import same_weights
from .small import SIZES, small

FIXTURES = Path(__file__).parents[1] / "fixtures"


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
    state = torch.get_rng_state()
    after = Forecaster.load(tmp_path / "m")
    assert torch.equal(torch.get_rng_state(), state)  # no weights are drawn
    assert same_weights(before.fitted.network, after.fitted.network)
    assert after.predict().equals(before.predict())
    assert after.predict(waves(90)).equals(before.predict(waves(90)))
    assert after.evaluate(df).equals(before.evaluate(df))
    assert after.get_params() == before.get_params()
    weights = after.fitted.network.state_dict().values()
    assert next(iter(weights), torch.zeros(1)).device.type == "cpu"
    after.save(tmp_path / "again")  # a copy of a copy is the same
    assert (tmp_path / "again" / CONFIG).read_text() == (tmp_path / "m" / CONFIG).read_text()
    for name in [f.name for f in fields(MODELS[model]) if f.type in (int, int | None)]:
        refuse_change(tmp_path / "m", 10**9, "plan", "model", name)
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
    assert config["format"] == 3
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


@pytest.mark.parametrize("name", ["thesis.docx", CONFIG, WEIGHTS, METRICS, CHECKPOINT])
def test_foreign_files_are_not_overwritten(tmp_path, name):
    model = tiny().fit(waves(60))
    (tmp_path / name).write_text('{"precious": true}')
    with pytest.raises(FighterError, match="exists and is not a saved model"):
        model.save(tmp_path)
    with pytest.raises(FighterError):
        model.save(tmp_path / name)
    with pytest.raises(FighterError, match="exists and is not a saved model"):
        tiny().fit("no table is read", folder=tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == '{"precious": true}'


def test_two_runs_in_one_folder_exclude_each_other(tmp_path):
    model = tiny().fit(waves(60))
    with own_folder(tmp_path):
        with pytest.raises(FighterError, match="another process"):
            model.save(tmp_path)
        with pytest.raises(FighterError, match="another process"):
            tiny().fit("no table is read", folder=tmp_path)
    model.save(tmp_path)


def test_a_fit_that_fails_at_once_leaves_no_folder(tmp_path):
    with pytest.raises(FighterError):
        tiny(smoothing=False).fit(waves(10), folder=tmp_path / "run")
    assert not list(tmp_path.iterdir())


def test_a_full_disk_stops_a_fit_that_resumes_later(tmp_path, monkeypatch):
    expected = tiny(max_epochs=3).fit(waves(60)).predict()
    real, calls = disk.save_file, []

    def full(*args, **kwargs):
        calls.append(args)
        if len(calls) == 2:
            text = "Error while serializing: I/O error: No space left on device (os error 28)"
            raise SafetensorError(text)
        real(*args, **kwargs)

    monkeypatch.setattr(disk, "save_file", full)
    with pytest.raises(FighterError, match=r"No space left on device.*resumes") as error:
        tiny(max_epochs=3).fit(waves(60), folder=tmp_path)
    assert str(tmp_path / CHECKPOINT) in str(error.value)
    assert sorted(p.name for p in tmp_path.iterdir()) == [CHECKPOINT, METRICS]
    assert tiny(max_epochs=3).fit(waves(60), folder=tmp_path).predict().equals(expected)
    assert sorted(p.name for p in tmp_path.iterdir()) == [CONFIG, METRICS, WEIGHTS]


class Killed(BaseException):
    pass


@pytest.mark.parametrize("moment", range(6))
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
    config, tensors = read(tmp_path)
    for changed, message in (
        ({"format": 99}, "saved in format 99, this version reads formats 1, 2, 3"),
        ({"settings": {**config["settings"], "depth": 3}}, "damaged model.*depth"),
        ({"plan": {}}, "damaged model"),
    ):
        rewrite(tmp_path, {**config, **changed})
        with pytest.raises(FighterError, match=message):
            Forecaster.load(tmp_path)
    del tensors["scaler.shift"]
    rewrite(tmp_path, config, tensors)
    with pytest.raises(FighterError, match=r"damaged model.*shift"):
        Forecaster.load(tmp_path)


# ---- damaged and hostile models --------------------------------------------------------------


def rewrite(folder: Path, config=None, tensors=None) -> None:
    """Write another config or other tensors, with the checksum that belongs to them."""
    old, text, _ = disk.read_tensors(folder / WEIGHTS, "config")
    text = text if config is None else config if isinstance(config, str) else json.dumps(config)
    disk.write_tensors(old if tensors is None else tensors, "config", text, folder / WEIGHTS)
    (folder / CONFIG).unlink(missing_ok=True)


def read(folder: Path):
    tensors, text, _ = disk.read_tensors(folder / WEIGHTS, "config")
    return json.loads(text), tensors


def change(config, value, *path):
    """Return a deep copy of a config with another value at a path."""
    config = json.loads(json.dumps(config))
    inner = config
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return config


def refuse_change(folder: Path, value, *path) -> None:
    config, _ = read(folder)
    rewrite(folder, change(config, value, *path))
    start = time.monotonic()
    with pytest.raises(FighterError, match="holds a damaged model"):
        Forecaster.load(folder)
    assert time.monotonic() - start < 20, path
    rewrite(folder, config)


@pytest.fixture(scope="module")
def fitted() -> Forecaster:
    table = waves(60).assign(load=1.0, holiday=0.0)
    return tiny(level=[80], cycle=6, past=["load"], future=["holiday"]).fit(table)


@pytest.fixture
def saved(fitted, tmp_path) -> Path:
    fitted.save(tmp_path / "m")
    return tmp_path / "m"


def test_one_changed_bit_is_noticed(saved):
    whole = (saved / WEIGHTS).read_bytes()
    draw = np.random.default_rng(0)
    for place in draw.integers(0, 8 * len(whole), 100):
        byte, bit = divmod(int(place), 8)
        changed = whole[:byte] + bytes([whole[byte] ^ 1 << bit]) + whole[byte + 1 :]
        (saved / WEIGHTS).write_bytes(changed)
        with pytest.raises(FighterError):
            Forecaster.load(saved)


def test_a_model_without_its_checksum_is_refused(saved):
    config, tensors = read(saved)
    save_file(tensors, saved / WEIGHTS, metadata={"config": json.dumps(config)})
    with pytest.raises(FighterError, match="checksum"):
        Forecaster.load(saved)


@pytest.mark.parametrize(
    "text", ["[]", "3", "null", '"text"', "{", "", "{}", "[" * 100_000, '{"format": [1]}']
)
def test_a_config_that_is_no_config_is_refused(saved, text):
    rewrite(saved, text)
    with pytest.raises(FighterError) as error:
        Forecaster.load(saved)
    assert error.value.__cause__ is not None or "format" in str(error.value)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("ids", 0), []), (("ids", 0), {}), (("ids", 0), None), (("ids", 0), "b"),
        (("ids",), ["a"]), (("ids",), "ab"), (("ids",), 3),
        (("plan", "quantiles", 0), 0.2), (("plan", "quantiles"), []), (("plan", "lookback"), 0),
        (("plan", "lookback"), 10**9), (("plan", "horizon"), 10**9), (("plan", "horizon"), 7),
        (("settings", "horizon"), 7), (("plan", "cycle"), 10**9), (("plan", "cycle"), -6),
        (("plan", "calendar"), [99]), (("plan", "calendar"), [0.5]), (("plan", "calendar"), [-1]),
        (("plan", "reversion"), 1), (("plan", "epochs"), "ten"), (("plan", "model", "name"), "x"),
        (("plan", "model", "powers"), [0, 10**9]), (("plan", "model"), "fighter"),
        (("scheme", "freq"), "x"), (("scheme", "freq"), 3), (("scheme", "axis"), []),
        (("scheme", "axis", "kind"), "x"), (("scheme", "axis", "name"), None),
        (("scheme", "static_categories"), []), (("origin",), "x"), (("origin",), None),
        (("origin",), 10**30), (("start",), "x"), (("start",), 1.5), (("start",), 10**30),
        (("covariates", "past"), []), (("covariates", "past"), ["a", "b"]), (("covariates",), []),
        (("covariates", "future"), [3]), (("settings", "past"), ["other"]), (("settings",), []),
        (("settings", "level"), "80"), (("settings", "seed"), "x"), (("settings", "frame"), 3),
        (("settings", "id_col"), 3), (("settings", "verbose"), "x"), (("table",), 3),
    ],
)  # fmt: skip
def test_a_config_that_contradicts_itself_or_the_tensors_is_refused(saved, path, value):
    refuse_change(saved, value, *path)


def leaves(config, path=()):
    """Yield the paths to everything in a config."""
    items = config.items() if isinstance(config, dict) else enumerate(config)
    for key, value in items:
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from leaves(value, (*path, key))


@pytest.mark.filterwarnings("ignore")
def test_whatever_a_config_holds_the_model_works_or_is_refused(saved):
    config, _ = read(saved)
    draw = np.random.default_rng(0)
    values = [None, True, -1, 0, 0.5, 10**9, 10**30, "", "x", [], [[]], {}, {"a": 1}, math.nan]
    paths = list(leaves(config))
    for _ in range(120):
        path, value = paths[draw.integers(len(paths))], values[draw.integers(len(values))]
        rewrite(saved, change(config, value, *path))
        with suppress(FighterError):
            Forecaster.load(saved).predict(future=FUTURE)


FUTURE = waves(66).assign(holiday=0.0).drop(columns="y").groupby("unique_id").tail(6)


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("network.cycle.profile", lambda t: t * math.nan),
        ("network.cycle.profile", lambda t: t + math.inf),
        ("network.cycle.profile", lambda t: t.half()),
        ("network.cycle.profile", lambda t: t[:-1]),
        ("network.cycle.profile", lambda t: None),
        ("context.values", lambda t: t[:, :1]),
        ("context.values", lambda t: t * math.nan),
        ("context.values", lambda t: t[:5]),
        ("context.values", lambda t: t.float()),
        ("context.past", lambda t: torch.zeros(3)),
        ("context.observed", lambda t: t.double()),
        ("context.ends", lambda t: t + 1000),
        ("context.future", lambda t: t[..., :0]),
        ("scaler.shift", lambda t: t[:1]),
        ("scaler.scale", lambda t: t * 0),
        ("scaler.scale", lambda t: t * math.nan),
        ("scaler.bounds", lambda t: t[:1]),
        ("scaler.floor", lambda t: t[:1]),
        ("past_scaler.shift", lambda t: t[:0]),
        ("conformal_shifts", lambda t: t[:0]),
        ("conformal_shifts", lambda t: torch.zeros(0)),
        ("conformal_shifts", lambda t: t * math.nan),
        ("conformal_shifts", lambda t: t.to(torch.int8)),
    ],
)
def test_tensors_that_do_not_fit_are_refused(saved, name, damage):
    _, tensors = read(saved)
    changed = {**tensors, name: damage(tensors[name])}
    rewrite(saved, tensors={k: v for k, v in changed.items() if v is not None})
    with pytest.raises(FighterError, match="holds a damaged model"):
        Forecaster.load(saved)


@pytest.mark.parametrize("model", ["naive", "repeat", "fighter", "linear"])
@pytest.mark.parametrize("steps", [10**5, 10**12])
def test_a_false_horizon_needs_no_memory(tmp_path, model, steps):
    small(model, cycle=None).fit(waves(60)).save(tmp_path)
    config, _ = read(tmp_path)
    both = change(change(config, steps, "plan", "horizon"), steps, "settings", "horizon")
    rewrite(tmp_path, both)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if model in ("naive", "repeat") and steps == 10**5:  # which no weights contradict
        assert Forecaster.load(tmp_path).plan.horizon == steps
        return
    with pytest.raises(FighterError, match="holds a damaged model"):
        Forecaster.load(tmp_path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**20  # kilobytes


def test_a_loaded_model_does_not_live_in_its_file(fitted, saved):
    model = Forecaster.load(saved)
    with (saved / WEIGHTS).open("rb+") as file:
        file.truncate(200)  # another program may do so
    assert model.predict(future=FUTURE).equals(fitted.predict(future=FUTURE))


def test_an_unknown_device_is_no_damage(saved):
    for device in ("gpu", "cuda:99"):
        with pytest.raises(FighterError) as error:
            Forecaster.load(saved, device=device)
        assert error.value.argument == "device"


def test_a_file_that_cannot_be_opened_is_no_damage(saved):
    (saved / WEIGHTS).unlink()
    (saved / WEIGHTS).mkdir()
    with pytest.raises(FighterError, match="cannot be read"):
        Forecaster.load(saved)


@pytest.mark.parametrize("text", ["{}", "", None])
def test_an_edited_copy_of_the_config_is_noticed(fitted, saved, text):
    old = (saved / CONFIG).read_text()
    (saved / CONFIG).write_text(old.replace('"a"', '"z"') if text is None else text)
    with pytest.warns(DataWarning, match="no effect"):
        model = Forecaster.load(saved)
    assert model.predict(future=FUTURE).equals(fitted.predict(future=FUTURE))


def test_all_files_of_a_model_have_the_mode_of_the_umask(fitted, tmp_path):
    old = os.umask(0o022)
    try:
        fitted.save(tmp_path / "m")
    finally:
        os.umask(old)
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "m").iterdir()} == {0o644}


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
    """Return the model of ``fixtures/golden-3``; run this file with ``python -m`` to write it."""
    model = tiny(4, 8, level=[80], cycle=6, max_epochs=8, lr=0.01, ema=0.9)
    return model.fit(waves(90, ids=("north", "south")))


@pytest.mark.parametrize("folder", ["golden", "golden-2", "golden-3"])
def test_a_model_saved_long_ago_still_loads(folder):
    """If this fails, saved models of users fail too: raise the format, and read the old one.

    The first has format 1: flat settings, and older names of settings and tensors. The second has
    no checksum.
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
    shutil.rmtree(FIXTURES / "golden-3", ignore_errors=True)
    made = golden_model()
    made.save(FIXTURES / "golden-3")
    made.predict().to_csv(FIXTURES / "golden-3.csv", index=False)


def test_a_model_of_a_panel_with_covariates_loads(tmp_path):
    table = waves(60).assign(x=1.0)
    model = tiny().fit(to_panel(table, past=["x"]))
    model.save(tmp_path / "m")
    assert Forecaster.load(tmp_path / "m").predict(table).equals(model.predict(table))


def test_a_panel_without_the_covariates_of_the_settings_is_refused():
    with pytest.raises(FighterError) as error:
        tiny(past=["x"]).fit(to_panel(waves(60)))
    assert error.value.argument == "past"


def test_a_wide_table_with_tuples_as_labels_is_saved_and_loaded(tmp_path):
    table = wide(waves(60)).rename(columns={"a": ("a", 1), "b": ("b", 2)})
    model = tiny().fit(table)
    model.save(tmp_path / "m")
    assert Forecaster.load(tmp_path / "m").predict().equals(model.predict())
