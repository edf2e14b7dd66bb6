"""Random graphs of forecasts, of any size."""

from typing import NamedTuple

import numpy as np
import torch

from fighter.data.frequency import Frequency
from fighter.data.time_axis import TimeAxis
from fighter.explain import HopDiagnostics, LayerGraph, LazyDiagnostics, TemporalGraph
from fighter.explain.layer import HopParts

NAMES = ("Größe €/MWh", "price_$_a_$", "_hidden", "Москва", "a\nb", "name " * 20, 7, "Δ", "x" * 300)


def random_graph(
    series: int = 3,
    lookback: int = 24,
    nodes: str = "series",
    *,
    ids: tuple | None = None,
    integer: bool = False,
    layers: int = 2,
    heads: int = 2,
    powers: tuple[int, ...] = (0, 1, 2),
) -> TemporalGraph:
    """A forecast of the second series, if there are two, three steps ahead."""
    rng = np.random.default_rng(0)
    freq = Frequency.parse(1 if integer else "h")
    times = freq.range(0 if integer else 1_700_000_000 // 3600 * 3600 * 10**9, lookback + 3)
    ids = ids or tuple(f"zone {i}" for i in range(series))
    hops = layers * max(powers)
    sources = rng.normal(size=(1 + hops, lookback, len(ids))) / 10
    terms = {"level": 10.0, "bias": 0.5}
    names = {
        "series": tuple(map(str, ids)),
        "time": tuple(freq.show(int(t)) for t in times[:lookback]),
        "patch": tuple(f"patch {i + 1} of 6" for i in range(6)),
    }[nodes]
    return TemporalGraph(
        target=ids[min(1, len(ids) - 1)],
        step=3,
        time=int(times[-1]),
        forecast=sum(terms.values()) + float(sources.sum()),
        terms=terms,
        ids=ids,
        times=times[:lookback],
        past=10 + rng.normal(size=(lookback, len(ids))),
        sources=sources,
        layers=tuple(random_layer(names, heads, powers) for _ in range(layers)),
        freq=freq,
        axis=TimeAxis(kind="integer" if integer else "datetime"),
    )


def random_layer(nodes: tuple[str, ...], heads: int, powers: tuple[int, ...]) -> LayerGraph:
    count = len(nodes)
    shape = (1, heads, count, count)
    parts = HopParts(
        torch.randn(1, 1, count, 5),
        torch.randn(shape).mul(2).softmax(-1),
        powers,
        tuple(torch.randn(heads * 4, 5) for _ in powers),
        tuple(torch.randn(1, heads, count, 4) for _ in powers),
    )
    weights = torch.stack(parts.graphs(), 2)[0].numpy()
    return LayerGraph(nodes, powers, weights, weights * 0.3, 0.0, LazyDiagnostics(parts))


class FixedDiagnostics(NamedTuple):
    """Diagnostics that are given instead of measured."""

    diagnostics: HopDiagnostics


def neutral_diagnostics(heads: int = 2, powers: tuple[int, ...] = (0, 1, 2)) -> HopDiagnostics:
    """Diagnostics that cross no threshold."""
    values = {
        "spectral_gap": 0.5, "dispersion": 0.5, "norm_share": 1 / len(powers),
        "signed_share": 1 / len(powers), "entropy": 0.5, "effective_sources": 4.0, "mean_lag": 4.0,
        "redundancy": 0.5,
    }  # fmt: skip
    tensors = {name: torch.full((heads, len(powers)), value) for name, value in values.items()}
    tensors["spectral_gap"] = tensors["spectral_gap"][:, 0]
    tensors["redundancy"][:, -1] = float("nan")
    return HopDiagnostics(powers, **tensors)
