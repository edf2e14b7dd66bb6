"""Forecasts of many files: ``fighter collect``, and ``fighter predict`` of a folder."""

from pathlib import Path

from ..data.collect import collect as collect_files
from ..data.files import WRITABLE
from ..errors import FighterError
from ..forecasting.forecaster import Forecaster
from ..training.progress import fill, say
from .arguments import DataFolder, Target
from .targets import is_stream


def collect(folder: DataFolder, *, out: Target | None = None) -> int:
    """Count the forecasts of many files, and name inputs that are missing or failed.

    A series that is in two files is an error. The exit code is 1 unless every input is done.

    Example: fighter collect forecasts --out all.parquet

    Args:
        folder: folder written by fighter predict MODEL FOLDER.
        out: write all forecasts to this file, .parquet.
    """
    found = collect_files(folder, out)
    print(f"{found}" + (f" in {out}" if out else ""))
    return 1 if found.missing or found.failed else 0


def are_folders(file: str, out: Path) -> bool:
    """Tell whether the files of a folder are to be forecast one by one, into another folder."""
    one_file = is_stream(out) or out.name.casefold().endswith(WRITABLE)
    return Path(file).is_dir() and not one_file


def predict_folder(
    model: Forecaster, folder: str, out: Path, future: str | None, workers: int, ray: bool
) -> None:
    """Forecast the files of a folder and say what was written."""
    options = {"runner": "ray" if ray else None, "workers": workers, "future": future}
    try:
        found = model.predict_files(folder, out, **options)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("the same command goes on") from None
    except FighterError as error:
        if error.argument != "future":
            raise
        raise FighterError(error.reason, argument="future_file") from error
    if model.verbose:
        say(fill(f"forecast  {found} in {out}: fighter collect {out}"))
    for name, notes in list(found.notes.items())[: int(model.verbose)]:
        others = f" ({len(found.notes):,} files have notes, in their .json)"
        line = f"note: {name}: {' '.join(notes)}{others if len(found.notes) > 1 else ''}"
        say(fill(line, indent=6))
