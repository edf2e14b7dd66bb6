"""Models ranked on the same windows of the same data, each with the same budget."""

import math
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from ..data.columns import listing
from ..errors import FighterError, did_you_mean
from ..forecasting.forecaster import COLUMNS
from ..models import CORES
from .datasets import Dataset, at, read
from .provenance import provenance
from .result import by, count, markdown, mean, number
from .runs import Environment, Record, Run, add_rows, perform
from .score import settings

TITLE = "Leaderboard"
WORDS = """
The first 70 % of the rows are trained on, the next 10 % choose the epoch, and every window of the
last 20 % is scored (of ETT, 12, 4 and 4 months). Errors are in standard deviations of each series
over the training rows, mean ± deviation over seeds; lower is better. Every model sees the same
windows, is trained for the absolute error, for as many epochs and with the same rule for stopping,
and what is scored is a running average of its weights. Fighter is `Forecaster(horizon, lookback)`.
The others are as their papers have them, with each window brought to mean 0 and deviation 1; of the
learning rates {rates} each has the one that was best on the rows that choose, with seed 0, unless
a title says otherwise. Only Fighter and CycleNet learn a cycle; only Fighter learns how fast a
series goes back to its usual level, is told the time of the year where the training rows show two
years, weighs near steps more in training, is the mean of several members, and keeps within a value
that a series rests at and does not pass, as rain does at zero. The seasonal naive forecast repeats
the last value where no season fits into the look-back. Seconds are of runs that shared a machine
with others; memory is the most that training took, data and workspaces included.

*Against* is the best of the other models: the difference in MSE, the number of seeds in which it
was beaten, and how likely a difference at least as large would be if each stretch of two horizons,
or two seasons if they are longer, favoured either by chance (random signs; none is given for fewer
than six stretches).
"""
FILE = "leaderboard.json"
RATES = (1e-3, 3e-4, 1e-4)
LOOKBACK, HORIZONS = 96, (96, 192)  # of known data sets, unless given
PEER: Mapping[str, Any] = {
    "cycle": None, "calendar": False, "reversion": False, "bounds": False, "discount": 0.0,
}  # fmt: skip
# What differs from the defaults: sizes as published, which suit data sets of this kind.
OWN: Mapping[str, Mapping[str, Any]] = {
    "fighter": {},
    "cyclenet": {**PEER, "cycle": "auto"},
    "itransformer": {**PEER, "width": 512, "layers": 3},
}
WAYS = {
    "id_col": "series by",
    "time_col": "times by",
    "target_col": "values of",
    "freq": "a row each",
    "missing_values": "without",
}  # to read a table, in words
Choice = tuple[Dataset, int, str]  # data, horizon and model: what a learning rate is chosen for
ENOUGH = 6  # stretches, for a probability below 0.05 to be possible


def options_of(model: str) -> dict[str, Any]:
    """The settings of a Forecaster that make the model of the paper."""
    own = OWN.get(model, PEER if CORES[model].trainable else {})
    return {"model": model, **own}


@dataclass(frozen=True)
class Contest:
    """What is ranked on what.

    Args:
        models: names of the registry.
        horizons: of each data set.
        lookback: 96 for known data sets, else chosen by the Forecaster, unless given.
        seeds: of each model that learns.
        lr: learning rate of all but Fighter; the best of three on validation unless given.
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
            raise FighterError("seeds: give at least one, such as 0")
        for name, values in (
            ("horizons", [h for horizons in self.horizons.values() for h in horizons]),
            ("lookback", [self.lookback]),
            ("max_epochs", [self.max_epochs]),
        ):
            if bad := [v for v in values if v is not None and v < 1]:
                raise FighterError(f"{name}={bad[0]}: needs a whole number of at least 1")
        if self.lr is not None and not 0 < self.lr < math.inf:
            raise FighterError(f"lr={self.lr}: needs a number above 0")
        for source, horizons in self.horizons.items():
            check_rows(source, max(horizons), self.lookback)

    def run(self, source: Dataset, horizon: int, model: str, seed: int, rate: float | None) -> Run:
        """One cell."""
        lookback = self.lookback or (LOOKBACK if source.known else None)
        trainable = CORES[model].trainable
        chosen = {"lr": rate, "max_epochs": self.max_epochs if trainable else None}
        options = options_of(model) | {k: v for k, v in chosen.items() if v is not None}
        tags = {"data": source.name, "horizon": horizon, "model": COLUMNS[model], "seed": seed}
        return Run(
            "fighter.benchmark.score",
            settings(source, horizon, options, lookback=lookback, seed=seed),
            tags if rate is None else {**tags, "lr": rate},
        )

    def trials(self) -> dict[Choice, dict[float, Run]]:
        """Runs to choose a learning rate by, for each task and model that has the choice.

        They are the same whatever else is asked for: the cells of all calls make one table.
        """
        return {
            (source, horizon, model): {
                rate: self.run(source, horizon, model, 0, rate) for rate in RATES
            }
            for source, horizons in self.horizons.items()
            for horizon in sorted(horizons, reverse=True)
            for model in self.models
            if model != "fighter" and CORES[model].trainable and self.lr is None
        }

    def cells(self, rates: Mapping[Choice, float]) -> list[tuple[Dataset, Run]]:
        """All cells, the longest first, but for those that still wait for their learning rate."""
        waiting = self.trials().keys() - rates.keys()
        given = {m: self.lr for m in self.models if m != "fighter" and CORES[m].trainable}
        return [
            (source, self.run(source, horizon, model, seed, rate))
            for source, horizons in self.horizons.items()
            for horizon in sorted(horizons, reverse=True)
            for model in self.models
            if (source, horizon, model) not in waiting
            for rate in [rates.get((source, horizon, model), given.get(model))]
            for seed in (self.seeds if CORES[model].trainable else (0,))  # one run is all there is
        ]


def find_models(models: Sequence[str]) -> tuple[str, ...]:
    """Their names in the registry: each goes by that of the table too, in any case."""
    known = {column.casefold(): name for name, column in COLUMNS.items()}
    known |= {name: name for name in CORES}
    for model in models:
        if model.casefold() not in known:
            hint = did_you_mean(model, known)
            if "." in model:
                hint = " Files come first, before any flag."
            elif "," in model:
                hint = " Put spaces between names, not commas."
            raise FighterError(f"models: {model!r} is not one of {', '.join(CORES)}.{hint}")
    return tuple(known[model.casefold()] for model in models)


def check_rows(source: Dataset, horizon: int, lookback: int | None) -> None:
    """Windows must fit and hold targets; told before anything is trained."""
    data, split = read(source)
    train, rows = split.train.stop, split.val.stop - split.val.start
    if not rows or split.test.stop == split.test.start:
        raise FighterError(
            f"{source.name} has {data.length} rows, too few to train, to choose and to test on: "
            "needs 10 at least"
        )
    if horizon > rows:
        raise FighterError(
            f"horizons: {horizon} steps do not fit into the {rows} rows of {source.name} that "
            "choose the epoch, 10 % of all: take fewer"
        )
    if (lookback or 1) + horizon > train:
        raise FighterError(
            f"lookback={lookback} and a horizon of {horizon} do not fit into the {train} rows of "
            f"{source.name} to train on: take fewer"
        )
    for what, part in (("train on", split.train), ("choose by", split.val), ("test", split.test)):
        if not data.observed[part].any():
            raise FighterError(
                f"{source.name} has no value in the {part.stop - part.start} rows to {what}, "
                f"{part.start + 1} to {part.stop}"
            )


def own_units(source: Dataset) -> list[str]:
    """Tell of series that have no deviation to measure their errors by."""
    data, split = read(source)
    seen = data.observed.copy()
    seen[split.test.start :] = False
    seen[split.val.start :] &= ~seen[split.train].any(0)  # a later one is scaled by what there is
    flat = ~seen.any(0) | (_range(data.values, seen) == 0)
    moves = ~seen.any(0) | (_range(data.values, data.observed) > 0)
    found = np.flatnonzero(flat & moves & data.observed[split.test].any(0))
    if not found.size:
        return []
    names = listing([data.ids[i] for i in found], 3)
    return [
        f"{names}: constant or not there in the rows to train on; such errors are in the units of "
        "the table and can outweigh all others. Drop it to rank without it."
    ]


def _range(values: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """From the smallest to the largest of what was seen, for each series."""
    return np.where(seen, values, -np.inf).max(0) - np.where(seen, values, np.inf).min(0)


def horizons_for(source: Dataset) -> tuple[int, ...]:
    """Of a known data set 96 and 192 steps; else a season, and a twentieth of the rows at most."""
    if source.known:
        return HORIZONS
    data, _ = read(source)
    season = (*data.freq.season, 24)[0]
    return (max(min(season, data.length // 20), 1),)


def leaderboard(
    contest: Contest,
    place: Environment,
    folder: Path,
    *,
    jobs: int = 1,
    say: Callable[[str], None] = lambda line: None,
) -> list[str]:
    """Train and score; keep the cells in ``folder``, beside those of other calls.

    Returns:
        What failed; the cells that did not are kept.
    """
    failures: list[str] = []
    place = at(place, contest.horizons)

    def made(runs: Sequence[Run]) -> dict[str, Record]:
        rows = perform(runs, folder / "runs", place, jobs=jobs, say=say, failed=failures.append)
        return {Run("fighter.benchmark.score", row["settings"]).key: row for row in rows}

    trials = contest.trials()
    first = [run for runs in trials.values() for run in runs.values()]
    ready = [run for _, run in contest.cells({})]  # made while learning rates are found out
    tried = {run.key for run in (*first, *ready)}
    then = sum(r.key not in tried for _, r in contest.cells(dict.fromkeys(trials, RATES[0])))
    if first:
        say(f"{len(first)} runs to choose learning rates by, {len(ready)} others, then {then}")
    found = made([*first, *ready])
    rates = {
        key: min(scores, key=lambda rate, scores=scores: scores[rate])
        for key, runs in trials.items()
        if (
            scores := {
                rate: found[run.key]["result"]["validation"]
                for rate, run in runs.items()
                if run.key in found
            }
        )
    }
    cells = contest.cells(rates)
    if rest := [run for _, run in cells if run.key not in tried]:
        found |= made(rest)
    budget = {"max_epochs": contest.max_epochs, "given_lr": contest.lr}
    rows = [
        {
            **found[run.key],
            **budget,
            "file": source.known or str(source.file),
            "command": _command(source, run.settings, place.device),
        }
        for source, run in cells
        if run.key in found
    ]
    path = folder / FILE
    if not (rows or path.exists()):
        return failures  # nothing to keep
    add_rows(path, {"provenance": provenance("fighter", place.device)}, rows, _cell)
    return failures


def _command(source: Dataset, chosen: Mapping[str, Any], device: str) -> str:
    """What makes a cell again."""
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
    words = ["fighter", "leaderboard", source.argument]
    for flag, value in flags.items():
        if value is not None:
            values = value if isinstance(value, list | tuple) else [value]
            words += [f"--{flag.replace('_', '-')}", *map(str, values)]
    return shlex.join(words)


def _task(row: Record) -> tuple[Any, ...]:
    """What models are compared within."""
    chosen = row["settings"]
    data = chosen["sha256"], str(chosen["columns"]), row["result"]["lookback"], row["horizon"]
    return *data, row["max_epochs"], row["given_lr"]


def _cell(row: Record) -> tuple[Any, ...]:
    """What a later run takes the place of."""
    return *_task(row), row["model"], row["seed"]


def numbers(rows: Sequence[Record]) -> dict[str, str]:
    """What the words above ask for."""
    del rows  # all are of one protocol
    return {"rates": ", ".join(f"{rate:g}" for rate in RATES)}


def section(rows: Sequence[Record]) -> str:
    """A table for each task, and one of ranks if there are several."""
    tasks: dict[tuple[Any, ...], list[Record]] = {}
    for row in sorted(rows, key=lambda row: (row["data"], row["horizon"], row["seed"])):
        tasks.setdefault(_task(row), []).append(row)
    ranks = _ranks([by(cells, "model") for cells in tasks.values()])
    tables = [f"{_title(cells, rows)}\n\n{_table(by(cells, 'model'))}" for cells in tasks.values()]
    return "\n\n".join([*ranks, *tables])


def _title(cells: Sequence[Record], rows: Sequence[Record]) -> str:
    first, result = cells[0], cells[0]["result"]
    name, checksum = first["data"], first["settings"]["sha256"]
    if any(r["data"] == name and r["settings"]["sha256"] != checksum for r in rows):
        # The file may have changed since: its content has a name too.
        name = f"{name} ({', '.join(filter(None, (first.get('file'), checksum[:8])))})"
    parts = [
        f"**{name}: {result['lookback']} steps seen, {first['horizon']} forecast**",
        f"{result['series']} series",
        f"{result['windows']:,} test windows",
    ]
    for column, value in first["settings"]["columns"].items():
        values = [f"{mark:g}" for mark in value] if isinstance(value, list) else [str(value)]
        parts.append(f"{WAYS.get(column, column)} {', '.join(values)}")
    if epochs := first["max_epochs"]:
        parts.append(f"at most {epochs} epoch{'s' * (epochs > 1)}")
    if first["given_lr"]:
        parts.append(f"learning rate {first['given_lr']:g} for all but Fighter")
    return ", ".join(parts)


def _ranks(tasks: Sequence[Mapping[str, list[Record]]]) -> list[str]:
    """Mean place of those models that make most cells over the tasks that have them all."""

    def having(field: set[str]) -> list[dict[str, list[Record]]]:
        return [{m: task[m] for m in task if m in field} for task in tasks if field <= {*task}]

    fields = [{*task} for task in tasks]
    field = max(fields, key=lambda field: (len(field) * len(having(field)), len(field)))
    tasks = having(field)
    if len(tasks) < 2 or len(field) < 2:
        return []
    places = {
        model: np.array([[_place(task, model, name) for name in ("mse", "mae")] for task in tasks])
        for model in tasks[0]
    }
    lines = [
        [model, *(f"{rank:.1f}" for rank in found.mean(0)), str((found[:, 0] == 1).sum())]
        for model, found in sorted(places.items(), key=lambda item: item[1].mean())
    ]
    title = f"**Mean rank of {len(field)} models over the {len(tasks)} tasks that have them all**"
    header = ["model", "rank by MSE", "rank by MAE", "times first by MSE"]
    return [f"{title}\n\n{markdown(header, lines)}"]


def _place(task: Mapping[str, list[Record]], model: str, error: str) -> int:
    ours = mean(task[model], error)
    return 1 + sum(mean(results, error) < ours for results in task.values())


def _table(models: Mapping[str, list[Record]]) -> str:
    order = sorted(models, key=lambda model: mean(models[model], "mse"))
    gpu = any(result["memory_mib"] is not None for results in models.values() for result in results)
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
                *([count(results, "memory_mib")] if gpu else []),
            ]
        )
    header = ["model", "MSE", "MAE", "against", "parameters", "best epoch", "seconds to train"]
    return markdown([*header, *(["GPU memory, MiB"] if gpu else [])], lines)


def _against(results: Sequence[Record], others: Sequence[Record], name: str) -> str:
    """Difference to another model, by seeds and by windows."""
    parts = [name]
    if theirs := mean(others, "mse"):
        parts[0] = f"{mean(results, 'mse') / theirs - 1:+.1%} {name}"
    if len(results) > 1:
        # Paired in rising order; with another number of seeds, or none, by their mean.
        paired = [them["mse"] for them in others]
        if len(others) != len(results):
            paired = [mean(others, "mse")] * len(results)
        won = sum(ours["mse"] < them for ours, them in zip(results, paired, strict=True))
        parts.append(f"{won} of {len(results)} seeds")
    ours, them = (np.mean([r["pieces"]["mse"] for r in side], 0) for side in (results, others))
    if len(ours) >= ENOUGH:
        parts.append(f"p = {sign_test(ours, them):.2g}")
    return ", ".join(parts)


def sign_test(ours: np.ndarray, others: np.ndarray, draws: int = 10_000) -> float:
    """The share of signs under which the mean difference is at least as large as it is.

    Of all signs, or of ``draws`` random ones if there are more.
    """
    difference = ours - others
    if 2 ** len(difference) <= draws:
        signs = np.array([*product((-1.0, 1.0), repeat=len(difference))])
    else:
        signs = np.random.default_rng(0).choice([-1.0, 1.0], (draws, len(difference)))
        signs[0] = 1  # as it is
    return float(np.mean(np.abs(signs @ difference) >= abs(difference.sum()) * (1 - 1e-12)))
