import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fighter
from fighter import FighterError, Forecaster
from fighter.cli.main import COMMANDS, main
from fighter.cli.messages import in_flags
from fighter.data.datasets import catalogue
from fighter.forecasting import fitted, learn
from fighter.models import MODELS
from fighter.training import loop
from fighter.training.checkpoint import write_tensors

SETTINGS = {"horizon": 4, "lookback": 12, "width": 8, "heads": 2, "max_epochs": 1, "level": [80]}
FLAGS = ["--horizon", "4", "--lookback", "12", "--width", "8", "--heads", "2"]
FLAGS += ["--max-epochs", "1", "--level", "80"]

# A shell shows 130; Python ends by the signal itself if it came while torch was being imported.
STOPPED = (130, -signal.SIGINT)


def make_table(rows: int = 150) -> pd.DataFrame:
    hour = np.arange(rows)
    noise = np.random.default_rng(0).normal(size=(2, rows))
    columns = {
        name: 10 * (i + 1) + np.sin(hour / 4) + 0.1 * noise[i] for i, name in enumerate("ab")
    }
    return pd.DataFrame({"ds": pd.date_range("2024-01-01", periods=rows, freq="h"), **columns})


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("tables") / "load.csv"
    make_table().to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def model(table, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "model"
    assert main(["fit", str(table), *FLAGS, "--out", str(folder), "--quiet"]) == 0
    return folder


def test_ids_in_several_columns(tmp_path, capsys):
    long = make_table(60).melt("ds", var_name="item", value_name="sold")
    table = pd.concat([long.assign(shop=1), long.assign(shop=2, sold=long.sold + 5)])
    table.assign(remark="-").to_csv(tmp_path / "t.csv", index=False)
    settings = ["--horizon", "2", "--lookback", "8", "--model", "repeat", "--quiet"]
    ids = ["--id-col", "shop", "item", "--target-col", "sold", "--drop", "remark"]
    command = ["forecast", str(tmp_path / "t.csv"), *settings, *ids, "--save", str(tmp_path / "m")]
    assert main([*command, "--out", str(tmp_path / "f.csv")]) == 0
    forecast = pd.read_csv(tmp_path / "f.csv")
    assert forecast.columns.tolist() == ["shop", "item", "ds", "RepeatLast"]
    assert forecast[["shop", "item"]].drop_duplicates().to_numpy().tolist() == [
        [1, "a"], [1, "b"], [2, "a"], [2, "b"]
    ]  # fmt: skip
    assert main(["evaluate", str(tmp_path / "m"), str(tmp_path / "t.csv")]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("(all),(all),")
    assert main([*command[:-2], "--out", str(tmp_path / "f.csv"), "--id-col", "shop"]) == 1
    assert "'shop', 'item'" in capsys.readouterr().err


def start(*arguments: object, cwd: Path | None = None) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", "fighter", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*")}


# ---- forecast, fit, predict, evaluate --------------------------------------------------------


def test_forecast_prints_a_summary_and_writes_nothing_unasked(table, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["forecast", str(table), *FLAGS]) == 0
    out, err = capsys.readouterr()
    assert "2 series, 150 steps (freq h), 2024-01-01 to 2024-01-07 05:00" in err
    assert "seasonal naive" in err
    assert "last value" in err
    forecast = pd.read_csv(io.StringIO(out))  # nothing else is on standard output
    assert list(forecast) == ["unique_id", "ds", "Fighter", "Fighter-lo-80", "Fighter-hi-80"]
    assert len(forecast) == 8
    assert names(tmp_path) == set()


def test_the_plan_is_printed_before_training(table, monkeypatch, capsys):
    def stop(*_, **__):
        raise FighterError("no training today")

    monkeypatch.setattr(learn, "train", stop)
    assert main(["forecast", str(table), *FLAGS]) == 1
    err = capsys.readouterr().err
    assert "lookback 12, horizon 4" in err
    assert "parameters" in err
    assert main(["forecast", str(table), *FLAGS, "--quiet"]) == 1
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_python_shows_the_plan_too_unless_it_is_not_verbose(capsys):
    for verbose in (True, False):
        model = Forecaster(4, 12, model="repeat", verbose=verbose).fit(make_table())
        out, err = capsys.readouterr()
        assert out == ""
        assert (f"lookback {model.plan.lookback}, horizon 4" in err) == verbose


def test_the_encoding_of_a_file_may_be_given(tmp_path, capsys):
    table = make_table().rename(columns={"a": "Zürich"})
    table.to_csv(tmp_path / "t.csv", index=False, encoding="latin-1")
    flags = ["--horizon", "4", "--lookback", "12", "--model", "repeat", "--encoding", "latin-1"]
    save = ["--save", str(tmp_path / "m"), "--quiet"]
    assert main(["forecast", str(tmp_path / "t.csv"), *flags, *save]) == 0
    assert "Zürich" in capsys.readouterr().out
    for command in ("predict", "evaluate"):
        assert main([command, str(tmp_path / "m"), str(tmp_path / "t.csv"), *flags[-2:]]) == 0
        assert "Zürich" in capsys.readouterr().out


def test_detected_bounds_are_printed(tmp_path, capsys):
    table = make_table().assign(b=lambda t: (t.b - 20).clip(lower=0))
    table.to_csv(tmp_path / "light.csv", index=False)
    for more, printed in (([], True), (["--no-bounds"], False)):
        assert main(["forecast", str(tmp_path / "light.csv"), *FLAGS, *more]) == 0
        assert ("bounds    detected for 'b'" in capsys.readouterr().err) == printed


def test_bounds_are_given_as_flags(tmp_path, capsys):
    table = make_table().assign(c=lambda t: t.a - t.a.mean())
    table.to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "c.toml").write_text("bounds = [0, inf]")
    config = ["--config", str(tmp_path / "c.toml")]
    for flags, line in (
        (["--bounds", "0", "none"], ["bounds    at least 0, as given"]),
        (["--bounds", "-1e3", "5"], ["bounds    at least -1000 and at most 5, as given"]),
        (config, ["bounds    at least 0, as given"]),
        ([*config, "--bounds"], ["bounds    at least 0 for 'a', 'b'"]),
        ([*config, "--no-bounds"], []),
        ([], ["bounds    at least 0 for 'a', 'b'"]),
    ):
        assert main(["forecast", str(tmp_path / "t.csv"), *FLAGS, *flags]) == 0
        printed = capsys.readouterr().err.splitlines()
        assert [row for row in printed if row.startswith("bounds")] == line
    for given in ("0", "low high", "none", "5 0"):
        with suppress(SystemExit):
            assert main(["forecast", str(tmp_path / "t.csv"), *FLAGS, "--bounds", *given.split()])
        assert "fighter: --bounds" in capsys.readouterr().err


def test_forecast_writes_table_plot_and_model(table, tmp_path, capsys):
    out, plot, save = tmp_path / "new" / "f.csv", tmp_path / "f.png", tmp_path / "model"
    targets = ["--out", out, "--plot", plot, "--save", save, "--quiet"]
    assert main(["forecast", str(table), *FLAGS, *map(str, targets)]) == 0
    assert capsys.readouterr().out == ""
    assert names(tmp_path) == {
        "new", "f.csv", "f.png", "model", "config.json", "model.safetensors",
    }  # fmt: skip
    assert plot.read_bytes()[:4] == b"\x89PNG"
    expected = Forecaster.from_flat(**SETTINGS, verbose=False).fit(pd.read_csv(table)).predict()
    written = pd.read_csv(out, parse_dates=["ds"])
    pd.testing.assert_frame_equal(written, expected, check_dtype=False)
    again = Forecaster.load(save).predict()
    pd.testing.assert_frame_equal(written, again, check_dtype=False)


def test_fit_writes_model_and_metrics(model):
    assert names(model) == {"config.json", "model.safetensors", "metrics.jsonl"}
    records = [json.loads(line) for line in (model / "metrics.jsonl").read_text().splitlines()]
    assert [record["epoch"] for record in records] == [1]


def test_a_finished_model_is_not_overwritten_by_accident(table, model, tmp_path, capsys):
    command = ["fit", str(table), *FLAGS, "--out"]
    before = (model / "config.json").stat().st_mtime_ns
    assert main([*command, str(model)]) == 1
    assert "holds a finished model" in capsys.readouterr().err
    assert (model / "config.json").stat().st_mtime_ns == before
    assert main([*command, str(tmp_path / "m"), "--quiet"]) == 0
    assert main([*command, str(tmp_path / "m"), "--quiet", "--overwrite"]) == 0
    assert len((tmp_path / "m" / "metrics.jsonl").read_text().splitlines()) == 1


@pytest.mark.parametrize("name", ["model.safetensors", "metrics.jsonl", "config.json", "notes.txt"])
def test_files_of_others_are_left_alone_and_nothing_is_trained(table, tmp_path, capsys, name):
    (tmp_path / name).write_text("precious")
    for command in (["fit", "no table is read", "--out"], ["forecast", str(table), "--save"]):
        assert main([*command, str(tmp_path), *FLAGS]) == 1
        assert "not a saved model" in capsys.readouterr().err
    assert names(tmp_path) == {name}
    assert (tmp_path / name).read_text() == "precious"


def test_a_cut_off_overwriting_resumes_and_the_older_model_stays(
    table, tmp_path, capsys, monkeypatch
):
    out, again = tmp_path / "m", tmp_path / "again"
    command = ["fit", str(table), *FLAGS, "--out", str(out)]
    assert main([*command, "--quiet"]) == 0
    older, weights = Forecaster.load(out).predict(), (out / "model.safetensors").read_bytes()
    command += ["--overwrite", "--max-epochs", "5", "--patience", "5"]
    real = loop._Run.save

    def stop(run, path):
        if run.epoch == 3:
            raise KeyboardInterrupt
        real(run, path)

    monkeypatch.setattr(loop._Run, "save", stop)
    assert main(command) == 130
    monkeypatch.undo()
    assert Forecaster.load(out).predict().equals(older)
    capsys.readouterr()
    assert main(command) == 0
    assert "resuming after epoch 2" in capsys.readouterr().err
    assert names(out) == {"config.json", "model.safetensors", "metrics.jsonl"}
    command[command.index(str(out))] = str(again)
    assert main([*command, "--quiet"]) == 0
    assert Forecaster.load(out).predict().equals(Forecaster.load(again).predict())
    assert (out / "model.safetensors").read_bytes() != weights


def test_a_checkpoint_left_beside_its_model_is_removed(table, model, tmp_path):
    out = tmp_path / "m"
    shutil.copytree(model, out)
    write_tensors({}, "state", "{}", out / "checkpoint.safetensors")
    os.utime(out / "checkpoint.safetensors", (1, 1))
    assert main(["fit", str(table), *FLAGS, "--out", str(out)]) == 1
    assert names(out) == names(model)


def test_a_rank_left_over_in_the_environment_does_not_silence(table, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("RANK", "1")
    assert main(["fit", str(table), *FLAGS, "--out", str(tmp_path / "m")]) == 0
    assert "saved in" in capsys.readouterr().err


def test_predict_equals_the_library(table, model, tmp_path, capsys):
    loaded = Forecaster.load(model)
    later = make_table(160)
    later.to_parquet(tmp_path / "later.parquet")
    for extra, expected in [
        ([], loaded.predict()),
        ([str(tmp_path / "later.parquet")], loaded.predict(later)),
    ]:
        out = tmp_path / "f.parquet"
        plot = ["--plot", str(tmp_path / "f.png")]
        assert main(["predict", str(model), *extra, "--out", str(out), *plot]) == 0
        pd.testing.assert_frame_equal(pd.read_parquet(out), expected, check_dtype=False)
    capsys.readouterr()
    assert main(["predict", str(model)]) == 0
    printed = pd.read_csv(io.StringIO(capsys.readouterr().out), parse_dates=["ds"])
    pd.testing.assert_frame_equal(printed, loaded.predict(), check_dtype=False)


def test_missing_future_values_are_reported_before_training(tmp_path, capsys):
    table = make_table().assign(warm=1.0)
    table.to_csv(tmp_path / "past.csv", index=False)
    ahead = pd.DataFrame(
        {"ds": pd.date_range("2024-01-07 06:00", periods=4, freq="h"), "warm": 2.0}
    )
    ahead.to_csv(tmp_path / "ahead.csv", index=False)
    command = ["forecast", str(tmp_path / "past.csv"), *FLAGS, "--future", "warm"]
    assert main([*command, "--save", str(tmp_path / "m")]) == 1
    captured = capsys.readouterr()
    assert "--future-file: 8 of 8 covariate values are missing" in captured.err
    assert "plan" not in captured.err
    assert not (tmp_path / "m").exists()
    given = ["--future-file", str(tmp_path / "ahead.csv"), "--save", str(tmp_path / "m")]
    assert main([*command, *given, "--quiet"]) == 0
    out = ["--out", str(tmp_path / "f.csv")]
    assert main(["predict", str(tmp_path / "m"), *out]) == 1
    assert "--future-file: " in capsys.readouterr().err
    given = ["--future-file", str(tmp_path / "ahead.csv")]
    assert main(["predict", str(tmp_path / "m"), *given, *out]) == 0


def test_evaluate_shows_series_and_total(table, model, tmp_path, capsys):
    out = tmp_path / "scores.csv"
    assert main(["evaluate", str(model), str(table), "--last", "20", "--out", str(out)]) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "17 of the 17 windows" in captured.err  # these rows were seen
    scores = pd.read_csv(out).set_index("unique_id")
    assert list(scores.index) == ["a", "b", "(all)"]
    assert scores.loc["(all)", "mae"] == pytest.approx(scores.loc[["a", "b"], "mae"].mean())
    assert (scores["windows"] == 17).all()
    make_table(170).to_csv(tmp_path / "later.csv", index=False)
    assert main(["evaluate", str(model), str(tmp_path / "later.csv"), "--last", "20"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert len(pd.read_csv(io.StringIO(captured.out))) == 3


def test_notes_about_the_data_are_printed_once(tmp_path, capsys):
    table = make_table().drop(index=[30, 31])
    table.loc[50, "a"] = -9999
    table.to_csv(tmp_path / "gaps.csv", index=False)
    assert main(["forecast", str(tmp_path / "gaps.csv"), *FLAGS]) == 0
    err = capsys.readouterr().err
    assert err.count("2 missing time stamps") == 1
    assert err.startswith("note: ")
    assert "-9999" in err
    assert ".py" not in err


# ---- settings and configuration --------------------------------------------------------------


def test_flags_override_the_configuration_file(table, tmp_path):
    config = tmp_path / "c.toml"
    text = "horizon = 4\nlookback = 12\nheads = 2\nmax_epochs = 1\nwidth = 8\nquiet = true\n"
    config.write_text(text.replace("_", "-") + "cycle = 6\ncalendar = false\nchannels = 3\n")
    out = tmp_path / "m"
    command = ["fit", str(table), "--config", str(config), "--width", "16", "--cycle", "None"]
    assert main([*command, "--out", str(out)]) == 0
    settings = Forecaster.load(out).get_params()
    assert (settings["horizon"], settings["model__width"]) == (4, 16)
    assert settings["frame__cycle"] is None
    assert settings["frame__calendar"] is False
    assert settings["model__channels"] == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lokback = 3", "c.toml: lokback = 3: there is no such setting. Did you mean 'lookback'?"),
        ("horizon = '3'", "c.toml: horizon = '3': needs a whole number"),
        ("width = '4'", "c.toml: width = '4': needs a whole number"),
        ("max_epochs = 0", "c.toml: max_epochs = 0: needs a whole number"),
        ("quiet = 'no'", "c.toml: quiet = 'no': needs True or False"),
        ("verbose = true", "c.toml: verbose = True: there is no such setting; quiet = true"),
        ("= 3", "is not TOML"),
        ("[training]\nlr = 0.1", "c.toml: [training] is a table"),
    ],
)
def test_a_bad_configuration_file_is_refused(table, tmp_path, capsys, text, message):
    (tmp_path / "c.toml").write_text(text)
    assert main(["forecast", str(table), *FLAGS, "--config", str(tmp_path / "c.toml")]) == 1
    assert message in capsys.readouterr().err
    assert main(["forecast", str(table), *FLAGS, "--config", str(tmp_path / "no.toml")]) == 1
    assert "no.toml: No such file" in capsys.readouterr().err


# ---- wrong input -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "extra", "message"),
    [
        (None, [], "in.csv"),
        ("", [], "is empty"),
        ("ds,y\n", [], "empty"),
        ("when,load\n2024-01-01,1\n", [], "--time-col ds: the table has no such column"),
        ("ds,y\n2024-01-01,high\n2024-01-02,low\n", [], "row 0 of column 'y' holds 'high'"),
        (
            "ds,y\n2024-01-01,1\n2024-01-02,2\n2024-01-03,2\n",
            ["--no-smoothing"],
            "needs look-back 12 + horizon 4",
        ),
        (
            "ds,y\n2024-01-01,1\n",
            ["--target-col", "z"],
            "--target-col z: the table has no such column",
        ),
        ("ds,y\n2024-01-01,1\n", ["--model", "prophet"], "--model prophet: needs one of"),
        ("ds,y\n2024-01-01,1\n", ["--level", "0"], "--level 0.0: 0.0 is not between"),
        ("ds,y\n2024-01-01,1\n", ["--out", "f.xlsx"], "must end in .csv"),
    ],
)
def test_wrong_input_gives_one_line_and_writes_nothing(
    tmp_path, monkeypatch, capsys, text, extra, message
):
    monkeypatch.chdir(tmp_path)
    if text is not None:
        Path("in.csv").write_text(text)
    before = names(tmp_path)
    targets = ["--out", "out.csv", "--plot", "out.png", "--save", "model"]
    assert main(["forecast", "in.csv", *FLAGS, *targets, *extra]) == 1
    captured = capsys.readouterr()
    err = [line for line in captured.err.splitlines() if not line.startswith("read ")]
    assert captured.out == ""
    assert len(err) == 1
    assert err[0].startswith("fighter: ")
    assert message in err[0]
    assert names(tmp_path) == before


def test_unwritable_targets_are_refused_before_training(table, tmp_path, capsys):
    (tmp_path / "file").touch()
    for target in (tmp_path / "file" / "f.csv", tmp_path):
        assert main(["forecast", str(table), *FLAGS, "--out", str(target)]) == 1
    captured = capsys.readouterr()
    assert captured.err.count("fighter: ") == 2
    assert captured.out == ""


@pytest.mark.parametrize(
    "arguments",
    [
        ["theory"],
        ["forecats"],
        ["forecast", "a.csv", "--horizon", "3", "--model", "mean", "--width", "8"],
        ["forecast", "a.csv"],
        ["forecast", "a.csv", "--horizon", "soon"],
        ["forecast", "a.csv", "--horizon", "3", "--lokback", "4"],
        ["data", "lst"],
    ],
)
def test_a_command_line_that_cannot_be_parsed_exits_with_2(arguments, capsys):
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == 2
    assert capsys.readouterr().err


def test_debug_shows_the_traceback():
    with pytest.raises(FighterError):
        main(["forecast", "no.csv", "--horizon", "3", "--debug"])


# ---- interruption ----------------------------------------------------------------------------


def _lines(path) -> int:
    return len(path.read_text().splitlines()) if path.exists() else 0


@pytest.mark.slow
@pytest.mark.usefixtures("usual_ctrl_c")
def test_an_interrupted_fit_resumes_with_the_same_command(table, tmp_path):
    out = tmp_path / "model"
    epochs = 60
    command = ["fit", table, *FLAGS, "--max-epochs", epochs, "--patience", epochs, "--out", out]
    run = start(*command)
    metrics = out / "metrics.jsonl"
    deadline = time.monotonic() + 60
    while not _lines(metrics) and run.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    run.send_signal(signal.SIGINT)
    _, err = run.communicate(timeout=60)
    assert run.returncode in STOPPED
    assert err.splitlines()[-1] == "fighter: stopped: the same command resumes"
    assert names(tmp_path) == {"model", "metrics.jsonl", "checkpoint.safetensors"}
    done = _lines(metrics)
    assert 1 <= done < epochs
    assert main([*map(str, command), "--quiet"]) == 0
    assert names(out) == {"config.json", "model.safetensors", "metrics.jsonl"}
    records = [json.loads(line)["epoch"] for line in metrics.read_text().splitlines()]
    assert records[-1] == epochs
    assert len(records) == len(set(records))


@pytest.mark.slow
@pytest.mark.usefixtures("usual_ctrl_c")
def test_an_interrupted_forecast_writes_nothing(table, tmp_path):
    targets = ["--out", "f.csv", "--plot", "f.png", "--save", "model"]
    run = start("forecast", table, *FLAGS, "--max-epochs", 5000, *targets, cwd=tmp_path)
    assert run.stderr is not None
    while not run.stderr.readline().startswith("epoch"):
        assert run.poll() is None
    run.send_signal(signal.SIGINT)
    _, err = run.communicate(timeout=60)
    assert run.returncode in STOPPED
    assert err.splitlines()[-1].startswith("fighter: stopped: nothing was written")
    assert names(tmp_path) == set()


@pytest.mark.usefixtures("usual_ctrl_c")
def test_ctrl_c_during_an_import_still_exits_with_130(monkeypatch, capsys):
    def load(_):
        with suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        raise ImportError("half of it is loaded")

    monkeypatch.setattr(import_module("fighter.cli.main"), "_run", load)
    assert main([]) == 130
    assert capsys.readouterr().err == "fighter: stopped\n"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.slow
def test_an_encoding_without_greek_letters_works():
    run = subprocess.run(
        [sys.executable, "-m", "fighter", "--help"],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert (run.returncode, run.stderr) == (0, b"")


@pytest.mark.slow
def test_a_closed_pipe_is_no_error():
    run = subprocess.run(
        f"{sys.executable} -m fighter data list | true", shell=True, capture_output=True, text=True
    )
    assert run.stderr == ""


@pytest.mark.slow
def test_fit_under_torchrun_prints_one_summary_and_saves_the_model(table, tmp_path):
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone"]
    command += ["-m", "fighter", "fit", str(table), *FLAGS, "--device", "cpu", "--distributed"]
    run = subprocess.run(
        [*command, "--out", str(tmp_path / "m")],
        capture_output=True,
        text=True,
        timeout=200,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert run.returncode == 0, run.stderr
    assert run.stderr.count("\nscore ") == 1
    assert run.stderr.count("\nplan ") == 1
    assert len(Forecaster.load(tmp_path / "m").predict()) == 8


# ---- data, help and the rest -----------------------------------------------------------------


def test_data_list_show_and_path(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("FIGHTER_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "ETTh1.csv").write_text("date,OT\n")
    where = ["--data-dir", str(tmp_path)]
    assert main(["data", "list", *where]) == 0
    lines = {line.split()[0]: line.split()[1] for line in capsys.readouterr().out.splitlines()}
    assert lines["ETTh1"] == "here"
    assert lines["weather"] == "-"
    assert set(lines) == set(catalogue.CATALOGUE)
    assert main(["data", "show", "weather", *where]) == 0
    assert "-9999 stands for missing" in capsys.readouterr().out
    assert main(["data", "path", "etth1", *where]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "ETTh1.csv")
    assert main(["data", "path", "weather", *where]) == 1
    assert "fighter data fetch weather" in capsys.readouterr().err


def test_data_fetch_prints_the_path(tmp_path, monkeypatch, capsys):
    def fetch(name, data_dir, part, progress):
        return Path(data_dir) / f"{name}-{part}"

    monkeypatch.setattr(catalogue, "fetch", fetch)
    command = ["data", "fetch", "agnews", "--part", "test", "--data-dir", str(tmp_path)]
    assert main(command) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "agnews-test")


def test_a_data_set_may_be_named_instead_of_a_file(tmp_path, capsys):
    table = make_table().rename(columns={"ds": "date"})
    table.loc[20, "a"] = -9999
    table.to_csv(tmp_path / "weather.csv", index=False)
    assert main(["forecast", "Weather", "--data-dir", str(tmp_path), *FLAGS]) == 0
    assert "1 empty value" in capsys.readouterr().err  # the mark for missing values was recognised
    assert main(["forecast", "whether", *FLAGS]) == 1
    assert "whether" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command", [*COMMANDS, "data list", "data show", "data fetch", "data path"]
)
def test_every_command_has_help_with_an_example(command, capsys):
    assert main([*command.split(), "--help"]) == 0
    assert command == "data" or f"Example: fighter {command}" in capsys.readouterr().out


def test_help_shows_the_flags_of_the_chosen_model(capsys):
    shown = {}
    for name in ("fighter", "patchtst", "naive"):
        assert main(["fit", "--model", name, "--help"]) == 0
        shown[name] = capsys.readouterr().out
    assert all(flag in shown["fighter"] for flag in ("--kappa", "--adjacency", "--cycle", "--lr"))
    assert "--patch" in shown["patchtst"]
    assert "--adjacency" not in shown["patchtst"]
    assert "--width" not in shown["naive"]
    assert all(name in " ".join(shown["fighter"].split()) for name in MODELS)


def test_a_table_is_parsed_once(table, monkeypatch):
    parsed = []
    read = pd.read_csv
    monkeypatch.setattr(pd, "read_csv", lambda *a, **k: parsed.append("csv") or read(*a, **k))
    real = fitted.to_panel
    monkeypatch.setattr(fitted, "to_panel", lambda *a, **k: parsed.append("panel") or real(*a, **k))
    assert main(["forecast", str(table), *FLAGS]) == 0
    assert parsed == ["csv", "panel"]


@pytest.mark.parametrize("model", ["dlinear", "patchtst", "repeat"])
def test_other_models_fit_and_predict(model, table, tmp_path, capsys):
    sizes = ["--horizon", "4", "--lookback", "12", "--max-epochs", "1"]
    layers = ["--layers", "1"] if model == "patchtst" else []
    place = tmp_path / "m"
    command = ["fit", str(table), "--model", model, *sizes, *layers, "--out", str(place)]
    assert main(command) == 0
    assert ("layers 1" in capsys.readouterr().err) == bool(layers)
    assert main(["predict", str(place), "--out", str(tmp_path / "f.csv")]) == 0
    assert pd.read_csv(tmp_path / "f.csv").columns[2] == MODELS[model].column


@pytest.mark.slow
def test_help_and_version_import_nothing_heavy(capsys):
    assert main([]) == main(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in COMMANDS)
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"fighter {fighter.__version__}\n"
    code = "import sys, fighter.cli; fighter.cli.main(['--help']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    loaded = {module.split(".")[0] for module in done.stdout.split()}
    assert "fighter" in loaded
    assert not loaded & {"torch", "numpy", "pandas", "matplotlib"}


@pytest.mark.slow
def test_importing_the_forecaster_imports_nothing_heavy_but_torch():
    """Other packages are imported where they are used."""
    code = (
        "import sys, torch; before = set(sys.modules); from fighter import Forecaster; "
        "print(*sorted({m.split('.')[0] for m in set(sys.modules) - before}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    loaded = set(done.stdout.split())
    assert "fighter" in loaded
    assert not loaded & {"pandas", "polars", "pyarrow", "matplotlib", "plotly", "tqdm"}


# ---- messages --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (FighterError("needs at least 1", argument="horizon", value=0), "--horizon 0: needs"),
        (
            FighterError("needs rows", argument="missing_values", value=[1, 2]),
            "--missing-values 1 2:",
        ),
        (FighterError("leave them out", argument="static"), "--static: leave them out"),
        (FighterError("the file is empty"), "the file is empty"),
    ],
)
def test_errors_show_the_argument_as_a_flag(error, text):
    assert in_flags(error).startswith(text)


def test_a_fitted_model_has_no_flags_of_settings(model, capsys):
    for flag in ("--horizon", "--level"):
        with pytest.raises(SystemExit):
            main(["predict", str(model), flag, "5"])
        assert f"{flag}: it is fixed when the model is fitted" in capsys.readouterr().err


def test_models_without_weights_show_no_epochs(table, capsys):
    assert main(["forecast", str(table), "--horizon", "2", "--model", "repeat"]) == 0
    assert "epoch" not in capsys.readouterr().err


def test_lines_fit_a_narrow_terminal(table, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert main(["forecast", str(table), *FLAGS, "--drop", "b", "--time-col", "ds"]) == 0
    lines = capsys.readouterr().err.replace("\r", "\n").splitlines()
    assert max(len(line) for line in lines if not line.startswith("epoch")) <= 60
