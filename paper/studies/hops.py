"""What the hops of a trained network do."""

import math

import torch
from torch import Tensor

from fighter import explain
from fighter.data.windows import Windows
from fighter.explain.layer import known_layers
from fighter.models import ForecastNet
from fighter.models.fighter import FighterNet

EXAMPLES = 8  # windows, or sequences of nodes, that hops are measured on


@torch.no_grad()
def diagnose(network: ForecastNet, windows: Windows, start_step: int = 0) -> dict[str, float]:
    """Whether hops differ: a few numbers of the graph over nodes, for some of the windows.

    The mean over layers and heads of :class:`~fighter.explain.HopDiagnostics`: ``spectral gap``
    (near 1: every hop from the second on is a copy), and for each hop i its ``hop i share`` of what
    is sent (by norm), ``hop i dispersion`` (near 0: all nodes see the same) and
    ``hop i redundancy``, its cosine with the power before (near 1: a copy of it). Empty where there
    is no hop. A lazy graph is measured as it is, with what stays. ``offset`` is the place of the
    windows' first row on the axis of the cycle.
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
    training = network.training
    network.eval()
    try:
        network(batch, batch.start + start_step)
        few = [x[_evenly(len(x)).to(x.device)] for x in inputs]
        pairs = zip(layers, few, strict=True)
        found = [explain.measure(explain.hop_parts(layer, x, staying=True)) for layer, x in pairs]
    finally:
        network.train(training)
        for hook in hooks:
            hook.remove()

    def mean(name: str) -> list[float]:
        """Over layers and heads: one for each hop."""
        return torch.stack([getattr(one, name) for one in found]).nanmean((0, 1)).tolist()

    numbers = {"spectral gap": float(torch.stack([one.spectral_gap for one in found]).mean())}
    shares, dispersions = mean("norm_share"), mean("dispersion")
    alike = [math.nan, *mean("redundancy")]  # with the power before
    for i, power in enumerate(layers[0].powers):
        if power:
            numbers[f"hop {power} share"] = shares[i]
            numbers[f"hop {power} dispersion"] = dispersions[i]
            numbers[f"hop {power} redundancy"] = alike[i]
    return {name: number for name, number in numbers.items() if math.isfinite(number)}


def _evenly(count: int) -> Tensor:
    """A few of ``count`` things, from the first to the last."""
    return torch.linspace(0, count - 1, min(count, EXAMPLES)).long()
