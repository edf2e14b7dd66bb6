"""Forecasts and their errors, batch by batch."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn

from ..data.windows import Batch, Windows
from .losses import Loss
from .parallel import World


def autocast(device: torch.device) -> AbstractContextManager:
    """bfloat16 on CUDA, nothing on CPU."""
    if device.type == "cuda":
        return torch.autocast("cuda", torch.bfloat16)
    return nullcontext()


# Values in a batch: a wide network makes hundreds of bytes of each.
MOST_CELLS = {"cpu": 2**17, "cuda": 2**22}


@torch.no_grad()
def forecast(
    network: nn.Module, windows: Windows, offset: int = 0, batch_size: int = 256
) -> Iterator[tuple[Batch, Tensor]]:
    """Each batch of windows in order, with its forecast ``[batch, horizon, series, outputs]``.

    ``offset`` is the place of the windows' first row on the training data's time axis. Batches are
    smaller where there are many series, so that memory stays bounded.
    """
    steps = windows.lookback + windows.horizon
    most = MOST_CELLS.get(windows.values.device.type, 2**17)
    batch_size = min(batch_size, max(most // (steps * windows.values.shape[1]), 1))
    training = network.training
    network.eval()
    try:
        for index in windows.batches(batch_size):
            batch = windows.gather(index)
            with autocast(batch.past.device):
                y = network(batch, batch.start + offset)
            yield batch, y.float()
    finally:
        network.train(training)


def score(network: nn.Module, windows: Windows, loss: Loss, world: World, offset: int = 0) -> float:
    """The mean loss over every window, none dropped."""
    device = windows.values.device
    mine = Windows(**{**vars(windows), "starts": world.share(windows.starts)})
    total = torch.zeros((), dtype=torch.float64, device=device)
    count = torch.zeros((), dtype=torch.float64, device=device)
    for batch, y in forecast(network, mine, offset):
        part, number = loss(y, batch.future, batch.future_observed)
        total, count = total + part.double(), count + number.double()
    total, count = world.sum(total, count)
    return (total / count.clamp(min=1)).item()
