"""Fitting a panel, and the immutable result that forecasts are made with."""

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..data import Batch, Panel, Scaler, Windows, future_values, to_panel
from ..data.bounds import clamp_to_bounds, to_table_units
from ..errors import FighterError, warn_user
from ..models import ForecastNet, Task
from ..models.embedding import lag_correlation
from ..training import Recipe, World, forecast, train
from ..training.calibration import adjust, calibrate
from ..training.parallel import one_thread, own_random_state
from .autoconfig import Plan, check_rows, continue_plan, make_plan
from .config import Config
from .forecast import Forecast
from .preprocessing import Preprocessing, borrow_static, with_targets

Change = Callable[[ForecastNet], ForecastNet]


@dataclass(frozen=True, eq=False)
class Fitted:
    """A trained model and all that forecasts need; nothing in it changes after ``fit``.

    The network stays in eval mode, so that several threads may forecast at the same time.

    Args:
        config: the settings it was fitted with.
        plan: what was decided from the data.
        preprocessing: scales and layout of the training table.
        network: the trained network.
        conformal_shifts: corrections of the quantiles ``[N, Q]``; None without validation rows.
        context: the end of the training table, at least one look-back of each series.
        device: where the network is.
        history: one record per epoch.
    """

    config: Config
    plan: Plan
    preprocessing: Preprocessing
    network: ForecastNet
    conformal_shifts: Tensor | None
    context: Panel
    device: torch.device
    history: list[dict[str, Any]]

    def __post_init__(self) -> None:
        self.network.eval()

    # ---- tables to panels -----------------------------------------------------------------

    def read(self, df: Any, static: Any = None, alternative: str | None = None) -> Panel:
        """Read a later table as the training table was read.

        ``alternative`` is what to suggest if its series differ from those trained on.
        """
        trained = self.context
        if static is not None and not trained.static.shape[1]:
            raise FighterError(
                "the model was fitted without static covariates: leave them out", argument="static"
            )
        panel = read_panel(self.config, df, static, self.preprocessing)
        if static is None and trained.static.shape[1]:
            panel = borrow_static(panel, trained)
        return self.preprocessing.align(panel, alternative or self.alternative)

    @property
    def alternative(self) -> str:
        """Settings under which the model would serve other series; empty if it does."""
        core = self.network.core
        return " and ".join(
            [core.alternative] * core.series_specific
            + ["a frame without a cycle"] * (self.network.cycle is not None)
        )

    # ---- forecasts ------------------------------------------------------------------------

    def forecast(self, panel: Panel | None = None, future: Any = None) -> Forecast:
        """Forecast the steps after the end of each series; ``future`` holds future covariates."""
        panel = self.context if panel is None else panel
        steps, series = self.plan.horizon, panel.n_series
        times = np.zeros((steps, series), np.int64)
        y = np.zeros((steps, series, 1 + len(self.plan.quantiles)))
        for until, known, ending in group_by_end(self.config, panel, future):
            times[:, ending] = panel.freq.future(int(until.times[-1]), steps)[:, None]
            y[:, ending] = self._outputs_after(until, known)[:, ending]
        return self._to_forecast(panel, times, y)

    def forecast_known(self, panel: Panel, known: np.ndarray) -> Forecast:
        """Forecast the steps after the last row; ``known`` holds their covariates ``[H, N, F]``."""
        times = panel.freq.future(int(panel.times[-1]), self.plan.horizon)
        times = np.repeat(times[:, None], panel.n_series, 1)
        return self._to_forecast(panel, times, self._outputs_after(panel, known))

    def finish(self, y: Tensor, batch: Batch, ids: tuple, scaler: Scaler) -> np.ndarray:
        """Calibrate and sort the quantiles and convert to the units of the table.

        ``y`` is ``[batch, H, N, outputs]``, as the network gives it.
        """
        if self.plan.quantiles:
            y = clamp_to_bounds(adjust(y, self.shifts_of(ids)), batch)
        return to_table_units(y, batch, scaler)

    def scored_windows(self, panel: Panel, last: int | None = None) -> tuple[Windows, Scaler, int]:
        """Return the windows whose targets lie in the last rows, their scale and start step."""
        plan, preprocessing = self.plan, self.preprocessing
        check_rows(panel, plan.lookback, plan.horizon)
        rows = slice(None if last is None else max(panel.length - last, 0), None)
        scaler = preprocessing.scaler_of(panel)
        windows = preprocessing.windows(panel, plan, self.device, scaler, rows)
        return windows, scaler, preprocessing.start_step(panel)

    def _outputs_after(self, panel: Panel, known: np.ndarray) -> np.ndarray:
        """Return the outputs for the steps after a panel, ``[H, N, 1 + quantiles]``."""
        whole, scaler, windows = self.preprocessing.window_after(
            panel, self.plan, known, self.device
        )
        ((batch, y),) = forecast(self.network, windows, self.preprocessing.start_step(whole))
        return self.finish(y, batch, panel.ids, scaler)[0]

    def _to_forecast(self, panel: Panel, times: np.ndarray, y: np.ndarray) -> Forecast:
        return Forecast(
            name=self.plan.model.column,
            ids=panel.ids,
            times=times,
            point=y[..., 0],
            quantiles=y[..., 1:],
            quantile_levels=self.plan.quantiles,
            interval_levels=self.config.interval_levels,
            axis=panel.axis,
            id_col=self.config.id_col,
            like=panel.like,
        )

    def shifts_of(self, ids: tuple) -> Tensor:
        """Return the conformal shifts of the series; new series get the mean of all."""
        if self.conformal_shifts is None:
            return torch.zeros(len(ids), len(self.plan.quantiles))
        position = {name: i for i, name in enumerate(self.preprocessing.ids)}
        mean = self.conformal_shifts.mean(0)
        rows = [self.conformal_shifts[position[i]] if i in position else mean for i in ids]
        return torch.stack(rows)


def fit_panel(
    config: Config,
    panel: Panel,
    *,
    device: torch.device,
    start: Fitted | None = None,
    change: Change | None = None,
    folder: Path | None = None,
    tensorboard: bool = False,
) -> Fitted:
    """Train on a panel.

    Weights are new, or those of ``start``; ``change`` alters the network before it is trained, for
    studies; metrics and checkpoints go to ``folder``.
    """
    plan = make_plan(config, panel) if start is None else continue_plan(start.plan, config, panel)
    rows = panel.length - plan.validation
    preprocessing = (
        start.preprocessing if start else Preprocessing.fit(panel, rows, config.frame.bounds)
    )
    check_rows(panel, plan.lookback, plan.horizon)
    start_step = preprocessing.start_step(panel)
    windows = with_targets(preprocessing.windows(panel, plan, device, preprocessing.scaler))
    training, validation = windows.within(slice(0, rows)), windows.within(slice(rows, None))
    if not len(training):
        raise FighterError("no window has an observed target to train on: give more history")
    if start is None:
        network = _new_network(config.seed, plan, preprocessing.scaler, panel, change).to(device)
    else:
        network = copy.deepcopy(start.network)
    history = train(
        network,
        training,
        validation if len(validation) else None,
        _recipe(config, plan),
        start_step=start_step,
        world=World.join(device),
        verbose=config.verbose,
        settings=f"{plan} warm_start={start is not None}",
        folder=folder,
        tensorboard=tensorboard,
    )
    shifts = None
    if plan.quantiles and len(validation):
        shifts = calibrate(network, validation, plan.quantiles, start_step)
    # The look-back of every series is kept, also of one that ended long before the others.
    context = panel.slice(max(int(panel.ends.min()) - plan.lookback, 0), None)
    return Fitted(config, plan, preprocessing, network, shifts, context, device, history)


def group_by_end(
    config: Config, panel: Panel, future: Any, wanted: np.ndarray | None = None
) -> Iterator[tuple[Panel, np.ndarray, np.ndarray]]:
    """Group the series of a panel by where they end.

    Yields the panel up to that end, the future covariates after it ``[H, N, F]``, and which series
    end there (bool ``[N]``). ``wanted`` says which series are forecast (default: all).
    """
    for end in np.unique(panel.ends if wanted is None else panel.ends[wanted]):
        until, ending = panel.slice(None, int(end)), panel.ends == end
        needed = ending if wanted is None else ending & wanted
        known = future_values(until, future, config.horizon, id_col=config.id_col, needed=needed)
        yield until, known, ending


def check_future(config: Config, panel: Panel, future: Any) -> None:
    """Refuse future covariates that lack a value, before any training."""
    for _ in group_by_end(config, panel, future):
        pass


def read_panel(
    config: Config, df: Any, static: Any = None, trained: Preprocessing | None = None
) -> Panel:
    """Read a table as the settings say, and warn about what was noticed in it.

    ``trained`` gives the layout of the training table; a panel is returned as it is.
    """
    if isinstance(df, Panel):
        return df
    panel = to_panel(
        df,
        id_col=config.id_col,
        time_col=config.time_col,
        target_col=config.target_col,
        freq=config.freq,
        past=tuple(config.past),
        future=tuple(config.future),
        static=static,
        missing_values=config.missing_values,
        scheme=None if trained is None else trained.scheme,
    )
    if panel.data_notes:
        warn_user("in the data: " + " ".join(map(str, panel.data_notes)))
    return panel


def build_network(plan: Plan, panel: Panel) -> ForecastNet:
    """Build the network of a plan, with new weights."""
    fitting = [s for s in (plan.cycle, *panel.freq.season) if s and s <= plan.lookback]
    task = Task(
        plan.lookback,
        plan.horizon,
        panel.n_series,
        outputs=1 + len(plan.quantiles),
        context=len(plan.calendar),
        period=fitting[0] if fitting else None,
    )
    return ForecastNet(
        plan.model.build(task),
        period=plan.cycle,
        cycle_before_norm=plan.cycle_before_norm,
        reversion=plan.reversion,
        covariates=(panel.past.shape[2], panel.future.shape[2] + panel.static.shape[1]),
    )


def _new_network(
    seed: int, plan: Plan, scaler: Scaler, panel: Panel, change: Change | None
) -> ForecastNet:
    """Draw the weights and prepare the core with the lag correlations of the training rows."""
    with own_random_state():
        torch.manual_seed(seed)
        network = build_network(plan, panel)
        network = network if change is None else change(network)
    rows = slice(panel.length - plan.validation)
    values = torch.tensor(scaler.transform(panel.values[rows]))
    lags = max(plan.lookback, plan.horizon)
    correlation = lag_correlation(values, torch.tensor(panel.observed[rows]), lags)
    with one_thread():  # eigenvectors must not depend on the number of threads
        network.core.prepare(correlation.round(decimals=9))  # nor on rounding
    return network


def _recipe(config: Config, plan: Plan) -> Recipe:
    training = config.training
    return Recipe(
        epochs=plan.epochs,
        batch_size=plan.batch_size,
        lr=plan.lr,
        weight_decay=training.weight_decay,
        ema=training.ema,
        patience=plan.patience,
        loss=training.loss,
        discount=plan.discount,
        quantiles=plan.quantiles,
        compile=training.compile,
        time_budget=training.time_budget,
        seed=int(config.seed),
    )
