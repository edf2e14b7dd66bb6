"""Score one Forecaster on one data set: fit on its first rows, test on every window of its last."""

import gc
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch

from ..data import Panel, Split, Windows
from ..estimator import resolve_device
from ..forecasting.config import Config
from ..forecasting.evaluate import window_errors
from ..forecasting.fit import fit_panel
from ..forecasting.learn import Change
from ..models import ForecastNet
from .datasets import Dataset, read
from .result import Score
from .runs import Environment

Settings = Mapping[str, Any]


class Measured(NamedTuple):
    """A score, and what a study may measure beyond it."""

    score: Score
    network: ForecastNet
    windows: Windows  # the test windows
    start_step: int  # position of their first row in the learned cycle


def settings(
    dataset: Dataset, horizon: int, options: Settings, *, lookback: int | None = None, seed: int = 0
) -> dict[str, Any]:
    """Return all that a score depends on; ``options`` are flat settings of the Forecaster."""
    data = {"sha256": dataset.sha256, "known": dataset.known, "columns": dict(dataset.columns)}
    rest = {"horizon": horizon, "lookback": lookback, "options": dict(options), "seed": seed}
    return {**data, **rest}


def perform(settings: Settings, environment: Environment) -> Score:
    """Fit and score; ``settings`` come from :func:`settings`."""
    return measure(settings, *read_data(settings, environment), environment.device).score


def read_data(settings: Settings, environment: Environment) -> tuple[Panel, Split]:
    """Read the data set that the settings name."""
    checksum, columns = settings["sha256"], tuple(settings["columns"].items())
    return read(Dataset("", environment.files[checksum], checksum, settings["known"], columns))


def measure(
    settings: Settings, data: Panel, split: Split, device: str, change: Change | None = None
) -> Measured:
    """Fit on the rows before the test rows and score every test window.

    ``settings`` are those of :func:`settings`; ``change`` alters the network before training.
    """
    validation, test = (part.stop - part.start for part in (split.val, split.test))
    chosen = {name: settings[name] for name in ("horizon", "lookback", "seed")}
    chosen |= {"validation": validation, "device": device, "verbose": False}
    config = Config.from_flat(**chosen, **settings["options"])
    cuda, before = torch.device(device).type == "cuda", 0
    if cuda:
        gc.collect()  # memory of the previous run, workspaces included
        torch._C._cuda_clearCublasWorkspaces()  # type: ignore[attr-defined]
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    start = time.perf_counter()
    where = resolve_device(device)
    fitted = fit_panel(config, data.slice(None, split.test.start), device=where, change=change)
    seconds = time.perf_counter() - start
    memory = round((torch.cuda.max_memory_allocated() - before) / 2**20) if cuda else None
    windows, scaler, start_step = fitted.scored_windows(data, test)
    errors = window_errors(fitted.outputs(windows, fitted.served(data), scaler, start_step))
    best = min(fitted.history, key=lambda record: record["validation"])
    # Blocks for a test of significance: of two horizons, so that only neighbours share targets,
    # or of two seasons if they are longer, as errors of one day are alike.
    block = 2 * max(config.horizon, *data.freq.season[:1], 1)
    blocks = np.array_split(errors, max(len(windows) // block, 1), axis=1)
    sums = np.stack([part.sum(1) for part in blocks], 1)
    mse, mae, count = sums[:, sums[2] > 0]
    score = Score(
        mse=float(errors[0].sum() / errors[2].sum()),
        mae=float(errors[1].sum() / errors[2].sum()),
        validation=best["validation"],
        lookback=fitted.plan.lookback,
        windows=len(windows),
        series=data.n_series,
        epochs=len(fitted.history),
        best_epoch=best["epoch"] if fitted.network.core.trainable else None,
        parameters=sum(p.numel() for p in fitted.network.parameters() if p.requires_grad),
        train_seconds=round(seconds, 1),
        memory_mib=memory,
        pieces={"mse": (mse / count).round(6).tolist(), "mae": (mae / count).round(6).tolist()},
    )
    return Measured(score, fitted.network, windows, start_step)
