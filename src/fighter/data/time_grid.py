"""The regular grid under a table: the slot of each row, and columns put into their slots."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import FighterError
from .frequency import Frequency
from .layout import Layout, read_numbers
from .notes import Finder

_LARGEST_GRID = 50_000_000  # cells; beyond it a grid must be well filled


@dataclass(frozen=True)
class Grid:
    """The regular grid of a table, and the slot of each of its rows."""

    times: np.ndarray  # int64 [T]
    kept: np.ndarray  # int64: the rows that are the first in their slot
    slots: np.ndarray  # int64: their slots, numbered step by step
    present: np.ndarray  # bool [T, N or 1]: whether there is a row
    duplicates: np.ndarray  # int64 [T, N or 1]: rows beyond the first

    @classmethod
    def of(cls, layout: Layout, freq: Frequency) -> "Grid":
        """Lay the grid of ``freq`` under a table."""
        start = freq.start(layout.times)
        steps = freq.positions(layout.times, start)
        length = int(steps.max()) + 1
        width = len(layout.ids)
        cells, rows = length * width, layout.targets.size
        if cells > _LARGEST_GRID and cells > 100 * rows:
            raise FighterError(
                f"The grid from {freq.show(start)} to {freq.show(int(layout.times.max()))} at "
                f"freq='{freq}' has {length} steps for {width} series, but only {rows} values fill "
                "it. Check the first and last stamps and freq=."
            )
        slots, columns = steps, 1  # a row of a wide table fills all series of its step
        if layout.series is not None:
            slots, columns = steps * width + layout.series, width
        counts = np.bincount(slots, minlength=length * columns).reshape(length, columns)
        kept = first_rows(slots) if counts.max() > 1 else np.arange(len(slots))
        duplicates = np.maximum(counts - 1, 0)
        return cls(freq.range(start, length), kept, slots[kept], counts > 0, duplicates)

    def place(self, cells: np.ndarray) -> np.ndarray:
        """Put cells ``[rows, K]`` on the grid, ``[T, N or 1, K]``, NaN where there is nothing."""
        length, columns = self.present.shape
        placed = np.full((length * columns, cells.shape[1]), np.nan)
        placed[self.slots] = cells[self.kept]
        return placed.reshape(length, columns, -1)


def first_rows(slots: np.ndarray) -> np.ndarray:
    """Find the first row of each slot."""
    return np.unique(slots, return_index=True)[1]


def place_covariates(
    grid: Grid,
    layout: Layout,
    names: tuple[str, ...],
    role: str,
    length: int,
    finder: Finder,
    marks: Sequence[float],
) -> tuple[np.ndarray, list[str]]:
    """Put columns on the grid, ``float64 [T', N, K]``; before ``length`` holes are filled."""
    series = len(layout.ids)
    if not names:
        return np.zeros((length, series, 0)), []
    cells = read_numbers(layout.frame, names, f"{role} covariate", marks)
    placed = grid.place(cells)  # [T', N or 1, K]: in a wide table shared by all series
    data_notes = []
    for k, name in enumerate(names):
        holes = np.isnan(placed[:length, :, k])
        if (empty := holes.all(axis=0)).any():
            raise FighterError(
                f"The {role} covariate {name!r} has no value for series "
                f"{layout.ids[int(empty.argmax())]!r}. Fill the column or leave it out."
            )
        told = holes & grid.present[:length]
        if count := int(told.sum()):
            where = f"(first: {finder.when(told)})" if layout.series is None else finder.cells(told)
            data_notes.append(
                f"{count} empty values of the {role} covariate {name!r} {where}; "
                "the last value was carried on."
            )
        placed[:length, :, k] = carry_on(placed[:length, :, k])
    if placed.shape[1] != series:
        placed = np.broadcast_to(placed, (len(placed), series, len(names)))
    return placed, data_notes


def carry_on(values: np.ndarray) -> np.ndarray:
    """Fill holes with the last value before them, leading holes the first after them. ``[T, K]``"""
    steps = np.arange(len(values))[:, None]
    valid = ~np.isnan(values)
    source = np.maximum.accumulate(np.where(valid, steps, -1), axis=0)
    source = np.where(source < 0, valid.argmax(axis=0), source)
    return np.take_along_axis(values, source, axis=0)
