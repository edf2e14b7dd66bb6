"""The network of a whole table: which series the forecasts of each series are made of."""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data.columns import listing
from ..data.forecast_table import plain_table
from ..data.frequency import Frequency
from ..data.time_axis import TimeAxis
from ..errors import FighterError, check_count, check_number, needs_package
from .graph import check_top

if TYPE_CHECKING:
    import networkx as nx
    from matplotlib.figure import Figure

Matrix = np.ndarray  # [source, target]
NOTE = (
    "A link says that past values of one series were used to forecast another, and that this was "
    "borne out. It is like a link of Granger's: it is not a cause. Two series may follow a third."
)
CHANGED = 3.0  # deviations of the resampled strengths, beyond which a link has changed
LEAST = 0.02  # strength, in deviations of the target, below which a link is never stable
SURE = 0.5  # stability from which on a link is called stable
MOST_LINKS = 400  # in a picture


@dataclass(frozen=True, eq=False, repr=False)
class Network:
    """Links between the series of a table, aggregated over many exactly explained forecasts.

    Matrices are ``[source, target]``; the diagonal is what a series takes from its own past.

    Args:
        ids: the series.
        strength: typical size of the part that comes from the source, in deviations of the target,
            as far as it was borne out by the values that followed.
        share: mean share of the source in the absolute parts of the target's forecasts. Smoothing
            counts as the target's own past by its share in the mixture, and so does the pretrained
            network in it. The shares of a target add up to 1.
        lag: steps from the past value that counts most, in all windows together, to the forecast;
            0 if the source has none.
        sign: 1 if a higher value at that lag pulls the forecast up, -1 if it pulls it down.
        hops: mean number of edges walked in the model's graph; NaN where they are not counted.
        stability: share of resamples of the windows in which the link has a strength of at least
            0.02 and is among the strongest: a tenth of all, or one for each series if that is more.
        deviation: deviation of the strength over the resamples.
        windows: number of windows that were explained.
        notes: sentences about what the network could not see.
        freq: step of the time axis, for lags in words.
        axis: the time column of the table.
        like: type of the tables.
    """

    ids: tuple
    strength: Matrix
    share: Matrix
    lag: Matrix
    sign: Matrix
    hops: Matrix
    stability: Matrix
    deviation: Matrix
    windows: int
    freq: Frequency
    notes: tuple[str, ...] = ()
    axis: TimeAxis = field(default_factory=TimeAxis)
    like: Any = "pandas"

    def __repr__(self) -> str:
        stable = int((self.links.stability >= SURE).sum())
        series = f"{len(self.ids):,} series"
        return f"<Network of {series}, {stable:,} stable links, from {self.windows} windows>"

    def __str__(self) -> str:
        return self.summary()

    @cached_property
    def links(self) -> "Links":
        """The links between two series, the strongest first."""
        return self._links(own=False)

    def _links(self, own: bool) -> "Links":
        chosen = (self.strength > 0) | (self.share > 0)
        if not own:
            chosen = chosen & ~np.eye(len(self.ids), dtype=bool)
        places = np.nonzero(chosen)
        order = np.lexsort((-self.share[places], -self.strength[places]))
        source, target = (each[order] for each in places)
        return Links(self, source, target)

    def table(self, like: Any = None, *, top: int | None = None, own: bool = True) -> Any:
        """Return a table of links, the strongest first.

        Its columns are ``source, target, lag, strength, share, sign, hops, stability``; see
        :class:`Network`.

        Args:
            like: a table whose type to use; or "pandas", "polars" or "pyarrow" (default: the type
                of the table that was explained).
            top: number of rows to keep (default: None, all).
            own: whether to list what a series takes from its own past (default: True).
        """
        check_top(top)
        chosen = self._links(own)
        columns = {
            "source": [self.ids[i] for i in chosen.source[:top]],
            "target": [self.ids[i] for i in chosen.target[:top]],
        }
        for name in ("lag", "strength", "share", "sign", "hops", "stability"):
            columns[name] = getattr(chosen, name)[:top]
        return plain_table(self.like if like is None else like, columns, self.axis)

    def to_networkx(self, top: int | None = None, *, stability: float = SURE) -> "nx.DiGraph":
        """Return a graph of the links between two series, with their numbers as attributes.

        Args:
            top: number of links to keep, the strongest (default: None, all).
            stability: least stability of a link to be kept (default: 0.5).
        """
        with needs_package("networkx"):
            import networkx as nx
        check_top(top)
        check_number("stability", stability, "a number from 0 to 1", lambda s: 0 <= s <= 1)
        graph = nx.DiGraph()
        for i, name in enumerate(self.ids):
            graph.add_node(name, own_share=float(self.share[i, i]))
        for i, j in self.links.strongest(top, stability):
            graph.add_edge(
                self.ids[i], self.ids[j], lag=int(self.lag[i, j]), sign=int(self.sign[i, j]),
                **{name: float(getattr(self, name)[i, j])
                   for name in ("strength", "share", "hops", "stability")},
            )  # fmt: skip
        return graph

    def compare(self, other: "Network", like: Any = None) -> Any:
        """Return a table of the links that differ from those of an earlier network.

        Its columns are ``source, target, change`` (appeared, vanished, stronger, weaker, turned),
        ``before`` and ``after`` (strengths), ``lag_before`` and ``lag_after``. A strength has
        changed if the difference is more than three deviations of what resampled windows give.
        Only series that are in both networks are compared.

        Args:
            other: the earlier network.
            like: type of the table, as in :meth:`table`.
        """
        if not isinstance(other, Network):
            raise FighterError("needs a Network", argument="other", value=type(other).__name__)
        known = {name: i for i, name in enumerate(other.ids)}
        here = np.array([i for i, name in enumerate(self.ids) if name in known], int)
        if not len(here):
            reason = f"has no series of this network, such as {self.ids[0]!r}"
            raise FighterError(reason, argument="other", value=listing(other.ids, 3))
        there = np.array([known[self.ids[i]] for i in here])

        def pair(name: str) -> tuple[Matrix, Matrix]:
            after, before = getattr(self, name), getattr(other, name)
            return before[np.ix_(there, there)], after[np.ix_(here, here)]

        before, after = pair("strength")
        noise = np.hypot(*pair("deviation"))
        stable = [each >= SURE for each in pair("stability")]
        change = after - before
        changed = (np.abs(change) > CHANGED * noise) & (np.abs(change) >= LEAST)
        signs = pair("sign")
        turned = stable[0] & stable[1] & (signs[0] * signs[1] < 0)
        rows = np.nonzero(turned | (changed & (stable[0] | stable[1])))
        rows = tuple(each[np.argsort(-np.abs(change[rows]), kind="stable")] for each in rows)

        def name(i: int, j: int) -> str:
            if turned[i, j]:
                return "turned"
            if not stable[0][i, j]:
                return "appeared"
            if not stable[1][i, j]:
                return "vanished"
            return "stronger" if change[i, j] > 0 else "weaker"

        lags = pair("lag")
        columns = {
            "source": [self.ids[here[i]] for i in rows[0]],
            "target": [self.ids[here[j]] for j in rows[1]],
            "change": [name(i, j) for i, j in zip(*rows, strict=True)],
            "before": before[rows],
            "after": after[rows],
            "lag_before": lags[0][rows],
            "lag_after": lags[1][rows],
        }
        return plain_table(self.like if like is None else like, columns, self.axis)

    def summary(self, most: int = 5) -> str:
        """Return the strongest stable links in words.

        Args:
            most: number of links to name (default: 5).
        """
        return "\n".join([*self.sentences(most), NOTE])

    def sentences(self, most: int = 5) -> list[str]:
        """Return the lines of :meth:`summary` that are about this network."""
        own = float(np.diagonal(self.share).mean())
        windows = f"{self.windows:,} window{'s' * (self.windows != 1)}"
        check_count("most", most)
        lines = [
            f"{len(self.ids):,} series, {windows}: on average {100 * own:.0f} % of "
            "the parts of a forecast come from the series' own past."
        ]
        strongest = self.links.strongest(most, SURE)
        for i, j in strongest:
            lag = self.freq.span(int(self.lag[i, j]))
            rise = "up" if self.sign[i, j] > 0 else "down"
            lines.append(
                f"{self.ids[j]} follows {self.ids[i]} by {lag}: strength "
                f"{self.strength[i, j]:.2g}, share {100 * self.share[i, j]:.0f} %; a higher "
                f"{self.ids[i]} pulls it {rise}."
            )
        stable = int((self.links.stability >= SURE).sum())
        if stable > len(strongest):
            lines.append(f"{stable - len(strongest):,} more links are stable.")
        if not stable and len(self.ids) > 1 and not self.notes:
            lines.append("No link between two series is stable.")
        return [*lines, *self.notes]

    def order(self) -> np.ndarray:
        """Return the series so that those with strong links are neighbours.

        They are sorted by the Fiedler vector of each connected part, large parts first.
        """
        weight = np.where(self.stability >= SURE, self.strength, 0.0)
        np.fill_diagonal(weight, 0.0)
        weight = weight + weight.T
        parts = _connected(weight > 0)
        order: list[int] = []
        for part in sorted(parts, key=lambda part: (-len(part), part[0])):
            if len(part) > 2:
                own = np.sqrt(weight[np.ix_(part, part)])
                laplacian = np.diag(own.sum(1)) - own
                vector = np.linalg.eigh(laplacian)[1][:, 1]
                vector = vector * (1 if vector[np.abs(vector).argmax()] > 0 else -1)
                part = [part[i] for i in np.argsort(vector, kind="stable")]
            order += part
        return np.array(order, int)

    def plot(
        self,
        path: str | Path | None = None,
        *,
        kind: str | None = None,
        top: int = MOST_LINKS,
        stability: float = SURE,
        dark: bool | None = None,
    ) -> "Figure":
        """Draw the links between series with matplotlib.

        Colours are lags, widths and shades are strengths.

        Args:
            path: also write the picture there; the ending gives the format (default: do not).
            kind: "circle" draws an arrow from source to target, "matrix" a cell for each link,
                where series with strong links are neighbours (default: a matrix for more than 30
                series).
            top: number of links to draw, the strongest (default: 400).
            stability: least stability of the links (default: 0.5).
            dark: as in :meth:`TemporalGraph.plot`.
        """
        from ..plotting.network import draw_network

        check_top(top)
        return draw_network(self, path, kind=kind, top=top, stability=stability, dark=dark)

    def save_html(self, path: str | Path, *, title: str = "") -> None:
        """Write an HTML page with the picture and the table; it works offline.

        Args:
            path: the file to write, ``.html``.
            title: title of the page.
        """
        from .network_page import write_network_page

        write_network_page(self, path, title=title)


@dataclass(frozen=True, eq=False)
class Links:
    """Some links of a network, the strongest first."""

    network: Network
    source: np.ndarray
    target: np.ndarray

    def __len__(self) -> int:
        return len(self.source)

    def __getattr__(self, name: str) -> np.ndarray:
        """Return a matrix of the network at these links."""
        if name not in ("lag", "strength", "share", "sign", "hops", "stability"):
            raise AttributeError(name)
        return getattr(self.network, name)[self.source, self.target]

    def strongest(self, top: int | None, stability: float) -> list[tuple[int, int]]:
        """Return sources and targets of the strongest links that are stable."""
        some = (self.stability >= stability) & (self.strength > 0)
        return [
            *zip(self.source[some][:top].tolist(), self.target[some][:top].tolist(), strict=True)
        ]


def _connected(linked: np.ndarray) -> list[list[int]]:
    """Return the connected parts of an undirected graph."""
    left, parts = set(range(len(linked))), []
    while left:
        seen, edge = set(), {min(left)}
        while edge:
            seen |= edge
            edge = set(np.flatnonzero(linked[sorted(edge)].any(0)).tolist()) - seen
        parts.append(sorted(seen))
        left -= seen
    return parts


def resample(
    product: np.ndarray,
    square: np.ndarray,
    *,
    prior: float,
    count: int = 100,
    block: int = 5,
    seed: int = 0,
) -> tuple[Matrix, Matrix, Matrix]:
    """Return strengths, stabilities and deviations from the numbers of each window.

    Args:
        product: product of a part and what it should have been ``[windows, N, N]``.
        square: square of the part.
        prior: number of imaginary windows in which parts were exactly right.
        count: number of resamples.
        block: neighbouring windows that are drawn together, as they overlap.
        seed: of the draws.
    """
    product, square = product.astype(float), square.astype(float)
    windows, series, _ = square.shape
    strength = _strengths(product.mean(0), square.mean(0), windows, prior)
    rng = np.random.default_rng(seed)
    block = min(block, windows)
    starts = rng.integers(0, windows, (count, -(-windows // block)))
    drawn = (starts[..., None] + np.arange(block)).reshape(count, -1)[:, :windows] % windows
    apart = ~np.eye(series, dtype=bool)
    kept, total, squares = (np.zeros((series, series)) for _ in range(3))
    links = series * (series - 1)
    strongest = min(max(series, links // 10), links)
    for rows in drawn:
        weight = np.bincount(rows, minlength=windows) / windows
        own = _strengths(
            np.tensordot(weight, product, 1), np.tensordot(weight, square, 1), windows, prior
        )
        ranked = np.sort(own[apart])[::-1]
        least = max(ranked[strongest - 1], LEAST) if links else LEAST
        kept += own >= least
        total += own
        squares += own**2
    deviation = np.sqrt(np.maximum(squares / count - (total / count) ** 2, 0.0))
    return strength, kept / count, deviation


def _strengths(product: np.ndarray, square: np.ndarray, windows: int, prior: float) -> np.ndarray:
    """Return the root mean square of parts, times the share of it that was borne out."""
    slope = (windows * product + prior * square) / np.maximum((windows + prior) * square, 1e-300)
    return np.sqrt(square) * np.clip(slope, 0.0, 1.0)


__all__ = ["NOTE", "Links", "Network", "resample"]
