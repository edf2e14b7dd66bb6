"""The paper's Table 1, forecasting: every model on the same windows, in both units."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fighter.benchmark.result import by, count, markdown, pair
from fighter.benchmark.runs import Environment, Record, Run
from fighter.data.datasets import catalogue

from . import paper
from .forecasting import LOOKBACK, settings
from .scale import Scale

TITLE = "Table 1: forecasting"
WORDS = """
Look-back 96, split 70/15/15 by rows, batch 32, at most {epochs} epochs (stopped after {patience}
without a better validation error), one block, width {width}, {heads} heads, AdamW at 1e-4 with
warm-up and cosine, MSE, no weight averaging. The epoch is chosen on validation, every test window
is scored; MSE / MAE, mean ± deviation of {seeds} seeds (PatchTST on 100 series: of one, it takes
ten times as long as the others). One recipe for all models. Windows are normalised where a row says
so, and for PatchTST and iTransformer, whose papers do.

The paper says that its data are standardised. *Same, in MinMax*: the same predictions, their errors
in units of each series' range in the training rows. *Trained in MinMax*: a network that sees these
units and is trained in them, shown in both. *Sentinels cleaned*: Weather marks missing values by
-9999, which inflates the deviation of two series until they hardly count; here they are
interpolated before scaling. These two are for the paper's models at the shorter horizon. The
seasonal naive forecast looks back one day, which on Weather is 144 steps.
"""
LR = 1e-4  # the usual one for these models, as is a patience of 3


class Row(NamedTuple):
    """A model of the table."""

    model: str
    options: dict[str, Any]
    sizes: tuple[str, ...] = ("width", "heads")  # which of the common sizes it has
    normalise: bool = False


TIME = {"nodes": "time", "adjacency": "dynamic", "kappa": 3, "layers": 1}
NAIVE = {
    "repeat last": Row("repeat", {}, ()),
    "window mean": Row("mean", {}, ()),
    "seasonal naive": Row("naive", {}, ()),
}
ROWS = {
    "Autoformer": Row("autoformer", {"layers": 1}),
    "Informer": Row("informer", {"layers": 1}),
    "Reformer": Row("reformer", {"layers": 1, "rounds": 2}),
    "Transformer": Row("transformer", {"layers": 1}),
    "Fighter κ=3": Row("fighter", TIME),
    "Fighter κ=3, as printed": Row("fighter", {**TIME, "plain": True}),
    "Transformer, encoder–decoder": Row("seq2seq", {"layers": 1}),
    "GFSA": Row("gfsa", {"layers": 1}),
    "GCN, lag graph": Row("gcn", {"layers": 1}, ("width",)),
    "Transformer, windows normalised": Row("transformer", {"layers": 1}, normalise=True),
    "Fighter κ=3, windows normalised": Row("fighter", TIME, normalise=True),
    "DLinear": Row("dlinear", {}, ()),
    "PatchTST": Row("patchtst", {"layers": 1}, normalise=True),
    "iTransformer": Row("itransformer", {"layers": 1}, normalise=True),
    **NAIVE,
}
# Of the same predictions, or of a training of its own.
VARIANTS: dict[str, dict[str, Any]] = {
    "standard": {},
    "minmax": {"units": "minmax"},
    "clean": {"clean": True},
}


TITLES = {
    "weather": "Weather (21 series)",
    "electricity": "Electricity (100 of 321 series, by variance)",
    "eia_demand_hourly": "Hourly load (100 of 118 series, by variance): a stand-in for Electricity",
}
PAPER_NAME = {"eia_demand_hourly": "electricity"}


def data_sets(place: Environment, electricity: str | None) -> dict[str, str | None]:
    """Data sets at hand, with a path where one was given: Weather, and Electricity or its stand-in.

    Only the whole Electricity file counts: slices of it are not the benchmark.
    """
    found: dict[str, str | None] = {}
    for name in ("weather", "electricity", "eia_demand_hourly"):
        if name == "electricity" and electricity:
            found[name] = electricity
        elif name == "eia_demand_hourly" and "electricity" in found:
            continue
        elif catalogue.at_hand(name, place.data_dir):
            found[name] = None
    if not found:
        catalogue.find("weather", place.data_dir)  # raises, and tells how to get it
    return found


def slow(label: str, data: str) -> bool:
    """Whether a step takes ten times as long as that of the other models: one seed has to do."""
    return label == "PatchTST" and data != "weather"


def run_of(
    label: str, data: str, horizon: int, seed: int, scale: Scale, variant: str = "standard", **more
) -> Run:
    """One cell of the table, of one seed; ``more`` are other settings of the run."""
    row = ROWS[label]
    sizes = {name: getattr(scale, name) for name in row.sizes}
    chosen = settings(
        data,
        horizon,
        row.model,
        {**row.options, **sizes, **more.pop("options", {})},
        seed=seed,
        epochs=scale.epochs,
        patience=scale.patience,
        lr=LR,
        normalise=row.normalise,
        rows=scale.rows,
        **VARIANTS[variant],
        **more,
    )
    tags = {"data": data, "horizon": horizon, "model": label, "variant": variant, "seed": seed}
    return Run("forecasting", chosen, tags)


def plan(scale: Scale, place: Environment, electricity: str | None = None) -> list[Run]:
    """All runs, the longest first.

    Other units and cleaned data are for the paper's five models at the shorter horizon only: they
    answer whether the training scale matters, and the time is better spent on seeds.
    """
    return [
        run_of(label, data, horizon, seed, scale, variant, path=path)
        for horizon in sorted(scale.horizons, reverse=True)
        for label in ROWS
        for data, path in data_sets(place, electricity).items()
        for variant in VARIANTS
        for seed in (scale.seeds[:1] if label in NAIVE or slow(label, data) else scale.seeds)
        if variant == "standard"
        or (horizon == min(scale.horizons) and (label in paper.ACCURACY or label in NAIVE))
        if not (variant == "clean" and data != "weather")
        if not (variant == "minmax" and label in NAIVE)  # nothing is trained
    ]


def section(rows: Sequence[Record], pictures: Path) -> str:
    """A table for each data set and horizon."""
    del pictures
    parts = []
    for data, horizon in dict.fromkeys((row["data"], row["horizon"]) for row in rows):
        cells = [row for row in rows if (row["data"], row["horizon"]) == (data, horizon)]
        parts.append(f"**{TITLES[data]}, {LOOKBACK} steps to {horizon}**\n\n{_table(cells)}")
    return "\n\n".join(parts)


def _table(rows: Sequence[Record]) -> str:
    data, horizon = rows[0]["data"], rows[0]["horizon"]
    groups = by(rows, "model", "variant")
    lines = []
    for label in ROWS:
        if (label, "standard") not in groups:
            continue
        quoted = paper.FORECASTS.get((PAPER_NAME.get(data, data), horizon), {}).get(label)
        main, other = groups[label, "standard"], groups.get((label, "minmax"))
        lines.append(
            [
                label,
                "-" if quoted is None else "{:.3f} / {:.3f}".format(*quoted),
                pair(main, "standard"),
                pair(main, "minmax"),
                pair(other, "minmax"),
                pair(other, "standard"),
                *([pair(groups.get((label, "clean")), "standard")] if data == "weather" else []),
                count(main, "parameters"),
                count(main, "best_epoch"),
            ]
        )
    source = "paper, on Electricity" if data in PAPER_NAME else "paper"
    header = [
        "model", source, "standardised", "same, in MinMax", "trained in MinMax, in MinMax",
        "trained in MinMax, standardised", *(["sentinels cleaned"] if data == "weather" else []),
        "parameters", "best epoch",
    ]  # fmt: skip
    return markdown(header, lines)
