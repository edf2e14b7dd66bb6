"""Measure what each part of the default forecaster is worth, and where hops pay.

About 50 variants, each with all seeds and data sets: this needs a GPU.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from fighter.benchmark.datasets import Dataset
from fighter.benchmark.result import Score, by, markdown, mean
from fighter.benchmark.runs import Run
from fighter.forecasting.autoconfig import MEMBERS

from . import command, score
from .variants import Variant, VariantRow, compare, noise_sentence, seed_noise

TITLE = "What each part is worth"
WORDS = """
The default Fighter had four members when these were run: networks side by side whose mean is the
forecast. It has two now. In these tables every line is a single member, trained at its usual
learning rate of 0.001 with one thing changed, on the same windows, with the same budget and the
same seeds ({seeds}). The first line is the unchanged member (κ = 3): MSE / MAE on the test rows /
absolute error on the validation rows, which is what choices are made by. The other lines are in per
cent of it. {noise} *The frame* is everything around the network: normalisation, cycle, calendar,
reversion, bounds, and the training. *Share of hop 2* is its part of the norm that all hops send.
*Likeness* is the cosine between what hop 2 and hop 1 see, means over nodes included (later
versions leave them out): 1 is a copy, and as half of every node
stays in place by default, hops are similar by construction. Parameters are in millions, seconds are
of runs that shared a machine with others, MiB is the peak GPU memory of training; a column with
several numbers lists the data sets in order.
"""
FILE = "ablations.json"
HORIZON = LOOKBACK = 96


class AblationRow(VariantRow):
    """One row of ``ablations.json``."""

    group: str


def _kappas(*kappas: int, **options: Any) -> dict[str, Variant]:
    # κ=3 is the default: it is no setting, so that no run is made twice.
    return {
        f"κ={kappa}": Variant(options if kappa == 3 else {**options, "kappa": kappa})
        for kappa in kappas
    }


BASELINE = "one member"
DEFAULT = {BASELINE: Variant()}
FOUR = "four, as by default"
GROUPS: Mapping[str, Mapping[str, Variant]] = {
    "Members": DEFAULT | {FOUR: Variant({"members": MEMBERS})},
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


def main(arguments: Sequence[str]) -> None:
    """Run the study from the command line."""
    parser = command.study_parser("ablations", __doc__)
    parser.add_argument("--groups", nargs="+", default=[*GROUPS], choices=[*GROUPS])
    args = parser.parse_args(arguments)
    data = command.chosen_datasets(args)
    runs = plan(data, args.groups, args.seeds)
    rows: list[Any] = command.run_study("ablations", arguments, args, data, runs, cell)
    print(section(rows))


def plan(
    data: Sequence[Dataset],
    groups: Sequence[str],
    seeds: Sequence[int],
    max_epochs: int | None = None,
) -> list[Run]:
    """Return all runs; those that several tables share have the same key."""
    budget = {} if max_epochs is None else {"max_epochs": max_epochs}

    def options(variant: Variant) -> dict[str, Any]:
        single = {} if "model" in variant.options else {"members": 1}
        return {**single, **variant.options, **budget}

    return [
        Run(
            score.KIND,
            score.settings(
                dataset,
                HORIZON,
                options(variant),
                lookback=LOOKBACK,
                change=variant.change,
                seed=seed,
            ),
            {
                "group": group,
                "variant": name,
                "baseline": name == BASELINE,
                "data": dataset.name,
                "seed": seed,
            },
        )
        for group in groups
        for name, variant in GROUPS[group].items()
        for dataset in data
        for seed in seeds
    ]


def cell(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what identifies a row."""
    return row["group"], row["variant"], row["data"], row["seed"]


def words(rows: Sequence[AblationRow]) -> dict[str, str]:
    """Return the numbers that ``WORDS`` needs."""
    seeds = sorted({row["seed"] for row in rows})
    noise = seed_noise(rows, lambda row: (row["group"], row["data"]))
    return {"seeds": ", ".join(map(str, seeds)), "noise": noise_sentence(noise)}


def section(rows: Sequence[AblationRow]) -> str:
    """Return a table for each group."""
    data = [*dict.fromkeys(row["data"] for row in rows)]
    parts = []
    for group, variants in GROUPS.items():
        members = [
            _comparable(row)
            for variant in variants
            for row in rows
            if (row["group"], row["variant"]) == (group, variant)
        ]
        if members:
            title = f"**{group}: look-back {LOOKBACK}, horizon {HORIZON}**"
            parts.append(f"{title}\n\n{_table(members, data)}\n\n{_best(members, data)}")
    return "\n\n".join(parts)


def _comparable(row: AblationRow) -> AblationRow:
    """Return the row without a validation score that is not an absolute error."""
    if row["settings"]["options"].get("loss", "mae") == "mae":
        return row
    result = {name: value for name, value in row["result"].items() if name != "validation"}
    return {**row, "result": result}  # type: ignore[typeddict-item]


def _table(rows: Sequence[AblationRow], data: Sequence[str]) -> str:
    results = by(rows, "variant", "data")

    def each(variant: str, text: Callable[[list[Score]], str]) -> str:
        cells = [text(results[variant, name]) for name in data if (variant, name) in results]
        return " / ".join(cells) if any(cells) else "-"

    lines = [
        [
            variant,
            *cells,
            *(each(variant, partial(_hop, f"hop 2 {name}")) for name in ("share", "redundancy")),
            each(variant, lambda results: f"{mean(results, 'parameters') / 1e6:.1f}"),
            each(variant, lambda results: f"{mean(results, 'train_seconds'):.0f}"),
            each(variant, _memory),
        ]
        for variant, cells in compare(rows, data, ("mse", "mae", "validation")).items()
    ]
    header = ["share of hop 2", "likeness of hops 1, 2", "parameters", "seconds to train", "MiB"]
    return markdown(["", *data, *header], lines)


def _memory(results: Sequence[Score]) -> str:
    """Write the mean over the runs that measured it."""
    measured = [result for result in results if result.get("memory_mib") is not None]
    return f"{mean(measured, 'memory_mib'):.0f}" if measured else ""


def _hop(name: str, results: Sequence[Score]) -> str:
    hops = [result.get("hops", {}) for result in results]
    return f"{mean(hops, name):.2f}" if all(name in hop for hop in hops) else ""


def _best(rows: Sequence[AblationRow], data: Sequence[str]) -> str:
    """Write which variant is best on the validation rows."""
    texts = []
    for name in data:
        scores = {
            variant: mean(results, "validation")
            for (variant, where), results in by(rows, "variant", "data").items()
            if where == name and all("validation" in result for result in results)
        }
        if len(scores) > 1:
            best = min(scores, key=lambda variant: scores[variant])
            change = scores[best] / scores[BASELINE] - 1
            texts.append(f"{name} {best}" + (f" ({change:+.1%})" if change else ""))
    return f"Best on the validation rows: {', '.join(texts)}."
