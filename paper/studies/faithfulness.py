"""Measure how faithful attributions are, and what they cost.

Small models are trained on the generated grid and on Weather (minutes on a CPU). Forecasts of
held-out rows are explained by our method, attention, rollout and gradients, and every method is
scored in the same way, by the mean |score| of a past value: on the grid the planted links are
known, and on any data the model itself can be asked how its forecast changes when past values are
removed. With --only-cost nothing is trained, and the other numbers of the file stay.
"""

import argparse
import json
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from statistics import mean
from typing import Any

import torch

from fighter.benchmark.provenance import provenance
from fighter.benchmark.result import Record
from fighter.benchmark.runs import Environment, Run, write_rows
from fighter.benchmark.runs import perform as perform_runs
from fighter.data import grid_load
from fighter.data.datasets import catalogue
from fighter.data.files import import_pandas
from fighter.errors import DataWarning
from fighter.forecasting.forecaster import Forecaster

from .cost import CASES, cost
from .planted import planted
from .removal import FRACTIONS, removal
from .sample import Sample

KIND = __name__
WEEK = 24 * 7
COMMON = {"lookback": 96, "batch_size": 64, "ema": 0.99, "members": 1}
GRID = {**COMMON, "horizon": 24, "validation": 3 * WEEK, "width": 64, "layers": 1, "dropout": 0.2}
# Chosen by the validation error on the first grid, see docs/explanations.md.
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "grid, nodes: series": ("grid", {**GRID, "max_epochs": 30, "lr": 3e-2, "weight_decay": 0.5}),
    "grid, nodes: time steps": (
        "grid",
        {**GRID, "max_epochs": 4, "lr": 3e-3, "weight_decay": 0.1, "nodes": "time", "lookback": 48},
    ),
    "weather, nodes: series": (
        "weather", {**COMMON, "horizon": 96, "width": 64, "layers": 2, "max_epochs": 2, "lr": 3e-3},
    ),
    "weather, nodes: series, graph from the input": (
        "weather",
        {
            **COMMON, "horizon": 96, "width": 64, "layers": 2, "max_epochs": 2, "lr": 3e-3,
            "adjacency": "cosine",
        },
    ),
}  # fmt: skip
SEEDS = {"grid, nodes: series": 10, "weather, nodes: series, graph from the input": 1}  # else 3
SIZES = {"grid": {"windows": 40, "test": 3 * WEEK}, "weather": {"windows": 16, "test": 10_540}}


def main(arguments: Sequence[str]) -> None:
    """Run the study from the command line."""
    parser = argparse.ArgumentParser(prog="python -m paper study faithfulness", description=__doc__)
    parser.add_argument("--data-dir", type=Path, help="folder of the data sets")
    parser.add_argument("--models", nargs="+", default=[*MODELS], choices=[*MODELS])
    parser.add_argument("--runs", type=Path, help="store each run here, and continue from there")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time (default: 1)")
    parser.add_argument("--only-cost", action="store_true", help="train nothing, measure the cost")
    parser.add_argument("--out", type=Path, help="also write the numbers as JSON")
    args = parser.parse_args(arguments)
    warnings.simplefilter("ignore", DataWarning)
    torch.set_num_threads(1)
    source = provenance("python -m paper study faithfulness", "cpu", arguments)
    costs: dict[str, Any] = {"provenance": source}
    for name, case in CASES.items():
        costs[name] = cost(**case)
        print(name, costs[name], flush=True)
    if args.only_cost:
        if args.out:
            head = json.loads(args.out.read_text(encoding="utf-8"))
            rows = head.pop("rows")
            write_rows(args.out, head | {"cost": costs}, rows)
        return
    with tempfile.TemporaryDirectory() as temporary:
        records = perform_runs(
            plan(args.models),
            args.runs or Path(temporary),
            Environment(args.data_dir),
            jobs=args.jobs,
            say=lambda line: print(line, flush=True),
        )
    for name in args.models:
        for part in ("planted", "removal"):
            chosen = [record for record in records if record["model"] == name]
            if part in chosen[0]["result"]:
                print(f"\n{name}: {part}\n{table(chosen, part)}")
    if args.out:
        weather = catalogue.find("weather", args.data_dir).read_bytes()
        head = {
            "provenance": source,
            "data": {"weather": sha256(weather).hexdigest()},
            "fractions": FRACTIONS,
            "cost": costs,
        }
        write_rows(args.out, head, records)


def plan(models: Sequence[str]) -> list[Run]:
    """Return all runs."""
    return [
        Run(
            KIND,
            settings(data, options, seed=seed, **SIZES[data]),
            {"model": name, "seed": seed},
        )
        for name in models
        for data, options in [MODELS[name]]
        for seed in range(SEEDS.get(name, 3))
    ]


def settings(
    data: str,
    options: Mapping[str, Any],
    *,
    seed: int,
    windows: int,
    test: int,
    rows: int | None = None,
) -> dict[str, Any]:
    """Return all that a run depends on.

    Args:
        data: "grid" or a name of the catalogue.
        options: flat settings of the Forecaster.
        seed: seed of the weights, and of the grid.
        windows: number of windows to explain.
        test: number of last rows, which the model does not see and which the windows come from.
        rows: use only the first rows (default: all).
    """
    return {**locals(), "options": dict(options)}


def perform(settings: Mapping[str, Any], environment: Environment) -> dict[str, Any]:
    """Train, explain and score."""
    seed, test, grid = settings["seed"], settings["test"], None
    if settings["data"] == "grid":
        grid = grid_load(settings["rows"] or 26 * WEEK, seed=seed)
        columns = dict(zip(grid.zones, grid.load.T, strict=True))
        table = import_pandas().DataFrame({"ds": grid.times, **columns})
    else:
        whole = catalogue.load(settings["data"], environment.data_dir, clean=True)
        table = whole[: settings["rows"]]
    model = Forecaster.from_flat(
        **settings["options"], seed=seed, device=environment.device, verbose=False
    )
    model.fit(table[:-test])
    sample = Sample.draw(model, table, test, settings["windows"], seed)
    truth = {} if grid is None else {"planted": planted(sample, grid)}
    return {
        "validation": min(record["validation"] for record in model.history),
        "test": float(model.evaluate(table, last=test)["scaled_mae"].mean()),
        "epochs": len(model.history),
        **truth,
        "removal": removal(sample),
    }


def table(records: Sequence[Record], part: str) -> str:
    """Return means over seeds, one line per method."""
    results = [record["result"][part] for record in records]
    keys = [key for key in results[0]["ours"] if key != "curves"]
    lines = [f"{'':22}" + "".join(f"{key:>28}" for key in keys)]
    for name in results[0]:
        values = (mean(one[name][key] for one in results) for key in keys)
        lines.append(f"{name:22}" + "".join(f"{value:28.3f}" for value in values))
    return "\n".join(lines)
