"""Windows of a panel, gathered by index from one contiguous tensor on the device."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple, overload

import torch
from torch import Generator, Tensor

from .._typing import Bool, Float, Int
from ..errors import FighterError, check_count

# Most values and windows in a forward pass: a wide network needs hundreds of bytes per value.
MOST_AT_ONCE = {"cpu": (2**17, 256), "cuda": (2**22, 1024)}


class Batch(NamedTuple):
    """B windows of L past and H future steps. A mask is None if everything is observed."""

    past: Float[Tensor, "batch lookback series"]
    future: Float[Tensor, "batch horizon series"]
    past_observed: Bool[Tensor, "batch lookback series"] | None
    future_observed: Bool[Tensor, "batch horizon series"] | None
    start: Tensor  # int64 [B]: the first row of the look-back
    past_covariates: Tensor | None = None  # [B, L, N, P]
    future_covariates: Tensor | None = None  # [B, L + H, N, F]: known over look-back and horizon
    calendar: Tensor | None = None  # [B, L + H, C]
    bounds: Tensor | None = None  # [2, N]: natural bounds of the series, lower and upper
    floor: Tensor | None = None  # [2, N]: a lower bound of finished forecasts
    given_bounds: Tensor | None = None  # [2, N]: bounds of finished forecasts, given by the user
    weights: Tensor | None = None  # [N]: weights of the series in training, of mean 1


@dataclass(frozen=True, eq=False)
class Windows:
    """All windows of ``lookback + horizon`` rows that begin at ``starts``.

    Nothing is copied until :meth:`gather` makes a batch.
    """

    values: Float[Tensor, "time series"]
    observed: Bool[Tensor, "time series"] | None
    lookback: int
    horizon: int
    starts: Tensor  # int64 [windows]
    past_covariates: Tensor | None = None  # [T, N, P]
    future_covariates: Tensor | None = None  # [T, N, F]
    calendar: Tensor | None = None  # [T, C]
    bounds: Tensor | None = None  # [2, N]
    floor: Tensor | None = None  # [2, N]
    given_bounds: Tensor | None = None  # [2, N]
    weights: Tensor | None = None  # [N]
    # int64 [2, N]: the first and the last row that a series' targets may begin at
    origins: Tensor | None = None

    def __post_init__(self) -> None:
        if not len(self.starts):
            return
        last = len(self.values) - self.lookback - self.horizon
        low, high = int(self.starts.min()), int(self.starts.max())
        if low < 0 or high > last:
            size = f"lookback {self.lookback} + horizon {self.horizon} in {len(self.values)} rows"
            rule = f"with {size} they must begin at rows 0 to {last}"
            raise FighterError(f"windows begin at rows {low} to {high}; {rule}", argument="starts")

    @classmethod
    def over(
        cls,
        values: Tensor,
        observed: Tensor | None,
        lookback: int,
        horizon: int,
        rows: slice = slice(None),
        stride: int = 1,
        **rest: Tensor | None,
    ) -> "Windows":
        """Take every ``stride``-th window whose targets lie in ``rows``.

        Look-backs may reach into the rows before them.
        """
        for name, number in (("lookback", lookback), ("horizon", horizon), ("stride", stride)):
            check_count(name, number)
        first, stop, _ = rows.indices(len(values))
        begin, end = max(first - lookback, 0), stop - lookback - horizon + 1
        if end <= begin:
            rows_left = f"{max(stop - begin, 0)} rows ({begin} to {stop}) can be used"
            needed = f"lookback {lookback} + horizon {horizon} = {lookback + horizon}"
            raise FighterError(f"no window fits: {rows_left}, a window needs {needed}")
        # The fast path gathers no masks.
        mask = None if observed is None or bool(observed.all()) else observed.contiguous()
        starts = torch.arange(begin, end, stride, device=values.device)
        return cls(values.contiguous(), mask, lookback, horizon, starts, **rest)

    def within(self, rows: slice) -> "Windows":
        """Take the windows whose targets lie in ``rows``, over the same tensors."""
        first, stop, _ = rows.indices(len(self.values))
        target = self.starts + self.lookback
        inside = (target >= first) & (target + self.horizon <= stop)
        return replace(self, starts=self.starts[inside])

    def count_targets(self) -> Int[Tensor, "windows series"]:
        """Count the targets of each series in each window."""
        middle = self.starts + self.lookback
        if self.observed is None:
            counts = middle.new_full((len(middle), self.values.shape[1]), self.horizon)
        else:
            so_far = self.observed.int().cumsum(0, dtype=torch.int32)
            so_far = torch.cat([torch.zeros_like(so_far[:1]), so_far])
            counts = so_far[middle + self.horizon] - so_far[middle]
        if self.origins is not None:
            first, last = self.origins
            counts = counts * ((middle[:, None] >= first) & (middle[:, None] <= last))
        return counts

    def thin(self, most: int) -> "Windows":
        """Take at most so many windows, evenly spread."""
        if len(self) <= most:
            return self
        picked = torch.linspace(0, len(self) - 1, most).long().unique()
        return replace(self, starts=self.starts[picked.to(self.starts.device)])

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def device(self) -> torch.device:
        """Device of the values, where batches are made."""
        return self.values.device

    @property
    def eval_batch_size(self) -> int:
        """Number of windows to forecast together: fewer for many series, to bound the memory."""
        cells = (self.lookback + self.horizon) * self.values.shape[1]
        most, batch = MOST_AT_ONCE.get(self.device.type, MOST_AT_ONCE["cpu"])
        return min(batch, max(most // cells, 1))

    def select(self, series: Tensor) -> "Windows":
        """Take the series number ``series``, in that order."""

        def part(rows: Tensor | None) -> Tensor | None:
            return None if rows is None else rows[:, series.to(rows.device)]

        return replace(
            self, values=self.values[:, series], observed=part(self.observed),
            past_covariates=part(self.past_covariates),
            future_covariates=part(self.future_covariates),
            bounds=part(self.bounds), floor=part(self.floor),
            given_bounds=part(self.given_bounds), origins=part(self.origins),
            weights=None if self.weights is None else self.weights[series],
        )  # fmt: skip

    def gather(self, index: Tensor, series: Tensor | None = None) -> Batch:
        """Copy the windows number ``index [B]``, of the series number ``series`` (default: all)."""
        start = self.starts[index.to(self.starts.device)]
        size = self.lookback + self.horizon
        past, future = _cut(self.values, start, size, series).split(
            [self.lookback, self.horizon], dim=1
        )
        past_observed = future_observed = None
        if self.observed is not None:
            seen = _cut(self.observed, start, size, series)
            past_observed, future_observed = seen.split([self.lookback, self.horizon], dim=1)
        if self.origins is not None:
            first, (earliest, last) = start[:, None] + self.lookback, _part(self.origins, series)
            counted = ((first >= earliest) & (first <= last))[:, None]
            counted = counted.expand(-1, self.horizon, -1)
            future_observed = counted if future_observed is None else future_observed & counted
        return Batch(
            past, future, past_observed, future_observed, start,
            _cut(self.past_covariates, start, self.lookback, series),
            _cut(self.future_covariates, start, size, series),
            _cut(self.calendar, start, size),
            _part(self.bounds, series), _part(self.floor, series),
            _part(self.given_bounds, series),
            self.weights if self.weights is None or series is None else self.weights[series],
        )  # fmt: skip

    def batches(self, batch_size: int, generator: Generator | None = None) -> Iterator[Tensor]:
        """Yield index tensors that hold every window once, shuffled if there is a ``generator``."""
        return split_batches(len(self), batch_size, generator, self.starts.device)


def split_batches(
    count: int, batch_size: int, generator: Generator | None, device: torch.device
) -> Iterator[Tensor]:
    """Yield batches of the numbers below ``count``, shuffled if there is a ``generator``."""
    check_count("batch_size", batch_size)
    if generator is None:
        order = torch.arange(count)
    else:
        order = torch.randperm(count, generator=generator, device=generator.device)
    if count:  # of nothing, split would yield one empty batch
        yield from order.to(device).split(batch_size)


@overload
def _part(rows: Tensor, series: Tensor | None) -> Tensor: ...
@overload
def _part(rows: None, series: Tensor | None) -> None: ...
def _part(rows: Tensor | None, series: Tensor | None) -> Tensor | None:
    """Take some series from ``[2, N]``, or all."""
    return rows if rows is None or series is None else rows[:, series]


@overload
def _cut(rows: Tensor, start: Tensor, size: int, series: Tensor | None = None) -> Tensor: ...
@overload
def _cut(rows: None, start: Tensor, size: int, series: Tensor | None = None) -> None: ...
def _cut(
    rows: Tensor | None, start: Tensor, size: int, series: Tensor | None = None
) -> Tensor | None:
    """Copy ``size`` rows from each ``start [B]``: ``[T, ...]`` to ``[B, size, ...]``.

    The windows are viewed as overlapping blocks of one tensor, so that each is copied as a whole,
    in half the time of gathering row by row. Of some series, only their cells are copied.
    """
    if rows is None:
        return None
    if series is not None:
        steps = start[:, None] + torch.arange(size, device=start.device)
        return rows[steps[..., None], series]
    shape = (len(rows) - size + 1, size, *rows.shape[1:])
    return rows.as_strided(shape, (rows.stride(0), *rows.stride()))[start]
