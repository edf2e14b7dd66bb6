"""Processes and threads: ``torchrun --nproc-per-node=N -m fighter fit …``.

Every process holds the data and the network; each takes its share of every batch. Started
without ``torchrun``, a world is one process and every method here does nothing.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel


@dataclass(frozen=True)
class World:
    """The processes that train together, and which of them this one is."""

    rank: int = 0
    size: int = 1

    @classmethod
    def join(cls, device: torch.device) -> "World":
        """The world that ``torchrun`` set up, or a world of one."""
        if not dist.is_initialized():
            if not {"RANK", "WORLD_SIZE", "MASTER_ADDR"} <= os.environ.keys():
                return cls()
            if device.type == "cuda":
                torch.cuda.set_device(device)
            dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
        return cls(dist.get_rank(), dist.get_world_size())

    @staticmethod
    def local_rank() -> int:
        """Which GPU of its machine a process takes."""
        return int(os.environ.get("LOCAL_RANK", "0"))

    @property
    def first(self) -> bool:
        """Whether this process speaks and writes for all."""
        return self.rank == 0

    def share(self, index: Tensor) -> Tensor:
        """The part of a batch that this process takes."""
        return index[self.rank :: self.size]

    def wrap(self, network: nn.Module) -> nn.Module:
        """The network with gradients averaged over processes."""
        return network if self.size == 1 else DistributedDataParallel(network)

    def sum(self, *values: Tensor) -> Tensor:
        """Sums over all processes."""
        total = torch.stack([value.detach().double() for value in values])
        if self.size > 1:
            dist.all_reduce(total)
        return total

    def wait(self) -> None:
        """Until all are here."""
        if self.size > 1:
            dist.barrier()


@contextmanager
def one_thread() -> Iterator[None]:
    """The order of sums, and so the result, does not depend on how many there are.

    Small networks gain little from more, and lose much on a machine that is busy.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
