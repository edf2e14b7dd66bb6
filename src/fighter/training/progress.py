"""Progress of a training run: a bar or lines on a terminal, metrics in a file."""

import json
import shutil
import sys
import textwrap
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .._files import METRICS, naming
from ..errors import needs_package


def say(text: str) -> None:
    """Write a line to standard error, where progress is shown; results go to standard output."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def fill(line: str, width: int = 80, indent: int = 10) -> str:
    """Break a line between words, sooner on a narrow terminal; words as file names stay whole."""
    width = max(min(shutil.get_terminal_size().columns, width), 40)
    return textwrap.fill(
        line, width, subsequent_indent=" " * indent, break_on_hyphens=False, break_long_words=False
    )


class Progress:
    """A bar on a terminal or in a notebook (if tqdm is installed), else lines, 5 s or more apart.

    Shows nothing unless ``show``. ``done`` is the number of epochs before an interruption.
    """

    def __init__(self, show: bool, epochs: int, steps: int, done: int = 0):
        self._bar = None
        self._lines = show
        self._start, self._epochs, self._done = time.monotonic(), epochs, done
        self._last = self._start
        if show and done:
            say(f"resuming after epoch {done} of at most {epochs}")
        if show and (sys.stderr.isatty() or "ipykernel" in sys.modules):
            try:
                with warnings.catch_warnings(action="ignore"):  # of a notebook without widgets
                    from tqdm.auto import tqdm
            except ImportError:
                return
            # 66 characters and the bar: it keeps 14 on a terminal of 80 columns.
            self._bar = tqdm(
                total=epochs * steps, initial=done * steps, desc=f"epoch {done}/{epochs}",
                leave=False, mininterval=0.1, dynamic_ncols=True,
                bar_format="{desc} {percentage:3.0f}%|{bar}| at most {remaining} left{postfix}",
            )  # fmt: skip

    def step(self) -> None:
        """Count one step."""
        if self._bar is not None:
            self._bar.update()

    def epoch(self, record: dict[str, Any]) -> None:
        """Show the record of an epoch."""
        position = f"epoch {record['epoch']}/{self._epochs}"
        score = record["validation"]
        if self._bar is not None:
            best = f"loss {record['loss']:.4f}"
            if score is not None:
                best = f"val {score:.4f}"
                if shutil.get_terminal_size().columns >= 80:
                    best += f" (best {record['best']:.4f})"
            self._bar.set_description_str(position, refresh=False)  # the next step draws it
            self._bar.set_postfix_str(best, refresh=False)
        elif self._lines and time.monotonic() - self._last > 5:
            self._last = time.monotonic()
            done = record["epoch"] - self._done
            left = (time.monotonic() - self._start) / done * (self._epochs - record["epoch"])
            line = f"{position}: loss {record['loss']:.4f}"
            if score is not None:
                line += f", validation {score:.4f} (best {record['best']:.4f})"
            say(f"{line}, at most {left:.0f} s left")

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.close()


class MetricLog:
    """Writes one JSON object per epoch to ``metrics.jsonl`` and, on request, to TensorBoard.

    The file holds one run: a resumed run starts with the ``history`` before its interruption.
    """

    def __init__(
        self, folder: Path | None, tensorboard: bool = False, history: Sequence[dict[str, Any]] = ()
    ):
        self._path = self._board = None
        if folder is None:
            return
        if tensorboard:
            with needs_package("tensorboard"):
                from torch.utils.tensorboard import SummaryWriter
            self._board = SummaryWriter(folder)
        self._path = folder / METRICS
        with naming(self._path):
            folder.mkdir(parents=True, exist_ok=True)
            self._path.write_text("".join(json.dumps(record) + "\n" for record in history))

    def write(self, record: dict[str, Any]) -> None:
        """Add the record of an epoch."""
        if self._path:
            with naming(self._path), self._path.open("a") as file:
                file.write(json.dumps(record) + "\n")
        if self._board:
            for name, value in record.items():
                if isinstance(value, float):
                    self._board.add_scalar(name, value, record["epoch"])
            self._board.flush()

    def close(self) -> None:
        """Close TensorBoard's file."""
        if self._board:
            self._board.close()
