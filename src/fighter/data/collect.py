"""A folder of forecasts, one file for each input: its summaries, and all of them as one table."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .._files import atomic_write, check_target
from ..errors import FighterError, needs_package
from .buckets import check_home
from .columns import SeriesKey, listing

INPUTS = "_inputs.json"  # all inputs by name, whether they are done or not
OUTPUT = (".parquet",)


@dataclass(frozen=True)
class Collection:
    """What a folder of forecasts holds.

    Args:
        files: the forecasts, one for each finished input.
        series: number of series in them.
        rows: number of rows in them.
        notes: what was noticed in the data, by input.
        failed: why inputs could not be forecast, by input.
        missing: inputs that were not forecast yet.
    """

    files: tuple[Path, ...]
    series: int
    rows: int
    notes: dict[str, list[str]]
    failed: dict[str, str]
    missing: tuple[str, ...]

    def __str__(self) -> str:
        """Return a sentence."""
        said = f"{len(self.files):,} files, {self.series:,} series, {self.rows:,} rows"
        if self.missing:
            said += f"; not forecast yet: {listing(self.missing, 3)}"
        if self.failed:
            reason = next(iter(self.failed.values()))
            said += f"; failed: {listing(self.failed, 3)}, the first because {reason}"
        return said


def collect(folder: str | Path, out: str | Path | None = None) -> Collection:
    """Say what a folder of forecasts holds; refuse a series that two files forecast.

    Args:
        folder: a folder written by ``predict_files`` or ``cross_validate_files``.
        out: write all forecasts to this Parquet file, which needs every input to be finished
            (default: not written).
    """
    folder = Path(folder)
    if out is not None:
        check_target(Path(out), OUTPUT)
        if Path(out).resolve() in {
            (folder / f"{n}.parquet").resolve() for n in read_inputs(folder)
        }:
            reason = "is one of the forecasts to join, which would be replaced: choose another name"
            raise FighterError(reason, argument="out", value=str(out))
    files, homes, rows = [], {}, 0
    notes: dict[str, list[str]] = {}
    failed: dict[str, str] = {}
    missing = []
    for name in read_inputs(folder):
        record, file = read_json(folder / f"{name}.json"), folder / f"{name}.parquet"
        if "error" in record:
            failed[name] = record["error"]
        elif not record or not file.exists():
            missing.append(name)
        else:
            for cells in record["ids"]:
                check_home(homes, cells[0] if len(cells) == 1 else SeriesKey(cells), file)
            files.append(file)
            rows += record["rows"]
            if record["notes"]:
                notes[name] = record["notes"]
    found = Collection(tuple(files), len(homes), rows, notes, failed, tuple(missing))
    if out is not None:
        if missing or failed or not files:
            raise FighterError(f"{folder} is not complete, so nothing was written: {found}")
        _join(files, Path(out))
    return found


def read_inputs(folder: Path) -> dict[str, str]:
    """Return the inputs of a folder of forecasts, their paths by name."""
    path = folder / INPUTS
    if not path.exists():
        raise FighterError(f"{folder} is no folder of forecasts: {INPUTS} is missing")
    inputs = read_json(path)
    if not inputs:
        raise FighterError(f"{path} is damaged: make the call again that wrote it")
    return inputs


def read_json(path: Path) -> dict[str, Any]:
    """Return an object from a file; {} if it is absent or damaged."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write an object to a file, as a whole; dates and the like become text."""
    with atomic_write(path) as file:
        text = json.dumps(content, ensure_ascii=False, default=str)
        file.write_text(text + "\n", encoding="utf-8")


def _join(files: Sequence[Path], out: Path) -> None:
    """Write the rows of all files to one, part by part."""
    with needs_package("pyarrow"):
        import pyarrow as pa
        from pyarrow import parquet
    schema = parquet.read_schema(files[0])
    with atomic_write(out) as temporary, parquet.ParquetWriter(temporary, schema) as writer:
        for path in files:
            try:
                with parquet.ParquetFile(path) as file:
                    for batch in file.iter_batches():
                        table = pa.Table.from_batches([batch])
                        writer.write_table(table.select(schema.names).cast(schema))
            except (pa.ArrowException, KeyError) as error:
                reason = f"{path} has other columns than {files[0]} ({error})"
                raise FighterError(f"{reason}: forecast all files with one model") from error
