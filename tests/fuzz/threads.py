"""Many threads forecast with one model at once; all answers must be the serial one."""

import asyncio
import sys
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

from fighter import DataWarning, Forecaster, TextClassifier
from fighter.forecasting.config import Frame, Training
from fighter.models import Fighter
from tests.fuzz.runner import Outcome, Suite

CALLS = 100  # of one case, by eight threads
TEXTS = ["markets fell again", "the team won", "shares rise today", "a late goal"]


def _table(rows: int = 60) -> pd.DataFrame:
    times = pd.date_range("2024-01-01", periods=rows, freq="h")
    waves = {name: np.sin(np.arange(rows) / 4 + k) for k, name in enumerate("abc")}
    return pd.DataFrame({"ds": times, **waves})


def _forecaster(model: str | Fighter) -> Forecaster:
    return Forecaster(
        4, 12, model=model, level=[80], verbose=False, device="cpu", frame=Frame(cycle=4),
        training=Training(max_epochs=1, batch_size=16),
    )  # fmt: skip


def prepare(folder: Path) -> None:
    """Fit and save the models, once for all cases."""
    warnings.simplefilter("ignore", DataWarning)
    network = Fighter(width=16, heads=2, members=2, dropout=0.5)
    _forecaster(network).fit(_table()).save(folder / "fighter")
    _forecaster("patchtst").fit(_table()).save(folder / "patchtst")
    classifier = TextClassifier(
        width=16, heads=2, max_epochs=1, max_length=8, vocabulary=100, device="cpu", verbose=False
    )
    classifier.fit(TEXTS * 6, [0, 1] * 12).save(folder / "text")


@cache
def _calls(folder: Path, name: str) -> tuple[Callable[[], bytes], ...]:
    """Return calls that a service would make of one model; each gives all its numbers."""
    warnings.simplefilter("ignore", DataWarning)
    if name == "text":
        classifier = TextClassifier.load(folder / name)
        return (
            lambda: classifier.predict_proba(TEXTS).tobytes(),
            lambda: classifier.predict_proba(TEXTS[:1]).tobytes(),
        )
    if name == "just fitted":
        model = _forecaster(Fighter(width=16, heads=2, members=1, dropout=0.5)).fit(_table())
    else:
        model = Forecaster.load(folder / name)
    early, late = _table(40), _table(56)

    def say(table: pd.DataFrame | None) -> bytes:
        return model.predict(table).iloc[:, 2:].to_numpy(float).tobytes()

    return (
        lambda: say(None),
        lambda: say(early),
        lambda: say(late),
        lambda: model.evaluate(late).iloc[:, 1:].to_numpy(float).tobytes(),
    )


def run(number: int, folder: Path) -> Outcome:
    """Make a hundred calls from eight threads, or from tasks of asyncio."""
    names = ("fighter", "fighter", "just fitted", "patchtst", "text")
    name, tasks = names[number % len(names)], number % 4 == 3
    calls = _calls(folder, name)
    serial = [call() for call in calls]
    rng = np.random.default_rng([17, number])
    chosen = [int(i) for i in rng.integers(len(calls), size=CALLS)]
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # threads take turns far more often than they usually do
    try:
        answers = _ask(calls, chosen, tasks)
    finally:
        sys.setswitchinterval(usual)
    group = f"{name}, {'asyncio' if tasks else 'threads'}"
    wrong = sum(a != serial[i] for a, i in zip(answers, chosen, strict=True))
    return Outcome(group, "different" if wrong else "equal", f"{wrong} of {CALLS}" if wrong else "")


def _ask(calls: tuple[Callable[[], bytes], ...], chosen: list[int], tasks: bool) -> list[bytes]:
    """Make the chosen calls at once; return their answers."""
    if tasks:

        async def gather() -> list[bytes]:
            return await asyncio.gather(*(asyncio.to_thread(calls[i]) for i in chosen))

        return asyncio.run(gather())
    barrier = threading.Barrier(8)  # so that all begin at once
    with ThreadPoolExecutor(8, initializer=barrier.wait) as pool:
        return list(pool.map(lambda i: calls[i](), chosen))


SUITE = Suite("threads", run, cases=120, prepare=prepare, seconds=120, calls=CALLS)
