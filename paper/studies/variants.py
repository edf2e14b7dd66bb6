"""Tables in which every variant stands beside an unchanged baseline."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from fighter.benchmark.result import Row, Score, mean, spread


class Variant(NamedTuple):
    """What a run changes: flat settings of the Forecaster, or a part of its network."""

    options: Mapping[str, Any] = {}
    change: str | None = None


class VariantRow(Row):
    """One run of a variant."""

    variant: str
    baseline: bool  # True where nothing is changed: the other rows are shown relative to these


R = TypeVar("R", bound=VariantRow)


def compare(
    rows: Sequence[VariantRow], data: Sequence[str], errors: Sequence[str]
) -> dict[str, list[str]]:
    """Return one cell per variant and data set, the baseline first.

    The baseline's cells hold its errors, those of the others the difference in per cent over the
    same seeds.
    """
    results = {(row["variant"], row["data"], row["seed"]): row["result"] for row in rows}
    base = baseline(rows)

    def cell(variant: str, name: str) -> str:
        ours = {s: result for (v, d, s), result in results.items() if (v, d) == (variant, name)}
        if not ours:
            return "-"
        theirs = [results[base, name, seed] for seed in ours]
        if variant == base:
            return " / ".join(f"{mean(theirs, error):.4f}" for error in errors)
        return " / ".join(difference([*ours.values()], theirs, error) for error in errors)

    variants = dict.fromkeys([base, *(row["variant"] for row in rows)])
    return {variant: [cell(variant, name) for name in data] for variant in variants}


def baseline(rows: Sequence[VariantRow]) -> str:
    """Return the name of the baseline."""
    return next(row["variant"] for row in rows if row["baseline"])


def difference(results: Sequence[Score], base: Sequence[Score], error: str) -> str:
    """Write the relative difference of an error; "-" where some run did not measure it."""
    if any(error not in result for result in (*results, *base)):
        return "-"
    return f"{mean(results, error) / mean(base, error) - 1:+.1%}"


def seed_noise(
    rows: Sequence[R], group: Callable[[R], Any], error: str = "mse"
) -> tuple[float, float] | None:
    """Return how much an error of the baseline varies over seeds, relative to its mean.

    Args:
        rows: all rows of a study.
        group: tells apart the baselines that the study has.
        error: which error (default: "mse").

    Returns:
        The smallest and the largest standard deviation of the groups; None with one seed.
    """
    groups: dict[Any, list[Score]] = {}
    for row in rows:
        if row["baseline"]:
            groups.setdefault(group(row), []).append(row["result"])
    widths = [spread(g, error) / mean(g, error) for g in groups.values() if len(g) > 1]
    return (min(widths), max(widths)) if widths else None


def noise_sentence(noise: tuple[float, float] | None) -> str:
    """Return a sentence about the noise that :func:`seed_noise` found."""
    if noise is None:
        return "There is one seed only, so the noise is not known."
    low, high = noise
    return (
        f"The standard deviation of the baseline's MSE over seeds is {low:.1%} to {high:.1%} of "
        "the MSE; smaller differences mean nothing."
    )
