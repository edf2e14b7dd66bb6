"""What each part of the default forecaster is worth, see paper.studies.ablations.

    python -m paper.studies.run_ablations --data weather eia_demand_hourly ETTh1 --jobs 16

Some 45 variants, each with all seeds and data sets: wants a GPU. Results and the page beside those
of the leaderboard, and of other calls.
"""

from paper.studies import ablations

from .run_variants import compare, options, sources


def main() -> None:
    parser = options("Ablations of the default forecaster.")
    parser.add_argument(
        "--groups", nargs="+", default=[*ablations.GROUPS], choices=[*ablations.GROUPS]
    )
    args = parser.parse_args()
    data = sources(args)
    compare(ablations, args, data, ablations.plan(data, args.groups, args.seeds))


if __name__ == "__main__":
    main()
