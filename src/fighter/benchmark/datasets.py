"""Find and read data sets to rank models on: those of the catalogue, and users' own tables."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from .._files import file_sha256
from ..data import Panel, Split, splits, to_panel
from ..data.datasets import catalogue
from ..data.files import PARQUET, TEXT, import_pandas, read_table
from ..data.frequency import HOUR
from ..errors import FighterError
from .runs import Environment, Say, quiet

Columns = Mapping[str, Any] | None
BENCHMARKS = ("weather", "eia_demand_hourly", "ETTh1")


@dataclass(frozen=True)
class Dataset:
    """A table in a file; results belong to its content, not to its name."""

    name: str  # what tables call it
    file: Path
    sha256: str  # of its content
    known: str | None = None  # its name in the catalogue, if it is there
    columns: tuple[tuple[str, Any], ...] = ()  # how to read it: ``id_col``, ``freq`` …

    @property
    def argument(self) -> str:
        """The data set on a command line: its catalogue name, or its absolute path."""
        return self.known or str(self.file.resolve())


def with_files(environment: Environment, datasets: Iterable[Dataset]) -> Environment:
    """Return the environment with the files of these data sets."""
    return replace(environment, files={dataset.sha256: dataset.file for dataset in datasets})


def known_dataset(name: str, data_dir: Path | None) -> Dataset:
    """Return a data set of the catalogue."""
    known = catalogue.entry(name)[0].name
    file = catalogue.find(known, data_dir)
    return Dataset(known, file, file_sha256(file), known)


def file_dataset(file: Path, columns: Columns = None) -> Dataset:
    """Return the data set in a file; raise an error now if it cannot be read."""
    if not file.is_file():
        read_table(file)  # raises, and names the files that are there
    lower = file.name.casefold()
    name = next((file.name[: -len(s)] for s in (*TEXT, *PARQUET) if lower.endswith(s)), "")
    given = tuple((columns or {}).items())
    dataset = Dataset(name or file.name, file, file_sha256(file), None, given)
    read(dataset)
    return dataset


def find_datasets(
    data: Sequence[str], data_dir: Path | None, columns: Columns = None, say: Say = quiet
) -> list[Dataset]:
    """Return the data sets that names of the catalogue and files stand for.

    Without any, these are all tables in ``data_dir`` (a folder or a file; ``say`` receives a line
    for each that is left out), or the benchmarks at hand. ``columns`` are for users' own files.
    """
    if data:
        datasets = [_named(text, data_dir, columns) for text in data]
    elif data_dir is None:
        at_hand = [name for name in BENCHMARKS if catalogue.at_hand(name)]
        # Without any, the first one raises an error that says how to get it.
        datasets = [known_dataset(name, None) for name in at_hand or BENCHMARKS[:1]]
    elif data_dir.is_dir():
        datasets = _in_folder(data_dir, columns, say)
    elif data_dir.exists():
        datasets = [file_dataset(data_dir, columns)]
    else:
        reason = "there is no such folder or file"
        raise FighterError(reason, argument="data_dir", value=str(data_dir))
    return [*{dataset.sha256: dataset for dataset in datasets}.values()]


def _named(text: str, data_dir: Path | None, columns: Columns) -> Dataset:
    path = Path(text)
    if path.is_dir():
        advice = "to rank on all tables in it, pass it as the data directory"
        raise FighterError(f"{text} is a folder: {advice}")
    if path.exists() or path.suffix or len(path.parts) > 1:
        return file_dataset(path, columns)
    return known_dataset(text, data_dir)


def _in_folder(folder: Path, columns: Columns, say: Say) -> list[Dataset]:
    """Return every table in a folder; content, not names, tells those of the catalogue."""
    datasets = []
    for file in sorted(p for p in folder.iterdir() if p.is_file()):
        if not file.name.casefold().endswith((*TEXT, *PARQUET)):
            continue
        try:
            datasets.append(_recognise(file) or file_dataset(file, columns))
        except FighterError as error:
            say(f"left out: {error}")
    if not datasets:
        raise FighterError(f"{folder} has no CSV or Parquet file with series to rank models on")
    return datasets


def _recognise(file: Path) -> Dataset | None:
    """Return the data set of the catalogue that the file is a copy of, or None."""
    checksum = file_sha256(file)
    for entry in catalogue.CATALOGUE.values():
        for name, part in entry.parts.items():
            if checksum in (part.sha256, *part.copies.values()) or (
                part.sha256 is None and file.name == part.file
            ):
                if not entry.freq:
                    raise FighterError(f"{file}: {entry.name} has no series")
                if name != "all":
                    raise FighterError(f"{file}: a slice of {entry.name}; name it to rank on it")
                return Dataset(entry.name, file, checksum, entry.name)
    return None


@lru_cache(maxsize=4)
def read(dataset: Dataset) -> tuple[Panel, Split]:
    """Read the series, and split the rows: 70 % train, 10 % validate, 20 % test.

    A data set of the catalogue is read as benchmarks read it: its rows are consecutive steps
    whatever their time stamps say, and marks for missing values are numbers. ETT has a split of
    its own.
    """
    if dataset.known is None:
        columns = dict(dataset.columns)
        table = read_table(dataset.file, encoding=columns.pop("encoding", None))
        try:
            data = to_panel(table, **columns)
        except FighterError as error:
            reason = f"{dataset.file}: {error.reason}"
            value = {} if error.value is None else {"value": error.value}
            raise FighterError(reason, argument=error.argument, **value) from error
        return data, splits.by_fraction(data.length)
    entry = catalogue.entry(dataset.known)[0]
    table = catalogue.load(dataset.known, file=dataset.file)
    column = table.columns[0]
    start, steps = table[column].iloc[0], len(table)
    table[column] = import_pandas().date_range(start, periods=steps, freq=entry.freq)
    data = to_panel(table, freq=entry.freq)
    if entry.split == "ett":
        split = splits.ett(data.length, HOUR // data.freq.count)
        return data.slice(None, split.test.stop), split
    return data, splits.by_fraction(data.length)
