"""Train one model on one data set and score every test window, in two units."""

import time
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fighter.benchmark.runs import Environment
from fighter.data import Scaler
from fighter.data.datasets import catalogue
from fighter.data.files import read_table
from fighter.data.splits import Split, by_fraction
from fighter.data.windows import Windows
from fighter.errors import FighterError
from fighter.models import ForecastNet, Task, build_core
from fighter.models.embedding import lag_correlation
from fighter.training import Recipe, forecast, train

LOOKBACK = 96
FRACTIONS = (0.7, 0.15, 0.15)  # as in the paper; most others use 70/10/20
LARGEST = 100  # series that are kept of a data set


def settings(
    data: str,
    horizon: int,
    model: str,
    options: Mapping[str, Any],
    *,
    seed: int,
    epochs: int,
    patience: int,
    normalise: bool = False,
    lr: float,
    units: str = "standard",
    clean: bool = False,
    rows: int | None = None,
    path: str | None = None,
) -> dict[str, Any]:
    """Return everything that the result of a run depends on.

    Args:
        data: name of the data set.
        horizon: steps to forecast.
        model: name of the model's core.
        options: options of the core.
        seed: seed of the weights and batches.
        epochs: largest number of epochs.
        patience: epochs without a better validation error after which training stops.
        normalise: normalise each window as well (default: False).
        lr: learning rate.
        units: units that the network is trained in, "standard" or "minmax" (default: "standard").
        clean: interpolate marks of missing values (default: False).
        rows: use only this many first rows (default: all).
        path: the data set's file (default: where the catalogue finds it).
    """
    return {**locals(), "options": dict(options)}


def perform(settings: Mapping[str, Any], environment: Environment) -> dict[str, Any]:
    """Train and score."""
    device, horizon = torch.device(environment.device), settings["horizon"]
    values, period = read_values(
        settings["data"], settings["path"], environment.data_dir, settings["clean"]
    )
    values = values[: settings["rows"]]
    split = by_fraction(len(values), FRACTIONS)
    scalers = {kind: Scaler.fit(values[split.train], kind=kind) for kind in ("standard", "minmax")}
    scaler = scalers[settings["units"]]
    # A naive forecast may look back over its whole period, even if that exceeds the look-back.
    lookback = max(LOOKBACK, period) if settings["model"] == "naive" else LOOKBACK
    windows = cut_windows(scaler.transform(values), split, lookback, horizon, device)
    network = build_network(settings, lookback, values.shape[1], period).to(device)
    parameters = sum(p.numel() for p in network.parameters() if p.requires_grad)
    start, history = time.perf_counter(), []
    if parameters:
        rows = torch.as_tensor(scaler.transform(values[split.train]), dtype=torch.float32)
        network.core.prepare(lag_correlation(rows, None, max(lookback, horizon)).to(device))
        history = train(network, windows["train"], windows["validation"], recipe(settings))
    seconds = time.perf_counter() - start
    errors = per_series_errors(network, windows["test"])
    best = min(history, key=lambda record: record["validation"], default={})
    return {
        **{
            f"{unit}_{metric}": float(np.mean(error * (scaler.scale / to.scale) ** power))
            for unit, to in scalers.items()
            for (metric, power), error in zip((("mse", 2), ("mae", 1)), errors, strict=True)
        },
        "parameters": parameters,
        "epochs": len(history),
        "best_epoch": best.get("epoch"),
        "validation": best.get("validation"),
        "train_seconds": round(seconds, 1),
        "windows": len(windows["test"]),
        "series": values.shape[1],
    }


def recipe(settings: Mapping[str, Any]) -> Recipe:
    """Return the training recipe, which is the same for every model and has nothing unusual."""
    return Recipe(
        epochs=settings["epochs"],
        patience=settings["patience"],
        lr=settings["lr"],
        seed=settings["seed"],
        batch_size=32,
        loss="mse",
        ema=0.0,
    )


def build_network(
    settings: Mapping[str, Any], lookback: int, series: int, period: int
) -> ForecastNet:
    """Build the network, with weights drawn by the seed."""
    torch.manual_seed(settings["seed"])
    task = Task(lookback, settings["horizon"], series, period=period)
    core = build_core(settings["model"], task, **settings["options"])
    return ForecastNet(core, normalise=settings["normalise"])


def cut_windows(
    values: np.ndarray, split: Split, lookback: int, horizon: int, device: torch.device
) -> dict[str, Windows]:
    """Cut windows whose targets lie in the training, validation and test rows."""
    rows = torch.as_tensor(values, dtype=torch.float32).to(device)
    parts = {"train": split.train, "validation": split.val, "test": split.test}
    return {name: Windows.over(rows, None, lookback, horizon, part) for name, part in parts.items()}


def per_series_errors(network: ForecastNet, windows: Windows) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean squared and mean absolute error of each series over windows and steps."""
    total = torch.zeros(
        2, windows.values.shape[1], dtype=torch.float64, device=windows.values.device
    )
    for batch, y in forecast(network, windows):
        error = (y[..., 0] - batch.future).double()
        total += torch.stack([error.square().sum((0, 1)), error.abs().sum((0, 1))])
    squared, absolute = (total / (len(windows) * windows.horizon)).cpu().numpy()
    return squared, absolute


@lru_cache(maxsize=4)
def read_values(
    name: str, path: str | None, data_dir: Path | None, clean: bool
) -> tuple[np.ndarray, int]:
    """Return the values ``[rows, series]`` as the benchmark has them, and the steps in a day.

    Of more than 100 series, the 100 with the largest variance in the training rows are kept, as the
    paper does with Electricity (it does not say over which rows).
    """
    table = catalogue.load(name, data_dir, clean) if path is None else read_table(Path(path))
    numbers = table.select_dtypes("number").astype("float64")
    if clean:
        numbers = numbers.interpolate(limit_direction="both")
    values = numbers.to_numpy()
    if missing := int((~np.isfinite(values)).sum()):
        raise FighterError(
            f"{path or name} has {missing:,} cells without a number: fill them first"
        )
    if values.shape[1] > LARGEST:
        rows = by_fraction(len(values), FRACTIONS).train
        values = values[:, np.sort(np.argsort(-values[rows].var(0), kind="stable")[:LARGEST])]
    return values, 144 if name == "weather" else 24
