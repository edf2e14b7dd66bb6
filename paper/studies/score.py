"""Score a Forecaster whose network is changed, or without the test rows; diagnose its hops."""

from collections.abc import Mapping
from typing import Any

from fighter.benchmark import score
from fighter.benchmark.datasets import Dataset
from fighter.benchmark.result import Score
from fighter.benchmark.runs import Environment
from fighter.data.splits import by_fraction
from fighter.errors import FighterError

from .changes import CHANGES
from .hops import diagnose

KIND = __name__


def settings(
    dataset: Dataset,
    horizon: int,
    options: Mapping[str, Any],
    *,
    lookback: int | None = None,
    change: str | None = None,
    seed: int = 0,
    inner: bool = False,
) -> dict[str, Any]:
    """Return all that a run depends on.

    Args:
        dataset: the data set.
        horizon: steps to forecast.
        options: flat settings of the Forecaster.
        lookback: steps that the model sees (default: chosen by the Forecaster).
        change: one of ``CHANGES`` (default: no change).
        seed: seed of the weights and the batches (default: 0).
        inner: split the rows before the test rows once more, and never look at the test rows.
    """
    common = score.settings(dataset, horizon, options, lookback=lookback, seed=seed)
    return {**common, "change": change} | ({"inner": True} if inner else {})


def perform(settings: Mapping[str, Any], environment: Environment) -> Score:
    """Fit and score; the result also holds diagnostics of the hops."""
    name = settings["change"]
    if name not in (None, *CHANGES):
        raise FighterError(f"needs one of {', '.join(CHANGES)}", argument="change", value=name)
    data, split = score.read_data(settings, environment)
    if settings.get("inner"):
        data = data.slice(None, split.test.start)
        split = by_fraction(data.length)
    change = None if name is None else CHANGES[name]
    # Studies are of the network; the setting is no part of a run's key, which is older than it.
    settings = {**settings, "options": {"smoothing": False, **settings["options"]}}
    measured = score.measure(settings, data, split, environment.device, change)
    return {
        **measured.score,
        "hops": diagnose(measured.network, measured.windows, measured.start_step),
    }
