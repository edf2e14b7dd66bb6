"""Panels of different series, read from different files, joined into one."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..errors import FighterError
from .panel import Panel
from .ragged import Spans, ragged, true_rows
from .static import join_static

_ALIKE = ("axis", "past_names", "future_names", "id_cols", "target_col", "snapped")


def merge_panels(panels: Sequence[Panel]) -> Panel:
    """Join panels of different series, in their order, on one time grid.

    The result is that of reading all their rows at once. Frequency, time axis and columns must be
    the same.
    """
    first, freq = panels[0], panels[0].freq
    for panel in panels[1:]:
        if panel.freq != freq:
            what = f"some files have steps of {freq}, others of {panel.freq}"
            raise FighterError(f"{what}; pass the frequency", argument="freq")
        for name in _ALIKE:
            one, other = getattr(first, name), getattr(panel, name)
            if one != other:
                what = f"the files differ in their {name.replace('_', ' ')}: {one} and {other}"
                raise FighterError(f"{what}; write all of them alike")
    ids = [name for panel in panels for name in panel.ids]
    if len(set(ids)) < len(ids):
        seen: set = set()
        again = next(name for name in ids if name in seen or seen.add(name))
        what = f"series {again!r} is in the files of two processes"
        raise FighterError(f"{what}; fighter data split writes each series to one file")
    start = min(int(panel.times[0]) for panel in panels)
    shifts = [int(freq.positions(panel.times[:1], start)[0]) for panel in panels]
    length = max(shift + panel.length for shift, panel in zip(shifts, panels, strict=True))
    values, observed = _place(panels, shifts, length)
    ahead = max(shift + len(panel.future) for shift, panel in zip(shifts, panels, strict=True))
    pairs = list(zip(panels, shifts, strict=True))
    static, names, categories = join_static([(p.static, p.static_categories) for p in panels])
    weights = [panel.weights for panel in panels if panel.weights is not None]
    return replace(
        first,
        ids=tuple(ids),
        times=freq.range(start, length),
        values=values,
        observed=observed,
        past=np.concatenate([_pad(p.past, shift, length, "edge") for p, shift in pairs], 1),
        future=np.concatenate([_pad(p.future, shift, ahead, "constant") for p, shift in pairs], 1),
        static=static,
        static_names=names,
        static_categories=categories,
        data_notes=tuple(note for panel in panels for note in panel.data_notes),
        ends=np.concatenate([panel.ends + shift for panel, shift in pairs]),
        begins=np.zeros(len(ids), np.int64),
        holidays=tuple(country for panel in panels for country in panel.holidays),
        weights=np.concatenate(weights) if weights else None,
    )


def _place(
    panels: Sequence[Panel], shifts: Sequence[int], length: int
) -> tuple[np.ndarray, np.ndarray]:
    """Place values and observed cells on the common grid, which is ragged if that is smaller."""
    seen = [true_rows(panel.observed) for panel in panels]
    rows = zip(seen, shifts, strict=True)
    first, last = np.concatenate([np.stack(each) + shift for each, shift in rows], 1)
    spans = Spans.of(first, last + 1, length)
    if spans.worthwhile and not panels[0].past_names and not panels[0].future_names:
        cells = ([], [])
        for panel, (begin, end) in zip(panels, seen, strict=True):
            done = 0
            for _, part in panel.blocks():
                some = slice(done, done := done + part.n_series)
                own = Spans.of(begin[some], end[some] + 1, part.length)
                for held, grid in zip(cells, (part.values, part.observed), strict=True):
                    held.append(grid[own.rows(), own.series()])
        values, observed = (ragged(np.concatenate(held), spans) for held in cells)
        return values, observed
    width = len(first)
    values, observed, done = np.zeros((length, width)), np.zeros((length, width), bool), 0
    for panel, shift in zip(panels, shifts, strict=True):
        place = slice(shift, shift + panel.length), slice(done, done := done + panel.n_series)
        values[place], observed[place] = panel.values, panel.observed
    return values, observed


def _pad(columns: np.ndarray, before: int, length: int, mode: str) -> np.ndarray:
    """Pad covariates ``[T, N, K]``: NaN before their rows; the last ones or NaN after them."""
    after = length - before - len(columns)
    padded = np.pad(columns, ((before, 0), (0, 0), (0, 0)), constant_values=np.nan)
    blank = {"constant_values": np.nan} if mode == "constant" else {}
    return np.pad(padded, ((0, after), (0, 0), (0, 0)), mode=mode, **blank)  # pyright: ignore[reportCallIssue, reportArgumentType]
