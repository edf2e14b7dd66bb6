"""Settings around the default, compared without a look at the test rows."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..models import core_options
from .cells import settings
from .runs import Record, Run
from .sources import Source
from .tables import by, markdown, mean, spread

TITLE = "What was searched"
WORDS = """
Other settings, in percent of the errors that the default of these runs has on the same seeds
(MSE / MAE); negative is better. Test rows are not looked at: the rows before them are split once
more, into 70, 10 and 20 %, trained on, to choose the epoch by, and scored. One configuration serves
all: what helps on one data set alone is not taken. From seed to seed an error moves by {spread}.
The default of these runs: {default}.
"""
FILE = "search.json"
NAMED = ("adjacency", "layers", "kappa", "heads")  # of the default, to be told
HORIZON = LOOKBACK = 96
CHANGES = (
    "cycle moved", "last value", "linear head", "feed-forward", "hop dropout", "time graph first",
)  # fmt: skip
SPACE: Mapping[str, Sequence[Any]] = {
    "lr": (5e-4, 2e-3),
    "dropout": (0.05, 0.2, 0.3),
    "width": (256, 768),
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
    "limits": (False,),
    "discount": (0.0, 4.0, 16.0),
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


def plan(data: Sequence[Source], labels: Sequence[str], seeds: Sequence[int]) -> list[Run]:
    """All runs, the default's first."""
    runs = []
    for label in dict.fromkeys(["default", *labels]):
        options = dict(variants()[label])
        change = options.pop("change", None)
        runs += [
            Run(
                "cells",
                settings(
                    source, HORIZON, options, lookback=LOOKBACK, change=change, seed=seed,
                    inner=True,
                ),
                {"variant": label, "data": source.name, "seed": seed},
            )
            for source in data
            for seed in seeds
        ]  # fmt: skip
    return runs


def head(rows: Sequence[Record]) -> dict[str, str]:
    """What the words above ask for."""
    own = core_options("fighter")
    groups = [
        found for (name, _), found in by(rows, "variant", "data").items() if name == "default"
    ]
    wide = [spread(found, "mse") / mean(found, "mse") for found in groups if len(found) > 1]
    return {
        "default": ", ".join(f"{name}={own[name]}" for name in NAMED),
        "spread": f"{min(wide):.1%} to {max(wide):.1%}" if wide else "what one seed cannot tell",
    }


def section(rows: Sequence[Record]) -> str:
    """Errors of the default, and of the others against it."""
    data = [*dict.fromkeys(row["data"] for row in rows)]
    found = {(row["variant"], row["data"], row["seed"]): row["result"] for row in rows}

    def seeds(variant: str, name: str) -> list[int]:
        return [seed for label, where, seed in found if (label, where) == (variant, name)]

    def cell(variant: str, name: str) -> str:
        there = seeds(variant, name)
        if not there:
            return "-"
        ours, base = ([found[v, name, seed] for seed in there] for v in (variant, "default"))
        if variant == "default":
            return f"{mean(ours, 'mse'):.4f} / {mean(ours, 'mae'):.4f}"
        return " / ".join(f"{mean(ours, e) / mean(base, e) - 1:+.1%}" for e in ("mse", "mae"))

    lines = []
    for variant in dict.fromkeys(row["variant"] for row in rows):
        counts = [str(len(seeds(variant, name))) for name in data]
        shown = ", ".join(counts if len({*counts}) > 1 else counts[:1])
        lines.append([variant, *(cell(variant, name) for name in data), shown])
    title = f"**{LOOKBACK} steps to {HORIZON}**"
    return f"{title}\n\n{markdown(['', *data, 'seeds'], lines)}"
