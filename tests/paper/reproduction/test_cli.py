"""`fighter reproduce`, as a user calls it."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import paper.reproduction.command
from fighter.cli import main
from paper.reproduction import figures, paper, reproduce, table1
from paper.reproduction.page import ORDER
from paper.reproduction.scale import QUICK
from tests.cli.test_forecast import STOPPED

TINY = replace(
    QUICK, epochs=1, width=8, kappas=(3,), rows=700, snapshots=(1,), text_kappas=(3,),
    text_epochs=1, articles=200, backward_steps=5,
)  # fmt: skip


@pytest.fixture
def tiny(monkeypatch):
    """The quick version, quicker: smaller sizes, and only the runs that claims are about."""
    kept = {*paper.ACCURACY, "Fighter κ=3, as printed", *table1.NAIVE}
    rows = {label: row for label, row in table1.ROWS.items() if label in kept}
    monkeypatch.setattr(table1, "ROWS", rows)
    monkeypatch.delitem(table1.VARIANTS, "minmax")
    for module in (paper.reproduction.command, reproduce):
        monkeypatch.setattr(module, "QUICK", TINY)


@pytest.fixture
def nothing(tmp_path, monkeypatch):
    """A folder without data, on a machine without data."""
    for name in ("FIGHTER_DATA", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "cache"))
    return tmp_path / "no data"


def call(*arguments):
    return main(["reproduce", *map(str, arguments)])


@pytest.mark.usefixtures("tiny")
def test_all_of_it(tmp_path, data_dir, capsys, monkeypatch):
    out, page = tmp_path / "out", tmp_path / "docs" / "page.md"
    command = ("all", "--quick", "--jobs", 1, "--results", out, "--page", page)
    command += ("--data-dir", data_dir, "--device", "cpu")
    assert call(*command) == 0
    said = capsys.readouterr().out
    runs = int(re.match(r"(\d+) runs, 0 of them done before\n", said)[1])
    assert f"[{runs}/{runs}] " in said
    assert said.endswith(f"Tables and figures: {page}\n")
    assert "say nothing about the paper" in said
    assert len(re.findall(r"^(?:reproduced|not reproduced|partly|cannot be)", said, re.M)) == 12
    assert len([*(out / "runs").iterdir()]) == runs

    assert {path.stem for path in out.glob("*.json")} == {*ORDER}
    for name in ORDER:
        kept = json.loads((out / f"{name}.json").read_text())
        assert kept["quick"] is True
        assert kept["scale"]["articles"] == 200
        assert kept["provenance"]["device"].startswith("cpu: ")
        assert all(len(checksum) == 64 for checksum in kept["data"].values())
        assert all({"settings", "commit", "seconds", "result"} <= {*row} for row in kept["rows"])
    sums = json.loads((out / "agnews.json").read_text())["data"]
    assert {*sums} == {"agnews train_partial", "agnews test"} or "agnews train" in sums
    text = page.read_text()
    assert "say nothing about the paper" in text
    assert "Trained on 200 articles" in text
    assert "scored on 200 of the official test file of 7,600" in text
    pictures = re.findall(r"\((page/\w+\.png)\)", text)
    assert len(pictures) == 6
    assert all((page.parent / picture).is_file() for picture in pictures)

    monkeypatch.setattr(figures, "save_figure", lambda figure, path: None)  # to save time
    assert call(*command) == 0  # and no run is made again
    again = capsys.readouterr().out
    assert again.startswith(f"{runs} runs, {runs} of them done before\n\n")
    assert again[again.index("\n\n") :] == said[said.index("\n\n") :]
    assert page.read_text() == text


def test_where_results_go_unless_told(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(
        paper.reproduction.command, "run", lambda *a, **k: asked.append((a, k)) or ""
    )
    monkeypatch.chdir(tmp_path)
    assert call("kappa") == call("kappa", "--quick") == 0
    assert call("all", "--quick", "--results", "reproduction", "--jobs", 3) == 0
    places = [(str(a[3]), str(a[4])) for a, _ in asked]
    assert places == [
        ("reproduction", "reproduction/reproduction.md"),
        ("reproduction-quick", "reproduction-quick/reproduction.md"),
        ("reproduction", "reproduction/reproduction.md"),
    ]
    assert [k["jobs"] for _, k in asked] == [min(os.cpu_count(), 12)] * 2 + [3]
    assert [a[0] for a, _ in asked] == [("kappa",), ("kappa",), reproduce.EXPERIMENTS]


def test_jobs_and_names_are_checked(tmp_path, data_dir, capsys):
    place = ("--quick", "--results", tmp_path / "r", "--data-dir", data_dir)
    assert call("kappa", "--jobs", 0, *place) == 1
    assert capsys.readouterr() == ("", "fighter: --jobs 0: needs at least 1\n")
    assert call("kappa", "--page", "page.txt", *place) == 1
    assert "page.txt cannot be written: its name must end in .md" in capsys.readouterr().err
    (tmp_path / "file").touch()
    assert call("kappa", "--quick", "--results", tmp_path / "file" / "r") == 1
    assert "is a file, not a folder" in capsys.readouterr().err
    for wrong in (["tabel1"], [], ["kappa", "--device", "gpu"]):
        with pytest.raises(SystemExit) as stopped:
            call(*wrong)
        assert stopped.value.code == 2
    assert not (tmp_path / "r").exists()


def test_a_gpu_that_is_not_there(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert call("kappa", "--device", "cuda", "--results", tmp_path / "r") == 1
    assert "--device cuda: torch finds no GPU here" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("what", "name"),
    [
        ("table1", "weather"),
        ("kappa", "weather"),
        ("heatmaps", "weather"),
        ("backward", "weather"),
        ("agnews", "agnews"),
        ("all", "agnews"),
    ],
)
def test_data_that_are_not_there_are_told_once_with_the_remedy(
    nothing, tmp_path, capsys, what, name
):
    assert (
        call(what, "--quick", "--jobs", 2, "--results", tmp_path / "r", "--data-dir", nothing) == 1
    )
    said, complaint = capsys.readouterr()
    assert said == ""  # before any run
    assert complaint.startswith(f"fighter: {name} was not found: looked for ")
    assert complaint.endswith(f"Fetch it with: fighter data fetch {name}\n")
    assert str(nothing) in complaint


def test_a_slice_of_electricity_is_refused(tmp_path, data_dir, capsys):
    pd.DataFrame(np.zeros((50, 3)), columns=[*"abc"]).to_csv(tmp_path / "few.csv", index=False)
    place = ("--quick", "--results", tmp_path / "r", "--data-dir", data_dir)
    assert call("table1", "--electricity", tmp_path / "few.csv", *place) == 1
    said, complaint = capsys.readouterr()
    assert said == ""
    assert "few.csv has 50 rows and 3 columns of numbers" in complaint
    assert "26,304 and 321" in complaint
    assert call("table1", "--electricity", tmp_path / "none.csv", *place) == 1
    assert "there is no file" in capsys.readouterr().err


def processes(group):
    """Of a process group, those that run."""
    listed = subprocess.run(
        ["ps", "-A", "-o", "pgid=,stat="], capture_output=True, text=True, check=True
    )
    pairs = [line.split() for line in listed.stdout.splitlines()]
    return [state for one, state in pairs if int(one) == group and not state.startswith("Z")]


@pytest.mark.usefixtures("usual_ctrl_c")
@pytest.mark.parametrize("seconds", [0.3, 4])  # workers load; they work
def test_ctrl_c_ends_everything_at_once(tmp_path, data_dir, seconds):
    arguments = ["kappa", "--quick", "--jobs", "2", "--results", tmp_path, "--data-dir", data_dir]
    run = subprocess.Popen(
        [sys.executable, "-m", "fighter", "reproduce", *map(str, arguments), "--device", "cpu"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"},
        start_new_session=True,
    )
    try:
        assert run.stdout.readline() == "7 runs, 0 of them done before\n"
        time.sleep(seconds)
        begin = time.monotonic()
        os.killpg(run.pid, signal.SIGINT)  # as a terminal does it
        _, complaint = run.communicate(timeout=60)
        assert time.monotonic() - begin < 10
        assert run.returncode in STOPPED
        assert complaint == "fighter: stopped\n"
        end = time.monotonic() + 10
        while processes(run.pid) and time.monotonic() < end:
            time.sleep(0.1)
        assert processes(run.pid) == []
    finally:
        with suppress(ProcessLookupError):
            os.killpg(run.pid, signal.SIGKILL)
    for path in (tmp_path / "runs").glob("[!.]*"):
        assert json.loads(path.read_text())["result"]
