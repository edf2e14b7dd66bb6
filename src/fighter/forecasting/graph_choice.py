"""The choice of the graph between series: short trainings, compared on validation rows."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from ..data import Panel
from ..data.groups import some_series
from ..models import Fighter
from .autoconfig import MANY_SERIES, make_plan
from .config import Config
from .fitted import Fitted
from .preprocessing import groups_of

TRIAL = 0.2  # of the epochs of a training
MOST_SERIES = 1000  # that take part
MARGIN = 0.01  # share by which the error must fall


def choose_graph(
    config: Config, panel: Panel, fit: Callable[[Config, Panel], Fitted], *, learn: bool = True
) -> tuple[Config, Mapping[str, float]]:
    """Choose the graph if the settings leave it open (``adjacency="auto"``).

    Every graph is trained for a fifth of the epochs on some of the series, without smoothing, and
    judged by the forecasts of all validation windows. Series by themselves are the first choice;
    another graph must lower the error by 1 %.

    Returns:
        The settings with the graph, and the errors in those of the first choice (empty if nothing
        was tried out, or if the rows are too few to choose by).
    """
    model = config.model_config
    if not isinstance(model, Fighter) or model.adjacency != "auto":
        return config, {}
    graphs = {"none": {"adjacency": "none", "groups": None}}
    if panel.n_series <= MANY_SERIES:
        graphs["lazy"] = {"adjacency": "lazy", "groups": None}
    if model.groups is not None:
        graphs["groups"] = {"adjacency": "cosine"}
    graphs["cosine"] = {"adjacency": "cosine", "groups": None}
    models = {name: replace(model, **settings) for name, settings in graphs.items()}
    alone = replace(config, model=models["none"])
    plan = make_plan(alone, panel)
    if not (learn and plan.trained and plan.validation) or panel.n_series < 2:
        return alone, {}
    some = some_series(panel.n_series, MOST_SERIES, groups_of(model, panel))
    sample = panel if len(some) == panel.n_series else panel.take(some)
    epochs, budget = max(round(TRIAL * plan.epochs), 1), config.training.time_budget
    trial = replace(
        config,
        level=None,
        quantiles=None,
        lookback=plan.lookback,
        validation=plan.validation,
        frame=replace(config.frame, smoothing=False, pretrained=False),
        training=replace(
            config.training,
            max_epochs=epochs,
            patience=epochs,
            time_budget=None if budget is None else TRIAL * budget,
        ),
        verbose=False,
    )
    errors = {
        name: min(
            record["validation"] for record in fit(replace(trial, model=each), sample).history
        )
        for name, each in models.items()
    }
    best = min(errors, key=errors.__getitem__)
    if errors[best] > (1 - MARGIN) * errors["none"]:
        best = "none"
    relative = {name: error / errors["none"] for name, error in errors.items()}
    return replace(config, model=models[best]), relative
