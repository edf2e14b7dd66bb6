"""``fighter data``: the catalogue of known data sets, and large tables in many files."""

import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from ..data.buckets import split_table
from ..data.datasets import catalogue
from ..errors import FighterError
from ..training.progress import say
from .arguments import DataFolder, File, Name, Shown, TargetFolder


def list_(*, data_dir: DataFolder | None = None) -> None:
    """List the known data sets, and whether they are on this machine.

    Example: fighter data list

    Args:
        data_dir: where to look first; then $FIGHTER_DATA, then the cache.
    """
    width = max(map(len, catalogue.CATALOGUE))
    for name, entry in catalogue.CATALOGUE.items():
        mark = "here" if _place(name, data_dir) else "-"
        print(f"{name:<{width}}  {mark:<4}  {entry.title}")


def show(name: Name, *, data_dir: DataFolder | None = None) -> None:
    """Show origin, licence, checksums and oddities of a data set.

    Example: fighter data show weather

    Args:
        name: the data set.
        data_dir: where to look first; then $FIGHTER_DATA, then the cache.
    """
    entry, _ = catalogue.entry(name)
    print(f"{entry.name}: {entry.title}")
    rows = {"home": entry.home, "licence": entry.licence, "freq": entry.freq, "split": entry.split}
    for label, text in rows.items():
        print(f"  {label:<8} {text or '-'}")
    for part, file in entry.parts.items():
        print(f"  part     {part}: {_place(name, data_dir, part) or 'not on this machine'}")
        if file.url:
            print(f"           from {file.url}")
        if file.sha256:
            origin = "of a checked file" if file.verified else "as published"
            print(f"           sha256 {file.sha256} ({origin})")
    for note in entry.data_notes:
        print(textwrap.fill(note, 96, initial_indent="  note     ", subsequent_indent=" " * 11))


def fetch(name: Name, *, part: Name | None = None, data_dir: DataFolder | None = None) -> None:
    """Download a data set and check it; an interrupted download resumes.

    Example: fighter data fetch ETTh1 --data-dir data

    Args:
        name: the data set.
        part: part of the data set (default: the first).
        data_dir: where to put it (default: $FIGHTER_DATA, or the cache).
    """
    print(catalogue.fetch(name, data_dir, part, _progress() if sys.stderr.isatty() else None))


def path(name: Name, *, part: Name | None = None, data_dir: DataFolder | None = None) -> None:
    """Print where the file of a data set is.

    Example: fighter data path weather --data-dir data

    Args:
        name: the data set.
        part: part of the data set (default: the first).
        data_dir: where to look first; then $FIGHTER_DATA, then the cache.
    """
    print(catalogue.find(name, data_dir, part))


def split(
    file: File,
    *,
    by: Annotated[tuple[str, ...], Shown("NAME")] = ("unique_id",),
    buckets: int = 64,
    time: Name | None = None,
    out: TargetFolder,
) -> None:
    """Split a long table into Parquet files of whole series, sorted by id and time.

    The table may be larger than memory, which holds one of the files at most.

    Example: fighter data split sales.parquet --by store item --out buckets

    Args:
        file: CSV or Parquet file, or a folder of Parquet files.
        by: column or columns that name the series.
        buckets: number of files.
        time: column with the time stamps (default: ds if there is one).
        out: folder for the files, absent or empty.
    """
    files = split_table(file, out, by, buckets, time)
    say(f"split     {len(files)} files in {out}")


def _place(name: str, data_dir: Path | None, part: str | None = None) -> Path | None:
    try:
        return catalogue.find(name, data_dir, part)
    except FighterError:
        return None


def _progress() -> Callable[[int, int | None], None]:
    """Return a function that updates one line, at most five times a second."""
    last = 0.0

    def show(done: int, total: int | None) -> None:
        nonlocal last
        if done != total and time.monotonic() - last < 0.2:
            return
        last = time.monotonic()
        of = f" of {total / 1e6:.1f}" if total else ""
        end = "\n" if done == total else ""
        print(f"\r{done / 1e6:.1f}{of} MB", end=end, file=sys.stderr, flush=True)

    return show


COMMANDS = {"list": list_, "show": show, "fetch": fetch, "path": path, "split": split}
