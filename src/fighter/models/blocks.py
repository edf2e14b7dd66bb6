"""Series in blocks of about the same age, which run together and are shared among threads."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from .._typing import Int
from .bank import Bank
from .choice import Prior
from .smoothing import Observed, Values

SERIES_AT_ONCE = 512  # few calls, and arrays that still fit into the caches
AGES = (32, 48, 64, 96, 128, 192, 256, 384, 512, 768)  # rows of series that run together

Result = TypeVar("Result")


class Block(NamedTuple):
    """Some series of about the same age, and the row from which they are read.

    Experts learn anew after ever more rows. Read from the first row of a long table, a young series
    would wait for that, and its forecast would depend on where the table begins.
    """

    series: Int[Tensor, "some"]
    first: int

    def cut(self, x: Values, seen: Observed) -> tuple[Tensor, Tensor]:
        """Return the rows and series of the block."""
        return x[self.first :, self.series], seen[self.first :, self.series]

    def run(
        self,
        x: Values,
        seen: Observed,
        seasons: Sequence[int],
        horizon: int,
        rows: Int[Tensor, "origins"],
        prior: Prior | None,
        *,
        squared: bool = False,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return what :meth:`Bank.run` does, of these series; nothing is known of them before."""
        own, place = (rows - self.first).clamp(min=1).unique(return_inverse=True)
        with torch.no_grad():  # every thread has its own mode
            bank = Bank(*self.cut(x, seen), seasons, horizon, own.tolist(), prior, squared=squared)
            point, error, surprise = bank.run()
        return point[place], error[place], surprise


def blocks_of(seen: Observed, until: int) -> list[Block]:
    """Divide series by the number of rows from their first value up to row ``until``."""
    begun = seen[:until].any(0)
    age = until - torch.where(begun, seen[:until].int().argmax(0), until - 1)
    kind = torch.searchsorted(torch.tensor(AGES), age)
    blocks = []
    for i in kind.unique().tolist():
        first = max(until - AGES[i], 0) if i < len(AGES) else 0
        series = torch.nonzero(kind == i)[:, 0]
        # Side by side with others of its age, a young series does not hold up the older ones.
        series = series[age[series].sort(stable=True).indices]
        blocks += [Block(some, first) for some in series.split(SERIES_AT_ONCE)]
    return blocks


def in_threads(run: Callable[[Block], Result], blocks: list[Block], workers: int) -> list[Result]:
    """Run a function on all blocks, in ``workers`` threads."""
    # Nearly all of the time goes into operations that let other threads of Python run.
    with ThreadPoolExecutor(workers) if workers > 1 else nullcontext() as pool:
        return [*(pool.map if pool else map)(run, blocks)]
