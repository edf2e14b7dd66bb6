"""Write an HTML page of explained forecasts; a reader chooses one and sees its sources.

The page works offline. It holds plotly, a JSON text with names and sums, and a table of 16-bit
numbers with one row per forecast. A row begins with the largest parts, so that it can be cut.
"""

import base64
import gzip
import html
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .._files import atomic_write, check_target
from ..errors import FighterError, needs_package
from .findings import describe_briefly
from .graph import NOTE, LayerGraph, TemporalGraph

BUDGET = 4_000_000  # bytes of numbers before compression; it keeps a page well under 8 MB
NAMED_SERIES = 4  # in the sum of the terms, besides the target
LARGEST = 32767  # largest 16-bit number
PAGES = (".html", ".htm")


class Outlook(NamedTuple):
    """The whole forecast of one series, whether or not each step is explained."""

    times: np.ndarray  # int64 [H]
    forecast: np.ndarray  # [H]
    bands: Mapping[float, tuple[np.ndarray, np.ndarray]] = {}  # by level in per cent
    truth: np.ndarray | None = None  # actual values [H]


class Sizes(NamedTuple):
    """How many numbers of each forecast the page keeps."""

    sources: int = 400  # past values
    series: int = 60
    bins: int = 336  # bars on the time axis
    pairs: int = 120  # pairs of nodes in a layer, all heads together
    head_pairs: int = 30  # pairs of nodes in one head


def write_page(
    graphs: Iterable[TemporalGraph],
    path: str | Path,
    *,
    outlooks: Mapping[Any, Outlook] | None = None,
    title: str = "",
    note: str = "",
    first: tuple[Any, int] | None = None,
) -> None:
    """Write the page; graphs are read one by one and not kept in memory.

    .. code-block:: python

        steps = (model.explain(unique_id="north", step=step) for step in range(1, 25))
        write_page(steps, "why.html")

    Args:
        graphs: forecasts of one model, of any series and steps.
        path: where to write the page, ``.html``.
        outlooks: series → its whole forecast with intervals (default: none are drawn).
        title: title of the page (default: the series and time of the first graph).
        note: sentence below the title, such as what was left out (default: none).
        first: series and step to show first (default: those of the first graph).
    """
    check_target(Path(path), PAGES)
    script = plotly_script()
    content = _Content(outlooks or {})
    for graph in graphs:
        content.add(graph)
    text, numbers = content.finish(title, note, first)
    parts = {
        "title": html.escape(text["title"]),
        "plotly": _packed(script.encode()),
        "text": _packed(json.dumps(text, ensure_ascii=False, allow_nan=False).encode()),
        "numbers": _packed(numbers.astype("<i2").tobytes()),
    }
    template = files("fighter.explain").joinpath("page.html").read_text("utf-8")
    page = re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], template)
    with atomic_write(path) as file:
        file.write_text(page, "utf-8")


def plotly_script() -> str:
    """Return plotly's JavaScript from its Python package, without what the page does not need."""
    with needs_package("plotly"):
        from plotly.offline import get_plotlyjs
    return trim_plotly(get_plotlyjs())


def trim_plotly(script: str) -> str:
    """Return a script that starts four times as fast; unchanged if it is not built as expected.

    Plotly registers every kind of trace at its start, but the page needs only the first one, bars,
    beside the lines that are always there. A function around the whole script makes browsers parse
    it twice, so that is removed as well.
    """
    name = r"[\w$]+"
    kinds = re.search(rf"\.register\(\[({name})\(\)((?:,{name}\(\))+)\]\)", script)
    inside = re.fullmatch(
        r"(/\*\*.*?\*/)\s*\(\s*function\(root, factory\).*?\(\) => \{\s*"
        r'("use strict";\s*var Plotly\b.*)window\.Plotly = Plotly;\s*return Plotly;\s*\}\)\);\s*',
        script,
        re.DOTALL,
    )
    if not kinds or not inside:
        return script
    first = re.search(rf"\b{re.escape(kinds[1])}=[^;]*;{name}\.exports=({name})\(\)", script)
    bars = r'\((?:(?!;var ).)*\bmoduleType:"trace",name:"bar"'
    if not first or not re.search(rf"\b{re.escape(first[1])}={name}{bars}", script):
        return script
    return "\n".join(inside.groups()).replace(kinds[2], "", 1)


class _Largest(NamedTuple):
    """The rows of a table of parts with the largest sums of absolute parts, the largest first."""

    places: np.ndarray  # [k], indices of the rows
    parts: np.ndarray  # [k, hops]

    @classmethod
    def of(cls, table: np.ndarray, most: int) -> "_Largest":
        gross = np.abs(table).sum(1)
        places = np.arange(len(gross))
        if len(gross) > most:
            places = np.argpartition(-gross, most)[:most]
        places = places[np.argsort(-gross[places], kind="stable")]
        return cls(places, table[places].astype(np.float32))

    def rows(self, most: int, *shape: int) -> tuple[list[np.ndarray], np.ndarray]:
        """Return the keys and parts of ``most`` rows, padded with zeros if there are fewer."""
        short = max(most - len(self.places), 0)
        keys = np.unravel_index(np.pad(self.places[:most], (0, short)), shape)
        return list(keys), np.pad(self.parts[:most], ((0, short), (0, 0)))


@dataclass(eq=False)
class _Record:
    """What is kept of one graph until the number of graphs is known."""

    sources: _Largest
    series: _Largest
    by_time: np.ndarray  # [L, hops]
    layers: list[list[_Largest]]  # for each layer: all heads together, then each head


@dataclass(eq=False)
class _Content:
    """Collect graphs, then turn them into the text and the numbers of a page."""

    outlooks: Mapping[Any, Outlook]
    sample: TemporalGraph | None = None  # the first graph, whose shapes all others have
    targets: list[dict[str, Any]] = field(default_factory=list)
    records: list[_Record] = field(default_factory=list)
    past: dict[int, np.ndarray] = field(default_factory=dict)  # time → values [N]
    shared: dict[str, int] = field(default_factory=dict)  # JSON that many graphs share → its number

    def add(self, graph: TemporalGraph) -> None:
        self.sample = self.sample or graph
        if _shape(graph) != _shape(self.sample):
            raise FighterError(
                f"the graphs of {self.sample.target} and {graph.target} are of different models: "
                "a page needs graphs of one model and one set of series"
            )
        size = max(*graph.past.shape, *(len(layer.nodes) for layer in graph.layers))
        if size > LARGEST:
            raise FighterError(f"{size:,} nodes or time steps: a page holds at most {LARGEST:,}")
        self.past.update(zip(graph.times.tolist(), graph.past, strict=True))
        self.targets.append(
            {
                "series": graph.ids.index(graph.target),
                "step": graph.step,
                "time": graph.freq.show(graph.time),
                "first": int(graph.times[0]),
                "forecast": _short(graph.forecast),
                "terms": {name: _short(value) for name, value in graph.terms.items()},
                "net": _shorts(graph.sources.sum((1, 2))),
                "gross": _shorts(np.abs(graph.sources).sum((1, 2))),
                "headline": describe_briefly(graph),
                "summary": graph.sentences(),
                "past": _past_sums(graph),
                "layers": [self._about(layer) for layer in graph.layers],
            }
        )
        most = Sizes()
        sources = _Largest.of(graph.sources.reshape(len(graph.sources), -1).T, most.sources)
        series = _Largest.of(graph.sources.sum(1).T, most.series)
        by_time = graph.sources.sum(2).T.astype(np.float32)
        layers = [_pairs(layer, most) for layer in graph.layers]
        self.records.append(_Record(sources, series, by_time, layers))

    def _about(self, layer: LayerGraph) -> dict[str, Any]:
        rows = [
            {name: value if value is None else _short(value) for name, value in row.items()}
            for row in layer.diagnostics.table()
        ]
        lists = layer.parts.sum(0), *layer.parts  # all heads together, then each head
        return {
            "nodes": self._store(layer.nodes),
            "diagnostics": self._store(rows),
            "gross": [_shorts(np.abs(parts).sum((1, 2))) for parts in lists],  # by power
            "rest": _short(layer.rest),
        }

    def _store(self, thing: Any) -> int:
        """Return the number of a thing in the list that all forecasts share."""
        return self.shared.setdefault(json.dumps(thing), len(self.shared))

    def finish(
        self, title: str, note: str, first: tuple[Any, int] | None
    ) -> tuple[dict[str, Any], np.ndarray]:
        """Return the text of the page and its numbers ``[targets, width]``."""
        model = self.sample
        if model is None:
            raise FighterError("there are no graphs: a page needs at least one")
        sizes, numbers = self._fit(model)
        times = sorted(self.past)
        place = {time: row for row, time in enumerate(times)}
        for target in self.targets:
            target["first"] = place[target["first"]]
        shown = {target["series"] for target in self.targets}
        outlooks = [self.outlooks.get(x) if i in shown else None for i, x in enumerate(model.ids)]
        for record in self.records:
            shown |= {*record.series.places.tolist()} | {*record.sources.places % len(model.ids)}
        past = np.array([self.past[time] for time in times]).T
        steps = max(target["step"] for target in self.targets)
        chosen = (model.target, model.step) if first is None else first
        explained = [(model.ids[target["series"]], target["step"]) for target in self.targets]
        when = model.freq.show(model.time)
        text = {
            "title": title or f"Forecast of {model.target}, {when}",
            "about": NOTE,
            "note": note,
            "start": explained.index(chosen) if chosen in explained else 0,
            "ids": [str(name) for name in model.ids],
            "times": [model.freq.show(time) for time in times],
            "dates": model.axis.kind != "integer",
            "past": [_shorts(row) if i in shown else None for i, row in enumerate(past)],
            "spans": [model.freq.span(lag) for lag in range(len(model.times) + steps)],
            "lookback": len(model.times),
            "hops": len(model.sources),
            "powers": [layer.powers for layer in model.layers],
            "heads": [len(layer.parts) for layer in model.layers],
            "sizes": sizes._asdict(),
            "shared": [json.loads(thing) for thing in self.shared],
            "outlooks": [look and _outlook(look, model) for look in outlooks],
            "targets": self.targets,
        }
        return text, numbers

    def _fit(self, model: TemporalGraph) -> tuple[Sizes, np.ndarray]:
        """Cut the rows until all of them fit into the budget."""
        pairs = max((len(layer.nodes) ** 2 for layer in model.layers), default=1)
        there_are = model.past.size, len(model.ids), len(model.times), pairs, pairs
        here = Sizes(*map(min, Sizes(), there_are))
        sizes = here
        for factor in 0.85 ** np.arange(1, 40):
            if 2 * len(self._row(0, model, sizes)) * len(self.records) <= BUDGET:
                break
            sizes = Sizes(*(min(size, max(int(size * factor), 6)) for size in here))
        return sizes, np.stack([self._row(i, model, sizes) for i in range(len(self.records))])

    def _row(self, number: int, graph: TemporalGraph, sizes: Sizes) -> np.ndarray:
        """Return one forecast as 16-bit numbers; the scales of its blocks go to its text."""
        record = self.records[number]
        edges = np.arange(sizes.bins) * len(record.by_time) // sizes.bins
        blocks = [
            [record.sources.rows(sizes.sources, *graph.past.shape)],
            [record.series.rows(sizes.series, len(graph.ids))],
            [([], np.add.reduceat(record.by_time, edges))],
        ]
        for layer, lists in zip(graph.layers, record.layers, strict=True):
            square = (len(layer.nodes),) * 2
            counts = [sizes.pairs] + [sizes.head_pairs] * (len(lists) - 1)
            blocks.append([pick.rows(n, *square) for pick, n in zip(lists, counts, strict=True)])
        row, scales = [], []
        for block in blocks:
            scale = max(float(np.abs(parts).max(initial=0)) for _, parts in block) / LARGEST or 1.0
            scales.append(_short(scale))
            for keys, parts in block:
                row += [*keys, np.rint(parts / scale).ravel()]
        self.targets[number]["scales"] = scales
        return np.concatenate(row).astype(np.int16)


def _past_sums(graph: TemporalGraph) -> dict[str, Any]:
    """Return what came from the target's own past, from a few other series, and from the rest.

    The rest is None if there is none, as of series that the model does not look at.
    """
    sums = graph.sources.sum((0, 1))
    own = graph.ids.index(graph.target)
    others = [i for i in np.argsort(-np.abs(sums), kind="stable").tolist() if i != own]
    least = 1e-6 * float(np.abs(graph.sources).sum())
    others = [i for i in others if abs(sums[i]) > least]
    named = len(others) if len(others) == NAMED_SERIES + 1 else NAMED_SERIES
    rest = others[named:]
    return {
        "own": _short(sums[own]),
        "others": [[i, _short(sums[i])] for i in others[:named]],
        "rest": _short(sums[rest].sum()) if rest else None,
    }


def _pairs(layer: LayerGraph, most: Sizes) -> list[_Largest]:
    def table(parts: np.ndarray) -> np.ndarray:  # [powers, S, S] -> [S², powers]
        return parts.reshape(len(layer.powers), -1).T

    together = _Largest.of(table(layer.parts.sum(0)), most.pairs)
    return [together, *(_Largest.of(table(head), most.head_pairs) for head in layer.parts)]


def _shape(graph: TemporalGraph) -> tuple:
    return graph.ids, graph.sources.shape, [layer.parts.shape for layer in graph.layers]


def _outlook(look: Outlook, model: TemporalGraph) -> dict[str, Any]:
    levels = sorted(look.bands, reverse=True)
    return {
        "times": [model.freq.show(int(time)) for time in look.times],
        "forecast": _shorts(look.forecast),
        "bands": [[level, *map(_shorts, look.bands[level])] for level in levels],
        "truth": None if look.truth is None else _shorts(look.truth),
    }


def _short(value: float) -> float:
    return float(f"{value:.6g}")


def _shorts(values: Iterable[float]) -> list[float | None]:
    return [_short(value) if np.isfinite(value) else None for value in np.asarray(values).tolist()]


def _packed(data: bytes) -> str:
    return base64.b64encode(gzip.compress(data, mtime=0)).decode()
