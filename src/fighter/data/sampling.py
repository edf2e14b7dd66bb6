"""Training examples of a table with many series: windows of a few hundred of them at a time.

If series belong to groups (of a store, say), those of a group are taken together.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from .._typing import Float, Int
from .windows import Batch, Windows

DRAWS = 16  # ways to divide the series into samples


@dataclass(frozen=True, eq=False)
class SampledWindows:
    """Windows of samples of series; a training step takes some windows of one sample.

    Memory and time of a step depend on the size of a sample and not on the number of series.

    Args:
        windows: all windows of all series.
        samples: the series of each sample.
        weights: how often each window is drawn: as many targets it has.
        count: number of examples in an epoch.
    """

    windows: Windows
    samples: Int[Tensor, "samples size"]
    weights: Float[Tensor, "windows"]
    count: int

    @classmethod
    def of(cls, windows: Windows, size: int, count: int, seed: int) -> "SampledWindows":
        """Divide the series into samples of ``size``, at random and in several ways.

        If the windows have groups, a sample holds whole groups, but for the first and the last one.
        """
        series, random = windows.values.shape[1], torch.Generator().manual_seed(seed)
        orders = [torch.randperm(series, generator=random) for _ in range(DRAWS)]
        if windows.groups is not None:
            number = windows.groups.cpu().unique(return_inverse=True)[1]
            places = [torch.randperm(int(number.max()) + 1, generator=random) for _ in orders]
            orders = [
                order[place[number[order]].sort(stable=True).indices]
                for order, place in zip(orders, places, strict=True)
            ]
        # The last sample of each way is filled up with series from its first one.
        samples = [torch.cat([order, order[: -series % size]]).view(-1, size) for order in orders]
        weights = windows.count_targets().cpu().double()
        return cls(windows, torch.cat(samples).to(windows.device), weights, count)

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
        """Yield index tensors: random windows of a random sample."""
        for begin in range(0, self.count, batch_size):
            size = min(batch_size, self.count - begin)
            sample = torch.randint(len(self.samples), (1,), generator=generator)
            window = torch.multinomial(self.weights, size, replacement=True, generator=generator)
            yield (sample * len(self.windows) + window).to(self.device)

    def gather(self, index: Tensor) -> Batch:
        """Copy the examples number ``index``, which are of one sample."""
        sample = self.samples[index[:1] // len(self.windows)][0]
        return self.windows.gather(index % len(self.windows), sample)
