"""Rank models on the same windows of the same data, each with the same training budget."""

import math
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, NotRequired

import numpy as np

from ..data.columns import listing
from ..errors import FighterError, did_you_mean
from ..models import MODELS
from .datasets import Dataset, read, with_files
from .provenance import provenance
from .result import Record, Row
from .runs import Environment, Run, add_rows, perform
from .score import settings

KIND = "fighter.benchmark.score"
FILE = "leaderboard.json"
RATES = (1e-3, 3e-4, 1e-4)
LOOKBACK, HORIZONS = 96, (96, 192)  # defaults for data sets of the catalogue
# The baselines are built as published: without the parts that only Fighter has.
PEER: Mapping[str, Any] = {
    "cycle": None, "calendar": False, "reversion": False, "bounds": False, "discount": 0.0,
}  # fmt: skip
# Published sizes for data sets of this kind, where they differ from the defaults.
OWN: Mapping[str, Mapping[str, Any]] = {
    "fighter": {},
    "cyclenet": {**PEER, "cycle": "auto"},
    "itransformer": {**PEER, "width": 512, "layers": 3},
}


class Cell(Row):
    """One row of ``leaderboard.json``."""

    horizon: int
    model: str
    lr: NotRequired[float]  # the learning rate that was chosen, or given
    max_epochs: int | None
    given_lr: float | None
    file: NotRequired[str]
    command: str  # what a user types to get this row again


class Entry(NamedTuple):
    """A model in one task; a learning rate is chosen for each."""

    dataset: Dataset
    horizon: int
    model: str


def trainable(model: str) -> bool:
    """Return whether a model has anything to learn."""
    return MODELS[model].trainable


def published_options(model: str) -> dict[str, Any]:
    """Return the flat settings of a Forecaster that build a model as its paper does."""
    return {"model": model, **OWN.get(model, PEER if trainable(model) else {})}


@dataclass(frozen=True)
class Contest:
    """Which models are ranked on which data.

    Args:
        models: names of the registry.
        horizons: the horizons of each data set.
        lookback: steps that models see (default: 96 for data sets of the catalogue, else chosen
            by the Forecaster).
        seeds: the seeds of each trainable model.
        lr: learning rate of all models but Fighter (default: the best of three on the validation
            rows).
        max_epochs: as in the Forecaster.
    """

    models: tuple[str, ...]
    horizons: Mapping[Dataset, tuple[int, ...]]
    lookback: int | None = None
    seeds: tuple[int, ...] = (0, 1, 2)
    lr: float | None = None
    max_epochs: int | None = None

    def __post_init__(self) -> None:
        if not self.seeds:
            raise FighterError("needs at least one seed, such as 0", argument="seeds")
        for name, values in (
            ("horizons", [h for horizons in self.horizons.values() for h in horizons]),
            ("lookback", [self.lookback]),
            ("max_epochs", [self.max_epochs]),
        ):
            if bad := [v for v in values if v is not None and v < 1]:
                reason = "needs a whole number of at least 1"
                raise FighterError(reason, argument=name, value=bad[0])
        if self.lr is not None and not 0 < self.lr < math.inf:
            raise FighterError("needs a number above 0", argument="lr", value=self.lr)
        for dataset, horizons in self.horizons.items():
            check_rows(dataset, max(horizons), self.lookback)

    def run(self, entry: Entry, seed: int, rate: float | None) -> Run:
        """Return the run of one cell."""
        dataset, horizon, model = entry
        lookback = self.lookback or (LOOKBACK if dataset.known else None)
        chosen = {"lr": rate, "max_epochs": self.max_epochs if trainable(model) else None}
        options = published_options(model) | {k: v for k, v in chosen.items() if v is not None}
        tags = {
            "data": dataset.name,
            "horizon": horizon,
            "model": MODELS[model].column,
            "seed": seed,
        }
        return Run(
            KIND,
            settings(dataset, horizon, options, lookback=lookback, seed=seed),
            tags if rate is None else {**tags, "lr": rate},
        )

    def entries(self) -> list[Entry]:
        """Return every model in every task, the longest horizons first."""
        return [
            Entry(dataset, horizon, model)
            for dataset, horizons in self.horizons.items()
            for horizon in sorted(horizons, reverse=True)
            for model in self.models
        ]

    def trials(self) -> dict[Entry, dict[float, Run]]:
        """Return the runs that choose a learning rate, for each entry that has the choice.

        They always use seed 0, so that several calls choose alike and their cells share a table.
        """
        return {
            entry: {rate: self.run(entry, 0, rate) for rate in RATES}
            for entry in self.entries()
            if entry.model != "fighter" and trainable(entry.model) and self.lr is None
        }

    def cells(self, rates: Mapping[Entry, float]) -> list[tuple[Dataset, Run]]:
        """Return all cells except those whose learning rate is not chosen yet."""
        waiting = self.trials().keys() - rates.keys()
        given = {m: self.lr for m in self.models if m != "fighter" and trainable(m)}
        return [
            (entry.dataset, self.run(entry, seed, rates.get(entry, given.get(entry.model))))
            for entry in self.entries()
            if entry not in waiting
            for seed in (self.seeds if trainable(entry.model) else (0,))
        ]


def find_models(models: Sequence[str]) -> tuple[str, ...]:
    """Return names of the registry for names or column names, in upper or lower case."""
    names = {config.column.casefold(): name for name, config in MODELS.items()}
    names |= {name: name for name in MODELS}
    for model in models:
        if model.casefold() not in names:
            hint = did_you_mean(model, names)
            if "." in model:
                hint = " Files come first, before any flag."
            elif "," in model:
                hint = " Put spaces between names, not commas."
            reason = f"needs one of {', '.join(MODELS)}.{hint}"
            raise FighterError(reason, argument="models", value=model)
    return tuple(names[model.casefold()] for model in models)


def check_rows(dataset: Dataset, horizon: int, lookback: int | None) -> None:
    """Raise an error where windows do not fit, or hold no targets, before anything is trained."""
    data, split = read(dataset)
    train, rows = split.train.stop, split.val.stop - split.val.start
    if not rows or split.test.stop == split.test.start:
        raise FighterError(
            f"{dataset.name} has {data.length} rows, too few to train, validate and test: "
            "needs at least 10"
        )
    if horizon > rows:
        reason = f"does not fit into the {rows} validation rows of {dataset.name}; take fewer steps"
        raise FighterError(reason, argument="horizons", value=horizon)
    if (lookback or 1) + horizon > train:
        reason = f"does not fit, with horizon {horizon}, into the {train} training rows of "
        reason += f"{dataset.name}; take fewer steps"
        raise FighterError(reason, argument="lookback", value=lookback)
    for name, part in (("training", split.train), ("validation", split.val), ("test", split.test)):
        if not data.observed[part].any():
            raise FighterError(
                f"{dataset.name} has no value in its {part.stop - part.start} {name} rows, "
                f"{part.start + 1} to {part.stop}"
            )


def unscaled_series(dataset: Dataset) -> list[str]:
    """Return a sentence about series without a standard deviation to scale their errors by."""
    data, split = read(dataset)
    seen = data.observed.copy()
    seen[split.test.start :] = False
    seen[split.val.start :] &= ~seen[split.train].any(0)  # later series: scaled by what there is
    flat = ~seen.any(0) | (_range(data.values, seen) == 0)
    moves = ~seen.any(0) | (_range(data.values, data.observed) > 0)
    places = np.flatnonzero(flat & moves & data.observed[split.test].any(0))
    if not places.size:
        return []
    names = listing([data.ids[i] for i in places], 3)
    return [
        f"{names}: constant or missing in the training rows; such errors are in the units of the "
        "table and can outweigh all others. Drop the series to rank without it."
    ]


def _range(values: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Return largest minus smallest observed value of each series."""
    return np.where(seen, values, -np.inf).max(0) - np.where(seen, values, np.inf).min(0)


def horizons_for(dataset: Dataset) -> tuple[int, ...]:
    """Return the default horizons: 96 and 192 for the catalogue, else one season.

    A season longer than a twentieth of the rows is cut to that.
    """
    if dataset.known:
        return HORIZONS
    data, _ = read(dataset)
    season = (*data.freq.season, 24)[0]
    return (max(min(season, data.length // 20), 1),)


def leaderboard(
    contest: Contest,
    environment: Environment,
    folder: Path,
    *,
    jobs: int = 1,
    say: Callable[[str], None] = lambda line: None,
) -> list[str]:
    """Train and score all cells, and add them to those of other calls in ``folder``.

    Returns:
        Messages about failed runs; the other cells are stored.
    """
    failures: list[str] = []
    environment = with_files(environment, contest.horizons)

    def perform_all(runs: Sequence[Run]) -> dict[str, Record]:
        rows = perform(
            runs, folder / "runs", environment, jobs=jobs, say=say, failed=failures.append
        )
        return {Run(KIND, row["settings"]).key: row for row in rows}

    trials = contest.trials()
    first = [run for runs in trials.values() for run in runs.values()]
    ready = [run for _, run in contest.cells({})]  # these need no choice: run beside the trials
    tried = {run.key for run in (*first, *ready)}
    then = sum(r.key not in tried for _, r in contest.cells(dict.fromkeys(trials, RATES[0])))
    if first:
        say(f"{len(first)} runs to choose learning rates by, {len(ready)} others, then {then}")
    records = perform_all([*first, *ready])
    rates = {}
    for entry, runs in trials.items():
        done = {rate: records[run.key] for rate, run in runs.items() if run.key in records}
        if done:
            rates[entry] = min(done, key=lambda rate: done[rate]["result"]["validation"])
    cells = contest.cells(rates)
    if rest := [run for _, run in cells if run.key not in tried]:
        records |= perform_all(rest)
    budget = {"max_epochs": contest.max_epochs, "given_lr": contest.lr}
    rows = [
        {
            **records[run.key],
            **budget,
            "file": dataset.known or str(dataset.file),
            "command": _command(dataset, run.settings, environment.device),
        }
        for dataset, run in cells
        if run.key in records
    ]
    path = folder / FILE
    if rows or path.exists():
        add_rows(path, {"provenance": provenance("fighter", environment.device)}, rows, cell_key)
    return failures


def _command(dataset: Dataset, chosen: Mapping[str, Any], device: str) -> str:
    """Return the command line that makes one cell again."""
    options = chosen["options"]
    flags = {
        "models": options["model"],
        "horizons": chosen["horizon"],
        "seeds": chosen["seed"],
        "lookback": chosen["lookback"],
        "lr": options.get("lr"),
        "max_epochs": options.get("max_epochs"),
        **chosen["columns"],
        "device": device,
    }
    words = ["fighter", "leaderboard", dataset.argument]
    for flag, value in flags.items():
        if value is not None:
            values = value if isinstance(value, list | tuple) else [value]
            words += [f"--{flag.replace('_', '-')}", *map(str, values)]
    return shlex.join(words)


def task_key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what models must share to be compared: data, look-back, horizon and budget."""
    chosen = row["settings"]
    data = chosen["sha256"], str(chosen["columns"]), row["result"]["lookback"], row["horizon"]
    return *data, row["max_epochs"], row["given_lr"]


def cell_key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what identifies a cell; a later run of it replaces the earlier one."""
    return *task_key(row), row["model"], row["seed"]
