"""Time and memory of a fit and a forecast as the number of series grows.

    python -m benchmarks.many_series [--series 100 1000 10000] [--device cpu] [--out FILE.json]

Weekly sales of 104 weeks are generated; with ``--weeks 1040``, items begin at any of so many weeks.
Every size runs in a new process with default settings and intervals on; ``--epochs 1`` shortens the
training, which takes as long for any number of series. Seconds are of ``fit`` and of ``predict``
from a saved and loaded model, by the clock and of processor time, which other work on the machine
changes less, least with ``--threads 1``. Memory is the largest resident set of the process, table
included, less what the imports take. ``--picture FILE.png`` draws the numbers.
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
NUMBERS = ("fit", "fit_cpu", "predict", "predict_cpu", "fit_megabytes", "megabytes")
CHILD = """
import sys, time, warnings
from pathlib import Path
import pandas as pd
import torch
from fighter import Forecaster, Training
warnings.simplefilter("ignore")
def memory():
    lines = Path("/proc/self/status").read_text().splitlines()  # ru_maxrss has the parent's, too
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 2**10
file, device, horizon, folder, epochs, forecasts, threads = sys.argv[1:]
if int(threads):
    torch.set_num_threads(int(threads))
before = memory()
df = pd.read_parquet(file)
training = Training(max_epochs=int(epochs) or None)
times = [(time.perf_counter(), time.process_time())]
model = Forecaster(int(horizon), level=[80], device=device, training=training, verbose=False)
model.fit(df)
times.append((time.perf_counter(), time.process_time()))
in_fit = memory() - before
model.save(folder)
model = Forecaster.load(folder, device=device)
times.append((time.perf_counter(), time.process_time()))
made = model.predict() if forecasts == "True" else df[:0]
times.append((time.perf_counter(), time.process_time()))
assert made.notna().all().all()
fit, _, predict = ([b - a for a, b in zip(*pair)] for pair in zip(times, times[1:]))
print(len(made), *fit, *predict, in_fit, memory() - before)
"""


def generate(series: int, weeks: int = WEEKS) -> pd.DataFrame:
    """Return weekly counts with a yearly season and a trend; three in ten begin late.

    Of more than 104 ``weeks``, each item has 104, from any week on.
    """
    rng, step = np.random.default_rng(0), np.arange(WEEKS)
    level, wave = np.exp(rng.normal(2, 1, series)), rng.uniform(0, 0.5, series)
    phase, trend = rng.uniform(0, 2 * np.pi, series), rng.normal(0, 0.3, series)
    season = 1 + wave[:, None] * np.sin(2 * np.pi * step / 52 + phase[:, None])
    y = rng.poisson(level[:, None] * season * np.exp(trend[:, None] * step / WEEKS))
    begin = rng.integers(0, WEEKS // 2, series) * (rng.random(series) < 0.3)
    days = pd.date_range("2022-01-03", periods=weeks, freq="W-MON").to_numpy()
    first = rng.integers(0, weeks - WEEKS + 1, series)
    names = np.array([f"item{i}" for i in range(series)])
    columns = {
        "unique_id": names.repeat(WEEKS),
        "ds": days[(first[:, None] + step).ravel()],
        "y": y.ravel() * 1.0,
    }
    kept = (step >= begin[:, None]).ravel()
    return pd.DataFrame({name: column[kept] for name, column in columns.items()})


def draw(rows: list[dict[str, float]], path: Path) -> None:
    """Draw seconds and memory by the number of series, beside a line of growth in proportion."""
    from matplotlib import pyplot as plt

    series = [row["series"] for row in rows]
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
    for name, label in (("fit_cpu", "fit"), ("predict_cpu", "predict")):
        left.plot(series, [row[name] for row in rows], "o-", label=label)
    right.plot(series, [row["megabytes"] for row in rows], "o-", label="fit and predict")
    for axes, title in ((left, "processor seconds"), (right, "memory, MiB")):
        low, high = axes.get_ylim()
        last = axes.lines[-1].get_ydata()[-1]
        axes.plot(series, [last * n / series[-1] for n in series], ":", color="gray", label="∝ N")
        axes.set(xscale="log", yscale="log", xlabel="series", title=title)
        axes.set_ylim(
            max(low, min(min(line.get_ydata()) for line in axes.lines[:-1]) / 2), 2 * high
        )
        axes.legend()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main() -> None:
    """Run all sizes and print one line each."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.many_series")
    parser.add_argument("--series", type=int, nargs="+", default=[100, 1000, 10_000, 100_000])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--weeks", type=int, default=WEEKS, help="over which items begin")
    parser.add_argument("--epochs", type=int, default=0, help="0: as many as the default takes")
    parser.add_argument("--fit-only", action="store_true", help="do not forecast")
    parser.add_argument("--threads", type=int, default=0, help="0: as many as torch takes")
    parser.add_argument("--out", type=Path, help="also write the numbers as JSON")
    parser.add_argument("--picture", type=Path, help="also draw them")
    args = parser.parse_args()
    rows = []
    for series in args.series:
        with tempfile.TemporaryDirectory() as name:
            file = Path(name) / "table.parquet"
            generate(series, args.weeks).to_parquet(file)
            options = [str(file), args.device, str(HORIZON), f"{name}/model", str(args.epochs)]
            options += [str(not args.fit_only), str(args.threads)]
            command = [sys.executable, "-c", CHILD, *options]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(done.stderr)
        made, *numbers = map(float, done.stdout.split())
        row = {"series": series} | dict(zip(NUMBERS, [round(n, 2) for n in numbers], strict=True))
        rows.append(row | {"forecasts": int(made)})
        print(
            f"{series:8,} series: fit {row['fit']:7.1f} s ({row['fit_cpu']:.1f} of processors), "
            f"predict {row['predict']:7.1f} s ({row['predict_cpu']:.1f}), "
            f"{series / max(row['predict'], 0.01):6,.0f} series/s, {row['megabytes']:7,.0f} MiB",
            flush=True,
        )
    if args.picture:
        draw(rows, args.picture)
    if args.out:
        about = provenance("python -m benchmarks.many_series", args.device)
        args.out.write_text(json.dumps({"provenance": about, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
