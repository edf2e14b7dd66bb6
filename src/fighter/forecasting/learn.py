"""The network of a plan: built with new weights, prepared and trained."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from ..data import Panel, SampledWindows, Scaler, Windows
from ..models import ForecastNet, Task
from ..models.embedding import lag_correlation
from ..training import Recipe, World, train
from ..training.parallel import one_thread, own_random_state
from .autoconfig import STEPS, Plan, choose_repeats
from .config import Config
from .preprocessing import count_known_ahead, numbered_columns
from .training_data import TrainingData

CORRELATED = 4096  # series whose lag correlations are measured, if the grid is mostly empty

Change = Callable[[ForecastNet], ForecastNet]


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
        covariates=(panel.past.shape[2], count_known_ahead(panel)),
        categories=numbered_columns(panel),
        halves=plan.halves,
    )


def new_network(
    seed: int, plan: Plan, scaler: Scaler, panel: Panel, change: Change | None
) -> ForecastNet:
    """Draw the weights and prepare the core with the lag correlations of the training rows."""
    with own_random_state():
        torch.manual_seed(seed)
        network = build_network(plan, panel)
        network = network if change is None else change(network)
    if not plan.trained:
        return network
    rows = slice(panel.length - plan.validation)
    if panel.ragged:
        some = np.unique(np.linspace(0, panel.n_series - 1, CORRELATED).astype(int))
        panel, scaler = panel.take(some).dense(), scaler.select(some)
    values = torch.tensor(scaler.transform(panel.values[rows]))
    lags = max(plan.lookback, plan.horizon)
    correlation = lag_correlation(values, torch.tensor(panel.observed[rows]), lags)
    with one_thread():  # eigenvectors must not depend on the number of threads
        network.core.prepare(correlation.round(decimals=9))  # nor on rounding
    return network


def train_network(
    config: Config,
    plan: Plan,
    network: ForecastNet,
    data: TrainingData,
    training: Windows,
    validation: Windows | None,
    world: World,
    **places: Any,
) -> list[dict[str, Any]]:
    """Train a network on windows of the data as a plan says; return one record per epoch.

    ``places`` are those of :func:`~fighter.forecasting.fit.fit_panel`.
    """
    if plan.series_at_once:
        count = STEPS * plan.batch_size
        examples = SampledWindows.of(training, plan.series_at_once, count, int(config.seed))
    else:
        repeats = choose_repeats(-(-len(training) // plan.batch_size))
        examples = replace(training, starts=training.starts.repeat(repeats))
    with one_thread() if _is_small(plan, data.panel) else nullcontext():
        return train(
            network,
            examples,
            validation if validation is not None and len(validation) else None,
            _recipe(config, plan),
            start_step=data.start_step,
            world=world,
            verbose=config.verbose and plan.model.trainable,
            **places,
        )


def _is_small(plan: Plan, panel: Panel) -> bool:
    """Tell whether a training step is too short to share among threads, which wait for each other.

    On a busy machine, a step of some milliseconds takes many times as long on two threads.
    """
    width = getattr(plan.model, "width", 1) or 1
    width *= getattr(plan.model, "members", 1) or 1
    series = plan.series_at_once or panel.n_series
    return plan.batch_size * series * width < 2**16


def _recipe(config: Config, plan: Plan) -> Recipe:
    training = config.training
    return Recipe(
        epochs=plan.epochs,
        batch_size=plan.batch_size,
        lr=plan.lr,
        weight_decay=training.weight_decay,
        ema=training.ema,
        patience=plan.patience,
        loss="mse" if plan.point == "mean" else training.loss,
        discount=plan.discount,
        quantiles=plan.quantiles,
        compile=training.compile,
        time_budget=training.time_budget,
        seed=int(config.seed),
    )
