"""The best numbers that others have published, beside ours on the same protocol."""

from collections.abc import Sequence

from fighter.benchmark.result import by, markdown, mean, number
from fighter.benchmark.runs import Record

TITLE = "Beside published numbers"
WORDS = """
Weather with the usual protocol: 70/10/20, standardised by the training rows, every test window
scored. The best that was found in print at 96 steps, of work whose test loader drops no window;
and the best at any number of steps, beside every other look-back that was tried here. *Validation*
is the absolute error on the rows that choose the epoch; which look-back is best before the test
rows stands below, in what was searched.
"""
# MSE, MAE, and whose, by look-back (None: whichever) and horizon.
WEATHER = {
    (96, 96): (0.150, 0.188, "CARD"),
    (96, 192): (0.200, 0.235, "OLinear"),
    (96, 336): (0.258, 0.280, "OLinear"),
    (96, 720): (0.337, 0.333, "OLinear"),
    (None, 96): (0.140, 0.179, "PMDformer, 720 steps"),
    (None, 192): (0.185, 0.226, "PMDformer, 720 steps"),
}


def section(rows: Sequence[Record]) -> str:
    """Fighter on Weather; nothing where there is no such row."""
    ours = [
        {**row, "lookback": row["result"]["lookback"]}
        for row in rows
        if row["model"] == "Fighter"
        and row["settings"]["known"] == "weather"
        and row["max_epochs"] is None
    ]
    groups = by(ours, "lookback", "horizon")
    lines = []
    for lookback, horizon in sorted(groups):
        results = groups[lookback, horizon]
        known = WEATHER.get((lookback if lookback == 96 else None, horizon))
        if known is None:
            continue
        mse, mae, whose = known
        lines.append(
            [
                f"{lookback} steps to {horizon}",
                f"{mse:.3f} / {mae:.3f} ({whose})",
                f"{number(results, 'mse', 4)} / {number(results, 'mae', 4)}",
                f"{mean(results, 'validation'):.4f}",
                str(len(results)),
            ]
        )
    if not lines:
        return ""
    return markdown(["Weather", "best published", "Fighter", "validation", "seeds"], lines)
