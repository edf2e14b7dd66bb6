"""Settings of the default forecaster, compared without a look at the test rows.

    python -m benchmarks.search --data weather eia_demand_hourly ETTh1 --jobs 12

The rows before them are split once more, into 70, 10 and 20 %: trained on, to choose the epoch by,
and scored. Validation rows alone say less: they choose the epoch, and what follows them may differ.
Wants a GPU.
"""

import argparse
from pathlib import Path
from statistics import mean
from typing import Any

from fighter.experiments.cells import settings
from fighter.experiments.provenance import provenance
from fighter.experiments.runs import Place, Record, Run, perform, write_rows
from fighter.experiments.sources import at, known_source

CHANGES = (
    "cycle moved", "last value", "feed-forward", "hop dropout", "time graph first", "lazy hops",
)  # fmt: skip
SPACE: dict[str, list[Any]] = {
    "lr": [5e-4, 2e-3],
    "dropout": [0.05, 0.2, 0.3],
    "width": [256, 768],
    "layers": [2, 3],
    "heads": [4, 16],
    "kappa": [2, 4],
    "options": [{"channels": 8}, {"channels": 32}],
    "ema": [0.999, 0.9998],
    "batch_size": [16, 64],
    "max_epochs": [6, 15, 20],
    "weight_decay": [0.01, 0.1],
    "adjacency": ["static", "cosine", "mixed"],
    "calendar": [False],
    "cycle": [None],
    "reversion": [False],
    "discount": [0.0, 0.25, 1.0],
    "change": list(CHANGES),
}


def variants() -> dict[str, dict[str, Any]]:
    """The default, and one thing changed at a time."""
    found: dict[str, dict[str, Any]] = {"default": {}}
    for name, values in SPACE.items():
        for value in values:
            found[f"{name}={value}"] = {name: value}
    return found


def table(rows: list[Record]) -> str:
    """MSE and MAE, mean over seeds, against those of the default."""

    def score(data: str, variant: str, error: str) -> float:
        chosen = [r for r in rows if (r["data"], r["variant"]) == (data, variant)]
        return mean(row["result"][error] for row in chosen)

    names = [*dict.fromkeys(row["data"] for row in rows)]
    lines = [f"{'':28}" + "".join(f"{data:>36}" for data in names)]
    for variant in dict.fromkeys(row["variant"] for row in rows):
        cells = []
        for data in names:
            for error in ("mse", "mae"):
                ours = score(data, variant, error)
                cells.append(f"{ours:.4f} ({ours / score(data, 'default', error) - 1:+.1%})")
        lines.append(f"{variant:28}" + "".join(f"{cell:>18}" for cell in cells))
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Settings compared before the test rows.")
    parser.add_argument("--data", nargs="+", default=["weather", "eia_demand_hourly", "ETTh1"])
    parser.add_argument("--data-dir", type=Path, help="where the data sets are")
    parser.add_argument("--horizon", type=int, default=96)
    parser.add_argument("--lookback", type=int, default=96)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--variants", nargs="+", default=list(variants()), choices=list(variants()))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--results", type=Path, default=Path("results/accuracy"))
    args = parser.parse_args()
    sources = [known_source(name, args.data_dir) for name in args.data]
    place = at(Place.here(args.data_dir, None), sources)
    runs = []
    for label in dict.fromkeys(["default", *args.variants]):
        options = dict(variants()[label])
        change = options.pop("change", None)
        runs += [
            Run(
                "cells",
                settings(
                    source,
                    args.horizon,
                    options,
                    lookback=args.lookback,
                    change=change,
                    seed=seed,
                    inner=True,
                ),
                {"variant": label, "data": source.name, "seed": seed},
            )
            for source in sources
            for seed in args.seeds
        ]
    folder = args.results / "runs"
    rows = perform(runs, folder, place, jobs=args.jobs, say=lambda line: print(line, flush=True))
    for row in rows:
        kept = ("mse", "mae", "best_epoch", "epochs", "parameters", "train_seconds")
        row["result"] = {name: row["result"][name] for name in kept}
    print(f"\n{table(rows)}")
    head = {"provenance": provenance("python -m benchmarks.search", place.device)}
    write_rows(args.results / "search.json", head, rows)


if __name__ == "__main__":
    main()
