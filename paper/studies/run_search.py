"""Settings around the default forecaster, see paper.studies.search.

    python -m paper.studies.run_search --data weather eia_demand_hourly ETTh1 --jobs 16

Wants a GPU. Results and the page beside those of the leaderboard, and of other calls.
"""

from paper.studies import search

from .run_variants import compare, options, sources


def main() -> None:
    parser = options("Settings compared before the test rows.")
    known = [*search.variants()]
    parser.add_argument("--variants", nargs="+", default=known, choices=known)
    parser.add_argument("--horizon", type=int, default=96)
    parser.add_argument("--lookback", type=int, default=96, help="of the default")
    args = parser.parse_args()
    data = sources(args)
    runs = search.plan(data, args.variants, args.seeds, args.horizon, args.lookback)
    compare(search, args, data, runs)


if __name__ == "__main__":
    main()
