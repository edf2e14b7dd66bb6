"""Pictures of the network of a table: a circle of arrows, or a matrix of many series."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from .._files import check_target
from ..errors import FighterError, check_count, check_number
from .theme import PICTURES, Theme, label, labels, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

KINDS = ("circle", "matrix")
MOST_IN_CIRCLE = 30  # series; a matrix shows more
MOST_NAMES = 60  # along a side of a matrix


class _Network(Protocol):
    """What the pictures need of a ``fighter.Network``."""

    ids: tuple
    strength: np.ndarray
    lag: np.ndarray
    sign: np.ndarray
    windows: int
    notes: Sequence[str]
    links: Any

    def order(self) -> np.ndarray: ...


def draw_network(
    network: Any,
    path: str | Path | None = None,
    *,
    kind: str | None = None,
    top: int,
    stability: float,
    dark: bool | None = None,
) -> "Figure":
    """Draw a ``Network``; ``Network.plot`` describes the arguments."""
    if kind not in (None, *KINDS):
        raise FighterError(f"needs one of {', '.join(KINDS)}", argument="kind", value=kind)
    check_count("top", top)
    check_number("stability", stability, "a number from 0 to 1", lambda s: 0 <= s <= 1)
    if path is not None:
        check_target(Path(path), PICTURES)
    few = len(network.ids) <= MOST_IN_CIRCLE
    theme, draw = Theme.follow(dark), _circle if (kind or KINDS[not few]) == "circle" else _matrix
    drawn = network.links.strongest(top, stability)
    figure = draw(network, drawn, theme)
    links = f"{len(drawn):,} link{'s' * (len(drawn) != 1)}"
    whole = f"Who follows whom: {links} of {len(network.ids):,} series"
    why = network.notes[0] if network.notes else "links of Granger's kind, not causes"
    figure.suptitle(f"{whole}\n{label(why, 90)}", fontsize=9, color=theme.ink)
    if path is not None:
        save_figure(figure, path)
    return figure


def _circle(network: _Network, drawn: list[tuple[int, int]], theme: Theme) -> "Figure":
    """Draw an arrow for each link: its colour is the lag, its width the strength."""
    from matplotlib.patches import FancyArrowPatch

    figure, grid = theme.panels(1, 1, 7.2, 6.4)
    axes, count = grid[0, 0], len(network.ids)
    angle = np.pi / 2 - 2 * np.pi * np.arange(count) / count
    place = np.zeros((count, 2))
    place[network.order()] = np.stack([np.cos(angle), np.sin(angle)], 1)
    colours, norm = _lag_colours(network, drawn, theme)
    largest = max((network.strength[link] for link in drawn), default=1.0)
    for source, target in reversed(drawn):  # the strongest on top
        size = network.strength[source, target] / largest
        style = {"ls": "-" if network.sign[source, target] >= 0 else (0, (4, 2))}
        bend = {"shrinkA": 9, "shrinkB": 9, "connectionstyle": _bend(place[source], place[target])}
        width = 0.6 + 3.4 * size
        arrow = FancyArrowPatch(
            place[source], place[target], arrowstyle=f"-|>,head_length={3 + width},head_width=3",
            lw=width, color=colours(norm(network.lag[source, target])),
            alpha=0.35 + 0.6 * size, **style, **bend,
        )  # fmt: skip
        axes.add_patch(arrow)
    axes.scatter(*place.T, s=36, color=theme.ink, zorder=4)
    for name, (x, y) in zip(labels(network.ids, 22 if count <= 12 else 16), place, strict=True):
        side = "center" if abs(x) < 0.2 else ("left" if x > 0 else "right")
        above = "bottom" if y > 0.97 else ("top" if y < -0.97 else "center")
        at = {"ha": side, "va": above, "fontsize": 8, "color": theme.ink}
        axes.text(1.07 * x, 1.07 * y, name, **at)
    axes.set(xlim=(-1.5, 1.5), ylim=(-1.2, 1.2), aspect="equal")
    axes.axis("off")
    _lag_bar(figure, axes, colours, norm, _least_lag(network, drawn), theme)
    note = "width: strength · colour: lag in steps · dashed: a higher source pulls down"
    figure.supxlabel(note, fontsize=7.5, color=theme.ink)
    return figure


def _bend(start: np.ndarray, end: np.ndarray) -> str:
    """Return how an arrow bends: to the centre, and less if it goes with the clock."""
    across = start[0] * end[1] - start[1] * end[0]
    return f"arc3,rad={-0.12 if across >= 0 else 0.26}"


def _matrix(network: _Network, drawn: list[tuple[int, int]], theme: Theme) -> "Figure":
    """Draw a cell for each link; series with strong links are neighbours."""
    from matplotlib.colors import to_rgb

    figure, grid = theme.panels(1, 1, 8.0, 7.2)
    axes, order, count = grid[0, 0], network.order(), len(network.ids)
    place = np.argsort(order)
    colours, norm = _lag_colours(network, drawn, theme)
    cells = np.tile(np.array(to_rgb(theme.ground)), (count, count, 1))
    largest = max((network.strength[link] for link in drawn), default=1.0)
    for source, target in drawn:
        shade = 0.3 + 0.7 * network.strength[source, target] / largest
        colour = np.array(colours(norm(network.lag[source, target])))[:3]
        cell = shade * colour + (1 - shade) * np.array(to_rgb(theme.ground))
        cells[place[target], place[source]] = cell
    axes.plot([-0.5, count - 0.5], [-0.5, count - 0.5], color=theme.faint, lw=0.6, zorder=1)
    wide = count > 150  # a cell would be less than three points: mark it by a dot
    if wide and drawn:
        rows, columns = (place[[link[i] for link in drawn]] for i in (1, 0))
        sizes = [4 + 22 * network.strength[link] / largest for link in drawn]
        axes.scatter(columns, rows, s=sizes, c=cells[rows, columns], lw=0, zorder=2)
        axes.set(xlim=(-0.5, count - 0.5), ylim=(count - 0.5, -0.5), aspect="equal")
    else:
        axes.imshow(cells, interpolation="nearest", zorder=0)
    step = -(-count // MOST_NAMES)
    shown, size = range(0, count, step), 7 if count <= 40 else 5
    if step > 1:  # those that most links lead from or to
        busy = np.bincount(place[[i for link in drawn for i in link]], minlength=count)
        shown = sorted(_apart(busy, MOST_NAMES, max(count // 90, 1)))
    names = labels(network.ids, 18)
    ticks = [names[order[i]] for i in shown]
    axes.set_xticks(list(shown), ticks, rotation=90)
    axes.set_yticks(list(shown), ticks)
    axes.set_xlabel("source", fontsize=8, color=theme.ink)
    axes.set_ylabel("target", fontsize=8, color=theme.ink)
    axes.tick_params(labelsize=size, labelcolor=theme.ink, color=theme.faint, length=2)
    axes.spines[:].set_color(theme.faint)
    _lag_bar(figure, axes, colours, norm, _least_lag(network, drawn), theme)
    note = "shade: strength · colour: lag in steps · series with strong links are neighbours"
    figure.supxlabel(note, fontsize=7.5, color=theme.ink)
    return figure


def _apart(busy: np.ndarray, most: int, gap: int) -> list[int]:
    """Choose the busiest places, none closer to another than a gap."""
    chosen: list[int] = []
    for place in np.argsort(-busy, kind="stable").tolist():
        if len(chosen) == most or not busy[place]:
            break
        if all(abs(place - other) > gap for other in chosen):
            chosen.append(place)
    return chosen


def _lag_colours(network: _Network, drawn: list[tuple[int, int]], theme: Theme) -> tuple[Any, Any]:
    """Return a colour map and a logarithmic scale of lags."""
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap, LogNorm

    lags = [int(network.lag[link]) for link in drawn] or [1]
    shades = colormaps["plasma"](np.linspace(*theme.shades, 256))
    low, high = max(min(lags), 1), max(max(lags), 2)
    return ListedColormap(shades), LogNorm(min(low, high - 1), high)


def _least_lag(network: _Network, drawn: list[tuple[int, int]]) -> int:
    return min((int(network.lag[link]) for link in drawn), default=0)


def _lag_bar(
    figure: "Figure", axes: "Axes", colours: Any, norm: Any, least: int, theme: Theme
) -> None:
    from matplotlib.cm import ScalarMappable

    if not least:
        axes.text(
            0.5, 0.5, "no stable link", transform=axes.transAxes, ha="center", color=theme.ink
        )
        return
    bar = figure.colorbar(ScalarMappable(norm, colours), ax=axes, shrink=0.5, aspect=30, pad=0.02)
    ticks = sorted({round(tick) for tick in np.geomspace(norm.vmin, norm.vmax, 4)})
    ticks = ticks[int(ticks[0] < least) :]
    bar.minorticks_off()
    bar.set_ticks(ticks, labels=[f"{tick:,}" for tick in ticks])
    bar.set_label("lag in steps", fontsize=8, color=theme.ink)
    bar.ax.tick_params(labelsize=7, labelcolor=theme.ink, color=theme.faint)
    bar.outline.set_visible(False)
