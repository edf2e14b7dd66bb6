"""The paper's Table 1 (forecasting): every model on the same windows, in both units."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fighter.benchmark.result import by, count, markdown, pair
from fighter.benchmark.runs import Environment, Record, Run
from fighter.data.datasets import catalogue

from . import forecasting, quoted
from .scale import Scale

TITLE = "Table 1: forecasting"
WORDS = """
All models share one recipe: look-back 96, rows split 70/15/15, batch size 32, at most {epochs}
epochs with early stopping (patience {patience}), one block, width {width}, {heads} heads, AdamW at
1e-4 with warm-up and cosine decay, MSE loss, no weight averaging. The epoch is chosen on the
validation rows, and every test window is scored. Cells are MSE / MAE, mean ± standard deviation
over {seeds} seeds (PatchTST has one seed on 100 series, where it takes ten times as long as the
others). Windows are normalised where a row says so, and for PatchTST and iTransformer, whose papers
do the same.

The paper says that its data are standardised. *Same, in MinMax* gives the errors of the same
predictions in units of each series' range in the training rows. *Trained in MinMax* is a network
that was trained on data in these units, with its errors in both. *Sentinels cleaned*: Weather marks
missing values by -9999, which inflates the standard deviation of two series until they hardly
count; here these values are interpolated before scaling. The last two were run for the paper's
models at the shorter horizon only. The seasonal naive forecast looks back one day, which is 144
steps on Weather.
"""
LR = 1e-4  # usual for these models, as is a patience of 3


class Row(NamedTuple):
    """A model of the table; ``sizes`` are those sizes of the scale that it takes."""

    model: str
    options: dict[str, Any]
    sizes: tuple[str, ...] = ("width", "heads")
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
VARIANTS: dict[str, dict[str, Any]] = {  # settings in which a run differs from the standard one
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


def find_data(environment: Environment, electricity: str | None) -> dict[str, str | None]:
    """Find Weather, and Electricity or its stand-in; the value is a path where one was given.

    Only the whole Electricity file counts: parts of it are not the benchmark.
    """
    paths: dict[str, str | None] = {}
    for name in ("weather", "electricity", "eia_demand_hourly"):
        if name == "electricity" and electricity:
            paths[name] = electricity
        elif name == "eia_demand_hourly" and "electricity" in paths:
            continue
        elif catalogue.at_hand(name, environment.data_dir):
            paths[name] = None
    if not paths:
        catalogue.find("weather", environment.data_dir)  # raises and says how to get it
    return paths


def is_slow(label: str, data: str) -> bool:
    """Return whether a model takes ten times as long as the others, so that it gets one seed."""
    return label == "PatchTST" and data != "weather"


def table_run(
    label: str, data: str, horizon: int, seed: int, scale: Scale, variant: str = "standard", **more
) -> Run:
    """Return the run for one cell of the table and one seed; ``more`` are other settings."""
    row = ROWS[label]
    sizes = {name: getattr(scale, name) for name in row.sizes}
    settings = forecasting.settings(
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
    return Run(forecasting.__name__, settings, tags)


def plan(scale: Scale, environment: Environment, electricity: str | None = None) -> list[Run]:
    """Return all runs, the longest first.

    Other units and cleaned data are for the paper's five models at the shorter horizon only: they
    answer whether the training scale matters, and the time is better spent on seeds.
    """
    return [
        table_run(label, data, horizon, seed, scale, variant, path=path)
        for horizon in sorted(scale.horizons, reverse=True)
        for label in ROWS
        for data, path in find_data(environment, electricity).items()
        for variant in VARIANTS
        for seed in (scale.seeds[:1] if label in NAIVE or is_slow(label, data) else scale.seeds)
        if variant == "standard"
        or (horizon == min(scale.horizons) and (label in quoted.ACCURACY or label in NAIVE))
        if not (variant == "clean" and data != "weather")
        if not (variant == "minmax" and label in NAIVE)  # nothing is trained
    ]


def section(rows: Sequence[Record], pictures: Path) -> str:
    """Render a table for each data set and horizon."""
    del pictures
    parts = []
    for data, horizon in dict.fromkeys((row["data"], row["horizon"]) for row in rows):
        cells = [row for row in rows if (row["data"], row["horizon"]) == (data, horizon)]
        title = f"**{TITLES[data]}, {forecasting.LOOKBACK} steps to {horizon}**"
        parts.append(f"{title}\n\n{_table(cells)}")
    return "\n\n".join(parts)


def _table(rows: Sequence[Record]) -> str:
    data, horizon = rows[0]["data"], rows[0]["horizon"]
    groups = by(rows, "model", "variant")
    paper = quoted.FORECASTS.get((str(PAPER_NAME.get(data, data)), horizon), {})
    lines = []
    for label in ROWS:
        if (label, "standard") not in groups:
            continue
        main, other = groups[label, "standard"], groups.get((label, "minmax"))
        lines.append(
            [
                label,
                "{:.3f} / {:.3f}".format(*paper[label]) if label in paper else "-",
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
