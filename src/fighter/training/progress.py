"""Progress of a training run: a bar or lines on a terminal, metrics in a file."""

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

from .._files import METRICS, naming
from ..errors import needs_extra


class Progress:
    """A bar on a terminal (if tqdm is installed); elsewhere a line at most every five seconds.

    Shows nothing unless ``show``. ``done`` is the number of epochs before an interruption.
    """

    def __init__(self, show: bool, epochs: int, steps: int, done: int = 0):
        self._bar = None
        self._lines: TextIO | None = sys.stderr if show else None
        self._start, self._epochs, self._done = time.monotonic(), epochs, done
        self._last = self._start
        if self._lines is not None and done:
            self._lines.write(f"resuming after epoch {done} of at most {epochs}\n")
        if show and sys.stderr.isatty():
            try:
                from tqdm.auto import tqdm
            except ImportError:
                return
            self._bar = tqdm(
                total=epochs * steps, initial=done * steps, desc="training", unit="step",
                leave=False, mininterval=0.1, dynamic_ncols=True,
            )  # fmt: skip

    def step(self) -> None:
        """Count one step."""
        if self._bar is not None:
            self._bar.update()

    def epoch(self, record: dict[str, Any]) -> None:
        """Show the record of an epoch."""
        shown = f"loss {record['loss']:.4f}"
        if record["validation"] is not None:
            shown += f", validation {record['validation']:.4f} (best {record['best']:.4f})"
        if self._bar is not None:
            shown = f"epoch {record['epoch']}/{self._epochs}, {shown}"
            self._bar.set_postfix_str(shown, refresh=False)  # the next step draws it
        elif self._lines is not None and time.monotonic() - self._last > 5:
            self._last = time.monotonic()
            done = record["epoch"] - self._done
            left = (time.monotonic() - self._start) / done * (self._epochs - record["epoch"])
            line = f"epoch {record['epoch']}/{self._epochs}: {shown}, at most {left:.0f} s left"
            self._lines.write(line + "\n")

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
            with needs_extra("tensorboard", "track"):
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
