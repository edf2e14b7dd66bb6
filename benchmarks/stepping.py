"""Both sides of ``benchmarks.training``: worker processes that train a few steps on request.

A worker reads numbers of steps from standard input and answers each with a line of JSON; 0 ends
it. The clock runs from the end of one step to the end of another, so that it covers the batch, the
step itself and everything the training loop does around it. Environments without Fighter import
this file too.
"""

import json
import math
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, TextIO


def peak_mb() -> float:
    """Return the peak memory of this process, in MB (2²⁰ bytes)."""
    status = Path("/proc/self/status")
    if status.exists():  # getrusage may still show the peak of the parent process
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


class Steps:
    """The worker's side: waits for requests and answers them."""

    def __init__(self) -> None:
        self._answers: TextIO = sys.stdout
        sys.stdout = sys.stderr  # keeps what libraries print away from the answers
        self._left = self._asked = 0
        self._clock = 0.0

    def say(self, **facts: object) -> None:
        """Send one line of JSON."""
        self._answers.write(json.dumps(facts) + "\n")
        self._answers.flush()

    def wait(self) -> bool:
        """Wait for the next number of steps; return False at the end."""
        self._left = self._asked = int(sys.stdin.readline() or 0)
        self._clock = time.perf_counter()
        return self._asked > 0

    def done(self) -> bool:
        """Count one step as done; return False if it was the last of all."""
        self._left -= 1
        if self._left:
            return True
        self.say(seconds=time.perf_counter() - self._clock)
        return self.wait()


class Worker:
    """The side that starts a worker and asks for steps."""

    def __init__(self, python: str, module: str, settings: dict[str, Any], env: dict[str, str]):
        self._process = subprocess.Popen(
            [python, "-m", module, json.dumps(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=env,
        )
        self._name = module
        self.facts = self._answer()
        self.rates: list[float] = []  # steps per second, one number per turn
        self.steps = 0
        self.seconds = math.inf  # per step, in the fastest turn so far

    def train(self, steps: int, count: bool = True) -> None:
        """Train one turn of steps and record its rate if ``count`` is set."""
        self._send(steps)
        seconds = self._answer()["seconds"] / steps
        self.seconds = min(self.seconds, seconds)
        if count:
            self.rates.append(1 / seconds)
            self.steps += steps

    def end(self) -> None:
        """End the worker and collect its last facts."""
        self._send(0)
        self.facts |= self._answer()
        self._process.wait()

    def kill(self) -> None:
        """Kill the worker."""
        self._process.kill()
        self._process.wait()

    def _send(self, steps: int) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{steps}\n")
        self._process.stdin.flush()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{self._name} ended with exit code {self._process.wait()}")
        return json.loads(line)
