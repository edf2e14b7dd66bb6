"""Files that Fighter writes: their names, atomic writes, checks before long work, checksums."""

import errno
import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from .errors import FighterError

# A folder of a training run holds METRICS and CHECKPOINT, a saved model CONFIG and WEIGHTS, and a
# folder that a process writes to holds LOCK.
METRICS, CHECKPOINT = "metrics.jsonl", "checkpoint.safetensors"
CONFIG, WEIGHTS = "config.json", "model.safetensors"
LOCK = ".fighter.lock"

# How the files above are recognised: by the keys of their JSON or of their metadata.
_KEYS = {
    METRICS: {"epoch", "loss", "validation", "best", "lr"},
    CHECKPOINT: {"state"},
    CONFIG: {"format", "settings"},
    WEIGHTS: {"config"},
}


def part_path(path: Path) -> Path:
    """Return the temporary sibling of a durable file, which carries the number of the process."""
    return path.with_name(f".{path.name}.{os.getpid()}.part")


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Let system errors of the block name ``path``, not a temporary file or nothing."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


@contextmanager
def atomic_write(path: str | Path, *, durable: bool = False) -> Iterator[Path]:
    """Yield a temporary sibling path; rename it to ``path`` on success.

    Args:
        path: the file to write; its folder is created.
        durable: flush the file before the rename and the folder after it, so that even a power
            cut leaves the old file or the new one. The temporary name is then :func:`part_path`;
            :func:`own_folder` removes what a killed process left behind (default: False).
    """
    path = Path(path)
    # Each process has its own name. It keeps the suffix, which tells writers the format.
    temporary = part_path(path) if durable else path.with_name(f".{os.getpid()}.{path.name}")
    with naming(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield temporary
            if durable:
                with temporary.open("rb+") as file:
                    os.fsync(file.fileno())
            temporary.replace(path)
            if durable:
                _flush_folder(path.parent)
        finally:
            temporary.unlink(missing_ok=True)


def _flush_folder(folder: Path) -> None:
    """Flush the entries of a folder to disk, where the system can do so."""
    if os.name != "posix":
        return
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    except OSError as error:  # some file systems flush files only
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(number)


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
    try:  # a folder may refuse new files whatever its permissions say
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        reason = f"{path} cannot be written: no new file in {folder} ({error.strerror})"
        raise FighterError(reason) from error


# ---- folders of models and training runs --------------------------------------------------


def check_folder(folder: Path) -> None:
    """Check that a model or a training run may be written to ``folder``, before it begins.

    The folder may be absent, be empty, or hold a model or a training run of Fighter, with other
    files beside it. No file of somebody else is ever replaced.
    """
    check_target(folder)
    if not folder.exists():
        return
    remedy = "choose another folder, or remove it"
    names = {path.name for path in folder.iterdir()}
    known = names & _KEYS.keys()
    for name in sorted(known):
        if not _is_ours(folder / name):
            raise FighterError(
                f"{folder / name} exists and is not a saved model or run of Fighter, or it is "
                f"damaged: {remedy}"
            )
    if names and not known and LOCK not in names:
        raise FighterError(
            f"{folder} exists and is not a saved model or run of Fighter; it holds "
            f"{min(names)!r}: {remedy}"
        )


def check_no_run(folder: Path) -> None:
    """Check that a saved model would not replace the checkpoint of an unfinished run."""
    if (folder / CHECKPOINT).exists() and not _is_useless(folder):
        raise FighterError(
            f"{folder} holds the checkpoint of an unfinished training run: let the run finish, or "
            "choose another folder"
        )


def _is_ours(path: Path) -> bool:
    """Tell whether one of the files in ``_KEYS`` was written by Fighter."""
    found: Any = None
    try:
        if path.suffix == ".safetensors":
            with safe_open(path, "np") as file:
                found = file.metadata()
        elif path.name == METRICS:
            with path.open(encoding="utf-8") as file:
                line = file.readline()
            if not line.endswith("\n"):  # a run that ended, or was killed, in its first epoch
                return '{"epoch": '.startswith(line[:10])
            found = json.loads(line)
        else:
            found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, RecursionError, SafetensorError, ValueError):
        return not path.exists()  # another process may have replaced it just now
    return isinstance(found, dict) and _KEYS[path.name] <= found.keys()


@contextmanager
def own_folder(folder: Path) -> Iterator[None]:
    """Hold a folder while a model or a training run is written to it; no other process can.

    The system releases the folder when the process dies. What killed processes left behind is
    removed first, and a folder that was made here and is still empty is removed at the end.
    """
    check_folder(folder)
    made = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        number = _lock(folder)
        try:
            for name in _KEYS:
                for part in folder.glob(f".{name}*.part"):
                    part.unlink(missing_ok=True)
            remove_useless_checkpoint(folder)
            yield
        finally:
            with suppress(PermissionError):  # Windows keeps a file that is open
                (folder / LOCK).unlink(missing_ok=True)
            os.close(number)
            if made and not any(folder.iterdir()):
                folder.rmdir()
    except OSError as error:
        if error.filename is None or Path(error.filename).parent != folder:
            raise
        resume = ""
        if (folder / CHECKPOINT).exists():
            resume = "; after that is corrected, the same run resumes from its last checkpoint"
        reason = f"{error.filename} cannot be written: {error.strerror}{resume}"
        raise FighterError(reason) from error


def remove_useless_checkpoint(folder: Path) -> None:
    """Remove a checkpoint older than the model beside it: its run was killed after saving."""
    if _is_useless(folder):
        (folder / CHECKPOINT).unlink(missing_ok=True)


def _is_useless(folder: Path) -> bool:
    """Tell whether there is a checkpoint and a model that is not older."""
    weights, checkpoint = folder / WEIGHTS, folder / CHECKPOINT
    both = weights.exists() and checkpoint.exists()
    return both and checkpoint.stat().st_mtime_ns <= weights.stat().st_mtime_ns


def _lock(folder: Path) -> int:
    """Lock a folder and return the open lock file; the lock ends when it is closed."""
    path = folder / LOCK
    while True:
        number = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            _lock_file(number)
        except BlockingIOError as error:
            os.close(number)
            remedy = "wait until it ends, or choose another folder"
            if "TORCHELASTIC_RUN_ID" in os.environ:
                remedy += "; processes of torchrun train one model together with --distributed"
            raise FighterError(f"another process is writing to {folder}: {remedy}") from error
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(number), path.stat()):
                return number
        os.close(number)  # the process before removed the file in the meantime: try again


def _lock_file(number: int) -> None:
    """Lock an open file; raise BlockingIOError if another process has done so."""
    if sys.platform == "win32":
        import msvcrt

        try:
            msvcrt.locking(number, msvcrt.LK_NBLCK, 1)
        except OSError as error:
            raise BlockingIOError from error
    else:
        import fcntl

        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise
        except OSError as error:  # a few file systems have no locks: do without
            if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
                raise


def file_sha256(path: str | Path) -> str:
    """Compute the SHA-256 checksum of a file, in hexadecimal."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
