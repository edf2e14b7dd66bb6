"""Tables in and out: files, and data sets by name."""

from pathlib import Path
from typing import Any

from .._files import atomic_write
from ..data.datasets import catalogue
from ..data.files import read_table
from ..errors import FighterError

KINDS = (".csv", ".csv.gz", ".parquet")
SHOWN_ROWS = 8


def open_table(name: str, data_dir: Path | None = None) -> Any:
    """A CSV or Parquet file, or a data set of the catalogue with its marks for missing emptied."""
    if Path(name).exists() or Path(name).suffix:
        return read_table(name)
    try:
        catalogue.entry(name)
    except FighterError as error:
        raise FighterError(f"There is no file {name}. {error}") from None
    return catalogue.load(name, data_dir, clean=True)


def write_table(table: Any, path: Path) -> None:
    """CSV or Parquet, by the name."""
    with atomic_write(path) as file:
        if path.name.casefold().endswith(".parquet"):
            table.to_parquet(file, index=False)
        else:
            table.to_csv(file, index=False)


def first_rows(table: Any) -> str:
    """The top of a table, for a person."""
    return table.head(SHOWN_ROWS).to_string(index=False, float_format="{:.6g}".format)
