"""A run that is killed at any moment resumes and ends as if it had never stopped."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from fighter._files import CHECKPOINT, METRICS
from fighter.errors import FighterError
from fighter.training import checkpoint as disk
from fighter.training import loop, remove_checkpoint

from .nets import network, recipe, same_weights, trained


class Killed(BaseException):
    """Stands for a kill: nothing that follows is executed."""


@pytest.fixture
def kill(monkeypatch):
    """Die while saving, without the clean-up that a killed process cannot do."""

    def at(moment: str, after: int = 0):
        calls = 0
        real = {"writing": disk.save_file, "flushing": os.fsync, "moving": Path.replace}[moment]

        def die(*args, **kwargs):
            nonlocal calls
            calls += 1
            if calls <= after:
                return real(*args, **kwargs)
            if moment == "writing":  # half a file
                real(*args, **kwargs)
                os.truncate(args[1], args[1].stat().st_size // 2)
            monkeypatch.setattr(Path, "unlink", lambda *_, **__: None)
            raise Killed

        owner = {"writing": disk, "flushing": os, "moving": Path}[moment]
        name = {"writing": "save_file", "flushing": "fsync", "moving": "replace"}[moment]
        monkeypatch.setattr(owner, name, die)

    yield at
    monkeypatch.undo()


MOMENTS = pytest.mark.parametrize("moment", ["writing", "flushing", "moving"])


@MOMENTS
def test_a_kill_while_saving_leaves_the_old_checkpoint(tmp_path, kill, moment, monkeypatch):
    path = tmp_path / CHECKPOINT
    disk.save({"x": torch.zeros(1000)}, {"epoch": 1}, path)
    kill(moment)
    with pytest.raises(Killed):
        disk.save({"x": torch.ones(1000)}, {"epoch": 2}, path)
    monkeypatch.undo()
    tensors, state = disk.load(path)
    assert (state["epoch"], tensors["x"].sum()) == (1, 0)
    disk.save({"x": torch.ones(1000)}, {"epoch": 3}, path)
    assert disk.load(path)[1] == {"epoch": 3}
    assert [p.name for p in tmp_path.iterdir()] == [
        CHECKPOINT
    ]  # nothing is left of the killed writer
    disk.remove(path)
    assert not list(tmp_path.iterdir())


@MOMENTS
@pytest.mark.parametrize("after", [0, 2])
def test_a_run_killed_while_saving_resumes(tmp_path, kill, moment, after, monkeypatch):
    whole, expected = trained()
    kill(moment, after)
    with pytest.raises(Killed):
        trained(folder=tmp_path)
    monkeypatch.undo()
    assert disk.load(tmp_path / CHECKPOINT)[1]["epoch"] == after if after else True
    resumed, history = trained(net=network(seed=9), folder=tmp_path) if after else trained()
    assert same_weights(resumed, whole)
    assert history == expected


@pytest.mark.parametrize("lost", ["log", "result"])
def test_a_run_killed_after_saving_resumes(tmp_path, monkeypatch, lost):
    """Killed before an epoch was logged, or after the last epoch, before the model was saved."""
    steps = recipe(epochs=6, patience=2, lr=0.05, ema=0.9)  # so that patience matters
    whole, expected = trained(steps=steps)

    def die(*_, **__):
        raise Killed

    if lost == "log":
        monkeypatch.setattr(loop.MetricLog, "write", die)
        with pytest.raises(Killed):
            trained(steps=steps, folder=tmp_path)
        monkeypatch.undo()
    else:
        trained(steps=steps, folder=tmp_path)
    resumed, history = trained(net=network(seed=9), steps=steps, folder=tmp_path)
    assert same_weights(resumed, whole)
    assert history == expected
    lines = (tmp_path / METRICS).read_text().splitlines()
    assert [json.loads(line) for line in lines] == expected


def test_a_checkpoint_keeps_infinity(tmp_path):
    disk.save({"w": torch.zeros(1)}, {"best_score": math.inf}, tmp_path / CHECKPOINT)
    assert disk.load(tmp_path / CHECKPOINT)[1]["best_score"] == math.inf


def test_a_damaged_checkpoint_is_refused(tmp_path):
    (tmp_path / CHECKPOINT).write_bytes(b"nonsense")
    with pytest.raises(FighterError, match="is not a checkpoint that can be read"):
        trained(folder=tmp_path)


@pytest.mark.parametrize(
    ("other", "what"),
    [
        ({"steps": recipe(lr=0.002)}, "other settings"),
        ({"settings": "width=32"}, "other settings"),
        ({"rows": 61}, "other data"),
        ({"missing": True}, "other data"),
    ],
)
def test_a_checkpoint_of_another_run_is_refused(tmp_path, other, what):
    trained(folder=tmp_path)
    with pytest.raises(FighterError, match=f"run with {what}"):
        trained(folder=tmp_path, **other)


SCRIPT = """
import sys, torch
torch.set_num_threads(1)
sys.path.insert(0, sys.argv[1])
from tests.training.test_checkpoint import long_run
long_run(sys.argv[2])
"""


def long_run(folder=None):
    return trained(steps=recipe(epochs=60, ema=0.99), folder=Path(folder) if folder else None)


@pytest.mark.slow
def test_kill_9_and_resume(tmp_path):
    root = Path(__file__).parents[2]
    metrics = tmp_path / METRICS
    environment = {**os.environ, "PYTHONPATH": str(root / "src")}
    process = subprocess.Popen([sys.executable, "-c", SCRIPT, root, tmp_path], env=environment)
    try:
        deadline = time.monotonic() + 120
        while not metrics.exists() or metrics.read_text().count("\n") < 5:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.002)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert process.returncode == -signal.SIGKILL
    done = disk.load(tmp_path / CHECKPOINT)[1]["epoch"]
    assert 5 <= done < 60
    resumed, history = long_run(tmp_path)
    whole, expected = long_run()
    assert same_weights(resumed, whole)
    assert history == expected
    remove_checkpoint(tmp_path)
    assert not (tmp_path / CHECKPOINT).exists()
