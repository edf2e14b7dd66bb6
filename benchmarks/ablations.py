"""What each part of the default forecaster is worth, see fighter.experiments.ablations.

    python -m benchmarks.ablations --data weather eia_demand_hourly --jobs 12

Some 45 variants, each with all seeds and data sets: wants a GPU. Results and the page beside those
of the leaderboard.
"""

import argparse
from pathlib import Path

from fighter.experiments.ablations import FILE, GROUPS, plan
from fighter.experiments.accuracy import write_page
from fighter.experiments.provenance import provenance
from fighter.experiments.runs import Place, perform, write_rows
from fighter.experiments.sources import at, known_source


def main() -> None:
    parser = argparse.ArgumentParser(description="Ablations of the default forecaster.")
    parser.add_argument("--data", nargs="+", default=["weather"])
    parser.add_argument("--data-dir", type=Path, help="where the data sets are")
    parser.add_argument("--groups", nargs="+", default=list(GROUPS), choices=list(GROUPS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--max-epochs", type=int)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--results", type=Path, default=Path("results/accuracy"))
    parser.add_argument("--page", type=Path, default=Path("docs/accuracy.md"))
    args = parser.parse_args()
    data = [known_source(name, args.data_dir) for name in args.data]
    place = at(Place.here(args.data_dir, None), data)
    rows = perform(
        plan(data, args.groups, args.seeds, args.max_epochs),
        args.results / "runs",
        place,
        jobs=args.jobs,
        say=lambda line: print(line, flush=True),
    )
    head = {"provenance": provenance("python -m benchmarks.ablations", place.device)}
    write_rows(args.results / FILE, head, rows)
    print(write_page(args.results, args.page))


if __name__ == "__main__":
    main()
