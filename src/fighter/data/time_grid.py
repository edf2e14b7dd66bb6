"""The regular time grid of a table: the slot of each row, and columns placed on the grid."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import FighterError
from .columns import listing
from .dates import time_error
from .frequency import Frequency
from .layout import Layout, read_numbers
from .notes import DataNote, Locator
from .open_week import DAY, DAYS
from .ragged import Ragged, Spans, count_in_rows, ragged, true_rows

Rows = np.ndarray | slice  # row numbers, or all rows

_LARGEST_GRID = 50_000_000  # cells; a larger grid must be well filled
_SPARSE = 0.1  # share of the steps that must have a row, if the frequency was inferred
_ODD = 0.1  # share of the time stamps that may be closed or shifted
_LONG_GAP = 100  # steps
_FAR = 30  # steps that a row beyond the others must be away to look mistyped
_FEW = 0.03  # share of the rows of a series that may be mistyped
_ENOUGH = 10  # rows of a series that show its order


@dataclass(frozen=True)
class TimeGrid:
    """The regular time grid of a table, and the slot of each of its rows."""

    times: np.ndarray  # int64 [T]
    kept: np.ndarray  # int64: the first row of each slot
    slots: np.ndarray  # int64: the slots of these rows, numbered step by step
    # bool [T, N or 1]: whether the table has a row; ragged if most series are short
    present: np.ndarray
    duplicates: np.ndarray  # int64 [T, N or 1]: number of rows beyond the first
    notes: tuple[DataNote, ...] = ()  # on rows that were left out or moved

    @classmethod
    def of(
        cls, layout: Layout, freq: Frequency, inferred: bool = False, sparse: bool = False
    ) -> "TimeGrid":
        """Find the grid of a table at frequency ``freq``, which may have been ``inferred``.

        ``sparse`` says that most steps of a series may be without a row.
        """
        start = freq.start(layout.times)
        rows, steps, notes = _place_rows(layout, freq, start)
        start, steps = int(freq.range(start, 1, int(steps.min()))[0]), steps - steps.min()
        length = int(steps.max()) + 1
        width = len(layout.ids)
        _check_gaps(layout, rows, steps, freq, inferred)
        _check_order(layout, rows, steps, freq)
        spans = None if sparse else _spans(layout, rows, steps, length)
        cells, values = length * width, layout.targets.size
        if spans is not None:
            cells = int(spans.counts.sum())
        if cells > _LARGEST_GRID and cells > 100 * values:
            ends = f"from {freq.show(start)} to {freq.show(int(layout.times.max()))}"
            size = f"{length} steps for {width} series, but the table has only {values} values"
            remedy = "check the frequency and the first and last time stamps"
            reason = f"the grid {ends} has {size}; {remedy}"
            raise FighterError(reason, argument="freq", value=str(freq))
        slots, columns = steps, 1  # a row of a wide table fills all series of its step
        if layout.series is not None:
            columns = width
            if spans is None:
                slots = steps * width + layout.series[rows]
            else:
                slots = spans.slots(steps, layout.series[rows])
        flat = np.bincount(slots, minlength=length * columns if spans is None else 0)
        counts = flat.reshape(length, columns) if spans is None else ragged(flat, spans)
        kept = np.arange(len(slots))
        if flat.max() > 1:
            kept = first_rows(slots)
            notes += layout.check_repeats(rows, slots, kept)
        times = freq.range(start, length)
        duplicates, present = np.maximum(counts - 1, 0), counts > 0
        if inferred:
            _check_ends(layout, rows, steps, present, freq)
        if layout.series is not None and not sparse:
            notes += _check_steps(layout, times, present, freq)
        original = kept if isinstance(rows, slice) else rows[kept]
        return cls(times, original, slots[kept], present, duplicates, tuple(notes))

    def place_targets(self, targets: np.ndarray) -> np.ndarray:
        """Place targets ``[rows, 1 or N]`` on the grid: ``[T, N]``, NaN where there is no row."""
        if not isinstance(self.present, Ragged):
            return self.place(targets).reshape(len(self.times), -1)
        placed = np.full(self.present.cells.shape, np.nan)
        placed[self.slots] = targets[self.kept, 0]
        return ragged(placed, self.present.spans, np.nan)

    def place(self, cells: np.ndarray) -> np.ndarray:
        """Place cells ``[rows, K]`` on the grid: ``[T, N or 1, K]``, NaN where there is no row."""
        length, columns = self.present.shape
        placed = np.full((length * columns, cells.shape[1]), np.nan)
        placed[self.slots] = cells[self.kept]
        return placed.reshape(length, columns, -1)


def _spans(layout: Layout, rows: Rows, steps: np.ndarray, length: int) -> Spans | None:
    """Return the rows of each series, if that takes much less room than the whole grid.

    Covariates, which may have rows after the last target, take the whole grid.
    """
    if layout.series is None or layout.covariates:
        return None
    series, width = layout.series[rows], len(layout.ids)
    begins, ends = np.full(width, length), np.zeros(width, np.int64)
    np.minimum.at(begins, series, steps)
    np.maximum.at(ends, series, steps + 1)
    spans = Spans.of(np.minimum(begins, ends), ends, length)
    return spans if spans.worthwhile else None


def _place_rows(
    layout: Layout, freq: Frequency, start: int
) -> tuple[Rows, np.ndarray, list[DataNote]]:
    """Find the rows to use and their steps; refuse rows that are off the grid.

    A few rows on closed days or hours are left out. A few stamps of weeks and months that are
    shifted by some days are moved to their step.
    """
    rows, notes = slice(None) if layout.left_out is None else np.flatnonzero(~layout.left_out), []
    times = layout.times[rows]
    steps, off = freq.locate(times, start)
    if off.any() and (closed := freq.closed(times)).any():
        where = quote_row(layout, rows, closed)
        open_times, closed_times = np.unique(times[~closed]), np.unique(times[closed])
        what = f"{_rows(int(closed.sum()))} on closed days or hours ({where})"
        if closed_times.size > max(2, _ODD * open_times.size) or not open_times.size:
            reason = f"the table has {what}; drop them, or pass the frequency {freq.every}"
            raise FighterError(reason, argument="freq", value=str(freq))
        notes.append(
            DataNote("closed", f"{what} left out; pass the frequency {freq.every} to keep them.")
        )
        rows = np.arange(len(layout.times))[rows][~closed]
        times, steps, off = times[~closed], steps[~closed], off[~closed]
    if off.any():
        nearby = off & freq.nearby(times, steps, start)
        shifted = np.unique(times[nearby]).size
        if (off & ~nearby).any() or shifted > _ODD * np.unique(times).size:
            which = quote_row(layout, rows, off)
            origin = layout.axis.clock(start if off.all() else int(times[~off].min()))
            raise freq.off_grid(int(off.sum()), layout.times.size, origin, which)
        what = f"{_rows(int(off.sum()))} shifted by some days ({quote_row(layout, rows, nearby)})"
        notes.append(DataNote("shifted", f"{what}, read as the nearest step."))
    return rows, steps, notes


def _check_gaps(
    layout: Layout, rows: Rows, steps: np.ndarray, freq: Frequency, inferred: bool
) -> None:
    """Refuse a grid that is almost empty, as one mistyped date makes it."""
    length = int(steps.max()) + 1
    distinct = np.flatnonzero(np.bincount(steps)) if length <= 10 * steps.size else np.unique(steps)
    if distinct.size < 2 or distinct.size == length:
        return
    gaps = np.diff(distinct)
    before = int(gaps.argmax()) + 1  # the number of steps before the longest gap
    lonely = min(before, distinct.size - before)
    gap, rest = int(gaps.max()), length - int(gaps.max())
    sparse = distinct.size < _SPARSE * length
    stray = gap > max(_LONG_GAP, rest) and lonely <= max(1, 0.01 * distinct.size)
    if gap <= _LONG_GAP or not (stray or (sparse and (inferred or gap > 0.5 * length))):
        if not inferred and gaps.size >= 3 and (usual := _usual(gaps)) * _SPARSE >= 1:
            apart = (
                f"most rows are {freq.span(usual)} apart, so most steps of {freq} would be empty"
            )
            reason = f"{apart}; leave the frequency out, or pass that of the rows"
            raise FighterError(reason, argument="freq", value=str(freq))
        return
    outer = distinct[before:] if before > distinct.size / 2 else distinct[:before]
    mask = np.isin(steps, outer)
    empty = f"{length - distinct.size} of {length} steps of {freq} would have no row"
    away = f"{gap} steps away from the others ({quote_row(layout, rows, mask)})"
    remedy = "correct or drop these rows" + (", or pass the frequency" if inferred else "")
    reason = f"{empty}: the table has {_rows(int(mask.sum()))} {away}; {remedy}"
    raise FighterError(reason, argument="freq", value=str(freq))


def _check_order(layout: Layout, rows: Rows, steps: np.ndarray, freq: Frequency) -> None:
    """Refuse a row elsewhere in time than the rows around it, between which a step is missing."""
    series = np.zeros(len(steps), np.int64) if layout.series is None else layout.series[rows]
    order = np.argsort(series, kind="stable")
    series, steps = series[order], steps[order]
    jumps = np.diff(steps)
    falls = (jumps < 0) & (np.diff(series) == 0)
    if not falls.any():
        return
    odd = np.zeros(len(steps), bool)
    odd[1:-1] = (jumps[1:] + jumps[:-1] == 2) & (np.abs(jumps[1:]) > 3)
    odd[1:-1] &= series[2:] == series[:-2]
    counts, width = np.bincount(series), int(series.max()) + 1
    strays = np.bincount(series[odd], minlength=width)
    sorted_but = (strays == np.bincount(series[1:][falls], minlength=width)) & (strays > 0)
    sorted_but &= (counts >= _ENOUGH) & (strays <= np.maximum(1, _FEW * counts))
    odd &= sorted_but[series]
    places = np.flatnonzero(odd)
    lacking = (steps[places - 1] + 1) * width + series[places]
    places = places[~np.isin(lacking, steps * width + series)]
    if places.size:
        mask = np.zeros(len(steps), bool)
        mask[order[places]] = True
        where = f"the table has {_rows(places.size)} out of order ({quote_row(layout, rows, mask)})"
        step = freq.range(int(layout.times[rows][order[places[0] - 1]]), 2)[1]
        expected = f"where {freq.show(layout.axis.clock(int(step)))} is missing"
        raise time_error(layout.axis.name, f"{where}, {expected}; correct or drop them")


def _check_ends(
    layout: Layout, rows: Rows, steps: np.ndarray, present: np.ndarray, freq: Frequency
) -> None:
    """Refuse a few rows far from the others of a series that has no other gaps."""
    counts = present.sum(axis=0)
    first, last = true_rows(present)
    last = last + 1
    far = np.maximum(_FAR, counts / 4)
    for column in np.flatnonzero((counts >= _ENOUGH) & (last - first - counts >= far)):
        places = np.flatnonzero(present[:, column])
        gaps = np.diff(places)
        before = int(gaps.argmax()) + 1
        lonely = min(before, places.size - before)
        regular = (gaps > 1).sum() <= 1 + 0.01 * gaps.size
        if regular and gaps.max() > far[column] and lonely <= max(1, _FEW * places.size):
            outer = places[before:] if before > places.size / 2 else places[:before]
            mask = np.isin(steps, outer)
            if layout.series is not None:
                mask &= layout.series[rows] == column
            where = (
                f"{int(gaps.max())} steps away from the others ({quote_row(layout, rows, mask)})"
            )
            remedy = f"correct or drop them, or pass the frequency {freq} to keep them"
            reason = f"the table has {_rows(lonely)} {where}, and hardly another gap; {remedy}"
            raise time_error(layout.axis.name, reason)


def _usual(gaps: np.ndarray, share: float = 0.8) -> int:
    """Return the steps between rows, if at least this share of the gaps is like it; else 0."""
    usual = float(np.median(gaps))
    return int(usual) if (np.abs(gaps - usual) <= 0.1 * usual).mean() >= share else 0


def _check_steps(
    layout: Layout, times: np.ndarray, present: np.ndarray, freq: Frequency
) -> list[DataNote]:
    """Refuse a series whose own step is much longer than that of the table; describe others."""
    counts = present.sum(axis=0)
    first, last = true_rows(present)
    last = last + 1
    double = []
    for series in np.flatnonzero((counts > 5) & (2 * counts <= last - first + 1)):
        gaps = np.diff(np.flatnonzero(present[:, series]))
        if (usual := _usual(gaps)) >= 3:
            rows = layout.times[layout.series == series]
            own = f"most rows of series {layout.ids[series]!r} are {usual} steps apart"
            where = f"(its first: {freq.show(int(rows.min()))})"
            remedy = "forecast series of different frequencies in tables of their own"
            reason = f"{own} {where}, while the step of the table is {freq}; {remedy}"
            raise FighterError(reason, argument="freq", value=str(freq))
        if gaps.size >= 8 and _usual(gaps, 0.95) == 2:
            double.append(layout.ids[series])
    own = "forecast series of different frequencies in tables of their own."
    notes = []
    if double:
        what = f"{listing(double, 3)} only in every other step, while the step is {freq}"
        notes.append(DataNote("gaps", f"There are rows of {what}; {own}"))
    days, idle = _idle_days(times, present, freq)
    if idle.size:
        names = listing([layout.ids[i] for i in idle], 3)
        what = f"There are no rows of {names} on {days}, but these days are forecast, too"
        notes.append(DataNote("gaps", f"{what}; {own}"))
    return notes


def _idle_days(times: np.ndarray, present: np.ndarray, freq: Frequency) -> tuple[str, np.ndarray]:
    """Find daily series without a row on some days of the week on which others have rows.

    Return these days of the first such series, and the columns of all.
    """
    if str(freq.every) != "D" or freq.count not in (1, DAY):
        return "", np.zeros(0, np.int64)
    days = (times // DAY + 3) % 7  # 1970-01-01 was a Thursday
    counts = np.stack([count_in_rows(present, days == day) for day in range(7)])  # [7, N]
    known = np.unique(days)
    idle = counts[known] == 0
    most = counts.max(axis=0)
    filled = (idle | (counts[known] >= 0.7 * most)).all(axis=0)
    found = np.flatnonzero(idle.any(axis=0) & filled & (most >= 4) & (idle.mean(axis=0) < 0.5))
    names = ", ".join(DAYS[day] for day in known[idle[:, found[0]]]) if found.size else ""
    return names, found


def _rows(count: int) -> str:
    return f"{count} {'row' if count == 1 else 'rows'}"


def quote_row(layout: Layout, rows: Rows, mask: np.ndarray) -> str:
    """Name the first marked one of these rows, with its time stamp as the table has it."""
    row = int(mask.argmax() if isinstance(rows, slice) else rows[mask.argmax()])
    stamp = str(layout.frame[layout.axis.name][row]).removesuffix(" 00:00:00")
    series = "" if layout.series is None else f" of {layout.ids[layout.series[row]]!r}"
    return f"{'first: ' if mask.sum() > 1 else ''}{stamp}{series} in row {row}"


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
            filled = "the last value was carried forward"
            if (empty_cells & (np.cumsum(~holes, axis=0) == 0)).any():
                filled += "; where none comes before, the average is taken"
            notes.append(DataNote("missing", f"{what}; {filled}."))
        placed[:length, :, k] = carry_forward(placed[:length, :, k])
    if placed.shape[1] != series:
        placed = np.broadcast_to(placed, (len(placed), series, len(names)))
    return placed, notes


def carry_forward(values: np.ndarray) -> np.ndarray:
    """Fill holes in ``[T, K]`` with the last value before them; leading ones stay NaN."""
    steps = np.arange(len(values))[:, None]
    source = np.maximum.accumulate(np.where(np.isnan(values), 0, steps), axis=0)
    return np.take_along_axis(values, source, axis=0)
