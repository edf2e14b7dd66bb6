"""Forecast the tables of the zoo with Fighter as it is.

    python -m benchmarks.zoo.fighter_run --models fighter fighter+future pretrained

``fighter`` is ``Forecaster(horizon)`` on the columns unique_id, ds and y. ``fighter+future`` also
uses the covariates that are known in advance. ``pretrained`` is ``Forecaster(horizon,
model="pretrained")`` without ``fit``, ``pretrained+tuning`` with it, and ``pretrained+fit`` with it
but without fine-tuning. Truth and forecast are matched by time stamp.
"""

import warnings
from dataclasses import fields
from datetime import timedelta
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch

from fighter import Forecaster
from fighter.benchmark.provenance import provenance
from fighter.errors import DataWarning, FighterError
from fighter.models import Pretrained

from . import store
from .protocol import LEVELS, Window, from_levels

PRETRAINED = "pretrained"


def forecast(window: Window, seed: int, *, name: str, device: str | None) -> store.Answer:
    """Forecast the truth's time stamps after the histories; ``name`` is that of the model."""
    table = window.table
    known = table.future if name.endswith("+future") else []
    columns = ["unique_id", "ds", "y", *known]
    options: dict[str, Any] = {"level": [*LEVELS], "seed": seed, "verbose": False, "device": device}
    if known:
        options |= {"future": known}
    if name.startswith(PRETRAINED):
        options |= {"model": Pretrained(tune=name.endswith("+tuning"))}
    if table.freq == "1" and "season" in {field.name for field in fields(Forecaster)}:
        options |= {"season": table.season}
    history = numbers(window.rows("history")[columns], known)
    ahead = numbers(window.rows("truth")[["unique_id", "ds", *known]], known) if known else None
    try:
        made = _run(name, Forecaster(table.horizon, **options), history, ahead)
    except FighterError as error:
        if error.argument != "freq" or table.freq == "1":
            raise
        made = _run(name, Forecaster(table.horizon, freq=table.freq, **options), history, ahead)
    return match(window, made), None


def _run(
    name: str, model: Forecaster, history: pd.DataFrame, ahead: pd.DataFrame | None
) -> pd.DataFrame:
    if name == PRETRAINED:
        return model.predict(history)
    return model.fit(history).predict(future=ahead)


def match(window: Window, answer: pd.DataFrame) -> np.ndarray:
    """Return a forecast table's quantiles at the truth's time stamps, NaN where it has none."""
    truth = _keys(window.rows("truth")[["unique_id", "ds"]])
    answer = _keys(answer)
    if window.table.freq == "1" or window.table.entry["regular"]:
        found = truth.merge(answer, on=["unique_id", "ds"], how="left", validate="1:1")
    else:  # stamps that Fighter moved to a grid lie within half a step of the forecast's
        freq = window.table.freq
        minutes = float(freq.removesuffix("min") or 1) if freq.endswith("min") else 0.0
        half = timedelta(minutes=minutes / 2)
        order = truth.assign(place=range(len(truth))).sort_values("ds", kind="stable")
        found = pd.merge_asof(
            order,
            answer.sort_values("ds"),
            on="ds",
            by="unique_id",
            direction="nearest",
            tolerance=half,
        ).sort_values("place")
    name = next(column.removesuffix("-lo-80") for column in answer if column.endswith("-lo-80"))
    quantiles = from_levels(found, name, f"{name}-")
    return quantiles.reshape(len(window.ids), window.table.horizon, -1)


def numbers(table: Any, columns: list[str]) -> Any:
    """Turn columns of words into 0 and 1: whether a day is special, such as a holiday."""
    words = [name for name in columns if not pd.api.types.is_numeric_dtype(table[name])]
    return table.assign(**{name: (table[name] != "none").astype(float) for name in words})


def _keys(table: Any) -> pd.DataFrame:
    """Give ids and times the same types in both tables."""
    times = table["ds"]
    if not pd.api.types.is_integer_dtype(times):
        times = times.astype("datetime64[ns]")
    return table.assign(unique_id=table["unique_id"].astype(str), ds=times)


def main() -> int:
    """Compute what is missing."""
    args = store.flags("python -m benchmarks.zoo.fighter_run").parse_args()
    warnings.simplefilter("ignore", DataWarning)
    device = args.device or ("cuda" if torch.cuda.is_available() else "cpu")
    models: dict[str, store.Model] = {
        name: partial(forecast, name=name, device=device) for name in store.FIGHTER
    }
    about = provenance("python -m benchmarks.zoo.fighter_run", device)
    about |= {"command": args.command} if args.command else {}
    name = f"fighter {about['commit']} {device}"
    places = store.Places(args.results, args.cache, args.csv)
    if args.again:
        store.drop(args, places)
    todo = store.missing(args, [name for name in args.models if name in models], places)
    return int(store.compute(todo, models, places, {name: about}) > 0)


if __name__ == "__main__":
    raise SystemExit(main())
