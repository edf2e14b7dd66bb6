"""Training examples of a table with many series: windows of a few hundred of them at a time."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from .._typing import Float, Int
from .windows import Batch, Windows

DRAWS = 16  # ways to divide the series into groups


@dataclass(frozen=True, eq=False)
class SampledWindows:
    """Windows of groups of series; a training step takes some windows of one group.

    Memory and time of a step depend on the size of a group and not on the number of series.

    Args:
        windows: all windows of all series.
        groups: the series of each group.
        weights: how often each window is drawn: as many targets it has.
        count: number of examples in an epoch.
    """

    windows: Windows
    groups: Int[Tensor, "groups size"]
    weights: Float[Tensor, "windows"]
    count: int

    @classmethod
    def of(cls, windows: Windows, size: int, count: int, seed: int) -> "SampledWindows":
        """Divide the series into groups of ``size``, at random and in several ways."""
        series, random = windows.values.shape[1], torch.Generator().manual_seed(seed)
        orders = [torch.randperm(series, generator=random) for _ in range(DRAWS)]
        # The last group of each way is filled up with series from its first one.
        groups = [torch.cat([order, order[: -series % size]]).view(-1, size) for order in orders]
        weights = windows.count_targets().cpu().double()
        return cls(windows, torch.cat(groups).to(windows.device), weights, count)

    def __len__(self) -> int:
        return self.count

    @property
    def device(self) -> torch.device:
        """Device of the values, where batches are made."""
        return self.windows.device

    @property
    def eval_batch_size(self) -> int:
        """Number of windows to forecast together."""
        return self.windows.eval_batch_size

    def batches(self, batch_size: int, generator: Generator | None = None) -> Iterator[Tensor]:
        """Yield index tensors: random windows of a random group."""
        for begin in range(0, self.count, batch_size):
            size = min(batch_size, self.count - begin)
            group = torch.randint(len(self.groups), (1,), generator=generator)
            window = torch.multinomial(self.weights, size, replacement=True, generator=generator)
            yield (group * len(self.windows) + window).to(self.device)

    def gather(self, index: Tensor) -> Batch:
        """Copy the examples number ``index``, which are of one group."""
        group = self.groups[index[:1] // len(self.windows)][0]
        return self.windows.gather(index % len(self.windows), group)
