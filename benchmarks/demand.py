"""Measure what forecasts of demand gain: distributions of counts, means, and marked stock-outs.

    python -m benchmarks.demand --zoo DIR [--out results/demand.json]

``intervals`` compares the quantiles with and without a distribution of counts, ``means`` the bias
of both kinds of point forecasts, on rows that training never saw: the last horizon of each table
(two of a daily one). ``stock-outs`` compares sales as they are, sold-out days left out, and
``censored``, with the true mean of the demand that the sales were drawn from. Small networks and at
most 60 series: the numbers compare settings, they are not the best that the model can do.
"""

import argparse
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import torch

from fighter import Forecaster, Training
from fighter.benchmark.provenance import provenance
from fighter.benchmark.runs import add_rows
from fighter.errors import DataWarning

TABLES = {"carparts": ("MS", 12), "online_retail": ("D", 28), "m5_eight": ("D", 28)}
GENERATED = ("poisson-1", "poisson-3", "negative-binomial", "croston")
SERIES, LEVELS = 60, (80, 95)
PARTS = ("intervals", "means", "stock-outs")
WAYS = ("sales", "left out", "censored", "demand")


def generate(name: str) -> pd.DataFrame:
    """Return counts of 20 series over 200 days."""
    random, size = np.random.default_rng(0), (200, 20)
    values = {
        "poisson-1": lambda: random.poisson(1, size),
        "poisson-3": lambda: random.poisson(3, size),
        "negative-binomial": lambda: random.negative_binomial(1, 0.2, size),
        "croston": lambda: (random.random(size) < 0.15) * (1 + random.poisson(4, size)),
    }[name]()
    days = pd.date_range("2024-01-01", periods=len(values))
    table = pd.DataFrame(values.astype(float), index=days).rename_axis("ds").reset_index()
    return table.melt("ds", var_name="unique_id", value_name="y")


def read(name: str, folder: Path) -> tuple[Any, str, int]:
    """Return a table, its frequency and its horizon."""
    if name not in TABLES:
        return generate(name), "D", 14
    table: Any = pd.read_parquet(folder / f"{name}.parquet")[["unique_id", "ds", "y"]]
    ids = table.unique_id.unique()
    some = ids[np.unique(np.linspace(0, len(ids) - 1, SERIES).astype(int).clip(max=len(ids) - 1))]
    freq, horizon = TABLES[name]
    return table[table.unique_id.isin(some)], freq, horizon


def fit_and_score(name: str, folder: Path, **settings: Any) -> dict[str, Any]:
    """Fit on all but the last rows, score these, and return the scores of the whole table."""
    table, freq, horizon = read(name, folder)
    test = horizon if freq == "MS" else 2 * horizon
    cut = np.sort(table.ds.unique())[-test]
    quick = {"training": Training(max_epochs=3), "verbose": False, "device": "cpu"}
    model = Forecaster(horizon, level=LEVELS, freq=freq, **quick, **settings)
    begin = time.perf_counter()
    model.fit(table[table.ds < cut])
    seconds = time.perf_counter() - begin
    metrics = ["wql", "coverage", "wape", "bias", "rmsse"]
    found = model.evaluate(table, last=test, metrics=metrics, total=True)
    shares = {"count_share": model.plan.count_share, "network_share": model.plan.network_share}
    return (
        {n: round(float(v), 4) for n, v in found.items()} | shares | {"seconds": round(seconds, 1)}
    )


def measure_intervals(name: str, folder: Path) -> list[dict[str, Any]]:
    """Score the quantiles with and without a distribution of counts."""
    rows = []
    for counts in (False, True):
        none = patch(
            "fighter.forecasting.mixture.are_counts",
            lambda panel: torch.zeros(panel.n_series, dtype=torch.bool),
        )
        if not counts:
            none.start()
        try:
            rows.append({"counts": counts, **fit_and_score(name, folder)})
        finally:
            if not counts:
                none.stop()
    return rows


def measure_means(name: str, folder: Path) -> list[dict[str, Any]]:
    """Score both kinds of point forecasts."""
    return [{"point": p, **fit_and_score(name, folder, point=p)} for p in ("median", "mean")]


def shop(kind: str, rows: int = 300, items: int = 10, horizon: int = 14) -> pd.DataFrame:
    """Return daily demand with a weekly season, its mean, and what was sold of it.

    The stock runs out at random on a fifth of the days (``random``); it is the same every day, and
    a fifth of the demands are larger (``fixed``); or it follows the demand that was expected, with
    errors (``varied``).
    """
    random, step = np.random.default_rng(0), np.arange(rows + horizon)[:, None]
    wave = 1 + 0.4 * np.sin(2 * np.pi * (step / 7 + random.random(items)))
    mean = np.linspace(10, 30, items) * wave
    demand = random.poisson(mean).astype(float)
    if kind == "random":
        stock = np.floor(demand * random.uniform(0.2, 0.9, demand.shape))
        stock = np.where(random.random(demand.shape) < 0.2, stock, np.inf)
    elif kind == "fixed":
        stock = np.broadcast_to(np.quantile(demand, 0.8, axis=0), demand.shape)
    else:
        stock = np.round(mean * random.lognormal(0.35, 0.3, demand.shape))
    columns = {
        "unique_id": np.repeat([f"item {i}" for i in range(items)], rows + horizon),
        "ds": np.tile(pd.date_range("2024-01-01", periods=rows + horizon), items),
        "y": np.minimum(demand, stock).T.ravel(),
        "sold_out": (demand > stock).T.ravel(),
        "demand": demand.T.ravel(),
        "mean": mean.T.ravel(),
    }
    return pd.DataFrame(columns)


def measure_stock_outs(kind: str, horizon: int = 14) -> list[dict[str, Any]]:
    """Compare forecasts of the demand, from sales read in several ways, with its true mean."""
    table: Any = shop(kind, horizon=horizon)
    rows: list[dict[str, Any]] = []
    past = table.ds < table.ds.max() - pd.Timedelta(days=horizon - 1)
    train, later = table[past], table[~past]
    for way in WAYS:
        df = train[["unique_id", "ds", "y"]]
        if way == "left out":
            df = df.assign(y=df.y.where(~train.sold_out))
        elif way == "demand":
            df = df.assign(y=train.demand)
        elif way == "censored":
            df = df.assign(sold_out=train.sold_out)
        model = Forecaster(
            horizon, level=[80], training=Training(max_epochs=3), verbose=False, device="cpu",
            censored="sold_out" if way == "censored" else None,
        )  # fmt: skip
        made = model.fit(df).predict().merge(later, on=["unique_id", "ds"])
        inside = (made["Fighter-lo-80"] <= made.demand) & (made.demand <= made["Fighter-hi-80"])
        row = {
            "read as": way,
            "sold_out": train.sold_out.mean(),
            "bias": made.Fighter.sum() / made["mean"].sum() - 1,
            "mae": (made.Fighter - made.demand).abs().mean(),
            "coverage-80": 100 * inside.mean(),
        }
        rows.append({n: v if isinstance(v, str) else round(float(v), 4) for n, v in row.items()})
    return rows


def cell(row: Mapping[str, Any]) -> tuple:
    """Return what a row measures."""
    return tuple(row.get(name) for name in ("part", "data", "counts", "point", "read as"))


def main() -> None:
    parser = argparse.ArgumentParser(description="Forecasts of demand.")
    parser.add_argument("--zoo", type=Path, required=True, help="folder of the tables")
    parser.add_argument("--parts", nargs="+", default=PARTS, choices=PARTS)
    parser.add_argument("--out", type=Path, help="also write the numbers as JSON")
    args = parser.parse_args()
    warnings.simplefilter("ignore", DataWarning)
    parts = [("intervals", name, measure_intervals) for name in (*TABLES, *GENERATED)]
    parts += [("means", name, measure_means) for name in TABLES]
    parts += [("stock-outs", kind, measure_stock_outs) for kind in ("random", "fixed", "varied")]
    for part, name, measure in parts:
        if part not in args.parts:
            continue
        found = measure(name) if part == "stock-outs" else measure(name, args.zoo)  # pyright: ignore
        for row in found:
            print(part, name, row, flush=True)
        if args.out:  # after each table, so that what is measured is kept
            head = provenance("python -m benchmarks.demand", "cpu")
            found = [{"part": part, "data": name, **row, "commit": head["commit"]} for row in found]
            add_rows(args.out, {"provenance": head}, found, cell)


if __name__ == "__main__":
    main()
