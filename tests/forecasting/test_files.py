"""Many files are forecast one by one, wherever that happens, and only once."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pandas as pd
import pytest
import torch

from fighter import Forecaster
from fighter.data import collect, split_table
from fighter.errors import FighterError
from fighter.forecasting import files as module
from fighter.forecasting import runners

from ..tables import tail, tiny, waves
from .small import small

ROOT = Path(__file__).resolve().parents[2]
# One series ends before the others, so that a note is due.
TABLE = waves(90, ids=[f"s{i:02d}" for i in range(24)]).drop(index=range(85, 90))


def ordered(table: pd.DataFrame) -> pd.DataFrame:
    return table.sort_values(["unique_id", "ds"]).reset_index(drop=True)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.parquet")}


@pytest.fixture(scope="module")
def parts(tmp_path_factory) -> Path:
    """Return a folder with eight files of whole series."""
    folder = tmp_path_factory.mktemp("large")
    TABLE.to_parquet(folder / "table.parquet", index=False)
    assert len(split_table(folder / "table.parquet", folder / "parts", buckets=8)) == 8
    return folder / "parts"


@pytest.fixture(scope="module")
def model(parts) -> Forecaster:
    with pytest.warns(match="1 series end before"):
        return tiny(level=[80]).fit(parts)


@pytest.fixture(scope="module")
def expected(model, parts, tmp_path_factory) -> Path:
    """Return the forecasts of the parts, made one by one in this process."""
    out = tmp_path_factory.mktemp("large") / "forecasts"
    found = model.predict_files(parts, out)
    assert (len(found.files), found.series, found.rows) == (8, 24, 24 * 6)
    assert not found.failed
    assert not found.missing
    return out


@pytest.fixture
def forecasts(expected, tmp_path) -> Path:
    return Path(shutil.copytree(expected, tmp_path / "forecasts"))


def counted(done: list) -> object:
    """Return a runner that notes which files were really forecast."""

    def run(function, items):
        for record in map(function, items):
            if not record.get("again") and "error" not in record:
                done.append(record["name"])
            yield record

    return run


# ---- the same forecasts everywhere ------------------------------------------------------


def test_files_are_forecast_as_one_table(model, expected):
    found = pd.concat(map(pd.read_parquet, sorted(expected.glob("*.parquet"))))
    with pytest.warns(match="1 series end before"):
        whole = model.predict(TABLE)
    pd.testing.assert_frame_equal(ordered(found), ordered(whole), check_exact=True)
    pd.testing.assert_frame_equal(ordered(found), ordered(model.predict()), check_exact=True)


@pytest.mark.parametrize("kind", ["patchtst", "naive"])
def test_models_that_serve_other_series_are_fitted_on_a_part(kind, parts, tmp_path):
    cycle = {"cycle": None} if kind == "patchtst" else {}
    model = small(kind, **cycle).fit(waves(90, ids=[f"s{i:02d}" for i in range(4, 8)]))
    model.predict_files(parts, tmp_path)
    found = pd.concat(map(pd.read_parquet, sorted(tmp_path.glob("*.parquet"))))
    with pytest.warns(match="1 series end before"):
        whole = ordered(model.predict(TABLE))
    pd.testing.assert_frame_equal(ordered(found), whole, rtol=1e-6)


def test_the_number_of_threads_does_not_matter(model, parts, expected, tmp_path):
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        model.predict_files(parts, tmp_path)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert contents(tmp_path) == contents(expected)


@pytest.mark.slow
def test_two_processes_write_the_same_files(model, parts, expected, tmp_path):
    found = model.predict_files(parts, tmp_path, workers=2)
    assert contents(tmp_path) == contents(expected)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    (notes,) = found.notes.values()
    assert "1 series end before" in notes[0]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of Ray
def test_ray_writes_the_same_files_also_if_a_worker_dies(model, parts, expected, tmp_path):
    pytest.importorskip("ray", reason="ray is not installed")
    marker = tmp_path / "died"

    def run(function, items):
        def dies_once(file):
            if file.stem == "bucket-3" and not marker.exists():
                marker.touch()
                os._exit(1)
            if file.stem == "bucket-5":
                raise OSError("not on this machine")
            return function(file)

        return runners.ray_runner()(dies_once, items)

    with pytest.raises(FighterError, match=r"(?s)1 of 8 files failed, 'bucket-5'.*not on this"):
        model.predict_files(parts, tmp_path / "out", runner=run)
    assert marker.exists()
    model.predict_files(parts, tmp_path / "out")
    assert contents(tmp_path / "out") == contents(expected)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of Spark
def test_spark_runs_the_lines_of_the_page(tmp_path, monkeypatch):
    if importlib.util.find_spec("pyspark") is None or shutil.which("java") is None:
        pytest.skip("Java or pyspark is missing")
    from pyspark.sql import SparkSession

    page = (ROOT / "docs" / "large-tables.md").read_text(encoding="utf-8")
    (code,) = (c for c in re.findall(r"```python\n(.*?)```", page, re.S) if "applyInPandas" in c)
    monkeypatch.chdir(tmp_path)
    TABLE.to_parquet("sales", index=False)
    model = small("naive").fit(TABLE[TABLE.unique_id > "s00"])
    model.save("model")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    code = code.replace('"model"', repr(str(tmp_path / "model")))
    code = code.replace("Fighter double", "SeasonalNaive double")
    spark = SparkSession.builder.master("local[1]").getOrCreate()
    try:
        exec(code, {"spark": spark, "Forecaster": Forecaster})
    finally:
        spark.stop()
    found = ordered(pd.read_parquet("spark-forecasts"))
    assert found.SeasonalNaive.tolist() == ordered(model.predict(TABLE)).SeasonalNaive.tolist()


MEMORY = """
import resource, sys
from fighter import Forecaster
model, out, *files = sys.argv[1:]
Forecaster.load(model).predict_files(files, out)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="memory is not measured on Windows")
def test_the_memory_of_many_files_is_that_of_one(tmp_path):
    table = waves(200, ids=[f"s{i:03d}" for i in range(400)])
    table.to_parquet(tmp_path / "table.parquet")
    files = split_table(tmp_path / "table.parquet", tmp_path / "parts")
    small("patchtst", cycle=None).fit(table[table.unique_id < "s008"]).save(tmp_path / "model")
    peaks = []
    for some in (files[:1], files):
        place = (tmp_path / "model", tmp_path / f"out-{len(some)}")
        command = [sys.executable, "-c", MEMORY, *map(str, (*place, *some))]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        peaks.append(int(done.stdout))
    assert len(files) == 64
    assert peaks[1] <= 1.3 * peaks[0]


# ---- once ---------------------------------------------------------------------------------


def test_a_call_that_was_cut_off_goes_on(model, parts, expected, forecasts):
    (forecasts / "bucket-0.parquet").unlink()
    (forecasts / "bucket-1.json").unlink()  # killed between the two renames
    (forecasts / "bucket-2.json").write_text("{")
    (forecasts / "_inputs.json").write_text("{")
    (forecasts / ".123.bucket-4.parquet").write_text("half")
    (forecasts / ".model").mkdir()
    (forecasts / ".model" / ".fighter.lock").touch()
    done = []
    model.predict_files(parts, forecasts, runner=counted(done))
    assert done == ["bucket-0", "bucket-1", "bucket-2"]
    assert contents(forecasts) == contents(expected)
    assert not [path.name for path in forecasts.iterdir() if path.name.startswith(".")]


def test_an_interruption_leaves_nothing_behind(model, parts, expected, tmp_path):
    def run(function, items):
        yield from map(function, items[:3])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model.predict_files(parts, tmp_path, runner=run)
    assert collect(tmp_path).missing == tuple(f"bucket-{i}" for i in range(3, 8))
    with pytest.raises(FighterError, match="not complete"):
        collect(tmp_path, tmp_path / "all.parquet")
    done = []
    model.predict_files(parts, tmp_path, runner=counted(done))
    assert len(done) == 5
    assert contents(tmp_path) == contents(expected)


def test_what_changed_is_forecast_again(model, parts, expected, forecasts, tmp_path):
    again, others = Path(shutil.copytree(parts, tmp_path / "parts")), []
    model.save(tmp_path / "model")
    saved = Forecaster.load(tmp_path / "model", device=None).set_params(verbose=False)
    saved.predict_files(again, forecasts, runner=counted(others))
    assert others == []  # a copy of the model, and of the files
    table = pd.read_parquet(again / "bucket-3.parquet")
    table.assign(y=table.y + 1).to_parquet(again / "bucket-3.parquet", index=False)
    model.predict_files(again, forecasts, runner=counted(others))
    assert others == ["bucket-3"]
    assert contents(forecasts) != contents(expected)
    other = small("naive").fit(TABLE[TABLE.unique_id > "s00"])
    other.predict_files(again, forecasts, runner=counted(others))
    assert len(others) == 1 + 8


def test_a_file_that_fails_does_not_stop_the_others(model, parts, forecasts, tmp_path, capsys):
    files = Path(shutil.copytree(parts, tmp_path / "parts"))
    (files / "bucket-1.parquet").write_bytes(b"PAR1 but not really")
    waves(90, ids=["new"]).to_parquet(files / "bucket-2.parquet")
    done = []
    loud = Forecaster.load(saved(model, tmp_path)).set_params(verbose=True)
    with pytest.raises(FighterError) as error:
        loud.predict_files(files, tmp_path / "out", runner=counted(done))
    assert "2 of 8 files failed, 'bucket-1', 'bucket-2'; the others are kept" in str(error.value)
    assert "bucket-1.parquet cannot be read" in str(error.value)
    assert len(done) == 6
    assert "[3/8] bucket-2: the model was trained on" in capsys.readouterr().err
    found = collect(tmp_path / "out")
    assert [*found.failed] == ["bucket-1", "bucket-2"]
    assert "failed: 'bucket-1', 'bucket-2', the first because" in str(found)
    for name in ("bucket-1", "bucket-2"):
        shutil.copy(parts / f"{name}.parquet", files)
    model.predict_files(files, tmp_path / "out", runner=counted(done))
    assert done[6:] == ["bucket-1", "bucket-2"]
    assert contents(tmp_path / "out") == contents(forecasts)


def saved(model: Forecaster, folder: Path) -> Path:
    model.save(folder / "model")
    return folder / "model"


# ---- collecting -----------------------------------------------------------------------------


def test_forecasts_are_joined(expected, tmp_path):
    found = collect(expected, tmp_path / "all.parquet")
    assert str(found) == "8 files, 24 series, 144 rows"
    table = pd.read_parquet(tmp_path / "all.parquet")
    parts = [pd.read_parquet(expected / f"bucket-{i}.parquet") for i in range(8)]
    pd.testing.assert_frame_equal(table, pd.concat(parts, ignore_index=True))


def test_no_forecast_is_replaced_by_all_of_them(expected, forecasts):
    with pytest.raises(FighterError) as error:
        collect(forecasts, forecasts / "bucket-3.parquet")
    assert error.value.argument == "out"
    assert contents(forecasts) == contents(expected)


def test_a_series_in_two_files_is_reported(model, parts, tmp_path):
    files = Path(shutil.copytree(parts, tmp_path / "parts"))
    twice = TABLE[TABLE.unique_id == "s07"]
    twice.to_parquet(files / "more.parquet", index=False)
    (home,) = (p for p in sorted(parts.iterdir()) if "s07" in set(pd.read_parquet(p).unique_id))
    for act, folder in [
        (tiny().fit, files),
        (model.predict, files),
        (partial(model.predict_files, out=tmp_path / "out"), tmp_path / "out"),
        (collect, tmp_path / "out"),
    ]:
        named = rf"'s07' is in two files, .*{home.stem}\.parquet and .*more\.parquet"
        with pytest.raises(FighterError, match=named):
            act(files if act is not collect else folder)
    for path in (files / "more.parquet", tmp_path / "out" / "more.parquet"):
        path.unlink()
    assert model.predict_files(files, tmp_path / "out").series == 24


def test_a_folder_of_something_else_is_no_folder_of_forecasts(parts):
    with pytest.raises(FighterError, match=r"_inputs\.json is missing"):
        collect(parts)


# ---- errors -------------------------------------------------------------------------------


def test_calls_that_are_refused(model, parts, expected, tmp_path):
    (tmp_path / "letter").mkdir()
    (tmp_path / "letter" / "letter.txt").touch()
    (tmp_path / "empty").mkdir()
    twins = [parts / "bucket-0.parquet", expected / "bucket-0.parquet"]
    for files, out, options, reason in [
        (parts, parts, {}, "out=.*replaced"),
        (parts, tmp_path / "letter", {}, r"out=.*'letter\.txt'"),
        (parts / "bucket-0.parquet", tmp_path / "out", {}, "files=.*a folder of Parquet files"),
        (tmp_path / "none", tmp_path / "out", {}, "files=.*none"),
        (tmp_path / "empty", tmp_path / "out", {}, "no Parquet file"),
        ([], tmp_path / "out", {}, "files: needs at least one"),
        ([parts / "a.csv"], tmp_path / "out", {}, r"a\.csv is no Parquet file"),
        (twins, tmp_path / "out", {}, "have one name"),
        (parts, tmp_path / "out", {"workers": 0}, "workers=0"),
        (parts, tmp_path / "out", {"runner": "spark"}, "runner='spark'.*'ray'"),
    ]:
        with pytest.raises(FighterError, match=reason):
            model.predict_files(files, out, **options)
    with pytest.raises(FighterError, match="has not been fitted"):
        tiny().predict_files(parts, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_one_call_at_a_time_writes_to_a_folder(model, parts, tmp_path):
    def run(function, items):
        with pytest.raises(FighterError, match="another process is writing"):
            model.predict_files(parts, tmp_path)
        return map(function, items)

    model.predict_files(parts, tmp_path, runner=run)


# ---- covariates and cross-validation --------------------------------------------------------


def test_future_covariates_come_from_a_file_or_a_folder(tmp_path):
    table = waves(60, ids=["a", "b"]).assign(warm=lambda t: t.ds.dt.hour / 24.0)
    history, ahead = tail(table, 6), table[table.ds >= "2024-01-03 06"]
    model = tiny(horizon=6, future=["warm"]).fit(history)
    whole = model.predict(future=ahead)
    (tmp_path / "in").mkdir()
    (tmp_path / "ahead").mkdir()
    for name in "ab":
        for folder, part in (("in", history), ("ahead", ahead)):
            part[part.unique_id == name].to_parquet(tmp_path / folder / f"{name}.parquet")
    ahead.to_csv(tmp_path / "ahead.csv", index=False)
    for number, future in enumerate(("ahead", "ahead.csv")):
        out = tmp_path / f"out-{number}"
        model.predict_files(tmp_path / "in", out, future=tmp_path / future)
        collect(out, tmp_path / "all.parquet")
        pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "all.parquet"), whole)
    summary = json.loads((out / "a.json").read_text())
    assert summary["key"]["future"] == module.file_sha256(tmp_path / "ahead.csv")
    with pytest.raises(FighterError, match=r"2 of 2 files failed.*future: 6 of 6"):
        model.predict_files(tmp_path / "in", tmp_path / "out")


def test_each_file_is_cross_validated_by_itself(parts, tmp_path):
    model, files = small("naive"), [parts / "bucket-1.parquet", parts / "bucket-2.parquet"]
    found = model.cross_validate_files(files, tmp_path, n_windows=2, step_size=3)
    assert len(found.files) == 2
    alone = model.cross_validation(pd.read_parquet(files[1]), n_windows=2, step_size=3)
    pd.testing.assert_frame_equal(pd.read_parquet(found.files[1]), alone)
    done = []
    for windows in (2, 2, 1):
        model.cross_validate_files(
            files, tmp_path, n_windows=windows, step_size=3, runner=counted(done)
        )
    assert len(done) == 2
