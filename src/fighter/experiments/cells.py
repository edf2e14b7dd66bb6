"""One Forecaster on one data set: fitted on its first rows, scored on every window of its last."""

import time
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..data import Panel, Split, catalogue, splits, to_panel
from ..data.files import import_pandas, read_table
from ..data.frequency import HOUR
from ..errors import FighterError
from ..evaluation import scored_windows, window_errors
from ..forecaster import Forecaster
from ..models import ForecastNet
from ..training.losses import Objective, forecast_objective
from .changes import CHANGES, LOSSES, diagnose
from .runs import Place


def settings(
    data: str,
    horizon: int,
    options: Mapping[str, Any],
    *,
    lookback: int | None = None,
    path: str | None = None,
    change: str | None = None,
    seed: int = 0,
) -> dict[str, Any]:
    """All that a cell depends on.

    ``options`` are those of the Forecaster, ``path`` is the file of a table that the catalogue
    does not know, ``change`` one of the changes to its network or its loss.
    """
    return {**locals(), "options": dict(options)}


class Changed(Forecaster):
    """A forecaster with a change to its network, or to what it is trained for."""

    change: str | None = None

    def _network(self, panel: Panel) -> ForecastNet:
        change = CHANGES.get(self.change or "", lambda network: network)
        return change(super()._network(panel))

    def _objectives(self, offset: int) -> dict[str, Objective]:
        if self.change is None or self.change not in LOSSES:
            return {}
        plain = forecast_objective(self.loss, (), offset)  # still chooses the epoch
        return {"objective": LOSSES[self.change](offset), "measure": plain}


def perform(settings: Mapping[str, Any], place: Place) -> dict[str, Any]:
    """Fit and score."""
    data, split = read(settings["data"], settings["path"], place.data_dir)
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
    if model.change not in (None, *CHANGES, *LOSSES):
        raise FighterError(
            f"change={model.change!r}: needs one of {', '.join([*CHANGES, *LOSSES])}"
        )
    cuda = torch.device(place.device).type == "cuda"
    if cuda:
        torch.cuda.reset_peak_memory_stats()
    start = time.perf_counter()
    model._fit(data.slice(None, split.test.start))
    seconds = time.perf_counter() - start
    memory = torch.cuda.max_memory_allocated() / 2**20 if cuda else None
    windows, _, offset = scored_windows(model, data, test)
    errors = window_errors(model.network, windows, offset)
    best = min(model.history, key=lambda record: record["validation"])
    # By the piece too, to compare models with: two horizons apart, windows share no target.
    pieces = np.add.reduceat(errors, range(0, len(windows), 2 * model.horizon), axis=1)
    pieces = pieces[:, pieces[2] > 0]
    return {
        "mse": float(errors[0].sum() / errors[2].sum()),
        "mae": float(errors[1].sum() / errors[2].sum()),
        "validation": best["validation"],
        "lookback": model.plan.lookback,
        "windows": len(windows),
        "series": data.n_series,
        "epochs": len(model.history),
        "best_epoch": best["epoch"],
        "parameters": sum(p.numel() for p in model.network.parameters() if p.requires_grad),
        "train_seconds": round(seconds, 1),
        "memory_mib": None if memory is None else round(memory),
        "hops": diagnose(model.network, windows, offset),
        "pieces": {
            name: (part / pieces[2]).round(6).tolist()
            for name, part in zip(("mse", "mae"), pieces, strict=False)
        },
    }


@lru_cache(maxsize=4)
def read(name: str, path: str | None, data_dir: Path | None) -> tuple[Panel, Split]:
    """A data set, and its rows to train on, to choose on and to test on: 70, 10 and 20 %.

    Of the known ones the rows are taken as they stand, one step after the other whatever their
    stamps say, and marks for missing values as numbers, as benchmarks do. ETT has a split of its
    own.
    """
    table = catalogue.load(name, data_dir) if path is None else read_table(Path(path))
    freq = None
    if path is None:
        freq = catalogue.entry(name)[0].freq
        column = table.columns[0]
        table[column] = import_pandas().date_range(
            table[column].iloc[0], periods=len(table), freq=freq
        )
    data = to_panel(table, freq=freq)
    if path is None and catalogue.entry(name)[0].split == "ett":
        split = splits.ett(data.length, HOUR // data.freq.count)
        return data.slice(None, split.test.stop), split
    return data, splits.by_fraction(data.length)
