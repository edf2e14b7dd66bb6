"""Run numbered cases in worker processes that may die, hang or use too much memory."""

import json
import os
import resource
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from multiprocessing import connection, get_context
from pathlib import Path
from typing import Any

GB = 2**30
FINE = ("right", "equal", "refused", "edited")  # outcomes that are promised; no other may happen
_CONTEXT = get_context("fork")  # a worker starts in milliseconds, with everything imported


@dataclass(frozen=True)
class Outcome:
    """What became of one case: its group, whether it is one of ``FINE``, and a line about it."""

    group: str
    kind: str
    detail: str = ""


@dataclass(frozen=True)
class Suite:
    """Numbered cases of one sort.

    Args:
        name: its name on the command line.
        run: runs the case of a number; the folder holds what ``prepare`` wrote.
        cases: number of cases of a full run.
        prepare: writes what all cases share into an empty folder (default: nothing).
        seconds: time limit of a case (default: 60).
        calls: number of checked calls in a case (default: 1).
    """

    name: str
    run: Callable[[int, Path], Outcome]
    cases: int
    prepare: Callable[[Path], None] | None = None
    seconds: float = 60.0
    calls: int = 1


def place(error: BaseException) -> str:
    """Describe an exception in one line, with the last line of fighter that it passed."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f for f in frames if f"{os.sep}fighter{os.sep}" in f.filename] or list(frames)
    where = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else "?"
    text = " ".join(str(error).split())
    return f"{type(error).__name__} {where}: {text[:160]}"


def run_cases(
    suite: Suite, numbers: Iterable[int], folder: Path, workers: int = 2
) -> Iterator[tuple[int, Outcome]]:
    """Run the cases in worker processes; yield each number with its outcome as it ends."""
    todo = iter(numbers)
    running = [_Worker(suite, folder) for _ in range(workers)]
    idle, busy = list(running), []
    try:
        while True:
            while idle and (number := next(todo, None)) is not None:
                worker = idle.pop()
                worker.start(number)
                busy.append(worker)
            if not busy:
                return
            now = time.monotonic()
            left = max(min(worker.deadline for worker in busy) - now, 0)
            ready = connection.wait([worker.pipe for worker in busy], left)
            for worker in list(busy):
                late = time.monotonic() >= worker.deadline
                if worker.pipe not in ready and not late:
                    continue
                outcome = worker.outcome(late and worker.pipe not in ready)
                yield worker.number, outcome
                busy.remove(worker)
                if outcome.kind in ("died", "hung", "memory"):
                    worker.stop()
                    worker = _Worker(suite, folder)
                    running.append(worker)
                idle.append(worker)
    finally:
        for worker in running:
            worker.stop()


class _Worker:
    """A process that runs one case at a time."""

    def __init__(self, suite: Suite, folder: Path) -> None:
        self.suite = suite
        self.pipe, other = _CONTEXT.Pipe()
        self.process = _CONTEXT.Process(target=_work, args=(suite, folder, other), daemon=False)
        sys.stdout.flush()
        self.process.start()
        other.close()
        self.number, self.deadline = -1, 0.0

    def start(self, number: int) -> None:
        self.number = number
        self.deadline = time.monotonic() + self.suite.seconds
        self.pipe.send(number)

    def outcome(self, late: bool) -> Outcome:
        """Read the outcome of the case, or find out what became of the process."""
        if late:
            return Outcome("?", "hung", f"no answer after {self.suite.seconds:g} s")
        try:
            return Outcome(**self.pipe.recv())
        except EOFError:
            self.process.join()
            return Outcome("?", "died", f"exit code {self.process.exitcode}")

    def stop(self) -> None:
        if self.process.is_alive():
            self.process.kill()
        self.process.join()
        self.pipe.close()


def _work(suite: Suite, folder: Path, pipe: Any) -> None:
    """Run the cases whose numbers arrive; a case may use 4 GB more than the bare process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its workers
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * os.sysconf("SC_PAGE_SIZE") + 4 * GB
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    while True:
        try:
            number = pipe.recv()
        except EOFError:
            return
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        outcome = run_case(suite, number, folder)
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 / GB
        if grown > 1 and outcome.kind in FINE:
            outcome = Outcome(outcome.group, "memory", f"{grown:.1f} GB, then {outcome.detail}")
        pipe.send(asdict(outcome))


def run_case(suite: Suite, number: int, folder: Path) -> Outcome:
    """Run one case in this process; an exception that the suite lets through is an outcome."""
    try:
        return suite.run(number, folder)
    except Exception as error:
        return Outcome("?", "exception", place(error))


# ---- numbered runs that can be continued ------------------------------------------------------


def run_suite(
    suite: Suite, count: int, folder: Path, workers: int = 2, start: int = 0, verbose: bool = True
) -> list[dict[str, Any]]:
    """Run cases ``start`` to ``start + count``, without those whose outcomes are in ``folder``.

    Returns one record per case: number, group, kind and detail.
    """
    prepared = folder / suite.name
    if suite.prepare is not None and not (prepared / "ready").exists():
        shutil.rmtree(prepared, ignore_errors=True)  # of a preparation that was stopped
        prepared.mkdir(parents=True)
        child = _CONTEXT.Process(target=suite.prepare, args=(prepared,))
        child.start()
        child.join()
        if child.exitcode:
            raise SystemExit(f"{suite.name}: the preparation ended with {child.exitcode}")
        (prepared / "ready").touch()
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / f"{suite.name}.jsonl"
    lines = log.read_text().split("\n")[:-1] if log.exists() else []  # without one cut short
    log.write_text("".join(f"{line}\n" for line in lines))
    records = {record["case"]: record for record in map(json.loads, lines)}
    wanted = range(start, start + count)
    todo = [number for number in wanted if number not in records]
    began, shown = time.monotonic(), time.monotonic()
    with log.open("a") as file:
        for done, (number, outcome) in enumerate(run_cases(suite, todo, prepared, workers), 1):
            records[number] = {"case": number, **asdict(outcome)}
            file.write(json.dumps(records[number]) + "\n")
            file.flush()
            if outcome.kind not in FINE:
                say(f"{repeat(suite, number)}  # {outcome.kind}: {outcome.detail}")
            if verbose and time.monotonic() - shown > 30:
                shown = time.monotonic()
                rate = done / (shown - began)
                left = (len(todo) - done) / rate
                say(f"{suite.name}: {done} of {len(todo)} cases, about {left:.0f} s left")
    return [records[number] for number in wanted]


def repeat(suite: Suite, number: int) -> str:
    """Return the command that repeats one case."""
    return f"python -m tests.fuzz {suite.name} --case {number}"


def count_outcomes(records: list[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """Count the outcomes of each group."""
    groups: dict[str, dict[str, int]] = {}
    for record in sorted(records, key=lambda record: record["group"]):
        kinds = groups.setdefault(record["group"], {})
        kinds[record["kind"]] = kinds.get(record["kind"], 0) + 1
    return groups


def say(text: str) -> None:
    """Write a line to the terminal."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
