"""`python -m paper reproduce`, as a user calls it."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from paper import commands
from paper.__main__ import main
from paper.reproduction import experiments, figures, quoted, table1
from paper.reproduction.page import ORDER
from paper.reproduction.scale import QUICK

ROOT = Path(__file__).resolve().parents[3]
TINY = replace(
    QUICK, epochs=1, width=8, kappas=(3,), rows=700, snapshots=(1,), text_kappas=(3,),
    text_epochs=1, articles=200, backward_steps=5,
)  # fmt: skip


@pytest.fixture
def tiny(monkeypatch):
    """Make --quick smaller still, with only those runs that claims are about."""
    kept = {*quoted.ACCURACY, "Fighter κ=3, as printed", *table1.NAIVE}
    rows = {label: row for label, row in table1.ROWS.items() if label in kept}
    monkeypatch.setattr(table1, "ROWS", rows)
    monkeypatch.delitem(table1.VARIANTS, "minmax")
    for module in (commands, experiments):
        monkeypatch.setattr(module, "QUICK", TINY)


@pytest.fixture
def no_data(tmp_path, monkeypatch):
    """Return a folder without data, on a machine without data."""
    for name in ("FIGHTER_DATA", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "cache"))
    return tmp_path / "no data"


def call(*arguments):
    return main(["reproduce", *map(str, arguments)])


@pytest.mark.slow
@pytest.mark.usefixtures("tiny")
def test_all_experiments_run_once_and_make_the_page(tmp_path, data_dir, capsys, monkeypatch):
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
    assert "1 epochs on 200 articles" in text
    assert "measured on 200 of the official test file of 7,600" in text
    pictures = re.findall(r"\((page/\w+\.png)\)", text)
    assert len(pictures) == 6
    assert all((page.parent / picture).is_file() for picture in pictures)

    monkeypatch.setattr(figures, "save_figure", lambda figure, path: None)  # to save time
    assert call(*command) == 0  # no run is made again
    again = capsys.readouterr().out
    assert again.startswith(f"{runs} runs, {runs} of them done before\n\n")
    assert again[again.index("\n\n") :] == said[said.index("\n\n") :]
    assert page.read_text() == text


def test_results_go_to_the_usual_folder_unless_one_is_given(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(commands, "run_experiments", lambda *a, **k: asked.append((a, k)) or "")
    monkeypatch.chdir(tmp_path)
    assert call("kappa") == call("kappa", "--quick") == 0
    assert call("all", "--quick", "--results", "reproduction", "--jobs", 3) == 0
    assert [(str(a[3]), str(a[4])) for a, _ in asked] == [
        ("reproduction", "reproduction/reproduction.md"),
        ("reproduction-quick", "reproduction-quick/reproduction.md"),
        ("reproduction", "reproduction/reproduction.md"),
    ]
    assert [k["jobs"] for _, k in asked] == [min(os.cpu_count(), 16)] * 2 + [3]
    assert [a[0] for a, _ in asked] == [("kappa",), ("kappa",), experiments.EXPERIMENTS]


def test_jobs_files_and_names_are_checked(tmp_path, data_dir, capsys):
    where = ("--quick", "--results", tmp_path / "r", "--data-dir", data_dir)
    assert call("kappa", "--jobs", 0, *where) == 1
    out, complaint = capsys.readouterr()
    assert (out, complaint[:14]) == ("", "paper: jobs=0:")
    assert call("kappa", "--page", "page.txt", *where) == 1
    assert ".md" in capsys.readouterr().err
    (tmp_path / "file").touch()
    assert call("kappa", "--quick", "--results", tmp_path / "file" / "r") == 1
    assert str(tmp_path / "file") in capsys.readouterr().err
    for wrong in (["tabel1"], [], ["kappa", "--device", "gpu"]):
        with pytest.raises(SystemExit) as stopped:
            call(*wrong)
        assert stopped.value.code == 2
    assert not (tmp_path / "r").exists()


def test_a_missing_gpu_is_reported(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert call("kappa", "--device", "cuda", "--results", tmp_path / "r") == 1
    assert re.search(r"device.*cuda.*torch finds no GPU", capsys.readouterr().err)


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
def test_missing_data_are_reported_before_any_run_with_the_remedy(
    no_data, tmp_path, capsys, what, name
):
    where = ("--results", tmp_path / "r", "--data-dir", no_data)
    assert call(what, "--quick", "--jobs", 2, *where) == 1
    said, complaint = capsys.readouterr()
    assert said == ""
    assert complaint.count("\n") == 1
    assert str(no_data) in complaint
    assert f"fighter data fetch {name}" in complaint


def test_a_part_of_electricity_is_refused(tmp_path, data_dir, capsys):
    pd.DataFrame(np.zeros((50, 3)), columns=[*"abc"]).to_csv(tmp_path / "few.csv", index=False)
    where = ("--quick", "--results", tmp_path / "r", "--data-dir", data_dir)
    assert call("table1", "--electricity", tmp_path / "few.csv", *where) == 1
    said, complaint = capsys.readouterr()
    assert said == ""
    assert complaint.startswith("paper: electricity=")
    assert "50 rows and 3 columns" in complaint
    assert "26,304 and 321" in complaint
    assert call("table1", "--electricity", tmp_path / "none.csv", *where) == 1
    assert "none.csv" in capsys.readouterr().err


def processes(group):
    """Return the states of the running processes of a group."""
    listed = subprocess.run(
        ["ps", "-A", "-o", "pgid=,stat="], capture_output=True, text=True, check=True
    )
    pairs = [line.split() for line in listed.stdout.splitlines()]
    return [state for one, state in pairs if int(one) == group and not state.startswith("Z")]


def start(what, folder, data_dir):
    """Start an experiment in worker processes, from the root of the checkout."""
    arguments = [what, "--quick", "--jobs", "2", "--results", folder, "--data-dir", data_dir]
    return subprocess.Popen(
        [sys.executable, "-m", "paper", "reproduce", *map(str, arguments), "--device", "cpu"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"},
        start_new_session=True,
    )


@pytest.mark.slow
@pytest.mark.usefixtures("usual_ctrl_c")
@pytest.mark.parametrize("seconds", [0.3, 4])  # workers are loading, or training
def test_ctrl_c_ends_all_processes_at_once(tmp_path, data_dir, seconds):
    run = start("kappa", tmp_path, data_dir)
    try:
        assert run.stdout.readline() == "7 runs, 0 of them done before\n"
        time.sleep(seconds)
        begin = time.monotonic()
        os.killpg(run.pid, signal.SIGINT)  # as a terminal does it
        _, complaint = run.communicate(timeout=60)
        assert time.monotonic() - begin < 10
        assert run.returncode == 130
        assert complaint == "paper: stopped\n"
        end = time.monotonic() + 10
        while processes(run.pid) and time.monotonic() < end:
            time.sleep(0.1)
        assert processes(run.pid) == []
    finally:
        with suppress(ProcessLookupError):
            os.killpg(run.pid, signal.SIGKILL)
    for path in (tmp_path / "runs").glob("[!.]*"):
        assert json.loads(path.read_text())["result"]


@pytest.mark.slow
def test_worker_processes_find_the_experiments(tmp_path, data_dir):
    run = start("backward", tmp_path, data_dir)
    try:
        out, complaint = run.communicate(timeout=280)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(run.pid, signal.SIGKILL)
    assert (run.returncode, complaint) == (0, "")
    assert "[1/1] " in out
    head = json.loads((tmp_path / "backward.json").read_text())["provenance"]
    assert head["command"].startswith("python -m paper reproduce backward --quick --jobs 2")
