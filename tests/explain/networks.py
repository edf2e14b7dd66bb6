"""Random networks of any size."""

import numpy as np

from fighter import Network
from fighter.data.frequency import Frequency


def random_network(
    series: int, links: float = 1.5, *, ids: tuple | None = None, seed: int = 0
) -> Network:
    """Return a network with about so many stable links for each series, mostly within groups."""
    rng = np.random.default_rng(seed)
    shape = (series, series)
    strength, stability = 0.01 * rng.random(shape), np.zeros(shape)
    np.fill_diagonal(strength, 0.5)
    group = rng.integers(0, max(series // 8, 1), series)
    for _ in range(int(links * series)):
        source = rng.integers(series)
        near = np.flatnonzero(group == group[source]) if rng.random() < 0.9 else np.arange(series)
        target = rng.choice(near)
        if source != target:
            strength[source, target] = 0.05 + 0.4 * rng.random()
            stability[source, target] = 0.6 + 0.4 * rng.random()
    return Network(
        ids=ids or tuple(f"zone {i}" for i in range(series)),
        strength=strength,
        share=strength / strength.sum(0),
        lag=rng.integers(1, 30, shape),
        sign=rng.choice([-1, 1], shape),
        hops=np.ones(shape),
        stability=stability,
        deviation=np.full(shape, 0.01),
        windows=200,
        freq=Frequency.parse("h"),
    )
