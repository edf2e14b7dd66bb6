"""All experiments of the paper: which runs they need, what is kept, and the page made of it."""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

from fighter.benchmark.provenance import provenance
from fighter.benchmark.runs import Environment, Record, perform, write_rows
from fighter.data.datasets import catalogue
from fighter.data.files import read_table
from fighter.errors import FighterError

from .page import write_page
from .scale import QUICK, Scale

EXPERIMENTS = ("heatmaps", "backward", "agnews", "table1", "kappa")  # the longest runs first
ELECTRICITY = (26_304, 321)


def reproduce(
    names: Sequence[str],
    scale: Scale,
    place: Environment,
    folder: Path,
    page: Path,
    *,
    jobs: int = 1,
    electricity: str | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> str:
    """Run experiments, keep their results in ``folder`` and write ``page``; its verdicts.

    Runs of several experiments share one pool, and a run that two of them need is made once.
    """
    plans = {
        name: import_module(f".{name}", __package__).plan(scale, place, electricity)
        for name in names
    }
    runs = [run for plan in plans.values() for run in plan]
    _files([run.settings for run in runs], place)  # what is missing is told now, and how to get it
    if electricity:
        check_electricity(Path(electricity))
    records = iter(perform(runs, folder / "runs", place, jobs=jobs, say=say))
    for name, plan in plans.items():
        keep(folder / f"{name}.json", [next(records) for _ in plan], scale, place)
    return write_page(folder, page)


def keep(path: Path, rows: list[Record], scale: Scale, place: Environment) -> None:
    """Write the result of an experiment, with where it comes from."""
    head = {
        "provenance": provenance("fighter", place.device),
        "quick": scale == QUICK,
        "scale": asdict(scale),
        "data": {
            name: hashlib.sha256(file.read_bytes()).hexdigest()
            for name, file in _files([row["settings"] for row in rows], place).items()
        },
    }
    write_rows(path, head, rows)


def check_electricity(path: Path) -> None:
    """Refuse a slice of the Electricity file: numbers on it are not numbers on the benchmark."""
    shape = read_table(path).select_dtypes("number").shape
    if shape != ELECTRICITY:
        raise FighterError(
            "{} has {:,} rows and {} columns of numbers: the Electricity file of the benchmark has "
            "{:,} and {}, see fighter data show electricity".format(path, *shape, *ELECTRICITY)
        )


def _files(settings: Iterable[Mapping[str, Any]], place: Environment) -> dict[str, Path]:
    """Every file that runs with these settings read."""
    files: dict[str, Path] = {}
    for chosen in settings:
        if chosen.get("path"):
            files[chosen["data"]] = Path(chosen["path"])
        elif "part" in chosen:
            for part in (chosen["part"], "test"):
                files[f"agnews {part}"] = catalogue.find("agnews", place.data_dir, part)
        else:
            files[chosen["data"]] = catalogue.find(chosen["data"], place.data_dir)
    return files
