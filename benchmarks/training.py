"""Measure training speed on a CPU beside neuralforecast's iTransformer and VanillaTransformer.

    make bench-training
    python -m benchmarks.training [--data-dir FOLDER] [--out results/training-cpu.json]

Models are trained on Weather (21 series) with look-back and horizon 96, width 512, 8 heads and 32
windows per step. A window is L + H steps of all series; where a model takes one series at a time,
21 of its windows count as one. Every competitor is a process of its own. They take turns of about a
second; printed are the best turn of each, the ratio of the best turns and the median ratio of all.
Import, reading and preparation are shown separately and are part of no rate.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.stepping import Worker
from fighter.benchmark.provenance import provenance
from fighter.data import grid_load, to_panel
from fighter.data.datasets import catalogue
from fighter.data.files import read_table
from fighter.errors import FighterError

STEPS, BATCH, WIDTH, HEADS = 96, 32, 512, 8
MEMORY_STEPS = 30
SLOW = 10  # seconds per step beyond which there are only two turns
WEATHER: dict[str, Any] = {"time_col": "date", "missing_values": [-9999]}


def competitors(series: int, whole: bool) -> list[list[dict[str, Any]]]:
    """Return groups of competitors; the first of each is Fighter, the others are its peers."""
    fighter = {"horizon": STEPS, "lookback": STEPS, "width": WIDTH, "heads": HEADS}
    fighter |= {"kappa": 3, "batch_size": BATCH, "members": 1}
    peer = {"h": STEPS, "input_size": STEPS, "hidden_size": WIDTH, "dropout": 0.1}
    peer |= {"batch_size": series}  # counts series, not windows: all of them in every step
    variates = peer | {"n_series": series, "n_heads": HEADS, "e_layers": 2}
    steps = peer | {"n_head": HEADS, "encoder_layers": 1, "decoder_layers": 1}
    return [
        [
            {"name": "Fighter, series as nodes, 2 layers", "options": fighter | {"layers": 2}},
            {
                "name": "iTransformer, 2 layers",
                "model": "iTransformer",
                "options": variates | {"windows_batch_size": BATCH},
            },
        ],
        [
            {
                "name": "Fighter, time steps as nodes, 1 layer",
                "options": fighter | {"layers": 1, "nodes": "time"},
            },
            {
                "name": f"VanillaTransformer, 1+1 layers, {BATCH} windows of one series",
                "model": "VanillaTransformer",
                "options": steps | {"windows_batch_size": BATCH},
                "windows": BATCH / series,
            },
        ]
        + [
            {
                "name": f"VanillaTransformer, 1+1 layers, {BATCH}·{series} windows of one series",
                "model": "VanillaTransformer",
                "options": steps | {"windows_batch_size": BATCH * series},
                "windows": BATCH,
            }
        ]
        * whole,
    ]


def find_weather(data_dir: str | None) -> Path | None:
    """Return the file of Weather; None, with a message, where it is not at hand."""
    try:
        return catalogue.find("weather", data_dir)
    except FighterError as error:
        print(f"{error}\nGenerated grid data is used instead.\n")
        return None


def write_table(weather: Path | None, path: Path) -> tuple[str, str, int]:
    """Write the long table that all read; return its description, frequency and series."""
    import pandas as pd

    if weather:
        panel, name = to_panel(read_table(weather), **WEATHER), "Weather"
    else:
        panel = to_panel(grid_load(52_704, 21).frame()[["unique_id", "ds", "y"]])
        name = "generated grid data (Weather was not found)"
    values = np.where(panel.observed, panel.values, np.nan)
    pd.DataFrame(
        {
            "unique_id": np.repeat(np.array(panel.ids), panel.length),
            "ds": np.tile(panel.times.astype("datetime64[ns]"), panel.n_series),
            "y": values.T.reshape(-1),
        }
    ).to_parquet(path)
    what = f"{name}, {panel.length:,} steps of {panel.n_series} series"
    return what, "10min" if weather else "h", panel.n_series


def race(
    group: list[dict[str, Any]], python: str, env: dict[str, str], turns: int, turn: float
) -> list[dict[str, Any]]:
    """Let a group take turns; return a row for each of it."""
    workers: list[Worker] = []
    try:
        for entry in group:
            peer = "model" in entry
            module = f"benchmarks.training_{'neuralforecast' if peer else 'fighter'}"
            workers.append(Worker(python if peer else sys.executable, module, entry, env))
        for worker in workers:
            worker.train(1, count=False)  # warm-up
        for number in range(turns):
            for worker in workers:
                if worker.seconds < SLOW or number < 2:
                    worker.train(max(round(turn / worker.seconds), 1))
        for worker in workers:
            worker.end()
    finally:
        for worker in workers:
            worker.kill()
    rows = []
    for entry, worker in zip(group, workers, strict=True):
        windows = entry.get("windows", BATCH)
        rates = [windows * rate for rate in worker.rates]
        ours = [BATCH * rate for rate in workers[0].rates]
        rows.append(
            {
                "name": entry["name"],
                "windows_per_s": max(rates),
                "windows_per_s_turns": rates,
                "windows_per_step": windows,
                "ms_per_step": 1e3 * windows / max(rates),
                "steps": worker.steps,
                "ratio": max(ours) / max(rates),
                "ratio_median": statistics.median(
                    a / b for a, b in zip(ours, rates, strict=False)  # turn by turn
                ),
                "steps_ratio": max(workers[0].rates) / max(worker.rates),
                **worker.facts,
            }
        )  # fmt: skip
    return rows


def memory(table: Path, options: dict[str, Any], env: dict[str, str]) -> dict[str, float]:
    """Return the memory of ``import torch`` and of a fit with default settings, in MB."""
    code = "import torch; from benchmarks.stepping import peak_mb; print(peak_mb())"
    bare = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    settings = {"table": str(table), "options": options, "steps": MEMORY_STEPS}
    fit = Worker(sys.executable, "benchmarks.training_fighter", settings, env)
    fit.end()
    torch_mb, fit_mb = float(bare.stdout), fit.facts["peak_mb"]
    return {"import_torch_mb": torch_mb, "fit_mb": fit_mb, "over_mb": fit_mb - torch_mb}


def main() -> None:
    parser = argparse.ArgumentParser(description="Training speed beside neuralforecast.")
    parser.add_argument("--data-dir", help="folder of Weather (default: FIGHTER_DATA or the cache)")
    parser.add_argument(
        "--peer-python", default=".bench-venv/bin/python", help="the Python that has neuralforecast"
    )
    parser.add_argument(
        "--whole", action="store_true", help="also VanillaTransformer with all series of 32 windows"
    )  # minutes a step
    parser.add_argument(
        "--threads", type=int, help="threads of all competitors (default: torch's choice)"
    )
    parser.add_argument("--turns", type=int, default=8)
    parser.add_argument(
        "--turn", type=float, default=1.0, help="seconds per turn, at least one step"
    )
    parser.add_argument("--out", type=Path, help="also write the numbers as JSON")
    args = parser.parse_args()
    # Waiting threads must not spin: on a busy machine that would cost either side most of its time.
    env = os.environ | {"OMP_WAIT_POLICY": os.environ.get("OMP_WAIT_POLICY", "PASSIVE")}
    if args.threads:
        env |= {"OMP_NUM_THREADS": str(args.threads)}
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "table.parquet"
        weather = find_weather(args.data_dir)
        what, freq, series = write_table(weather, table)
        print(f"{what}; L = H = {STEPS}, width {WIDTH}, {HEADS} heads, {BATCH} windows a step, CPU")
        print(
            "a window holds all series; rates are of the best turn, × = Fighter's rate over this\n"
        )
        head = (
            "windows/s",
            "×",
            "× median",
            "ms/step",
            "steps",
            "parameters",
            "import s",
            "prepare s",
        )
        print(" " * 58 + "".join(f"{title:>11}" for title in head))
        rows = []
        for group in competitors(series, args.whole):
            for entry in group:
                entry |= {"table": str(table), "freq": freq}
            for row in race(group, args.peer_python, env, args.turns, args.turn):
                rows.append(row)
                print(_line(row), flush=True)
        options = {"horizon": STEPS, "lookback": STEPS} | (WEATHER if weather else {})
        kept = memory(weather or table, options, env)
    print(
        f"\npeak memory of a fit with default settings (two epochs of {MEMORY_STEPS} steps, "
        f"each with its validation): {kept['fit_mb']:.0f} MB, "
        f"{kept['over_mb']:.0f} MB over import torch"
    )
    if args.out:
        result = {
            "provenance": provenance("python -m benchmarks.training", "cpu"),
            "data": what,
            "rows": rows,
            "memory": kept,
        }
        args.out.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")


def _line(row: dict[str, Any]) -> str:
    cells = (
        f"{row['windows_per_s']:.3g}",
        f"{row['ratio']:.3g}",
        f"{row['ratio_median']:.3g}",
        f"{row['ms_per_step']:.4g}",
        f"{row['steps']}",
        f"{row['parameters']:,}",
        f"{row['import_s']:.1f}",
        f"{row['read_s'] + row['prepare_s']:.1f}",
    )
    return f"{row['name']:<58}" + "".join(f"{cell:>11}" for cell in cells)


if __name__ == "__main__":
    main()
