"""What each part of the default forecaster is worth, and where hops pay."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from fighter.benchmark.datasets import Dataset
from fighter.benchmark.result import by, compare, markdown, mean, noise
from fighter.benchmark.runs import Record, Run
from fighter.benchmark.score import settings
from fighter.forecasting.autoconfig import MEMBERS

TITLE = "What each part is worth"
WORDS = """
The default Fighter has four members, networks side by side whose mean is the forecast. Here each
line is one alone, trained at its usual rate of 0.001, with one thing changed, on the same windows,
with the same budget and the same seeds ({seeds}). The first line of a table has nothing changed:
MSE / MAE of the test rows / absolute error of the rows that choose, which is what choices are made
by. The others are in percent of it; from seed to seed its MSE moves by {spread}, and less than that
says nothing. It has κ = 3. *The frame* is all around the network: normalisation, cycle,
calendar, reversion, limits, and how it is trained. *Share of hop 2*: of the norm that all hops
send. *Likeness*: cosine of what hop 2 sees to what hop 1 sees; 1 is a copy, and where half of a
node stays, as by default, hops are alike by making. Parameters are in millions, seconds of runs
that shared a machine with others, MiB the most that training took on the GPU; where a column has
several numbers, they are those of the data sets in turn.
"""
FILE = "ablations.json"
HORIZON = LOOKBACK = 96


class Variant(NamedTuple):
    """What is changed: settings of the Forecaster, or a part of its network."""

    options: Mapping[str, Any] = {}
    change: str | None = None


def _kappas(*kappas: int, **options: Any) -> dict[str, Variant]:
    # κ=3 is as it is: no setting, so no run is made twice.
    return {
        f"κ={kappa}": Variant(options if kappa == 3 else {**options, "kappa": kappa})
        for kappa in kappas
    }


DEFAULT = {"one member": Variant()}
GROUPS: Mapping[str, Mapping[str, Variant]] = {
    "Members": DEFAULT | {"four, as by default": Variant({"members": MEMBERS})},
    "Hops over series": DEFAULT | _kappas(1, 2, 4, 5, 6),  # κ=3 is the default
    "Hops over series, graph drawn from the input": DEFAULT
    | _kappas(2, 3, 4, 5, 6, adjacency="cosine"),
    "Hops over patches": DEFAULT | _kappas(1, 2, 3, 4, 5, 6, nodes="patch"),
    "Hops over time steps": DEFAULT | _kappas(1, 2, 3, 4, 5, 6, nodes="time"),
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
        "no bounds": Variant({"bounds": False}),
        "all steps weigh the same": Variant({"discount": 0.0}),
    }
    | {
        name: Variant({}, name)
        for name in (
            "cycle moved", "no basis", "no normalisation", "no affine", "last value",
            "linear head",
        )
    },
    "Another network in the frame": DEFAULT
    | {
        "NormLin": Variant({"model": "normlin"}),
        "NormLin, lr=0.0001": Variant({"model": "normlin", "lr": 1e-4}),
        "iTransformer": Variant({"model": "itransformer", "width": 512, "layers": 3}),
        "PatchTST": Variant({"model": "patchtst"}),
        "DLinear": Variant({"model": "dlinear"}),
    },
}  # fmt: skip


def plan(
    data: Sequence[Dataset],
    groups: Sequence[str],
    seeds: Sequence[int],
    max_epochs: int | None = None,
) -> list[Run]:
    """All runs; those that several tables share are made once."""
    budget = {} if max_epochs is None else {"max_epochs": max_epochs}

    def options(variant: Variant) -> dict[str, Any]:
        alone = {} if "model" in variant.options else {"members": 1}
        return {**alone, **variant.options, **budget}

    return [
        Run(
            "fighter.benchmark.score",
            settings(
                source, HORIZON, options(variant), lookback=LOOKBACK, change=variant.change,
                seed=seed,
            ),
            {"group": group, "variant": label, "data": source.name, "seed": seed},
        )
        for group in groups
        for label, variant in GROUPS[group].items()
        for source in data
        for seed in seeds
    ]  # fmt: skip


def cell(row: Record) -> tuple[Any, ...]:
    """What a later run takes the place of."""
    return row["group"], row["variant"], row["data"], row["seed"]


def numbers(rows: Sequence[Record]) -> dict[str, str]:
    """What the words above ask for."""
    seeds = sorted({row["seed"] for row in rows})
    wide = noise(rows, lambda row: (row["group"], row["data"]))
    return {"seeds": ", ".join(map(str, seeds)), "spread": wide}


def section(rows: Sequence[Record]) -> str:
    """A table for each question."""
    data = [*dict.fromkeys(row["data"] for row in rows)]
    parts = []
    for group, variants in GROUPS.items():
        found = [
            _comparable(row)
            for variant in variants
            for row in rows
            if (row["group"], row["variant"]) == (group, variant)
        ]
        if found:
            title = f"**{group}, {LOOKBACK} steps to {HORIZON}**"
            best = _best(found, data)
            parts.append(f"{title}\n\n{_table(found, data)}\n\n{best}")
    return "\n\n".join(parts)


def _comparable(row: Record) -> Record:
    """Without the validation score where it is not an absolute error."""
    if row["settings"]["options"].get("loss", "mae") == "mae":
        return row
    return {**row, "result": {k: v for k, v in row["result"].items() if k != "validation"}}


def _table(rows: Sequence[Record], data: Sequence[str]) -> str:
    results = by(rows, "variant", "data")

    def each(variant: str, told: Callable[[list[Record]], str]) -> str:
        found = [told(results[variant, d]) for d in data if (variant, d) in results]
        return " / ".join(found) if any(found) else "-"

    lines = [
        [
            variant,
            *cells,
            *(each(variant, partial(_hop, f"hop 2 {name}")) for name in ("share", "redundancy")),
            each(variant, lambda found: f"{mean(found, 'parameters') / 1e6:.1f}"),
            each(variant, lambda found: f"{mean(found, 'train_seconds'):.0f}"),
            each(variant, _memory),
        ]
        for variant, cells in compare(rows, data, ("mse", "mae", "validation")).items()
    ]
    header = ["share of hop 2", "likeness of hops 1, 2", "parameters", "seconds to train", "MiB"]
    return markdown(["", *data, *header], lines)


def _memory(results: Sequence[Record]) -> str:
    """Of those runs that it was measured in."""
    measured = [result for result in results if result["memory_mib"] is not None]
    return f"{mean(measured, 'memory_mib'):.0f}" if measured else ""


def _hop(name: str, results: Sequence[Record]) -> str:
    hops = [result["hops"] for result in results]
    return f"{mean(hops, name):.2f}" if all(name in hop for hop in hops) else ""


def _best(rows: Sequence[Record], data: Sequence[str]) -> str:
    """Which line the rows that choose would take."""
    told = []
    for name in data:
        scores = {
            variant: mean(found, "validation")
            for (variant, where), found in by(rows, "variant", "data").items()
            if where == name and all("validation" in result for result in found)
        }
        if len(scores) > 1:
            best = min(scores, key=lambda variant: scores[variant])
            than = scores[best] / next(iter(scores.values())) - 1
            told.append(f"{name} {best}" + (f" ({than:+.1%})" if than else ""))
    return f"Best by the rows that choose: {', '.join(told)}."
