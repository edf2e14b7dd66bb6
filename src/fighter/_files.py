"""Files that a user asked for: whole, or not there."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import FighterError


@contextmanager
def atomic_write(path: str | Path) -> Iterator[Path]:
    """Give a neighbour to write to, which takes the file's name when all went well."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    neighbour = path.with_name(f".{os.getpid()}.{path.name}")  # the suffix still tells the format
    try:
        yield neighbour
        neighbour.replace(path)
    finally:
        neighbour.unlink(missing_ok=True)


def check_target(path: Path, suffixes: tuple[str, ...] = ()) -> None:
    """See that a file can be written there, before the work that it is to hold."""
    if suffixes and not path.name.casefold().endswith(suffixes):
        raise FighterError(f"{path} cannot be written: its name must end in {', '.join(suffixes)}")
    if suffixes and path.is_dir():
        raise FighterError(f"{path} is a folder: give the name of a file")
    existing = next(place for place in (path, *path.absolute().parents) if place.exists())
    if existing != path and not existing.is_dir():
        raise FighterError(f"{path} cannot be written: {existing} is a file, not a folder")
    if not os.access(existing, os.W_OK):
        raise FighterError(f"{path} cannot be written: no permission to write to {existing}")
