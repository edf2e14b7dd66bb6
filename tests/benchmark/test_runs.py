"""Runs are performed once, several at a time, and survive failures and kills."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
import torch

from fighter.benchmark.provenance import commit, provenance
from fighter.benchmark.runs import Environment, Run, add_rows, perform, read_results
from fighter.errors import FighterError
from tests.benchmark.kinds import KIND, calls, run

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = {"data": "a", "options": {"x": 1, "y": [1, 2]}, "seed": 0, "path": None}


@pytest.fixture
def log(tmp_path):
    return tmp_path / "log"


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "runs"


@pytest.fixture
def start(folder, log):
    """Start runs in a process of their own, and kill what is left of it after the test."""
    started = []

    def begin(jobs, count, seconds):
        arguments = map(str, (folder, log, jobs, count, seconds))
        path = os.pathsep.join(filter(None, sys.path))
        started.append(
            subprocess.Popen(
                [sys.executable, "-m", "tests.benchmark.kinds", *arguments],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": path},
                start_new_session=True,
            )
        )
        return started[-1]

    yield begin
    for process in started:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def wait_for(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.02)


def alive(*processes):
    """Return the processes that still run; zombies do not count."""
    listed = subprocess.run(
        ["ps", "-o", "pid=,stat=", "-p", ",".join(map(str, processes))],
        capture_output=True,
        text=True,
        check=False,  # the exit code is 1 without any
    )
    pairs = [line.split() for line in listed.stdout.splitlines()]
    return {int(process) for process, state in pairs if not state.startswith("Z")}


# ---- keys and records -------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [{"data": "b"}, {"seed": 1}, {"path": "x"}, {"more": 0}, {"options": {"x": 1, "y": [2, 1]}}],
)
def test_key_depends_on_every_setting(change):
    assert Run("kind", {**SETTINGS, **change}).key != Run("kind", SETTINGS).key


def test_key_depends_on_kind_and_settings_only():
    key = Run("kind", SETTINGS, {"model": "a"}).key
    backwards = {k: SETTINGS[k] for k in reversed(SETTINGS)}
    backwards["options"] = {"y": (1, 2), "x": 1}  # JSON has no tuples
    assert Run("kind", backwards, {"model": "b", "seed": 3}).key == key
    assert Run("other", SETTINGS).key != key
    assert len(key) == 16


def test_label_lists_the_tags():
    assert Run("kind", SETTINGS, {"model": "a", "seed": 3}).label == "model a, seed 3"


def test_record_holds_tags_settings_commit_and_result(folder, log, monkeypatch):
    monkeypatch.setenv("FIGHTER_COMMIT", "abc")
    asked = Run(KIND, run(5, log).settings, {"model": "a", "seed": 1})
    (record,) = perform([asked], folder, Environment())
    assert record == {
        "model": "a",
        "seed": 1,
        "settings": asked.settings,
        "commit": "abc",
        "seconds": record["seconds"],
        "result": {"square": 25},
    }
    (path,) = folder.iterdir()
    assert path.name == f"{asked.key}.json"
    assert "model" not in json.loads(path.read_text())  # tags belong to the caller


def test_tags_come_from_the_caller(folder, log):
    settings = run(5, log).settings
    perform([Run(KIND, settings, {"model": "a"})], folder, Environment())
    (record,) = perform([Run(KIND, settings, {"kappa": 3})], folder, Environment())
    assert record["kappa"] == 3
    assert "model" not in record


def test_new_rows_replace_those_of_the_same_cell(tmp_path):
    path = tmp_path / "rows.json"
    for rows in ([{"a": 1, "b": 1}, {"a": 2, "b": 1}], [{"a": 2, "b": 2}, {"a": 3, "b": 2}]):
        add_rows(path, {"provenance": {}}, rows, lambda row: row["a"])
    assert [row["b"] for row in read_results(path)["rows"]] == [1, 2, 2]


@pytest.mark.parametrize("text", ["{", "[]", '{"rows": []}'])
def test_damaged_results_file_is_named(tmp_path, text):
    path = tmp_path / "rows.json"
    path.write_text(text)
    with pytest.raises(FighterError, match=rf"{path} is damaged"):
        read_results(path)


def test_provenance_has_the_command_line(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["fighter", "leaderboard", "my load.csv"])
    assert provenance("fighter", "cpu")["command"] == "fighter leaderboard 'my load.csv'"
    made = provenance("python -m paper study small", "cpu", ["--jobs", "2"])
    assert made["command"] == "python -m paper study small --jobs 2"


def test_commit_is_not_that_of_a_surrounding_repository(tmp_path, monkeypatch):
    monkeypatch.delenv("FIGHTER_COMMIT", raising=False)
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    monkeypatch.setattr("fighter.benchmark.provenance.__file__", str(tmp_path / "provenance.py"))
    assert commit().startswith("version ")


# ---- one by one -------------------------------------------------------------------------


def test_run_is_performed_once(folder, log):
    said = []
    first = perform([run(1, log), run(2, log), run(1, log)], folder, Environment(), say=said.append)
    assert [number for number, _ in calls(log)] == [1, 2]  # the third equals the first
    again = perform(
        [run(3, log), run(2, log)], folder, Environment("elsewhere", "cuda"), say=said.append
    )
    assert [number for number, _ in calls(log)] == [1, 2, 3]
    assert [record["result"]["square"] for record in first + again] == [1, 4, 1, 9, 4]
    assert said[0] == "2 runs, 0 of them done before"
    assert said[3] == "2 runs, 1 of them done before"
    assert said[4] == "[2/2] number 3: 0 s"


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_every_run_has_one_thread(folder, log, jobs):
    """Sums over two threads differ from those over one: a cell would have two results."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        asked = [run(i, log, do="count threads") for i in range(2)]
        records = perform(asked, folder, Environment(), jobs=jobs)
        assert [record["result"] for record in records] == [{"threads": 1}] * 2
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_failure_does_not_stop_the_other_runs(folder, log, jobs):
    said = []
    runs = [run(1, log, "fail"), run(2, log, "break"), run(3, log)]
    with pytest.raises(FighterError, match=r"2 of 3 runs failed, the others are kept.*number"):
        perform(runs, folder, Environment(), jobs=jobs, say=said.append)
    lines = {line.split("] ")[-1] for line in said[1:]}
    assert "number 1: cannot do that" in lines
    assert any(line.startswith("number 2: UnicodeDecodeError: 'utf-8' codec") for line in lines)
    assert [path.stem for path in folder.iterdir()] == [runs[2].key]


def test_unknown_kind_is_a_failure(folder):
    with pytest.raises(FighterError, match=r"1 of 1 runs failed.*a b: ModuleNotFoundError"):
        perform([Run("nothing", {}, {"a": "b"})], folder, Environment())


def test_record_that_cannot_be_written_is_a_failure(folder, log, monkeypatch):
    def full(path):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("fighter.benchmark.runs.atomic_write", full)
    with pytest.raises(FighterError, match=r"1 of 1 runs failed.*No space left on device"):
        perform([run(1, log)], folder, Environment())


def test_damaged_record_is_named_before_any_training(folder, log):
    perform([run(1, log)], folder, Environment())
    (path,) = folder.iterdir()
    path.write_text(path.read_text()[:-10])
    with pytest.raises(FighterError, match=rf"{path} is damaged"):
        perform([run(2, log), run(1, log)], folder, Environment())
    assert [number for number, _ in calls(log)] == [1]
    path.unlink()
    perform([run(2, log), run(1, log)], folder, Environment())
    assert [number for number, _ in calls(log)] == [1, 2, 1]


def test_number_of_jobs_is_checked(folder, log):
    with pytest.raises(FighterError) as error:
        perform([run(1, log)], folder, Environment(), jobs=0)
    assert (error.value.argument, error.value.value) == ("jobs", 0)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_missing_gpu_is_reported():
    with pytest.raises(FighterError) as error:
        Environment.here(None, "cuda")
    assert error.value.argument == "device"
    assert Environment.here(None, None).device == "cpu"


def test_remaining_time_is_estimated(folder, log, monkeypatch):
    clock = iter(range(0, 10**6, 60))  # a minute passes with every look at the clock
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    said = []
    perform([run(i, log) for i in range(4)], folder, Environment(), say=said.append)
    endings = [line.partition("; ")[2] for line in said[1:]]
    assert endings == ["about 9 min to go", "about 6 min to go", "about 3 min to go", ""]


# ---- several at a time ------------------------------------------------------------------


@pytest.mark.slow
def test_two_at_a_time_give_the_same_results_as_one(tmp_path, log):
    runs = [run(i, log, seconds=0.2) for i in range(4)]
    one = perform(runs, tmp_path / "one", Environment())
    two = perform(runs, tmp_path / "two", Environment(), jobs=2)
    for record in one + two:
        record.pop("seconds")
    assert one == two
    processes = [process for _, process in calls(log)]
    assert {*processes[:4]} == {os.getpid()}
    assert os.getpid() not in processes[4:]
    assert not alive(*processes[4:])


@pytest.mark.slow
def test_killed_worker_is_explained_and_finished_runs_are_kept(folder, log):
    runs = [run(1, log), run(2, log), run(3, log, "die", seconds=3.0)]
    with pytest.raises(FighterError, match="killed") as error:
        perform(runs, folder, Environment(), jobs=2)
    assert (error.value.argument, error.value.value) == ("jobs", 2)
    assert {path.stem for path in folder.iterdir()} == {run.key for run in runs[:2]}


@pytest.mark.slow
def test_workers_stop_when_the_caller_stops_listening(folder, log):
    def stop(line):
        if line.startswith("["):
            raise BrokenPipeError

    begin = time.monotonic()
    runs = [run(i, log, seconds=0 if i == 0 else 60) for i in range(6)]
    with pytest.raises(BrokenPipeError):
        perform(runs, folder, Environment(), jobs=2, say=stop)
    assert time.monotonic() - begin < 30
    assert len(calls(log)) <= 3  # the others are not started
    assert not alive(*(process for _, process in calls(log)))


@pytest.mark.slow
def test_only_unfinished_runs_are_performed_after_a_kill(start, folder, log):
    parent = start(jobs=2, count=8, seconds=0.5)
    wait_for(lambda: folder.exists() and len([*folder.iterdir()]) >= 2)
    parent.kill()
    parent.wait()
    # Workers exit without their parent; one may have begun a run since.
    wait_for(lambda: not alive(*{process for _, process in calls(log)}), 10)
    kept = [path for path in folder.iterdir() if not path.name.startswith(".")]
    assert 2 <= len(kept) < 8
    for path in kept:
        assert json.loads(path.read_text())["result"]
    begun = len(calls(log))
    assert begun <= len(kept) + 2
    said = []
    runs = [run(i, log, seconds=0.5) for i in range(8)]
    records = perform(runs, folder, Environment(), say=said.append)
    assert said[0] == f"8 runs, {len(kept)} of them done before"
    made = [number for number, _ in calls(log)[begun:]]
    assert len(made) == 8 - len(kept)
    assert not {runs[number].key for number in made} & {path.stem for path in kept}
    assert [record["result"]["square"] for record in records] == [i**2 for i in range(8)]


@pytest.mark.slow
def test_idle_and_busy_workers_exit_with_their_parent(start, folder, log):
    parent = start(jobs=2, count=2, seconds=100)
    wait_for(lambda: len(calls(log)) == 2)
    parent.kill()
    parent.wait()
    wait_for(lambda: not alive(*(process for _, process in calls(log))), 10)
    assert not [*folder.iterdir()]
