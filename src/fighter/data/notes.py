"""Notes for people about their table: what was found, how often, where, and what was done."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from .columns import listing
from .frequency import Frequency, plural
from .ragged import find_gaps, true_rows
from .time_axis import TimeAxis

# Numbers that instruments write where they have no measurement.
_SENTINELS = (-9999.0, -99999.0, -999.0, -999.9, -9999.9, -99.0, 9999.0, 99999.0)


class DataNote(NamedTuple):
    """One thing that was found in a table. ``str(note)`` is a sentence about it.

    Kinds: ``dates`` (integers read as dates), ``zone`` (time stamps with a time zone), ``closed``
    (days and hours without rows), ``shifted`` (time stamps moved to their step), ``duplicates``
    (repeated time stamps), ``gaps`` (absent time stamps), ``unequal`` (series that begin late or
    end early), ``missing`` (empty cells), ``sentinel`` (numbers that stand for missing data),
    ``unused`` (columns), ``layout`` (id and target columns that were recognised) and ``text``
    (numbers written as text).
    """

    kind: Literal[
        "dates", "zone", "closed", "shifted", "duplicates", "gaps", "unequal", "missing",
        "sentinel", "unused", "layout", "text",
    ]  # fmt: skip
    text: str

    def __str__(self) -> str:
        return self.text


class Locator:
    """Says where the marked cells of a mask ``[T, N]`` are."""

    def __init__(
        self, ids: Sequence, times: np.ndarray, freq: Frequency, axis: TimeAxis | None = None
    ) -> None:
        self.ids, self.times, self.freq = ids, times, freq
        self.axis = axis or TimeAxis()

    def first_time(self, mask: np.ndarray) -> str:
        """Name the first marked time: ``2020-05-12 06:00``."""
        time = int(self.times[mask.any(axis=1).argmax()])
        return self.freq.show(self.axis.clock(time))

    def first_cell(self, mask: np.ndarray) -> str:
        """Name the first marked cell in time: ``'OT' at 2020-05-12 06:00``."""
        column = int(mask[mask.any(axis=1).argmax()].argmax())
        return f"{self.ids[column]!r} at {self.first_time(mask)}"

    def summary(self, mask: np.ndarray) -> str:
        """Count the marked cells by series: ``in 2 series ('OT' 50, 'wv' 1; first: …)``."""
        counts = mask.sum(axis=0)
        series = int((counts > 0).sum())
        most = np.argsort(-counts, kind="stable")[: min(3, series)]
        shown = ", ".join(f"{self.ids[i]!r} {counts[i]}" for i in most)
        more = ", …" if series > 3 else ""
        return f"in {series} series ({shown}{more}; first: {self.first_cell(mask)})"


def describe_rows(
    present: np.ndarray, duplicates: np.ndarray, locator: Locator, wide: bool
) -> list[DataNote]:
    """Describe repeated and absent time stamps, late starts and early ends.

    ``present`` and ``duplicates`` are ``[T, N]``, or ``[T, 1]`` in a ``wide`` table.
    """
    notes = []
    if count := int(duplicates.sum()):
        where = locator.first_time if wide else locator.first_cell
        what = f"{plural(count, 'duplicated time stamp')} (first: {where(duplicates > 0)})"
        notes.append(DataNote("duplicates", f"{what}; the first row of each was kept."))
    (first, last), gaps = true_rows(present), find_gaps(present)
    if count := int(gaps.sum()):
        where = f"(first: {locator.first_time(gaps)})" if wide else locator.summary(gaps)
        what = f"{plural(count, 'missing time stamp')} {where}"
        notes.append(DataNote("gaps", f"{what}; treated as not observed."))
    if count := int((first > 0).sum()):
        latest = f"{locator.ids[int(first.argmax())]!r} by {first.max()} steps"
        text = f"{count} series begin after the first time stamp, {latest}."
        notes.append(DataNote("unequal", text))
    if count := int((last < last.max()).sum()):
        earliest = f"{locator.ids[int(last.argmin())]!r} by {np.ptp(last)} steps"
        what = f"{count} series end before the last time stamp, {earliest}"
        notes.append(DataNote("unequal", f"{what}; each is forecast from its own end."))
    return notes


def suspect_sentinels(values: np.ndarray, observed: np.ndarray, locator: Locator) -> list[DataNote]:
    """Describe numbers such as -9999, far from the rest of a series, not declared as missing."""
    notes = []
    for sentinel in _SENTINELS:
        mask = (values == sentinel) & observed
        for i in np.flatnonzero(mask.any(axis=0)):
            rest = values[observed[:, i] & ~mask[:, i], i]
            spread = np.ptp(rest) if rest.size else np.inf
            if np.abs(rest - sentinel).min(initial=np.inf) <= 2 * max(spread, 1.0):
                mask[:, i] = False
        if count := int(mask.sum()):
            what = f"{plural(count, 'value')} of {sentinel:g} {locator.summary(mask)}"
            remedy = f"declare {sentinel:g} as a missing value to leave them out."
            notes.append(DataNote("sentinel", f"{what} may stand for missing data; {remedy}"))
    return notes


def describe_unused(names: Sequence[str]) -> list[DataNote]:
    """Describe columns that are not used."""
    if not names:
        return []
    text = (
        f"Columns not used: {listing(names)}; name them as past or future covariates to use them."
    )
    return [DataNote("unused", text)]
