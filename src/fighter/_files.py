"""Files that Fighter writes: their names, atomic writes, checks before long work, checksums."""

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import FighterError

# A folder of a training run holds METRICS and CHECKPOINT, a saved model CONFIG and WEIGHTS.
METRICS, CHECKPOINT = "metrics.jsonl", "checkpoint.safetensors"
CONFIG, WEIGHTS = "config.json", "model.safetensors"


def part_path(path: Path) -> Path:
    """Return the temporary sibling of a durable file, such as ``.checkpoint.safetensors.part``."""
    return path.with_name(f".{path.name}.part")


@contextmanager
def atomic_write(path: str | Path, *, durable: bool = False) -> Iterator[Path]:
    """Yield a temporary sibling path; rename it to ``path`` on success.

    Args:
        path: the file to write; its folder is created.
        durable: flush the file to disk before the rename, so that even a power cut leaves the old
            file or the new one. The temporary name is then :func:`part_path`, so that the next
            write replaces what a killed process left behind (default: False).
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    # Otherwise each process has its own name, whose suffix still tells the format.
    temporary = part_path(path) if durable else path.with_name(f".{os.getpid()}.{path.name}")
    try:
        yield temporary
        if durable:
            with temporary.open("rb+") as file:
                os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def check_target(path: Path, suffixes: tuple[str, ...] = ()) -> None:
    """Check that a file can be written to ``path`` before the work that it will hold."""
    if suffixes and not path.name.casefold().endswith(suffixes):
        raise FighterError(f"{path} cannot be written: its name must end in {', '.join(suffixes)}")
    if suffixes and path.is_dir():
        raise FighterError(f"{path} is a folder: give the name of a file")
    if not suffixes and path.is_file():
        raise FighterError(f"{path} is a file: give the name of a folder")
    existing = next(place for place in (path, *path.absolute().parents) if place.exists())
    if existing != path and not existing.is_dir():
        raise FighterError(f"{path} cannot be written: {existing} is a file, not a folder")
    if not os.access(existing, os.W_OK):
        raise FighterError(f"{path} cannot be written: no permission to write to {existing}")
    folder = existing if existing.is_dir() else existing.parent
    try:  # permissions do not tell of read-only and virtual file systems
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".fighter-"):
            pass
    except OSError as error:
        reason = f"{path} cannot be written: no file can be made in {folder} ({error.strerror})"
        raise FighterError(reason) from None


def file_sha256(path: str | Path) -> str:
    """Compute the SHA-256 checksum of a file, in hexadecimal."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
