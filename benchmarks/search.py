"""Settings around the default forecaster, see fighter.experiments.search.

    python -m benchmarks.search --data weather eia_demand_hourly ETTh1 --jobs 12

Wants a GPU. Results and the page beside those of the leaderboard.
"""

import argparse
from pathlib import Path

from fighter.experiments.accuracy import write_page
from fighter.experiments.provenance import provenance
from fighter.experiments.runs import Place, perform, write_rows
from fighter.experiments.search import FILE, head, plan, variants
from fighter.experiments.sources import at, known_source


def main() -> None:
    parser = argparse.ArgumentParser(description="Settings compared before the test rows.")
    parser.add_argument("--data", nargs="+", default=["weather", "eia_demand_hourly", "ETTh1"])
    parser.add_argument("--data-dir", type=Path, help="where the data sets are")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--variants", nargs="+", default=list(variants()), choices=list(variants()))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--results", type=Path, default=Path("results/accuracy"))
    parser.add_argument("--page", type=Path, default=Path("docs/accuracy.md"))
    args = parser.parse_args()
    data = [known_source(name, args.data_dir) for name in args.data]
    place = at(Place.here(args.data_dir, None), data)
    runs = plan(data, args.variants, args.seeds)
    folder = args.results / "runs"
    rows = perform(runs, folder, place, jobs=args.jobs, say=lambda line: print(line, flush=True))
    for row in rows:
        kept = ("mse", "mae", "best_epoch", "epochs", "parameters", "train_seconds")
        row["result"] = {name: row["result"][name] for name in kept}
    made = {"provenance": provenance("python -m benchmarks.search", place.device)}
    write_rows(args.results / FILE, made | head(rows), rows)
    print(write_page(args.results, args.page))


if __name__ == "__main__":
    main()
