import errno
import hashlib
import os
import subprocess
import sys
import tempfile

import pytest
import torch
from safetensors.torch import save

from fighter._files import (
    CHECKPOINT,
    CONFIG,
    LOCK,
    METRICS,
    WEIGHTS,
    atomic_write,
    check_folder,
    check_target,
    file_sha256,
    own_folder,
    part_path,
)
from fighter._storage import save_folder
from fighter.errors import FighterError
from fighter.training import checkpoint as disk


@pytest.mark.parametrize("durable", [False, True])
def test_a_file_appears_only_after_success(tmp_path, durable):
    path = tmp_path / "new" / "table.csv.gz"
    with atomic_write(path, durable=durable) as temporary:
        temporary.write_text("whole")
        assert not path.exists()
        assert temporary.parent == path.parent
    assert path.read_text() == "whole"

    def fail():
        with atomic_write(path, durable=durable) as temporary:
            temporary.write_text("half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert [file.read_text() for file in path.parent.iterdir()] == ["whole"]


def test_a_temporary_file_keeps_the_suffix_and_is_hidden(tmp_path):
    with atomic_write(str(tmp_path / "table.csv.gz")) as temporary:
        assert temporary.name == f".{os.getpid()}.table.csv.gz"
        temporary.touch()


def test_a_durable_file_is_flushed_before_its_rename_and_its_folder_after(tmp_path, monkeypatch):
    flushed = []
    monkeypatch.setattr(os, "fsync", lambda _: flushed.append((tmp_path / CHECKPOINT).exists()))
    with atomic_write(tmp_path / CHECKPOINT, durable=True) as temporary:
        assert temporary == part_path(tmp_path / CHECKPOINT)
        assert temporary.name == f".checkpoint.safetensors.{os.getpid()}.part"
        temporary.touch()
    assert flushed == [False, True]
    with atomic_write(tmp_path / CHECKPOINT) as temporary:
        temporary.touch()
    assert len(flushed) == 2


@pytest.mark.parametrize("durable", [False, True])
def test_an_error_names_the_file_and_not_its_temporary(tmp_path, durable):
    def fail():
        with atomic_write(tmp_path / "f.csv", durable=durable) as temporary:
            temporary.mkdir()
            temporary.write_text("cannot be done")

    with pytest.raises(IsADirectoryError) as error:
        fail()
    assert error.value.filename == str(tmp_path / "f.csv")


def test_a_folder_that_refuses_new_files_is_found_before_work(tmp_path, monkeypatch):
    def full(**_):
        raise OSError(errno.EPERM, "not here")

    check_target(tmp_path / "f.csv", (".csv",))
    (tmp_path / "there.csv").touch()
    assert contents(tmp_path) == {"there.csv": b""}
    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    for name in ("f.csv", "there.csv", "deep/er/f.csv"):
        with pytest.raises(FighterError):
            check_target(tmp_path / name, (".csv",))


# ---- folders of models and training runs -----------------------------------------------------

OURS = {
    METRICS: b'{"epoch": 1, "loss": 1.0, "validation": null, "best": null, "lr": 0.1}\n',
    CONFIG: b'{"format": 1, "settings": {}}',
    WEIGHTS: save({}, {"config": "{}"}),
    CHECKPOINT: save({}, {"state": "{}"}),
}
FOREIGN = {
    METRICS: [b'{"epoch": 1, "accuracy": 0.5}\n', b"not json\n", b"[1]\n"],
    CONFIG: [b'{"precious": true}', b"[]", b"", b"[" * 100_000, b"\xff"],
    WEIGHTS: [b"", b"precious", save({"w": torch.ones(3)}), save({}, {"format": "pt"})],
    CHECKPOINT: [b"", b"precious", save({"w": torch.ones(3)})],
}


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("name", OURS)
def test_folders_of_fighter_are_recognised(tmp_path, name):
    check_folder(tmp_path / "absent")
    check_folder(tmp_path)
    (tmp_path / name).write_bytes(OURS[name])
    check_folder(tmp_path)
    (tmp_path / "notes.txt").write_text("beside it")
    check_folder(tmp_path)


@pytest.mark.parametrize(("name", "content"), [(n, c) for n in FOREIGN for c in FOREIGN[n]])
def test_foreign_folders_are_refused_and_left_alone(tmp_path, name, content):
    for beside in ({}, {n: c for n, c in OURS.items() if n != name}):
        for other, text in {**beside, name: content}.items():
            (tmp_path / other).write_bytes(text)
        before = contents(tmp_path)
        with pytest.raises(FighterError), own_folder(tmp_path):
            pass
        assert contents(tmp_path) == before


def test_other_files_and_no_folder_are_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("precious")
    for path in (tmp_path, tmp_path / "notes.txt"):
        with pytest.raises(FighterError):
            check_folder(path)


def test_one_process_holds_a_folder_and_cleans_it(tmp_path):
    folder = tmp_path / "run"
    with own_folder(folder):
        assert [path.name for path in folder.iterdir()] == [LOCK]
        with pytest.raises(FighterError, match="another process"), own_folder(folder):
            pass
        (folder / METRICS).touch()
    assert contents(folder) == {METRICS: b""}
    for left in (LOCK, f".{WEIGHTS}.123.part", f".{CHECKPOINT}.part", ".other.part"):
        (folder / left).touch()
    with own_folder(folder):
        assert set(contents(folder)) == {METRICS, LOCK, ".other.part"}
    with own_folder(tmp_path / "empty"):
        pass
    assert not (tmp_path / "empty").exists()


def test_processes_of_torchrun_are_told_the_flag(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    refused = pytest.raises(FighterError, match="--distributed")
    with own_folder(tmp_path), refused, own_folder(tmp_path):
        pass


@pytest.mark.slow
def test_a_lock_ends_with_its_process(tmp_path):
    script = "import sys, time; from fighter._files import own_folder; from pathlib import Path\n"
    script += "with own_folder(Path(sys.argv[1])): print('held', flush=True); time.sleep(600)"
    process = subprocess.Popen([sys.executable, "-c", script, tmp_path], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    with pytest.raises(FighterError, match="another process"), own_folder(tmp_path):
        pass
    process.kill()
    process.communicate()
    with own_folder(tmp_path):
        pass
    assert not contents(tmp_path)


@pytest.mark.parametrize(("checkpoint", "kept"), [(1, False), (2, False), (3, True)])
def test_a_checkpoint_older_than_the_model_is_removed(tmp_path, checkpoint, kept):
    for name, time in ((WEIGHTS, 2), (CHECKPOINT, checkpoint)):
        (tmp_path / name).write_bytes(OURS[name])
        os.utime(tmp_path / name, (time, time))
    with own_folder(tmp_path):
        assert (tmp_path / CHECKPOINT).exists() == kept


def test_a_full_disk_is_a_plain_error_that_names_the_file(tmp_path):
    def fill(path):
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    for checkpoint in (False, True):
        if checkpoint:
            (tmp_path / CHECKPOINT).write_bytes(OURS[CHECKPOINT])
        with pytest.raises(FighterError) as error, own_folder(tmp_path):
            fill(tmp_path / WEIGHTS)
        assert str(tmp_path / WEIGHTS) in error.value.reason
        assert ("resumes" in error.value.reason) == checkpoint
    with pytest.raises(OSError, match="elsewhere"), own_folder(tmp_path):
        fill("elsewhere")


def test_the_checksum_of_a_file(tmp_path):
    (tmp_path / "f").write_bytes(b"content")
    assert file_sha256(tmp_path / "f") == hashlib.sha256(b"content").hexdigest()


def test_the_checkpoint_of_an_unfinished_run_is_not_replaced_by_a_model(tmp_path):
    checkpoint = tmp_path / CHECKPOINT
    disk.save({}, {"epoch": 1}, checkpoint)
    with pytest.raises(FighterError):
        save_folder(tmp_path, {}, {})
    assert checkpoint.exists()
    assert not (tmp_path / WEIGHTS).exists()
