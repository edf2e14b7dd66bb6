"""Forecast with other libraries; run inside their own environment, ``.zoo-venv``.

    .zoo-venv/bin/python -m benchmarks.zoo.peers --models autoets flair

- statsforecast: SeasonalNaive (Naive without a season), AutoETS, AutoTheta and AutoCES with the
  first season of the table, on the last max(10 seasons, 500) rows, at most 2,000 (the naive one on
  all rows). Missing values are interpolated.
- tsb: the method of Teunter, Syntetos and Babai for intermittent demand, of statsforecast, with 0.2
  for both of its parameters. Intervals are its conformal ones from up to ten backtests; a history
  without room for two has the forecast itself for all quantiles.
- flair: flaircast with 200 sample paths; it chooses the season from the frequency.
- lightgbm, lightgbm_mean, nhits, patchtst, deepar: see ``peers_global.py``.

Peers know rows, not stamps: where steps are absent, the rows are numbered as if there were none.
"""
# pyright: reportMissingImports=false

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy: several runs may share a machine

import platform
import warnings
from functools import partial
from importlib.metadata import version
from typing import Any

import numpy as np

from . import peers_global, store
from .peers_global import BACKTESTS
from .protocol import LEVELS, QUANTILES, Window, from_levels

ROWS, SEASONS, MOST_ROWS = 500, 10, 2000  # of a history for statsforecast
SMOOTHING = (0.2, 0.2)  # of TSB: of the sizes of demands, and of their probability
MANY, SAMPLE = 400, 150  # slow models forecast a sample of the series of larger tables
SLOW = ("autoces",)
PACKAGES = ("statsforecast", "mlforecast", "lightgbm", "flaircast", "neuralforecast", "torch",
            "numpy", "pandas")  # fmt: skip


# ---- one series at a time -----------------------------------------------------------------


def statistical(name: str, window: Window, seed: int) -> store.Answer:
    """Forecast with a model of statsforecast."""
    from statsforecast import models

    season = window.table.season
    rows = None if name == "SeasonalNaive" else min(max(SEASONS * season, ROWS), MOST_ROWS)
    forecast = store.empty(window)
    for i in range(len(window.ids)):
        y = window.filled(i, rows)
        options = {"h": window.table.horizon, "level": [*LEVELS]}
        used = season if len(y) > season else 1
        kind = models.Naive() if name == "SeasonalNaive" and used == 1 else None
        model = kind or getattr(models, name)(season_length=used)
        try:
            forecast[i] = from_levels(model.forecast(y=y, **options), "mean")
        except Exception as error:  # counted as missing
            print(f"  {window.ids[i]}: {type(error).__name__}: {str(error)[:100]}")
    return forecast, None


def tsb(window: Window, seed: int) -> store.Answer:
    """Forecast with TSB."""
    from statsforecast.models import TSB, ConformalIntervals

    forecast = store.empty(window)
    horizon = window.table.horizon
    for i in range(len(window.ids)):
        y = window.filled(i)
        backtests = min((len(y) - 1) // horizon, BACKTESTS)
        if backtests < 2:
            forecast[i] = TSB(*SMOOTHING).forecast(y=y, h=horizon)["mean"][:, None]
            continue
        intervals = ConformalIntervals(n_windows=backtests, h=horizon)
        model = TSB(*SMOOTHING, prediction_intervals=intervals)
        forecast[i] = from_levels(model.forecast(y=y, h=horizon, level=[*LEVELS]), "mean")
    return forecast, None


def flair(window: Window, seed: int) -> store.Answer:
    """Forecast with FLAIR; the quantiles are those of its sample paths."""
    from flaircast import FLAIR

    freq = {"1": "Y"}.get(window.table.freq, window.table.freq)
    model = FLAIR(freq=freq, n_samples=200, seed=seed)
    forecast = store.empty(window)
    for i in range(len(window.ids)):
        try:
            samples = model.predict(window.filled(i), window.table.horizon)
            forecast[i] = np.quantile(samples, QUANTILES, axis=0).T
        except Exception as error:  # counted as missing
            print(f"  {window.ids[i]}: {type(error).__name__}: {str(error)[:100]}")
    return forecast, None


MODELS: dict[str, store.Model] = {
    "seasonal_naive": partial(statistical, "SeasonalNaive"),
    "autotheta": partial(statistical, "AutoTheta"),
    "autoets": partial(statistical, "AutoETS"),
    "autoces": partial(statistical, "AutoCES"),
    "flair": flair,
    "tsb": tsb,
    "lightgbm": partial(peers_global.lightgbm, "regression_l1"),
    "lightgbm_mean": partial(peers_global.lightgbm, "regression"),
    "nhits": partial(peers_global.neural, "NHITS"),
    "patchtst": partial(peers_global.neural, "PatchTST"),
    "deepar": partial(peers_global.neural, "DeepAR"),
}


def choose(model: str, window: Window) -> np.ndarray | None:
    """Return an evenly spaced sample of series where all would take a slow model too long."""
    if model in SLOW and len(window.ids) > MANY:
        return np.unique(np.linspace(0, len(window.ids) - 1, SAMPLE).round().astype(int))
    return None


def environment() -> dict[str, Any]:
    """Return versions and machine."""
    packages = {name: version(name) for name in PACKAGES}
    return {"peers": {"python": platform.python_version(), "machine": platform.machine(),
                      "cores": os.cpu_count(), "threads": 1, **packages}}  # fmt: skip


def main() -> int:
    """Compute what is missing."""
    args = store.flags("python -m benchmarks.zoo.peers").parse_args()
    warnings.simplefilter("ignore")
    places = store.Places(args.results, args.cache, args.csv)
    if args.again:
        store.drop(args, places)
    todo = store.missing(args, [name for name in args.models if name in MODELS], places)
    return int(store.compute(todo, MODELS, places, environment(), choose) > 0)


if __name__ == "__main__":
    raise SystemExit(main())
