"""A large table on the command line: split, fit, predict, collect."""

import shutil
from pathlib import Path

import pandas as pd
import pytest

from fighter import Forecaster
from fighter.cli import main

from ..tables import waves

TABLE = waves(60, ids=[f"s{i}" for i in range(12)])
FIT = ["--horizon", "4", "--lookback", "12", "--width", "8", "--heads", "2", "--max-epochs", "1"]


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """Return a folder with a table, its parts and a model."""
    folder = tmp_path_factory.mktemp("large")
    TABLE.rename(columns={"unique_id": "id"}).to_csv(folder / "t.csv", index=False)
    parts = ["--by", "id", "--buckets", "3", "--out", str(folder / "parts")]
    assert main(["data", "split", str(folder / "t.csv"), *parts]) == 0
    model = ["--id-col", "id", "--out", str(folder / "model"), "--quiet"]
    assert main(["fit", str(folder / "parts"), *FIT, *model]) == 0
    return folder


@pytest.fixture
def place(made, tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("parts", "model"):
        shutil.copytree(made / name, name)
    return tmp_path


def test_split_fit_predict_collect(place, capsys):
    assert main(["predict", "model", "parts", "--out", "forecasts"]) == 0
    told = capsys.readouterr()
    assert told.out == ""
    assert "3 files, 12 series, 48 rows in forecasts" in " ".join(told.err.split())
    assert main(["collect", "forecasts", "--out", "all.parquet"]) == 0
    assert capsys.readouterr().out == "3 files, 12 series, 48 rows in all.parquet\n"
    found = pd.read_parquet("all.parquet").sort_values(["id", "ds"], ignore_index=True)
    whole = Forecaster.load("model").predict()
    pd.testing.assert_frame_equal(found, whole.sort_values(["id", "ds"], ignore_index=True))
    assert main(["predict", "model", "parts", "--out", "forecasts", "--quiet"]) == 0
    assert capsys.readouterr().err == ""


def test_missing_and_failed_files_are_told(place, capsys):
    Path("parts/bucket-1.parquet").write_bytes(b"PAR1")
    predict = ["predict", "model", "parts", "--out", "forecasts"]
    assert main(predict) == 1
    assert "1 of 3 files failed, 'bucket-1'" in capsys.readouterr().err
    Path("forecasts/bucket-0.parquet").unlink()
    assert main(["collect", "forecasts"]) == 1
    told = capsys.readouterr().out
    assert "not forecast yet: 'bucket-0'; failed: 'bucket-1', the first because" in told
    assert main(["collect", "forecasts", "--out", "all.parquet"]) == 1
    assert not Path("all.parquet").exists()
    assert main(["collect", "parts"]) == 1
    assert "no folder of forecasts" in capsys.readouterr().err


def test_a_folder_may_still_be_forecast_as_one_table(place):
    assert main(["predict", "model", "parts", "--out", "f.csv", "--quiet"]) == 0
    assert len(pd.read_csv("f.csv")) == 48


def test_fit_refuses_a_series_in_two_files(place, capsys):
    shutil.copy("parts/bucket-0.parquet", "parts/more.parquet")
    assert main(["fit", "parts", *FIT, "--id-col", "id", "--out", "other", "--quiet"]) == 1
    assert "bucket-0.parquet and parts/more.parquet" in capsys.readouterr().err


def test_an_interrupted_call_says_how_to_go_on(place, monkeypatch, capsys):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(Forecaster, "predict_files", stop)
    assert main(["predict", "model", "parts", "--out", "forecasts"]) == 130
    assert "the same command goes on" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "flag"),
    [
        (["predict", "model", "parts", "--out", "parts"], "--out"),
        (["predict", "model", "parts", "--out", "f", "--plot", "f.png"], "--plot"),
        (["predict", "model", "parts", "--out", "f", "--static", "s.csv"], "--static"),
        (["predict", "model", "parts", "--out", "f", "--workers", "0"], "--workers"),
        (["predict", "model", "parts", "--out", "f.csv", "--workers", "2"], "--workers"),
        (["predict", "model", "--ray"], "--ray"),
        (["predict", "model", "parts", "--out", "f", "--future-file", "parts"], "--future-file"),
        (["data", "split", "parts", "--out", "new"], "--by unique_id"),
        (["data", "split", "parts", "--by", "id", "--out", "model"], "--out"),
        (["data", "split", "parts", "--by", "id", "--out", "new", "--buckets", "0"], "--buckets"),
    ],
)
@pytest.mark.usefixtures("place")
def test_flags_that_are_refused(arguments, flag, capsys):
    assert main(arguments) == 1
    assert flag in capsys.readouterr().err
