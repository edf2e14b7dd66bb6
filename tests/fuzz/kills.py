"""SIGKILL at every write, rename, removal and fsync of a run, then look at what is left.

A child process runs with a patched layer of files that counts its points and kills the process at
one of them, before the operation or in the middle of it. Afterwards an older model must load with
its own forecasts, or the new one with its own; the same call must lead to the same weights, bit by
bit, as a run that nobody interrupted; and no file may be left over.
"""

import builtins
import contextlib
import io
import os
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import safetensors.torch

from fighter import DataWarning, FighterError, Forecaster, TextClassifier
from fighter._files import WEIGHTS
from fighter.forecasting.config import Training
from fighter.models import Fighter
from tests.fuzz.runner import Outcome, Suite, place

SECONDS = 40


# ---- a layer of files that kills ----------------------------------------------------------------


class Points:
    """Count the points at which a process touches files below a folder; kill it at one of them.

    Args:
        folder: only files in it count.
        last: number of the point to die at; -1 to live and count.
        part: share of the bytes that are written before death, where the point writes bytes.
    """

    def __init__(self, folder: Path, last: int = -1, part: float | None = None) -> None:
        self.folder, self.last, self.part = str(folder), last, part
        self.names: list[str] = []

    def contain(self, path: Any) -> bool:
        """Tell whether a path lies in the folder."""
        return str(Path(os.fsdecode(path)).absolute()).startswith(self.folder)

    def reached(self, name: str, path: Any) -> bool:
        """Count a point; return whether the process must die in it."""
        if isinstance(path, bytes | str | os.PathLike):
            if not self.contain(path):
                return False
            name = f"{name} {Path(os.fsdecode(path)).name.replace(str(os.getpid()), 'PID')}"
        self.names.append(name)
        return len(self.names) - 1 == self.last

    def pass_or_die(self, name: str, path: Any) -> None:
        """Count a point and die before it, if it is the last."""
        if self.reached(name, path):
            die()


def die() -> None:
    """Kill this process, as the system does when memory runs out."""
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)


class _Raw(io.FileIO):
    """A file whose every write is a point."""

    points: Points

    def write(self, data: Any) -> int:  # type: ignore[override]
        if self.points.reached("write", self.name):
            if self.points.part is not None:
                super().write(bytes(data)[: int(len(bytes(data)) * self.points.part)])
            die()
        return super().write(data)


@contextlib.contextmanager
def patched(points: Points) -> Iterator[None]:
    """Lead every write, rename, removal and fsync past ``points``."""
    true: dict[tuple[Any, str], Any] = {}

    def patch(home: Any, name: str, make: Callable[[Any], Any]) -> None:
        true[home, name] = getattr(home, name)
        setattr(home, name, make(true[home, name]))

    def before(name: str) -> Callable[[Any], Any]:
        def make(function: Any) -> Any:
            def wrapped(path: Any, *args: Any, **kwargs: Any) -> Any:
                points.pass_or_die(name, path)
                return function(path, *args, **kwargs)

            return wrapped

        return make

    def opening_number(function: Any) -> Any:
        def wrapped(path: Any, flags: int, *args: Any, **kwargs: Any) -> Any:
            if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
                points.pass_or_die("open", path)
            return function(path, flags, *args, **kwargs)

        return wrapped

    def sync(function: Any) -> Any:
        def wrapped(file: Any) -> Any:
            points.pass_or_die("fsync", None)
            return function(file)

        return wrapped

    def opening(function: Any) -> Any:
        def wrapped(file: Any, mode: str = "r", buffering: int = -1, *args: Any, **kwargs: Any):
            writes = any(letter in mode for letter in "wax+")
            inside = isinstance(file, str | os.PathLike) and points.contain(file)
            if not writes or not inside or kwargs.get("opener"):
                return function(file, mode, buffering, *args, **kwargs)
            points.pass_or_die("open", file)
            raw = _Raw(os.fspath(file), mode.replace("b", "").replace("t", ""))
            raw.points = points
            if buffering == 0:
                return raw
            both = io.BufferedRandom if "+" in mode else io.BufferedWriter
            buffered = both(raw)
            if "b" in mode:
                return buffered
            names = ("encoding", "errors", "newline")
            given = dict(zip(names, args, strict=False)) | kwargs
            given.pop("closefd", None)
            return io.TextIOWrapper(buffered, line_buffering=buffering == 1, **given)

        return wrapped

    def serialising(function: Any) -> Any:
        def wrapped(tensors: Any, path: Any, *args: Any, **kwargs: Any) -> Any:
            if points.reached("serialise", path):
                if points.part is not None:
                    function(tensors, path, *args, **kwargs)
                    os.truncate(path, int(Path(path).stat().st_size * points.part))
                die()
            return function(tensors, path, *args, **kwargs)

        return wrapped

    for name in ("replace", "rename", "unlink", "remove", "mkdir", "rmdir", "link", "symlink"):
        patch(os, name, before(name))
    for name in ("truncate", "chmod"):
        patch(os, name, before(name))
    patch(os, "open", opening_number)
    patch(os, "fsync", sync)
    patch(io, "open", opening)
    patch(builtins, "open", opening)
    patch(safetensors.torch, "serialize_file", serialising)
    try:
        yield
    finally:
        for (home, name), function in true.items():
            setattr(home, name, function)


# ---- the runs that are killed -------------------------------------------------------------------


def _table(seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    times = pd.date_range("2024-01-01", periods=40, freq="h")
    return pd.DataFrame({"ds": times, "y": np.sin(np.arange(40) / 3) + 0.1 * rng.normal(size=40)})


def _new(seed: int = 0, **settings: Any) -> Forecaster:
    return Forecaster(
        2, 8, model=Fighter(width=8, heads=2, members=1), seed=seed, verbose=False, device="cpu",
        training=Training(max_epochs=3, batch_size=16), **settings,
    )  # fmt: skip


def _fit(folder: Path) -> None:
    _new().fit(_table(), folder=folder)


def _fit_quantiles(folder: Path) -> None:
    _new(level=[80]).fit(_table(), folder=folder)


def _save(folder: Path) -> None:
    _new().fit(_table()).save(folder)


def _fit_text(folder: Path) -> None:
    texts = ["markets fell again", "the team won", "shares rise today", "a late goal"] * 4
    model = TextClassifier(
        width=8, heads=2, max_epochs=2, max_length=8, vocabulary=100, device="cpu", verbose=False
    )
    model.fit(texts, [0, 1] * 8, folder=folder)


def _nothing(folder: Path) -> None:
    """Leave no folder."""


def _older(folder: Path) -> None:
    """Leave an older model of other settings."""
    _new(seed=5).fit(_table(5)).save(folder)


def _older_run(folder: Path) -> None:
    """Leave an older model with the files of its training."""
    _new(seed=5).fit(_table(5), folder=folder)


def _stale(folder: Path) -> None:
    """Leave broken temporary files of a process that was killed long ago."""
    folder.mkdir()
    names = (".checkpoint.safetensors.part", ".model.safetensors.part", ".config.json.part")
    for name in names:
        (folder / name).write_bytes(b"\x00broken" * 40)
    (folder / "metrics.jsonl").write_text('{"epoch": 1, "lo')


SCENARIOS: dict[str, tuple[Callable[[Path], None], Callable[[Path], None]]] = {
    "fit into a new folder": (_nothing, _fit),
    "fit with intervals": (_nothing, _fit_quantiles),
    "fit over an older model": (_older, _fit),
    "fit over an older run": (_older_run, _fit),
    "save over an older model": (_older, _save),
    "save into a new folder": (_nothing, _save),
    "fit beside stale temporary files": (_stale, _fit),
    "fit of a TextClassifier": (_nothing, _fit_text),
    "fit killed twice": (_nothing, _fit),
}


def in_child(work: Callable[[], None]) -> int:
    """Run ``work`` in a child process; return its exit status, negative for a signal."""
    sys.stdout.flush()
    child = os.fork()
    if not child:
        code = 1
        try:
            warnings.simplefilter("ignore", DataWarning)
            work()
            code = 0
        except BaseException as error:
            os.write(2, place(error).encode())
        finally:
            os._exit(code)
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    raise TimeoutError(f"the child did not end in {SECONDS} s")


def _killed(folder: Path, action: Callable[[Path], None], last: int, part: float | None) -> bool:
    """Run the action and kill it at a point; return False if it ended before."""

    def work() -> None:
        with patched(Points(folder, last, part)):
            action(folder)

    status = in_child(work)
    if status not in (0, -signal.SIGKILL):
        raise AssertionError(f"the run ended with {status} before the kill")
    return status != 0


def answer(folder: Path) -> Any:
    """Return the weights and forecasts of a model; None if the folder holds none."""
    if not (folder / WEIGHTS).exists():
        return None
    try:
        model = Forecaster.load(folder)
        said = model.forecast().point.tobytes() + model.forecast().quantiles.tobytes()
    except FighterError as error:
        if "TextClassifier" not in str(error):
            raise
        model = TextClassifier.load(folder)
        said = model.predict_proba(["markets won"]).tobytes()
    own = model if isinstance(model, TextClassifier) else model.fitted
    state = own.network.state_dict()
    return said + b"".join(state[name].numpy().tobytes() for name in sorted(state))


@cache
def reference(base: Path, scenario: str) -> tuple[Any, Any, tuple[str, ...], tuple[str, ...]]:
    """Return the older answer, the uninterrupted one, the files it leaves, and all points."""
    _, action = SCENARIOS[scenario]
    with tempfile.TemporaryDirectory(dir=base) as temporary:
        folder = _begin(base, scenario, temporary)
        older = answer(folder)
        listing = Path(temporary) / "points"

        def work() -> None:
            points = Points(folder)
            with patched(points):
                action(folder)
            listing.write_text("\n".join(points.names))

        if in_child(work):
            raise AssertionError(f"{scenario}: the uninterrupted run failed")
        names = tuple(listing.read_text().split("\n"))
        return older, answer(folder), _files(folder), names


def _begin(base: Path, scenario: str, temporary: str) -> Path:
    """Return a folder as it is before the run."""
    folder, before = Path(temporary) / "model", base / SCENARIOS[scenario][0].__name__
    if before.exists():
        shutil.copytree(before, folder)
    return folder


def _files(folder: Path) -> tuple[str, ...]:
    return tuple(sorted(path.name for path in folder.iterdir()))


def run(number: int, base: Path) -> Outcome:
    """Kill one run at one point, look at the folder, and let the same call end."""
    rng = np.random.default_rng([13, number])
    scenario = list(SCENARIOS)[number % len(SCENARIOS)]
    older, newer, files, points = reference(base, scenario)
    _, action = SCENARIOS[scenario]
    last = number // len(SCENARIOS) % len(points)
    part = float(rng.random()) if rng.random() < 0.7 else None
    with tempfile.TemporaryDirectory(dir=base) as temporary:
        folder = _begin(base, scenario, temporary)
        if not _killed(folder, action, last, part):
            return Outcome(scenario, "wrong", f"point {last} of {len(points)} was not reached")
        where = f"killed at {points[last]}"
        if "twice" in scenario:
            again = int(rng.integers(len(points)))
            _killed(folder, action, again, part)
            where += f" and at point {again}"
        try:
            left = answer(folder)
        except FighterError as error:
            return Outcome(scenario, "wrong", f"{where}: unreadable, {place(error)}")
        if left not in (older, newer):
            return Outcome(scenario, "wrong", f"{where}: the model is neither the old nor the new")
        if in_child(lambda: action(folder)):
            return Outcome(scenario, "wrong", f"{where}: the same call fails")
        if answer(folder) != newer:
            return Outcome(scenario, "different", f"{where}: other weights after all")
        if extra := set(_files(folder)) ^ set(files):
            return Outcome(scenario, "wrong", f"{where}: files {sorted(extra)}")
    return Outcome(scenario, "right", where)


def prepare(folder: Path) -> None:
    """Write the folders that runs begin with, once for all cases."""
    warnings.simplefilter("ignore", DataWarning)
    for before, _ in set(SCENARIOS.values()):
        shutil.rmtree(folder / before.__name__, ignore_errors=True)
        before(folder / before.__name__)


SUITE = Suite("kills", run, cases=1_200, prepare=prepare, seconds=120)
