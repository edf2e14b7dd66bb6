"""A kind of run for the tests; worker processes import it by the name ``tests.benchmark.kinds``.

A run writes its number and process to a log, then does what it is asked to do.
"""

import os
import signal
import sys
import time
from pathlib import Path

import torch

from fighter.benchmark import runs
from fighter.benchmark.runs import Environment, Run
from fighter.errors import FighterError

KIND = "tests.benchmark.kinds"


def run(number: int, log: Path, do: str = "nothing", seconds: float = 0.0) -> Run:
    settings = {"number": number, "log": str(log), "do": do, "seconds": seconds}
    return Run(KIND, settings, {"number": number})


def perform(settings: dict, environment: Environment) -> dict:
    with Path(settings["log"]).open("a") as log:
        log.write(f"{settings['number']} {os.getpid()}\n")
    time.sleep(settings["seconds"])
    if settings["do"] == "fail":
        raise FighterError("cannot do that")
    if settings["do"] == "break":
        raise UnicodeDecodeError("utf-8", b"x", 0, 1, "an error with arguments of its own")
    if settings["do"] == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if settings["do"] == "count threads":
        return {"threads": torch.get_num_threads()}
    return {"square": settings["number"] ** 2}


def calls(log: Path) -> list[tuple[int, int]]:
    """Return number and process of every call so far."""
    lines = log.read_text().splitlines() if log.exists() else []
    return [(int(number), int(process)) for number, process in map(str.split, lines)]


if __name__ == "__main__":
    folder, log, jobs, count, seconds = sys.argv[1:]
    asked = [run(i, Path(log), seconds=float(seconds)) for i in range(int(count))]
    runs.perform(asked, Path(folder), Environment(), jobs=int(jobs))
