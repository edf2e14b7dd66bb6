"""Settings around the default, compared without a look at the test rows."""

from collections.abc import Mapping, Sequence
from typing import Any

from .cells import settings
from .runs import Record, Run
from .sources import Source
from .tables import by, markdown, mean

TITLE = "What was searched"
WORDS = """
The default with one setting changed, in percent of its errors (MSE / MAE); negative is better. Test
rows are not looked at: the rows before them are split once more, into 70, 10 and 20 %, trained on,
to choose the epoch by, and scored. One configuration serves all: what helps on one data set alone
is not taken, and differences within the spread of seeds mean nothing.
"""
FILE = "search.json"
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
    "discount": (0.0, 1.0),
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


def section(rows: Sequence[Record]) -> str:
    """Errors of the default, and of the others against it."""
    data = [*dict.fromkeys(row["data"] for row in rows)]
    found = by(rows, "variant", "data")

    def cell(variant: str, name: str) -> str:
        pairs = [
            (mean(found[variant, name], error), mean(found["default", name], error))
            for error in ("mse", "mae")
        ]
        if variant == "default":
            return " / ".join(f"{ours:.4f}" for ours, _ in pairs)
        return " / ".join(f"{ours / base - 1:+.1%}" for ours, base in pairs)

    lines = [
        [variant, *(cell(variant, name) for name in data)]
        for variant in dict.fromkeys(row["variant"] for row in rows)
    ]
    seeds = len({row["seed"] for row in rows})
    title = f"**{LOOKBACK} steps to {HORIZON}, {seeds} seed{'s' * (seeds > 1)}**"
    return f"{title}\n\n{markdown(['', *data], lines)}"
