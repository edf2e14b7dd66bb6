"""Forecasts and scores of a network, batch by batch.

The network must be in eval mode, as :func:`~fighter.training.train` leaves it. Nothing here changes
it, so that several threads can use one network at the same time.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn

from .._typing import Float
from ..data.bounds import clamp_to_bounds
from ..data.windows import Batch, Windows
from .losses import Objective
from .parallel import World
from .steps import Examples


def autocast(device: torch.device) -> AbstractContextManager:
    """Compute in bfloat16 on CUDA, in full precision on CPU."""
    if device.type == "cuda":
        return torch.autocast("cuda", torch.bfloat16)
    return nullcontext()


@torch.no_grad()
def forecast(
    network: nn.Module, windows: Windows, start_step: int = 0
) -> Iterator[tuple[Batch, Float[Tensor, "batch horizon series outputs"]]]:
    """Yield every batch of windows, in order, with its forecast within the bounds of the series.

    ``start_step`` is the step of the first row of ``windows`` on the training time axis.
    """
    for index in windows.batches(windows.eval_batch_size):
        batch = windows.gather(index)
        with autocast(windows.device):
            y = network(batch, batch.start + start_step)
        yield batch, clamp_to_bounds(y.to(batch.past.dtype), batch)


@torch.no_grad()
def score(network: nn.Module, data: Examples, measure: Objective, world: World) -> float:
    """Return the mean of a measure over all examples."""
    total = torch.zeros(2, dtype=torch.float64, device=data.device)
    for index in data.batches(data.eval_batch_size * world.size):
        mine = world.share(index)
        if len(mine):
            with autocast(data.device):
                part = measure(network, data.gather(mine))
            total += torch.stack(part).double()
    total, count = world.sum(*total)
    return (total / count.clamp(min=1)).item()
