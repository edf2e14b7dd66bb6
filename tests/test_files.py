import hashlib
import os

import pytest

from fighter._files import CHECKPOINT, atomic_write, file_sha256, part_path


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


def test_a_durable_file_is_flushed_before_its_rename(tmp_path, monkeypatch):
    flushed = []
    monkeypatch.setattr(os, "fsync", lambda _: flushed.append((tmp_path / CHECKPOINT).exists()))
    with atomic_write(tmp_path / CHECKPOINT, durable=True) as temporary:
        assert temporary == part_path(tmp_path / CHECKPOINT)
        assert temporary.name == ".checkpoint.safetensors.part"
        temporary.touch()
    assert flushed == [False]
    with atomic_write(tmp_path / CHECKPOINT) as temporary:
        temporary.touch()
    assert len(flushed) == 1


def test_the_checksum_of_a_file(tmp_path):
    (tmp_path / "f").write_bytes(b"content")
    assert file_sha256(tmp_path / "f") == hashlib.sha256(b"content").hexdigest()
