"""Numbers of several seeds as text."""

import statistics
from collections.abc import Callable, Sequence
from typing import Any

from .runs import Record


def by(rows: Sequence[Record], *tags: str) -> dict[Any, list[Record]]:
    """Results grouped by tags: what differs within a group is the seed."""
    groups: dict[Any, list[Record]] = {}
    for row in rows:
        key = row[tags[0]] if len(tags) == 1 else tuple(row[tag] for tag in tags)
        groups.setdefault(key, []).append(row["result"])
    return groups


def mean(results: Sequence[Record], name: str) -> float:
    """Over seeds."""
    return statistics.fmean(result[name] for result in results)


def spread(results: Sequence[Record], name: str) -> float:
    """Standard deviation over seeds; 0 of a single one."""
    values = [result[name] for result in results]
    return statistics.stdev(values) if len(values) > 1 else 0.0


def number(results: Sequence[Record] | None, name: str, digits: int | None = None) -> str:
    """Mean ± deviation, with digits that fit the size unless given."""
    if not results:
        return "-"
    middle, wide = mean(results, name), spread(results, name)
    digits = digits or (4 if middle < 0.1 else 3)
    return f"{middle:.{digits}f}" + (f" ± {wide:.{digits}f}" if len(results) > 1 else "")


def pair(results: Sequence[Record] | None, unit: str) -> str:
    """MSE / MAE."""
    if not results:
        return "-"
    return f"{number(results, f'{unit}_mse')} / {number(results, f'{unit}_mae')}"


def count(results: Sequence[Record], name: str) -> str:
    """A whole number, the mean over those seeds that have it."""
    known = [result for result in results if result[name] is not None]
    return f"{round(mean(known, name)):,}" if known else "-"


def noise(rows: Sequence[Record], group: Callable[[Record], Any]) -> str:
    """By how much the MSE of the default moves from seed to seed, over groups of rows."""
    groups: dict[Any, list[Record]] = {}
    for row in rows:
        if row["variant"] == "default":
            groups.setdefault(group(row), []).append(row["result"])
    several = [found for found in groups.values() if len(found) > 1]
    wide = [spread(found, "mse") / mean(found, "mse") for found in several]
    return f"{min(wide):.1%} to {max(wide):.1%}" if wide else "what one seed cannot tell"


def compare(
    rows: Sequence[Record], data: Sequence[str], errors: Sequence[str]
) -> dict[str, list[str]]:
    """For each variant a cell for each data set: errors against those of the first, same seeds.

    Those of the first itself are told as they are.
    """
    found = {(row["variant"], row["data"], row["seed"]): row["result"] for row in rows}
    first, *others = dict.fromkeys(row["variant"] for row in rows)

    def cell(variant: str, name: str) -> str:
        ours = {s: result for (v, d, s), result in found.items() if (v, d) == (variant, name)}
        base = [found[first, name, seed] for seed in ours]
        if not ours:
            return "-"
        if variant == first:
            return " / ".join(f"{mean(base, error):.4f}" for error in errors)
        return " / ".join(
            "-" if error not in base[0] or any(error not in one for one in ours.values())
            else f"{mean([*ours.values()], error) / mean(base, error) - 1:+.1%}"
            for error in errors
        )  # fmt: skip

    return {variant: [cell(variant, name) for name in data] for variant in (first, *others)}


def markdown(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table."""
    rows = [header, ["---"] * len(header), *lines]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
