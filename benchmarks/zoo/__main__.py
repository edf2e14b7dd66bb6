"""Compare Fighter with its peers on the tables of the zoo.

    make bench-zoo
    python -m benchmarks.zoo --models fighter flair --tables core --device cuda --jobs 8 --page

A call computes what ``results/zoo.json`` does not have and writes every result at once, so that an
interrupted call resumes. ``--again`` first drops the results that are asked for; interrupted, such
a call is resumed without it. Peers run in an environment of their own. ``--page`` writes
docs/zoo.md from the stored results.
"""

import argparse
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from . import store

# Waiting threads must not spin, and several runs share a machine.
QUIET = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}


def commands(args: argparse.Namespace) -> list[list[str]]:
    """Return the calls of the workers: one per model and table, or one per environment."""
    places = store.Places(args.results, args.cache, args.csv)
    todo = store.missing(args, args.models, places)
    groups: dict[tuple[bool, tuple[str, str] | None], None] = {}
    for model, table, _, _ in todo:
        group = (model, table.name) if args.jobs > 1 else None
        groups[model in store.PEERS, group] = None
    calls = []
    for peer, group in groups:
        module = "peers" if peer else "fighter_run"
        python = str(args.peer_python) if peer else sys.executable
        models = [group[0]] if group else args.models
        tables = [group[1]] if group else args.tables or []
        call = [python, "-m", f"benchmarks.zoo.{module}", "--zoo", str(args.zoo)]
        call += ["--models", *models]
        call += ["--tables", *tables] if tables else []
        call += ["--windows", *map(str, args.windows), "--seeds", *map(str, args.seeds)]
        call += ["--results", str(args.results), "--cache", str(args.cache)]
        call += ["--device", args.device] if args.device else []
        call += ["--csv", str(args.csv)] if args.csv else []
        calls.append([*call, "--command", args.command])
    return calls


def work(calls: list[list[str]], jobs: int) -> int:
    """Run the workers, some at a time; return how many had a failure."""
    folders = [str(store.ROOT / "src"), str(store.ROOT), os.environ.get("PYTHONPATH", "")]
    path = os.pathsep.join(folders)
    env = QUIET | os.environ | {"PYTHONPATH": path}
    running: set[subprocess.Popen[bytes]] = set()
    stopped = False

    def call(command: list[str]) -> int:
        if stopped:
            return 1
        process = subprocess.Popen(command, env=env)
        running.add(process)
        code = process.wait()
        running.discard(process)
        return code

    with ThreadPoolExecutor(max(jobs, 1)) as pool:
        try:
            return sum(code != 0 for code in pool.map(call, calls))
        except KeyboardInterrupt:
            stopped = True
            for process in tuple(running):
                process.terminate()
            raise


def write_zoo(args: argparse.Namespace) -> None:
    """Write docs/zoo.md and its picture."""
    from .page import write_page

    write_page(args.results, args.zoo, store.ROOT / "docs")


def main(
    program: str = "benchmarks.zoo",
    defaults: Mapping[str, Any] | None = None,
    write_page: Callable[[argparse.Namespace], None] = write_zoo,
) -> int:
    """Run what is missing, and write the page if asked to.

    Args:
        program: the module that was called.
        defaults: of the flags (default: those of the zoo).
        write_page: writes the page that belongs to the results.
    """
    parser = store.flags(f"python -m {program}")
    parser.add_argument("--jobs", type=int, default=1, help="workers at a time (default: 1)")
    parser.add_argument(
        "--peer-python",
        type=Path,
        default=store.ROOT / ".zoo-venv" / "bin" / "python",
        help="the Python that has the peers",
    )
    parser.add_argument("--page", action="store_true", help="write the page of the results")
    parser.add_argument("--only-page", action="store_true", help="write the page, compute nothing")
    parser.set_defaults(**(defaults or {}))
    args = parser.parse_args()
    args.command = args.command or shlex.join(["python", "-m", program, *sys.argv[1:]])
    try:
        if args.again and not args.only_page:
            store.drop(args, store.Places(args.results, args.cache, args.csv))  # not in each worker
        failed = 0 if args.only_page else work(commands(args), args.jobs)
    except KeyboardInterrupt:
        print("Finished results are kept: call again (without --again) to continue.", flush=True)
        return 130
    if args.page or args.only_page:
        write_page(args)
    return int(failed > 0)


if __name__ == "__main__":
    raise SystemExit(main())
