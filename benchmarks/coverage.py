"""Measure how many targets lie inside the intervals, on rows that training never saw.

    python -m benchmarks.coverage --data-dir DIR [--out results/coverage.json]

The default Forecaster with look-back and horizon 96 (horizon 24 on the generated grid) is fitted
and calibrated on the first 80 % of the rows and scored on every window of the last 20 %. Series
with natural bounds are counted separately: where most targets are zero, no interval holds exactly
80 %. The large data sets need a GPU. Rows of other data sets and seeds stay in the file; each row
names its commit and device.
"""

import argparse
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fighter import Forecaster
from fighter.benchmark.provenance import provenance
from fighter.benchmark.runs import add_rows
from fighter.errors import DataWarning
from paper.studies.small import whole_table

LEVELS = (80, 95)
DATA = ("grid", "weather", "eia_demand_hourly", "ETTh1")


def measure(name: str, seed: int, data_dir: Path | None) -> dict[str, Any]:
    """Fit on one data set with one seed, and return its row."""
    df = whole_table(name, data_dir)
    test = len(df) - int(0.8 * len(df))
    horizon = 24 if name == "grid" else 96
    model = Forecaster(horizon, 96, level=LEVELS, seed=seed, verbose=False).fit(df.iloc[:-test])
    scores = model.evaluate(df, last=test)
    bounds = model.fitted.preprocessing.scaler.bounds
    assert bounds is not None
    free = np.isinf(bounds).all(0)  # without bounds; series are in the order of the table
    row: dict[str, Any] = {"data": name, "seed": seed, "epochs": len(model.history)}
    for level in LEVELS:
        inside = scores[f"coverage-{level}"]
        row[f"coverage-{level}"] = float(inside[free].mean())
        row[f"coverage-{level} at bounds"] = None if free.all() else float(inside[~free].mean())
    return row | {name: float(scores[name].mean()) for name in ("scaled_mae", "scaled_mse")}


def main() -> None:
    parser = argparse.ArgumentParser(description="Coverage of intervals on held-out rows.")
    parser.add_argument("--data", nargs="+", default=DATA, choices=DATA)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--data-dir", type=Path, help="folder of the data sets")
    parser.add_argument("--out", type=Path, help="also write the numbers as JSON")
    args = parser.parse_args()
    warnings.simplefilter("ignore", DataWarning)
    print(f"{'data':>20} seed  {'80 %':>6} {'95 %':>6} {'MAE':>7} {'MSE':>7}")
    rows = []
    for name in args.data:
        for seed in args.seeds:
            row = measure(name, seed, args.data_dir)
            rows.append(row)
            print(
                f"{name:>20} {seed:4}  {row['coverage-80']:6.1f} {row['coverage-95']:6.1f} "
                f"{row['scaled_mae']:7.4f} {row['scaled_mse']:7.4f}",
                flush=True,
            )
    if args.out:
        device = "cuda" if torch.cuda.is_available() else "cpu"
        head = provenance("python -m benchmarks.coverage", device)
        rows = [{**row, "commit": head["commit"], "device": device} for row in rows]
        add_rows(args.out, {"provenance": head}, rows, lambda row: (row["data"], row["seed"]))


if __name__ == "__main__":
    main()
