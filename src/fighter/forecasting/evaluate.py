"""Forecasts of a fitted model against what came: by window for people, over all for scores."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ..data import Panel, Scaler, Windows, forecast_table
from ..data.bounds import to_table_units
from ..data.forecast_table import drop_column
from ..errors import FighterError
from ..models import ForecastNet
from ..training import forecast
from .autoconfig import check_rows

if TYPE_CHECKING:
    from .forecaster import Forecaster


def cross_validation(
    model: "Forecaster", df: Any, panel: Panel, n_windows: int, step_size: int, refit: bool
) -> Any:
    """See :meth:`fighter.Forecaster.cross_validation`; ``model`` is fitted here."""
    horizon = model.horizon
    if n_windows < 1 or step_size < 1:
        raise FighterError(f"n_windows={n_windows}, step_size={step_size}: need at least 1")
    cuts = [panel.length - horizon - i * step_size for i in reversed(range(n_windows))]
    least = (model.lookback or 1) + horizon
    if cuts[0] < least:
        raise FighterError(
            f"{n_windows} windows {step_size} apart leave {cuts[0]} of {panel.length} rows to "
            f"train on, needs {least}: take fewer windows or a smaller step_size"
        )
    parts: dict[str, list[np.ndarray]] = {}
    times = []
    for i, cut in enumerate(cuts):
        until = panel.slice(None, cut)
        if i == 0 or refit:
            model._fit(until)
        known, until = until.future[cut : cut + horizon], replace(until, future=until.future[:cut])
        rows = slice(cut, cut + horizon)
        times.append(panel.times[rows])
        columns = model._columns(model._forecast_after(until, known))
        columns["cutoff"] = np.full(horizon, panel.times[cut - 1])
        columns["y"] = np.where(panel.observed[rows], panel.values[rows], np.nan)
        for name in ("cutoff", *(name for name in columns if name not in ("cutoff", "y")), "y"):
            parts.setdefault(name, []).append(columns[name])
    return forecast_table(
        df,
        panel.ids,
        np.concatenate(times),
        {name: np.concatenate(columns) for name, columns in parts.items()},
        axis=panel.axis,
        id_col=model.id_col,
        time_columns=("cutoff",),
    )


def evaluate(model: "Forecaster", df: Any, panel: Panel, last: int | None) -> Any:
    """See :meth:`fighter.Forecaster.evaluate`."""
    windows, scaler, start_step = scored_windows(model, panel, last)
    total: dict[str, np.ndarray] = {}
    count = np.zeros(panel.n_series)
    for batch, y in forecast(model.network, windows, start_step):
        target = batch.future.cpu().numpy().astype(np.float64)
        seen = np.ones(target.shape, bool)
        if batch.future_observed is not None:
            seen = batch.future_observed.cpu().numpy()
        error = np.abs(target - y[..., 0].cpu().numpy())
        measured = {"scaled_mae": error, "scaled_mse": error**2}
        columns = model._columns(model._finish(y, batch, panel.ids, scaler))
        target = to_table_units(batch.future[..., None], batch, scaler)[..., 0]
        for level in model.levels:
            low, high = (columns[f"{model.column}-{side}-{level:g}"] for side in ("lo", "hi"))
            measured[f"coverage-{level:g}"] = 100.0 * ((low <= target) & (target <= high))
        for name, values in measured.items():
            total[name] = total.get(name, 0) + (values * seen).sum((0, 1))
        count += seen.sum((0, 1))
    # A series without a target in these rows has no score: an empty cell, not a perfect one.
    mean = {name: values / np.where(count, count, np.nan) for name, values in total.items()}
    scores = {
        "windows": np.full(panel.n_series, len(windows)),
        "mae": mean["scaled_mae"] * scaler.scale,
        "mse": mean["scaled_mse"] * scaler.scale**2,
        **mean,
    }
    table = forecast_table(
        df,
        panel.ids,
        panel.times[-1:],
        {name: values[None] for name, values in scores.items()},
        axis=panel.axis,
        id_col=model.id_col,
    )
    return drop_column(table, panel.axis.name)


def scored_windows(
    model: "Forecaster", panel: Panel, last: int | None
) -> tuple[Windows, Scaler, int]:
    """Windows whose targets lie in the last rows, their units, and their place in time."""
    plan, preparation = model.plan, model.preparation
    check_rows(panel, plan.lookback, plan.horizon)
    rows = slice(None if last is None else max(panel.length - last, 0), None)
    scaler, start_step = preparation.scaler_of(panel), preparation.start_step(panel)
    windows = preparation.windows(panel, plan, model._device(), scaler, rows)
    return windows, scaler, start_step


def window_errors(network: ForecastNet, windows: Windows, start_step: int) -> np.ndarray:
    """Errors of the point forecast, by window.

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
