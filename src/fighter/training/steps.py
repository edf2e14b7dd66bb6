"""What a training run takes its steps on, and how a step is launched."""

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import torch
from torch import Tensor


class Examples(Protocol):
    """Data to train on: windows of series, or texts."""

    def __len__(self) -> int: ...

    @property
    def device(self) -> torch.device:
        """Where the data and the network are."""
        ...

    @property
    def eval_batch_size(self) -> int:
        """How many examples a forward pass without gradients takes, to bound the memory."""
        ...

    def batches(
        self, batch_size: int, generator: torch.Generator | None = None
    ) -> Iterator[Tensor]:
        """Index tensors that hold every example once, shuffled if there is a ``generator``."""
        ...

    def gather(self, index: Tensor) -> Any:
        """The examples number ``index``, as an objective takes them."""
        ...


class CapturedStep:
    """A step that is recorded once as a CUDA graph and then launched as a whole.

    A small network's step is some hundred short kernels: launched one by one they keep the GPU
    waiting. The step must not look at any value from the host. The first calls run as they are,
    as recording asks for; so does every batch of another size, which is the last of an epoch.
    """

    WARM_UP = 3

    def __init__(self, step: Callable[[Tensor], Tensor], size: int):
        self.step, self.size, self.calls = step, size, 0
        self.graph: torch.cuda.CUDAGraph | None = None
        self.index = self.loss = torch.empty(0)

    def __call__(self, index: Tensor) -> Tensor:
        """The loss; it is overwritten by the next call."""
        if len(index) != self.size:
            return self.step(index)
        self.calls += 1
        if self.calls <= self.WARM_UP:
            return self._beside(index)
        if self.graph is None:
            self.graph, self.index = torch.cuda.CUDAGraph(), index.clone()
            with torch.cuda.graph(self.graph):
                self.loss = self.step(self.index)
        self.index.copy_(index)
        self.graph.replay()
        return self.loss

    def _beside(self, index: Tensor) -> Tensor:
        """On a stream that is not the default one, which cannot be recorded."""
        here, side = torch.cuda.current_stream(), torch.cuda.Stream()
        side.wait_stream(here)
        with torch.cuda.stream(side):
            loss = self.step(index)
        here.wait_stream(side)
        return loss
