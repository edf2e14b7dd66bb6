"""A forecast as a graph that a person can read: what it is the sum of."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data.forecast_table import plain_table
from ..data.frequency import Frequency
from ..data.time_axis import TimeAxis
from ..errors import FighterError, needs_extra
from .diagnostics import HopDiagnostics, Measured
from .findings import read_forecast

if TYPE_CHECKING:
    import networkx as nx
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False, repr=False)
class LayerGraph:
    """One layer: who listened to whom, and what that was worth for this forecast."""

    nodes: tuple[str, ...]  # S
    powers: tuple[int, ...]  # P
    weights: np.ndarray  # [heads, P, S, S]: Aⁱ, row: who listens, column: to whom
    parts: np.ndarray  # [heads, P, S, S]: of the forecast, in its units
    rest: float  # of the forecast: what went around the layer, and biases after it
    measured: Measured  # shared by the forecasts of a window

    def __repr__(self) -> str:
        heads = len(self.weights)
        return f"<LayerGraph of {len(self.nodes)} nodes, {heads} heads, powers {self.powers}>"

    @property
    def diagnostics(self) -> HopDiagnostics:
        """What each hop does, in a few numbers."""
        return self.measured.diagnostics


@dataclass(frozen=True, eq=False, repr=False)
class TemporalGraph:
    """One forecast, split exactly: ``forecast = level + cycle + … + Σ sources``.

    A source is one past value: by how much it differs from the mean of its look-back, times what
    the model made of that here. Graph, norms and gates are taken as they were at this forecast, so
    a part is a share of this sum, and not what the forecast would be without the value.
    """

    target: Any  # the series
    step: int  # from 1
    time: int  # stamp of the forecast
    forecast: float
    terms: dict[str, float]
    """What does not come from single past values: level (of the look-back), cycle, bias, …"""

    ids: tuple
    times: np.ndarray  # int64 [L]
    past: np.ndarray  # [L, N], NaN where nothing was observed
    sources: np.ndarray  # [1 + hops, L, N]: parts of the forecast, by edges walked between nodes
    layers: tuple[LayerGraph, ...]
    freq: Frequency
    axis: TimeAxis
    like: Any = "pandas"

    def __repr__(self) -> str:
        when = self.freq.show(self.time)
        return (
            f"<TemporalGraph of {self.target!r} at {when}, step {self.step}: {self.forecast:.4g}>"
        )

    def __str__(self) -> str:
        return self.summary()

    @cached_property
    def _gross(self) -> float:
        """Σ|part|: what shares are shares of."""
        return float(np.abs(self.sources).sum()) or 1.0

    def edges(self, top: int | None = None) -> Any:
        """Past values and their parts of the forecast, the largest first, as a table.

        Columns: ``source`` (series), its ``time``, ``lag`` in steps, ``target``, ``step``, ``hop``
        (edges walked from node to node), ``part`` in the units of the data, ``share``: part by the
        sum of all absolute parts, so that absolute shares add up to 1.

        Args:
            top: this many only.
        """
        _check_top(top)
        hop, row, series = np.unravel_index(self._order(self.sources, top), self.sources.shape)
        parts = self.sources[hop, row, series]
        columns = {
            "source": [self.ids[i] for i in series],
            "time": self.times[row],
            "lag": self._lags()[row],
            "target": [self.target] * len(row),
            "step": [self.step] * len(row),
            "hop": hop,
            "part": parts,
            "share": parts / self._gross,
        }
        return plain_table(self.like, columns, self.axis, ("time",))

    def layer_edges(self, layer: int = -1, top: int | None = None) -> Any:
        """Edges of one layer: ``head, hop, source, target, weight`` (of Aⁱ), ``part, share``."""
        _check_top(top)
        if not -len(self.layers) <= layer < len(self.layers):
            raise FighterError(f"layer={layer}: the model has {len(self.layers)} layers")
        graph = self.layers[layer]
        head, power, target, source = np.unravel_index(
            self._order(graph.parts, top), graph.parts.shape
        )
        parts = graph.parts[head, power, target, source]
        columns = {
            "head": head,
            "hop": [graph.powers[i] for i in power],
            "source": [graph.nodes[i] for i in source],
            "target": [graph.nodes[i] for i in target],
            "weight": graph.weights[head, power, target, source],
            "part": parts,
            "share": parts / (float(np.abs(graph.parts).sum()) or 1.0),
        }
        return plain_table(self.like, columns, self.axis)

    def to_networkx(self, top: int | None = 100) -> "nx.MultiDiGraph":
        """Past values as nodes ``(series, lag)``, edges to the forecast ``(series, -step)``.

        Edges carry hop, part and share; ``top`` keeps the largest parts only, None all.
        """
        with needs_extra("networkx", "plot"):
            import networkx as nx
        graph = nx.MultiDiGraph()
        end = (self.target, -self.step)
        graph.add_node(end, time=self.freq.show(self.time), value=self.forecast, kind="forecast")
        lags = self._lags()
        for flat in self._order(self.sources, top):
            hop, row, series = np.unravel_index(flat, self.sources.shape)
            start = (self.ids[series], int(lags[row]) - self.step)
            when, value = self.freq.show(int(self.times[row])), float(self.past[row, series])
            graph.add_node(start, time=when, value=value, kind="source")
            part = float(self.sources[hop, row, series])
            graph.add_edge(start, end, hop=int(hop), part=part, share=part / self._gross)
        return graph

    def summary(self, most: int = 3) -> str:
        """The forecast in sentences."""
        when = self.freq.show(self.time)
        terms = {**self.terms, "past values": self.sources.sum()}
        if "limit" in terms:
            terms["limit"] = terms.pop("limit")  # the way back, when all else is added up
        known = ", ".join(f"{name} {value:+.4g}" for name, value in terms.items())
        lines = [f"{self.target} at {when} (step {self.step}): {self.forecast:.4g} = {known}."]
        for share, series, row, hops in self._largest(most):
            who = "its own value" if self.ids[series] == self.target else f"{self.ids[series]}"
            span, way = self.freq.span(int(self._lags()[row])), _way(hops)
            pull = "up" if self.sources[:, row, series].sum() > 0 else "down"
            lines.append(
                f"{100 * share:.0f} % comes from {who} {span} before{way}, pulling {pull}."
            )
        by_hop = np.abs(self.sources).sum((1, 2)) / self._gross
        listed = ", ".join(f"{i}: {100 * s:.0f} %" for i, s in enumerate(by_hop))
        lines.append(f"By hops walked between nodes: {listed}.")
        lines += [*read_forecast(self), NOTE]
        return "\n".join(lines)

    def plot(
        self,
        kind: str = "sources",
        path: str | Path | None = None,
        *,
        dark: bool | None = None,
        head: int | None = None,
    ) -> "Figure":
        """Draw it with matplotlib.

        Args:
            kind: ``"sources"``, the past values that count, on the history; ``"lags"``, parts by
                lag and hop; ``"arcs"``, from past values to the forecast; ``"series"``, who told
                whom; ``"hops"``, Aⁱ of every layer beside what was sent; ``"diagnostics"``, what
                each hop does.
            path: write it there, too; the ending tells the format.
            dark: light letters on a dark ground, or the other way round. If None, the ground is
                that of matplotlib's style, so that ``plt.style.use("dark_background")`` acts.
            head: for ``"hops"``, one head, from 0, instead of the mean.
        """
        from ..plotting.graphs import draw

        return draw(self, kind, path, dark=dark, head=head)

    def save_html(self, path: str | Path) -> None:
        """Write a page that shows this forecast and its sources; it needs no network."""
        from .page import write

        write([self], path)

    def _largest(self, most: int) -> list[tuple[float, int, int, int]]:
        """Share, series, row and the usual number of hops of the past values that count most."""
        gross = np.abs(self.sources).sum(0)
        flat = self._order(gross, most)
        found = []
        for row, series in zip(*np.unravel_index(flat, gross.shape), strict=True):
            hops = int(np.abs(self.sources[:, row, series]).argmax())
            found.append((float(gross[row, series] / self._gross), int(series), int(row), hops))
        return found

    def _lags(self) -> np.ndarray:
        """Steps from each row of the look-back to the forecast."""
        return np.arange(len(self.times), 0, -1) - 1 + self.step

    @staticmethod
    def _order(parts: np.ndarray, top: int | None) -> Sequence[int]:
        """The places of the parts that are not 0, the largest first."""
        size = np.abs(parts).ravel()
        order = np.argsort(-size, kind="stable")
        return order[: min(int((size > 0).sum()), len(order) if top is None else top)].tolist()


NOTE = (
    "Parts add up to the forecast with the graph as it was here; they are not what the forecast "
    "would be without a value."
)


def _way(hops: int) -> str:
    return "" if hops == 0 else ", over one hop" if hops == 1 else f", over {hops} hops"


def _check_top(top: int | None) -> None:
    if top is not None and (isinstance(top, bool) or not isinstance(top, int) or top < 1):
        raise FighterError(f"top={top!r}: needs a whole number of at least 1, or None for all")
