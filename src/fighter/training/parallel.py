"""Processes and threads: ``torchrun --nproc-per-node=N -m fighter fit …``.

Every process holds the data and the network and takes its share of every batch. Without
``torchrun`` there is one process, and the methods here change nothing.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel


@dataclass(frozen=True)
class World:
    """The processes that train together: the rank of this one and their number."""

    rank: int = 0
    size: int = 1

    @classmethod
    def join(cls, device: torch.device) -> "World":
        """Join the processes that ``torchrun`` started; without it, return a world of one."""
        if not dist.is_initialized():
            if not {"RANK", "WORLD_SIZE", "MASTER_ADDR"} <= os.environ.keys():
                return cls()
            if device.type == "cuda":
                torch.cuda.set_device(device)
            dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
        return cls(dist.get_rank(), dist.get_world_size())

    @staticmethod
    def local_rank() -> int:
        """Return the number of the GPU, on its machine, that this process uses."""
        return int(os.environ.get("LOCAL_RANK", "0"))

    @property
    def first(self) -> bool:
        """True on rank 0, the only process that logs and writes."""
        return self.rank == 0

    def share(self, index: Tensor) -> Tensor:
        """Return the part of a batch that this process takes."""
        return index[self.rank :: self.size]

    def wrap(self, network: nn.Module) -> nn.Module:
        """Wrap a network so that gradients are averaged over the processes."""
        return network if self.size == 1 else DistributedDataParallel(network)

    def sum(self, *values: Tensor) -> Tensor:
        """Sum each value over all processes; the result has one element per value."""
        total = torch.stack([value.detach().double() for value in values])
        if self.size > 1:
            dist.all_reduce(total)
        return total

    def wait(self) -> None:
        """Block until every process reaches this point."""
        if self.size > 1:
            dist.barrier()


_random_state = threading.RLock()


@contextmanager
def own_random_state(device: torch.device | None = None) -> Iterator[None]:
    """Leave the caller's random state alone, and let one thread at a time draw from torch's.

    Torch has one generator per device, which all threads share: fits that draw at the same time
    would not get the numbers of their seeds.
    """
    devices = [device] if device is not None and device.type == "cuda" else []
    with _random_state, torch.random.fork_rng(devices=devices):
        yield


@contextmanager
def one_thread() -> Iterator[None]:
    """Run torch on one thread, so that sums do not depend on the number of cores.

    Small networks gain little from more threads and lose much on a busy machine.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
