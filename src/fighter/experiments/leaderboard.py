"""Models ranked on the same windows of the same data, each with the same budget."""

import hashlib
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..data import catalogue
from ..data.files import PARQUET, TEXT
from ..errors import FighterError
from ..forecaster import COLUMNS
from ..models import CORES
from .cells import read, settings
from .page import read_results
from .provenance import provenance
from .runs import Place, Record, Run, perform, write_rows
from .tables import by, count, markdown, mean, number

TITLE = "Leaderboard"
WORDS = """
Every model sees the same windows, is trained with the same loss (absolute error), the same number
of epochs and the same rule for stopping, and has its weights averaged; the epoch is chosen on
validation, and every test window is scored. Errors are in deviations of the training rows: mean ±
deviation over seeds. Fighter is `Forecaster(horizon, lookback)` and nothing else. The others are as
their papers have them, in the same frame of window normalisation; each has the learning rate, of
{rates}, that was best on validation at the first horizon. A learned cycle is part of Fighter and
CycleNet only.

*Against*: the difference in MSE to the best of the other models, in how many seeds the model was
better, and the probability of a mean difference at least as large over windows if each stretch of
two horizons were as likely to favour either (signs drawn 10,000 times).
"""
FILE = "leaderboard.json"
RATES = (1e-3, 3e-4, 1e-4)
BENCHMARKS = ("weather", "eia_demand_hourly", "ETTh1")
LOOKBACK, HORIZONS = 96, (96, 192)  # of benchmarks, unless given
PEER: Mapping[str, Any] = {"cycle": None, "calendar": False}
# What differs from the defaults: sizes as published, which suit data sets of this kind.
OWN: Mapping[str, Mapping[str, Any]] = {
    "fighter": {},
    "cyclenet": {"calendar": False},
    "itransformer": {**PEER, "width": 512, "layers": 3},
}


class Source(NamedTuple):
    """A data set to rank on."""

    name: str
    path: str | None = None  # where the catalogue does not know it


def options_of(model: str) -> dict[str, Any]:
    """The settings of a Forecaster that make the model of the paper."""
    if model not in CORES:
        raise FighterError(f"models: {model!r} is not one of {', '.join(CORES)}")
    own = OWN.get(model, PEER if CORES[model].learned else {})
    return {"model": model, **own}


def sources(
    data: Sequence[str], data_dir: Path | None, say: Callable[[str], None] = lambda line: None
) -> list[Source]:
    """The data sets that are meant: names of the catalogue, and files.

    Without any, those in ``data_dir``, a folder or a file; without that, the benchmarks at hand.
    """
    if data:
        return [_source(text) for text in data]
    if data_dir is None:
        found = [Source(name) for name in BENCHMARKS if catalogue.at_hand(name)]
        if not found:
            catalogue.find(BENCHMARKS[0])  # raises, and tells how to get it
        return found
    if not data_dir.is_dir():
        return [_source(str(data_dir))]
    found = []
    for file in sorted(data_dir.iterdir()):
        if not file.name.casefold().endswith((*TEXT, *PARQUET)):
            continue
        known, part = catalogue.owner(file.name) or (None, "")
        if known is None:
            found.append(Source(_stem(file), str(file)))
        elif known.freq and part == "all":
            found.append(Source(known.name))
        else:
            say(f"{file.name} is left out: part {part} of {known.name} is nothing to rank on")
    if not found:
        raise FighterError(f"{data_dir} has no CSV or Parquet file with series to rank models on")
    return [*dict.fromkeys(found)]


def _source(text: str) -> Source:
    path = Path(text)
    if text.casefold().endswith((*TEXT, *PARQUET)) or path.exists():
        return Source(_stem(path), text)
    return Source(catalogue.entry(text)[0].name)


def _stem(file: Path) -> str:
    return file.name.partition(".")[0]


@dataclass(frozen=True)
class Contest:
    """What is ranked on what.

    Args:
        models: names of the registry.
        horizons: of each data set; of the first one learning rates are chosen.
        lookback: 96 for known data sets, else chosen by the Forecaster, unless given.
        seeds: of each model that learns.
        lr: learning rate of all but Fighter; the best of three on validation unless given.
        max_epochs: as in the Forecaster.
    """

    models: tuple[str, ...]
    horizons: Mapping[Source, tuple[int, ...]]
    lookback: int | None = None
    seeds: tuple[int, ...] = (0, 1, 2)
    lr: float | None = None
    max_epochs: int | None = None

    def __post_init__(self) -> None:
        if not self.seeds:
            raise FighterError("seeds: give at least one, such as 0")
        for model in self.models:
            options_of(model)  # raises where there is none

    def run(self, source: Source, horizon: int, model: str, seed: int, rate: float | None) -> Run:
        """One cell."""
        lookback = self.lookback or (LOOKBACK if source.path is None else None)
        chosen = {"lr": rate, "max_epochs": self.max_epochs if CORES[model].learned else None}
        options = options_of(model) | {k: v for k, v in chosen.items() if v is not None}
        return Run(
            "cells",
            settings(source.name, horizon, options, lookback=lookback, path=source.path, seed=seed),
            {"data": source.name, "horizon": horizon, "model": COLUMNS[model], "seed": seed}
            | ({} if rate is None else {"lr": rate}),
        )

    def trials(self) -> dict[tuple[Source, str], dict[float, Run]]:
        """Runs to choose a learning rate by, for each data set and model that has the choice."""
        return {
            (source, model): {
                rate: self.run(source, horizons[0], model, self.seeds[0], rate) for rate in RATES
            }
            for source, horizons in self.horizons.items()
            for model in self.models
            if model != "fighter" and CORES[model].learned and self.lr is None
        }

    def cells(self, rates: Mapping[tuple[Source, str], float]) -> list[Run]:
        """All cells, the longest first, but for those that still wait for their learning rate."""
        waiting = self.trials().keys() - rates.keys()
        given = {m: self.lr for m in self.models if m != "fighter" and CORES[m].learned}
        return [
            self.run(source, horizon, model, seed, rates.get((source, model), given.get(model)))
            for source, horizons in self.horizons.items()
            for horizon in sorted(horizons, reverse=True)
            for model in self.models
            if (source, model) not in waiting
            for seed in (self.seeds if CORES[model].learned else self.seeds[:1])
        ]


def leaderboard(
    contest: Contest,
    place: Place,
    folder: Path,
    *,
    jobs: int = 1,
    say: Callable[[str], None] = lambda line: None,
) -> None:
    """Train and score; keep the cells in ``folder``, beside those of other calls."""
    for source, horizons in contest.horizons.items():
        _check(source, max(horizons), place)
    trials = contest.trials()
    first = [run for runs in trials.values() for run in runs.values()]
    # Cells that do not wait for a learning rate are made meanwhile.
    runs = [*first, *contest.cells({})]
    records = perform(runs, folder / "runs", place, jobs=jobs, say=say)
    error = {r.key: row["result"]["validation"] for r, row in zip(runs, records, strict=True)}
    rates = {
        key: min(tried, key=lambda rate, tried=tried: error[tried[rate].key])
        for key, tried in trials.items()
    }
    rows = perform(contest.cells(rates), folder / "runs", place, jobs=jobs, say=say)
    path = folder / FILE
    before = read_results(path) if path.exists() else {"rows": [], "data": {}}
    sums = {source.name: _checksum(source, place) for source in contest.horizons}
    head = {
        "provenance": provenance("fighter", place.device),
        "rates": ", ".join(f"{rate:g}" for rate in RATES),
        "data": before["data"] | sums,
    }
    made = {_cell(row) for row in rows}
    kept = [row for row in before["rows"] if _cell(row) not in made]
    write_rows(path, head, kept + [{**row, "command": command(row["settings"])} for row in rows])


def _check(source: Source, horizon: int, place: Place) -> None:
    """Windows must fit into the rows; told before anything is trained."""
    _, split = read(source.name, source.path, place.data_dir)
    rows = split.val.stop - split.val.start
    if horizon > rows:
        raise FighterError(
            f"horizons: {horizon} steps do not fit into the {rows} rows of {source.name} that "
            "choose the epoch, 10 % of all: take fewer"
        )


def command(chosen: Mapping[str, Any]) -> str:
    """What makes a cell again."""
    options = chosen["options"]
    flags = {
        "models": options["model"],
        "horizons": chosen["horizon"],
        "seeds": chosen["seed"],
        "lookback": chosen["lookback"],
        "lr": options.get("lr"),
        "max-epochs": options.get("max_epochs"),
    }
    words = ["fighter", "leaderboard", chosen["path"] or chosen["data"]]
    for flag, value in flags.items():
        words += [] if value is None else [f"--{flag}", str(value)]
    return shlex.join(words)


def _cell(row: Record) -> tuple[Any, ...]:
    """What a later run takes the place of."""
    chosen = row["settings"]
    return (
        chosen["data"],
        chosen["path"],
        row["result"]["lookback"],
        *(row[tag] for tag in ("horizon", "model", "seed")),
    )


def _checksum(source: Source, place: Place) -> str:
    path = Path(source.path) if source.path else catalogue.find(source.name, place.data_dir)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def horizons_for(source: Source, place: Place) -> tuple[int, ...]:
    """Of a benchmark 96 and 192 steps; else a season, and a twentieth of the rows at most."""
    if source.path is None:
        return HORIZONS
    data, _ = read(source.name, source.path, place.data_dir)
    season = (*data.freq.season, 24)[0]
    return (max(min(season, data.length // 20), 1),)


def section(rows: Sequence[Record]) -> str:
    """A table for each task, and one of ranks if there are several."""
    tasks: dict[tuple[str, int, int], list[Record]] = {}
    for row in rows:
        tasks.setdefault((row["data"], row["result"]["lookback"], row["horizon"]), []).append(row)
    parts = []
    for (data, lookback, horizon), cells in tasks.items():
        series, windows = (cells[0]["result"][name] for name in ("series", "windows"))
        title = f"**{data}: {lookback} steps to {horizon}**, {series} series, {windows:,} windows"
        parts.append(f"{title}\n\n{_table(by(cells, 'model'))}")
    ranks = _ranks([by(cells, "model") for cells in tasks.values()])
    return "\n\n".join([*ranks, *parts])


def _ranks(tasks: Sequence[Mapping[str, list[Record]]]) -> list[str]:
    """Mean place over the tasks that have all models of the largest field."""
    field = max(tasks, key=len)
    tasks = [task for task in tasks if len(task) == len(field)]
    if len(tasks) < 2 or len(field) < 2:
        return []
    places = {
        model: np.array(
            [[_place(task, model, error) for error in ("mse", "mae")] for task in tasks]
        )
        for model in field
    }
    lines = [
        [model, *(f"{rank:.1f}" for rank in found.mean(0)), str((found[:, 0] == 1).sum())]
        for model, found in sorted(places.items(), key=lambda item: item[1].mean())
    ]
    title = f"**Mean rank of {len(field)} models over {len(tasks)} tasks**"
    header = ["model", "rank by MSE", "rank by MAE", "first by MSE"]
    return [f"{title}\n\n{markdown(header, lines)}"]


def _place(task: Mapping[str, list[Record]], model: str, error: str) -> int:
    ours = mean(task[model], error)
    return 1 + sum(mean(results, error) < ours for results in task.values())


def _table(models: Mapping[str, list[Record]]) -> str:
    order = sorted(models, key=lambda model: mean(models[model], "mse"))
    lines = []
    for model in order:
        results = models[model]
        other = next((name for name in order if name != model), None)
        lines.append(
            [
                model,
                number(results, "mse", 4),
                number(results, "mae", 4),
                "-" if other is None else _against(results, models[other], other),
                count(results, "parameters"),
                count(results, "best_epoch"),
                f"{mean(results, 'train_seconds'):.0f}",
                count(results, "memory_mib"),
            ]
        )
    header = [
        "model", "MSE", "MAE", "against", "parameters", "best epoch", "seconds to train",
        "GPU memory, MiB",
    ]  # fmt: skip
    return markdown(header, lines)


def _against(results: Sequence[Record], others: Sequence[Record], name: str) -> str:
    """Difference to another model, by seeds and by windows."""
    difference = mean(results, "mse") / mean(others, "mse") - 1
    paired = others if len(others) == len(results) else [others[0]] * len(results)
    won = sum(a["mse"] < b["mse"] for a, b in zip(results, paired, strict=True))
    p = sign_test(*(np.mean([r["pieces"]["mse"] for r in side], 0) for side in (results, others)))
    return f"{difference:+.1%} {name}, {won} of {len(results)} seeds, p = {p:.3g}"


def sign_test(ours: np.ndarray, others: np.ndarray, draws: int = 9_999) -> float:
    """The share of random signs under which the mean difference is at least as large as it is."""
    difference = ours - others
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (draws, len(difference)))
    larger = np.abs(signs @ difference) >= abs(difference.sum()) - 1e-12
    return float((1 + larger.sum()) / (1 + draws))
