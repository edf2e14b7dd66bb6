"""A forecast as a graph of past values and their exact parts, with tables and pictures."""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data.forecast_table import plain_table
from ..data.frequency import Frequency
from ..data.time_axis import TimeAxis
from ..errors import FighterError, needs_package
from .diagnostics import HopDiagnostics, LazyDiagnostics
from .findings import THRESHOLDS, describe_forecast, describe_graph

if TYPE_CHECKING:
    import networkx as nx
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False, repr=False)
class LayerGraph:
    """One layer: how nodes attended to each other, and the part of the forecast on each edge."""

    nodes: tuple[str, ...]  # S
    powers: tuple[int, ...]  # P
    weights: np.ndarray  # [heads, P, S, S]: Aⁱ, row: target node, column: source node
    parts: np.ndarray  # [heads, P, S, S]: parts of the forecast, in its units
    rest: float  # part of the forecast that bypassed the layer, and biases after it
    lazy_diagnostics: LazyDiagnostics  # shared by the forecasts of a window

    def __repr__(self) -> str:
        heads = len(self.weights)
        return f"<LayerGraph of {len(self.nodes)} nodes, {heads} heads, powers {self.powers}>"

    @property
    def diagnostics(self) -> HopDiagnostics:
        """Numbers that say what each hop does; computed on first use."""
        return self.lazy_diagnostics.diagnostics


@dataclass(frozen=True, eq=False, repr=False)
class TemporalGraph:
    """One forecast, split exactly: ``forecast = level + cycle + … + Σ sources``.

    A source is one past value. Its part is its difference from the mean of its look-back, times the
    weight that it had in this forecast. Graph, norms, gates and the weights of smoothing are held
    constant, so a part is a share of this sum, not what the forecast would lose without the value.
    With smoothing, ``L`` may reach further back than the look-back.
    """

    target: Any  # id of the series
    step: int  # from 1
    time: int  # time stamp of the forecast
    forecast: float
    terms: dict[str, float]
    """Terms that do not come from single past values: level (of the look-back), cycle, bias, …."""

    ids: tuple
    times: np.ndarray  # int64 [L]
    past: np.ndarray  # [L, N], NaN where nothing was observed
    sources: np.ndarray  # [1 + hops, L, N]: parts, by how often they went from node to node
    layers: tuple[LayerGraph, ...]
    freq: Frequency
    axis: TimeAxis
    like: Any = "pandas"  # type of the tables
    quantile: float | None = None  # which one is explained; None for the point forecast
    counted: bool = True
    """False if a model took part whose hops are not counted; its parts are those of hop 0."""

    def __repr__(self) -> str:
        where = f"at {self.freq.show(self.time)}, step {self.step}{self._which}"
        return f"<TemporalGraph of {self.target!r} {where}: {self.forecast:.4g}>"

    def __str__(self) -> str:
        return self.summary()

    @property
    def _which(self) -> str:
        return "" if self.quantile is None else f", quantile {self.quantile:g}"

    @cached_property
    def _gross(self) -> float:
        """Σ|part|, the whole that shares refer to."""
        return float(np.abs(self.sources).sum()) or 1.0

    def shown_as(self, like: Any) -> "TemporalGraph":
        """Return the same graph with tables of another type, such as "pandas"; see ``like``."""
        return replace(self, like=like)

    @property
    def lags(self) -> np.ndarray:
        """Steps from each row of the look-back to the forecast ``[L]``."""
        return np.arange(len(self.times), 0, -1) - 1 + self.step

    def edges(self, top: int | None = None) -> Any:
        """Return a table of past values and their parts of the forecast, the largest first.

        Its columns are ``source`` (series), its ``time``, ``lag`` in steps, ``target``, ``step``,
        ``hop`` (how often the part went from a node to another; 0 also stands for models whose
        hops are not counted), ``part`` in the units of the data and ``share``, the part divided by
        the sum of all absolute parts, so that absolute shares add up to 1.

        Args:
            top: number of rows to keep (default: None, all).
        """
        check_top(top)
        hop, row, series = places = _largest(self.sources, top)
        parts = self.sources[places]
        columns = {
            "source": [self.ids[i] for i in series],
            "time": self.times[row],
            "lag": self.lags[row],
            "target": [self.target] * len(row),
            "step": [self.step] * len(row),
            "hop": hop,
            "part": parts,
            "share": parts / self._gross,
        }
        return plain_table(self.like, columns, self.axis, ("time",))

    def layer_edges(self, layer: int = -1, top: int | None = None) -> Any:
        """Return a table of the edges of one layer, those with the largest parts first.

        Its columns are ``head, hop, source, target, weight`` (of Aⁱ), ``part`` and ``share``.

        Args:
            layer: number of the layer, from 0 (default: -1, the last).
            top: number of rows to keep (default: None, all).
        """
        check_top(top)
        if not -len(self.layers) <= layer < len(self.layers):
            reason = f"the model has {len(self.layers)} layers"
            raise FighterError(reason, argument="layer", value=layer)
        graph = self.layers[layer]
        head, power, target, source = places = _largest(graph.parts, top)
        parts = graph.parts[places]
        columns = {
            "head": head,
            "hop": [graph.powers[i] for i in power],
            "source": [graph.nodes[i] for i in source],
            "target": [graph.nodes[i] for i in target],
            "weight": graph.weights[places],
            "part": parts,
            "share": parts / (float(np.abs(graph.parts).sum()) or 1.0),
        }
        return plain_table(self.like, columns, self.axis)

    def to_networkx(self, top: int | None = 100) -> "nx.MultiDiGraph":
        """Return a graph with edges from past values ``(series, place)`` to the forecast.

        A place counts steps back from the end of the look-back: 0 for its last row, ``-step`` for
        the forecast. Edges carry ``hop``, ``part`` and ``share``.

        Args:
            top: number of edges to keep, those with the largest parts (default: 100; None: all).
        """
        with needs_package("networkx"):
            import networkx as nx
        graph = nx.MultiDiGraph()
        end = (self.target, -self.step)
        graph.add_node(end, time=self.freq.show(self.time), value=self.forecast, kind="forecast")
        lags = self.lags
        for hop, row, series in zip(*_largest(self.sources, top), strict=True):
            start = (self.ids[series], int(lags[row]) - self.step)
            when, value = self.freq.show(int(self.times[row])), float(self.past[row, series])
            graph.add_node(start, time=when, value=value, kind="source")
            part = float(self.sources[hop, row, series])
            graph.add_edge(start, end, hop=int(hop), part=part, share=part / self._gross)
        return graph

    def summary(self, most: int = 3) -> str:
        """Return the forecast and its main sources in words.

        Args:
            most: number of past values to name (default: 3).
        """
        return "\n".join([*self.sentences(most), NOTE])

    def sentences(self, most: int = 3) -> list[str]:
        """Return the lines of :meth:`summary` that are about this forecast."""
        when = self.freq.show(self.time)
        terms = {**self.terms, "past values": self.sources.sum()}
        if "bound" in terms:
            terms["bound"] = terms.pop("bound")  # it corrects the sum of all other terms
        total = ", ".join(f"{name} {value:+.4g}" for name, value in terms.items())
        which = f"(step {self.step}{self._which})"
        lines = [f"{self.target} at {when} {which}: {self.forecast:.4g} = {total}."]
        sizes = np.abs(self.sources).sum(0)
        for row, series in zip(*_largest(sizes, most), strict=True):
            parts, percent = self.sources[:, row, series], 100 * (sizes[row, series] / self._gross)
            own = self.ids[series] == self.target
            who = "its own value" if own else f"the value of {self.ids[series]}"
            span, hops = self.freq.span(int(self.lags[row])), int(np.abs(parts).argmax())
            way = {0: "", 1: ", over one hop"}.get(hops, f", over {hops} hops")
            pull = "up" if parts.sum() > 0 else "down"
            size = f"{percent:.0f}" if percent >= 1 else "Less than 1"
            what = f"{size} % of all parts comes from {who}"
            lines.append(f"{what}, {span} before{way}, pulling {pull}.")
        by_hop = np.abs(self.sources).sum((1, 2)) / self._gross
        if by_hop[1:].any():  # not if there is one node, or no layer that is known
            listed = ", ".join(f"{i}: {100 * s:.0f} %" for i, s in enumerate(by_hop))
            zero = "" if self.counted else " (0, or not counted, first)"
            lines.append(f"All parts by number of hops{zero}: {listed}.")
        return lines + describe_forecast(self)

    def plot(
        self,
        kind: str = "sources",
        path: str | Path | None = None,
        *,
        dark: bool | None = None,
        head: int | None = None,
    ) -> "Figure":
        """Draw the forecast and its parts with matplotlib.

        Args:
            kind: ``"sources"`` marks the past values with the largest parts on the history,
                ``"lags"`` shows parts by lag and hop, ``"arcs"`` leads from past values to the
                forecast, ``"series"`` shows what series sent each other, ``"hops"`` shows Aⁱ of
                every layer beside what was sent, ``"diagnostics"`` what each hop does
                (default: "sources").
            path: also write the picture there; the ending gives the format (default: do not).
            dark: True for light letters on a dark ground, False for the reverse (default: None,
                as matplotlib's style, so that ``plt.style.use("dark_background")`` takes effect).
            head: show only this head, from 0, in ``"hops"`` (default: None, the mean of all).
        """
        from ..plotting.graphs import draw

        notes = describe_graph(self) if kind == "diagnostics" else ()
        thresholds = {name: threshold.value for name, threshold in THRESHOLDS.items()}
        return draw(self, kind, path, dark=dark, head=head, notes=notes, thresholds=thresholds)

    def save_html(self, path: str | Path) -> None:
        """Write an HTML page that shows this forecast and its sources; it works offline."""
        from .page import write_page

        write_page([self], path)


NOTE = (
    "The parts add up to this forecast with its graph held constant; they do not say what the "
    "forecast would be without a value."
)


def _largest(parts: np.ndarray, top: int | None) -> tuple[np.ndarray, ...]:
    """Return the indices of the parts that are not 0, the largest first."""
    size = np.abs(parts).ravel()
    order = np.argsort(-size, kind="stable")[: int((size > 0).sum())][:top]
    return np.unravel_index(order, parts.shape)


def check_top(top: int | None) -> None:
    """Refuse a number of rows to keep that is not a whole number of at least 1."""
    if top is not None and (isinstance(top, bool) or not isinstance(top, int) or top < 1):
        reason = "needs a whole number of at least 1, or None for all"
        raise FighterError(reason, argument="top", value=top)
