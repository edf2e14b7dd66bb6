"""How faithful explanations are beside other people's, and what they cost.

    python -m paper.studies.run_faithfulness --data-dir DIR [--out results/faithfulness.json]
    python -m paper.studies.run_faithfulness --only-cost [--out results/faithfulness.json]

Trains small models on the generated grid and on Weather (minutes on a CPU), explains forecasts of
held-out rows by every method and scores them, see paper.studies.faithfulness. Cost: one
explained forecast as a multiple of one forward and backward pass of the same network and window;
by itself it takes seconds, and leaves what else is in the file as it is.
"""

import argparse
import json
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import sha256
from operator import truediv
from pathlib import Path
from statistics import mean, median
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from fighter.benchmark.provenance import provenance
from fighter.benchmark.runs import Environment, Record, Run, perform, write_rows
from fighter.data.datasets.catalogue import find
from fighter.data.windows import Batch
from fighter.errors import DataWarning
from fighter.explain import WindowTrace, measure, trace_windows
from fighter.models import ForecastNet, Task, build_core
from paper.studies.faithfulness import FRACTIONS, settings

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
WIDTH, HORIZON = 512, 96
CASES: dict[str, dict[str, Any]] = {
    "series: 21, look-back 96": {"nodes": "series", "adjacency": "lazy"},
    "series: 21, graph from the input": {"nodes": "series", "adjacency": "cosine"},
    "patches: 11 of each of 21 series": {"nodes": "patch", "adjacency": "cosine"},
    "time steps: 96": {"nodes": "time", "adjacency": "cosine"},
    "time steps: 256": {"nodes": "time", "adjacency": "cosine", "series": 7, "lookback": 256},
    "Transformer, time steps: 96": {"model": "transformer"},
}


class Largest(TorchDispatchMode):
    """The largest array that is made, in numbers."""

    def __init__(self, least: int = 0):
        super().__init__()
        self.numel = least

    def __torch_dispatch__(
        self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        for one in made if isinstance(made, tuple | list) else (made,):
            if isinstance(one, Tensor):
                self.numel = max(self.numel, one.untyped_storage().nbytes() // one.element_size())
        return made


def cost(
    model: str = "fighter", series: int = 21, lookback: int = 96, turns: int = 15, **options: str
) -> dict[str, float | int]:
    """Medians over turns, in each of which everything is done once; one layer."""
    torch.manual_seed(0)
    core = build_core(model, Task(lookback, HORIZON, series), width=WIDTH, layers=1, **options)
    network = ForecastNet(core, period=24).eval()
    past, future = torch.randn(1, lookback, series), torch.zeros(1, HORIZON, series)
    batch = Batch(past, future, None, None, torch.zeros(1, dtype=torch.long))

    def step() -> None:
        network.zero_grad()
        network(batch, batch.start).abs().sum().backward()

    def explain() -> Iterator[WindowTrace]:
        return trace_windows(network, batch, batch.start, [(0, 0), (1, 1)])

    def seconds(call: Callable[[], object]) -> float:
        start = time.process_time()  # of one thread: others on the machine do not count
        call()
        return time.process_time() - start

    largest = Largest()
    with largest:
        found = next(explain())

    def diagnose() -> None:
        for layer in found.layers:
            measure(layer.parts)

    times = []
    for _ in range(turns + 2):
        both = explain()
        calls = (step, partial(next, both), partial(next, both), diagnose)
        times.append([seconds(call) for call in calls])
    base, first, further, diagnostics = zip(*times[2:], strict=True)
    return {
        "forward and backward, ms": round(1e3 * median(base), 2),
        "explain, ms": round(1e3 * median(first), 2),
        "ratio": round(median(map(truediv, first, base)), 2),
        "ratio of each further forecast": round(median(map(truediv, further, base)), 2),
        "ratio of the diagnostics": round(median(map(truediv, diagnostics, base)), 2),
        "largest array": largest.numel,
        "largest weight": max(parameter.numel() for parameter in network.parameters()),
        "nodes² × width": found.layers[0].parts.graph.shape[-1] ** 2 * WIDTH,
    }


def table(records: list[Record], part: str) -> str:
    """Means over seeds, a line for each method."""
    found = [record["result"][part] for record in records]
    keys = [key for key in found[0]["ours"] if key != "curves"]
    lines = [f"{'':22}" + "".join(f"{key:>28}" for key in keys)]
    for name in found[0]:
        values = (mean(one[name][key] for one in found) for key in keys)
        lines.append(f"{name:22}" + "".join(f"{value:28.3f}" for value in values))
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Faithfulness and cost of explanations.")
    parser.add_argument("--data-dir", type=Path, help="where the data sets are")
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--runs", type=Path, help="keep each run here, and go on from there")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only-cost", action="store_true", help="do not train, measure the cost")
    parser.add_argument("--out", type=Path, help="also write the numbers as JSON")
    args = parser.parse_args()
    warnings.simplefilter("ignore", DataWarning)
    torch.set_num_threads(1)
    source = provenance("python -m paper.studies.run_faithfulness", "cpu")
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
    runs = [
        Run(
            "faithfulness",
            settings(data, options, seed=seed, **SIZES[data]),
            {"model": name, "seed": seed},
        )
        for name in args.models
        for data, options in [MODELS[name]]
        for seed in range(SEEDS.get(name, 3))
    ]
    with tempfile.TemporaryDirectory() as beside:
        place, folder = Environment(args.data_dir), args.runs or Path(beside)
        records = perform(
            runs, folder, place, jobs=args.jobs, say=lambda line: print(line, flush=True)
        )
    for name in args.models:
        for part in ("planted", "removal"):
            chosen = [r for r in records if r["model"] == name]
            if part in chosen[0]["result"]:
                print(f"\n{name}: {part}\n{table(chosen, part)}")
    if args.out:
        head = {
            "provenance": source,
            "data": {"weather": sha256(find("weather", args.data_dir).read_bytes()).hexdigest()},
            "fractions": FRACTIONS,
            "cost": costs,
        }
        write_rows(args.out, head, records)


if __name__ == "__main__":
    main()
