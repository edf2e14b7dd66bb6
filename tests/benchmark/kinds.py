"""A kind of run for the tests, which other processes know too: its settings, unpickled, bring it.

A run writes its number and process to a log, then does what it was told.
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

sys.modules["counting"] = sys.modules[__name__]


class Settings(dict):
    pass


def run(number: int, log: Path, do: str = "nothing", seconds: float = 0.0) -> Run:
    settings = Settings(number=number, log=str(log), do=do, seconds=seconds)
    return Run("counting", settings, {"number": number})


def perform(settings: dict, place: Environment) -> dict:
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
    """Number and process of every call so far."""
    lines = log.read_text().splitlines() if log.exists() else []
    return [(int(number), int(process)) for number, process in map(str.split, lines)]


if __name__ == "__main__":
    folder, log, jobs, count, seconds = sys.argv[1:]
    from tests.benchmark import kinds  # under the name that other processes know it by

    asked = [kinds.run(i, Path(log), seconds=float(seconds)) for i in range(int(count))]
    runs.perform(asked, Path(folder), Environment(), jobs=int(jobs))
