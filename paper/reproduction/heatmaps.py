"""The paper's heat maps: the graph over time steps during training, and what it does not show."""

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
from .forecasting import FRACTIONS, LOOKBACK, build_network, cut_windows, read_values, recipe
from .scale import Scale
from .table1 import table_run

TITLE = "Heat maps"
WORDS = """
Fighter and the Transformer on Weather-96 (one seed), trained without early stopping. Heat maps show
A for the first test window, averaged over heads, for the first 64 of 96 positions; κ=1 has no
graph, so each position sees only itself. Edges are exact shares of the temperature forecast (mean
over the horizon), summed over hops. Diagnostics are means over 32 test windows and all heads.
"""
HORIZON, POSITIONS, KAPPAS = 96, 64, (1, 2, 3, 4)
EXAMPLES = 32  # test windows that diagnostics are averaged over
NEAR = 4  # steps
SERIES = 1  # T (degC), whose forecast the edges explain

COLUMNS = {
    "spectral_gap": "gap",
    "dispersion": "dispersion",
    "entropy": "entropy",
    "mean_lag": "mean lag",
    "norm_share": "norm share",
    "signed_share": "signed share",
    "redundancy": "cosine with next",
}


def plan(scale: Scale, environment: Environment, electricity: str | None = None) -> list[Run]:
    """Return runs of Fighter at four κ and of the Transformer, without early stopping."""
    del environment, electricity
    models: list[tuple[str, str, dict[str, Any]]] = [
        (f"κ={kappa}", "Fighter κ=3", {"kappa": kappa}) for kappa in KAPPAS
    ]
    runs = []
    for name, label, options in [*models, ("Transformer", "Transformer", {})]:
        run = table_run(label, "weather", HORIZON, 0, scale, options=options)
        last = max(scale.snapshots)
        more = {"snapshots": scale.snapshots, "epochs": last, "patience": last}
        runs.append(Run(__name__, {**run.settings, **more}, {"model": name, "seed": 0}))
    return runs


def perform(settings: Mapping[str, Any], environment: Environment) -> dict[str, Any]:
    """Train, and take snapshots of the graph on the way."""
    device = torch.device(environment.device)
    values, period = read_values(
        settings["data"], settings["path"], environment.data_dir, settings["clean"]
    )
    values = values[: settings["rows"]]
    split = by_fraction(len(values), FRACTIONS)
    scaled = Scaler.fit(values[split.train]).transform(values)
    windows = cut_windows(scaled, split, LOOKBACK, settings["horizon"], device)
    network = build_network(settings, LOOKBACK, values.shape[1], period).to(device)
    test = windows["test"]
    spaced = torch.linspace(0, len(test) - 1, EXAMPLES).long()
    past = test.gather(spaced.to(device)).past.cpu()
    snapshots: dict[str, Any] = {}

    def take_snapshot(record: dict[str, Any]) -> None:
        if record["epoch"] in settings["snapshots"]:
            losses = {"loss": record["loss"], "validation": record["validation"]}
            core = cast(FighterNet | TimeCore, deepcopy(network.core).cpu().eval())
            snapshots[str(record["epoch"])] = losses | inspect_core(core, past)

    train(
        network, windows["train"], windows["validation"], recipe(settings), on_epoch=take_snapshot
    )
    for earlier in list(snapshots.values())[:-1]:  # edges and higher powers are shown at the end
        earlier.pop("edges", None)
        first = min(earlier["graphs"], key=int)
        earlier["graphs"] = {first: earlier["graphs"][first]}
    return {"snapshots": snapshots}


@torch.no_grad()
def inspect_core(core: FighterNet | TimeCore, past: Tensor) -> dict[str, Any]:
    """Return the graphs, edges and diagnostics of some windows; pictures show the first window."""
    layer = cast(Layer, cast(nn.ModuleList, core.encoder.layers)[0])
    x = core.node_features(past, None)
    graphs = _powers(layer, x)
    result: dict[str, Any] = {
        "local": {str(power): _local(graph) for power, graph in graphs.items()},
        "diagnostics": diagnose(layer, x).table(),
        "graphs": {str(power): _picture(graph[0]) for power, graph in graphs.items()},
    }
    if isinstance(core, FighterNet):  # the part after a Transformer's attention is not affine
        temperature = partial(_temperature, core, past.shape[2])
        shares = layer_edges(layer, x[:1], temperature)
        result["edges"] = _rounded(shares.graph()[0])
        result["forecast"] = {
            "edges": shares.edges.sum().item(),
            "skip": shares.skip.item(),
            "constant": shares.constant.item(),
            "total": shares.total.item(),
            "slack": shares.slack().item(),
        }
    return result


def _temperature(core: FighterNet, series: int, y: Tensor) -> Tensor:
    """Return the mean forecast of one series from the layer's output."""
    return core.readout(y, series)[..., SERIES, 0].mean(1)


def _local(graph: Tensor) -> float:
    """Return the share of weight within four steps; uniform weights over 96 steps have 0.09."""
    step = torch.arange(graph.shape[-1], device=graph.device)
    return (graph * ((step[:, None] - step).abs() <= NEAR)).sum(-1).mean().item()


def _powers(layer: Layer, x: Tensor) -> dict[int, Tensor]:
    """Return A and the higher powers that the layer uses; the identity if it uses none."""
    if not isinstance(layer, FighterLayer):
        return {1: layer.graph(x)}
    highest = max(layer.powers)
    return {power: layer.graph(x, power=power) for power in range(min(1, highest), highest + 1)}


def _picture(graph: Tensor) -> list[list[float]]:
    """Return the mean over heads."""
    return _rounded(graph.float().mean(0))


def _rounded(matrix: Tensor) -> list[list[float]]:
    shown = matrix[:POSITIONS, :POSITIONS].tolist()
    return [[float(f"{value:.2g}") for value in row] for row in shown]  # enough for a colour


def section(rows: Sequence[Record], pictures: Path) -> str:
    """Draw three figures and render the table."""
    models = {row["model"]: row["result"]["snapshots"] for row in rows}
    grid = {
        name: {int(epoch): _first(snapshot) for epoch, snapshot in snapshots.items()}
        for name, snapshots in models.items()
    }
    figures.heatmap_grid(grid, pictures / "heatmaps.png")
    last = {name: snapshots[max(snapshots, key=int)] for name, snapshots in models.items()}
    fighters = {name: at for name, at in last.items() if "edges" in at and name != "κ=1"}
    figures.hop_grid(
        {
            name: {int(power): np.array(graph) for power, graph in snapshot["graphs"].items()}
            for name, snapshot in fighters.items()
        },
        {name: np.array(snapshot["edges"]) for name, snapshot in fighters.items()},
        pictures / "hops.png",
    )
    figures.diagnostics_figure(
        {name: snapshot["diagnostics"] for name, snapshot in last.items()},
        pictures / "diagnostics.png",
    )
    lines = [line for name, snapshot in last.items() for line in _lines(name, snapshot)]
    header = ["model", "hop", *COLUMNS.values(), "within 4 steps"]
    return "\n\n".join(
        [
            f"![Heat maps]({pictures.name}/heatmaps.png)",
            f"![Powers and edges]({pictures.name}/hops.png)",
            f"![Diagnostics]({pictures.name}/diagnostics.png)",
            markdown(header, lines),
        ]
    )


def _first(snapshot: Record) -> np.ndarray:
    """Return A, or the identity of a layer that has no A."""
    graphs = snapshot["graphs"]
    return np.array(graphs[min(graphs, key=int)])


def _lines(name: str, snapshot: Record) -> list[list[str]]:
    """Return one line per hop, with means over heads."""
    table = snapshot["diagnostics"]
    lines = []
    for power in sorted({row["power"] for row in table}):
        heads = [row for row in table if row["power"] == power]
        numbers = []
        for column in COLUMNS:
            values = [row[column] for row in heads if row[column] is not None]
            numbers.append(f"{np.mean(values):.2f}" if values else "-")
        local = snapshot["local"].get(str(power))
        lines.append([name, str(power), *numbers, "-" if local is None else f"{local:.2f}"])
    return lines
