"""What the numbers of a graph mean, in sentences, and where each sentence begins to be said."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from .graph import LayerGraph, TemporalGraph


class Threshold(NamedTuple):
    """From where on something is said, and why from there."""

    limit: float
    above: bool  # it is said above the limit; else below
    reason: str

    def crossed(self, value: Any) -> Any:
        """Whether it is said of a number, or of each of an array."""
        return value > self.limit if self.above else value < self.limit


THRESHOLDS = {
    "redundancy": Threshold(
        0.99, True, "what two hops see is less than 8° apart; one matrix of weights serves both"
    ),
    "dispersion": Threshold(
        0.05, False, "a hop keeps less than a twentieth of what tells the nodes apart"
    ),
    "spectral_gap": Threshold(
        0.9, True, "|λ₂| < 0.1, and A² keeps about |λ₂|² < 1 % of what tells the nodes apart"
    ),
    "norm_share": Threshold(0.02, False, "a fiftieth of what the hops send; others drown it"),
    "signed_share": Threshold(-0.1, False, "it takes away more than a tenth of what comes out"),
    "entropy": Threshold(0.95, True, "of 100 nodes, as many as 79 or more would count alike"),
    "effective_sources": Threshold(1.5, False, "nearer to one node than to two"),
    "mean_lag": Threshold(1.0, False, "nearer than the next node, on average"),
    "slack": Threshold(10.0, True, "of all that parts add and take away, less than a tenth stays"),
    "spread": Threshold(0.5, True, "as if half of all past values counted alike, or more"),
}

FEW = 10  # past values that are seen at a glance, whether or not some stand out


def read(graph: "TemporalGraph") -> list[str]:
    """What is worth knowing of a forecast and of the layers it came through; none if nothing is.

    The limits are in :data:`THRESHOLDS`, each with its reason. They are measured at this forecast:
    that another κ would do is worth a try, and not known before it.
    """
    return read_forecast(graph) + [
        f"Layer {nth}: {sentence}"
        for nth, layer in enumerate(graph.layers, start=1)
        for sentence in read_layer(layer, ordered=layer.nodes != tuple(map(str, graph.ids)))
    ]


def read_forecast(graph: "TemporalGraph") -> list[str]:
    """What is worth knowing of the parts of a forecast."""
    found = _cancel(graph.sources)
    sizes = np.abs(graph.sources).sum(0)
    sizes = sizes[sizes > 0]
    if not len(sizes):
        return found
    shares = sizes / sizes.sum()
    effective = float(np.exp(-(shares * np.log(shares)).sum()))
    if THRESHOLDS["effective_sources"].crossed(effective):
        found.append(f"Nearly one past value alone counts ({effective:.2g} effective sources).")
    elif len(sizes) >= FEW and THRESHOLDS["spread"].crossed(effective / len(sizes)):
        found.append(
            f"No past values stand out: as if {effective:.0f} of {len(sizes)} counted alike."
        )
    return found


def read_layer(layer: "LayerGraph", *, ordered: bool = True) -> list[str]:
    """What is worth knowing of a layer; said of a hop only if it holds in every head.

    Args:
        layer: one of a graph.
        ordered: nodes stand in time, so that a distance between them means something.

    """
    if len(layer.nodes) < 2:
        return ["There is one node, and no other to listen to."]
    found = _repeats(layer) + _mixes(layer)
    walks = np.array(layer.powers) > 0  # of A⁰ = I it is known that a node listens to itself

    def say(name: str, where: np.ndarray, one: str, many: str, rest: str) -> None:
        values, threshold = getattr(layer.diagnostics, name).cpu().numpy(), THRESHOLDS[name]
        least = values.min(0) if threshold.above else values.max(0)  # of the heads
        holds = where & threshold.crossed(least)
        if hops := [power for power, yes in zip(layer.powers, holds, strict=True) if yes]:
            listed = ", ".join(f"{value:.2g}" for value in least[holds])
            verb = one if len(hops) == 1 else many
            found.append(f"{_named(hops).capitalize()} {verb} {rest} {listed}).")

    every = np.ones_like(walks)
    say("dispersion", walks, "is", "are", "one row for all nodes (dispersion")
    say("entropy", walks, "listens", "listen", "to all nodes alike (entropy")
    nearly = "to nearly one node (effective sources"
    say("effective_sources", walks, "listens", "listen", nearly)
    if ordered:
        say("mean_lag", walks, "stays", "stay", "close by (mean lag")
    say("norm_share", every, "says", "say", "next to nothing (share of the norm")
    say("signed_share", every, "cancels", "cancel", "what the others say (signed share")
    return found + _cancel(layer.parts)


def _repeats(layer: "LayerGraph") -> list[str]:
    """Runs of hops each of which sees what the one before it sees."""
    likeness = layer.diagnostics.redundancy.cpu().numpy().min(0)
    alike = THRESHOLDS["redundancy"].crossed(likeness)  # NaN, after the last hop, is not
    found, powers, first = [], layer.powers, 0
    while first < len(powers):
        last = first
        while alike[last]:
            last += 1
        if last > first:
            those = powers[first + 1 : last + 1]
            sentence = (
                f"{_named(those).capitalize()} {'repeats' if len(those) == 1 else 'repeat'} "
                f"hop {powers[first]} (likeness {likeness[first:last].min():.3f})"
            )
            if last == len(powers) - 1 and powers == tuple(range(len(powers))):
                sentence += f": κ={powers[first] + 1} would do"
            found.append(f"{sentence}.")
        first = last + 1
    return found


def _mixes(layer: "LayerGraph") -> list[str]:
    gap = float(layer.diagnostics.spectral_gap.min())
    if not THRESHOLDS["spectral_gap"].crossed(gap) or max(layer.powers) < 2:
        return []
    return [f"The graph mixes in one step (gap {gap:.2f}): later hops have little to add."]


def _cancel(parts: np.ndarray) -> list[str]:
    gross, net = float(np.abs(parts).sum()), abs(float(parts.sum()))
    if gross <= THRESHOLDS["slack"].limit * net:
        return []
    times = f"{gross / net:.0f} times" if net > 1e-9 * gross else "without end against"
    return [f"Parts cancel: Σ|parts| is {times} what they add up to."]


def _named(hops: Sequence[int]) -> str:
    """Name hops: "hop 1", "hops 1 and 2", "hops 1, 2 and 3"."""
    if len(hops) == 1:
        return f"hop {hops[0]}"
    return f"hops {', '.join(map(str, hops[:-1]))} and {hops[-1]}"
