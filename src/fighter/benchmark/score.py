"""One Forecaster on one data set: fitted on its first rows, scored on every window of its last."""

import gc
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from paper.studies.changes import CHANGES
from paper.studies.hops import diagnose

from ..data import Panel
from ..data.splits import by_fraction
from ..errors import FighterError
from ..forecasting.evaluate import scored_windows, window_errors
from ..forecasting.forecaster import Forecaster
from ..models import ForecastNet
from .datasets import Dataset, read
from .runs import Environment


def settings(
    source: Dataset,
    horizon: int,
    options: Mapping[str, Any],
    *,
    lookback: int | None = None,
    change: str | None = None,
    seed: int = 0,
    inner: bool = False,
) -> dict[str, Any]:
    """All that a cell depends on.

    ``options`` are those of the Forecaster, ``change`` one of the changes to its network.
    With ``inner`` the rows before the test rows are split as all rows are, and those of the
    test are not looked at: what is searched is searched there.
    """
    data = {"sha256": source.sha256, "known": source.known, "columns": dict(source.columns)}
    rest = {"horizon": horizon, "lookback": lookback, "options": dict(options)}
    return {**data, **rest, "change": change, "seed": seed} | ({"inner": True} if inner else {})


class Changed(Forecaster):
    """A forecaster with a change to its network."""

    change: str | None = None

    def _network(self, panel: Panel) -> ForecastNet:
        change = CHANGES.get(self.change or "", lambda network: network)
        return change(super()._network(panel))


def perform(settings: Mapping[str, Any], place: Environment) -> dict[str, Any]:
    """Fit and score."""
    checksum, columns = settings["sha256"], tuple(settings["columns"].items())
    data, split = read(Dataset("", place.files[checksum], checksum, settings["known"], columns))
    if settings.get("inner"):
        data = data.slice(None, split.test.start)
        split = by_fraction(data.length)
    validation, test = (part.stop - part.start for part in (split.val, split.test))
    model = Changed(
        settings["horizon"],
        settings["lookback"],
        validation=validation,
        seed=settings["seed"],
        device=place.device,
        verbose=False,
        **settings["options"],
    )
    model.change = settings["change"]
    if model.change not in (None, *CHANGES):
        raise FighterError(f"change={model.change!r}: needs one of {', '.join(CHANGES)}")
    cuda, before = torch.device(place.device).type == "cuda", 0
    if cuda:
        gc.collect()  # what is left of the run before, workspaces too
        torch._C._cuda_clearCublasWorkspaces()  # type: ignore[attr-defined]
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    start = time.perf_counter()
    model._fit(data.slice(None, split.test.start))
    seconds = time.perf_counter() - start
    memory = (torch.cuda.max_memory_allocated() - before) / 2**20 if cuda else None
    windows, _, start_step = scored_windows(model, data, test)
    errors = window_errors(model.network, windows, start_step)
    best = min(model.history, key=lambda record: record["validation"])
    # In stretches too, to compare models by: of two horizons, so that only neighbours share
    # targets, or of two seasons, as errors an hour apart are alike.
    stretch = 2 * max(model.horizon, *data.freq.season[:1], 1)
    count = max(len(windows) // stretch, 1)
    pieces = np.stack([part.sum(1) for part in np.array_split(errors, count, axis=1)], 1)
    pieces = pieces[:, pieces[2] > 0]
    return {
        "mse": float(errors[0].sum() / errors[2].sum()),
        "mae": float(errors[1].sum() / errors[2].sum()),
        "validation": best["validation"],
        "lookback": model.plan.lookback,
        "windows": len(windows),
        "series": data.n_series,
        "epochs": len(model.history),
        "best_epoch": best["epoch"] if model.network.core.trainable else None,
        "parameters": sum(p.numel() for p in model.network.parameters() if p.requires_grad),
        "train_seconds": round(seconds, 1),
        "memory_mib": None if memory is None else round(memory),
        "hops": diagnose(model.network, windows, start_step),
        "pieces": {
            name: (part / pieces[2]).round(6).tolist()
            for name, part in zip(("mse", "mae"), pieces, strict=False)
        },
    }
