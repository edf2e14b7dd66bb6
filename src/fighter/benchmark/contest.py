"""Rank models on the same windows of the same data, each with the same training budget."""

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, NotRequired

import numpy as np

from ..data.columns import listing
from ..errors import FighterError, check_count, did_you_mean
from ..models import MODELS
from .datasets import Dataset, read, with_files
from .provenance import provenance
from .result import Record, Row
from .runs import Environment, Run, Say, add_rows, perform, quiet
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


def published_options(model: str) -> dict[str, Any]:
    """Return the flat settings of a Forecaster that build a model as its paper does."""
    return {"model": model, **OWN.get(model, PEER if MODELS[model].trainable else {})}


@dataclass(frozen=True)
class Contest:
    """Which models are ranked on which data."""

    models: tuple[str, ...]  # names of the registry
    horizons: Mapping[Dataset, tuple[int, ...]]
    lookback: int | None = None  # None: 96 for the catalogue, else chosen by the Forecaster
    seeds: tuple[int, ...] = (0, 1, 2)  # of each trainable model
    lr: float | None = None  # of all but Fighter; None: the best of three on the validation rows
    max_epochs: int | None = None  # as in the Forecaster

    def __post_init__(self) -> None:
        if not self.seeds:
            raise FighterError("needs at least one seed, such as 0", argument="seeds")
        counts = [("horizons", h) for horizons in self.horizons.values() for h in horizons]
        for name, value in (*counts, ("lookback", self.lookback), ("max_epochs", self.max_epochs)):
            if value is not None:
                check_count(name, value)
        if self.lr is not None and not 0 < self.lr < math.inf:
            raise FighterError("needs a number above 0", argument="lr", value=self.lr)
        for dataset, horizons in self.horizons.items():
            check_rows(dataset, max(horizons), self.lookback)

    def run(self, entry: Entry, seed: int, rate: float | None) -> Run:
        """Return the run of one cell."""
        dataset, horizon, model = entry
        lookback = self.lookback or (LOOKBACK if dataset.known else None)
        chosen = {"lr": rate, "max_epochs": self.max_epochs if MODELS[model].trainable else None}
        options = published_options(model) | {k: v for k, v in chosen.items() if v is not None}
        column = MODELS[model].column
        tags = {"data": dataset.name, "horizon": horizon, "model": column, "seed": seed}
        everything = settings(dataset, horizon, options, lookback=lookback, seed=seed)
        return Run(KIND, everything, tags if rate is None else {**tags, "lr": rate})

    def _tuned(self) -> list[str]:
        """Return the models whose learning rate is given or tried; Fighter has its own."""
        return [m for m in self.models if m != "fighter" and MODELS[m].trainable]

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
            if self.lr is None and entry.model in self._tuned()
        }

    def cells(self, rates: Mapping[Entry, float]) -> list[tuple[Dataset, Run]]:
        """Return all cells except those whose learning rate is not chosen yet."""
        waiting = self.trials().keys() - rates.keys()
        given = dict.fromkeys(self._tuned(), self.lr)
        return [
            (entry.dataset, self.run(entry, seed, rates.get(entry, given.get(entry.model))))
            for entry in self.entries()
            if entry not in waiting
            for seed in (self.seeds if MODELS[entry.model].trainable else (0,))
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
        few = f"{dataset.name} has {data.length} rows, too few to train, validate and test"
        raise FighterError(f"{few}: needs at least 10")
    if horizon > rows:
        reason = f"does not fit into the {rows} validation rows of {dataset.name}; take fewer steps"
        raise FighterError(reason, argument="horizons", value=horizon)
    if (lookback or 1) + horizon > train:
        reason = f"does not fit, with horizon {horizon}, into the {train} training rows of "
        reason += f"{dataset.name}; take fewer steps"
        at_fault = ("horizons", horizon) if lookback is None else ("lookback", lookback)
        raise FighterError(reason, argument=at_fault[0], value=at_fault[1])
    for name, part in (("training", split.train), ("validation", split.val), ("test", split.test)):
        if not data.observed[part].any():
            where = f"{part.stop - part.start} {name} rows, {part.start + 1} to {part.stop}"
            raise FighterError(f"{dataset.name} has no value in its {where}")


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
    return [
        f"{listing([data.ids[i] for i in places], 3)}: constant or missing in the training rows; "
        "such errors are in the units of the table and can outweigh all others. Drop the series "
        "to rank without it."
    ]


def _range(values: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Return largest minus smallest observed value of each series."""
    return np.where(seen, values, -np.inf).max(0) - np.where(seen, values, np.inf).min(0)


def horizons_for(dataset: Dataset) -> tuple[int, ...]:
    """Return 96 and 192 for the catalogue, else one season, but at most a twentieth of the rows."""
    if dataset.known:
        return HORIZONS
    data, _ = read(dataset)
    season = (*data.freq.season, 24)[0]
    return (max(min(season, data.length // 20), 1),)


def leaderboard(
    contest: Contest, environment: Environment, folder: Path, *, jobs: int = 1, say: Say = quiet
) -> list[str]:
    """Train, score and store all cells beside earlier ones; return messages about failed runs."""
    failures: list[str] = []
    store = folder / "runs"
    environment = with_files(environment, contest.horizons)

    def perform_all(runs: Sequence[Run]) -> dict[str, Record]:
        rows = perform(runs, store, environment, jobs=jobs, say=say, failed=failures.append)
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
        if done := {rate: records[run.key] for rate, run in runs.items() if run.key in records}:
            rates[entry] = min(done, key=lambda rate: done[rate]["result"]["validation"])
    cells = contest.cells(rates)
    if rest := [run for _, run in cells if run.key not in tried]:
        records |= perform_all(rest)
    budget = {"max_epochs": contest.max_epochs, "given_lr": contest.lr}
    rows = []
    for dataset, run in cells:
        if run.key in records:
            command = _command(dataset, run.settings, environment.device)
            source = {"file": dataset.known or str(dataset.file), "command": command}
            rows.append({**records[run.key], **budget, **source})
    path = folder / FILE
    if rows or path.exists():
        add_rows(path, {"provenance": provenance("fighter", environment.device)}, rows, cell_key)
    return failures


def _command(dataset: Dataset, chosen: Mapping[str, Any], device: str) -> str:
    """Return the command line that makes one cell again."""
    options = chosen["options"]
    task = {"models": options["model"], "horizons": chosen["horizon"], "seeds": chosen["seed"]}
    budget = {name: options.get(name) for name in ("lr", "max_epochs")}
    flags = {**task, "lookback": chosen["lookback"], **budget, **chosen["columns"]}
    flags["device"] = device
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
