"""Settings around the default, compared without a look at the test rows."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from fighter.benchmark.datasets import Dataset
from fighter.benchmark.result import by, compare, markdown, noise
from fighter.benchmark.runs import Record, Run
from fighter.benchmark.score import settings
from fighter.forecasting.autoconfig import MEMBERS
from fighter.forecasting.forecaster import Forecaster
from fighter.models import core_options

TITLE = "What was searched"
WORDS = """
Other settings, in percent of the errors that the default of those runs has on the same seeds
(MSE / MAE); negative is better. Test rows are not looked at: the rows before them are split once
more, into 70, 10 and 20 %, trained on, to choose the epoch by, and scored. One configuration serves
all: what helps on one data set alone is not taken. From seed to seed an error moves by {spread}.
Unless a title has another rate, one member learns at 0.001 and several at 0.002.
"""
FILE = "search.json"
NAMED = ("adjacency", "layers", "kappa", "heads", "members", "discount", "bounds")
CHANGES = ("cycle moved", "last value", "linear head", "time graph first")
SPACE: Mapping[str, Sequence[Any]] = {
    "members": (1, 2, 8),
    "lr": (1e-3, 4e-3),
    "dropout": (0.05, 0.2, 0.3),
    "width": (128, 384, 512),
    "layers": (2, 3),
    "heads": (4, 16),
    "kappa": (2, 4),
    "options": ({"channels": 8}, {"channels": 32}),
    "batch_size": (16, 64),
    "max_epochs": (6, 20),
    "weight_decay": (0.01, 0.1),
    "adjacency": ("static", "cosine", "mixed"),
    "cycle": (None,),
    "reversion": (False,),
    "bounds": (False,),
    "discount": (0.0, 4.0, 16.0),
    "lookback": (192, 288, 336, 512, 720),
    "change": CHANGES,
}


def variants() -> dict[str, dict[str, Any]]:
    """The default, and one thing changed at a time."""
    found: dict[str, dict[str, Any]] = {"default": {}}
    for name, values in SPACE.items():
        for value in values:
            label = value if name == "change" else f"{name}={value}"
            if name == "options":
                label = ", ".join(f"{option}={v}" for option, v in value.items())
            found[label] = {name: value}
    return found


def plan(
    data: Sequence[Dataset],
    labels: Sequence[str],
    seeds: Sequence[int],
    horizon: int,
    lookback: int,
) -> list[Run]:
    """All runs, the default's first."""
    runs, common = [], {"around": _default(), "lookback": lookback}
    for label in dict.fromkeys(["default", *labels]):
        options = {"lookback": lookback, **variants()[label]}
        seen, change = options.pop("lookback"), options.pop("change", None)
        runs += [
            Run(
                "fighter.benchmark.score",
                settings(
                    source, horizon, options, lookback=seen, change=change, seed=seed, inner=True
                ),
                {"variant": label, "data": source.name, "seed": seed, **common},
            )
            for source in data
            for seed in seeds
        ]  # fmt: skip
    return runs


def _default() -> str:
    """What the others are compared with, in words."""
    own = {name: p.default for name, p in inspect.signature(Forecaster).parameters.items()}
    own |= core_options("fighter") | {"members": MEMBERS}
    return ", ".join(f"{name}={own[name]}" for name in NAMED)


def table(row: Record) -> tuple[Any, ...]:
    """What settings are compared within."""
    return row["around"], row["lookback"], row["settings"]["horizon"]


def cell(row: Record) -> tuple[Any, ...]:
    """What a later run takes the place of."""
    return *table(row), row["variant"], row["data"], row["seed"]


def numbers(rows: Sequence[Record]) -> dict[str, str]:
    """What the words above ask for."""
    return {"spread": noise(rows, lambda row: (*table(row), row["data"]))}


def section(rows: Sequence[Record]) -> str:
    """A table for each default that others were compared with, the present one first."""
    tables: dict[tuple[Any, ...], list[Record]] = {}
    for row in rows:
        tables.setdefault(table(row), []).append(row)
    latest = sorted(tables, key=lambda found: found[0] != _default())
    return "\n\n".join(_table(tables[found], *found) for found in latest)


def _table(rows: Sequence[Record], around: str, lookback: int, horizon: int) -> str:
    data = [*dict.fromkeys(row["data"] for row in rows)]
    seeds = by(rows, "variant", "data")
    lines = []
    for variant, cells in compare(rows, data, ("mse", "mae")).items():
        counts = [str(len(seeds.get((variant, name), []))) for name in data]
        lines.append([variant, *cells, ", ".join(counts if len({*counts}) > 1 else counts[:1])])
    title = f"**{lookback} steps to {horizon}**, default: {around}"
    return f"{title}\n\n{markdown(['', *data, 'seeds'], lines)}"
