"""Medians of the last values, or of the last values of the same phase of a season.

A median is not moved by single odd values, and it is the forecast with the smallest absolute error
where most values are alike, such as the zeros of a spare part that is rarely sold. A median of an
odd number of values is one of them, so its forecast rests on that value alone.
"""

from collections.abc import Sequence

import numpy as np
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
        start: first row after which forecasts are made (default: 0).
    """

    def __init__(
        self,
        x: Float[Tensor, "time series"],
        seen: Bool[Tensor, "time series"],
        seasons: Sequence[int],
        horizon: int,
        start: int = 0,
    ):
        self.kinds, self.horizon, self.start = make_medians(seasons), horizon, start
        self.begin = seen.int().argmax(0)
        index = torch.arange(len(x))[:, None]
        self.source = torch.where(seen, index, 0).cummax(0).values  # row of the last observed value
        self.x = x.gather(0, self.source)
        self.needed = torch.tensor([[season * count] for season, count in self.kinds])
        self.first = self.end = 0
        # The medians of each row of the last block, and of the season before it.
        self.last = [self.x.new_zeros(season, x.shape[1]) for season, _ in self.kinds]

    def advance(self, end: int) -> None:
        """Read the rows up to ``end``."""
        self.first, self.end = self.end, end
        for i, (season, count) in enumerate(self.kinds):
            # Before, no series has enough values, or no forecast rests on the median.
            least = max(int(self.begin.min()) + season * (count - 1), self.start + 1 - season)
            begin = min(max(self.first, least), end)
            rows = _rows((season, count), torch.arange(begin, end))
            none = self.x.new_zeros(begin - self.first, self.x.shape[1])
            medians = median(self.x[rows]) if len(rows) else none[:0]
            self.last[i] = torch.cat([self.last[i][-season:], none, medians])

    def ready(self) -> Bool[Tensor, "rows medians series"]:
        """Tell which medians have enough values up to each row."""
        age = torch.arange(self.first, self.end)[:, None, None] - self.begin + 1
        return age >= self.needed

    def path(self, h: int) -> Float[Tensor, "rows medians series"]:
        """Forecast step h after each row of the last block."""
        rows = self.end - self.first
        places = [(h - 1) % season + 1 for season, _ in self.kinds]
        made = [last[i : i + rows] for i, last in zip(places, self.last, strict=True)]
        return torch.stack(made, 1)

    def paths(self, t: int) -> Float[Tensor, "medians horizon series"]:
        """Forecast all steps after row t of the last block."""
        steps = torch.arange(self.horizon)
        return torch.stack(
            [
                last[t - self.first + 1 + steps % season]
                for (season, _), last in zip(self.kinds, self.last, strict=True)
            ]
        )

    def responses(
        self, used: Sequence[int], series: int, t: int
    ) -> Float[Tensor, "medians horizon time"]:
        """Return the response of some forecasts of a series after row t to each value."""
        response = self.x.new_zeros(len(used), self.horizon, t + 1)
        for i, kind in enumerate(used):
            season, _ = self.kinds[kind]
            for h in range(self.horizon):
                rows = _rows(self.kinds[kind], torch.tensor([t + 1 - season + h % season]))[0]
                row = rows[self.x[rows, series].median(0).indices]
                response[i, h, self.source[row, series]] = 1.0
        return response


def median(x: Float[Tensor, "rows values series"]) -> Float[Tensor, "rows series"]:
    """Return the lower median over the values that are not NaN; NaN where all of them are.

    It is that of torch, but numpy sorts many short rows five times faster.
    """
    ranked = np.sort(x.numpy(), 1)  # NaN comes last
    found = ranked[:, (ranked.shape[1] - 1) // 2]
    if np.isnan(ranked[:, -1]).any():
        count = (~np.isnan(ranked)).sum(1, keepdims=True)
        found = np.take_along_axis(ranked, np.maximum((count - 1) // 2, 0), 1)[:, 0]
    return torch.from_numpy(found)


def _rows(kind: tuple[int, int], t: Int[Tensor, "rows"]) -> Int[Tensor, "rows values"]:
    """Return rows t and the rows of their phase before them; rows before the first repeat it."""
    season, count = kind
    return (t[:, None] - season * torch.arange(count)).clamp(min=0)
