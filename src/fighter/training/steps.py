"""Training data as the loop sees it, and steps recorded as CUDA graphs."""

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import torch
from torch import Generator, Tensor


class Examples(Protocol):
    """Data to train on: windows of series, or texts."""

    def __len__(self) -> int: ...

    @property
    def device(self) -> torch.device:
        """Device of the data and of the network."""
        ...

    @property
    def eval_batch_size(self) -> int:
        """Number of examples in a forward pass without gradients, chosen to bound the memory."""
        ...

    def batches(self, batch_size: int, generator: Generator | None = None) -> Iterator[Tensor]:
        """Yield index tensors that hold every example once, shuffled with a ``generator``."""
        ...

    def gather(self, index: Tensor) -> Any:
        """Copy the examples number ``index`` into the batch that an objective takes."""
        ...


class CapturedStep:
    """A training step that is recorded once as a CUDA graph and then replayed.

    The step of a small network is some hundred short kernels, and launching them one by one keeps
    the GPU waiting. The step must not read any value on the host. The first calls run eagerly, as
    recording requires, and so does a batch of another size, which is the last of an epoch.
    """

    WARM_UP = 3

    def __init__(self, step: Callable[[Tensor], Tensor], size: int):
        self.step, self.size, self.calls = step, size, 0
        self.graph: torch.cuda.CUDAGraph | None = None
        self.index = self.loss = torch.empty(0)

    def __call__(self, index: Tensor) -> Tensor:
        """Run a step and return its loss, which the next call overwrites."""
        if len(index) != self.size:
            return self.step(index)
        self.calls += 1
        if self.calls <= self.WARM_UP:
            return self._on_side_stream(index)
        if self.graph is None:
            self.graph, self.index = torch.cuda.CUDAGraph(), index.clone()
            with torch.cuda.graph(self.graph):
                self.loss = self.step(self.index)
        self.index.copy_(index)
        self.graph.replay()
        return self.loss

    def _on_side_stream(self, index: Tensor) -> Tensor:
        """Run a step on another stream, because the default one cannot be recorded."""
        here, side = torch.cuda.current_stream(), torch.cuda.Stream()
        side.wait_stream(here)
        with torch.cuda.stream(side):
            loss = self.step(index)
        here.wait_stream(side)
        return loss
