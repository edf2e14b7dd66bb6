"""Compare forecasts that use all links with those of Fighter, on the tables with known graphs.

    python -m benchmarks.graph_forecasts --keep .graphs

Errors are mean absolute ones of the next step on the validation rows of the fitted model, in
deviations of the training rows. The penalty of the regressions is the best on these very rows,
which flatters them.
"""

import argparse
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.graphs import Forecasters, public
from benchmarks.zoo.store import ROOT, ZOO
from fighter.benchmark.provenance import provenance
from fighter.errors import DataWarning

RESULTS = ROOT / "results" / "network-forecasts.json"
PENALTIES = (1.0, 10.0, 100.0, 1000.0)


def error(z: np.ndarray, training: int, lags: int) -> float:
    """Return the error of a vector autoregression on the rows after the training rows."""
    past = np.hstack([z[lags - lag : len(z) - lag] for lag in range(1, lags + 1)])
    target, known = z[lags:], training - lags
    errors = []
    for penalty in PENALTIES:
        square = past[:known].T @ past[:known] + penalty * np.eye(past.shape[1])
        weights = np.linalg.solve(square, past[:known].T @ target[:known])
        errors.append(np.abs(target[known:] - past[known:] @ weights).mean())
    return float(min(errors))


def main() -> None:
    """Write the errors of each table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.graph_forecasts")
    parser.add_argument("--zoo", type=Path, default=ZOO, help="folder of the graphs")
    parser.add_argument("--rows", type=int, default=1000, help="take the last rows only")
    parser.add_argument("--keep", type=Path, help="folder to keep fitted models in")
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    warnings.simplefilter("ignore", DataWarning)
    forecasters, rows = Forecasters(args.keep), []
    for truth in public(args.zoo):
        values = truth.values[-args.rows :]
        plan = forecasters.fit(values, 0).plan
        training = len(values) - plan.validation
        level, size = values[:training].mean(0), values[:training].std(0)
        z = (values - level) / np.where(size > 0, size, 1.0)
        each = {f"var {lags}": error(z, training, lags) for lags in (1, 3, 10)}
        told: dict[str, Any] = {"set": truth.name, "family": truth.name.split("_")[0]}
        rows.append({**told, **{k: round(v, 4) for k, v in ({**plan.errors, **each}).items()}})
        print(rows[-1], flush=True)
    about = provenance("python -m benchmarks.graph_forecasts", "cpu")
    text = ",\n".join(map(json.dumps, rows))
    args.out.write_text(f'{{"provenance": {json.dumps(about)},\n"rows": [\n{text}\n]}}\n', "utf-8")


if __name__ == "__main__":
    main()
