"""Describe the numbers of a graph in sentences, each said only beyond a threshold."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from .graph import LayerGraph, TemporalGraph


class Threshold(NamedTuple):
    """The value beyond which a sentence is said, and the reason for that value."""

    value: float
    above: bool  # the sentence is said above the value, else below it
    reason: str

    def crossed(self, number: Any) -> Any:
        """Return whether a number, or each number of an array, is beyond the threshold."""
        return number > self.value if self.above else number < self.value


THRESHOLDS = {
    "redundancy": Threshold(
        0.99, True, "what two hops see differs by less than 8°; one weight matrix serves both"
    ),
    "dispersion": Threshold(
        0.05, False, "a hop keeps less than a twentieth of the differences between nodes"
    ),
    "spectral_gap": Threshold(
        0.9, True, "|λ₂| < 0.1, so A² keeps about |λ₂|² < 1 % of the differences between nodes"
    ),
    "norm_share": Threshold(0.02, False, "less than a fiftieth of what all hops send"),
    "signed_share": Threshold(-0.1, False, "the hop cancels more than a tenth of the sum"),
    "entropy": Threshold(0.95, True, "as if at least 79 of 100 nodes had equal weight"),
    "effective_sources": Threshold(1.5, False, "closer to one node than to two"),
    "mean_lag": Threshold(1.0, False, "closer than the next node, on average"),
    "even_lag": Threshold(0.5, False, "less than half as far as with equal weights for all nodes"),
    "slack": Threshold(10.0, True, "less than a tenth of Σ|parts| remains in the sum"),
    "spread": Threshold(0.5, True, "as if at least half of all past values had equal weight"),
}

FEW = 10  # so few past values are seen at a glance, whether or not some stand out


def describe_graph(graph: "TemporalGraph") -> list[str]:
    """Return what is worth knowing about a forecast and its layers, in sentences; [] if nothing is.

    The thresholds and their reasons are in :data:`THRESHOLDS`. All numbers are measured at this
    forecast, so a sentence that a smaller κ may be enough is a suggestion to try it.
    """
    return describe_forecast(graph) + [
        f"Layer {nth}: {sentence}"
        for nth, layer in enumerate(graph.layers, start=1)
        for sentence in describe_layer(layer, ordered=layer.nodes != tuple(map(str, graph.ids)))
    ]


MOSTLY, MUCH, LITTLE = 0.6, 0.15, 0.03  # shares of series, for the headline


def describe_briefly(graph: "TemporalGraph") -> str:
    """Say in plain words where a forecast comes from.

    For example: "Mostly its own last day; west adds a little." Sizes are those of the sums
    of each series' parts.
    """
    sizes, sums = np.abs(graph.sources).sum(0), np.abs(graph.sources.sum((0, 1)))
    if not sums.any():
        return "No past value has a part."
    own = graph.ids.index(graph.target)
    shares = sums / sums.sum()
    recent = graph.freq.season[0] if graph.freq.season else 0
    what = "its own past"
    if 0 < recent < len(sizes) and sizes[-recent:, own].sum() > MOSTLY * sizes[:, own].sum():
        what = f"its own last {graph.freq.span(recent).removeprefix('1 ')}"
    others = [i for i in np.argsort(-shares, kind="stable").tolist() if i != own]
    much = [str(graph.ids[i]) for i in others if shares[i] >= MUCH]
    few = [str(graph.ids[i]) for i in others if LITTLE <= shares[i] < MUCH]
    small = float(sum(shares[i] for i in others if shares[i] < LITTLE))
    if shares[own] >= MOSTLY:
        first = f"mostly {what}" if 1 - shares[own] > LITTLE / 3 else f"only {what}"
    elif shares[own] >= MUCH:
        first = f"partly {what}"
    elif shares[own] >= LITTLE:
        first = f"only a little {what}"
    else:
        first = "hardly its own past"
    sentences = [first]
    if much:
        sentences.append(f"{_list_names(much)} {'adds' if len(much) == 1 else 'add'} much")
    if few:
        sentences.append(f"{_list_names(few)} {'adds' if len(few) == 1 else 'add'} a little")
    if small >= MUCH:
        sentences.append("many other series add a little each")
    text = "; ".join(sentences)
    return f"{text[0].upper()}{text[1:]}."


def _list_names(names: list[str]) -> str:
    """Return "a", "a and b", "a, b and c", or "a, b and 5 others"."""
    names = [name if len(name) <= 40 else f"{name[:39]}…" for name in names]
    shown = names if len(names) <= 3 else [*names[:2], f"{len(names) - 2} others"]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def describe_forecast(graph: "TemporalGraph") -> list[str]:
    """Return what is worth knowing about the parts of a forecast, in sentences."""
    sentences = _describe_cancelling(graph.sources)
    sizes = np.abs(graph.sources).sum(0)
    sizes = sizes[sizes > 0]
    if not len(sizes):
        return sentences
    shares = sizes / sizes.sum()
    effective = float(np.exp(-(shares * np.log(shares)).sum()))
    if THRESHOLDS["effective_sources"].crossed(effective):
        sentences.append(f"A single past value dominates ({effective:.2g} effective sources).")
    elif len(sizes) >= FEW and THRESHOLDS["spread"].crossed(effective / len(sizes)):
        equal = f"{effective:.0f} of {len(sizes)}"
        sentences.append(f"No past value stands out: it is as if {equal} had equal weight.")
    return sentences


def describe_layer(layer: "LayerGraph", *, ordered: bool = True) -> list[str]:
    """Return what is worth knowing about a layer; about a hop only if it holds in every head.

    ``ordered``: nodes follow each other in time; only then are distances between them described.
    """
    if len(layer.nodes) < 2:
        return ["There is only one node, so there is no other to attend to."]
    sentences = _describe_repeats(layer) + _describe_mixing(layer)
    walks = np.array(layer.powers) > 0  # by A⁰ = I, every node attends to itself alone

    def add(name: str, where: np.ndarray, one: str, many: str, rest: str) -> None:
        values, threshold = getattr(layer.diagnostics, name).cpu().numpy(), THRESHOLDS[name]
        least = values.min(0) if threshold.above else values.max(0)  # over heads
        holds = where & threshold.crossed(least)
        if hops := [power for power, yes in zip(layer.powers, holds, strict=True) if yes]:
            numbers = ", ".join(f"{value:.2g}" if value else "0" for value in _tidy(least[holds]))
            verb = one if len(hops) == 1 else many
            sentences.append(f"{_list_hops(hops).capitalize()} {verb} {rest} {numbers}).")

    every = np.ones_like(walks)
    add("dispersion", walks, "gives", "give", "all nodes the same row (dispersion")
    add("entropy", walks, "attends", "attend", "to all nodes equally (entropy")
    single = "to almost a single node (effective sources"
    add("effective_sources", walks, "attends", "attend", single)
    if ordered:
        lags = layer.diagnostics.mean_lag.cpu().numpy()
        near = THRESHOLDS["even_lag"].crossed(lags / _even_lag(len(layer.nodes))).all(0)
        add("mean_lag", walks & near, "reaches", "reach", "only nearby nodes (mean lag")
    add("norm_share", every, "sends", "send", "almost nothing (share of the norm")
    add("signed_share", every, "cancels", "cancel", "what other hops send (signed share")
    return sentences + _describe_cancelling(layer.parts)


def _describe_repeats(layer: "LayerGraph") -> list[str]:
    """Name runs of hops in which each hop sees what the one before it sees."""
    likeness = layer.diagnostics.redundancy.cpu().numpy().min(0)
    alike = THRESHOLDS["redundancy"].crossed(likeness)  # False for the NaN after the last hop
    sentences, powers, first = [], layer.powers, 0
    while first < len(powers):
        last = first
        while alike[last]:
            last += 1
        if last > first:
            hops = powers[first + 1 : last + 1]
            sentence = (
                f"{_list_hops(hops).capitalize()} {'repeats' if len(hops) == 1 else 'repeat'} "
                f"hop {powers[first]} (likeness {likeness[first:last].min():.3f})"
            )
            if last == len(powers) - 1 and powers == tuple(range(len(powers))):
                sentence += f": κ={powers[first] + 1} may be enough"
            sentences.append(f"{sentence}.")
        first = last + 1
    return sentences


def _even_lag(nodes: int) -> float:
    """Return the mean lag of a graph in which every node has the same weight."""
    return (nodes**2 - 1) / (3 * nodes)


def _tidy(values: np.ndarray) -> np.ndarray:
    """Replace what rounding leaves of a zero by 0."""
    return np.where(np.abs(values) < 1e-6, 0.0, values)


def _describe_mixing(layer: "LayerGraph") -> list[str]:
    gap = float(layer.diagnostics.spectral_gap.min())
    if not THRESHOLDS["spectral_gap"].crossed(gap) or max(layer.powers) < 2:
        return []
    return [f"The graph mixes in one step (gap {gap:.2f}): later hops have little to add."]


def _describe_cancelling(parts: np.ndarray) -> list[str]:
    gross, net = float(np.abs(parts).sum()), abs(float(parts.sum()))
    if gross <= THRESHOLDS["slack"].value * net:
        return []
    if net <= 1e-9 * gross:
        return ["Parts cancel completely: they add up to almost 0."]
    return [f"Parts cancel: Σ|parts| is {gross / net:.0f} times |Σ parts|."]


def _list_hops(hops: Sequence[int]) -> str:
    """Return "hop 1", "hops 1 and 2" or "hops 1, 2 and 3"."""
    if len(hops) == 1:
        return f"hop {hops[0]}"
    return f"hops {', '.join(map(str, hops[:-1]))} and {hops[-1]}"
