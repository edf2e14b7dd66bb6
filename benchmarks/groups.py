"""What a graph among the series of a store is worth, by the validation errors of short trainings.

    python -m benchmarks.groups [--stores 100] [--items 6] [--epochs 10] [--out FILE.json]

Two tables are generated: noisy series around slow waves, which all items of a store share, and the
same with a wave for each item. ``Fighter(adjacency="auto", groups="store")`` tries every graph on
them for a fifth of the epochs: none, inside stores, and between all series that are sampled. Errors
are those of the network on the validation windows, in those without a graph.
"""

import argparse
import json
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from fighter import Frame, Training
from fighter.benchmark.provenance import provenance
from fighter.forecasting.config import Config
from fighter.forecasting.fit import fit_panel
from fighter.forecasting.fitted import read_panel
from fighter.forecasting.graph_choice import choose_graph
from fighter.models import Fighter

ROWS, HORIZON = 120, 4


def generate(stores: int, items: int, *, shared: bool) -> pd.DataFrame:
    """Return noisy series around slow waves, which the items of a store share, or each its own."""
    random, count = np.random.default_rng(0), stores * items
    wave = np.zeros((ROWS, stores if shared else count))
    for t in range(1, ROWS):
        wave[t] = 0.9 * wave[t - 1] + random.normal(size=wave.shape[1])
    wave = wave.repeat(items, 1) if shared else wave
    y = 10 + wave + 2 * random.normal(size=(ROWS, count))
    columns = {
        "y": y.T.ravel(),
        "ds": np.tile(pd.date_range("2024-01-01", periods=ROWS), count),
        "store": np.repeat([f"store{i // items}" for i in range(count)], ROWS),
        "item": np.repeat([f"item{i % items}" for i in range(count)], ROWS),
    }
    return pd.DataFrame(columns)


def main() -> None:
    """Try the graphs on both tables and print one line each."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.groups")
    parser.add_argument("--stores", type=int, default=100)
    parser.add_argument("--items", type=int, default=6)
    parser.add_argument("--epochs", type=int, default=10, help="of a whole training")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=0, help="0: as many as torch takes")
    parser.add_argument("--out", type=Path, help="also write the numbers as JSON")
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    warnings.simplefilter("ignore")
    config = Config(
        HORIZON,
        model=Fighter(adjacency="auto", groups="store"),
        id_col=["store", "item"],
        frame=Frame(smoothing=False),
        training=Training(max_epochs=args.epochs),
        verbose=False,
    )
    rows = []
    for shared in (True, False):
        panel = read_panel(config, generate(args.stores, args.items, shared=shared))
        begin = time.process_time()
        fit = partial(fit_panel, device=torch.device(args.device))
        chosen, errors = choose_graph(config, panel, fit)
        seconds = round(time.process_time() - begin, 1)
        settings = chosen.model_config
        assert isinstance(settings, Fighter)
        graph = "groups" if settings.groups else str(settings.adjacency)
        relative = {name: round(error, 4) for name, error in errors.items()}
        rows.append({"shared": shared, "chosen": graph, "cpu": seconds, **relative})
        print(rows[-1], flush=True)
    if args.out:
        about = provenance("python -m benchmarks.groups", args.device)
        args.out.write_text(json.dumps({"provenance": about, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
