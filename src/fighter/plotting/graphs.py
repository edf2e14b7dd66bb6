"""Pictures of a forecast's graph, in light and dark."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._files import check_target
from ..errors import FighterError
from ..explain.findings import read
from .hops import NUMBERS, diagnostics_panels, hop_maps
from .theme import Theme, label, labels, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ..explain.graph import TemporalGraph

FORMATS = (".png", ".svg", ".pdf", ".jpg", ".jpeg", ".webp", ".eps", ".ps", ".tif", ".tiff")
MOST_DOTS, MOST_ARCS, MOST_ARROWS = 40, 60, 40
MOST_PANELS, MOST_ROWS, MOST_DISCS = 5, 9, 15  # series shown, the target among them
MOST_HOPS = 6  # with a colour of their own
MOST_NAMES, MOST_SENTENCES = 12, 8


def draw(
    graph: "TemporalGraph",
    kind: str = "sources",
    path: str | Path | None = None,
    *,
    dark: bool | None = None,
    head: int | None = None,
) -> "Figure":
    """See :meth:`.TemporalGraph.plot`."""
    if kind not in KINDS:
        raise FighterError(f"kind={kind!r}: needs one of {', '.join(KINDS)}")
    if path is not None:
        check_target(Path(path), FORMATS)
    look = Theme.follow(dark)
    if head is not None and kind != "hops":
        raise FighterError(f"head={head}: only kind='hops' shows heads apart, not {kind!r}")
    figure = _hops(graph, look, head) if head is not None else KINDS[kind](graph, look)
    if path is not None:
        save_figure(figure, path)
    return figure


def _sources(graph: "TemporalGraph", look: Theme) -> "Figure":
    """The history, with the past values lit up that count."""
    shown = _important(graph)[:MOST_PANELS]
    ratios = [1.6, *[1.0] * (len(shown) - 1)]
    size = {"below": 1.6, "sharex": True, "height_ratios": ratios}
    figure, grid = look.panels(len(shown), 1, 9.0, 1.2, **size)
    times, (when,) = _stamps(graph, graph.times), _stamps(graph, [graph.time])
    parts = graph.sources.sum(0)
    largest = np.sort(np.abs(parts[:, shown]), axis=None)[::-1][:MOST_DOTS]
    for axes, series in zip(grid[:, 0], shown, strict=True):
        past, part = graph.past[:, series], parts[:, series]
        axes.plot(times, past, color=look.ink, lw=0.9, alpha=0.75)
        if not np.isnan(past).all():
            axes.axhline(np.nanmean(past), color=look.faint, lw=1, zorder=0)
        axes.axvline(when, color=look.faint, lw=1, zorder=0)
        own = np.sort(np.abs(part))[-3:][0]  # some in each, or it would not be here
        lit = (np.abs(part) >= min(largest[-1], own)) & (part != 0)
        for sign, colour in ((1, look.up), (-1, look.down)):
            some = lit & (np.sign(part) == sign)
            size = 8 + 130 * np.abs(part[some]) / largest[0] if some.any() else 8
            way = "pulls up" if sign > 0 else "pulls down"
            style = {"color": colour, "alpha": 0.75, "lw": 0, "zorder": 3}
            axes.scatter(times[some], past[some], s=size, **style)
            axes.scatter([], [], s=40, label=way, **style)  # for the legend
        look.tidy(axes, label(graph.ids[series], 60))
        axes.set_title(_worth(graph, series), loc="right", fontsize=7.5, color=look.ink)
        axes.locator_params(axis="y", nbins=4)
        axes.margins(x=0.01, y=0.12)
    first = grid[0, 0]
    point = {"color": look.accent, "marker": "D", "ms": 6, "ls": "none", "zorder": 4}
    first.plot([when], [graph.forecast], label="forecast", **point)
    _time_axis(graph, grid[-1, 0], look)
    look.legend(figure, first, columns=3)
    _headline(figure, graph, look)
    return figure


def _lags(graph: "TemporalGraph", look: Theme) -> "Figure":
    """Parts by lag, all series together, stacked by hops walked."""
    from matplotlib.ticker import MultipleLocator

    figure, grid = look.panels(1, 1, 9.0, 3.4)
    axes, lags = grid[0, 0], graph._lags()
    profile = graph.sources.sum(2)  # [1 + hops, L]
    if len(profile) > MOST_HOPS:
        profile = np.concatenate([profile[: MOST_HOPS - 1], profile[MOST_HOPS - 1 :].sum(0)[None]])
    names = ["no hop", "1 hop", *[f"{hop} hops" for hop in range(2, len(profile))]]
    if len(profile) < len(graph.sources):
        names[-1] += " and more"
    above, below = np.zeros(len(lags)), np.zeros(len(lags))
    for part, name, colour in zip(profile, names, look.steps(len(profile)), strict=False):
        base = np.where(part > 0, above, below)
        axes.bar(
            lags,
            part,
            bottom=base,
            width=0.9 if len(lags) <= 150 else 1.0,
            color=colour,
            lw=0,
            label=name,
        )
        above, below = above + part.clip(min=0), below + part.clip(max=0)
    few = len(lags) <= 150  # or the line would hide what it is the sum of
    net = {"color": look.ink, "lw": 1.1 if few else 0.4, "marker": "o" if few else None, "ms": 2}
    axes.plot(lags, profile.sum(0), label="net", **net)
    axes.axhline(0, color=look.faint, lw=1, zorder=0)
    look.tidy(axes, "part of the forecast by lag, all series together")
    axes.margins(x=0.01)
    axes.xaxis.set_major_locator(MultipleLocator(_every(len(lags), graph.freq.season)))
    step = graph.freq.span(1)
    unit = "" if graph.freq.unit == "integer" else f" of {step}"
    axes.set_xlabel(f"lag, in steps{unit}", fontsize=8.5, color=look.ink)
    look.legend(figure, axes, columns=MOST_HOPS + 1)
    _headline(figure, graph, look)
    return figure


def _arcs(graph: "TemporalGraph", look: Theme) -> "Figure":
    """An arc from each past value that counts to the forecast; above the line it pulls up."""
    from matplotlib.collections import LineCollection

    parts = graph.sources.sum(0)  # [L, N]
    seen = np.abs(parts).max(0) >= np.sort(np.abs(parts), axis=None)[-MOST_ARCS:][0]
    order = _important(graph)
    order = order[np.argsort(~(seen[order] | (order == order[0])), kind="stable")]
    groups, names = _groups(graph, order, min(MOST_ROWS, int(seen[order[1:]].sum()) + 2), 28)
    rows = [parts[:, group].sum(1) for group in groups]
    figure, grid = look.panels(1, 1, 9.0, 0.62 * len(rows) + 0.8)
    axes, table = grid[0, 0], np.stack(rows)  # [rows, L]
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
        colours.append(look.up if part > 0 else look.down)
    for row in range(len(rows)):
        axes.plot([x[0], end], [-row, -row], color=look.faint, lw=1, zorder=0)
    if arcs:
        thin = np.argsort(widths)[::-1]  # drawn last, or wide ones would hide them
        style = {"linewidths": np.array(widths)[thin], "colors": [colours[i] for i in thin]}
        axes.add_collection(LineCollection([arcs[i] for i in thin], alpha=0.7, **style))
        starts, heights = np.array([arc[0] for arc in arcs]).T
        axes.scatter(starts, heights, s=np.array(widths) * 5, c=colours, lw=0, zorder=3)
    axes.axvline(end, color=look.faint, lw=1, zorder=0)
    axes.plot([end], [0], marker="D", ms=6, color=look.accent, zorder=4)
    look.tidy(axes, f"the {len(arcs)} largest parts; above the line they pull up, below down")
    axes.spines["left"].set_visible(False)
    axes.set_yticks(-np.arange(len(rows)), names)
    axes.tick_params(axis="y", length=0)
    axes.set(ylim=(0.4 - len(rows), 0.6), xlim=(x[0] - (end - x[0]) * 0.01, end))
    for row, group in enumerate(groups):
        place = {"xytext": (6, 0), "textcoords": "offset points", "va": "center"}
        axes.annotate(_worth(graph, group), (end, -row), fontsize=7, color=look.ink, **place)
    _time_axis(graph, axes, look)
    _headline(figure, graph, look)
    return figure


def _series(graph: "TemporalGraph", look: Theme) -> "Figure":
    """Who feeds the target, in the middle, and each other."""
    from matplotlib.patches import Circle

    groups, names = _groups(graph, _important(graph), MOST_DISCS, 22)
    worth = np.array([graph.sources[:, :, group].sum() for group in groups])
    figure, grid = look.panels(1, 1, 7.8, 5.2, below=0.5)
    axes, around = grid[0, 0], len(groups) - 1
    angle = 2 * np.pi * _turns(around)
    places = np.array([[0.0, 0.0], *zip(np.sin(angle), np.cos(angle), strict=True)])
    radii = 0.03 + 0.09 * np.sqrt(np.abs(worth) / (np.abs(worth).max() or 1.0))
    discs = []
    for nth, (place, radius) in enumerate(zip(places, radii, strict=True)):
        colour = look.up if worth[nth] > 0 else look.down
        edge = {"ec": look.ink, "lw": 1.5} if nth == 0 else {"lw": 0}
        discs.append(Circle(tuple(place), radius, fc=colour, zorder=3, **edge))
        axes.add_patch(discs[-1])
        x, y = place
        side = 0 if abs(x) < 0.1 else np.sign(x)  # names stand beside their discs, not on them
        up = 0 if side else 1 if y > 0 and nth else -1
        style = {
            "ha": {0: "center", 1: "left", -1: "right"}[side],
            "va": {0: "center", 1: "bottom", -1: "top"}[up],
            "weight": "normal" if nth else "bold",
            "bbox": {"fc": look.ground, "ec": "none", "alpha": 0.8 * (nth == 0), "pad": 1},
        }
        away, text = radius + 0.05, f"{names[nth]}\n{_signed(worth[nth])}"
        place = (x + side * away, y + up * away)
        axes.text(*place, text, fontsize=8, color=look.ink, zorder=4, **style)
    _arrows(axes, _told(graph, groups), discs, look)
    axes.set(xlim=(-1.95, 1.95), ylim=(-1.25, 1.4), aspect="equal", xticks=[], yticks=[])
    axes.axis("off")
    title = "disc: what the past of a series is worth in all; arrow: what one told another"
    axes.set_title(title, **look.title())
    _headline(figure, graph, look)
    return figure


def _turns(count: int) -> np.ndarray:
    """Where others stand around the target: nobody right below it, where its name is."""
    if count < 3:
        return np.array([[], [1 / 4], [1 / 6, 5 / 6]][count])
    return (np.arange(count) + 0.5 * (count % 2 == 0)) / count


def _told(graph: "TemporalGraph", groups: list[np.ndarray]) -> np.ndarray:
    """What groups of series sent each other ``[to, of]``, over all layers, heads and hops.

    Where nodes are no series, only what each is worth for the target is known.
    """
    ids = tuple(map(str, graph.ids))
    sent = np.zeros((len(ids), len(ids)))
    for layer in graph.layers:
        if layer.nodes == ids:
            sent += layer.parts.sum((0, 1))
    if not sent.any():
        sent[graph.ids.index(graph.target)] = graph.sources.sum((0, 1))
    told = np.array([[sent[np.ix_(to, of)].sum() for of in groups] for to in groups])
    np.fill_diagonal(told, 0)  # what a series keeps is in its disc
    return told


def _arrows(axes: "Axes", told: np.ndarray, discs: list[Any], look: Theme) -> None:
    from matplotlib.patches import FancyArrowPatch

    largest = np.sort(np.abs(told), axis=None)[::-1][:MOST_ARROWS]
    for to, of in np.argwhere((np.abs(told) >= max(largest[-1], 0.01 * largest[0])) & (told != 0)):
        part, start, end = told[to, of], discs[of], discs[to]
        size = abs(part) / largest[0]
        style = {
            "connectionstyle": "arc3,rad=0.13",
            "arrowstyle": "-|>",
            "shrinkA": 1,
            "shrinkB": 1,
        }
        colour = {"color": look.up if part > 0 else look.down, "zorder": 2}
        axes.add_patch(
            FancyArrowPatch(
                start.center, end.center, patchA=start, patchB=end, lw=0.6 + 3.4 * size,
                mutation_scale=7 + 8 * size, alpha=0.35 + 0.5 * size, **style, **colour,
            )
        )  # fmt: skip


def _hops(graph: "TemporalGraph", look: Theme, head: int | None = None) -> "Figure":
    """Aⁱ of each layer, of a head or the mean of all, beside what was sent."""
    _check_layers(graph)
    heads = min(layer.parts.shape[0] for layer in graph.layers)
    if head is not None and not (isinstance(head, int) and 0 <= head < heads):
        raise FighterError(f"head={head!r}: needs a whole number from 0 to {heads - 1}")
    own = slice(None) if head is None else slice(head, head + 1)
    rows = {f"layer {nth}": layer for nth, layer in enumerate(graph.layers, start=1)}
    graphs = {
        name: {
            power: weights
            for power, weights in zip(layer.powers, layer.weights[own].mean(0), strict=True)
            if power or layer.powers == (0,)  # I shows nothing
        }
        for name, layer in rows.items()
    }
    edges = {name: layer.parts[own].sum((0, 1)) for name, layer in rows.items()}
    figure, grid = hop_maps(graphs, edges, look)
    kind, ticks, names = _nodes(graph)
    for axes in grid.ravel():
        if axes.images:
            axes.set_xticks(ticks, names, rotation=90 if max(map(len, names)) > 3 else 0)
            axes.set_yticks(ticks, names)
            axes.tick_params(labelleft=axes in grid[:, 0], labelbottom=axes in grid[-1])
    which = "mean of heads" if head is None and heads > 1 else f"head {head or 0}"
    figure.supxlabel(f"who is listened to: {kind}", fontsize=8.5, color=look.ink)
    figure.supylabel(f"who listens ({which})", fontsize=8.5, color=look.ink)
    _headline(figure, graph, look)
    return figure


def _nodes(graph: "TemporalGraph") -> tuple[str, list[int], list[str]]:
    """What nodes are, and where on an axis which of them are named."""
    nodes, kind = graph.layers[0].nodes, _kind(graph)
    if kind == "series" and len(nodes) <= MOST_NAMES:
        return "series", list(range(len(nodes))), labels(nodes, 16)
    numbers = graph._lags() if kind == "time" else np.arange(len(nodes)) + 1
    every = _every(len(nodes), graph.freq.season if kind == "time" else ())
    ticks = [place for place, number in enumerate(numbers) if number % every == 0]
    what = {
        "series": f"series, by number; {graph.ids.index(graph.target) + 1} is the target",
        "time": "time steps, by lag",
        "patch": "patches, by number",
    }
    return what[kind], ticks, [str(numbers[tick]) for tick in ticks]


def _every(count: int, seasons: tuple[int, ...]) -> int:
    """A distance between ticks that people count in, such that there are 3 to 10, if it can be."""
    round_ones = [digit * 10**zeros for zeros in range(6) for digit in (1, 2, 5)]
    cycles = [season * times for season in seasons[:1] for times in round_ones]
    return next((n for n in (*seasons, *cycles, *round_ones) if 3 <= count / n <= 10), 1)


def _diagnostics(graph: "TemporalGraph", look: Theme) -> "Figure":
    """What each hop of each layer does, and what that means."""
    _check_layers(graph)
    tables = {f"layer {i}": g.diagnostics.table() for i, g in enumerate(graph.layers, start=1)}
    numbers, kind = dict(NUMBERS), _kind(graph)
    if kind == "series":  # they stand in no order
        ours = {"mean_lag": ("effective_sources", "effective sources")}
        numbers = dict(ours.get(name, (name, title)) for name, title in NUMBERS.items())
    elif kind == "patch":
        numbers["mean_lag"] = "mean lag, patches"
    styles = {
        name: {"color": colour, "marker": marker, "ms": 3.5, "lw": 1.4}
        for name, colour, marker in zip(
            tables, look.steps(len(tables)), "osD^vPX*" * len(tables), strict=False
        )
    }
    figure = diagnostics_panels(tables, look, styles, numbers, legend="upper right")
    if sentences := read(graph):
        more = len(sentences) - MOST_SENTENCES
        said = sentences[:MOST_SENTENCES] + ([f"… and {more} more"] if more > 0 else [])
        text = {"x": 0.01, "ha": "left", "fontsize": 8, "color": look.ink}
        figure.supxlabel("\n".join(said), **text)
        figure.set_figheight(figure.get_figheight() + 0.15 * len(said))
    _headline(figure, graph, look, room=6.0)
    return figure


KINDS: dict[str, Callable[["TemporalGraph", Theme], "Figure"]] = {
    "sources": _sources,
    "lags": _lags,
    "arcs": _arcs,
    "series": _series,
    "hops": _hops,
    "diagnostics": _diagnostics,
}


def _headline(
    figure: "Figure", graph: "TemporalGraph", look: Theme, room: float | None = None
) -> None:
    """Which forecast this is, on two lines if one has no room (inches)."""
    when = graph.freq.show(graph.time)
    name, fact = label(graph.target, 40), f"at {when} (step {graph.step}): {graph.forecast:.4g}"
    fits = len(name) + len(fact) < 11 * (room or figure.get_figwidth())
    title = f"{name}{' ' if fits else chr(10)}{fact}"
    figure.suptitle(title, x=0.01, ha="left", fontsize=10.5, color=look.ink)


def _important(graph: "TemporalGraph") -> np.ndarray:
    """The target, then the series that have a part, the largest first."""
    sizes, target = np.abs(graph.sources).sum((0, 1)), graph.ids.index(graph.target)
    order = np.argsort(-sizes, kind="stable")
    return np.array([target, *(i for i in order if i != target and sizes[i] > 0)])


def _groups(
    graph: "TemporalGraph", order: np.ndarray, most: int, letters: int
) -> tuple[list[np.ndarray], list[str]]:
    """Series by themselves, as far as there is place, and the others together; with names."""
    alone = len(order) if len(order) <= most else most - 1
    groups = [np.array([series]) for series in order[:alone]]
    names = labels([graph.ids[series] for series in order[:alone]], letters)
    if alone < len(order):
        groups.append(order[alone:])
        names.append(f"{len(order) - alone} others together")
    return groups, names


def _worth(graph: "TemporalGraph", series: Any) -> str:
    parts = graph.sources[:, :, series]
    share = np.abs(parts).sum() / (np.abs(graph.sources).sum() or 1.0)
    return f"{_signed(parts.sum())} net, {share:.0%} of Σ|parts|"


def _signed(part: float) -> str:
    return f"{part:+.3g}".replace("-", "−")


def _kind(graph: "TemporalGraph") -> str:
    """What a node is: a series, a time step or a patch."""
    nodes = graph.layers[0].nodes
    if nodes == tuple(map(str, graph.ids)):
        return "series"
    return "time" if nodes[0] == graph.freq.show(int(graph.times[0])) else "patch"


def _check_layers(graph: "TemporalGraph") -> None:
    if not graph.layers:
        raise FighterError(
            "the model has no layer with a graph: draw kind='sources', 'lags', 'arcs' or 'series'"
        )


def _stamps(graph: "TemporalGraph", times: Any) -> np.ndarray:
    times = np.asarray(times)
    return times if graph.axis.kind == "integer" else times.astype("M8[ns]")


def _numbers(graph: "TemporalGraph", times: Any) -> np.ndarray:
    from matplotlib.dates import date2num

    stamps = _stamps(graph, times)
    return np.asarray(date2num(stamps) if stamps.dtype.kind == "M" else stamps, dtype=float)


def _time_axis(graph: "TemporalGraph", axes: "Axes", look: Theme) -> None:
    if graph.axis.kind != "integer":
        look.time_axis(axes)
