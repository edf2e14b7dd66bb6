"""Panels that a layer's numbers are drawn in, whatever they are compared by."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..explain.findings import THRESHOLDS
from .theme import Theme, dark_to_light, log_norm, power_name, signed_norm

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Grid = Mapping[str, Mapping[int, np.ndarray]]

NUMBERS = {
    "dispersion": "dispersion (below 0.05: one row for all)",
    "entropy": "entropy (1: all sources alike)",
    "mean_lag": "mean lag, steps",
    "norm_share": "share of the norm",
    "signed_share": "signed share (adds up to 1)",
    "redundancy": "likeness to the next hop (cosine)",
}


def hop_maps(
    graphs: Grid, edges: Mapping[str, np.ndarray], look: Theme
) -> "tuple[Figure, np.ndarray]":
    """Powers of A side by side, and what was sent along them.

    Args:
        graphs: row → power → Aⁱ ``[nodes, nodes]``.
        edges: row → signed edges ``[nodes, nodes]``, all hops together; shown as shares of Σ|E|.
        look: the colours.

    """
    powers = sorted({power for row in graphs.values() for power in row})
    figure, grid = look.panels(len(graphs), len(powers) + 1, 2.0, 2.1, left=0.5, below=1.0)
    shares = {label: edge / max(np.abs(edge).sum(), 1e-300) for label, edge in edges.items()}
    signs = signed_norm(list(shares.values()))
    norm = log_norm([graph for row in graphs.values() for graph in row.values()])
    image, signed = None, None
    for axes_row, (label, row) in zip(grid, graphs.items(), strict=True):
        for axes, power in zip(axes_row, powers, strict=False):
            if power in row:
                image = look.heatmap(axes, row[power], norm=norm, cmap=dark_to_light())
                axes.set_title(power_name(power), **look.title())
            else:
                axes.text(0.5, 0.5, "not used", **_centred(look))
                axes.set(xticks=[], yticks=[])
                axes.spines[:].set_visible(False)
        last = axes_row[-1]
        signed = look.heatmap(last, shares[label], norm=signs, cmap=look.signed())
        last.set_title("edges: what was sent", **look.title())
        axes_row[0].set_ylabel(label, fontsize=10, color=look.ink)
    look.bar(figure, image, grid[:, :-1], "attention weight (log scale)", "bottom")
    look.bar(figure, signed, grid[:, -1], "share of Σ|edges| (log scale)", "bottom")
    return figure, grid


def diagnostics_panels(
    tables: Mapping[str, Sequence[Mapping[str, Any]]],
    look: Theme,
    styles: Mapping[str, Mapping[str, Any]],
    numbers: Mapping[str, str] = NUMBERS,
    legend: str = "lower center",
) -> "Figure":
    """What each hop does: the mean over heads as a line, each head as a dot.

    Args:
        tables: line → rows of :meth:`.HopDiagnostics.table`.
        look: the colours.
        styles: line → how it is drawn.
        numbers: what is shown, with its title.
        legend: where it stands, outside.

    """
    figure, grid = look.panels(2, 3, 3.1, 2.3)
    places = dict(zip(numbers, grid.ravel(), strict=True))
    for nth, (label, style) in enumerate(styles.items()):
        aside = 0.07 * (nth - (len(tables) - 1) / 2)  # or lines that agree would hide each other
        gap = _mean([row["spectral_gap"] for row in tables[label]])
        for name, axes in places.items():
            rows = [row for row in tables[label] if row[name] is not None]
            powers = sorted({row["power"] for row in rows})
            means = [_mean([r[name] for r in rows if r["power"] == power]) for power in powers]
            axes.plot(np.add(powers, aside), means, label=f"{label} (gap {gap:.2f})", **style)
            dots = {"color": style["color"], "s": 7, "alpha": 0.35, "lw": 0}
            axes.scatter([r["power"] + aside for r in rows], [r[name] for r in rows], **dots)
    highest = max(row["power"] for rows in tables.values() for row in rows)
    for name, axes in places.items():
        look.tidy(axes, numbers[name])
        axes.set_xticks(range(highest + 1), [power_name(p) for p in range(highest + 1)])
        axes.set_xlim(-0.4, highest + 0.4)
    spread = places["dispersion"]
    spread.set_yscale("log")
    spread.set_ylim(bottom=max(spread.get_ylim()[0], 1e-4))
    places["entropy"].set_ylim(-0.04, 1.04)
    places["signed_share"].axhline(0, color=look.faint, lw=1, zorder=0)
    for name, axes in places.items():
        limit, (low, high) = THRESHOLDS[name].limit, axes.get_ylim()
        if low < limit < high:  # from where on something is said of it
            axes.axhline(limit, color=look.faint, lw=1, ls="--", zorder=0)
        if not any(np.isfinite(line.get_ydata()).any() for line in axes.lines[: len(tables)]):
            axes.text(0.5, 0.5, "not defined", transform=axes.transAxes, **_centred(look))
    beside = legend.startswith("upper")  # a headline
    look.legend(figure, grid[0, 0], columns=2 if beside else 6, where=legend)
    return figure


def _centred(look: Theme) -> dict[str, Any]:
    return {"ha": "center", "va": "center", "fontsize": 8, "color": look.ink}


def _mean(numbers: Sequence[float | None]) -> float:
    return float(np.mean([number for number in numbers if number is not None]))
