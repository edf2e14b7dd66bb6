"""Peers that train one model on all series of a table: LightGBM with lags, and three networks.

Rows are numbered from 0 in each series, so that absent steps do no harm.

``lightgbm`` is mlforecast as people use it: lags and a rolling mean by season, calendar features, a
target that is standardised per series, and before that differenced in yearly to weekly tables that
are not intermittent; 200 trees that minimise the absolute error, on the last 20,000 rows of each
series. Intervals are mlforecast's conformal ones where all histories have room for two backtests;
else there is a model for each quantile. Two of these choices were made on scored windows, which
favours LightGBM a little: the absolute instead of the squared error (windows 0 and 1 of 15 tables),
and standardising after differencing (windows 0 and 1 of 10 tables). ``lightgbm_mean`` is the same
with the squared error, for scores of the mean. No other peer was tuned.

``nhits`` and ``patchtst`` are neuralforecast's with 500 steps of training on 128 windows each, all
quantiles trained together and an input of two horizons or seasons, whichever is longer (at most 512
rows). PatchTST has a learning rate of 0.001 and shorter patches for short inputs; the rest is the
library's default. ``deepar`` is trained alike, but for the likelihood of Student's t distribution,
the library's default; the library feeds back the mean and not sample paths, so that its intervals
do not widen as they should.
"""
# pyright: reportMissingImports=false

import logging
from typing import Any

import numpy as np
import pandas as pd

from .protocol import LEVELS, QUANTILES, Window, from_levels

TREE_ROWS = 20_000  # last rows of each series that LightGBM trains on
BACKTESTS = 10  # at most, for conformal intervals
STEPS = 500  # of training a network
REGULAR = 0.95  # share of steps of the usual length, for calendar features
CALENDAR = {
    "YS": [],
    "QS": ["quarter"],
    "MS": ["month", "quarter"],
    "W": ["month", "week"],
    "D": ["dayofweek", "day", "month"],
    "B": ["dayofweek", "day", "month"],
    "h": ["hour", "dayofweek", "month"],
}
SUB_HOURLY = ["minute", "hour", "dayofweek"]


def long_table(window: Window, rows: int) -> pd.DataFrame:
    """Return the last rows of all histories, numbered from 0 and without missing values."""
    parts = []
    for i in range(len(window.ids)):
        y = window.filled(i, rows)
        parts.append(pd.DataFrame({"unique_id": window.ids[i], "ds": np.arange(len(y)), "y": y}))
    return pd.concat(parts, ignore_index=True)


def in_order(window: Window, table: pd.DataFrame) -> pd.DataFrame:
    """Return forecasts with the series in the order of the window."""
    place = {name: i for i, name in enumerate(window.ids)}
    order = np.array([place[name] for name in table["unique_id"]])
    return table.iloc[np.lexsort([np.asarray(table["ds"]), order])]


# ---- LightGBM -----------------------------------------------------------------------------


def lags(window: Window) -> list[int]:
    """Return the usual lags: the last rows, and seasons back."""
    season = window.table.season
    long = [s for s in window.table.entry["season"][1:] if s <= 1000]
    last = range(1, (min(season, 24) if season > 1 else 6) + 1)
    chosen = {*last, season, 2 * season, 3 * season, *long}
    middle = int(np.median(window.stop - window.start))
    return sorted(lag for lag in chosen if lag <= max(middle // 2, 1))


def add_calendar(window: Window, table: pd.DataFrame, rows: int) -> pd.DataFrame | None:
    """Add calendar features to ``table``; return them for the steps to forecast, None if absent.

    Future stamps continue the last one at the frequency of the table. There are no features if
    fewer than 95 % of the recent steps have the usual length.
    """
    freq, horizon = window.table.freq, window.table.horizon
    names = CALENDAR.get(freq.split("-")[0], SUB_HOURLY)
    if freq == "1" or not names:
        return None
    stamps = pd.DatetimeIndex(window.frame["ds"])
    if freq in ("D", "h") or names is SUB_HOURLY:
        tail = np.diff(stamps[window.stop[0] - min(10 * horizon, 500) : window.stop[0]])
        if (tail == np.median(tail)).mean() < REGULAR:
            return None
    places = [
        np.arange(max(a, b - rows), b) for a, b in zip(window.start, window.stop, strict=True)
    ]
    past: Any = stamps[np.concatenate(places)]
    future = [
        pd.date_range(stamps[stop - 1], periods=horizon + 1, freq=freq)[-horizon:]
        for stop in window.stop
    ]
    ahead = pd.DataFrame(
        {
            "unique_id": np.repeat(window.ids, horizon),
            "ds": np.concatenate([np.arange(horizon) + len(p) for p in places]),
        }
    )
    after: Any = future[0].append(future[1:])
    for name in names:
        for frame, times in ((table, past), (ahead, after)):
            source = times.isocalendar() if name == "week" else times
            frame[name] = np.asarray(getattr(source, name), np.int32)
    return ahead


def lightgbm(objective: str, window: Window, seed: int) -> tuple[np.ndarray, None]:
    """Forecast with mlforecast and LightGBM; ``objective`` is "regression" or "regression_l1"."""
    from lightgbm import LGBMRegressor
    from mlforecast import MLForecast
    from mlforecast.lag_transforms import RollingMean
    from mlforecast.target_transforms import Differences, LocalStandardScaler
    from mlforecast.utils import PredictionIntervals

    table = long_table(window, TREE_ROWS)
    ahead = add_calendar(window, table, TREE_ROWS)
    season, horizon = window.table.season, window.table.horizon
    shortest = min(int((window.stop - window.start).min()), TREE_ROWS)
    zeros = float((table["y"].to_numpy() == 0).mean())
    slow = window.table.freq.split("-")[0] in ("YS", "QS", "MS", "W", "1") and zeros < 0.2
    slow = slow and shortest > 2
    chosen = lags(window)
    windows = max(min(BACKTESTS, shortest // 2 // horizon), 2)
    windows = windows if shortest >= 2 * horizon + 3 else 0
    options = {
        "n_estimators": 200,
        "learning_rate": 0.05,
        "min_child_samples": 20 if len(table) > 2000 else 5,
        "random_state": seed,
        "verbosity": -1,
        "n_jobs": 1,
    }
    if windows:
        models = {"m": LGBMRegressor(objective=objective, **options)}
    else:
        models = {
            f"q{level}": LGBMRegressor(objective="quantile", alpha=level, **options)
            for level in QUANTILES
        }
    span = max(lag for lag in chosen if lag <= season) if season > 1 else 3
    learner = MLForecast(
        models=models,
        freq=1,
        lags=chosen,
        lag_transforms={1: [RollingMean(max(span, 2), min_samples=1)]},
        target_transforms=[*([Differences([1])] if slow else []), LocalStandardScaler()],
    )
    intervals = PredictionIntervals(n_windows=windows, h=horizon) if windows else None
    learner.fit(table, static_features=[], dropna=False, prediction_intervals=intervals)
    level: list[int | float] | None = [*LEVELS] if windows else None
    out = in_order(window, learner.predict(horizon, level=level, X_df=ahead))
    if windows:
        forecast = from_levels(out, "m", "m-")
    else:
        forecast = np.sort(out[[f"q{level}" for level in QUANTILES]].to_numpy(), axis=-1)
    return forecast.reshape(len(window.ids), horizon, -1), None


# ---- networks -----------------------------------------------------------------------------


def neural(name: str, window: Window, seed: int) -> tuple[np.ndarray, None]:
    """Forecast with a network of neuralforecast."""
    from neuralforecast import NeuralForecast, models
    from neuralforecast.losses.pytorch import DistributionLoss, MQLoss

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    horizon, season = window.table.horizon, window.table.season
    middle = int(np.median(window.stop - window.start))
    size = min(max(2 * horizon, 2 * season, 8), 512, max(middle - horizon, horizon, 4))
    options: dict[str, Any] = {
        "loss": MQLoss(quantiles=[*QUANTILES]),
        "max_steps": STEPS,
        "scaler_type": "identity" if name == "PatchTST" else "standard",  # PatchTST has its own
        "start_padding_enabled": True,
        "random_seed": seed + 1,
        "windows_batch_size": 128,
        "val_check_steps": STEPS,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "logger": False,
        "enable_checkpointing": False,
    }
    if name == "PatchTST":
        patch = min(16, max(size // 4, 2))
        options |= {"patch_len": patch, "stride": max(patch // 2, 1), "learning_rate": 1e-3}
    if name == "DeepAR":
        options |= {"loss": DistributionLoss("StudentT", quantiles=[*QUANTILES])}
        options |= {"valid_loss": MQLoss(quantiles=[*QUANTILES])}
    model = getattr(models, name)(h=horizon, input_size=size, **options)
    learner = NeuralForecast(models=[model], freq=1)
    learner.fit(long_table(window, TREE_ROWS), val_size=0)
    out = in_order(window, learner.predict())
    columns = [column for column in out.columns if column.startswith(f"{name}-")]  # no mean
    forecast = np.sort(out[columns].to_numpy(np.float64), axis=-1)
    return forecast.reshape(len(window.ids), horizon, len(QUANTILES)), None
