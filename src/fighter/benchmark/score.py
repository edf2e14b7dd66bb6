"""Score one Forecaster on one data set: fit on its first rows, test on every window of its last."""

import gc
import inspect
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch

from ..data import Panel, Split, Windows
from ..errors import FighterError
from ..forecasting.evaluate import scored_windows, window_errors
from ..forecasting.forecaster import Forecaster
from ..models import ForecastNet, core_options
from .datasets import Dataset, read
from .result import Score
from .runs import Environment

Change = Callable[[ForecastNet], ForecastNet]


class Measured(NamedTuple):
    """A score, and what a study may measure beyond it."""

    score: Score
    network: ForecastNet
    windows: Windows  # the test windows
    start_step: int  # position of their first row in the learned cycle


def settings(
    dataset: Dataset,
    horizon: int,
    options: Mapping[str, Any],
    *,
    lookback: int | None = None,
    seed: int = 0,
) -> dict[str, Any]:
    """Return all that a score depends on; ``options`` are flat settings of the Forecaster."""
    data = {"sha256": dataset.sha256, "known": dataset.known, "columns": dict(dataset.columns)}
    rest = {"horizon": horizon, "lookback": lookback, "options": dict(options), "seed": seed}
    return {**data, **rest}


def perform(settings: Mapping[str, Any], environment: Environment) -> Score:
    """Fit and score; ``settings`` come from :func:`settings`."""
    return measure(settings, *read_data(settings, environment), environment.device).score


def read_data(settings: Mapping[str, Any], environment: Environment) -> tuple[Panel, Split]:
    """Read the data set that the settings name."""
    checksum, columns = settings["sha256"], tuple(settings["columns"].items())
    return read(Dataset("", environment.files[checksum], checksum, settings["known"], columns))


def measure(
    settings: Mapping[str, Any],
    data: Panel,
    split: Split,
    device: str,
    change: Change | None = None,
) -> Measured:
    """Fit on the rows before the test rows and score every test window.

    ``settings`` are those of :func:`settings`; ``change`` alters the network before training.
    """
    validation, test = (part.stop - part.start for part in (split.val, split.test))
    model = forecaster_from(
        horizon=settings["horizon"],
        lookback=settings["lookback"],
        validation=validation,
        seed=settings["seed"],
        device=device,
        verbose=False,
        **settings["options"],
    )
    cuda, before = torch.device(device).type == "cuda", 0
    if cuda:
        gc.collect()  # memory of the previous run, workspaces included
        torch._C._cuda_clearCublasWorkspaces()  # type: ignore[attr-defined]
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    start = time.perf_counter()
    fit(model, data.slice(None, split.test.start), change)
    seconds = time.perf_counter() - start
    memory = round((torch.cuda.max_memory_allocated() - before) / 2**20) if cuda else None
    windows, _, start_step = scored_windows(model, data, test)
    errors = window_errors(model.network, windows, start_step)
    best = min(model.history, key=lambda record: record["validation"])
    # Blocks for a test of significance: of two horizons, so that only neighbours share targets,
    # or of two seasons if they are longer, as errors of one day are alike.
    block = 2 * max(model.horizon, *data.freq.season[:1], 1)
    blocks = np.array_split(errors, max(len(windows) // block, 1), axis=1)
    sums = np.stack([part.sum(1) for part in blocks], 1)
    sums = sums[:, sums[2] > 0]
    score = Score(
        mse=float(errors[0].sum() / errors[2].sum()),
        mae=float(errors[1].sum() / errors[2].sum()),
        validation=best["validation"],
        lookback=model.plan.lookback,
        windows=len(windows),
        series=data.n_series,
        epochs=len(model.history),
        best_epoch=best["epoch"] if model.network.core.trainable else None,
        parameters=sum(p.numel() for p in model.network.parameters() if p.requires_grad),
        train_seconds=round(seconds, 1),
        memory_mib=memory,
        pieces={
            name: (part / sums[2]).round(6).tolist()
            for name, part in zip(("mse", "mae"), sums, strict=False)
        },
    )
    return Measured(score, model.network, windows, start_step)


def fit(model: Forecaster, panel: Panel, change: Change | None = None) -> None:
    """Fit on a panel, with a change to the network before it is trained.

    This is the only function here that uses private methods of the Forecaster.
    """
    build = model._network
    if change is not None:
        model._network = lambda panel: change(build(panel))
    model._fit(panel)


def forecaster_from(**flat: Any) -> Forecaster:
    """Build a Forecaster from flat settings; those that it does not have are its network's."""
    own = inspect.signature(Forecaster).parameters
    network = {name: value for name, value in flat.items() if name not in own}
    if network and (unknown := network.keys() - core_options(flat.get("model", "fighter")).keys()):
        name = min(unknown)
        raise FighterError("there is no such setting", argument=name, value=flat[name])
    return Forecaster(
        **{name: value for name, value in flat.items() if name in own}, options=network or None
    )
