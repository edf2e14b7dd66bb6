"""The command line: ``python -m tests.fuzz tables models kills threads [--cases N]``."""

import argparse
import sys
from pathlib import Path

from tests.fuzz import tables
from tests.fuzz.runner import FINE, run_case, run_suite, say, count_outcomes
from fighter.benchmark.provenance import commit

SUITES = {suite.name: suite for suite in (tables.SUITE,)}


def main(argv=None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("suites", nargs="+", choices=list(SUITES))
    parser.add_argument("--cases", type=int)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--case", type=int)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--folder", type=Path, default=Path(".fuzz"))
    options = parser.parse_args(argv)
    failed = 0
    for name in options.suites:
        suite = SUITES[name]
        folder = options.folder / commit()
        if options.case is not None:
            say(str(run_case(suite, options.case, folder / name)))
            continue
        records = run_suite(suite, options.cases or suite.cases, folder, options.workers, options.start)
        for group, kinds in count_outcomes(records).items():
            say(f"{name}: {group}: {kinds}")
        failed += sum(r["kind"] not in FINE for r in records)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
