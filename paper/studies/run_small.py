"""The forecaster on small tables, see paper.studies.small.

    python -m paper.studies.run_small --data-dir DIR --jobs 2

Half an hour for each seed on two cores. Results and the page beside those of the leaderboard.
"""

import tempfile
import warnings
from pathlib import Path

from fighter.errors import DataWarning
from paper.studies import small

from .run_variants import compare, options


def main() -> None:
    args = options("Small tables.", known=False).parse_args()
    warnings.simplefilter("ignore", DataWarning)
    with tempfile.TemporaryDirectory() as folder:
        data = small.write_tables(Path(folder), args.data_dir)
        compare(small, args, data, small.plan(data, args.seeds))


if __name__ == "__main__":
    main()
