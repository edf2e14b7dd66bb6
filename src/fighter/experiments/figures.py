"""The paper's figures, drawn from what was measured here."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import FighterError, needs_extra
from ..plots import FAINT, INK, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

# Okabe and Ito's colours, which can be told apart whatever one's eyes.
BLUE, ORANGE, GREEN, VERMILION, PURPLE = "#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7"
REFERENCE = "Transformer"  # drawn in ink, whatever else is in a figure
HIGHEST = 99.8  # percentile of the entries where a colour scale ends

Grid = Mapping[str, Mapping[int, np.ndarray]]


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
    figure, grid = _panels(len(snapshots), len(epochs), 1.95, 1.9, left=0.5, below=0.4)
    norm = _log_norm([graph for row in snapshots.values() for graph in row.values()])
    image = None
    for axes_row, (label, row) in zip(grid, snapshots.items(), strict=True):
        for axes, epoch in zip(axes_row, epochs, strict=True):
            if epoch in row:
                image = _heatmap(axes, row[epoch], norm=norm, cmap=_dark_to_light())
            else:
                axes.set_visible(False)
        axes_row[0].set_ylabel(label, fontsize=10, color=INK)
    for axes, epoch in zip(grid[0], epochs, strict=True):
        axes.set_title(f"epoch {epoch}", **_title())
    _bar(figure, image, grid, "attention weight (log scale)", "right")
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
    powers = sorted({power for row in graphs.values() for power in row})
    figure, grid = _panels(len(graphs), len(powers) + 1, 2.0, 2.1, left=0.5, below=1.0)
    shares = {label: edge / max(np.abs(edge).sum(), 1e-300) for label, edge in edges.items()}
    signed_norm = _signed_norm(list(shares.values()))
    norm = _log_norm([graph for row in graphs.values() for graph in row.values()])
    image, signed = None, None
    for axes_row, (label, row) in zip(grid, graphs.items(), strict=True):
        for axes, power in zip(axes_row, powers, strict=False):
            if power in row:
                image = _heatmap(axes, row[power], norm=norm, cmap=_dark_to_light())
                axes.set_title(_power(power), **_title())
            else:
                axes.text(0.5, 0.5, "not used", ha="center", va="center", fontsize=8, color=INK)
                axes.set(xticks=[], yticks=[])
                axes.spines[:].set_visible(False)
        last = axes_row[-1]
        signed = _heatmap(last, shares[label], norm=signed_norm, cmap="RdBu_r")
        last.set_title("edges: what was sent", **_title())
        axes_row[0].set_ylabel(label, fontsize=10, color=INK)
    _bar(figure, image, grid[:, :-1], "attention weight (log scale)", "bottom")
    _bar(figure, signed, grid[:, -1], "share of Σ|edges| (log scale)", "bottom")
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
    panels = {
        "dispersion": "dispersion (below 0.05: one row for all)",
        "entropy": "entropy (1: all sources alike)",
        "mean_lag": "mean lag, steps",
        "norm_share": "share of the norm",
        "signed_share": "signed share (adds up to 1)",
        "redundancy": "likeness to the next hop (cosine)",
    }
    figure, grid = _panels(2, 3, 3.1, 2.3)
    for nth, (label, style) in enumerate(_styles(tables).items()):
        aside = 0.07 * (nth - (len(tables) - 1) / 2)  # or models that agree would hide each other
        gap = _mean([row["spectral_gap"] for row in tables[label]])
        for axes, name in zip(grid.ravel(), panels, strict=True):
            rows = [row for row in tables[label] if row[name] is not None]
            powers = sorted({row["power"] for row in rows})
            means = [_mean([r[name] for r in rows if r["power"] == power]) for power in powers]
            places = np.add(powers, aside)
            axes.plot(places, means, label=f"{label} (gap {gap:.2f})", **style)
            dots = {"color": style["color"], "s": 7, "alpha": 0.35, "lw": 0}
            axes.scatter([r["power"] + aside for r in rows], [r[name] for r in rows], **dots)
    highest = max(row["power"] for rows in tables.values() for row in rows)
    for axes, title in zip(grid.ravel(), panels.values(), strict=True):
        _tidy(axes, title)
        axes.set_xticks(range(highest + 1), [_power(p) for p in range(highest + 1)])
        axes.set_xlim(-0.4, highest + 0.4)
    grid[0, 0].set_yscale("log")
    grid[0, 0].set_ylim(bottom=max(grid[0, 0].get_ylim()[0], 1e-4))
    grid[0, 0].axhline(0.05, color=FAINT, lw=1, zorder=0)  # below it, one row for all
    grid[0, 1].set_ylim(-0.04, 1.04)
    grid[1, 1].axhline(0, color=FAINT, lw=1, zorder=0)
    _legend(figure, grid[0, 0], columns=6)
    save_figure(figure, path)
    return figure


def backward_figure(result: Mapping[str, Any], path: str | Path) -> "Figure":
    """A Transformer's gradients beside a GCN's, from :func:`.backward.measure`."""
    figure, grid = _panels(2, 3, 3.5, 2.5)
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
        _tidy(axes, title)
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
    figure, grid = _panels(1, len(points), 4.2, 2.9)
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
        _tidy(axes, f"Test {metric}")
        axes.set_xticks(kappas)
        axes.set_xlabel("κ", fontsize=9, color=INK)
    _legend(figure, grid[0, 0], columns=2)
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
    figure, grid = _panels(1, len(panels), 4.2, 3.1)
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
        _tidy(axes, title)
        axes.set_xlabel("epoch", fontsize=9, color=INK)
    _legend(figure, grid[0, 0], columns=6)
    save_figure(figure, path)
    return figure


def _panels(
    rows: int, columns: int, width: float, height: float, *, left: float = 0, below: float = 0.4
) -> tuple["Figure", np.ndarray]:
    with needs_extra("matplotlib", "plot"):
        from matplotlib.figure import Figure
    if not rows or not columns:
        raise FighterError(
            "there is nothing to draw: give at least one model and one of its graphs"
        )
    size = (width * columns + left, height * rows + below)
    figure = Figure(figsize=size, layout="constrained", facecolor="white")
    return figure, figure.subplots(rows, columns, squeeze=False)


def _heatmap(axes: "Axes", graph: np.ndarray, **colours: Any) -> "AxesImage":
    image = axes.imshow(graph, interpolation="nearest", **colours)
    ticks = [*range(0, len(graph) - 8, 16), len(graph) - 1]
    axes.set(xticks=ticks, yticks=ticks)
    axes.tick_params(labelsize=6.5, colors=INK, color=FAINT, length=2)
    axes.spines[:].set_color(FAINT)
    return image


def _log_norm(graphs: Sequence[np.ndarray]) -> Any:
    from matplotlib.colors import LogNorm

    entries = np.concatenate([np.ravel(graph) for graph in graphs])
    low, high = np.percentile(entries[entries > 0], [1, HIGHEST])
    return LogNorm(low, max(high, 2 * low), clip=True)


def _dark_to_light() -> Any:
    from matplotlib import colormaps

    return colormaps["cividis"].with_extremes(bad=colormaps["cividis"](0.0))  # log(0) is the lowest


def _signed_norm(edges: Sequence[np.ndarray]) -> Any:
    """Two decades on each side of zero, linear in between: what a node keeps is much the most."""
    from matplotlib.colors import SymLogNorm

    most = max(float(np.percentile(np.abs(np.stack(edges)), HIGHEST)), 1e-300)
    return SymLogNorm(most / 100, vmin=-most, vmax=most, clip=True)


def _bar(
    figure: "Figure", image: "AxesImage | None", panels: np.ndarray, label: str, location: str
) -> None:
    if image is None:
        return
    where = {"location": location, "shrink": 0.6, "aspect": 30, "pad": 0.02}
    bar = figure.colorbar(image, ax=panels.ravel().tolist(), extend="both", **where)
    low, high = image.get_clim()
    if low < 0:  # a signed scale has too many decades to name them all
        bar.set_ticks([low, low / 10, 0, high / 10, high], minor=False)
        bar.set_ticklabels([f"{low:.1g}", "", "0", "", f"{high:.1g}"])
        bar.minorticks_off()
    bar.set_label(label, fontsize=8, color=INK)
    bar.ax.tick_params(labelsize=7, colors=INK, color=FAINT, which="both")
    bar.outline.set_visible(False)


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


def _tidy(axes: "Axes", title: str) -> None:
    axes.set_title(title, **_title())
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(FAINT)
    axes.tick_params(labelsize=7.5, colors=INK, color=FAINT, which="both")


def _title() -> dict[str, Any]:
    return {"fontsize": 8.5, "color": INK, "loc": "left"}


def _legend(figure: "Figure", axes: "Axes", columns: int) -> None:
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        loc="outside lower center",
        ncols=columns,
        frameon=False,
        fontsize=8,
        labelcolor=INK,
    )


def _power(power: int) -> str:
    return {0: "I", 1: "A"}.get(
        power, "A" + str(power).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
    )


def _mean(numbers: Sequence[float | None]) -> float:
    return float(np.mean([number for number in numbers if number is not None]))


def _moments(runs: Any) -> tuple[Any, Any]:
    """Mean and standard deviation over seeds (the first axis); one seed has no deviation."""
    runs = np.asarray(runs, dtype=float)
    return runs.mean(0), runs.std(0, ddof=1) if len(runs) > 1 else np.zeros_like(runs[0])
