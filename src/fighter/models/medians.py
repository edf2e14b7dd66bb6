"""Medians of the last values, or of the last values of the same phase of a season.

A median is not moved by single odd values, and it is the forecast with the smallest absolute error
where most values are alike, such as the zeros of a spare part that is rarely sold. A median of an
odd number of values is one of them, so its forecast rests on that value alone.
"""

from collections import deque
from collections.abc import Sequence

import torch
from torch import Tensor

from .._typing import Bool, Float, Int

PLAIN, SEASONAL = (3, 7, 21), (3, 5, 9)  # numbers of values


def make_medians(seasons: Sequence[int]) -> list[tuple[int, int]]:
    """Return the season and the number of values of each median."""
    return [(1, k) for k in PLAIN] + [(m, k) for m in seasons for k in SEASONAL]


class Medians:
    """All medians over some series.

    Args:
        x: values.
        seen: where they are observed; otherwise the last observed value takes their place.
        seasons: lengths of the seasons, the main one first.
        horizon: steps to forecast.
    """

    def __init__(
        self,
        x: Float[Tensor, "time series"],
        seen: Bool[Tensor, "time series"],
        seasons: Sequence[int],
        horizon: int,
    ):
        self.kinds, self.horizon = make_medians(seasons), horizon
        self.begin = seen.int().argmax(0)
        index = torch.arange(len(x))[:, None]
        self.source = torch.where(seen, index, 0).cummax(0).values  # row of the last observed value
        self.x = x.gather(0, self.source)
        self.needed = torch.tensor([[season * count] for season, count in self.kinds])
        # The medians of each of the last rows and the values of its phase before it.
        self.last = [deque(maxlen=season) for season, _ in self.kinds]

    def advance(self, t: int) -> None:
        """Read row t."""
        for kind, last in zip(self.kinds, self.last, strict=True):
            last.append(self.x[_rows(kind, t)].median(0).values)

    def ready(self, t: int) -> Bool[Tensor, "medians series"]:
        """Tell which medians have enough values up to row t."""
        return t - self.begin + 1 >= self.needed

    def path(self, t: int, h: int) -> Float[Tensor, "medians series"]:
        """Forecast step h after row t."""
        return torch.stack([last[(h - 1) % len(last)] for last in self.last])

    def paths(self, t: int) -> Float[Tensor, "medians horizon series"]:
        """Forecast all steps after row t."""
        steps = range(self.horizon)
        return torch.stack(
            [torch.stack([last[h % len(last)] for h in steps]) for last in self.last]
        )

    def responses(
        self, used: Sequence[int], series: int, t: int
    ) -> Float[Tensor, "medians horizon time"]:
        """Return the response of some forecasts of a series after row t to each value."""
        response = self.x.new_zeros(len(used), self.horizon, t + 1)
        for i, kind in enumerate(used):
            season, _ = self.kinds[kind]
            for h in range(self.horizon):
                rows = _rows(self.kinds[kind], t + 1 - season + h % season)
                row = rows[self.x[rows, series].median(0).indices]
                response[i, h, self.source[row, series]] = 1.0
        return response


def _rows(kind: tuple[int, int], t: int) -> Int[Tensor, "values"]:
    """Return row t and the rows of its phase before it; rows before the first repeat it."""
    season, count = kind
    return (t - season * torch.arange(count)).clamp(min=0)
