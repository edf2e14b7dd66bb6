"""Run the fuzzers: ``python -m tests.fuzz [tables hostile models kills threads] [--cases N]``.

Cases are numbered, and the number is the seed. Outcomes are kept in ``.fuzz``, by commit, so that
a run that was stopped goes on; remove the folder to start again.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from fighter.benchmark.provenance import commit
from tests.fuzz import hostile, kills, models, tables, threads
from tests.fuzz.page import DOCS, RESULTS, write_page, write_results
from tests.fuzz.runner import FINE, Suite, repeat, run_case, run_suite, say

SUITES: dict[str, Suite] = {
    module.SUITE.name: module.SUITE for module in (tables, hostile, models, kills, threads)
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the suites that were asked for; return 1 if a case has an outcome it may not have."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("suites", nargs="*", choices=[[], *SUITES], help="suites (default: all)")
    parser.add_argument("--cases", type=int, help="cases of each suite (default: a full run)")
    parser.add_argument("--start", type=int, default=0, help="number of the first case")
    parser.add_argument("--case", type=int, help="repeat only this case, in this process")
    parser.add_argument("--workers", type=int, default=2, help="processes at once (default: 2)")
    parser.add_argument("--folder", type=Path, default=Path(".fuzz"), help="where to keep outcomes")
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS} and {DOCS}")
    options = parser.parse_args(argv)
    torch.set_num_threads(1)
    folder = (options.folder / commit()).absolute()
    failed, counted = 0, {}
    for suite in [SUITES[name] for name in options.suites or SUITES]:
        first = options.start if options.case is None else options.case
        count = options.cases or suite.cases
        if options.case is not None:
            run_suite(suite, 0, folder)  # writes what the cases share
            outcome = run_case(suite, first, folder / suite.name)
            say(f"{outcome.group}: {outcome.kind} {outcome.detail}")
            failed += outcome.kind not in FINE
            continue
        records = run_suite(suite, count, folder, options.workers, first)
        wrong = [record for record in records if record["kind"] not in FINE]
        say(f"{suite.name}: {len(records)} cases, {len(wrong)} with an outcome they may not have")
        for record in wrong[:20]:
            say(f"  {repeat(suite, record['case'])}  # {record['kind']}: {record['detail']}")
        failed += len(wrong)
        counted[suite.name] = (suite, records)
    if options.write:
        write_results(counted, sys.argv[1:] if argv is None else list(argv))
        write_page()
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
