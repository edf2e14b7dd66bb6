"""The paper's figures, drawn from what was measured here."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fighter.errors import FighterError
from fighter.explain import THRESHOLDS
from fighter.plotting.hops import Grid, diagnostics_panels, hop_maps
from fighter.plotting.theme import LIGHT, dark_to_light, log_norm, save_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which can be told apart whatever one's eyes.
BLUE, ORANGE, GREEN, VERMILION, PURPLE = "#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7"
INK = LIGHT.ink
REFERENCE = "Transformer"  # drawn in ink, whatever else is in a figure


def heatmap_grid(snapshots: Grid, path: str | Path) -> "Figure":
    """The graph of each model (rows) at each epoch (columns), as in the paper's appendix.

    All panels share one logarithmic colour scale, so that they can be compared, and rows that are
    nearly even are not all black beside an identity: from the lowest entry worth telling apart
    (the 1st percentile) to nearly the highest. Entries of 0 have the lowest colour.

    Args:
        snapshots: model → epoch → graph ``[nodes, nodes]``, target × source.
        path: where the picture goes.

    """
    epochs = sorted({epoch for row in snapshots.values() for epoch in row})
    figure, grid = LIGHT.panels(len(snapshots), len(epochs), 1.95, 1.9, left=0.5, below=0.4)
    norm = log_norm([graph for row in snapshots.values() for graph in row.values()])
    image = None
    for axes_row, (label, row) in zip(grid, snapshots.items(), strict=True):
        for axes, epoch in zip(axes_row, epochs, strict=True):
            if epoch in row:
                image = LIGHT.heatmap(axes, row[epoch], norm=norm, cmap=dark_to_light())
            else:
                axes.set_visible(False)
        axes_row[0].set_ylabel(label, fontsize=10, color=INK)
    for axes, epoch in zip(grid[0], epochs, strict=True):
        axes.set_title(f"epoch {epoch}", **LIGHT.title())
    LIGHT.bar(figure, image, grid, "attention weight (log scale)", "right")
    _label_positions(figure, grid)
    save_figure(figure, path)
    return figure


def hop_grid(graphs: Grid, edges: Mapping[str, np.ndarray], path: str | Path) -> "Figure":
    """What a heat map of A leaves out: its powers, and what was sent along them.

    Args:
        graphs: model → power → Aⁱ ``[nodes, nodes]``.
        edges: model → signed edges ``[nodes, nodes]``, all hops together; shown as shares of Σ|E|.
        path: where the picture goes.

    """
    figure, grid = hop_maps(graphs, edges, LIGHT)
    _label_positions(figure, grid)
    save_figure(figure, path)
    return figure


def diagnostics_figure(
    tables: Mapping[str, Sequence[Mapping[str, Any]]], path: str | Path
) -> "Figure":
    """What each hop does: the mean over heads as a line, each head as a dot.

    Args:
        tables: model → rows of :meth:`fighter.explain.HopDiagnostics.table`.
        path: where the picture goes.

    """
    thresholds = {name: threshold.value for name, threshold in THRESHOLDS.items()}
    figure = diagnostics_panels(tables, LIGHT, _styles(tables), thresholds=thresholds)
    save_figure(figure, path)
    return figure


def backward_figure(result: Mapping[str, Any], path: str | Path) -> "Figure":
    """A Transformer's gradients beside a GCN's, from :func:`.backward.measure`."""
    figure, grid = LIGHT.panels(2, 3, 3.5, 2.5)
    steps, places = result["steps"], grid.ravel()
    parts = {"value": ("$W_V W_1$", "-"), "output": ("$W_2$", "--")}
    graphs = {
        "current": (INK, "the current graph"),
        "initial": (BLUE, "the graph of the start"),
        "mean": (GREEN, "the mean graph of the batch"),
        "lag": (ORANGE, "a fixed lag graph"),
    }
    for name, (symbol, dash) in parts.items():
        places[0].plot(steps, result["difference"][name], dash, color=INK, label=symbol)
    for graph, (color, label) in graphs.items():
        for name, (_, dash) in parts.items():
            series = result["cosine"][name][graph]
            places[1].plot(
                steps, series, dash, color=color, lw=1.3, label=label if dash == "-" else None
            )
    for name, label, color in (("sgd", "SGD", BLUE), ("adamw", "AdamW", VERMILION)):
        places[2].plot(steps, result["update"][name], color=color, label=label)
    places[3].plot(steps, result["attention_share"], color=INK)
    for name, label, color in (("query", "$W_Q$", BLUE), ("key", "$W_K$", VERMILION)):
        places[4].plot(steps, result["printed"][name], color=color, label=label)
    places[5].plot(steps, result["loss"], color=INK)
    titles = (
        "Same graph: relative difference of gradients",
        "Gradients of a GCN on …: cosine",
        "Step of $W_V W_1$: factors or one matrix (cosine)",
        "Share of the gradient in $W_Q$, $W_K$",
        "Printed gradient of … and the exact one (cosine)",
        "Training loss",
    )
    for axes, title in zip(places, titles, strict=True):
        LIGHT.tidy(axes, title)
        axes.set_xscale("log")
        axes.set_xlabel("step", fontsize=8, color=INK)
    places[0].set_yscale("log")
    places[0].set_ylim(1e-17, 1)
    for axes in (places[1], places[2], places[4]):
        lowest = min(line.get_ydata().min() for line in axes.lines)
        axes.set_ylim(min(-0.04, lowest - 0.04), 1.04)
    places[3].set_ylim(bottom=0)
    style = {"frameon": False, "fontsize": 7.5, "labelcolor": INK}
    for axes in (places[0], places[2], places[4]):
        axes.legend(**style)
    places[1].legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2, **style)
    save_figure(figure, path)
    return figure


def kappa_figure(
    points: Mapping[str, Mapping[int | str, Sequence[float]]], path: str | Path
) -> "Figure":
    """Errors over κ, mean and standard deviation over seeds, beside the Transformer's.

    Args:
        points: metric → κ, or ``"Transformer"`` → one error per seed.
        path: where the picture goes.

    """
    figure, grid = LIGHT.panels(1, len(points), 4.2, 2.9)
    for axes, (metric, errors) in zip(grid[0], points.items(), strict=True):
        kappas = sorted(kappa for kappa in errors if isinstance(kappa, int))
        means, spreads = zip(*(_moments(errors[kappa]) for kappa in kappas), strict=True)
        axes.errorbar(
            kappas, means, spreads, color=BLUE, marker="o", ms=4, capsize=3, lw=1.4, label="Fighter"
        )
        if REFERENCE in errors:
            mean, spread = _moments(errors[REFERENCE])
            axes.axhline(mean, color=INK, lw=1.2, ls="--", label=REFERENCE)
            axes.axhspan(mean - spread, mean + spread, color=INK, alpha=0.12, lw=0)
        LIGHT.tidy(axes, f"Test {metric}")
        axes.set_xticks(kappas)
        axes.set_xlabel("κ", fontsize=9, color=INK)
    LIGHT.legend(figure, grid[0, 0], columns=2)
    save_figure(figure, path)
    return figure


def curves_figure(
    curves: Mapping[str, Mapping[str, Sequence[Sequence[float]]]],
    path: str | Path,
    *,
    panels: Mapping[str, str] | None = None,
) -> "Figure":
    """Learning curves by epoch, one line per model, mean and deviation over seeds.

    Args:
        curves: model → name of a curve → one list per seed, one number per epoch.
        path: where the picture goes.
        panels: name of a curve → title; test accuracy and training loss unless given.

    """
    panels = panels or {"accuracy": "Test accuracy", "loss": "Training loss"}
    figure, grid = LIGHT.panels(1, len(panels), 4.2, 3.1)
    for axes, (name, title) in zip(grid[0], panels.items(), strict=True):
        for label, style in _styles(curves).items():
            runs = np.asarray(curves[label][name], dtype=float)
            if runs.ndim != 2:
                raise FighterError(f"{name} of {label} needs one list of equal length per seed")
            epochs = np.arange(1, runs.shape[1] + 1)
            mean, spread = _moments(runs)
            line = style | {"marker": style["marker"] if len(epochs) <= 30 else None}
            axes.plot(epochs, mean, label=label, **line)
            axes.fill_between(
                epochs, mean - spread, mean + spread, color=style["color"], alpha=0.15, lw=0
            )
        LIGHT.tidy(axes, title)
        axes.set_xlabel("epoch", fontsize=9, color=INK)
    LIGHT.legend(figure, grid[0, 0], columns=6)
    save_figure(figure, path)
    return figure


def _label_positions(figure: "Figure", grid: np.ndarray) -> None:
    for axes in grid[:-1].ravel():
        axes.tick_params(labelbottom=False)
    for axes in grid[:, 1:].ravel():
        axes.tick_params(labelleft=False)
    figure.supxlabel("source position", fontsize=8.5, color=INK)
    figure.supylabel("target position", fontsize=8.5, color=INK)


def _styles(models: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """A colour and a marker each: dark to light in the order given, the Transformer in ink."""
    from matplotlib import colormaps

    others = [label for label in models if label != REFERENCE]
    shades = colormaps["plasma"](np.linspace(0.05, 0.85, max(len(others), 2)))
    styles = {
        label: {"color": shade, "marker": marker, "ms": 3.5, "lw": 1.4}
        for label, shade, marker in zip(others, shades, "osD^vPX*" * len(others), strict=False)
    }
    ink = {"color": INK, "marker": "x", "ms": 4, "lw": 1.4, "ls": "--"}
    return {label: styles.get(label, ink) for label in models}


def _moments(runs: Any) -> tuple[Any, Any]:
    """Mean and standard deviation over seeds (the first axis); one seed has no deviation."""
    runs = np.asarray(runs, dtype=float)
    return runs.mean(0), runs.std(0, ddof=1) if len(runs) > 1 else np.zeros_like(runs[0])
