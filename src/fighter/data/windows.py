"""Windows of a panel, gathered by index from one contiguous tensor on the device."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple, overload

import torch
from torch import Generator, Tensor

from .._typing import Bool, Float, Int
from ..errors import FighterError, check_count
from .ragged import RaggedTensor, take_series

# Most values and windows in a forward pass: a wide network needs hundreds of bytes per value.
COUNTED = 4096  # series whose targets are counted together
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
    at_least: Tensor | None = None  # [B, H, N]: lower bounds of targets, NaN where these are exact
    groups: Tensor | None = None  # int64 [N]: series see only those with the same number


@dataclass(frozen=True, eq=False)
class Windows:
    """All windows of ``lookback + horizon`` rows that begin at ``starts``.

    Nothing is copied until :meth:`gather` makes a batch.
    """

    values: Float[Tensor, "time series"] | RaggedTensor
    observed: Bool[Tensor, "time series"] | RaggedTensor | None
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
    at_least: Tensor | None = None  # [T, N]: lower bounds of values, NaN where these are exact
    # int64 [2, N]: the first and the last row that a series' targets may begin at
    origins: Tensor | None = None
    groups: Tensor | None = None  # int64 [N]

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
        values: Tensor | RaggedTensor,
        observed: Tensor | RaggedTensor | None,
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
        starts = torch.arange(begin, end, stride, device=values.device)
        if isinstance(values, Tensor) and not isinstance(observed, RaggedTensor):
            # The fast path gathers no masks.
            mask = None if observed is None or bool(observed.all()) else observed.contiguous()
            values, observed = values.contiguous(), mask
        return cls(values, observed, lookback, horizon, starts, **rest)

    def within(self, rows: slice) -> "Windows":
        """Take the windows whose targets lie in ``rows``, over the same tensors."""
        first, stop, _ = rows.indices(len(self.values))
        target = self.starts + self.lookback
        inside = (target >= first) & (target + self.horizon <= stop)
        return replace(self, starts=self.starts[inside])

    def count_targets(self) -> Int[Tensor, "windows"]:
        """Count the targets in each window."""
        middle = self.starts + self.lookback
        if self.observed is None and self.origins is None:
            return middle.new_full((len(middle),), self.horizon * self.values.shape[1])
        total = torch.zeros_like(middle)
        for some in torch.arange(self.values.shape[1], device=self.device).split(COUNTED):
            total += self.targets_of(some).sum(1)
        return total

    def targets_of(self, series: Int[Tensor, "some"]) -> Int[Tensor, "windows some"]:
        """Count the targets of some series in each window."""
        middle = self.starts + self.lookback
        if self.observed is None:
            counts = middle.new_full((len(middle), len(series)), self.horizon)
        else:
            so_far = take_series(self.observed, series).cumsum(0, dtype=torch.int32)
            so_far = torch.cat([torch.zeros_like(so_far[:1]), so_far])
            counts = so_far[middle + self.horizon] - so_far[middle]
        if self.origins is not None:
            first, last = self.origins[:, series]
            counts = counts * ((middle[:, None] >= first) & (middle[:, None] <= last))
        return counts

    def observed_rows(self) -> Bool[Tensor, "time"]:
        """Tell in which rows any series is observed."""
        if self.observed is None:
            return torch.ones(len(self.values), dtype=torch.bool, device=self.device)
        if isinstance(self.observed, Tensor):
            return self.observed.any(1)
        return self.observed.any_row()

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
            self, values=take_series(self.values, series),
            observed=None if self.observed is None else take_series(self.observed, series),
            past_covariates=part(self.past_covariates),
            future_covariates=part(self.future_covariates),
            bounds=part(self.bounds), floor=part(self.floor),
            given_bounds=part(self.given_bounds), origins=part(self.origins),
            weights=None if self.weights is None else self.weights[series],
            at_least=part(self.at_least),
            groups=None if self.groups is None else self.groups[series],
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
            _cut(self.at_least, start + self.lookback, self.horizon, series),
            self.groups if self.groups is None or series is None else self.groups[series],
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
def _cut(
    rows: Tensor | RaggedTensor, start: Tensor, size: int, series: Tensor | None = None
) -> Tensor: ...
@overload
def _cut(rows: None, start: Tensor, size: int, series: Tensor | None = None) -> None: ...
def _cut(
    rows: Tensor | RaggedTensor | None, start: Tensor, size: int, series: Tensor | None = None
) -> Tensor | None:
    """Copy ``size`` rows from each ``start [B]``: ``[T, ...]`` to ``[B, size, ...]``.

    The windows are viewed as overlapping blocks of one tensor, so that each is copied as a whole,
    in half the time of gathering row by row. Of some series, only their cells are copied.
    """
    if rows is None:
        return None
    steps = start[:, None] + torch.arange(size, device=start.device)
    if isinstance(rows, RaggedTensor):
        series = torch.arange(rows.shape[1], device=rows.device) if series is None else series
        return rows.gather(steps[..., None], series)
    if series is not None:
        return rows[steps[..., None], series]
    shape = (len(rows) - size + 1, size, *rows.shape[1:])
    return rows.as_strided(shape, (rows.stride(0), *rows.stride()))[start]
