"""Run the paper's experiments, store their results, and write the page made of them."""

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
ELECTRICITY = (26_304, 321)  # rows and series


def run_experiments(
    names: Sequence[str],
    scale: Scale,
    environment: Environment,
    folder: Path,
    page: Path,
    *,
    jobs: int = 1,
    electricity: str | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> str:
    """Run experiments, store their results, write the page, and return its verdicts as text.

    Runs of several experiments share one pool, and a run that two of them need is made once.

    Args:
        names: modules of the experiments, see ``EXPERIMENTS``.
        scale: sizes of the experiments.
        environment: the device and the data.
        folder: where results and finished runs are stored.
        page: Markdown file to write.
        jobs: number of runs at a time (default: 1).
        electricity: path of the whole Electricity file (default: hourly load stands in for it).
        say: receives progress lines (default: none are shown).
    """
    plans = {
        name: import_module(f".{name}", __package__).plan(scale, environment, electricity)
        for name in names
    }
    runs = [run for plan in plans.values() for run in plan]
    _files([run.settings for run in runs], environment)  # raises before any run if one is missing
    if electricity:
        check_electricity(Path(electricity))
    records = iter(perform(runs, folder / "runs", environment, jobs=jobs, say=say))
    for name, plan in plans.items():
        rows = [next(records) for _ in plan]
        write_result(folder / f"{name}.json", rows, scale, environment)
    return write_page(folder, page)


def write_result(path: Path, rows: list[Record], scale: Scale, environment: Environment) -> None:
    """Write the rows of an experiment with their provenance, scale and checksums of the data."""
    head = {
        "provenance": provenance("python -m paper", environment.device),
        "quick": scale == QUICK,
        "scale": asdict(scale),
        "data": {
            name: hashlib.sha256(file.read_bytes()).hexdigest()
            for name, file in _files([row["settings"] for row in rows], environment).items()
        },
    }
    write_rows(path, head, rows)


def check_electricity(path: Path) -> None:
    """Refuse a part of the Electricity file: errors on it are not those of the benchmark."""
    shape = read_table(path).select_dtypes("number").shape
    if shape != ELECTRICITY:
        reason = (
            "has {:,} rows and {} columns of numbers, but the Electricity file of the benchmark "
            "has {:,} and {}; see: fighter data show electricity"
        )
        raise FighterError(
            reason.format(*shape, *ELECTRICITY), argument="electricity", value=str(path)
        )


def _files(settings: Iterable[Mapping[str, Any]], environment: Environment) -> dict[str, Path]:
    """Find every file that runs with these settings read."""
    files: dict[str, Path] = {}
    for chosen in settings:
        if chosen.get("path"):
            files[chosen["data"]] = Path(chosen["path"])
        elif "part" in chosen:
            for part in (chosen["part"], "test"):
                files[f"agnews {part}"] = catalogue.find("agnews", environment.data_dir, part)
        else:
            files[chosen["data"]] = catalogue.find(chosen["data"], environment.data_dir)
    return files
