"""Links found by other libraries, in an environment of their own: see ``make graph-venv``.

    .graph-venv/bin/python -P benchmarks/graph_peers.py pcmci in.npy out.npz

``in.npy`` holds values ``[time, series]``; ``out.npz`` gets ``strength`` and ``lag``.
"""

import sys

import numpy as np

LAGS = 3  # both test every lag of every pair, and take minutes for more


def pcmci(values: np.ndarray) -> np.ndarray:
    """Return the size of the partial correlations of PCMCI, ``[source, target, lag]``."""
    from tigramite.data_processing import DataFrame  # pyright: ignore[reportMissingImports]
    from tigramite.independence_tests.parcorr import ParCorr  # pyright: ignore[reportMissingImports]
    from tigramite.pcmci import PCMCI  # pyright: ignore[reportMissingImports]

    test = PCMCI(DataFrame(values), ParCorr(), verbosity=0)
    found = test.run_pcmci(tau_min=1, tau_max=LAGS, pc_alpha=0.2)
    return np.abs(found["val_matrix"])[:, :, 1:]


def varlingam(values: np.ndarray) -> np.ndarray:
    """Return the size of the lagged effects of VARLiNGAM, ``[source, target, lag]``."""
    from lingam import VARLiNGAM  # pyright: ignore[reportMissingImports]

    model = VARLiNGAM(lags=LAGS, criterion=None, prune=False)
    model.fit(values)
    return np.abs(model.adjacency_matrices_[1:]).transpose(2, 1, 0)


def main() -> None:
    """Read values, find links, write them."""
    name, source, target = sys.argv[1:]
    effects = {"pcmci": pcmci, "varlingam": varlingam}[name](np.load(source))
    np.savez(target, strength=effects.sum(2), lag=1 + effects.argmax(2))


if __name__ == "__main__":
    main()
