"""Diagnose what the hops of a trained network do."""

import math

import torch
from torch import Tensor

from fighter import explain
from fighter.data.windows import Windows
from fighter.explain.layer import known_layers
from fighter.models import ForecastNet
from fighter.models.fighter import FighterNet

EXAMPLES = 8  # number of windows, or sequences of nodes, that are measured


@torch.no_grad()
def diagnose(network: ForecastNet, windows: Windows, start_step: int = 0) -> dict[str, float]:
    """Return a few numbers that tell whether hops differ, for some of the windows.

    They are means over layers and heads of :class:`~fighter.explain.HopDiagnostics`: ``spectral
    gap`` (near 1: every hop from the second on is a copy), and for each hop i its ``hop i share``
    of what is sent (by norm), ``hop i dispersion`` (near 0: all nodes see the same) and ``hop i
    redundancy``, its cosine with the previous power, both centred (near 1: a copy of it). A lazy
    graph is measured with the part that stays in place. The result is empty if there are no hops.

    Args:
        network: the network, in eval mode.
        windows: windows to measure it on.
        start_step: position of their first row in the learned cycle (default: 0).
    """
    core = network.core
    layers = known_layers(core.encoder) if isinstance(core, FighterNet) else []
    if not layers or layers[0].adjacency is None:
        return {}
    batch = windows.gather(_evenly(len(windows)).to(windows.device))
    inputs: list[Tensor] = []
    hooks = [
        layer.register_forward_pre_hook(lambda _, args: inputs.append(args[0])) for layer in layers
    ]
    try:
        network(batch, batch.start + start_step)
        few = [x[_evenly(len(x)).to(x.device)] for x in inputs]
        pairs = zip(layers, few, strict=True)
        measured = [
            explain.measure(explain.hop_parts(layer, x, staying=True)) for layer, x in pairs
        ]
    finally:
        for hook in hooks:
            hook.remove()

    def mean(name: str) -> list[float]:
        """Return the mean over layers and heads, one number per hop."""
        return torch.stack([getattr(one, name) for one in measured]).nanmean((0, 1)).tolist()

    numbers = {"spectral gap": float(torch.stack([one.spectral_gap for one in measured]).mean())}
    shares, dispersions = mean("norm_share"), mean("dispersion")
    redundancy = [math.nan, *mean("redundancy")]  # with the previous power
    for i, power in enumerate(layers[0].powers):
        if power:
            numbers[f"hop {power} share"] = shares[i]
            numbers[f"hop {power} dispersion"] = dispersions[i]
            numbers[f"hop {power} redundancy"] = redundancy[i]
    return {name: number for name, number in numbers.items() if math.isfinite(number)}


def _evenly(count: int) -> Tensor:
    """Return the indices of a few of ``count`` things, evenly spaced."""
    return torch.linspace(0, count - 1, min(count, EXAMPLES)).long()
