"""Forecasts of a fitted model compared with the true values, by window and over all windows."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..data import Batch, Panel, forecast_table
from ..data.bounds import clamp_finished, to_table_units
from ..data.censored import without_bounds
from ..data.columns import listing
from ..data.forecast_table import drop_column
from ..errors import FighterError, check_count, warn_user
from .config import Config
from .fit import fit_panel
from .fitted import Fitted, first_scored_row
from .forecast import interval_ends
from .history import positions
from .metrics import Scores, check_metrics, make_scores


def cross_validate(
    config: Config,
    panel: Panel,
    device: torch.device,
    n_windows: int,
    step_size: int | None,
    refit: bool,
) -> Any:
    """Forecast the last windows of a panel; see :meth:`fighter.Forecaster.cross_validation`."""
    horizon = config.horizon
    check_count("n_windows", n_windows)
    step_size = horizon if step_size is None else check_count("step_size", step_size)
    cuts = [panel.length - horizon - i * step_size for i in reversed(range(n_windows))]
    least = (config.lookback or 1) + horizon
    if cuts[0] < least:
        raise FighterError(
            f"{n_windows} windows {step_size} apart leave {cuts[0]} of {panel.length} rows to "
            f"train on, needs {least}: take fewer windows or a smaller step size",
            argument="n_windows",
            value=n_windows,
        )
    panel = _without_unborn(panel, cuts[0])
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
            panel.target_col: np.where(without_bounds(panel)[rows], panel.values[rows], np.nan),
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


def _without_unborn(panel: Panel, cut: int) -> Panel:
    """Drop series without an observed value before the first cutoff: no model could know them."""
    born = np.flatnonzero(panel.observed[:cut].any(0))
    names = [panel.ids[i] for i in born]
    if len(names) == panel.n_series:
        return panel
    when = panel.freq.show(int(panel.times[cut - 1]))
    if not names:
        raise FighterError(f"no series has an observed value up to the first cutoff, {when}")
    others = [name for name in panel.ids if name not in set(names)]
    warn_user(f"left out: {listing(others, 3)} without a value up to the first cutoff, {when}.")
    return panel.select(names)


def evaluate(
    fitted: Fitted,
    panel: Panel,
    last: int | None = None,
    metrics: str | Sequence[str] | None = None,
) -> Scores:
    """Score every window of a panel; see :meth:`fighter.Forecaster.evaluate`."""
    _warn_if_seen(fitted, panel, last)
    return scores(fitted, panel, last, metrics)


def table_of(found: Scores, panel: Panel) -> Any:
    """Return one row of scores per series, as a table of the type that the panel came from."""
    table = forecast_table(
        panel.like,
        panel.ids,
        panel.times[-1:],
        {"windows": np.array([found.windows])}
        | {name: values[None] for name, values in found.columns().items()},
        axis=panel.axis,
        id_cols=panel.id_cols,
    )
    return drop_column(table, panel.axis.name)


def score(fitted: Fitted, panel: Panel) -> float:
    """Return minus the mean scaled MAE over series; see :meth:`fighter.Forecaster.score`."""
    _warn_if_seen(fitted, panel, None)
    error = scores(fitted, panel, metrics="scaled_mae").total()["scaled_mae"]
    if np.isnan(error):
        raise FighterError("the table has no observed value to score")
    return -error


def scores(
    fitted: Fitted,
    panel: Panel,
    last: int | None = None,
    metrics: str | Sequence[str] | None = None,
) -> Scores:
    """Score every window as :func:`evaluate` does, without a warning about rows seen before."""
    names, panel = check_metrics(metrics, fitted.config), panel.dense()
    windows, scaler, start_step = fitted.scored_windows(panel, last)
    ids = fitted.served(panel).ids
    columns, levels = positions(panel.ids, ids), np.array(fitted.plan.quantiles)
    sums: dict[str, np.ndarray] = {}
    for batch, y in fitted.outputs(windows, fitted.served(panel), scaler, start_step):
        target = batch.future.cpu().numpy().astype(np.float64)
        seen = np.ones(target.shape, bool)
        if batch.future_observed is not None:
            seen = batch.future_observed.cpu().numpy()
        if batch.at_least is not None:  # what was wanted is not known
            seen = seen & batch.at_least.isnan().cpu().numpy()
        error = clamp_finished(y, batch)[..., 0].cpu().numpy() - target
        quantiles = fitted.finish(y, batch, ids, scaler)[..., 1:]
        target = to_table_units(batch.future[..., None], batch, scaler)
        above = target - quantiles
        measured = {
            "count": np.ones(seen.shape),
            "absolute": np.abs(error),
            "square": error**2,
            "signed": error,
            "truth": np.abs(target[..., 0]),
            "pinball": np.maximum(levels * above, (levels - 1) * above).sum(-1)
            / max(len(levels), 1),
        }
        for level in fitted.config.interval_levels:
            low, high = interval_ends(fitted.plan.quantiles, level)
            inside = (quantiles[..., [low]] <= target) & (target <= quantiles[..., [high]])
            measured[f"coverage-{level:g}"] = inside[..., 0]
        rows = batch.start.cpu().numpy()[:, None] + windows.lookback + np.arange(windows.horizon)
        own = seen[..., columns] & (rows[..., None] >= panel.begins)  # [B, H, N]
        for name, values in measured.items():
            sums[name] = sums.get(name, 0) + (values[..., columns] * own).sum((0, 1))
    naive = fitted.preprocessing.naive_errors_of(panel.ids)
    weights = fitted.weights_of(panel)
    return make_scores(weights, len(windows), names, sums, scaler.scale[columns], naive)


def _warn_if_seen(fitted: Fitted, panel: Panel, last: int | None) -> None:
    """Warn if windows are scored whose targets trained, selected or calibrated the model."""
    plan, trained, freq = fitted.plan, fitted.context, panel.freq
    learned = plan.model.trainable or plan.quantiles
    if not learned or not set(panel.ids) & set(trained.ids):
        return
    until = int(trained.times[-1])
    first = np.arange(first_scored_row(panel, plan, last), panel.length - plan.horizon + 1)
    begin, end = panel.times[first], panel.times[first + plan.horizon - 1]
    seen = int(((begin <= until) & (end >= fitted.preprocessing.origin)).sum())
    if not seen:
        return
    rows = f"those until {freq.show(until)}"
    if plan.validation:
        before = int(freq.range(until, 1, first=-plan.validation)[0])
        rows = f"those until {freq.show(before)}, and validated on {rows}"
    warn_user(
        f"{seen:,} of the {len(first):,} windows scored lie in rows that the model has seen: it "
        f"was trained on {rows}. Their scores are too good: score later rows, which were held out "
        "from training, or use cross-validation."
    )


def window_errors(forecasts: Iterable[tuple[Batch, Tensor]]) -> np.ndarray:
    """Return the errors of the point forecast by window.

    Returns:
        ``[3, windows]``: sum of squared errors, sum of absolute errors, number of targets.
    """
    parts = []
    for batch, y in forecasts:
        seen = batch.future_observed
        seen = torch.ones_like(batch.future, dtype=torch.bool) if seen is None else seen
        error = (clamp_finished(y, batch)[..., 0] - batch.future).double() * seen
        parts.append(torch.stack([error.square(), error.abs(), seen.double()]).sum((2, 3)))
    return torch.cat(parts, 1).cpu().numpy()
