"""Tables in files: CSV (also compressed) and Parquet, read and written."""

import gzip
import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

from .._files import atomic_write
from ..errors import FighterError, needs_extra

TEXT = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt", ".txt.gz")
PARQUET = (".parquet", ".pq")
WRITABLE = (".csv", ".csv.gz", ".parquet")


def open_table(
    name: str | Path, data_dir: str | Path | None = None, *, encoding: str | None = None
) -> Any:
    """Read a CSV or Parquet file, or a data set of the catalogue by its name.

    Cells of a data set that stand for missing data are emptied. ``data_dir`` is the folder where
    data sets are looked for first.
    """
    from .datasets import catalogue  # it reads its files with read_table

    if Path(name).exists() or Path(name).suffix:
        return read_table(name, encoding=encoding)
    try:
        catalogue.entry(str(name))
    except FighterError as error:
        raise FighterError(f"there is no file {name}, and {error}") from None
    return catalogue.load(str(name), data_dir, clean=True)


def read_table(
    path: str | Path, names: Sequence[str] | None = None, encoding: str | None = None
) -> Any:
    """Read a CSV or Parquet file as a pandas table.

    The separator of a CSV (comma, semicolon or tab) is inferred from its first line. In a file
    separated by semicolons or tabs, ``1,5`` may be a number. ``names`` are the column names of a
    CSV without a header.
    """
    path = Path(path)
    if not path.exists():
        beside = sorted(p.name for p in path.parent.glob("*") if p.name.endswith((*TEXT, *PARQUET)))
        there = f"; {path.parent} has {', '.join(beside[:8])}" if beside else ""
        raise FighterError(f"there is no file {path}{there}")
    if path.is_dir():
        raise FighterError(f"{path} is a folder; name a CSV or Parquet file")
    name = path.name.casefold()
    if not name.endswith((*TEXT, *PARQUET)):
        suffixes = ", ".join(TEXT + PARQUET)
        raise FighterError(f"{path} is neither CSV nor Parquet; its name must end in {suffixes}")
    if path.stat().st_size == 0:
        raise FighterError(f"{path} is empty (0 bytes)")
    pandas = import_pandas()
    try:
        if name.endswith(PARQUET):
            return pandas.read_parquet(path)
        sep, decimal = _sniff(path)
        header = {} if names is None else {"header": None, "names": list(names)}
        return pandas.read_csv(
            path, sep=sep, decimal=decimal, encoding=encoding, encoding_errors="replace", **header
        )
    except ImportError as error:
        remedy = "install pyarrow or use a CSV file"
        raise FighterError(f"{path} needs a Parquet reader; {remedy} ({error})") from None
    except (ValueError, OSError, EOFError) as error:
        remedy = "check that it is complete and has the format of its name"
        raise FighterError(f"{path} cannot be read ({str(error).strip()}); {remedy}") from error


def write_table(table: Any, path: str | Path) -> None:
    """Write a pandas table to a Parquet file if its name says so, else to a CSV file."""
    with atomic_write(path) as file:
        if file.name.casefold().endswith(".parquet"):
            table.to_parquet(file, index=False)
        else:
            table.to_csv(file, index=False)


def import_pandas() -> ModuleType:
    """Import pandas, which only files and tables of its type need."""
    with needs_extra("pandas", "cli"):
        import pandas
    return pandas


def _sniff(path: Path) -> tuple[str, str]:
    """Infer the separator from the first line and the decimal mark from the cells below it.

    Only whole cells count, so that the dots of ``31.12.2024`` are not decimal marks.
    """
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8", errors="replace") as file:
        head, *lines = [*islice(file, 50)] or [""]
    separator = max(",;\t", key=head.count)
    cells = [cell.strip(' "\n') for line in lines for cell in line.split(separator)]
    marks = {mark[1] for cell in cells if (mark := re.fullmatch(r"[-+]?\d+([.,])\d+", cell))}
    return separator, "," if separator != "," and marks == {","} else "."
