"""Compare settings around the default without a look at the test rows."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from fighter.benchmark.datasets import Dataset
from fighter.benchmark.result import by, markdown
from fighter.benchmark.runs import Run
from fighter.forecasting.autoconfig import MEMBERS

from . import command, score
from .variants import Variant, VariantRow, compare, noise_sentence, seed_noise

TITLE = "Settings that were searched"
WORDS = """
These tables compare other settings with the default of their time, in per cent of its errors on the
same seeds (MSE / MAE); negative is better. The test rows are never looked at: the rows before them
are split once more into 70 % to train, 10 % to choose the epoch and 20 % to score. One
configuration serves all data sets: a setting that helps on one of them alone is not adopted.
{noise} Unless a title gives another learning rate, one member learns at 0.001 and several at 0.002.
"""
FILE = "search.json"
BASELINE = "default"
# The settings of the present default that a title shows.
DEFAULT: Mapping[str, Any] = {
    "adjacency": "lazy", "layers": 1, "kappa": 3, "heads": 8, "members": MEMBERS, "discount": 8.0,
    "bounds": True,
}  # fmt: skip
CHANGES = ("cycle moved", "last value", "linear head", "time graph first")
SPACE: Mapping[str, Sequence[Any]] = {
    "members": (1, 2, 8),
    "lr": (1e-3, 4e-3),
    "dropout": (0.05, 0.2, 0.3),
    "width": (128, 384, 512),
    "layers": (2, 3),
    "heads": (4, 16),
    "kappa": (2, 4),
    "channels": (8, 32),
    "batch_size": (16, 64),
    "max_epochs": (6, 20),
    "weight_decay": (0.01, 0.1),
    "adjacency": ("static", "cosine", "mixed"),
    "cycle": (None,),
    "reversion": (False,),
    "bounds": (False,),
    "discount": (0.0, 4.0, 16.0),
    "lookback": (192, 288, 336, 512, 720),
}


class SearchRow(VariantRow):
    """One row of ``search.json``."""

    default: dict[str, Any]  # settings of the default at that time, as a title shows them
    note: str  # how the rows were measured, where it was not by this module
    lookback: int  # look-back of the default
    reproducible: bool  # False where the library does not have the settings (any more)


def main(arguments: Sequence[str]) -> None:
    """Run the study from the command line."""
    parser = command.study_parser("search", __doc__)
    names = [*variants()]
    parser.add_argument("--variants", nargs="+", default=names, choices=names)
    parser.add_argument("--horizon", type=int, default=96)
    parser.add_argument("--lookback", type=int, default=96, help="look-back of the default")
    args = parser.parse_args(arguments)
    data = command.chosen_datasets(args)
    runs = plan(data, args.variants, args.seeds, args.horizon, args.lookback)
    rows: list[Any] = command.run_study("search", arguments, args, data, runs, cell)
    print(section(rows))


def variants() -> dict[str, Variant]:
    """Return the default, and variants with one thing changed."""
    settings = {
        f"{name}={value}": Variant({name: value})
        for name, values in SPACE.items()
        for value in values
    }
    return {BASELINE: Variant()} | settings | {name: Variant({}, name) for name in CHANGES}


def plan(
    data: Sequence[Dataset],
    names: Sequence[str],
    seeds: Sequence[int],
    horizon: int,
    lookback: int,
    max_epochs: int | None = None,
) -> list[Run]:
    """Return all runs, those of the default first."""
    budget = {} if max_epochs is None else {"max_epochs": max_epochs}
    common = {"default": dict(DEFAULT), "note": "", "lookback": lookback, "reproducible": True}
    runs = []
    for name in dict.fromkeys([BASELINE, *names]):
        variant = variants()[name]
        options = {**budget, **variant.options}
        seen = options.pop("lookback", lookback)
        tags = {"variant": name, "baseline": name == BASELINE}
        runs += [
            Run(
                score.KIND,
                score.settings(
                    dataset,
                    horizon,
                    options,
                    lookback=seen,
                    change=variant.change,
                    seed=seed,
                    inner=True,
                ),
                {**tags, "data": dataset.name, "seed": seed, **common},
            )
            for dataset in data
            for seed in seeds
        ]
    return runs


def table(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what rows of one table share."""
    default = json.dumps(row["default"], sort_keys=True)
    return default, row["note"], row["lookback"], row["settings"]["horizon"]


def cell(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what identifies a row."""
    return *table(row), row["variant"], row["data"], row["seed"]


def words(rows: Sequence[SearchRow]) -> dict[str, str]:
    """Return the numbers that ``WORDS`` needs."""
    noise = seed_noise(rows, lambda row: (*table(row), row["data"]))
    return {"noise": noise_sentence(noise)}


def section(rows: Sequence[SearchRow]) -> str:
    """Return a table for each default that others were compared with, the present one first."""
    tables: dict[tuple[Any, ...], list[SearchRow]] = {}
    for row in rows:
        tables.setdefault(table(row), []).append(row)
    present = sorted(tables.values(), key=lambda rows: rows[0]["default"] != DEFAULT)
    return "\n\n".join(map(_table, present))


def _table(rows: Sequence[SearchRow]) -> str:
    data = [*dict.fromkeys(row["data"] for row in rows)]
    seeds = by(rows, "variant", "data")
    lines = []
    for variant, cells in compare(rows, data, ("mse", "mae")).items():
        counts = [str(len(seeds.get((variant, name), []))) for name in data]
        lines.append([variant, *cells, ", ".join(counts if len({*counts}) > 1 else counts[:1])])
    first = rows[0]
    default = ", ".join(f"{name}={value}" for name, value in first["default"].items())
    note = f" ({first['note']})" if first["note"] else ""
    sizes = f"look-back {first['lookback']}, horizon {first['settings']['horizon']}"
    return f"**{sizes}**, default: {default}{note}\n\n{markdown(['', *data, 'seeds'], lines)}"
