import os
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fighter import Forecaster
from fighter.cli import forecast as commands
from fighter.cli import main
from fighter.cli.targets import check_targets
from fighter.errors import FighterError

HORIZON = ["--horizon", "3", "--model", "repeat", "--lookback", "8"]


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Enter a folder with a table, a saved model and names that lead to them."""
    monkeypatch.chdir(tmp_path)
    days = pd.date_range("2024-01-01", periods=60)
    table = pd.DataFrame({"ds": days, "y": np.arange(60.0)})
    table.to_csv("a.csv", index=False)
    table.to_csv("b.csv", index=False)
    Path("soft.csv").symlink_to("a.csv")
    os.link("a.csv", "hard.csv")
    Path("sub").mkdir()
    Forecaster(3, 8, model="repeat", verbose=False).fit(table).save("model")
    return tmp_path


@pytest.fixture
def no_work(monkeypatch):
    """Fail if anything is read or trained."""

    def fail(*_, **__):
        raise AssertionError("work began before the targets were checked")

    for name in ("open_table", "make_forecaster"):
        monkeypatch.setattr(commands, name, fail)
    monkeypatch.setattr(Forecaster, "load", fail)


CLASHES = [
    ["forecast", "a.csv", *HORIZON, "--out", "a.csv"],
    ["forecast", "a.csv", *HORIZON, "--out", "./a.csv"],
    ["forecast", "a.csv", *HORIZON, "--out", "sub/../a.csv"],
    ["forecast", "a.csv", *HORIZON, "--out", "soft.csv"],
    ["forecast", "soft.csv", *HORIZON, "--out", "a.csv"],
    ["forecast", "a.csv", *HORIZON, "--out", "hard.csv"],
    ["forecast", "a.csv", *HORIZON, "--future-file", "b.csv", "--out", "b.csv"],
    ["forecast", "a.csv", *HORIZON, "--static", "b.csv", "--out", "b.csv"],
    ["forecast", "a.csv", *HORIZON, "--static", "no.csv", "--out", "no.csv"],
    ["forecast", "*.csv", *HORIZON, "--out", "a.csv"],
    ["forecast", "*.csv", *HORIZON, "--out", "new.csv"],
    ["forecast", ".", *HORIZON, "--out", "sub/new.csv"],
    ["forecast", "a.csv", *HORIZON, "--out", "x.csv", "--save", "x.csv"],
    ["forecast", "a.csv", *HORIZON, "--plot", "sub/x.svg", "--report", "./sub/x.svg"],
    ["fit", "a.csv", *HORIZON, "--out", "a.csv"],
    ["predict", "model", "a.csv", "--out", "a.csv"],
    ["predict", "model", "--future-file", "b.csv", "--out", "b.csv"],
    ["evaluate", "model", "a.csv", "--out", "hard.csv"],
    ["evaluate", "model", "a.csv", "--static", "b.csv", "--out", "b.csv"],
    ["explain", "model", "a.csv", "--html", "a.csv"],
]


@pytest.mark.parametrize("arguments", CLASHES, ids=" ".join)
@pytest.mark.usefixtures("no_work")
def test_no_input_and_no_other_target_is_overwritten(place, arguments, capsys):
    before = {path: path.read_bytes() for path in place.rglob("*.csv")}
    assert main(arguments) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.splitlines()) == 1
    assert {path: path.read_bytes() for path in place.rglob("*.csv")} == before


def test_a_known_data_set_is_not_overwritten(tmp_path):
    (tmp_path / "ETTh1.csv").write_text("date,OT\n")
    with pytest.raises(FighterError) as error:
        check_targets({"file": "etth1"}, tmp_path, out=tmp_path / "ETTh1.csv")
    assert error.value.argument == "out"


def test_redirected_input_is_not_overwritten(place):
    with Path("a.csv").open() as file:
        before = os.dup(0)
        os.dup2(file.fileno(), 0)
        try:
            with pytest.raises(FighterError) as error:
                check_targets({"file": "-"}, out=Path("a.csv"))
        finally:
            os.dup2(before, 0)
            os.close(before)
    assert error.value.argument == "out"


@pytest.mark.parametrize("target", ["--out", "--plot", "--report", "--save"])
@pytest.mark.usefixtures("no_work", "place")
def test_no_work_begins_for_a_target_that_cannot_be_written(target, capsys):
    names = {"--out": "f.csv", "--plot": "f.png", "--report": "f.html", "--save": "model"}
    Path("file").touch()
    read_only = Path("/sys/kernel") if os.name == "posix" else Path("file")
    for folder in (read_only, Path("file")):
        assert main(["forecast", "a.csv", *HORIZON, target, str(folder / names[target])]) == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert str(folder / names[target]) in line  # not the name of a temporary file
    if target != "--save":
        assert main(["forecast", "a.csv", *HORIZON, target, "f.wrong"]) == 1


@pytest.mark.usefixtures("no_work")
def test_a_model_is_not_saved_among_other_files(place, capsys):
    (place / "keep").mkdir()
    (place / "keep" / "letter.txt").touch()
    assert main(["forecast", "a.csv", *HORIZON, "--save", "keep"]) == 1
    assert main(["fit", "a.csv", *HORIZON, "--out", "keep"]) == 1
    assert main(["demo", "--out", "keep"]) == 1
    assert [path.name for path in (place / "keep").iterdir()] == ["letter.txt"]


@pytest.mark.parametrize(
    ("package", "arguments"),
    [
        ("matplotlib", ["forecast", "a.csv", *HORIZON, "--plot", "f.png"]),
        ("plotly", ["forecast", "a.csv", *HORIZON, "--report", "f.html"]),
        ("pyarrow", ["forecast", "a.csv", *HORIZON, "--out", "f.parquet"]),
        ("matplotlib", ["predict", "model", "--plot", "f.png"]),
        ("plotly", ["explain", "model", "--html", "f.html"]),
        ("matplotlib", ["demo"]),
    ],
)
@pytest.mark.usefixtures("no_work", "place")
def test_a_missing_package_is_told_before_any_work(package, arguments, monkeypatch, capsys):
    for module in (package, f"{package}.offline"):
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setattr("fighter.cli.targets.find_spec", lambda name: None)
    monkeypatch.setattr("fighter.cli.demo.grid_load", lambda *_, **__: pytest.fail("work began"))
    assert main(arguments) == 1
    assert package in capsys.readouterr().err


def test_probing_a_target_leaves_nothing_behind(tmp_path):
    check_targets({}, out=tmp_path / "new" / "f.csv", plot=tmp_path / "f.png")
    assert list(tmp_path.iterdir()) == []


# ---- standard output -------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["-", "/dev/stdout"])
def test_a_forecast_may_go_to_standard_output(place, target, capsys):
    assert main(["predict", "model", "--out", target]) == 0
    captured = capsys.readouterr()
    assert captured.out.splitlines()[0] == "unique_id,ds,RepeatLast"
    assert len(captured.out.splitlines()) == 4
    assert captured.err == ""


def test_a_forecast_may_go_to_a_pipe(place):
    os.mkfifo("pipe")
    reader = os.open("pipe", os.O_RDONLY | os.O_NONBLOCK)
    assert main(["predict", "model", "--out", "pipe"]) == 0
    assert len(os.read(reader, 1000).splitlines()) == 4
    os.close(reader)


def test_a_terminal_shows_the_first_rows(place, monkeypatch, capsys):
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda _: True)
    for horizon, hint in ((3, False), (9, True)):
        flags = ["--horizon", str(horizon), "--model", "repeat", "--lookback", "8"]
        assert main(["forecast", "a.csv", *flags]) == 0
        out = capsys.readouterr().out
        assert "RepeatLast" in out
        assert "," not in out.splitlines()[1]
        assert ("of 9 rows" in out) == hint
        assert main(["forecast", "a.csv", *flags, "--quiet"]) == 0
        captured = capsys.readouterr()
        assert len(captured.out.splitlines()) == 1 + horizon
        assert captured.err == ""
