"""Cells of series that begin and end at different rows, without room for the rows around them.

A table of 20,000 items that were each sold for two years out of twenty fills a tenth of its grid.
:class:`Ragged` stands for that grid ``[T, N]`` and holds the tenth.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

DENSE = 2**23  # cells: no grid of at most so many is stored ragged
FILLED = 0.5  # nor one that is filled to this share


@dataclass(frozen=True, eq=False)
class Spans:
    """Where the cells of N series are: ``counts[i]`` of them from row ``begins[i]`` of T on.

    Those of series i lie one after the other in a flat array, from ``starts[i]`` on.
    """

    starts: np.ndarray  # int64 [N]
    begins: np.ndarray  # int64 [N]
    counts: np.ndarray  # int64 [N]
    length: int  # T

    @classmethod
    def of(cls, begins: np.ndarray, ends: np.ndarray, length: int) -> "Spans":
        """Lay out series that have the rows from ``begins`` to before ``ends``."""
        counts = ends - begins
        return cls(counts.cumsum() - counts, begins, counts, length)

    @property
    def worthwhile(self) -> bool:
        """Whether the grid is large and at most half filled."""
        cells = self.length * len(self.counts)
        return cells > DENSE and self.counts.sum() < FILLED * cells

    @property
    def packed(self) -> "Spans":
        """The same rows, with the cells one series after the other, without a gap."""
        return Spans.of(self.begins, self.begins + self.counts, self.length)

    def slots(self, rows: np.ndarray, series: np.ndarray) -> np.ndarray:
        """Return the places of cells in the flat array."""
        return self.starts[series] + rows - self.begins[series]

    def series(self) -> np.ndarray:
        """Return the series of each cell."""
        return np.repeat(np.arange(len(self.counts)), self.counts)

    def rows(self) -> np.ndarray:
        """Return the row of each cell."""
        return self.index() + np.repeat(self.begins - self.starts, self.counts)

    def index(self) -> np.ndarray:
        """Return the places of all cells in the flat array, series by series."""
        packed = self.counts.cumsum() - self.counts
        return np.arange(int(self.counts.sum())) + np.repeat(self.starts - packed, self.counts)

    def slice(self, first: int, last: int) -> "Spans":
        """Take the rows from ``first`` to before ``last``, over the same flat array."""
        ends = np.clip(self.begins + self.counts, first, last)
        begins = np.clip(self.begins, first, last)
        moved = self.starts + begins - self.begins
        return Spans(moved, begins - first, ends - begins, max(last - first, 0))

    def take(self, series: Any) -> "Spans":
        """Take some series, over the same flat array."""
        return Spans(self.starts[series], self.begins[series], self.counts[series], self.length)


class Ragged(np.lib.mixins.NDArrayOperatorsMixin):
    """An array ``[T, N]`` that holds the cells of spans; every other cell is ``blank``.

    It is computed with as with an array, elementwise: with numbers, with one number per series, and
    with others of the same spans. Rows and series are taken by index. ``np.asarray`` fills it in.
    """

    def __init__(self, cells: np.ndarray, spans: Spans, blank: Any = 0) -> None:
        self.cells, self.spans, self.blank = cells, spans, cells.dtype.type(blank)

    shape = property(lambda self: (self.spans.length, len(self.spans.counts)))
    dtype = property(lambda self: self.cells.dtype)
    nbytes = property(lambda self: self.cells.nbytes)
    ndim, size = 2, property(lambda self: self.shape[0] * self.shape[1])

    def __len__(self) -> int:
        return self.spans.length

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        del copy  # it always is one
        dense = np.full(self.shape[::-1], self.blank, dtype or self.dtype)
        dense[self.spans.series(), self.spans.rows()] = self.packed()
        return np.ascontiguousarray(dense.T)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        if method != "__call__" or options:
            return NotImplemented
        cells, blanks = [], []
        for each in inputs:
            if isinstance(each, Ragged):
                same = each.spans is self.spans or each.spans.length == self.spans.length
                same = same and np.array_equal(each.spans.begins, self.spans.begins)
                if not same or not np.array_equal(each.spans.counts, self.spans.counts):
                    return NotImplemented
                cells.append(each.packed())
                blanks.append(each.blank)
            elif np.ndim(each):  # one number per series, which leaves blanks alone
                cells.append(np.repeat(np.broadcast_to(each, self.shape[1:]), self.spans.counts))
                blanks.append(None)
            else:
                cells.append(each)
                blanks.append(each)
        blank = self.blank if any(b is None for b in blanks) else ufunc(*blanks)
        return Ragged(ufunc(*cells), self.spans.packed, blank)

    def packed(self) -> np.ndarray:
        """Return the cells series by series, without a gap."""
        spans = self.spans
        whole = len(self.cells) == spans.counts.sum()  # no row and no series is left out
        if whole and np.array_equal(spans.starts, spans.packed.starts):
            return self.cells
        return self.cells[spans.index()]

    def __getitem__(self, key: Any) -> Any:
        rows, series = key if isinstance(key, tuple) else (key, slice(None))
        if isinstance(rows, int | np.integer):
            row = np.full(self.shape[1], self.blank)
            place = rows % len(self) - self.spans.begins
            inside = (place >= 0) & (place < self.spans.counts)
            row[inside] = self.cells[(self.spans.starts + place)[inside]]
            return row[series]
        if isinstance(series, int | np.integer):
            begin, count = self.spans.begins[series], self.spans.counts[series]
            column = np.full(len(self), self.blank)
            start = self.spans.starts[series]
            column[begin : begin + count] = self.cells[start : start + count]
            return column[rows]
        spans = self.spans
        if not isinstance(series, slice) or series != slice(None):
            spans = spans.take(series)
        if isinstance(rows, slice):
            first, last, step = rows.indices(len(self))
            if step != 1:
                raise IndexError("rows are taken one after the other")
            return Ragged(self.cells, spans.slice(first, last), self.blank)
        return np.asarray(Ragged(self.cells, spans, self.blank))[rows]

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(key, Ragged):
            self.cells = np.where(key.packed(), self.dtype.type(value), self.packed())
            self.spans = self.spans.packed
            self.blank = self.dtype.type(value) if key.blank else self.blank
        else:
            rows, series = key
            if rows != slice(None):
                raise IndexError("whole series are set")
            start, count = self.spans.starts[series], self.spans.counts[series]
            self.cells[start : start + count] = value

    def any(self, axis: int | None = None) -> Any:
        """Tell where a cell is true: in each column (axis 0), in each row (1), or anywhere."""
        if axis is None:
            return bool(self.packed().any()) or bool(self.blank and self._blanks().any())
        if axis == 0:
            return self.sum(0) > 0
        rows = np.full(len(self), bool(self.blank))
        rows[self.spans.rows()[self.packed().astype(bool)]] = True
        return rows

    def all(self) -> bool:
        """Tell whether every cell is true."""
        return bool(self.packed().all()) and bool(self.blank or not self._blanks().any())

    def sum(self, axis: int | None = None) -> Any:
        """Add up all cells, or those of each column (axis 0)."""
        if axis not in (None, 0):
            raise ValueError("sums run over rows, or over all cells")
        cells = self.packed()
        dtype = np.dtype(np.int64) if cells.dtype == bool else cells.dtype
        total = np.zeros(self.shape[1], dtype)
        filled = np.flatnonzero(self.spans.counts)
        if filled.size:
            starts = (self.spans.counts.cumsum() - self.spans.counts)[filled]
            total[filled] = np.add.reduceat(cells, starts, dtype=dtype)
        total = total + self._blanks() * dtype.type(self.blank)
        return total if axis == 0 else total.sum()

    def _blanks(self) -> np.ndarray:
        return len(self) - self.spans.counts

    def true_rows(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the first and the last true row of each column; 0 and T - 1 if there is none."""
        true = self.packed().astype(bool)
        rows, series = self.spans.rows()[true], self.spans.series()[true]
        first, last = np.zeros(self.shape[1], np.int64), np.full(self.shape[1], len(self) - 1)
        last[series] = rows  # of several the last one stays
        first[series[::-1]] = rows[::-1]
        return first, last


def ragged(cells: np.ndarray, spans: Spans, blank: Any = 0) -> np.ndarray:
    """Make a :class:`Ragged`; type checkers take it for the array that it acts as."""
    return cast(np.ndarray, Ragged(cells, spans, blank))


def pack_series(parts: Sequence[np.ndarray], spans: Spans) -> np.ndarray:
    """Join grids side by side, and keep the cells of spans."""
    cells, first = [], 0
    for part in parts:
        some = spans.take(slice(first, first := first + part.shape[1])).packed
        cells.append(part[some.rows(), some.series()])
    return ragged(np.concatenate(cells), spans.packed)


def true_rows(mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first and the last true row of each column; 0 and T - 1 if there is none."""
    if isinstance(mask, Ragged):
        return mask.true_rows()
    return mask.argmax(axis=0), len(mask) - 1 - mask[::-1].argmax(axis=0)


def count_in_rows(mask: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Count the true cells of each column in some rows, bool ``[T]``."""
    if not isinstance(mask, Ragged):
        return mask[rows].sum(axis=0)
    true = mask.packed() & rows[mask.spans.rows()]
    return np.bincount(mask.spans.series()[true], minlength=mask.shape[1])


def find_gaps(mask: np.ndarray) -> np.ndarray:
    """Find the cells that are false between the first and the last true one of their column."""
    first, last = true_rows(mask)
    if not isinstance(mask, Ragged):
        steps = np.arange(len(mask))[:, None]
        return ~mask & (steps > first) & (steps < last)
    rows, series = mask.spans.rows(), mask.spans.series()
    inside = (rows > first[series]) & (rows < last[series])
    return ragged(~mask.packed() & inside, mask.spans.packed)


@dataclass(frozen=True, eq=False)
class RaggedTensor:
    """A :class:`Ragged` on a device, from which windows are gathered; blank cells are 0."""

    cells: Tensor
    starts: Tensor  # int64 [N]
    begins: Tensor  # int64 [N]
    counts: Tensor  # int64 [N]
    length: int

    @classmethod
    def of(cls, grid: np.ndarray, device: torch.device, dtype: torch.dtype) -> "RaggedTensor":
        """Copy the cells of a ragged grid to a device."""
        assert isinstance(grid, Ragged)
        spans = grid.spans.packed
        starts, begins, counts = (
            torch.from_numpy(each).to(device) for each in (spans.starts, spans.begins, spans.counts)
        )
        cells = torch.from_numpy(grid.packed()).to(device, dtype)
        return cls(cells, starts, begins, counts, len(grid))

    @property
    def shape(self) -> tuple[int, int]:
        """T and N."""
        return self.length, len(self.counts)

    @property
    def device(self) -> torch.device:
        """Device of the cells."""
        return self.cells.device

    def __len__(self) -> int:
        return self.length

    def gather(self, rows: Tensor, series: Tensor) -> Tensor:
        """Return the cells of rows ``[…, 1]`` and series ``[S]``: ``[…, S]``."""
        place = rows - self.begins[series]
        inside = (place >= 0) & (place < self.counts[series])
        cells = self.cells[(self.starts[series] + place).clamp(0, len(self.cells) - 1)]
        return cells * inside

    def any_row(self) -> Tensor:
        """Tell in which rows any cell is true."""
        rows = torch.arange(len(self.cells), device=self.device)
        rows += (self.begins - self.starts).repeat_interleave(self.counts)
        found = torch.zeros(self.length, dtype=torch.bool, device=self.device)
        found[rows[self.cells]] = True
        return found

    def select(self, series: Tensor) -> Tensor:
        """Return all rows of some series, ``[T, S]``."""
        rows = torch.arange(self.length, device=self.device)[:, None]
        return self.gather(rows, series.to(self.device))


def take_series(values: Tensor | RaggedTensor, series: Tensor) -> Tensor:
    """Return all rows of some series, ``[T, S]``."""
    return (
        values[:, series.to(values.device)] if isinstance(values, Tensor) else values.select(series)
    )
