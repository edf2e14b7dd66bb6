"""The paper's figures, drawn from our own measurements."""

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

# The palette of Okabe and Ito, which colour-blind readers can tell apart.
BLUE, ORANGE, GREEN, VERMILION, PURPLE = "#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7"
INK = LIGHT.ink
REFERENCE = "Transformer"  # always drawn in ink


def heatmap_grid(snapshots: Grid, path: str | Path) -> "Figure":
    """Draw the graph of each model (rows) at each epoch (columns), as in the paper's appendix.

    All panels share one logarithmic colour scale, from the 1st percentile to nearly the highest
    entry: panels can be compared, and nearly uniform rows are not all black beside an identity.
    Entries of 0 have the lowest colour.

    Args:
        snapshots: model → epoch → graph ``[nodes, nodes]``, target × source.
        path: file of the picture.

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
    """Draw what a heat map of A does not show: its powers, and what was sent along the edges.

    Args:
        graphs: model → power → Aⁱ ``[nodes, nodes]``.
        edges: model → signed edges ``[nodes, nodes]``, summed over hops; shown as shares of Σ|E|.
        path: file of the picture.

    """
    figure, grid = hop_maps(graphs, edges, LIGHT)
    _label_positions(figure, grid)
    save_figure(figure, path)
    return figure


def diagnostics_figure(
    tables: Mapping[str, Sequence[Mapping[str, Any]]], path: str | Path
) -> "Figure":
    """Draw the diagnostics of each hop: the mean over heads as a line, each head as a dot.

    Args:
        tables: model → rows of :meth:`fighter.explain.HopDiagnostics.table`.
        path: file of the picture.

    """
    thresholds = {name: threshold.value for name, threshold in THRESHOLDS.items()}
    figure = diagnostics_panels(tables, LIGHT, _styles(tables), thresholds=thresholds)
    save_figure(figure, path)
    return figure


def backward_figure(result: Mapping[str, Any], path: str | Path) -> "Figure":
    """Draw a Transformer's gradients beside a GCN's, from :func:`.backward.measure`."""
    figure, grid = LIGHT.panels(2, 3, 3.5, 2.5)
    steps, panels = result["steps"], grid.ravel()
    parts = {"value": ("$W_V W_1$", "-"), "output": ("$W_2$", "--")}
    graphs = {
        "current": (INK, "the current graph"),
        "initial": (BLUE, "the initial graph"),
        "mean": (GREEN, "the mean graph of the batch"),
        "lag": (ORANGE, "a fixed lag graph"),
    }
    for name, (symbol, dash) in parts.items():
        panels[0].plot(steps, result["difference"][name], dash, color=INK, label=symbol)
    for graph, (color, label) in graphs.items():
        for name, (_, dash) in parts.items():
            series = result["cosine"][name][graph]
            panels[1].plot(
                steps, series, dash, color=color, lw=1.3, label=label if dash == "-" else None
            )
    for name, label, color in (("sgd", "SGD", BLUE), ("adamw", "AdamW", VERMILION)):
        panels[2].plot(steps, result["update"][name], color=color, label=label)
    panels[3].plot(steps, result["attention_share"], color=INK)
    for name, label, color in (("query", "$W_Q$", BLUE), ("key", "$W_K$", VERMILION)):
        panels[4].plot(steps, result["printed"][name], color=color, label=label)
    panels[5].plot(steps, result["loss"], color=INK)
    titles = (
        "Same graph: relative difference of gradients",
        "Cosine with the gradients of a GCN on …",
        "Step of $W_V W_1$: as factors, as one matrix (cosine)",
        "Share of the gradient in $W_Q$, $W_K$",
        "Printed and exact gradient (cosine)",
        "Training loss",
    )
    for axes, title in zip(panels, titles, strict=True):
        LIGHT.tidy(axes, title)
        axes.set_xscale("log")
        axes.set_xlabel("step", fontsize=8, color=INK)
    panels[0].set_yscale("log")
    panels[0].set_ylim(1e-17, 1)
    for axes in (panels[1], panels[2], panels[4]):
        lowest = min(line.get_ydata().min() for line in axes.lines)
        axes.set_ylim(min(-0.04, lowest - 0.04), 1.04)
    panels[3].set_ylim(bottom=0)
    style = {"frameon": False, "fontsize": 7.5, "labelcolor": INK}
    for axes in (panels[0], panels[2], panels[4]):
        axes.legend(**style)
    panels[1].legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2, **style)
    save_figure(figure, path)
    return figure


def kappa_figure(
    points: Mapping[str, Mapping[int | str, Sequence[float]]], path: str | Path
) -> "Figure":
    """Draw errors over κ (mean and standard deviation over seeds) beside the Transformer's.

    Args:
        points: metric → κ, or ``"Transformer"`` → one error per seed.
        path: file of the picture.

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
    """Draw learning curves, one line per model: mean and standard deviation over seeds.

    Args:
        curves: model → name of a curve → one list per seed, one number per epoch.
        path: file of the picture.
        panels: name of a curve → title (default: test accuracy and training loss).

    """
    panels = panels or {"accuracy": "Test accuracy", "loss": "Training loss"}
    figure, grid = LIGHT.panels(1, len(panels), 4.2, 3.1)
    for axes, (name, title) in zip(grid[0], panels.items(), strict=True):
        for label, style in _styles(curves).items():
            runs = np.asarray(curves[label][name], dtype=float)
            if runs.ndim != 2:
                raise FighterError(
                    f"{name} of {label} needs one list of equal length per seed", argument="curves"
                )
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
    """Choose a colour and a marker per model: dark to light in order, the Transformer in ink."""
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
    """Return mean and standard deviation over seeds (the first axis); 0 for one seed."""
    runs = np.asarray(runs, dtype=float)
    return runs.mean(0), runs.std(0, ddof=1) if len(runs) > 1 else np.zeros_like(runs[0])
