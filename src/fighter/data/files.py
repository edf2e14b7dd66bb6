"""Tables in files: CSV (also compressed) and Parquet."""

import gzip
import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

from ..errors import FighterError

TEXT = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt", ".txt.gz")
PARQUET = (".parquet", ".pq")


def read_table(path: str | Path, names: Sequence[str] | None = None) -> Any:
    """Read a CSV or Parquet file as a pandas table; ``names`` are for a CSV without a header.

    The separator of a CSV (comma, semicolon or tab) is taken from its first line; with semicolons
    or tabs, ``1,5`` may be a number.
    """
    path = Path(path)
    if not path.exists():
        beside = sorted(p.name for p in path.parent.glob("*") if p.name.endswith((*TEXT, *PARQUET)))
        there = f" {path.parent} has {', '.join(beside[:8])}." if beside else ""
        raise FighterError(f"There is no file {path}.{there}")
    if path.is_dir():
        raise FighterError(f"{path} is a folder; give one CSV or Parquet file.")
    name = path.name.casefold()
    if not name.endswith((*TEXT, *PARQUET)):
        raise FighterError(
            f"{path} is neither CSV nor Parquet; use one of {', '.join(TEXT + PARQUET)}."
        )
    if path.stat().st_size == 0:
        raise FighterError(f"{path} is empty (0 bytes).")
    pandas = import_pandas()
    try:
        if name.endswith(PARQUET):
            return pandas.read_parquet(path)
        separator, decimal = _sniff(path)
        header = {} if names is None else {"header": None, "names": list(names)}
        return pandas.read_csv(
            path, sep=separator, decimal=decimal, encoding_errors="replace", **header
        )
    except ImportError as error:
        raise FighterError(
            f"{path} needs a Parquet reader: install pyarrow, or give a CSV file. ({error})"
        ) from None
    except (ValueError, OSError, EOFError) as error:
        raise FighterError(
            f"{path} cannot be read: {str(error).strip()}. Is it whole, and what its name says?"
        ) from error


def import_pandas() -> ModuleType:
    """Import pandas, which only files and tables of its type need."""
    try:
        import pandas
    except ImportError:
        raise FighterError(
            "This needs pandas: install it with pip install 'fighter[cli]'."
        ) from None
    return pandas


def _sniff(path: Path) -> tuple[str, str]:
    """Tell the separator from the first line, the decimal mark from some cells after it.

    Whole cells: the dots of ``31.12.2024`` are no decimal marks.
    """
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8", errors="replace") as file:
        head, *lines = [*islice(file, 50)] or [""]
    separator = max(",;\t", key=head.count)
    cells = [cell.strip(' "\n') for line in lines for cell in line.split(separator)]
    found = {mark[1] for cell in cells if (mark := re.fullmatch(r"[-+]?\d+([.,])\d+", cell))}
    return separator, "," if separator != "," and found == {","} else "."
