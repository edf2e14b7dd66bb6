"""The command line that studies of variants share."""

import argparse
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Any

from fighter.benchmark.datasets import BENCHMARKS, Dataset, known_dataset, with_files
from fighter.benchmark.provenance import provenance
from fighter.benchmark.runs import Environment, Run, add_rows, perform

RESULTS = Path("results/accuracy")


def study_parser(
    name: str, description: str | None, *, choose_data: bool = True
) -> argparse.ArgumentParser:
    """Return a parser with the options that all studies have."""
    parser = argparse.ArgumentParser(
        prog=f"python -m paper study {name}",
        description=description,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    if choose_data:
        parser.add_argument("--data", nargs="+", default=BENCHMARKS, help="names of data sets")
    parser.add_argument("--data-dir", type=Path, help="folder of the data sets")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1], help="seeds of each run")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the results")
    return parser


def chosen_datasets(args: argparse.Namespace) -> list[Dataset]:
    """Return the data sets that were asked for."""
    return [known_dataset(name, args.data_dir) for name in args.data]


def run_study(
    name: str,
    arguments: Sequence[str],
    args: argparse.Namespace,
    data: Sequence[Dataset],
    runs: Sequence[Run],
    cell: Callable[[dict[str, Any]], Hashable],
) -> list[dict[str, Any]]:
    """Perform the runs, add them to the study's results file and return their rows.

    Args:
        name: of the study and of its results file.
        arguments: the command line, which is stored with the results.
        args: the same, parsed.
        data: the data sets of the runs.
        runs: all runs of the study.
        cell: identifies a row; a new one replaces the old.
    """
    environment = with_files(Environment.here(args.data_dir, None), data)
    rows = perform(
        runs,
        args.results / "runs",
        environment,
        jobs=args.jobs,
        say=lambda line: print(line, flush=True),
    )
    for row in rows:
        row["result"].pop("pieces")  # studies do not test single windows
    head = {
        "provenance": provenance(f"python -m paper study {name}", environment.device, arguments)
    }
    add_rows(args.results / f"{name}.json", head, rows, cell)
    return rows
