import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import paper.theory
from fighter import Forecaster
from fighter.cli.main import COMMANDS, main
from fighter.data.datasets import catalogue
from fighter.forecasting.forecaster import COLUMNS
from fighter.models import CORES
from paper.theory import Identity

SETTINGS = {"horizon": 4, "lookback": 12, "width": 8, "heads": 2, "max_epochs": 1, "level": [80]}
FLAGS = ["--horizon", "4", "--lookback", "12", "--width", "8", "--heads", "2"]
FLAGS += ["--max-epochs", "1", "--level", "80"]

# What a shell shows as 130: Python ends by the signal itself where it came while torch was still
# importing parts of its own.
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


def test_forecast_reports_and_writes_only_what_was_asked_for(table, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["forecast", str(table), *FLAGS]) == 0
    out = capsys.readouterr().out
    assert "2 series, 150 steps (freq h), 2024-01-01 to 2024-01-07 05:00" in out
    assert "lookback 12, horizon 4" in out
    assert "validation windows, seasonal naive" in out
    assert "Fighter-lo-80" in out
    assert "--out forecast.csv keeps them all" in out
    assert names(tmp_path) == set()


def test_limits_are_told(tmp_path, capsys):
    table = make_table().assign(b=lambda t: (t.b - 20).clip(lower=0))
    table.to_csv(tmp_path / "light.csv", index=False)
    for more, told in (([], True), (["--no-limits"], False)):
        assert main(["forecast", str(tmp_path / "light.csv"), *FLAGS, *more]) == 0
        said = "limits    of 'b': values that are not passed" in capsys.readouterr().out
        assert said == told


def test_forecast_writes_table_plot_and_model(table, tmp_path, capsys):
    out, plot, save = tmp_path / "new" / "f.csv", tmp_path / "f.png", tmp_path / "model"
    targets = ["--out", out, "--plot", plot, "--save", save, "--quiet"]
    assert main(["forecast", str(table), *FLAGS, *map(str, targets)]) == 0
    assert capsys.readouterr().out == ""
    assert names(tmp_path) == {
        "new", "f.csv", "f.png", "model", "config.json", "model.safetensors",
    }  # fmt: skip
    assert plot.read_bytes()[:4] == b"\x89PNG"
    expected = Forecaster(**SETTINGS, verbose=False).fit(pd.read_csv(table)).predict()
    written = pd.read_csv(out, parse_dates=["ds"])
    pd.testing.assert_frame_equal(written, expected, check_dtype=False)
    again = Forecaster.load(save).predict()
    pd.testing.assert_frame_equal(written, again, check_dtype=False)


def test_fit_keeps_model_and_metrics(model):
    assert names(model) == {"config.json", "model.safetensors", "metrics.jsonl"}
    records = [json.loads(line) for line in (model / "metrics.jsonl").read_text().splitlines()]
    assert [record["epoch"] for record in records] == [1]


def test_a_finished_model_is_not_replaced_by_accident(table, model, tmp_path, capsys):
    command = ["fit", str(table), *FLAGS, "--out"]
    before = (model / "config.json").stat().st_mtime_ns
    assert main([*command, str(model)]) == 1
    assert "holds a finished model" in capsys.readouterr().err
    assert (model / "config.json").stat().st_mtime_ns == before
    assert main([*command, str(tmp_path / "m"), "--quiet"]) == 0
    assert main([*command, str(tmp_path / "m"), "--quiet", "--overwrite"]) == 0
    assert len((tmp_path / "m" / "metrics.jsonl").read_text().splitlines()) == 1


def test_predict_gives_what_the_library_gives(table, model, tmp_path, capsys):
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
    assert main(["predict", str(model)]) == 0
    assert "the first of 8 rows" in capsys.readouterr().out


def test_future_values_come_from_a_file_and_are_missed_before_training(tmp_path, capsys):
    table = make_table().assign(warm=1.0)
    table.to_csv(tmp_path / "past.csv", index=False)
    ahead = pd.DataFrame(
        {"ds": pd.date_range("2024-01-07 06:00", periods=4, freq="h"), "warm": 2.0}
    )
    ahead.to_csv(tmp_path / "ahead.csv", index=False)
    command = ["forecast", str(tmp_path / "past.csv"), *FLAGS, "--future", "warm"]
    assert main([*command, "--save", str(tmp_path / "m")]) == 1
    captured = capsys.readouterr()
    assert "8 of 8 covariate values are missing" in captured.err
    assert "trained" not in captured.out
    assert not (tmp_path / "m").exists()
    given = ["--future-file", str(tmp_path / "ahead.csv"), "--save", str(tmp_path / "m")]
    assert main([*command, *given, "--quiet"]) == 0
    out = ["--out", str(tmp_path / "f.csv")]
    assert main(["predict", str(tmp_path / "m"), *out]) == 1
    assert (
        main(["predict", str(tmp_path / "m"), "--future", str(tmp_path / "ahead.csv"), *out]) == 0
    )


def test_evaluate_shows_series_and_mean(table, model, tmp_path, capsys):
    out = tmp_path / "scores.csv"
    assert main(["evaluate", str(model), str(table), "--last", "20", "--out", str(out)]) == 0
    captured = capsys.readouterr()
    assert captured.out.split()[0] == "unique_id"
    assert "--last N" in captured.err  # these rows were seen
    scores = pd.read_csv(out).set_index("unique_id")
    assert list(scores.index) == ["a", "b", "(mean)"]
    assert scores.loc["(mean)", "mae"] == pytest.approx(scores.loc[["a", "b"], "mae"].mean())
    assert (scores["windows"] == 17).all()
    make_table(170).to_csv(tmp_path / "later.csv", index=False)
    assert main(["evaluate", str(model), str(tmp_path / "later.csv"), "--last", "20"]) == 0
    assert capsys.readouterr().err == ""


def test_what_is_found_in_the_data_is_a_note_told_once(tmp_path, capsys):
    table = make_table().drop(index=[30, 31])
    table.loc[50, "a"] = -9999
    table.to_csv(tmp_path / "gaps.csv", index=False)
    assert main(["forecast", str(tmp_path / "gaps.csv"), *FLAGS]) == 0
    err = capsys.readouterr().err
    assert err.count("2 missing time stamps") == 1
    assert err.startswith("note: ")
    assert "declare -9999 as a missing value" in err
    assert ".py" not in err


# ---- settings and configuration --------------------------------------------------------------


def test_flags_override_the_configuration(table, tmp_path):
    config = tmp_path / "c.toml"
    text = "horizon = 4\nlookback = 12\nheads = 2\nmax_epochs = 1\nwidth = 8\nquiet = true\n"
    config.write_text(text + "cycle = 6\ncalendar = false\n[options]\nchannels = 3\n")
    out = tmp_path / "m"
    command = ["fit", str(table), "--config", str(config), "--width", "16", "--cycle", "None"]
    assert main([*command, "--out", str(out)]) == 0
    settings = Forecaster.load(out).get_params()
    assert (settings["horizon"], settings["width"]) == (4, 16)
    assert settings["cycle"] is None
    assert settings["calendar"] is False
    assert settings["options"] == {"channels": 3}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lokback = 3", "unknown key 'lokback'; did you mean 'lookback'?"),
        ("horizon = '4'", "horizon = '4' needs a whole number"),
        ("level = [true]", "needs a list of numbers"),
        ("= 3", "is not TOML"),
    ],
)
def test_a_bad_configuration_is_refused(table, tmp_path, capsys, text, message):
    (tmp_path / "c.toml").write_text(text)
    assert main(["forecast", str(table), *FLAGS, "--config", str(tmp_path / "c.toml")]) == 1
    assert message in capsys.readouterr().err
    assert main(["forecast", str(table), *FLAGS, "--config", str(tmp_path / "no.toml")]) == 1
    assert "no.toml: No such file" in capsys.readouterr().err


# ---- wrong input -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "extra", "message"),
    [
        (None, [], "there is no file"),
        ("", [], "is empty"),
        ("ds,y\n", [], "the table is empty"),
        ("when,load\n2024-01-01,1\n", [], "--time-col ds: the table has no such column"),
        ("ds,y\n2024-01-01,high\n2024-01-02,low\n", [], "must hold numbers"),
        ("ds,y\n2024-01-01,1\n2024-01-02,2\n2024-01-03,2\n", [], "needs lookback 12 + horizon 4"),
        (
            "ds,y\n2024-01-01,1\n",
            ["--target-col", "z"],
            "--target-col z: the table has no such column",
        ),
        ("ds,y\n2024-01-01,1\n", ["--model", "prophet"], "--model prophet: needs one of"),
        ("ds,y\n2024-01-01,1\n", ["--model", "mean"], "--width 8: --model mean has no such"),
        ("ds,y\n2024-01-01,1\n", ["--out", "f.xlsx"], "must end in .csv"),
    ],
)
def test_wrong_input_is_one_line_and_leaves_nothing(
    tmp_path, monkeypatch, capsys, text, extra, message
):
    monkeypatch.chdir(tmp_path)
    if text is not None:
        Path("in.csv").write_text(text)
    before = names(tmp_path)
    targets = ["--out", "out.csv", "--plot", "out.png", "--save", "model"]
    assert main(["forecast", "in.csv", *FLAGS, *targets, *extra]) == 1
    err = capsys.readouterr().err.splitlines()
    assert len(err) == 1
    assert err[0].startswith("fighter: ")
    assert message in err[0]
    assert names(tmp_path) == before


def test_places_that_cannot_be_written_are_refused_before_training(table, tmp_path, capsys):
    (tmp_path / "file").touch()
    for target in (tmp_path / "file" / "f.csv", tmp_path):
        assert main(["forecast", str(table), *FLAGS, "--out", str(target)]) == 1
    captured = capsys.readouterr()
    assert captured.err.count("fighter: ") == 2
    assert captured.out == ""


@pytest.mark.parametrize(
    "arguments",
    [
        ["theory", "--sizes", "3"],
        ["theoryy"],
        ["forecast", "a.csv"],
        ["forecast", "a.csv", "--horizon", "soon"],
        ["forecast", "a.csv", "--horizon", "3", "--lokback", "4"],
        ["data", "lst"],
    ],
)
def test_a_command_line_that_cannot_be_read_is_2(arguments, capsys):
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == 2
    assert capsys.readouterr().err


def test_debug_shows_the_traceback():
    with pytest.raises(fighter.FighterError):
        main(["theory", "--size", "0", "--debug"])


# ---- interruption ----------------------------------------------------------------------------


def _lines(path) -> int:
    return len(path.read_text().splitlines()) if path.exists() else 0


@pytest.mark.usefixtures("usual_ctrl_c")
def test_an_interrupted_fit_goes_on_with_the_same_command(table, tmp_path):
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
    assert err == "fighter: stopped\n"
    assert names(tmp_path) == {"model", "metrics.jsonl", "checkpoint.safetensors"}
    done = _lines(metrics)
    assert 1 <= done < epochs
    assert main([*map(str, command), "--quiet"]) == 0
    assert names(out) == {"config.json", "model.safetensors", "metrics.jsonl"}
    records = [json.loads(line)["epoch"] for line in metrics.read_text().splitlines()]
    assert records[-1] == epochs
    assert len(records) == len(set(records))


@pytest.mark.usefixtures("usual_ctrl_c")
def test_an_interrupted_forecast_leaves_nothing(table, tmp_path):
    targets = ["--out", "f.csv", "--plot", "f.png", "--save", "model"]
    run = start("forecast", table, *FLAGS, "--max-epochs", 5000, *targets, cwd=tmp_path)
    assert run.stderr is not None
    assert run.stderr.readline().startswith("epoch")
    run.send_signal(signal.SIGINT)
    _, err = run.communicate(timeout=60)
    assert run.returncode in STOPPED
    assert err == "fighter: stopped\n"
    assert names(tmp_path) == set()


@pytest.mark.usefixtures("usual_ctrl_c")
def test_ctrl_c_that_comes_out_as_another_error_is_still_ctrl_c(monkeypatch, capsys):
    def load(_):
        with suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        raise ImportError("half of it is loaded")

    monkeypatch.setattr("fighter.cli._run", load)
    assert main([]) == 130
    assert capsys.readouterr().err == "fighter: stopped\n"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_letters_that_the_encoding_lacks_are_no_error():
    run = subprocess.run(
        [sys.executable, "-m", "fighter", "--help"],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert (run.returncode, run.stderr) == (0, b"")


def test_a_reader_that_stops_reading_is_no_error():
    run = subprocess.run(
        f"{sys.executable} -m fighter data list | true", shell=True, capture_output=True, text=True
    )
    assert run.stderr == ""


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


def test_a_data_set_can_be_named_instead_of_a_file(tmp_path, capsys):
    table = make_table().rename(columns={"ds": "date"})
    table.loc[20, "a"] = -9999
    table.to_csv(tmp_path / "weather.csv", index=False)
    assert main(["forecast", "Weather", "--data-dir", str(tmp_path), *FLAGS]) == 0
    assert "1 empty value" in capsys.readouterr().err  # the mark for missing was understood
    assert main(["forecast", "whether", *FLAGS]) == 1
    assert "there is no file whether, and there is no data set 'whether'" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command", [*COMMANDS, "data list", "data show", "data fetch", "data path"]
)
def test_every_command_has_help_with_an_example(command, capsys):
    with pytest.raises(SystemExit) as exit_:
        main([*command.split(), "--help"])
    assert exit_.value.code == 0
    assert command == "data" or f"Example: fighter {command}" in capsys.readouterr().out


def test_help_names_every_model_and_speaks_of_flags(capsys):
    with pytest.raises(SystemExit):
        main(["fit", "--help"])
    out = " ".join(capsys.readouterr().out.replace("│", "").split())
    assert all(f'"{name}"' in out for name in CORES)
    assert "--adjacency cosine" in out
    assert "cycle=None" not in out


@pytest.mark.parametrize("model", ["dlinear", "patchtst", "repeat"])
def test_other_models(model, table, tmp_path, capsys):
    sizes = ["--horizon", "4", "--lookback", "12", "--max-epochs", "1"]
    layers = ["--layers", "1"] if model == "patchtst" else []
    place = tmp_path / "m"
    command = ["fit", str(table), "--model", model, *sizes, *layers, "--out", str(place)]
    assert main(command) == 0
    assert ("layers 1" in capsys.readouterr().out) == bool(layers)
    assert main(["predict", str(place), "--out", str(tmp_path / "f.csv")]) == 0
    assert pd.read_csv(tmp_path / "f.csv").columns[2] == COLUMNS[model]


def test_help_and_version_need_nothing_heavy(capsys):
    assert main([]) == main(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in COMMANDS)
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"fighter {fighter.__version__}\n"
    code = "import sys, fighter.cli; fighter.cli.main(['--help']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    loaded = {module.split(".")[0] for module in done.stdout.split()}
    assert "fighter" in loaded
    assert not loaded & {"torch", "numpy", "pandas", "matplotlib", "tyro"}


def test_importing_the_forecaster_loads_nothing_heavy_but_torch():
    """Other packages are imported where they are used; a list, because seconds are noise."""
    code = (
        "import sys, torch; before = set(sys.modules); from fighter import Forecaster; "
        "print(*sorted({m.split('.')[0] for m in set(sys.modules) - before}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    loaded = set(done.stdout.split())
    assert "fighter" in loaded
    assert not loaded & {"pandas", "polars", "pyarrow", "matplotlib", "plotly", "tyro", "tqdm"}


# ---- theory ----------------------------------------------------------------------------------


def test_theory_prints_its_table_and_ends_well(capsys):
    assert main(["theory", "--seed", "3", "--size", "2"]) == 0
    out = capsys.readouterr().out
    assert "Transformer gradient, W_K" in out
    assert "all corrected forms hold" in out


def test_theory_ends_non_zero_if_a_corrected_form_fails(monkeypatch, capsys):
    broken = [Identity("broken", "nothing", None, 0.5)]
    monkeypatch.setattr(paper.theory, "check_all", lambda **_: broken)
    assert main(["theory"]) == 1
    assert "NOT hold" in capsys.readouterr().out


def test_a_wrong_value_is_one_line_and_1(capsys):
    assert main(["theory", "--size", "0"]) == 1
    captured = capsys.readouterr()
    assert captured.err == "fighter: size=0: needs a whole number from 1 to 64\n"


@pytest.mark.parametrize(
    ("library", "here"),
    [
        ("with past= or future=.", "with --past or --future."),
        ("pass missing_values=[-9999] or so", "pass --missing-values -9999 or so"),
        ("lower lr=0.001, then", "lower --lr 0.001, then"),
        ("missing_values=[float('inf'), float('-inf')] to", "--missing-values inf -inf to"),
        ("give it as data_dir=", "give it as --data-dir"),
        ("data_dir='/a b': no", "--data-dir /a b: no"),
        ("jobs=0: needs", "--jobs 0: needs"),
        ("fit with cycle=None.", "fit with --cycle None."),
    ],
)
def test_messages_speak_of_flags(library, here):
    from fighter.cli.options import in_flags

    assert in_flags(library) == here
