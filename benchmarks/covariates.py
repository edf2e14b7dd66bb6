"""Measure what covariates that are known in advance bring, on the tables of the zoo that have some.

    python -m benchmarks.covariates
    python -m benchmarks.covariates --models fighter fighter+future --device cuda

Each model is run without them and, with ``+future``, with them: ``zero-shot`` is the pretrained
network without ``fit``, ``untrained`` the same with ``fit``, mixed with smoothing, and ``fighter``
the default. The protocol is that of the zoo; of tables with many series, every eighth is forecast.
Results go to ``results/covariates.json``; a later call computes what is missing.
"""

import warnings
from functools import partial
from typing import Any

import numpy as np
import torch

from fighter import Forecaster
from fighter.benchmark.provenance import provenance
from fighter.errors import DataWarning

from .zoo import protocol, store
from .zoo.fighter_run import match, numbers
from .zoo.protocol import LEVELS, Window

KINDS = {"zero-shot": "pretrained", "untrained": "pretrained", "fighter": "fighter"}
MODELS = [kind + end for kind in KINDS for end in ("", "+future")]
MANY, EVERY = 500, 8
RESULTS = store.ROOT / "results" / "covariates.json"


def forecast(window: Window, seed: int, *, name: str, device: str) -> store.Answer:
    """Forecast the truth of a window; ``name`` is one of MODELS."""
    table, (kind, *_) = window.table, name.split("+")
    known = table.future if name.endswith("+future") else []
    options: dict[str, Any] = {"level": [*LEVELS], "seed": seed, "verbose": False}
    model = Forecaster(table.horizon, model=KINDS[kind], future=known, device=device, **options)
    history = numbers(window.rows("history")[["unique_id", "ds", "y", *known]], known)
    ahead = numbers(window.rows("truth")[["unique_id", "ds", *known]], known) if known else None
    if kind == "zero-shot":
        return match(window, model.predict(history, future=ahead)), None
    return match(window, model.fit(history).predict(future=ahead)), None


def choose(model: str, window: Window) -> np.ndarray | None:
    """Return which series are forecast; None for all."""
    count = len(window.ids)
    return np.arange(0, count, EVERY) if count > MANY else None


def main() -> int:
    """Compute what is missing."""
    parser = store.flags("python -m benchmarks.covariates", [*MODELS], MODELS[:4], RESULTS)
    args = parser.parse_args()
    warnings.simplefilter("ignore", DataWarning)
    device = args.device or ("cuda" if torch.cuda.is_available() else "cpu")
    about = provenance("python -m benchmarks.covariates", device)
    places = store.Places(args.results, args.cache / "covariates", args.csv)
    rows = [] if args.again else store.read(args.results)["rows"]
    done = {store.key(row) for row in rows if "error" not in row}
    tables = [table for table in protocol.read_zoo(args.zoo, args.tables) if table.future]
    todo = [
        (model, table, window, seed)
        for model in args.models
        for table in tables
        for window in args.windows
        for seed in args.seeds
        if (model, table.name, window, seed) not in done
    ]
    models = {name: partial(forecast, name=name, device=device) for name in MODELS}
    environment = {f"fighter {about['commit']} {device}": about}
    return int(store.compute(todo, models, places, environment, choose) > 0)


if __name__ == "__main__":
    raise SystemExit(main())
