"""Pictures of two forecasts and the parts of their difference."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from .forecasts import Track
from .theme import LIGHT, label

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_PARTS = 7  # that are drawn by themselves


def draw(before: Track, after: Track, parts: Mapping[str, np.ndarray]) -> "Figure":
    """Draw both forecasts of a series above the parts of their difference, stacked by sign."""
    figure, ((top,), (below,)) = LIGHT.panels(2, 1, 9.0, 2.6)
    top.plot(before.past_times, before.past, color=LIGHT.ink, lw=1.1, label="observed")
    marker = "o" if len(before.times) == 1 else None  # a line needs two points
    top.plot(
        before.times,
        before.forecast,
        marker=marker,
        color=LIGHT.ink,
        ls="--",
        lw=1.1,
        label="before",
    )
    top.plot(after.times, after.forecast, marker=marker, color=LIGHT.accent, lw=1.6, label="after")
    LIGHT.tidy(top, label(before.name, 60))
    order = sorted(parts, key=lambda name: -np.abs(parts[name]).sum())
    shown = {name: parts[name] for name in order[:MOST_PARTS]}
    if len(order) > MOST_PARTS:
        shown["other parts"] = np.sum([parts[name] for name in order[MOST_PARTS:]], axis=0)
    up, down = np.zeros(len(before.times)), np.zeros(len(before.times))
    steps = np.arange(1, len(before.times) + 1)
    for (name, values), colour in zip(shown.items(), LIGHT.steps(len(shown)), strict=True):
        base = np.where(values > 0, up, down)
        below.bar(steps, values, bottom=base, color=colour, label=label(name, 40))
        up, down = up + np.maximum(values, 0), down + np.minimum(values, 0)
    difference = after.forecast - before.forecast
    below.plot(steps, difference, marker=marker, color=LIGHT.ink, lw=1.2, label="difference")
    below.set_xlabel("step")
    below.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
    LIGHT.tidy(below, "parts of the difference")
    if before.times.dtype.kind == "M":
        LIGHT.time_axis(top)
    for axes in (top, below):
        axes.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure
