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

from fighter.benchmark.provenance import commit
from fighter.benchmark.runs import Environment, Run, perform
from fighter.errors import FighterError
from tests.benchmark.kinds import calls, run

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
    """Runs in a process of their own, of which nothing is left when the test is over."""
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
    """Those that run; one that has ended and waits to be collected does not."""
    listed = subprocess.run(
        ["ps", "-o", "pid=,stat=", "-p", ",".join(map(str, processes))],
        capture_output=True,
        text=True,
        check=False,  # 1 when there are none
    )
    pairs = [line.split() for line in listed.stdout.splitlines()]
    return {int(process) for process, state in pairs if not state.startswith("Z")}


# ---- keys -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [{"data": "b"}, {"seed": 1}, {"path": "x"}, {"more": 0}, {"options": {"x": 1, "y": [2, 1]}}],
)
def test_a_key_depends_on_every_setting(change):
    assert Run("kind", {**SETTINGS, **change}).key != Run("kind", SETTINGS).key


def test_a_key_depends_on_settings_and_kind_alone():
    key = Run("kind", SETTINGS, {"model": "a"}).key
    backwards = {k: SETTINGS[k] for k in reversed(SETTINGS)}
    backwards["options"] = {"y": (1, 2), "x": 1}  # JSON has no tuples
    assert Run("kind", backwards, {"model": "b", "seed": 3}).key == key
    assert Run("other", SETTINGS).key != key
    assert len(key) == 16


def test_a_label_is_the_tags():
    assert Run("kind", SETTINGS, {"model": "a", "seed": 3}).label == "model a, seed 3"


# ---- one by one -------------------------------------------------------------------------


def test_a_run_is_made_once(folder, log):
    said = []
    first = perform([run(1, log), run(2, log), run(1, log)], folder, Environment(), say=said.append)
    assert [number for number, _ in calls(log)] == [1, 2]  # the third is the first
    again = perform(
        [run(3, log), run(2, log)], folder, Environment("elsewhere", "cuda"), say=said.append
    )
    assert [number for number, _ in calls(log)] == [1, 2, 3]
    assert [record["result"]["square"] for record in first + again] == [1, 4, 1, 9, 4]
    assert said[0] == "2 runs, 0 of them done before"
    assert said[3] == "2 runs, 1 of them done before"
    assert said[4] == "[2/2] number 3: 0 s"


@pytest.mark.parametrize("jobs", [1, 2])
def test_threads_do_not_depend_on_the_jobs(folder, log, jobs):
    """Sums of two threads are not those of one: the same cell would have two results."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        asked = [run(i, log, do="count threads") for i in range(2)]
        records = perform(asked, folder, Environment(), jobs=jobs)
        assert [record["result"] for record in records] == [{"threads": 1}] * 2
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_a_record_tells_where_it_comes_from(folder, log, monkeypatch):
    monkeypatch.setenv("FIGHTER_COMMIT", "abc")
    asked = Run("counting", run(5, log).settings, {"model": "a", "seed": 1})
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
    assert "model" not in json.loads(path.read_text())  # a record serves whatever it stands for


def test_tags_are_those_of_who_asks(folder, log):
    settings = run(5, log).settings
    perform([Run("counting", settings, {"model": "a"})], folder, Environment())
    (record,) = perform([Run("counting", settings, {"kappa": 3})], folder, Environment())
    assert record["kappa"] == 3
    assert "model" not in record


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_failure_does_not_stop_the_others(folder, log, jobs):
    said = []
    runs = [run(1, log, "fail"), run(2, log, "break"), run(3, log)]
    with pytest.raises(
        FighterError, match=r"2 of 3 runs failed, the others are kept; the first: number"
    ):
        perform(runs, folder, Environment(), jobs=jobs, say=said.append)
    lines = {line.split("] ")[-1] for line in said[1:]}
    assert "number 1: cannot do that" in lines
    assert any(line.startswith("number 2: UnicodeDecodeError: 'utf-8' codec") for line in lines)
    assert [path.stem for path in folder.iterdir()] == [runs[2].key]


def test_a_kind_that_is_not_there_is_a_failure(folder):
    with pytest.raises(FighterError, match=r"1 of 1 runs failed.*a b: ModuleNotFoundError"):
        perform([Run("nothing", {}, {"a": "b"})], folder, Environment())


def test_a_record_that_cannot_be_written_is_a_failure(folder, log, monkeypatch):
    def full(path):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("fighter.benchmark.runs.whole_file", full)
    with pytest.raises(FighterError, match=r"1 of 1 runs failed.*No space left on device"):
        perform([run(1, log)], folder, Environment())


def test_a_damaged_record_is_named_before_anything_is_made(folder, log):
    perform([run(1, log)], folder, Environment())
    (path,) = folder.iterdir()
    path.write_text(path.read_text()[:-10])
    with pytest.raises(FighterError, match=rf"{path} is damaged: remove it"):
        perform([run(2, log), run(1, log)], folder, Environment())
    assert [number for number, _ in calls(log)] == [1]
    path.unlink()
    perform([run(2, log), run(1, log)], folder, Environment())
    assert [number for number, _ in calls(log)] == [1, 2, 1]


def test_jobs_are_checked(folder, log):
    with pytest.raises(FighterError, match="jobs=0: needs at least 1"):
        perform([run(1, log)], folder, Environment(), jobs=0)


def test_code_within_another_repository_is_not_that_one(tmp_path, monkeypatch):
    monkeypatch.delenv("FIGHTER_COMMIT", raising=False)
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    monkeypatch.setattr("fighter.benchmark.provenance.__file__", str(tmp_path / "provenance.py"))
    assert commit().startswith("version ")


# ---- several at a time ------------------------------------------------------------------


def test_two_at_a_time_give_the_same_as_one(tmp_path, log):
    runs = [run(i, log, seconds=0.2) for i in range(4)]
    one = perform(runs, tmp_path / "one", Environment())
    two = perform(runs, tmp_path / "two", Environment(), jobs=2)
    for record in one + two:
        record.pop("seconds")
    assert one == two
    processes = [process for _, process in calls(log)]
    assert {*processes[:4]} == {os.getpid()}
    assert os.getpid() not in processes[4:]
    assert not alive(*processes[4:])  # nobody stays behind


def test_a_worker_that_is_killed_is_explained_and_the_rest_kept(folder, log):
    runs = [run(1, log), run(2, log), run(3, log, "die", seconds=0.5)]
    with pytest.raises(
        FighterError, match=r"a process was killed, perhaps for want of memory.*jobs=2"
    ):
        perform(runs, folder, Environment(), jobs=2)
    assert {path.stem for path in folder.iterdir()} == {run.key for run in runs[:2]}


def test_who_stops_listening_stops_the_workers(folder, log):
    def stop(line):
        if line.startswith("["):
            raise BrokenPipeError

    begin = time.monotonic()
    runs = [run(i, log, seconds=0 if i == 0 else 60) for i in range(6)]
    with pytest.raises(BrokenPipeError):
        perform(runs, folder, Environment(), jobs=2, say=stop)
    assert time.monotonic() - begin < 30
    assert len(calls(log)) <= 3  # nor are the others begun
    assert not alive(*(process for _, process in calls(log)))


def test_after_a_kill_only_the_rest_is_made(start, folder, log):
    parent = start(jobs=2, count=8, seconds=0.5)
    wait_for(lambda: folder.exists() and len([*folder.iterdir()]) >= 2)
    parent.kill()
    parent.wait()
    # They do not go on without their parent; one may have begun since.
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


def test_workers_that_wait_for_work_end_with_their_parent(start, folder, log):
    """And those whose run is long: nothing is left to train for nobody."""
    parent = start(jobs=2, count=2, seconds=100)
    wait_for(lambda: len(calls(log)) == 2)
    parent.kill()
    parent.wait()
    wait_for(lambda: not alive(*(process for _, process in calls(log))), 10)
    assert not [*folder.iterdir()]


def test_how_long_it_will_take_is_told(folder, log, monkeypatch):
    clock = iter(range(0, 10**6, 60))  # a minute goes by whenever somebody looks
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    said = []
    perform([run(i, log) for i in range(4)], folder, Environment(), say=said.append)
    endings = [line.partition("; ")[2] for line in said[1:]]
    assert endings == ["about 9 min to go", "about 6 min to go", "about 3 min to go", ""]
