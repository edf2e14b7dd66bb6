"""Made-up results of the reproduction, which need no training."""

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch

from fighter.explain import diagnose
from fighter.nn import FighterLayer
from paper.reproduction import backward, kappa, quoted, table1
from paper.reproduction.scale import FULL, QUICK

SEEDS = (-1, 0, 1)


def forecasts(data="weather", horizon=96, spread=0.001, variants=("standard",), **errors):
    """Return rows of Table 1; a model's MSE is in ``errors`` or 0.3, ± ``spread`` by seed."""
    named = {label.replace(" ", "_").replace("=", ""): label for label in table1.ROWS}
    chosen = dict.fromkeys(table1.ROWS, 0.3) | {named[name]: e for name, e in errors.items()}
    rows = []
    for variant in variants:
        for label, error in chosen.items():
            for seed in SEEDS[:1] if label in table1.NAIVE else SEEDS:
                mse = error + spread * seed
                tags = {"data": data, "horizon": horizon, "model": label, "variant": variant}
                rows.append({**tags, "seed": seed, **record(forecast(mse, label))})
    return rows


def forecast(mse, label="a model"):
    """Return the result of one forecasting run."""
    naive = label in table1.NAIVE
    return {
        "standard_mse": mse, "standard_mae": mse**0.5,
        "minmax_mse": mse / 30, "minmax_mae": (mse / 30) ** 0.5,
        "parameters": 0 if naive else 1000, "epochs": 5,
        "best_epoch": None if naive else 2, "windows": 9, "series": 21,
    }  # fmt: skip


def sweep(errors, transformer=0.3, spread=0.001):
    """Return rows of the κ sweep with the given MSE for each κ."""
    rows = []
    for seed in SEEDS:
        tags = {"data": "weather", "horizon": 96, "variant": "standard", "seed": seed}
        result = forecast(transformer + spread * seed)
        rows.append({**tags, "model": "Transformer", **record(result)})
        for name in kappa.FIGHTERS:
            for k, error in errors.items():
                result = forecast(error + spread * seed)
                rows.append({**tags, "model": name, "kappa": k, **record(result)})
    return rows


def texts(accuracies, losses=None, spread=0.001):
    """Return rows of AG News with the given accuracy and mean loss for each model."""
    losses = losses or {}
    rows = []
    for seed in SEEDS:
        for label, accuracy in accuracies.items():
            loss = losses.get(label, 0.5)
            result = {
                "accuracy": accuracy + spread * seed, "last_accuracy": accuracy - 0.01,
                "best_epoch": 2, "validation": 0.1, "parameters": 100, "block_parameters": 10,
                "curves": {"accuracy": [accuracy - 0.1, accuracy], "loss": [2 * loss, 0.0]},
            }  # fmt: skip
            tags = {"data": "AG News", "model": label, "seed": seed}
            rows.append({**tags, **record(result, part="train_partial")})
    return rows


def maps(transformer=0.6, reach=(0.6, 0.4, 0.2)):
    """Return rows of the heat maps with the given shares within four steps.

    ``reach`` has the shares of κ = 2, 3, 4.
    """
    torch.manual_seed(0)
    x = torch.randn(2, 20, 8)
    rows = []
    for name, highest in [*(("κ=" + str(k), k - 1) for k in (1, 2, 3, 4)), ("Transformer", 1)]:
        powers = range(min(1, highest), highest + 1)
        local = dict.fromkeys(map(str, powers), 0.7)
        if name == "κ=1":
            local = {"0": 1.0}
        else:
            share = transformer if name == "Transformer" else reach[highest - 1]
            local[str(highest)] = share
        graph = np.full((20, 20), 0.05).tolist()
        snapshot = {
            "loss": 0.1, "validation": 0.2, "local": local,
            "diagnostics": diagnose(FighterLayer(8, kappa=highest + 1, heads=2), x).table(),
            "graphs": {str(power): graph for power in powers},
        }  # fmt: skip
        if name != "Transformer":
            snapshot["edges"] = graph
        earlier = snapshot | {"local": dict.fromkeys(local, 0.0)}
        result = {"snapshots": {"25": earlier, "100": snapshot}}  # as text "100" < "25"
        rows.append({"model": name, "seed": 0, **record(result)})
    return rows


def gradients(difference=1e-15, update=0.8):
    """Return the row of the backward pass with a given difference and update."""
    result = backward.measure(
        torch.randn(60, 2), lookback=8, horizon=4, steps=5, width=4, batch_size=3
    )
    result["difference"] = dict.fromkeys(("value", "output"), [difference] * 5)
    result["update"]["adamw"] = [update] * 5
    return [{"data": "weather", "seed": 0, **record(result)}]


def record(result, **settings):
    return {"settings": settings, "commit": "abc", "seconds": 60.0, "result": result}


def everything():
    """Return rows of all experiments."""
    standard = ("standard", "minmax", "clean")
    return {
        "table1": [
            *forecasts(horizon=192),
            *forecasts("eia_demand_hourly", 192),
            *forecasts(variants=standard),
            *forecasts("eia_demand_hourly", variants=standard[:2]),
        ],
        "kappa": sweep({k: 0.3 - 0.01 * k for k in range(1, 9)}),
        "agnews": texts(quoted.ACCURACY | {"Fighter κ=2": 0.9}),
        "heatmaps": maps(),
        "backward": gradients(),
    }


def store(folder: Path, results, quick=False, program="python -m paper"):
    """Write results as `python -m paper reproduce` does."""
    folder.mkdir(parents=True, exist_ok=True)
    origin = {"command": f"{program} reproduce all", "device": "cpu", "torch": "2", "date": "now"}
    for name, rows in results.items():
        head = {"provenance": origin, "quick": quick, "scale": asdict(QUICK if quick else FULL)}
        (folder / f"{name}.json").write_text(json.dumps({**head, "rows": rows}))
