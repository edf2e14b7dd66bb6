"""A run that is killed at any moment resumes and ends as if it had never stopped."""

import json
import math
import os
import resource
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
from fighter.training import loop

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
    assert [p.name for p in tmp_path.iterdir()] == [CHECKPOINT]


@MOMENTS
@pytest.mark.parametrize("after", [0, 2])
def test_a_run_killed_while_saving_resumes(tmp_path, kill, moment, after, monkeypatch):
    whole, expected = trained()
    kill(moment, 2 * after if moment == "flushing" else after)  # the file, then its folder
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
    disk.save({}, {"best_score": math.inf}, tmp_path / CHECKPOINT)
    assert disk.load(tmp_path / CHECKPOINT)[1]["best_score"] == math.inf


def test_a_damaged_checkpoint_is_refused(tmp_path):
    (tmp_path / CHECKPOINT).write_bytes(b"nonsense")
    with pytest.raises(FighterError, match="is not a checkpoint that can be read"):
        trained(folder=tmp_path)


def stopped(folder, **options):
    """Train two of four epochs and leave the checkpoint of a killed run."""

    def stop(record):
        if record["epoch"] == 3:
            raise Killed

    with pytest.raises(Killed):
        trained(folder=folder, on_epoch=stop, **options)
    return disk.load(folder / CHECKPOINT)


@pytest.mark.parametrize(
    "name",
    ["optimiser/0/exp_avg_sq", "optimiser/1/exp_avg", "optimiser/0/step", "best/cycle.profile"],
)
@pytest.mark.parametrize("damage", ["short", "long", "scalar", "dtype", "absent", "renamed"])
def test_a_checkpoint_with_other_tensors_is_refused(tmp_path, name, damage):
    """The fused optimiser would read and write beyond tensors that are too small."""
    tensors, state = stopped(tmp_path)
    tensor = tensors.pop(name)
    changed = {
        "short": {name: tensor.flatten()[:0]},
        "long": {name: tensor.repeat(2, *[1] * tensor.ndim)},
        "scalar": {name: torch.ones(1)},
        "dtype": {name: tensor.half()},
        "absent": {},
        "renamed": {name.replace("0", "99").replace("1", "-1") + "x": tensor},
    }[damage]
    disk.save({**tensors, **changed}, state, tmp_path / CHECKPOINT)
    net = network(seed=9)
    before = {k: v.clone() for k, v in net.state_dict().items()}
    with pytest.raises(FighterError, match="to start again"):
        trained(net=net, folder=tmp_path)
    assert all(torch.equal(v, before[k]) for k, v in net.state_dict().items())


NAN = math.nan


@pytest.mark.parametrize(
    "change",
    [
        {"optimiser": None}, {"network": 3}, {"save": None}, {"epoch": "2"}, {"epoch": True},
        {"epoch": 10**9}, {"epoch": 0}, {"epoch": -1}, {"step": 7}, {"step": None},
        {"since_best": -1}, {"since_best": 9}, {"best_score": "low"}, {"best_score": NAN},
        {"history": []}, {"history": {}}, {"history": [1, 2]}, {"history": [{}, {}]},
        {"identity": None}, {"identity": []}, {"identity": {}},
    ],
)  # fmt: skip
def test_a_checkpoint_with_other_counters_is_refused(tmp_path, change):
    tensors, state = stopped(tmp_path)
    disk.save(tensors, {**state, **change}, tmp_path / CHECKPOINT)
    with pytest.raises(FighterError, match="to start again"):
        trained(net=network(seed=9), folder=tmp_path)


@pytest.mark.parametrize("name", ["step", "history", "identity"])
def test_a_checkpoint_without_a_counter_is_refused(tmp_path, name):
    tensors, state = stopped(tmp_path)
    del state[name]
    disk.save(tensors, state, tmp_path / CHECKPOINT)
    with pytest.raises(FighterError, match="to start again"):
        trained(net=network(seed=9), folder=tmp_path)


@pytest.mark.parametrize("text", ["[]", "3", "null", "{", "[" * 100_000, ""])
def test_a_checkpoint_whose_state_is_no_object_is_refused(tmp_path, text):
    disk.write_tensors({"x": torch.ones(2)}, "state", text, tmp_path / CHECKPOINT)
    with pytest.raises(FighterError, match="to start again"):
        trained(folder=tmp_path)


def test_one_changed_bit_of_a_checkpoint_is_noticed(tmp_path):
    stopped(tmp_path)
    path = tmp_path / CHECKPOINT
    whole = path.read_bytes()
    draw = torch.Generator().manual_seed(0)
    for place in torch.randint(8, 8 * len(whole), (60,), generator=draw).tolist():
        byte, bit = divmod(place, 8)
        path.write_bytes(whole[:byte] + bytes([whole[byte] ^ 1 << bit]) + whole[byte + 1 :])
        with pytest.raises(FighterError):
            disk.load(path)


@pytest.mark.parametrize("damage", ["none", "settings", "bit"])
def test_overwriting_resumes_a_checkpoint_only_if_it_fits(tmp_path, damage):
    stopped(tmp_path, settings="another" if damage == "settings" else "")
    if damage == "bit":
        with (tmp_path / CHECKPOINT).open("rb+") as file:
            file.seek(-3, os.SEEK_END)
            file.write(b"!")
    epochs = []
    net, history = trained(
        folder=tmp_path, overwrite=True, on_epoch=lambda record: epochs.append(record["epoch"])
    )
    assert epochs == ([3, 4] if damage == "none" else [1, 2, 3, 4])
    whole, expected = trained()
    assert same_weights(net, whole)
    assert history == expected


def test_a_resumed_run_says_so(tmp_path, capsys):
    stopped(tmp_path)
    trained(folder=tmp_path, verbose=True)
    assert capsys.readouterr().err.splitlines()[0] == "resuming after epoch 2 of at most 4"


def test_files_have_the_mode_of_the_umask(tmp_path):
    old = os.umask(0o027)
    try:
        disk.save({"x": torch.ones(2)}, {}, tmp_path / CHECKPOINT)
    finally:
        os.umask(old)
    assert (tmp_path / CHECKPOINT).stat().st_mode & 0o777 == 0o640


def test_a_full_disk_is_a_system_error_that_names_the_file(tmp_path):
    """Files of this process are limited in size; safetensors reports that in its own way."""
    disk.save({"x": torch.ones(2)}, {"epoch": 1}, tmp_path / CHECKPOINT)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with pytest.raises(OSError, match="large") as error:
            disk.save({"x": torch.ones(100_000)}, {"epoch": 2}, tmp_path / CHECKPOINT)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert error.value.filename == str(tmp_path / CHECKPOINT)
    assert disk.load(tmp_path / CHECKPOINT)[1] == {"epoch": 1}
    assert [path.name for path in tmp_path.iterdir()] == [CHECKPOINT]


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
