"""Forecasts of a fitted model compared with the true values, by window and over all windows."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from ..data import Panel, Windows, forecast_table
from ..data.bounds import to_table_units
from ..data.forecast_table import drop_column
from ..errors import FighterError
from ..models import ForecastNet
from ..training import forecast
from .config import Config
from .fitted import Fitted, fit_panel
from .forecast import interval_ends


def cross_validate(
    config: Config, panel: Panel, device: torch.device, n_windows: int, step_size: int, refit: bool
) -> Any:
    """Forecast the last windows of a panel; see :meth:`fighter.Forecaster.cross_validation`."""
    horizon = config.horizon
    for name, value in (("n_windows", n_windows), ("step_size", step_size)):
        if value < 1:
            raise FighterError("needs at least 1", argument=name, value=value)
    cuts = [panel.length - horizon - i * step_size for i in reversed(range(n_windows))]
    least = (config.lookback or 1) + horizon
    if cuts[0] < least:
        raise FighterError(
            f"{n_windows} windows {step_size} apart leave {cuts[0]} of {panel.length} rows to "
            f"train on, needs {least}: take fewer windows or a smaller step size",
            argument="n_windows",
            value=n_windows,
        )
    parts: dict[str, list[np.ndarray]] = {}
    times, fitted = [], None
    for cut in cuts:
        until, rows = panel.slice(None, cut), slice(cut, cut + horizon)
        if fitted is None or refit:
            fitted = fit_panel(config, until, device=device)
        known, until = until.future[rows], replace(until, future=until.future[:cut])
        times.append(panel.times[rows])
        columns = {
            "cutoff": np.full(horizon, panel.times[cut - 1]),
            **fitted.forecast_known(until, known).columns(),
            "y": np.where(panel.observed[rows], panel.values[rows], np.nan),
        }
        for name, column in columns.items():
            parts.setdefault(name, []).append(column)
    return forecast_table(
        panel.like,
        panel.ids,
        np.concatenate(times),
        {name: np.concatenate(columns) for name, columns in parts.items()},
        axis=panel.axis,
        id_cols=panel.id_cols,
        time_columns=("cutoff",),
    )


def evaluate(fitted: Fitted, panel: Panel, last: int | None = None) -> Any:
    """Score every window of a panel; see :meth:`fighter.Forecaster.evaluate`."""
    windows, scaler, start_step = fitted.scored_windows(panel, last)
    total: dict[str, np.ndarray] = {}
    count = np.zeros(panel.n_series)
    for batch, y in forecast(fitted.network, windows, start_step):
        target = batch.future.cpu().numpy().astype(np.float64)
        seen = np.ones(target.shape, bool)
        if batch.future_observed is not None:
            seen = batch.future_observed.cpu().numpy()
        error = np.abs(target - y[..., 0].cpu().numpy())
        measured = {"scaled_mae": error, "scaled_mse": error**2}
        quantiles = fitted.finish(y, batch, panel.ids, scaler)[..., 1:]
        target = to_table_units(batch.future[..., None], batch, scaler)[..., 0]
        for level in fitted.config.interval_levels:
            low, high = interval_ends(fitted.plan.quantiles, level)
            inside = (quantiles[..., low] <= target) & (target <= quantiles[..., high])
            measured[f"coverage-{level:g}"] = 100.0 * inside
        for name, values in measured.items():
            total[name] = total.get(name, 0) + (values * seen).sum((0, 1))
        count += seen.sum((0, 1))
    # A series without a target in these rows has no score: an empty cell, not a perfect score.
    mean = {name: values / np.where(count, count, np.nan) for name, values in total.items()}
    return _score_table(
        fitted,
        panel,
        {
            "windows": np.full(panel.n_series, len(windows)),
            "mae": mean["scaled_mae"] * scaler.scale,
            "mse": mean["scaled_mse"] * scaler.scale**2,
            **mean,
        },
    )


def _score_table(fitted: Fitted, panel: Panel, scores: Mapping[str, np.ndarray]) -> Any:
    """Return one row per series."""
    table = forecast_table(
        panel.like,
        panel.ids,
        panel.times[-1:],
        {name: values[None] for name, values in scores.items()},
        axis=panel.axis,
        id_cols=panel.id_cols,
    )
    return drop_column(table, panel.axis.name)


def window_errors(network: ForecastNet, windows: Windows, start_step: int) -> np.ndarray:
    """Return the errors of the point forecast by window.

    Returns:
        ``[3, windows]``: sum of squared errors, sum of absolute errors, number of targets.
    """
    parts = []
    for batch, y in forecast(network, windows, start_step):
        seen = batch.future_observed
        seen = torch.ones_like(batch.future, dtype=torch.bool) if seen is None else seen
        error = (y[..., 0] - batch.future).double() * seen
        parts.append(torch.stack([error.square(), error.abs(), seen.double()]).sum((2, 3)))
    return torch.cat(parts, 1).cpu().numpy()
