"""Data sets to rank models on: known ones, and anybody's tables."""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..data import Panel, Split, splits, to_panel
from ..data.datasets import catalogue
from ..data.files import PARQUET, TEXT, import_pandas, read_table
from ..data.frequency import HOUR
from ..errors import FighterError
from .runs import Environment

BENCHMARKS = ("weather", "eia_demand_hourly", "ETTh1")


@dataclass(frozen=True)
class Dataset:
    """A table in a file.

    Args:
        name: for people.
        file: where it is.
        sha256: its content, which is what results belong to.
        known: its name in the catalogue, if it is one of those.
        columns: how to read it, as for the Forecaster: ``id_col``, ``time_col``, ``freq`` …
    """

    name: str
    file: Path
    sha256: str
    known: str | None = None
    columns: tuple[tuple[str, Any], ...] = ()

    @property
    def argument(self) -> str:
        """What names it on a command line, from wherever."""
        return self.known or str(self.file.resolve())


def at(place: Environment, sources: Iterable[Dataset]) -> Environment:
    """A place where the files of these are found."""
    return replace(place, files={source.sha256: source.file for source in sources})


def known_dataset(name: str, data_dir: Path | None) -> Dataset:
    """A data set of the catalogue."""
    found = catalogue.entry(name)[0].name
    file = catalogue.find(found, data_dir)
    return Dataset(found, file, _checksum(file), found)


def file_dataset(file: Path, columns: Mapping[str, Any] | None = None) -> Dataset:
    """Any table; that it can be read is seen at once."""
    if not file.is_file():
        read_table(file)  # raises, and tells what is there
    lower = file.name.casefold()
    name = next((file.name[: -len(s)] for s in (*TEXT, *PARQUET) if lower.endswith(s)), "")
    source = Dataset(name or file.name, file, _checksum(file), None, tuple((columns or {}).items()))
    try:
        read(source)
    except FighterError as error:
        text = str(error)
        raise FighterError(text if str(file) in text else f"{file}: {text}") from error
    return source


def find_datasets(
    data: Sequence[str],
    data_dir: Path | None,
    columns: Mapping[str, Any] | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> list[Dataset]:
    """The data sets that are meant: names of the catalogue, and files.

    Without any, those in ``data_dir``, a folder or a file; without that, the benchmarks at hand.
    """
    if data:
        found = [_named(text, data_dir, columns) for text in data]
    elif data_dir is None:
        at_hand = [name for name in BENCHMARKS if catalogue.at_hand(name)]
        found = [known_dataset(name, None) for name in at_hand or BENCHMARKS[:1]]  # or it raises
    elif data_dir.is_dir():
        found = _in_folder(data_dir, columns, say)
    elif data_dir.exists():
        found = [file_dataset(data_dir, columns)]
    else:
        raise FighterError(f"data_dir={str(data_dir)!r}: there is no such folder or file")
    return [*{source.sha256: source for source in found}.values()]


def _named(text: str, data_dir: Path | None, columns: Mapping[str, Any] | None) -> Dataset:
    path = Path(text)
    if path.is_dir():
        raise FighterError(f"{text} is a folder: to rank on all tables in it, give it as data_dir=")
    if path.exists() or path.suffix or len(path.parts) > 1:
        return file_dataset(path, columns)
    return known_dataset(text, data_dir)


def _in_folder(
    folder: Path, columns: Mapping[str, Any] | None, say: Callable[[str], None]
) -> list[Dataset]:
    """Every table in it: the catalogue's by their content, not by their names."""
    found = []
    for file in sorted(p for p in folder.iterdir() if p.is_file()):
        if not file.name.casefold().endswith((*TEXT, *PARQUET)):
            continue
        try:
            found.append(_recognised(file) or file_dataset(file, columns))
        except FighterError as error:
            say(f"{file.name} is left out: {str(error).removeprefix(f'{file}: ')}")
    if not found:
        raise FighterError(f"{folder} has no CSV or Parquet file with series to rank models on")
    return found


def _recognised(file: Path) -> Dataset | None:
    """A data set of the catalogue, if the file is a true copy of it."""
    checksum = _checksum(file)
    for entry in catalogue.CATALOGUE.values():
        for name, part in entry.parts.items():
            if checksum in (part.sha256, *part.copies.values()) or (
                part.sha256 is None and file.name == part.file
            ):
                if not entry.freq:
                    raise FighterError(f"{entry.name} has no series")
                if name != "all":
                    raise FighterError(f"a slice of {entry.name}; to rank on it, name the file")
                return Dataset(entry.name, file, checksum, entry.name)
    return None


def _checksum(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


@lru_cache(maxsize=4)
def read(source: Dataset) -> tuple[Panel, Split]:
    """The series, and the rows to train on, to choose on and to test on: 70, 10 and 20 %.

    Of a known data set the rows are taken as they stand, one step after the other whatever their
    stamps say, and marks for missing values as numbers, as benchmarks do. ETT has a split of its
    own.
    """
    if source.known is None:
        data = to_panel(read_table(source.file), **dict(source.columns))
        return data, splits.by_fraction(data.length)
    entry = catalogue.entry(source.known)[0]
    table = catalogue.load(source.known, file=source.file)
    column = table.columns[0]
    table[column] = import_pandas().date_range(
        table[column].iloc[0], periods=len(table), freq=entry.freq
    )
    data = to_panel(table, freq=entry.freq)
    if entry.split == "ett":
        split = splits.ett(data.length, HOUR // data.freq.count)
        return data.slice(None, split.test.stop), split
    return data, splits.by_fraction(data.length)
