"""Forecasts and their errors, batch by batch."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn

from ..data.bounds import clamp_to_bounds
from ..data.windows import Batch, Windows
from .losses import Objective
from .parallel import World
from .steps import Examples


def autocast(device: torch.device) -> AbstractContextManager:
    """bfloat16 on CUDA, nothing on CPU."""
    if device.type == "cuda":
        return torch.autocast("cuda", torch.bfloat16)
    return nullcontext()


@torch.no_grad()
def forecast(
    network: nn.Module, windows: Windows, start_step: int = 0
) -> Iterator[tuple[Batch, Tensor]]:
    """Each batch of windows in order, with its forecast ``[batch, horizon, series, outputs]``.

    Forecasts are within the limits of their series.

    ``offset`` is the place of the windows' first row on the training data's time axis.
    """
    training = network.training
    network.eval()
    try:
        for index in windows.batches(windows.eval_batch_size):
            batch = windows.gather(index)
            with autocast(windows.device):
                y = network(batch, batch.start + start_step)
            yield batch, clamp_to_bounds(y.float(), batch)
    finally:
        network.train(training)


@torch.no_grad()
def score(network: nn.Module, data: Examples, measure: Objective, world: World) -> float:
    """The mean of a measure over every example, none dropped."""
    total = torch.zeros(2, dtype=torch.float64, device=data.device)
    training = network.training
    network.eval()
    for index in data.batches(data.eval_batch_size * world.size):
        mine = world.share(index)
        if len(mine):
            with autocast(data.device):
                part = measure(network, data.gather(mine))
            total += torch.stack(part).double()
    network.train(training)
    total, count = world.sum(*total)
    return (total / count.clamp(min=1)).item()
