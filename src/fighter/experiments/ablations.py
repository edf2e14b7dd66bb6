"""What each part of the default forecaster is worth, and where hops pay."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from .cells import settings
from .runs import Record, Run
from .sources import Source
from .tables import by, count, markdown, mean, number

TITLE = "What each part is worth"
WORDS = """
Each line is the default Fighter with one thing changed, on the same windows, with the same budget;
the first line of a table is the default itself. MSE and MAE are of the test rows; *validation* is
the absolute error that choices are made by. *Share of hop 2*: of the norm that all hops send.
*Likeness*: cosine of what hop 2 sees to what hop 1 sees; 1 is a copy.
"""
FILE = "ablations.json"
HORIZON = LOOKBACK = 96


class Variant(NamedTuple):
    """What is changed: settings of the Forecaster, or a part of its network."""

    options: Mapping[str, Any] = {}
    change: str | None = None


def _kappas(first: int = 1, **options: Any) -> dict[str, Variant]:
    others = {f"κ={kappa}": Variant({**options, "kappa": kappa}) for kappa in range(first, 7)}
    return {**others, "κ=3": Variant(options)}  # κ as it is: no setting, so no run is made twice


DEFAULT = {"default": Variant()}
GROUPS: Mapping[str, Mapping[str, Variant]] = {
    "Hops over series": DEFAULT | _kappas(),
    "Hops over series, graph drawn from the input": DEFAULT | _kappas(2, adjacency="cosine"),
    "Hops over patches": DEFAULT | _kappas(nodes="patch"),
    "Hops over time steps": DEFAULT | _kappas(nodes="time"),
    "The graph": DEFAULT
    | {
        "no part stays": Variant({"adjacency": "static"}),
        "three quarters stay": Variant({}, "lazy hops"),
        "centred hops": Variant({}, "centred hops"),
        "plain softmax(QKᵀ)": Variant({"adjacency": "dynamic"}),
        "normalised queries and keys": Variant({"adjacency": "cosine"}),
        "mixed": Variant({"adjacency": "mixed"}),
    },
    "The weights of hops": DEFAULT
    | {name: Variant({}, name) for name in ("scalar hops", "hop dropout", "feed-forward")},
    "A time graph before the series graph": DEFAULT | {"both": Variant({}, "time graph first")},
    "Layers": DEFAULT | {f"{count} layers": Variant({"layers": count}) for count in (2, 3)},
    "The frame": DEFAULT
    | {
        "no cycle": Variant({"cycle": None}),
        "no calendar": Variant({"calendar": False}),
        "no reversion": Variant({"reversion": False}),
        "no average of weights": Variant({"ema": 0.0}),
        "squared error": Variant({"loss": "mse"}),
        "no limits": Variant({"limits": False}),
        "all steps weigh the same": Variant({"discount": 0.0}),
    }
    | {
        name: Variant({}, name)
        for name in (
            "cycle moved", "no basis", "no normalisation", "no affine", "last value",
            "linear head",
        )
    },
}  # fmt: skip


def plan(
    data: Sequence[Source],
    groups: Sequence[str],
    seeds: Sequence[int],
    max_epochs: int | None = None,
) -> list[Run]:
    """All runs; those that several tables share are made once."""
    budget = {} if max_epochs is None else {"max_epochs": max_epochs}
    return [
        Run(
            "cells",
            settings(
                source, HORIZON, {**variant.options, **budget}, lookback=LOOKBACK,
                change=variant.change, seed=seed,
            ),
            {"group": group, "variant": label, "data": source.name, "seed": seed},
        )
        for group in groups
        for label, variant in GROUPS[group].items()
        for source in data
        for seed in seeds
    ]  # fmt: skip


def section(rows: Sequence[Record]) -> str:
    """A table for each question and data set."""
    parts = []
    for group, data in dict.fromkeys((row["group"], row["data"]) for row in rows):
        found = by([r for r in rows if (r["group"], r["data"]) == (group, data)], "variant")
        parts.append(f"**{group}: {data}, {LOOKBACK} steps to {HORIZON}**\n\n{_table(found)}")
    return "\n\n".join(parts)


def _table(variants: Mapping[str, list[Record]]) -> str:
    header = [
        "", "MSE", "MAE", "validation", "MSE against the first", "share of hop 2",
        "likeness of hops 1, 2", "parameters", "seconds to train",
    ]  # fmt: skip
    base = mean(next(iter(variants.values())), "mse")
    lines = [
        [
            label,
            *(number(results, name, 4) for name in ("mse", "mae", "validation")),
            f"{mean(results, 'mse') / base - 1:+.1%}",
            *(_hop(results, f"hop 2 {name}") for name in ("share", "redundancy")),
            count(results, "parameters"),
            f"{mean(results, 'train_seconds'):.0f}",
        ]
        for label, results in variants.items()
    ]
    return markdown(header, lines)


def _hop(results: Sequence[Record], name: str) -> str:
    hops = [result["hops"] for result in results]
    return f"{mean(hops, name):.2f}" if all(name in hop for hop in hops) else "-"
