"""Stored rows, and text made of the numbers of several seeds."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, TypedDict

Record = dict[str, Any]
Results = Sequence[Mapping[str, Any]]  # of one table cell, for several seeds


class Score(TypedDict):
    """What one run measured; errors are in standard deviations of the training rows."""

    mse: float
    mae: float
    validation: NotRequired[float]  # the loss on the validation rows at the best epoch
    lookback: NotRequired[int]
    windows: NotRequired[int]  # number of test windows
    series: NotRequired[int]
    epochs: int
    best_epoch: int | None  # None where nothing is trained
    parameters: int
    train_seconds: float
    memory_mib: NotRequired[int | None]  # peak GPU memory; None on a CPU
    pieces: NotRequired[dict[str, list[float]]]  # errors of consecutive blocks of test windows
    hops: NotRequired[dict[str, float]]  # what the hops of the network do, where it was measured


class Row(TypedDict):
    """One stored run; tables add fields of their own."""

    data: str
    seed: int
    settings: dict[str, Any]
    commit: str
    seconds: float
    result: Score


def by(rows: Sequence[Mapping[str, Any]], *tags: str) -> dict[Any, list[Any]]:
    """Group the results of rows by tags, so that only the seed differs within a group."""
    groups: dict[Any, list[Any]] = {}
    for row in rows:
        key = row[tags[0]] if len(tags) == 1 else tuple(row[tag] for tag in tags)
        groups.setdefault(key, []).append(row["result"])
    return groups


def mean(results: Results, name: str) -> float:
    """Return the mean over seeds."""
    return statistics.fmean(result[name] for result in results)


def spread(results: Results, name: str) -> float:
    """Return the standard deviation over seeds; 0 for one seed."""
    values = [result[name] for result in results]
    return statistics.stdev(values) if len(values) > 1 else 0.0


def number(results: Results | None, name: str, digits: int | None = None) -> str:
    """Write mean ± standard deviation (default digits: 4 below 0.1, else 3)."""
    if not results:
        return "-"
    middle, wide = mean(results, name), spread(results, name)
    digits = digits or (4 if middle < 0.1 else 3)
    return f"{middle:.{digits}f}" + (f" ± {wide:.{digits}f}" if len(results) > 1 else "")


def pair(results: Results | None, unit: str) -> str:
    """Write MSE / MAE in a unit, such as "scaled"."""
    if not results:
        return "-"
    return f"{number(results, f'{unit}_mse')} / {number(results, f'{unit}_mae')}"


def count(results: Results, name: str) -> str:
    """Write a mean as a whole number, over the seeds that have it."""
    measured = [result for result in results if result[name] is not None]
    return f"{round(mean(measured, name)):,}" if measured else "-"


def markdown(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Write a Markdown table."""
    rows = [header, ["---"] * len(header), *lines]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
