"""The best numbers that others have published, beside ours on the same protocol."""

from collections.abc import Sequence

from .runs import Record
from .tables import by, markdown, mean, number

TITLE = "Beside published numbers"
WORDS = """
Weather with the usual protocol: 70/10/20, standardised by the training rows, every test window
scored. The best that was found in print; where 96 steps are seen, of work whose test loader drops
no window, and where any number is, beside ours at the look-back that was best on validation.
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
    for (lookback, horizon), (mse, mae, whose) in WEATHER.items():
        tried = {key: found for key, found in groups.items() if key[1] == horizon}
        if lookback:
            tried = {key: found for key, found in tried.items() if key[0] == lookback}
        elif {seen for seen, _ in tried} <= {96}:
            continue  # no other look-back was tried
        if not tried:
            continue
        seen, results = min(tried.items(), key=lambda item: mean(item[1], "validation"))
        lines.append(
            [
                f"{lookback or 'any number of'} steps to {horizon}",
                f"{mse:.3f} / {mae:.3f} ({whose})",
                f"{number(results, 'mse', 4)} / {number(results, 'mae', 4)}",
                str(seen[0]),
                str(len(results)),
            ]
        )
    if not lines:
        return ""
    return markdown(["Weather", "best published", "Fighter", "steps seen", "seeds"], lines)
