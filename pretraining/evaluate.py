"""Score weights on the development tables, which are used to choose and never to train.

    python -m pretraining.evaluate weights.safetensors --windows 0 1 2

One line per class: relative MASE and WQL (seasonal naive is 1, geometric mean over tables) and the
coverage of the 80 % and 95 % intervals, with and without graphs between the series of a table.
"""

import argparse
import json
import math
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from torch import Tensor

from benchmarks.zoo import protocol, scores
from benchmarks.zoo.store import ZOO
from fighter.models.pretrained import AHEAD, PATCH, PATCHES, QUANTILES, PretrainedNet

from .train import load

CHOSEN = [QUANTILES.index(q) for q in protocol.QUANTILES]
MOST = 128  # series that see each other


def read_network(path: Path) -> PretrainedNet:
    """Read the network that a file of weights belongs to."""
    with safe_open(path, "pt") as file:
        network = PretrainedNet(**json.loads(file.metadata()["options"]))
    load(network, path)
    return network.eval()


@torch.inference_mode()
def forecast(network: PretrainedNet, window: protocol.Window, linked: bool) -> np.ndarray:
    """Return quantiles of the steps after the histories, ``[series, H, Q]``."""
    device = next(network.parameters()).device
    horizon = window.table.horizon
    count = len(window.ids)
    longest = max(len(window.history(i)) for i in range(count))
    length = min(-(-longest // PATCH), PATCHES) * PATCH
    past = np.full((count, length), np.nan)
    for i in range(count):
        history = window.history(i)[-length:]
        past[i, length - len(history) :] = history
    x = torch.tensor(past, device=device)
    observed = x.isfinite()
    level = x.nanmean(1, keepdim=True).nan_to_num()
    size = (x - level).square().nanmean(1, keepdim=True).sqrt().nan_to_num(1.0).clamp(min=1e-9)
    x = ((x - level) / size).nan_to_num(0.0).float()
    lengths = [m for m in window.table.entry["season"] or () if 1 < m < 2000][:2]
    seasons = torch.tensor([([*lengths, 0, 0])[:2]], device=device)
    ahead = next(n for n in (2, 4, AHEAD) if n * PATCH >= horizon)
    parts: list[Tensor] = []
    together = linked and count <= MOST
    for rows in torch.arange(count).split(count if together else 512):
        shape = (1, len(rows)) if together else (len(rows), 1)
        one = x[rows].view(*shape, -1), observed[rows].view(*shape, -1)
        y = network(*one, seasons.expand(shape[0], -1), ahead)
        parts.append(y.flatten(0, 1))
    y = torch.cat(parts)[:, :horizon].sort(-1).values.double() * size[..., None] + level[..., None]
    lowest = torch.tensor(np.nanmin(past, 1), device=device)[:, None, None]
    y = torch.where(lowest >= 0, y.clamp(min=0), y)
    return y[..., CHOSEN].cpu().numpy()


def score(network: PretrainedNet, folder: Path, windows: list[int], most: int, linked: bool) -> Any:
    """Return the scores of every table, over its windows."""
    found: dict[str, dict[str, float]] = {}
    classes: dict[str, list[str]] = {}
    for table in protocol.read_zoo(folder):
        rows = []
        frame = table.read()
        for number in windows:
            window = protocol.cut(table, number, frame)
            if window is None:
                continue
            if len(window.ids) > most:
                places = np.unique(np.linspace(0, len(window.ids) - 1, most).astype(int))
                window = window.subset(places)
            made = scores.total(scores.score(window, forecast(network, window, linked)))
            naive = scores.total(scores.naive_score(window))
            rows.append({**made, "mase": made["mase"] / naive["mase"],
                         "wql": made["wql"] / naive["wql"]})  # fmt: skip
        found[table.name] = {
            name: statistics.fmean(row[name] for row in rows if math.isfinite(row[name]))
            for name in ("mase", "wql", "cov80", "cov95")
        }
        classes[table.name] = ["all", *table.classes()]
    return found, classes


def by_class(found: Mapping[str, Any], classes: Mapping[str, list[str]]) -> dict[str, Any]:
    """Return geometric means of the ratios and means of the coverage for each class."""
    out = {}
    for name in ("all", *protocol.CLASSES):
        some = [found[table] for table in found if name in classes[table]]
        if some:
            means = {k: statistics.geometric_mean(s[k] for s in some) for k in ("mase", "wql")}
            covers = {k: statistics.fmean(s[k] for s in some) for k in ("cov80", "cov95")}
            out[name] = {**means, **covers, "tables": len(some)}
    return out


def main() -> None:
    """Print the scores."""
    parser = argparse.ArgumentParser(prog="python -m pretraining.evaluate")
    parser.add_argument("weights", type=Path)
    parser.add_argument("--zoo", type=Path, default=ZOO)
    parser.add_argument("--windows", type=int, nargs="+", default=[0])
    parser.add_argument("--most", type=int, default=100, help="series of a table")
    parser.add_argument("--out", type=Path, help="also write the scores as JSON")
    parser.add_argument("--tables", action="store_true", help="also print every table")
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    network = read_network(args.weights).to(device)
    results = {}
    for linked in (False, True):
        found, classes = score(network, args.zoo, args.windows, args.most, linked)
        results["linked" if linked else "alone"] = {
            "classes": by_class(found, classes), "tables": found
        }  # fmt: skip
        print("linked" if linked else "alone")
        rows = results["linked" if linked else "alone"]
        for name, row in (rows["classes"] | (found if args.tables else {})).items():
            print(f"{name:24s} {row['mase']:.3f} {row['wql']:.3f} "
                  f"{row['cov80']:.0f} {row['cov95']:.0f}", flush=True)  # fmt: skip
    if args.out:
        args.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
