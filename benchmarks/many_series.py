"""Time and memory of a fit and a forecast as the number of series grows.

    python -m benchmarks.many_series [--series 100 1000 10000] [--device cpu] [--out FILE.json]

Weekly sales of 104 weeks are generated. Every size runs in a new process with default settings and
intervals on. Seconds are of ``fit`` and of ``predict`` from a saved and loaded model; memory is the
largest resident set of the process, table included, less what the imports take.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from fighter.benchmark.provenance import provenance

WEEKS, HORIZON = 104, 8
CHILD = """
import resource, sys, time, warnings
import pandas as pd
from fighter import Forecaster
warnings.simplefilter("ignore")
def memory():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
file, device, horizon, folder = sys.argv[1:]
before = memory()
df = pd.read_parquet(file)
start = time.perf_counter()
model = Forecaster(int(horizon), level=[80], device=device, verbose=False).fit(df)
fitted = time.perf_counter() - start
model.save(folder)
model = Forecaster.load(folder, device=device)
start = time.perf_counter()
made = model.predict()
made_in = time.perf_counter() - start
assert made.notna().all().all()
print(len(made), fitted, made_in, memory() - before)
"""


def generate(series: int) -> pd.DataFrame:
    """Return weekly counts with a yearly season and a trend; three in ten begin late."""
    rng, step = np.random.default_rng(0), np.arange(WEEKS)
    level, wave = np.exp(rng.normal(2, 1, series)), rng.uniform(0, 0.5, series)
    phase, trend = rng.uniform(0, 2 * np.pi, series), rng.normal(0, 0.3, series)
    season = 1 + wave[:, None] * np.sin(2 * np.pi * step / 52 + phase[:, None])
    y = rng.poisson(level[:, None] * season * np.exp(trend[:, None] * step / WEEKS))
    begin = rng.integers(0, WEEKS // 2, series) * (rng.random(series) < 0.3)
    days = pd.date_range("2022-01-03", periods=WEEKS, freq="W-MON")
    names = np.array([f"item{i}" for i in range(series)])
    columns = {"unique_id": names.repeat(WEEKS), "ds": np.tile(days, series), "y": y.ravel() * 1.0}
    kept = (step >= begin[:, None]).ravel()
    return pd.DataFrame({name: column[kept] for name, column in columns.items()})


def main() -> None:
    """Run all sizes and print one line each."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.many_series")
    parser.add_argument("--series", type=int, nargs="+", default=[100, 1000, 10_000, 100_000])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, help="also write the numbers as JSON")
    args = parser.parse_args()
    rows = []
    for series in args.series:
        with tempfile.TemporaryDirectory() as name:
            file = Path(name) / "table.parquet"
            generate(series).to_parquet(file)
            command = [sys.executable, "-c", CHILD, str(file), args.device, str(HORIZON)]
            done = subprocess.run(
                [*command, f"{name}/model"], capture_output=True, text=True, check=False
            )
        if done.returncode:
            raise SystemExit(done.stderr)
        made, fit, predict, memory = map(float, done.stdout.split())
        row = {"series": series, "fit": round(fit, 2), "predict": round(predict, 2)}
        row |= {"megabytes": round(memory), "forecasts": int(made)}
        rows.append(row)
        print(
            f"{series:8,} series: fit {fit:7.1f} s, predict {predict:7.1f} s "
            f"({series / predict:6,.0f} series/s), {memory:7,.0f} MiB",
            flush=True,
        )
    if args.out:
        about = provenance("python -m benchmarks.many_series", args.device)
        args.out.write_text(json.dumps({"provenance": about, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
