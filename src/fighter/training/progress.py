"""What a person and a log see of a training run."""

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

from ..errors import needs_extra


class Progress:
    """One bar on a terminal, at most ten updates a second; elsewhere a line every five seconds.

    Silent unless ``show``. tqdm draws the bar if it is installed.
    """

    def __init__(self, show: bool, epochs: int, steps: int, done: int = 0):
        self._bar = None
        self._lines: TextIO | None = sys.stderr if show else None
        self._start, self._epochs, self._done = time.monotonic(), epochs, done
        self._last = self._start
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
        """One batch is done."""
        if self._bar is not None:
            self._bar.update()

    def epoch(self, record: dict[str, Any]) -> None:
        """One epoch is done."""
        shown = f"loss {record['loss']:.4f}"
        if record["validation"] is not None:
            shown += f", validation {record['validation']:.4f} (best {record['best']:.4f})"
        if self._bar is not None:
            shown = f"epoch {record['epoch']}/{self._epochs}, {shown}"
            self._bar.set_postfix_str(shown, refresh=False)  # or every epoch would draw
        elif self._lines is not None and time.monotonic() - self._last > 5:
            self._last = time.monotonic()
            here = record["epoch"] - self._done
            left = (time.monotonic() - self._start) / here * (self._epochs - record["epoch"])
            line = f"epoch {record['epoch']}/{self._epochs}: {shown}, at most {left:.0f} s left"
            self._lines.write(line + "\n")

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.close()


class MetricLog:
    """One JSON object a line in ``metrics.jsonl``, and TensorBoard's format if asked for.

    The file holds one run: it begins with what an interrupted run had done, and with nothing else.
    """

    def __init__(
        self,
        folder: Path | None,
        tensorboard: bool = False,
        history: Sequence[dict[str, Any]] = (),
    ):
        self._path = self._board = None
        if folder is None:
            return
        if tensorboard:
            with needs_extra("tensorboard", "track"):
                from torch.utils.tensorboard import SummaryWriter
            self._board = SummaryWriter(folder)
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / "metrics.jsonl"
        self._path.write_text("".join(json.dumps(record) + "\n" for record in history))

    def write(self, record: dict[str, Any]) -> None:
        """Add one epoch."""
        if self._path:
            with self._path.open("a") as file:
                file.write(json.dumps(record) + "\n")
        if self._board:
            for name, value in record.items():
                if isinstance(value, float):
                    self._board.add_scalar(name, value, record["epoch"])
            self._board.flush()

    def close(self) -> None:
        """Nothing more will come."""
        if self._board:
            self._board.close()
