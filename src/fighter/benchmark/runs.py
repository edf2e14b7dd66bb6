"""Perform many training runs, several at a time, each only once.

A run is described by plain settings. Its record is stored in a file named by a hash of them, so
that a second call, also after a kill, reads what is there and trains only the rest.
"""

import hashlib
import json
import os
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from .._files import atomic_write
from .._workers import in_processes
from ..errors import FighterError
from ..estimator import resolve_device
from ..training.parallel import one_thread
from .provenance import commit
from .result import Record

Say = Callable[[str], None]


def quiet(line: str) -> None:
    """Say nothing."""


@dataclass(frozen=True)
class Run:
    """One training and its measurements."""

    kind: str  # full name of the module whose ``perform(settings, environment)`` does the work
    settings: Mapping[str, Any]  # everything that the result depends on
    tags: Mapping[str, Any] = field(default_factory=dict)  # what the run stands for in a table

    @property
    def label(self) -> str:
        """The tags as text."""
        return ", ".join(f"{name} {value}" for name, value in self.tags.items())

    @property
    def key(self) -> str:
        """A hash of kind and settings."""
        text = json.dumps([self.kind, self.settings], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Environment:
    """Where runs happen; results must not depend on it."""

    data_dir: Path | None = None  # folder of data sets; None: the usual places
    device: str = "cpu"
    files: Mapping[str, Path] = field(default_factory=dict)  # by the checksum of their content

    @classmethod
    def here(cls, data_dir: Path | None, device: str | None) -> "Environment":
        """Make an environment on ``device`` (default: a GPU if there is one)."""
        found = resolve_device(device)
        return cls(data_dir, device or found.type)


def usual_jobs() -> int:
    """Return the default number of runs at a time: one per core, at most 16."""
    return min(os.cpu_count() or 1, 16)


def perform(
    runs: Sequence[Run],
    folder: Path,
    environment: Environment,
    *,
    jobs: int = 1,
    say: Say = quiet,
    failed: Say | None = None,
) -> list[Record]:
    """Return the records of all runs in order; perform those that ``folder`` does not have.

    A record holds the tags, settings, commit, seconds and the result. ``jobs`` runs at a time
    share the device, and ``say`` receives progress lines. If runs fail, the others are finished;
    then ``failed`` receives a message and the others are returned (default: raise an error).
    """
    if jobs < 1:
        raise FighterError("needs at least 1", argument="jobs", value=jobs)
    folder.mkdir(parents=True, exist_ok=True)
    unique = {run.key: run for run in runs}
    # Read before any training: a damaged record is reported now, not after hours.
    stored = [run for key, run in unique.items() if (folder / f"{key}.json").exists()]
    records = {run.key: _read(folder, run) for run in stored}
    todo = [run for key, run in unique.items() if key not in records]
    say(f"{len(unique)} runs, {len(records)} of them done before")
    failures: list[str] = []
    before, begun = len(records), time.perf_counter()
    attempt = partial(_attempt, folder=folder, environment=environment)
    if jobs == 1:
        outcomes = _one_by_one(attempt, todo)
    else:
        outcomes = in_processes(attempt, todo, jobs, "jobs")
    with closing(outcomes), _report_interrupt(say):
        for done, (run, error) in enumerate(outcomes, before + 1):
            if error is None:
                records[run.key] = _read(folder, run)
                line = f"{run.label}: {records[run.key]['seconds']:.0f} s"
            else:
                line = f"{run.label}: {error}"
                failures.append(line)
            passed, new = time.perf_counter() - begun, done - before
            # Extrapolated from the finished runs; the first few are too few for that.
            left = passed / new * (len(unique) - done) if new >= jobs else 0
            line += f"; about {left / 60:.0f} min to go" if left >= 120 else ""
            say(f"[{done}/{len(unique)}] {line}")
    if failures:
        count = f"{len(failures)} of {len(unique)} runs failed"
        kept = "" if len(failures) == len(unique) else ", the others are kept"
        message = f"{count}{kept}; the first: {failures[0]}"
        if failed is None:
            raise FighterError(message)
        failed(message)
    return [{**run.tags, **records[run.key]} for run in runs if run.key in records]


@contextmanager
def _report_interrupt(say: Say) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        say("Finished runs are kept: call again to continue.")
        raise


Outcomes = Generator[tuple[Run, str | None], None, None]  # a run and its error message, if any


def _one_by_one(attempt: Callable[[Run], str | None], todo: list[Run]) -> Outcomes:
    for run in todo:
        with one_thread():  # as in worker processes
            outcome = attempt(run)
        yield run, outcome


def _attempt(run: Run, folder: Path, environment: Environment) -> str | None:
    """Perform a run and store its record; return the message of an error instead of raising it."""
    start = time.perf_counter()
    try:
        result = import_module(run.kind).perform(run.settings, environment)
        seconds = round(time.perf_counter() - start, 1)
        about = {"settings": run.settings, "commit": commit(), "seconds": seconds}
        with atomic_write(folder / f"{run.key}.json") as file:
            file.write_text(json.dumps({**about, "result": result}) + "\n")
    except FighterError as error:
        return str(error)
    except Exception as error:  # `perform` reports it once the other runs are done
        return f"{type(error).__name__}: {error}"
    return None


def write_rows(path: Path, head: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> None:
    """Write a results file with one line per run, so that two versions can be compared."""
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    text = json.dumps(head, indent=1, ensure_ascii=False)
    with atomic_write(path) as file:
        file.write_text(f'{text[:-2]},\n "rows": [\n{lines}\n]}}\n', encoding="utf-8")


def read_results(path: Path) -> dict[str, Any]:
    """Read a results file."""
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        result = None
    if not (isinstance(result, dict) and {"rows", "provenance"} <= result.keys()):
        advice = "remove it and call the command again, finished runs are kept"
        raise FighterError(f"{path} is damaged: {advice}")
    return result


def add_rows(
    path: Path, head: Mapping[str, Any], rows: Sequence[Record], cell: Callable[[Record], Any]
) -> None:
    """Add rows to a results file; a new row replaces the old one with the same ``cell(row)``."""
    before = read_results(path)["rows"] if path.exists() else []
    new = {cell(row) for row in rows}
    write_rows(path, head, [*(row for row in before if cell(row) not in new), *rows])


def _read(folder: Path, run: Run) -> Record:
    path = folder / f"{run.key}.json"
    try:
        return json.loads(path.read_text())
    except ValueError as error:
        raise FighterError(f"{path} is damaged: remove it to perform the run again") from error
