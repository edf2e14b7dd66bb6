"""Many trainings, several at a time, each done once.

A run is described by plain settings. Its record is kept in a file named by a hash of them, so that
whoever asks again, after a kill too, gets what is there and trains only the rest.
"""

import hashlib
import json
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from .._files import atomic_write
from ..errors import FighterError
from ..training.parallel import one_thread
from .provenance import commit

Record = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """One training and what is measured on it.

    Args:
        kind: full name of the module whose ``perform(settings, place)`` does it.
        settings: all that its result depends on.
        tags: what it stands for in a table.
    """

    kind: str
    settings: Mapping[str, Any]
    tags: Mapping[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """For people."""
        return ", ".join(f"{name} {value}" for name, value in self.tags.items())

    @property
    def key(self) -> str:
        """A hash of the settings."""
        text = json.dumps([self.kind, self.settings], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Environment:
    """Where runs happen: nothing that their results should depend on."""

    data_dir: Path | None = None
    device: str = "cpu"
    files: Mapping[str, Path] = field(default_factory=dict)  # by the checksum of their content

    @classmethod
    def here(cls, data_dir: Path | None, device: str | None) -> "Environment":
        """On this device; on a GPU if there is one, unless given."""
        if device == "cuda" and not torch.cuda.is_available():
            raise FighterError("--device cuda: torch finds no GPU here; leave it out to run on CPU")
        return cls(data_dir, device or ("cuda" if torch.cuda.is_available() else "cpu"))


def usual_jobs() -> int:
    """Runs at a time where nobody says: one per core, 16 at most."""
    return min(os.cpu_count() or 1, 16)


def perform(
    runs: Sequence[Run],
    folder: Path,
    place: Environment,
    *,
    jobs: int = 1,
    say: Callable[[str], None] = lambda line: None,
    failed: Callable[[str], None] | None = None,
) -> list[Record]:
    """The records of all runs, in their order; those not yet in ``folder`` are made now.

    A record holds the tags, settings, commit, seconds and the result. ``jobs`` runs share the
    device. When one fails, the others are finished first; then it is an error, unless somebody
    wants to hear of it: then the others are given back.
    """
    if jobs < 1:
        raise FighterError(f"jobs={jobs}: needs at least 1")
    folder.mkdir(parents=True, exist_ok=True)
    unique = {run.key: run for run in runs}
    # Read before anything is made: a damaged record is told now, not after hours.
    records = {
        key: _read(folder, run) for key, run in unique.items() if (folder / f"{key}.json").exists()
    }
    todo = [run for key, run in unique.items() if key not in records]
    say(f"{len(unique)} runs, {len(records)} of them done before")
    failures: list[str] = []
    before, begun = len(records), time.perf_counter()
    outcomes = _one_by_one(todo, folder, place) if jobs == 1 else _pool(todo, folder, place, jobs)
    with closing(outcomes), _told(say):
        for done, (run, error) in enumerate(outcomes, before + 1):
            if error is None:
                records[run.key] = _read(folder, run)
                said = f"{run.label}: {records[run.key]['seconds']:.0f} s"
            else:
                said = f"{run.label}: {error}"
                failures.append(said)
            passed, made = time.perf_counter() - begun, done - before
            left = passed / made * (len(unique) - done) if made >= jobs else 0
            # As if all took as long as those that are done; of the first few nothing can be said.
            said += f"; about {left / 60:.0f} min to go" if left >= 120 else ""
            say(f"[{done}/{len(unique)}] {said}")
    if failures:
        count = f"{len(failures)} of {len(unique)} runs failed"
        kept = "" if len(failures) == len(unique) else ", the others are kept"
        (failed or _refuse)(f"{count}{kept}; the first: {failures[0]}")
    return [{**run.tags, **records[run.key]} for run in runs if run.key in records]


def _refuse(message: str) -> None:
    raise FighterError(message)


@contextmanager
def _told(say: Callable[[str], None]) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        say("What is finished is kept: call again to go on.")
        raise


Outcomes = Generator[tuple[Run, str | None], None, None]  # with what went wrong


def _one_by_one(todo: list[Run], folder: Path, place: Environment) -> Outcomes:
    for run in todo:
        with one_thread():  # as in a pool
            outcome = _attempt(run, folder, place)
        yield run, outcome


def _pool(todo: list[Run], folder: Path, place: Environment, jobs: int) -> Outcomes:
    context = multiprocessing.get_context("spawn")  # CUDA does not survive a fork
    others = {*multiprocessing.active_children()}
    with ProcessPoolExecutor(min(jobs, len(todo) or 1), context, _prepare_worker) as pool:
        try:
            with _deaf():
                futures = {pool.submit(_attempt, run, folder, place): run for run in todo}
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BrokenProcessPool as error:
            raise FighterError(
                "a process was killed, perhaps for want of memory: the finished runs are kept, "
                f"call again with fewer than jobs={jobs}"
            ) from error
        except BaseException:  # the caller wants no more, or Ctrl-C
            for child in {*multiprocessing.active_children()} - others:
                child.terminate()
            raise


@contextmanager
def _deaf() -> Iterator[None]:
    """Ctrl-C is not heard here, nor ever by processes that are started meanwhile.

    In a terminal it reaches them too, and it is the parent that decides.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are the main thread's
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _prepare_worker() -> None:
    torch.set_num_threads(1)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A parent that was killed cannot say stop: without it a worker would go on with the queue."""
    if parent := multiprocessing.parent_process():
        parent.join()
        os._exit(1)


def _attempt(run: Run, folder: Path, place: Environment) -> str | None:
    """Do a run and keep its record; an error is given back as text, so that the others go on."""
    start = time.perf_counter()
    try:
        result = import_module(run.kind).perform(run.settings, place)
        record = {
            "settings": run.settings,
            "commit": commit(),
            "seconds": round(time.perf_counter() - start, 1),
            "result": result,
        }
        with atomic_write(folder / f"{run.key}.json") as beside:
            beside.write_text(json.dumps(record) + "\n")
    except FighterError as error:
        return str(error)
    except Exception as error:  # reported by `perform` when the others are done
        return f"{type(error).__name__}: {error}"
    return None


def write_rows(path: Path, head: Mapping[str, Any], rows: Sequence[Record]) -> None:
    """Write a result: one line per run, so that two results can be compared."""
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    text = json.dumps(head, indent=1, ensure_ascii=False)
    with atomic_write(path) as beside:
        beside.write_text(f'{text[:-2]},\n "rows": [\n{lines}\n]}}\n', encoding="utf-8")


def read_results(path: Path) -> dict[str, Any]:
    """What an experiment has kept."""
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        result = None
    if not (isinstance(result, dict) and {"rows", "provenance"} <= result.keys()):
        raise FighterError(
            f"{path} is damaged: remove it and call the command again, finished runs are kept"
        )
    return result


def add_rows(
    path: Path, head: Mapping[str, Any], rows: Sequence[Record], cell: Callable[[Record], Any]
) -> None:
    """Write a result beside what other calls have kept; of one ``cell`` the newest stays."""
    before = read_results(path)["rows"] if path.exists() else []
    new = {cell(row) for row in rows}
    write_rows(path, head, [*(row for row in before if cell(row) not in new), *rows])


def _read(folder: Path, run: Run) -> Record:
    path = folder / f"{run.key}.json"
    try:
        return json.loads(path.read_text())
    except ValueError as error:
        raise FighterError(f"{path} is damaged: remove it, and the run is made again") from error
