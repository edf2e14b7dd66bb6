"""Pictures of the graph behind one forecast, in light and dark."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from .._files import check_target
from ..data.frequency import Frequency
from ..data.time_axis import TimeAxis
from ..errors import FighterError
from .hops import TITLES, diagnostics_panels, hop_maps
from .theme import PICTURES, Theme, label, labels, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

KINDS = ("sources", "lags", "arcs", "series", "hops", "diagnostics")
MOST_DOTS, MOST_ARCS, MOST_ARROWS = 40, 60, 40
MOST_PANELS, MOST_ROWS, MOST_DISCS = 5, 9, 15  # series shown, the target among them
MOST_HOPS = 6  # with a colour of their own
MOST_NAMES, MOST_NOTES = 12, 8


class _Graph(Protocol):
    """What the pictures need of a ``fighter.explain.TemporalGraph``."""

    target: Any
    step: int
    time: int
    forecast: float
    ids: tuple
    times: np.ndarray  # int64 [L]
    lags: np.ndarray  # [L]
    past: np.ndarray  # [L, N]
    sources: np.ndarray  # [1 + hops, L, N]
    layers: Sequence[Any]  # a ``fighter.explain.LayerGraph`` each
    freq: Frequency
    axis: TimeAxis


def draw(
    graph: Any,
    kind: str = "sources",
    path: str | Path | None = None,
    *,
    dark: bool | None = None,
    head: int | None = None,
    notes: Sequence[str] = (),
    thresholds: Mapping[str, float] = {},
) -> "Figure":
    """Draw a ``TemporalGraph``; ``TemporalGraph.plot`` describes the kinds.

    "diagnostics" shows ``notes`` below its panels, and a dashed line at the ``thresholds`` by name.
    """
    if kind not in KINDS:
        raise FighterError(f"needs one of {', '.join(KINDS)}", argument="kind", value=kind)
    if kind in ("hops", "diagnostics") and not graph.layers:
        reason = f"the model has no layer with a graph; draw one of {', '.join(KINDS[:4])}"
        raise FighterError(reason, argument="kind", value=kind)
    if head is not None and kind != "hops":
        reason = f"only the picture of hops shows single heads, not that of {kind}"
        raise FighterError(reason, argument="head", value=head)
    if path is not None:
        check_target(Path(path), PICTURES)
    drawing = {
        "sources": _sources,
        "lags": _lags,
        "arcs": _arcs,
        "series": _series,
        "hops": partial(_hops, head=head),
        "diagnostics": partial(_diagnostics, notes=notes, thresholds=thresholds),
    }
    theme = Theme.follow(dark)
    figure = drawing[kind](graph, theme)
    _headline(figure, graph, theme, room=6.0 if kind == "diagnostics" else None)
    if path is not None:
        save_figure(figure, path)
    return figure


def _sources(graph: _Graph, theme: Theme) -> "Figure":
    """Draw the history and mark the past values with the largest parts."""
    shown = _important(graph)[:MOST_PANELS]
    size = {"below": 1.6, "sharex": True, "height_ratios": [1.6, *[1.0] * (len(shown) - 1)]}
    figure, grid = theme.panels(len(shown), 1, 9.0, 1.2, **size)
    times, (when,) = _stamps(graph, graph.times), _stamps(graph, [graph.time])
    parts = graph.sources.sum(0)
    largest = np.sort(np.abs(parts[:, shown]), axis=None)[::-1][:MOST_DOTS]
    for axes, series in zip(grid[:, 0], shown, strict=True):
        past, part = graph.past[:, series], parts[:, series]
        axes.plot(times, past, color=theme.ink, lw=0.9, alpha=0.75)
        if not np.isnan(past).all():
            axes.axhline(np.nanmean(past), color=theme.faint, lw=1, zorder=0)
        axes.axvline(when, color=theme.faint, lw=1, zorder=0)
        own = np.sort(np.abs(part))[-3:][0]  # mark the three largest in every panel
        marked = (np.abs(part) >= min(largest[-1], own)) & (part != 0)
        for sign, colour in ((1, theme.up), (-1, theme.down)):
            some = marked & (np.sign(part) == sign)
            size = 8 + 130 * np.abs(part[some]) / largest[0] if some.any() else 8
            name = "pulls up" if sign > 0 else "pulls down"
            style = {"color": colour, "alpha": 0.75, "lw": 0, "zorder": 3}
            axes.scatter(times[some], past[some], s=size, **style)
            axes.scatter([], [], s=40, label=name, **style)  # for the legend
        theme.tidy(axes, label(graph.ids[series], 60))
        axes.set_title(_total(graph, series), loc="right", fontsize=7.5, color=theme.ink)
        axes.locator_params(axis="y", nbins=4)
        axes.margins(x=0.01, y=0.12)
    first = grid[0, 0]
    point = {"color": theme.accent, "marker": "D", "ms": 6, "ls": "none", "zorder": 4}
    first.plot([when], [graph.forecast], label="forecast", **point)
    if graph.axis.kind != "integer":
        theme.time_axis(grid[-1, 0])
    theme.legend(figure, first, columns=3)
    return figure


def _lags(graph: _Graph, theme: Theme) -> "Figure":
    """Draw parts by lag, all series together, stacked by number of hops."""
    from matplotlib.ticker import MultipleLocator

    figure, grid = theme.panels(1, 1, 9.0, 3.4)
    axes, lags = grid[0, 0], graph.lags
    profile = graph.sources.sum(2)  # [1 + hops, L]
    if len(profile) > MOST_HOPS:
        profile = np.concatenate([profile[: MOST_HOPS - 1], profile[MOST_HOPS - 1 :].sum(0)[None]])
    names = ["no hop", "1 hop", *[f"{hop} hops" for hop in range(2, len(profile))]]
    if len(profile) < len(graph.sources):
        names[-1] += " and more"
    few = len(lags) <= 150  # with more lags, a thick line would hide the bars
    width = 0.9 if few else 1.0
    above, below = np.zeros(len(lags)), np.zeros(len(lags))
    for part, name, colour in zip(profile, names, theme.steps(len(profile)), strict=False):
        base = np.where(part > 0, above, below)
        axes.bar(lags, part, width, base, color=colour, lw=0, label=name)
        above, below = above + part.clip(min=0), below + part.clip(max=0)
    net = {"color": theme.ink, "lw": 1.1 if few else 0.4, "marker": "o" if few else None, "ms": 2}
    axes.plot(lags, profile.sum(0), label="net", **net)
    axes.axhline(0, color=theme.faint, lw=1, zorder=0)
    theme.tidy(axes, "part of the forecast by lag, all series together")
    axes.margins(x=0.01)
    axes.xaxis.set_major_locator(MultipleLocator(_every(len(lags), graph.freq.season)))
    unit = "" if graph.freq.unit == "integer" else f" of {graph.freq.span(1)}"
    axes.set_xlabel(f"lag, in steps{unit}", fontsize=8.5, color=theme.ink)
    theme.legend(figure, axes, columns=MOST_HOPS + 1)
    return figure


def _arcs(graph: _Graph, theme: Theme) -> "Figure":
    """Draw arcs from the past values with the largest parts to the forecast; upwards: pulls up."""
    from matplotlib.collections import LineCollection

    parts = graph.sources.sum(0)  # [L, N]
    seen = np.abs(parts).max(0) >= np.sort(np.abs(parts), axis=None)[-MOST_ARCS:][0]
    order = _important(graph)
    order = order[np.argsort(~(seen[order] | (order == order[0])), kind="stable")]
    groups, names = _groups(graph, order, min(MOST_ROWS, int(seen[order[1:]].sum()) + 2), 28)
    table = np.stack([parts[:, group].sum(1) for group in groups])  # [rows, L]
    figure, grid = theme.panels(1, 1, 9.0, 0.62 * len(table) + 0.8)
    axes = grid[0, 0]
    largest = np.sort(np.abs(table), axis=None)[::-1][:MOST_ARCS]
    x, (end,) = _numbers(graph, graph.times), _numbers(graph, [graph.time])
    angle = np.linspace(0, np.pi, 50)
    arcs, widths, colours = [], [], []
    for row, moment in np.argwhere((np.abs(table) >= largest[-1]) & (table != 0)):
        part, start = table[row, moment], x[moment]
        height = 0.46 * np.sqrt((end - start) / (end - x[0])) * np.sign(part)
        along = (start + end) / 2 - (end - start) / 2 * np.cos(angle)
        arcs.append(np.column_stack([along, height * np.sin(angle) - row]))
        widths.append(0.5 + 3.5 * abs(part) / largest[0])
        colours.append(theme.up if part > 0 else theme.down)
    for row in range(len(table)):
        axes.plot([x[0], end], [-row, -row], color=theme.faint, lw=1, zorder=0)
    if arcs:
        thin = np.argsort(widths)[::-1]  # draw thin arcs last, or wide ones would hide them
        style = {"linewidths": np.array(widths)[thin], "colors": [colours[i] for i in thin]}
        axes.add_collection(LineCollection([arcs[i] for i in thin], alpha=0.7, **style))
        starts, heights = np.array([arc[0] for arc in arcs]).T
        axes.scatter(starts, heights, s=np.array(widths) * 5, c=colours, lw=0, zorder=3)
    axes.axvline(end, color=theme.faint, lw=1, zorder=0)
    axes.plot([end], [0], marker="D", ms=6, color=theme.accent, zorder=4)
    theme.tidy(axes, f"the {len(arcs)} largest parts: above the line they pull up, below it down")
    axes.spines["left"].set_visible(False)
    axes.set_yticks(-np.arange(len(table)), names)
    axes.tick_params(axis="y", length=0)
    axes.set(ylim=(0.4 - len(table), 0.6), xlim=(x[0] - (end - x[0]) * 0.01, end))
    for row, group in enumerate(groups):
        place = {"xytext": (6, 0), "textcoords": "offset points", "va": "center"}
        axes.annotate(_total(graph, group), (end, -row), fontsize=7, color=theme.ink, **place)
    if graph.axis.kind != "integer":
        theme.time_axis(axes)
    return figure


def _series(graph: _Graph, theme: Theme) -> "Figure":
    """Draw series as discs around the target, with arrows for what they send each other."""
    from matplotlib.patches import Circle

    groups, names = _groups(graph, _important(graph), MOST_DISCS, 22)
    totals = np.array([graph.sources[:, :, group].sum() for group in groups])
    figure, grid = theme.panels(1, 1, 7.8, 5.2, below=0.5)
    axes, around = grid[0, 0], len(groups) - 1
    angle = 2 * np.pi * _turns(around)
    places = np.array([[0.0, 0.0], *zip(np.sin(angle), np.cos(angle), strict=True)])
    radii = 0.03 + 0.09 * np.sqrt(np.abs(totals) / (np.abs(totals).max() or 1.0))
    discs = []
    for nth, (place, radius) in enumerate(zip(places, radii, strict=True)):
        colour = theme.up if totals[nth] > 0 else theme.down
        edge = {"ec": theme.ink, "lw": 1.5} if nth == 0 else {"lw": 0}
        discs.append(Circle(tuple(place), radius, fc=colour, zorder=3, **edge))
        axes.add_patch(discs[-1])
        x, y = place
        side = 0 if abs(x) < 0.1 else np.sign(x)  # names stand beside their discs
        up = 0 if side else 1 if y > 0 and nth else -1
        style = {
            "ha": {0: "center", 1: "left", -1: "right"}[side],
            "va": {0: "center", 1: "bottom", -1: "top"}[up],
            "weight": "normal" if nth else "bold",
            "bbox": {"fc": theme.ground, "ec": "none", "alpha": 0.8 * (nth == 0), "pad": 1},
        }
        away, text = radius + 0.05, f"{names[nth]}\n{_signed(totals[nth])}"
        place = (x + side * away, y + up * away)
        axes.text(*place, text, fontsize=8, color=theme.ink, zorder=4, **style)
    _arrows(axes, _sent(graph, groups), discs, theme)
    axes.set(xlim=(-1.95, 1.95), ylim=(-1.25, 1.4), aspect="equal", xticks=[], yticks=[])
    axes.axis("off")
    title = "disc: net part of a series' past values; arrow: part sent to another series"
    axes.set_title(title, **theme.title())
    return figure


def _turns(count: int) -> np.ndarray:
    """Return where series stand around the target, in turns; none is below it, at its name."""
    if count < 3:
        return np.array([[], [1 / 4], [1 / 6, 5 / 6]][count])
    return (np.arange(count) + 0.5 * (count % 2 == 0)) / count


def _sent(graph: _Graph, groups: list[np.ndarray]) -> np.ndarray:
    """Return what groups of series sent each other ``[to, from]``, all layers, heads and hops.

    Where nodes are not series, only what each series sent to the target is known.
    """
    ids = tuple(map(str, graph.ids))
    edges = np.zeros((len(ids), len(ids)))
    for layer in graph.layers:
        if layer.nodes == ids:
            edges += layer.parts.sum((0, 1))
    if not edges.any():
        edges[graph.ids.index(graph.target)] = graph.sources.sum((0, 1))
    sent = np.array([[edges[np.ix_(to, of)].sum() for of in groups] for to in groups])
    np.fill_diagonal(sent, 0)  # what a series sends to itself is in its disc
    return sent


def _arrows(axes: "Axes", sent: np.ndarray, discs: list[Any], theme: Theme) -> None:
    from matplotlib.patches import FancyArrowPatch

    largest = np.sort(np.abs(sent), axis=None)[::-1][:MOST_ARROWS]
    for to, of in np.argwhere((np.abs(sent) >= max(largest[-1], 0.01 * largest[0])) & (sent != 0)):
        part, start, end = sent[to, of], discs[of], discs[to]
        size = abs(part) / largest[0]
        style = {"connectionstyle": "arc3,rad=0.13", "arrowstyle": "-|>", "zorder": 2}
        style |= {"color": theme.up if part > 0 else theme.down, "alpha": 0.35 + 0.5 * size}
        style |= {"lw": 0.6 + 3.4 * size, "mutation_scale": 7 + 8 * size}
        ends = {"patchA": start, "patchB": end, "shrinkA": 1, "shrinkB": 1}
        axes.add_patch(FancyArrowPatch(start.center, end.center, **ends, **style))


def _hops(graph: _Graph, theme: Theme, head: int | None) -> "Figure":
    """Draw Aⁱ of each layer, of one head or the mean of all, beside what was sent."""
    heads = min(layer.parts.shape[0] for layer in graph.layers)
    if head is not None and not (isinstance(head, int) and 0 <= head < heads):
        reason = f"needs a whole number from 0 to {heads - 1}"
        raise FighterError(reason, argument="head", value=head)
    own = slice(None) if head is None else slice(head, head + 1)
    graphs, edges = {}, {}
    for nth, layer in enumerate(graph.layers, start=1):
        powers = zip(layer.powers, layer.weights[own].mean(0), strict=True)
        # There is nothing to see in I.
        graphs[f"layer {nth}"] = {i: a for i, a in powers if i or layer.powers == (0,)}
        edges[f"layer {nth}"] = layer.parts[own].sum((0, 1))
    figure, grid = hop_maps(graphs, edges, theme)
    kind, ticks, names = _nodes(graph)
    for axes in grid.ravel():
        if axes.images:
            axes.set_xticks(ticks, names, rotation=90 if max(map(len, names)) > 3 else 0)
            axes.set_yticks(ticks, names)
            axes.tick_params(labelleft=axes in grid[:, 0], labelbottom=axes in grid[-1])
    which = "mean of heads" if head is None and heads > 1 else f"head {head or 0}"
    figure.supxlabel(f"source nodes: {kind}", fontsize=8.5, color=theme.ink)
    figure.supylabel(f"target nodes ({which})", fontsize=8.5, color=theme.ink)
    return figure


def _nodes(graph: _Graph) -> tuple[str, list[int], list[str]]:
    """Return what the nodes are, and the places and names of the ticks on their axis."""
    nodes, kind = graph.layers[0].nodes, _kind(graph)
    if kind == "series" and len(nodes) <= MOST_NAMES:
        return "series", list(range(len(nodes))), labels(nodes, 16)
    numbers = graph.lags if kind == "time" else np.arange(len(nodes)) + 1
    every = _every(len(nodes), graph.freq.season if kind == "time" else ())
    ticks = [place for place, number in enumerate(numbers) if number % every == 0]
    what = {
        "series": f"series, by number; {graph.ids.index(graph.target) + 1} is the target",
        "time": "time steps, by lag",
        "patch": "patches, by number",
    }
    return what[kind], ticks, [str(numbers[tick]) for tick in ticks]


def _every(count: int, seasons: tuple[int, ...]) -> int:
    """Return a round distance between ticks that gives 3 to 10 of them, where there is one."""
    round_ones = [digit * 10**zeros for zeros in range(6) for digit in (1, 2, 5)]
    cycles = [season * times for season in seasons[:1] for times in round_ones]
    return next((n for n in (*seasons, *cycles, *round_ones) if 3 <= count / n <= 10), 1)


def _diagnostics(
    graph: _Graph, theme: Theme, notes: Sequence[str], thresholds: Mapping[str, float]
) -> "Figure":
    """Draw what each hop of each layer does, above the notes."""
    tables = {f"layer {i}": g.diagnostics.table() for i, g in enumerate(graph.layers, start=1)}
    titles, kind = dict(TITLES), _kind(graph)
    if kind == "series":  # series have no order, so a lag between them means nothing
        ours = {"mean_lag": ("effective_sources", "effective sources")}
        titles = dict(ours.get(name, (name, title)) for name, title in TITLES.items())
    elif kind == "patch":
        titles["mean_lag"] = "mean lag, patches"
    looks = zip(tables, theme.steps(len(tables)), "osD^vPX*" * len(tables), strict=False)
    styles = {
        name: {"color": colour, "marker": marker, "ms": 3.5, "lw": 1.4}
        for name, colour, marker in looks
    }
    figure = diagnostics_panels(
        tables, theme, styles, titles, thresholds=thresholds, legend="upper right"
    )
    if notes:
        more = len(notes) - MOST_NOTES
        lines = [*notes[:MOST_NOTES], *([f"… and {more} more"] if more > 0 else [])]
        text = {"x": 0.01, "ha": "left", "fontsize": 8, "color": theme.ink}
        figure.supxlabel("\n".join(lines), **text)
        figure.set_figheight(figure.get_figheight() + 0.15 * len(lines))
    return figure


def _headline(figure: "Figure", graph: _Graph, theme: Theme, room: float | None = None) -> None:
    """Write which forecast this is, on two lines if it is wider than ``room`` (inches)."""
    when = graph.freq.show(graph.time)
    name, fact = label(graph.target, 40), f"at {when} (step {graph.step}): {graph.forecast:.4g}"
    fits = len(name) + len(fact) < 11 * (room or figure.get_figwidth())
    title = f"{name}{' ' if fits else chr(10)}{fact}"
    figure.suptitle(title, x=0.01, ha="left", fontsize=10.5, color=theme.ink)


def _important(graph: _Graph) -> np.ndarray:
    """Return the target, then the other series that have a part, the largest first."""
    sizes, target = np.abs(graph.sources).sum((0, 1)), graph.ids.index(graph.target)
    order = np.argsort(-sizes, kind="stable")
    return np.array([target, *(i for i in order if i != target and sizes[i] > 0)])


def _groups(
    graph: _Graph, order: np.ndarray, most: int, letters: int
) -> tuple[list[np.ndarray], list[str]]:
    """Return up to ``most`` groups of series and their names; the last may hold several series."""
    alone = len(order) if len(order) <= most else most - 1
    groups = [np.array([series]) for series in order[:alone]]
    names = labels([graph.ids[series] for series in order[:alone]], letters)
    if alone < len(order):
        groups.append(order[alone:])
        names.append(f"{len(order) - alone} others together")
    return groups, names


def _total(graph: _Graph, series: Any) -> str:
    """Return the part of some series in words, net and as a share."""
    parts = graph.sources[:, :, series]
    share = np.abs(parts).sum() / (np.abs(graph.sources).sum() or 1.0)
    return f"{_signed(parts.sum())} net, {share:.0%} of Σ|parts|"


def _signed(part: float) -> str:
    return f"{part:+.3g}".replace("-", "−")


def _kind(graph: _Graph) -> str:
    """Return what a node is: "series", "time" or "patch"."""
    nodes = graph.layers[0].nodes
    if nodes == tuple(map(str, graph.ids)):
        return "series"
    return "time" if nodes[0] == graph.freq.show(int(graph.times[0])) else "patch"


def _stamps(graph: _Graph, times: Any) -> np.ndarray:
    times = np.asarray(times)
    return times if graph.axis.kind == "integer" else times.astype("M8[ns]")


def _numbers(graph: _Graph, times: Any) -> np.ndarray:
    """Return times as matplotlib's numbers."""
    from matplotlib.dates import date2num

    stamps = _stamps(graph, times)
    return np.asarray(date2num(stamps) if stamps.dtype.kind == "M" else stamps, dtype=float)
