"""What comparing variants of the default forecaster has in common."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from fighter.benchmark.datasets import BENCHMARKS, Dataset, at, known_dataset
from fighter.benchmark.page import write_page
from fighter.benchmark.provenance import provenance
from fighter.benchmark.runs import Environment, Run, add_rows, perform


def options(description: str, *, known: bool = True) -> argparse.ArgumentParser:
    """How often, where to, and which of the known data sets, where one may choose."""
    parser = argparse.ArgumentParser(description=description)
    if known:
        parser.add_argument("--data", nargs="+", default=BENCHMARKS)
    parser.add_argument("--data-dir", type=Path, help="where the data sets are")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--results", type=Path, default=Path("results/accuracy"))
    parser.add_argument("--page", type=Path, default=Path("docs/accuracy.md"))
    return parser


def sources(args: argparse.Namespace) -> list[Dataset]:
    """The data sets that were chosen."""
    return [known_dataset(name, args.data_dir) for name in args.data]


def compare(
    experiment: ModuleType, args: argparse.Namespace, data: Sequence[Dataset], runs: Sequence[Run]
) -> None:
    """Make the runs, keep them, and write the page."""
    place = at(Environment.here(args.data_dir, None), data)
    folder, name = args.results, experiment.__name__.rpartition(".")[2]
    rows = perform(
        runs, folder / "runs", place, jobs=args.jobs, say=lambda line: print(line, flush=True)
    )
    for row in rows:
        row["result"].pop("pieces")  # nothing is tested by windows here
    head = {"provenance": provenance(f"python -m benchmarks.{name}", place.device)}
    add_rows(folder / experiment.FILE, head, rows, experiment.cell)
    print(write_page(args.results, args.page))
