"""Fit a panel: plan, preprocessing, training, shares and calibration, in this order."""

import copy
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from ..data import Panel
from ..data.bounds import describe_bounds
from ..errors import FighterError, warn_user
from ..models import ForecastNet, Pretrained
from ..models.autoregression import MEMORY
from ..models.pretrained import PretrainedNet
from ..training import World
from ..training.progress import fill, say
from .autoconfig import Plan, check_rows, continue_plan, make_plan
from .blend_shares import weigh_halves
from .config import Config
from .fitted import Fitted
from .graph_choice import choose_graph
from .learn import Change, new_network, train_network
from .mixture import mix
from .preprocessing import Preprocessing, groups_of, held_rows
from .training_data import TrainingData
from .tuning import tune


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
    speaks = config.verbose and world.first and learn
    plan = choose_plan(config, panel, start, device, speaks=speaks, learn=learn)
    panel = panel if plan.series_at_once else panel.dense()
    held = held_rows(panel, plan.validation, plan.horizon)
    preprocessing = (
        start.preprocessing
        if start
        else Preprocessing.fit(panel, panel.length - plan.validation, config.frame.bounds, held)
    )
    network = (
        (
            copy.deepcopy(start.network)
            if start
            else new_network(config.seed, plan, preprocessing.scaler, panel, change)
        )
        .to(device)
        .eval()
    )
    if speaks:
        say(describe_plan(plan, network, preprocessing))
    data = TrainingData(panel, preprocessing, device)
    if learn:
        data = TrainingData.cut(plan, panel, preprocessing, held, device)
    judges = data.judges(groups_of(plan.model, panel)) if plan.series_at_once else data
    history = []
    if plan.trained:
        settings = f"{plan} warm_start={start is not None}"
        history = learn_first(
            config, plan, network, data, judges, world, settings=settings, **places
        )
    plan, tuned = fine_tune(config, plan, judges, start and start.tuned, speaks=speaks)
    plan, mixture = mix(plan, network, judges, tuned, learn=learn)
    if plan.learn_all and history and history[0]["validation"] is not None:
        best = min(history, key=lambda record: record["validation"])["epoch"]
        if speaks:
            say(fill(f"again     {best} epochs on all rows, validation rows too"))
        network = learn_again(config, replace(plan, epochs=best), network, data, change, world)
    if plan.series_at_once:
        mixture = mixture.select(judges.preprocessing.places(panel.ids))
    mixture = mixture.with_effects(plan, data)
    # The look-back of every series is kept, also of one that ended long before the others.
    memory = max(plan.lookback, MEMORY if mixture.blend else 0)
    context = panel.slice(max(int(panel.ends.min()) - memory, 0), None)
    return Fitted(
        config, plan, preprocessing, network, mixture.shifts, context, device, history,
        mixture.blend, tuned,
    )  # fmt: skip


def choose_plan(
    config: Config,
    panel: Panel,
    start: Fitted | None,
    device: torch.device,
    *,
    speaks: bool,
    learn: bool,
) -> Plan:
    """Decide what is left open, or continue the plan of a warm start."""
    if start is not None:
        return continue_plan(start.plan, config, panel)
    chosen, tried = choose_graph(config, panel, partial(fit_panel, device=device), learn=learn)
    if tried and speaks:
        parts = [f"{name} {error:.3f}" for name, error in tried.items()]
        say(fill(f"graphs    errors after short trainings: {', '.join(parts)}"))
    plan = replace(make_plan(chosen, panel), graphs=tried)
    return plan if learn else replace(plan, smoothing=False, validation=0)


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


def learn_first(
    config: Config,
    plan: Plan,
    network: ForecastNet,
    data: TrainingData,
    judges: TrainingData,
    world: World,
    **places: Any,
) -> list[dict[str, Any]]:
    """Train the network; validation windows of the judges choose the epoch and weigh its halves.

    Returns one record per epoch.
    """
    training, validation = data.training, judges.validation
    check_rows(judges.panel, plan.lookback, plan.horizon)
    if training is None or validation is None or not len(training):
        raise FighterError("no window has an observed target to train on: give more history")
    if not len(validation) and config.validation is None and plan.model.trainable:
        warn_user(
            f"{data.panel.length} rows are too few for validation rows: nothing chose the epoch, "
            "and how good the forecasts are is unknown."
        )
    history = train_network(config, plan, network, data, training, validation, world, **places)
    if network.halves and len(validation):
        squared = plan.point == "mean"
        weigh_halves(network, validation, data.start_step, squared=squared)
    return history


def learn_again(
    config: Config,
    plan: Plan,
    network: ForecastNet,
    data: TrainingData,
    change: Change | None,
    world: World,
) -> ForecastNet:
    """Train a new network on all windows, validation windows too; return it.

    The epochs of the plan, and the share of its halves, are those that validation chose.
    """
    assert data.windows is not None
    final = new_network(config.seed, plan, data.scaler, data.panel, change).to(data.device)
    if network.halves:
        final.reverting.copy_(network.reverting)
    train_network(config, plan, final, data, data.windows, None, world)
    return final


def fine_tune(
    config: Config, plan: Plan, judges: TrainingData, start: PretrainedNet | None, *, speaks: bool
) -> tuple[Plan, PretrainedNet | None]:
    """Fine-tune the pretrained network if the model asks for it; return its weights, if others.

    The plan tells what it brought. ``start`` are the weights of a warm start.
    """
    training, validation = judges.training, judges.validation
    wanted = isinstance(plan.model, Pretrained) and plan.model.tune
    if not wanted or not training or not validation:
        return plan, start
    seed = int(config.seed)
    made = tune(plan, judges.panel, training, validation, config.training, start=start, seed=seed)
    if speaks:
        say(fill(f"tuning    {made.describe()}"))
    plan = replace(plan, tuned_share=made.share, tuned_gain=made.gain)
    return plan, start if made.network is None else made.network
