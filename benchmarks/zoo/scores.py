"""Score forecasts against the truth of a window.

MASE, WAPE, RMSSE and bias score a model's point forecast, WQL and coverage its quantiles, as in
``Forecaster.evaluate``. RMSSE and bias belong to the mean, and the point forecast of many models is
the median: ``rmsse_mean`` and ``bias_mean`` score the mean of the distribution that the quantiles
draw.
"""

import numpy as np

from .protocol import QUANTILES, Window, seasonal_naive

DECILES = slice(1, 10)  # of QUANTILES: those that the quantile loss averages
MEDIAN = QUANTILES.index(0.5)
# The mean of a distribution whose quantiles lie on lines between QUANTILES, and on the outermost
# ones beyond them.
MIDDLES = (np.array(QUANTILES[1:]) + np.array(QUANTILES[:-1])) / 2
MEAN = np.diff(MIDDLES, prepend=0.0, append=1.0)
RELATIVE = {"mase": "scored", "wql": "size", "wape": "size", "rmsse": "rated",
            "rmsse_mean": "rated"}  # fmt: skip
Sums = dict[str, np.ndarray]  # one number per series


def scale(history: np.ndarray, season: int) -> float:
    """Return the mean absolute seasonal difference of a history; NaN if there is none above 0.

    Season 1 is used where the history has no more rows than a season or does not change.
    """
    for m in (season, 1) if len(history) > season else (1,):
        steps = np.abs(history[m:] - history[:-m])
        steps = steps[np.isfinite(steps)]
        if len(steps) and steps.mean() > 0:
            return float(steps.mean())
    return float("nan")


def step_scale(history: np.ndarray) -> float:
    """Return the root mean squared change between rows, from the first value that is not 0 on.

    NaN if there is no change.
    """
    sold = np.flatnonzero(np.isfinite(history) & (history != 0))
    steps = np.diff(history[sold[0] :]) if len(sold) else np.empty(0)
    steps = steps[np.isfinite(steps)]
    return float(np.sqrt((steps**2).mean())) if steps.any() else float("nan")


def complete(window: Window, forecast: np.ndarray) -> tuple[np.ndarray, int]:
    """Replace forecasts that are missing or not finite; return all and how many were replaced.

    A step with any such quantile is replaced, with all its quantiles, by the seasonal naive one.
    """
    forecast = np.array(forecast, np.float64)
    absent = np.asarray(~np.isfinite(forecast).all(-1))
    for i in np.flatnonzero(absent.any(-1)).tolist():
        naive = seasonal_naive(window.history(i), window.table.horizon, window.table.season)
        forecast[i][absent[i]] = naive[absent[i]]
    return forecast, int(absent.sum())


def score(window: Window, forecast: np.ndarray, point: np.ndarray | None = None) -> Sums:
    """Return the scores of each series: ``mase`` and ``rmsse``, and sums over its steps.

    Args:
        window: the truth and the histories.
        forecast: quantiles at QUANTILES, [series, H, Q], all finite.
        point: point forecasts, [series, H] (default: the medians).
    """
    truth = window.truth
    known = np.isfinite(truth)
    point = forecast[..., MEDIAN] if point is None else point
    cells = known.sum(1)
    histories = [window.history(i) for i in range(len(window.ids))]
    scales = np.array([scale(history, window.table.season) for history in histories])
    steps = np.array([step_scale(history) for history in histories])
    over = truth[..., None] - forecast[..., DECILES]
    levels = np.array(QUANTILES[DECILES])
    loss = 2 * np.maximum(levels * over, (levels - 1) * over).mean(-1)
    sums = {
        "error": np.where(known, np.abs(truth - point), 0).sum(1),
        "loss": np.where(known, loss, 0).sum(1),
        "size": np.where(known, np.abs(truth), 0).sum(1),
        "cells": cells,
    }
    with np.errstate(invalid="ignore", divide="ignore"):
        sums["mase"] = sums["error"] / cells / scales  # NaN without a scale or without truth
        for name, middle in (("", point), ("_mean", forecast @ MEAN)):
            wrong = np.where(known, middle - truth, 0)
            sums[f"signed{name}"] = wrong.sum(1)
            sums[f"rmsse{name}"] = np.sqrt((wrong**2).sum(1) / cells) / steps
    for level, low in ((80, 1), (95, 0)):
        inside = (truth >= forecast[..., low]) & (truth <= forecast[..., -1 - low])
        sums[f"in{level}"] = (inside & known).sum(1)
    return sums


def naive_score(window: Window) -> Sums:
    """Return the scores of the seasonal naive forecast on the same series."""
    horizon, season = window.table.horizon, window.table.season
    every = [seasonal_naive(window.history(i), horizon, season) for i in range(len(window.ids))]
    return score(window, np.stack(every))


def total(sums: Sums) -> dict[str, float]:
    """Return the scores of a table from those of its series."""
    size, cells = float(sums["size"].sum()), int(sums["cells"].sum())

    def mean(name: str) -> float:
        known = sums[name][np.isfinite(sums[name])]
        return float(known.mean()) if len(known) else float("nan")

    def share(name: str) -> float:
        return float(sums[name].sum()) / size if size else float("nan")

    return {
        "mase": mean("mase"),
        "wql": share("loss"),
        "wape": share("error"),
        "rmsse": mean("rmsse"),
        "rmsse_mean": mean("rmsse_mean"),
        "bias": share("signed"),  # above 0 if forecasts are too high
        "bias_mean": share("signed_mean"),
        "cov80": 100 * float(sums["in80"].sum()) / max(cells, 1),
        "cov95": 100 * float(sums["in95"].sum()) / max(cells, 1),
        "scored": int(np.isfinite(sums["mase"]).sum()),  # the weight of mase among windows
        "rated": int(np.isfinite(sums["rmsse"]).sum()),  # the weight of rmsse
        "size": size,  # the weight of wql, wape and bias
        "cells": cells,  # the weight of coverage
    }
