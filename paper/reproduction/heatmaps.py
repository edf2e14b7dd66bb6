"""The paper's heat maps: the graph over time steps as training goes on, and what they leave out."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from fighter.benchmark.result import markdown
from fighter.benchmark.runs import Environment, Record, Run
from fighter.data import Scaler
from fighter.data.splits import by_fraction
from fighter.explain import diagnose, layer_edges
from fighter.explain.layer import Layer
from fighter.models.fighter import FighterNet
from fighter.models.transformer import TimeCore
from fighter.nn import FighterLayer
from fighter.training import train

from . import figures
from .forecasting import FRACTIONS, LOOKBACK, build, cut, read, recipe
from .scale import Scale
from .table1 import run_of

TITLE = "Heat maps"
WORDS = """
Fighter and the Transformer on Weather-96 (one seed), trained on without stopping; A for the first
test window, mean over heads, first 64 of 96 positions. κ=1 has no graph: each position sees itself.
Edges are exact shares of the forecast of the temperature (mean over the horizon), all hops
together. Diagnostics are means over 32 test windows and all heads.
"""
HORIZON, POSITIONS, KAPPAS = 96, 64, (1, 2, 3, 4)
EXAMPLES = 32  # test windows that diagnostics are averaged over
NEAR = 4  # steps
SERIES = 1  # T (degC): the edges are of its forecast, the mean over the horizon

COLUMNS = {
    "spectral_gap": "gap",
    "dispersion": "dispersion",
    "entropy": "entropy",
    "mean_lag": "mean lag",
    "norm_share": "norm share",
    "signed_share": "signed share",
    "redundancy": "likeness to next",
}


def plan(scale: Scale, place: Environment, electricity: str | None = None) -> list[Run]:
    """Fighter at four κ and the Transformer, trained on without stopping."""
    del place, electricity
    models: list[tuple[str, str, dict[str, Any]]] = [
        (f"κ={kappa}", "Fighter κ=3", {"kappa": kappa}) for kappa in KAPPAS
    ]
    runs = []
    for name, label, options in [*models, ("Transformer", "Transformer", {})]:
        run = run_of(label, "weather", HORIZON, 0, scale, options=options)
        last = max(scale.snapshots)
        more = {"snapshots": scale.snapshots, "epochs": last, "patience": last}
        runs.append(Run("heatmaps", {**run.settings, **more}, {"model": name, "seed": 0}))
    return runs


def perform(settings: Mapping[str, Any], place: Environment) -> dict[str, Any]:
    """Train, and take pictures on the way."""
    device = torch.device(place.device)
    values, period = read(settings["data"], settings["path"], place.data_dir, settings["clean"])
    values = values[: settings["rows"]]
    split = by_fraction(len(values), FRACTIONS)
    scaled = Scaler.fit(values[split.train]).transform(values)
    windows = cut(scaled, split, LOOKBACK, settings["horizon"], device)
    network = build(settings, LOOKBACK, values.shape[1], period).to(device)
    test = windows["test"]
    spaced = torch.linspace(0, len(test) - 1, EXAMPLES).long()
    past = test.gather(spaced.to(device)).past.cpu()
    snapshots: dict[str, Any] = {}

    def look(record: dict[str, Any]) -> None:
        if record["epoch"] in settings["snapshots"]:
            losses = {"loss": record["loss"], "validation": record["validation"]}
            core = cast(FighterNet | TimeCore, deepcopy(network.core).cpu().eval())
            snapshots[str(record["epoch"])] = losses | snapshot(core, past)

    train(network, windows["train"], windows["validation"], recipe(settings), on_epoch=look)
    for seen in list(snapshots.values())[:-1]:  # of edges and higher powers the last are shown
        seen.pop("edges", None)
        first = min(seen["graphs"], key=int)
        seen["graphs"] = {first: seen["graphs"][first]}
    return {"snapshots": snapshots}


@torch.no_grad()
def snapshot(core: FighterNet | TimeCore, past: Tensor) -> dict[str, Any]:
    """The graphs, their edges and diagnostics, for some windows; pictures are of the first."""
    layer = cast(Layer, cast(nn.ModuleList, core.encoder.layers)[0])
    x = core.node_features(past, None)
    graphs = _powers(layer, x)
    seen: dict[str, Any] = {
        "local": {str(power): _local(graph) for power, graph in graphs.items()},
        "diagnostics": diagnose(layer, x).table(),
        "graphs": {str(power): _picture(graph[0]) for power, graph in graphs.items()},
    }
    if isinstance(core, FighterNet):  # what follows a Transformer's block is not affine
        temperature = partial(_temperature, core, past.shape[2])
        found = layer_edges(layer, x[:1], temperature)
        seen["edges"] = _rounded(found.graph()[0])
        seen["forecast"] = {
            "edges": found.edges.sum().item(),
            "skip": found.skip.item(),
            "constant": found.constant.item(),
            "total": found.total.item(),
            "slack": found.slack().item(),
        }
    return seen


def _temperature(core: FighterNet, series: int, y: Tensor) -> Tensor:
    """From the layer's output to the mean forecast of one series."""
    return core.readout(y, series)[..., SERIES, 0].mean(1)


def _local(graph: Tensor) -> float:
    """The share of weight within four steps of the diagonal; 0.09 if it were even over 96."""
    step = torch.arange(graph.shape[-1], device=graph.device)
    return (graph * ((step[:, None] - step).abs() <= NEAR)).sum(-1).mean().item()


def _powers(layer: Layer, x: Tensor) -> dict[int, Tensor]:
    """A and the higher powers that the layer uses; the identity where it uses none."""
    if not isinstance(layer, FighterLayer):
        return {1: layer.graph(x)}
    highest = max(layer.powers)
    return {power: layer.graph(x, power=power) for power in range(min(1, highest), highest + 1)}


def _picture(graph: Tensor) -> list[list[float]]:
    """The mean over heads."""
    return _rounded(graph.float().mean(0))


def _rounded(matrix: Tensor) -> list[list[float]]:
    shown = matrix[:POSITIONS, :POSITIONS].tolist()
    return [[float(f"{value:.2g}") for value in row] for row in shown]  # colours have no more


def section(rows: Sequence[Record], pictures: Path) -> str:
    """Three figures and a table."""
    models = {row["model"]: row["result"]["snapshots"] for row in rows}
    grid = {
        name: {int(epoch): _first(seen) for epoch, seen in snapshots.items()}
        for name, snapshots in models.items()
    }
    figures.heatmap_grid(grid, pictures / "heatmaps.png")
    last = {name: snapshots[max(snapshots, key=int)] for name, snapshots in models.items()}
    fighters = {name: seen for name, seen in last.items() if "edges" in seen and name != "κ=1"}
    figures.hop_grid(
        {
            name: {int(power): np.array(graph) for power, graph in seen["graphs"].items()}
            for name, seen in fighters.items()
        },
        {name: np.array(seen["edges"]) for name, seen in fighters.items()},
        pictures / "hops.png",
    )
    figures.diagnostics_figure(
        {name: seen["diagnostics"] for name, seen in last.items()}, pictures / "diagnostics.png"
    )
    lines = [line for name, seen in last.items() for line in _lines(name, seen)]
    header = ["model", "hop", *COLUMNS.values(), "within 4 steps"]
    return "\n\n".join(
        [
            f"![Heat maps]({pictures.name}/heatmaps.png)",
            f"![Powers and edges]({pictures.name}/hops.png)",
            f"![Diagnostics]({pictures.name}/diagnostics.png)",
            markdown(header, lines),
        ]
    )


def _first(seen: Record) -> np.ndarray:
    """A, or the identity of a layer that has none."""
    graphs = seen["graphs"]
    return np.array(graphs[min(graphs, key=int)])


def _lines(name: str, seen: Record) -> list[list[str]]:
    """One line per hop, the mean over heads."""
    table = seen["diagnostics"]
    lines = []
    for power in sorted({row["power"] for row in table}):
        heads = [row for row in table if row["power"] == power]
        numbers = []
        for column in COLUMNS:
            values = [row[column] for row in heads if row[column] is not None]
            numbers.append(f"{np.mean(values):.2f}" if values else "-")
        local = seen["local"].get(str(power))
        lines.append([name, str(power), *numbers, "-" if local is None else f"{local:.2f}"])
    return lines
