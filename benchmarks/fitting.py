"""Time the default forecaster from a table to forecasts, beside an earlier commit.

    python -m benchmarks.fitting --data-dir DIR [--against COMMIT] [--out results/fitting.json]

Every fit runs in a new process with intervals on; versions take turns, so that a busy moment of the
machine does not hit only one of them. Seconds are from the call of ``fit`` to the end of
``predict``; the import comes before. The pretrained network is not fitted: its seconds include the
load of its weights. ``demo`` is the whole command ``fighter demo``.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

from fighter.benchmark.provenance import provenance

ROOT = Path(__file__).resolve().parents[1]
CHILD = """
import sys, time, warnings
import pandas as pd
from fighter import Forecaster
warnings.simplefilter("ignore")
df = pd.read_parquet(sys.argv[1])
start = time.perf_counter()
model = Forecaster(int(sys.argv[2]), model=sys.argv[3], level=[80, 95], verbose=False)
model.predict(df) if sys.argv[3] == "pretrained" else model.fit(df).predict()
print(time.perf_counter() - start)
"""


def generate(series: int, rows: int, freq: str, season: int) -> pd.DataFrame:
    """Return series with a trend, a season, a slow random walk and noise."""
    rng, step = np.random.default_rng(0), np.arange(rows)
    columns = {}
    for i in range(series):
        slow = 0.3 * rng.normal(0, 3, rows).cumsum()
        wave = 10 * np.sin(2 * np.pi * step / season + i)
        columns[f"s{i}"] = 50 + 0.05 * step + wave + slow + rng.normal(0, 2, rows)
    stamps = pd.date_range("2010-01-01", periods=rows, freq=freq, name="ds")
    return pd.DataFrame(columns, stamps).reset_index()


def tables(folder: Path, data_dir: Path | None) -> dict[str, tuple[Path, int, str]]:
    """Write the tables; return the file, the horizon and the model of each."""
    made = {
        "1 monthly series of 150 rows": (generate(1, 150, "MS", 12), 12, "fighter"),
        "50 daily series of 500 rows": (generate(50, 500, "D", 7), 14, "fighter"),
        "100 daily series, pretrained": (generate(100, 500, "D", 7), 14, "pretrained"),
    }
    found = {}
    for i, (name, (table, horizon, model)) in enumerate(made.items()):
        table.to_parquet(folder / f"{i}.parquet")
        found[name] = (folder / f"{i}.parquet", horizon, model)
    if data_dir is not None:
        weather = (data_dir / "weather.parquet").resolve()  # processes run in other folders
        found["Weather, 21 series of 52,696 rows"] = (weather, 96, "fighter")
    return found


def seconds(source: Path, file: Path | None, horizon: int, model: str) -> float:
    """Fit and forecast, or run the demo if there is no file, with the code in ``source``."""
    env = os.environ | {"PYTHONPATH": str(source / "src")}
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", CHILD, str(file), str(horizon), model]
        if file is None:
            command = [sys.executable, "-m", "fighter", "demo", "--out", f"{folder}/demo"]
        start = time.perf_counter()
        done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return time.perf_counter() - start if file is None else float(done.stdout.split()[-1])


def main() -> None:
    """Time all tables and print one line each."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fitting")
    parser.add_argument("--data-dir", type=Path, help="folder of weather.parquet (default: none)")
    parser.add_argument("--against", metavar="COMMIT", help="also time this commit")
    parser.add_argument("--repeats", type=int, default=3, help="the median counts (default: 3)")
    parser.add_argument("--out", type=Path, help="also write the numbers as JSON")
    args = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder, versions = Path(name), {"now": ROOT}
        if args.against:
            versions[args.against] = folder / "before"
            place = ["worktree", "add", "--detach", str(versions[args.against]), args.against]
            subprocess.run(["git", *place], cwd=ROOT, check=True, capture_output=True)
        try:
            work = {**tables(folder, args.data_dir), "fighter demo": (None, 0, "")}
            for table, (file, horizon, model) in work.items():
                repeats = 1 if "Weather" in table else args.repeats
                taken: dict[str, list[float]] = {version: [] for version in versions}
                for _ in range(repeats):
                    for version, source in versions.items():
                        taken[version].append(round(seconds(source, file, horizon, model), 2))
                rows.append({"table": table, "seconds": taken})
                middle = {version: float(np.median(each)) for version, each in taken.items()}
                print(f"{table:36}", *(f"{k} {v:7.1f} s" for k, v in middle.items()), flush=True)
        finally:
            if args.against:
                remove = ["git", "worktree", "remove", "--force", str(versions[args.against])]
                subprocess.run(remove, cwd=ROOT, check=True)
    if args.out:
        about = provenance("python -m benchmarks.fitting", "cpu")
        args.out.write_text(json.dumps({"provenance": about, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
