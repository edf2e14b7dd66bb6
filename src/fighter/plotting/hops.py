"""Panels of powers of A and of the diagnostics of each hop, whatever their rows and lines are."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .theme import Theme, dark_to_light, log_norm, power_name, signed_norm

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Grid = Mapping[str, Mapping[int, np.ndarray]]

TITLES = {
    "dispersion": "dispersion (below 0.05: one row for all)",
    "entropy": "entropy (1: all sources alike)",
    "mean_lag": "mean lag, steps",
    "norm_share": "share of the norm",
    "signed_share": "signed share (adds up to 1)",
    "redundancy": "likeness to the next hop (cosine)",
}


def hop_maps(
    graphs: Grid, edges: Mapping[str, np.ndarray], theme: Theme
) -> "tuple[Figure, np.ndarray]":
    """Draw the powers of A side by side, and what was sent along them.

    A row has a graph Aⁱ ``[nodes, nodes]`` for each power, and signed ``edges`` ``[nodes, nodes]``,
    all hops together, which are shown as shares of Σ|E|.
    """
    powers = sorted({power for row in graphs.values() for power in row})
    figure, grid = theme.panels(len(graphs), len(powers) + 1, 2.0, 2.1, left=0.5, below=1.0)
    shares = {name: edge / max(np.abs(edge).sum(), 1e-300) for name, edge in edges.items()}
    weight_norm = log_norm([graph for row in graphs.values() for graph in row.values()])
    share_norm = signed_norm(list(shares.values()))
    weights, sent = None, None
    for axes_row, (name, row) in zip(grid, graphs.items(), strict=True):
        for axes, power in zip(axes_row, powers, strict=False):
            if power in row:
                weights = theme.heatmap(axes, row[power], norm=weight_norm, cmap=dark_to_light())
                axes.set_title(power_name(power), **theme.title())
            else:
                axes.text(0.5, 0.5, "not used", **_centred(theme))
                axes.set(xticks=[], yticks=[])
                axes.spines[:].set_visible(False)
        last = axes_row[-1]
        sent = theme.heatmap(last, shares[name], norm=share_norm, cmap=theme.signed())
        last.set_title("edges: what was sent", **theme.title())
        axes_row[0].set_ylabel(name, fontsize=10, color=theme.ink)
    theme.bar(figure, weights, grid[:, :-1], "attention weight (log scale)", "bottom")
    theme.bar(figure, sent, grid[:, -1], "share of Σ|edges| (log scale)", "bottom")
    return figure, grid


def diagnostics_panels(
    tables: Mapping[str, Sequence[Mapping[str, Any]]],
    theme: Theme,
    styles: Mapping[str, Mapping[str, Any]],
    titles: Mapping[str, str] = TITLES,
    *,
    thresholds: Mapping[str, float] = {},
    legend: str = "lower center",
) -> "Figure":
    """Draw what each hop does: the mean over heads as a line, each head as a dot.

    A line has a table as from ``HopDiagnostics.table`` and a style, which is matplotlib's arguments
    for it. A panel has a title and perhaps a threshold, the height of a dashed line.
    """
    figure, grid = theme.panels(2, 3, 3.1, 2.3)
    panels = dict(zip(titles, grid.ravel(), strict=True))
    for nth, (line, style) in enumerate(styles.items()):
        aside = 0.07 * (nth - (len(tables) - 1) / 2)  # or lines that agree would hide each other
        gap = _mean([row["spectral_gap"] for row in tables[line]])
        for name, axes in panels.items():
            rows = [row for row in tables[line] if row[name] is not None]
            powers = sorted({row["power"] for row in rows})
            means = [_mean([r[name] for r in rows if r["power"] == power]) for power in powers]
            axes.plot(np.add(powers, aside), means, label=f"{line} (gap {gap:.2f})", **style)
            dots = {"color": style["color"], "s": 7, "alpha": 0.35, "lw": 0}
            axes.scatter([r["power"] + aside for r in rows], [r[name] for r in rows], **dots)
    highest = max(row["power"] for rows in tables.values() for row in rows)
    for name, axes in panels.items():
        theme.tidy(axes, titles[name])
        axes.set_xticks(range(highest + 1), [power_name(p) for p in range(highest + 1)])
        axes.set_xlim(-0.4, highest + 0.4)
    dispersion = panels["dispersion"]
    dispersion.set_yscale("log")
    dispersion.set_ylim(bottom=max(dispersion.get_ylim()[0], 1e-4))
    panels["entropy"].set_ylim(-0.04, 1.04)
    panels["signed_share"].axhline(0, color=theme.faint, lw=1, zorder=0)
    for name, axes in panels.items():
        low, high = axes.get_ylim()
        if name in thresholds and low < thresholds[name] < high:
            axes.axhline(thresholds[name], color=theme.faint, lw=1, ls="--", zorder=0)
        if not any(np.isfinite(line.get_ydata()).any() for line in axes.lines[: len(tables)]):
            axes.text(0.5, 0.5, "not defined", transform=axes.transAxes, **_centred(theme))
    columns = 2 if legend.startswith("upper") else 6  # the headline stands there too
    theme.legend(figure, grid[0, 0], columns, where=legend)
    return figure


def _centred(theme: Theme) -> dict[str, Any]:
    return {"ha": "center", "va": "center", "fontsize": 8, "color": theme.ink}


def _mean(numbers: Sequence[float | None]) -> float:
    return float(np.mean([number for number in numbers if number is not None]))
