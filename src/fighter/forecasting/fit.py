"""Fit a panel: plan, preprocessing, training, shares and calibration, in this order."""

import copy
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch

from ..data import Panel, SampledWindows, Scaler, Windows
from ..data.bounds import describe_bounds
from ..data.groups import some_series
from ..errors import FighterError, warn_user
from ..models import ForecastNet, Pretrained, Task
from ..models.autoregression import MEMORY
from ..models.embedding import lag_correlation
from ..training import Recipe, World, train
from ..training.parallel import one_thread, own_random_state
from ..training.progress import fill, say
from .alone import no_prior, panel_prior
from .autoconfig import STEPS, Plan, check_rows, choose_repeats, continue_plan, make_plan
from .blend import Rehearsal, make_blend, try_zero_shot, weigh_counts, weigh_halves, with_mean
from .config import Config
from .counts import are_counts
from .covariates import fit_panel_effects
from .fitted import Fitted
from .graph_choice import choose_graph
from .intervals import conformal_shifts
from .preprocessing import (
    Preprocessing,
    count_known_ahead,
    groups_of,
    held_rows,
    numbered_columns,
    split_windows,
    with_targets,
)
from .tuning import tune

Change = Callable[[ForecastNet], ForecastNet]

CORRELATED = 4096  # series whose lag correlations are measured, if the grid is mostly empty
JUDGES = 512  # series that choose and calibrate, if there are many


def fit_panel(
    config: Config,
    panel: Panel,
    *,
    device: torch.device,
    start: Fitted | None = None,
    change: Change | None = None,
    world: World = World(),  # noqa: B008
    learn: bool = True,
    **places: Any,
) -> Fitted:
    """Train on a panel; or, if ``learn`` is False, only prepare what the pretrained network needs.

    Weights are new, or those of ``start``; ``change`` alters the network before it is trained, for
    studies; ``world`` are the processes that train together; ``places`` are the ``folder`` of
    metrics and checkpoints and the options about it, see :func:`~fighter.training.train`.
    """
    if start is None:
        chosen, tried = choose_graph(config, panel, partial(fit_panel, device=device), learn=learn)
        plan = replace(make_plan(chosen, panel), graphs=tried)
        if tried and config.verbose and world.first:
            parts = [f"{name} {error:.3f}" for name, error in tried.items()]
            say(fill(f"graphs    errors after short trainings: {', '.join(parts)}"))
    else:
        plan = continue_plan(start.plan, config, panel)
    if not learn:
        plan = replace(plan, smoothing=False, validation=0)
    if not plan.series_at_once:
        panel = panel.dense()
    rows = panel.length - plan.validation
    held = held_rows(panel, plan.validation, plan.horizon)
    preprocessing = (
        start.preprocessing if start else Preprocessing.fit(panel, rows, config.frame.bounds, held)
    )
    start_step = preprocessing.start_step(panel)
    network = _new_network(config.seed, plan, preprocessing.scaler, panel, change).to(device)
    if start is not None:
        network = copy.deepcopy(start.network).to(device)
    if config.verbose and world.first and learn:
        say(describe_plan(plan, network, preprocessing))
    windows = training = validation = None
    if panel.length >= plan.lookback + plan.horizon and learn:
        windows = preprocessing.windows(panel, plan, device, preprocessing.scaler)
        training, validation = split_windows(windows, panel, rows, held)
        windows = with_targets(windows)
    whole, every_window, every_training, judged = panel, windows, training, preprocessing
    if plan.series_at_once:  # only some series choose the epoch and the shares, and calibrate
        some = some_series(panel.n_series, JUDGES, groups_of(plan.model, panel))
        panel, judged = panel.take(some).dense(), preprocessing.take(some)
        windows, training, validation = (
            each and each.select(torch.from_numpy(some).to(device))
            for each in (windows, training, validation)
        )
    history = []
    if plan.trained:
        check_rows(panel, plan.lookback, plan.horizon)
        if every_training is None or validation is None or not len(every_training):
            raise FighterError("no window has an observed target to train on: give more history")
        if not len(validation) and config.validation is None and plan.model.trainable:
            warn_user(
                f"{panel.length} rows are too few for validation rows: nothing chose the epoch, "
                "and how good the forecasts are is unknown."
            )
        settings = f"{plan} warm_start={start is not None}"
        history = _learn(
            config, plan, whole, start_step, world, network, every_training, validation,
            settings=settings, **places,
        )  # fmt: skip
    network.eval()
    if plan.trained and network.halves and validation is not None and len(validation):
        squared = plan.point == "mean"
        weigh_halves(network, validation, start_step, squared=squared)
    blend = rehearsal = effect_share = mean_prior = None
    told: Mapping[str, float] = {}
    counted = are_counts(panel)
    tuned = start and start.tuned
    tunes = isinstance(plan.model, Pretrained) and plan.model.tune
    if tunes and training and validation:
        made = tune(
            plan, panel, training, validation, config.training, start=tuned, seed=int(config.seed)
        )
        tuned = tuned if made.network is None else made.network
        plan = replace(plan, tuned_share=made.share, tuned_gain=made.gain)
        if config.verbose and world.first:
            say(fill(f"tuning    {made.describe()}"))
    if plan.mixes:
        prior = panel_prior(plan, panel) if plan.smoothing else no_prior(plan)
        if plan.smoothing and (plan.point == "mean" or (plan.quantiles and counted.any())):
            mean_prior = panel_prior(plan, panel, squared=True)
        if windows is not None and validation is not None and len(windows):
            rehearsal = Rehearsal.make(
                plan, panel, windows, validation, prior, judged.scaler.scale, start_step,
                mean_prior, tuned,
            )  # fmt: skip
            effect_share, told = rehearsal.effect_share, rehearsal.covariates
        elif not learn:
            effect_share, told = try_zero_shot(plan, panel, prior, device, judged, start_step)
        plan = replace(plan, covariates=told)
        plan, blend = make_blend(
            plan, network, judged.scaler, training, rehearsal, prior, start_step, mean_prior
        )
    shifts = None
    if plan.quantiles and learn:
        shifts = conformal_shifts(plan, judged, network, blend, rehearsal, validation, start_step)
        if blend and rehearsal and mean_prior is not None and shifts is not None and counted.any():
            plan, blend, shifts = weigh_counts(
                plan, blend, shifts, network, judged.scaler, rehearsal, start_step, counted,
                mean_prior,
            )  # fmt: skip
    chosen = bool(history) and history[0]["validation"] is not None  # the number of epochs
    if plan.learn_all and every_window is not None and chosen:
        best = min(history, key=lambda record: record["validation"])["epoch"]
        final = _new_network(config.seed, plan, preprocessing.scaler, whole, change).to(device)
        if network.halves:
            final.reverting.copy_(network.reverting)
        if config.verbose and world.first:
            say(fill(f"again     {best} epochs on all rows, validation rows too"))
        again = replace(plan, epochs=best)
        _learn(config, again, whole, start_step, world, final, every_window, None, settings="")
        network = final
    # The look-back of every series is kept, also of one that ended long before the others.
    memory = max(plan.lookback, MEMORY if blend else 0)
    context = whole.slice(max(int(whole.ends.min()) - memory, 0), None)
    if plan.series_at_once:
        among = judged.places(whole.ids)
        blend = blend and blend.select(among)
        shifts = None if shifts is None else with_mean(shifts)[among]
        effect_share = None if effect_share is None else with_mean(effect_share)[among]
    if blend is not None and effect_share is not None:
        scale = preprocessing.scaler.scale
        effects = fit_panel_effects(plan.seasons, whole, scale, start_step).scaled(effect_share)
        blend = replace(blend, effects=effects if effects.any() else None)
    return Fitted(
        config, plan, preprocessing, network, shifts, context, device, history, blend, tuned
    )


def _learn(
    config: Config,
    plan: Plan,
    panel: Panel,
    start_step: int,
    world: World,
    network: ForecastNet,
    training: Windows,
    validation: Windows | None,
    **places: Any,
) -> list[dict[str, Any]]:
    """Train a network on windows as a plan says and return one record per epoch."""
    if plan.series_at_once:
        count = STEPS * plan.batch_size
        data = SampledWindows.of(training, plan.series_at_once, count, int(config.seed))
    else:
        repeats = choose_repeats(-(-len(training) // plan.batch_size))
        data = replace(training, starts=training.starts.repeat(repeats))
    with one_thread() if _is_small(plan, panel) else nullcontext():
        return train(
            network,
            data,
            validation if validation is not None and len(validation) else None,
            _recipe(config, plan),
            start_step=start_step,
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


def describe_plan(plan: Plan, network: ForecastNet, preprocessing: Preprocessing) -> str:
    """Say in a few lines what was decided, for people who may want to stop it."""
    size = sum(parameter.numel() for parameter in network.parameters())
    lines = [
        f"plan      lookback {plan.lookback}, horizon {plan.horizon}, "
        f"cycle {plan.cycle or 'none'}, the last {plan.validation:,} rows for validation",
        f"network   {plan.model.describe()}; {size:,} parameters"
        if plan.trained
        else f"network   {_instead(plan)}",
    ]
    if bounds := describe_bounds(preprocessing.scaler, preprocessing.ids):
        lines.append(f"bounds    {bounds}")
    return "\n".join(map(fill, lines))


def _instead(plan: Plan) -> str:
    """Say who forecasts where no network is trained."""
    if isinstance(plan.model, Pretrained):
        return "the pretrained one" + " and exponential smoothing" * plan.smoothing
    return "none: too few rows; exponential smoothing and autoregressions forecast"


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


def _new_network(
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
