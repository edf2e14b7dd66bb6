"""The regular time grid of a table: the slot of each row, and columns placed on the grid."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import FighterError
from .frequency import Frequency
from .layout import Layout, read_numbers
from .notes import DataNote, Locator

_LARGEST_GRID = 50_000_000  # cells; a larger grid must be well filled


@dataclass(frozen=True)
class TimeGrid:
    """The regular time grid of a table, and the slot of each of its rows."""

    times: np.ndarray  # int64 [T]
    kept: np.ndarray  # int64: the first row of each slot
    slots: np.ndarray  # int64: the slots of these rows, numbered step by step
    present: np.ndarray  # bool [T, N or 1]: whether the table has a row
    duplicates: np.ndarray  # int64 [T, N or 1]: number of rows beyond the first

    @classmethod
    def of(cls, layout: Layout, freq: Frequency) -> "TimeGrid":
        """Find the grid of a table at frequency ``freq``."""
        start = freq.start(layout.times)
        steps = freq.positions(layout.times, start)
        length = int(steps.max()) + 1
        width = len(layout.ids)
        cells, values = length * width, layout.targets.size
        if cells > _LARGEST_GRID and cells > 100 * values:
            ends = f"from {freq.show(start)} to {freq.show(int(layout.times.max()))}"
            size = f"{length} steps for {width} series, but the table has only {values} values"
            remedy = "check the frequency and the first and last time stamps"
            reason = f"the grid {ends} has {size}; {remedy}"
            raise FighterError(reason, argument="freq", value=str(freq))
        slots, columns = steps, 1  # a row of a wide table fills all series of its step
        if layout.series is not None:
            slots, columns = steps * width + layout.series, width
        counts = np.bincount(slots, minlength=length * columns).reshape(length, columns)
        kept = np.arange(len(slots))
        if counts.max() > 1:
            kept = first_rows(slots)
            layout.check_repeats(slots, kept)
        duplicates = np.maximum(counts - 1, 0)
        return cls(freq.range(start, length), kept, slots[kept], counts > 0, duplicates)

    def place(self, cells: np.ndarray) -> np.ndarray:
        """Place cells ``[rows, K]`` on the grid: ``[T, N or 1, K]``, NaN where there is no row."""
        length, columns = self.present.shape
        placed = np.full((length * columns, cells.shape[1]), np.nan)
        placed[self.slots] = cells[self.kept]
        return placed.reshape(length, columns, -1)


def first_rows(slots: np.ndarray) -> np.ndarray:
    """Find the first row of each slot."""
    return np.unique(slots, return_index=True)[1]


def place_covariates(
    grid: TimeGrid,
    layout: Layout,
    names: tuple[str, ...],
    role: str,
    length: int,
    locator: Locator,
    marks: Sequence[float],
) -> tuple[np.ndarray, list[DataNote]]:
    """Place covariates on the grid, ``float64 [T', N, K]``, and fill the first ``length`` steps."""
    series = len(layout.ids)
    if not names:
        return np.zeros((length, series, 0)), []
    cells = read_numbers(layout.frame, names, role, marks)
    placed = grid.place(cells)  # [T', N or 1, K]: the series of a wide table share them
    notes = []
    for k, name in enumerate(names):
        holes = np.isnan(placed[:length, :, k])
        if (empty := holes.all(axis=0)).any():
            reason = f"series {layout.ids[int(empty.argmax())]!r} has no value"
            raise FighterError(f"{reason}; fill it or leave it out", argument=role, value=name)
        empty_cells = holes & grid.present[:length]
        if count := int(empty_cells.sum()):
            where = f"(first: {locator.first_time(empty_cells)})"
            if layout.series is not None:
                where = locator.summary(empty_cells)
            what = f"{count} empty values of the {role} covariate {name!r} {where}"
            done = "the last value was carried forward"
            if leading := int((np.logical_and.accumulate(holes) & empty_cells).sum()):
                done = f"{leading} of them, before the first value, were filled with it"
                done += "; for the others the last value was carried forward" * (leading < count)
            notes.append(DataNote("missing", f"{what}; {done}."))
        placed[:length, :, k] = carry_forward(placed[:length, :, k])
    if placed.shape[1] != series:
        placed = np.broadcast_to(placed, (len(placed), series, len(names)))
    return placed, notes


def carry_forward(values: np.ndarray) -> np.ndarray:
    """Fill holes in ``[T, K]`` with the last value before them, leading ones with the next."""
    steps = np.arange(len(values))[:, None]
    valid = ~np.isnan(values)
    source = np.maximum.accumulate(np.where(valid, steps, -1), axis=0)
    source = np.where(source < 0, valid.argmax(axis=0), source)
    return np.take_along_axis(values, source, axis=0)
