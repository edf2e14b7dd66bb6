"""Processes and threads: ``torchrun --nproc-per-node=N -m fighter fit … --distributed``.

Every process holds the data and the network and takes its share of every batch. Unless processes
are asked to train together there is one, and the methods here change nothing.
"""

import atexit
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.rendezvous import rendezvous
from torch.nn.parallel import DistributedDataParallel

from ..errors import FighterError

VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
MEETING = timedelta(seconds=60)  # how long processes wait for each other at the start
LEAVING = 0.3  # seconds
WORKING = timedelta(hours=2)  # and later, while one of them writes or scores


@dataclass(frozen=True)
class World:
    """The processes that train together: the rank of this one and their number."""

    rank: int = 0
    size: int = 1

    @classmethod
    def join(cls, device: str | None = None) -> "World":
        """Join the other processes that ``torchrun`` started.

        Args:
            device: where the network will be, "cpu" or "cuda" (default: a GPU if there is one).
                Each process takes the GPU of its number on its machine.
        """
        if not dist.is_initialized():
            rank, size = _variables()
            options: dict[str, Any] = {"rank": rank, "world_size": size, "timeout": WORKING}
            dist.init_process_group(_backend(device), store=_meet(rank, size), **options)
            # Threads of a group that live on while Python ends can abort the process.
            atexit.register(_leave)
        return cls.joined()

    @classmethod
    def joined(cls) -> "World":
        """Return the processes that have joined: this one alone, unless :meth:`join` was called."""
        if not (dist.is_available() and dist.is_initialized()):
            return cls()
        return cls(dist.get_rank(), dist.get_world_size())

    @classmethod
    def local_rank(cls) -> int:
        """Return the number of the GPU, on its machine, that this process uses."""
        return int(os.environ.get("LOCAL_RANK", "0")) if cls.joined().size > 1 else 0

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

    def gather(self, make: Callable[[], Any]) -> list[Any]:
        """Return what each process makes, in the order of ranks; raise the first error of any."""
        error = own = None
        try:
            own = make()
        except FighterError as raised:
            error = raised
        host: Any = dist.new_group(backend="gloo")  # a GPU has no room to pass tables on
        parts = []
        try:
            for rank in range(self.size):
                box = [(own, error) if rank == self.rank else None]
                dist.broadcast_object_list(box, rank, host)
                assert box[0] is not None
                made, failed = box[0]
                if failed is not None:
                    raise failed
                parts.append(made)
        finally:
            dist.destroy_process_group(host)
        return parts

    def wait(self) -> None:
        """Block until every process reaches this point."""
        if self.size > 1:
            dist.barrier()


def _leave() -> None:
    """Leave the other processes, at the end of this one."""
    if dist.is_initialized():
        time.sleep(LEAVING)  # threads of the group may still free what they were given
        dist.destroy_process_group()


def _variables() -> tuple[int, int]:
    """Return rank and number of processes, as ``torchrun`` wrote them to the environment."""
    start = "start the processes with torchrun, which sets it"
    numbers = {}
    for name in VARIABLES:
        value = os.environ.get(name)
        if not value:
            raise FighterError(
                f"the environment variable {name} is not set: {start}", argument="distributed"
            )
        if name != "MASTER_ADDR":
            if not value.isdigit():
                raise FighterError(
                    f"the environment variable {name} is {value!r}, which is not a whole number: "
                    f"{start}",
                    argument="distributed",
                )
            numbers[name] = int(value)
    if not numbers["RANK"] < numbers["WORLD_SIZE"]:
        raise FighterError(
            f"process {numbers['RANK']} of {numbers['WORLD_SIZE']} does not exist (the "
            f"environment variables RANK and WORLD_SIZE): {start}",
            argument="distributed",
        )
    return numbers["RANK"], numbers["WORLD_SIZE"]


def _backend(device: str | None) -> str:
    """Return how processes talk to each other, and choose the GPU of this one."""
    if not torch.cuda.is_available() or (device or "cuda").split(":")[0] != "cuda":
        return "gloo"
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    return "nccl"


def _meet(rank: int, size: int) -> Any:
    """Wait until all processes are here, and return what they share; Ctrl-C ends the wait."""
    found: list[Any] = []

    def connect() -> None:
        try:
            found.append(next(iter(rendezvous("env://", rank, size, timeout=MEETING)))[0])
        except Exception as error:  # raised below, in the thread that waits
            found.append(error)

    # In a thread of its own, because it does not hear Ctrl-C.
    threading.Thread(target=connect, daemon=True).start()
    deadline = time.monotonic() + MEETING.total_seconds()
    here = [f"fighter/{number}" for number in range(size)]
    place = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
    while time.monotonic() < deadline + 5:
        time.sleep(0.01)
        if found and isinstance(found[0], Exception):
            raise FighterError(
                f"process {rank} of {size} found no other at {place} within "
                f"{MEETING.total_seconds():.0f} s ({found[0]}): start all of them with torchrun",
                argument="distributed",
            ) from found[0]
        if found:
            store = found[0]
            store.set(here[rank], "1")
            if store.check(here):
                return store
            time.sleep(0.1)
    raise FighterError(
        f"of {size} processes that were to meet at {place} not all came within "
        f"{MEETING.total_seconds():.0f} s: start all of them with torchrun",
        argument="distributed",
    )


_shared_state = threading.RLock()


@contextmanager
def own_random_state(device: torch.device | None = None) -> Iterator[None]:
    """Leave the caller's random state alone, and let one thread at a time draw from torch's.

    Torch has one generator per device, which all threads share: fits that draw at the same time
    would not get the numbers of their seeds.
    """
    devices = [device] if device is not None and device.type == "cuda" else []
    with _shared_state, torch.random.fork_rng(devices=devices):
        yield


@contextmanager
def one_thread(*, wait: bool = True) -> Iterator[None]:
    """Run torch on one thread, so that sums do not depend on the number of cores.

    Small networks gain little from more threads and lose much on a busy machine. While another
    thread of Python fits, ``wait`` says whether to wait for its end or to go on with the threads
    there are.
    """
    if not _shared_state.acquire(blocking=wait):  # the number of threads is shared, too
        yield
        return
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        yield
    finally:
        torch.set_num_threads(before)
        _shared_state.release()
