"""Show the best published numbers beside ours, on the same protocol."""

from collections.abc import Sequence
from typing import NamedTuple

from fighter.benchmark.contest import Cell
from fighter.benchmark.result import Score, by, markdown, mean, number

TITLE = "Beside published numbers"
WORDS = """
Weather with the usual protocol: rows split 70/10/20, standardised by the training rows, every test
window scored. At look-back 96 this is the best published result that we found among work whose test
loader drops no window; at longer look-backs it is the best at any look-back, beside every look-back
that was tried here. *Validation* is the absolute error on the validation rows. Which look-back is
best before the test rows is shown below, among the settings that were searched.
"""


class Published(NamedTuple):
    """A published result on Weather."""

    mse: float
    mae: float
    source: str

    def __str__(self) -> str:
        """Write the numbers and their source."""
        return f"{self.mse:.3f} / {self.mae:.3f} ({self.source})"


# By look-back and horizon; look-back None: the best at any look-back.
WEATHER = {
    (96, 96): Published(0.150, 0.188, "CARD"),
    (96, 192): Published(0.200, 0.235, "OLinear"),
    (96, 336): Published(0.258, 0.280, "OLinear"),
    (96, 720): Published(0.337, 0.333, "OLinear"),
    (None, 96): Published(0.140, 0.179, "PMDformer, look-back 720"),
    (None, 192): Published(0.185, 0.226, "PMDformer, look-back 720"),
}


def ours(rows: Sequence[Cell]) -> dict[tuple[int, int], tuple[Published, list[Score]]]:
    """Return Fighter's results on Weather and the published ones, by look-back and horizon."""
    chosen = [
        {**row, "lookback": row["result"].get("lookback")}
        for row in rows
        if row["model"] == "Fighter"
        and row["settings"]["known"] == "weather"
        and row["max_epochs"] is None
    ]
    groups = by(chosen, "lookback", "horizon")
    return {
        (lookback, horizon): (WEATHER[key], groups[lookback, horizon])
        for lookback, horizon in sorted(groups)
        if (key := (lookback if lookback == 96 else None, horizon)) in WEATHER
    }


def section(rows: Sequence[Cell]) -> str:
    """Return the table; empty without a row of Fighter on Weather."""
    lines = [
        [
            f"{lookback} steps to {horizon}",
            str(best),
            f"{number(results, 'mse', 4)} / {number(results, 'mae', 4)}",
            f"{mean(results, 'validation'):.4f}",
            str(len(results)),
        ]
        for (lookback, horizon), (best, results) in ours(rows).items()
    ]
    if not lines:
        return ""
    return markdown(["Weather", "best published", "Fighter", "validation", "seeds"], lines)
