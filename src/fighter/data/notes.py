"""Sentences for people about what was found in their table: how many, where, and what was done."""

from collections.abc import Sequence

import numpy as np

from .columns import listing
from .frequency import Frequency

# What instruments write where they have nothing to say.
_SENTINELS = (-9999.0, -99999.0, -999.0, -999.9, -9999.9, -99.0, 9999.0, 99999.0)


class Finder:
    """Counts marked cells of ``[T, N]`` masks and says where they are."""

    def __init__(self, ids: Sequence, times: np.ndarray, freq: Frequency) -> None:
        self.ids, self.times, self.freq = ids, times, freq

    def place(self, mask: np.ndarray) -> str:
        """Name the first marked cell in time: ``'OT' at 2020-05-12 06:00``."""
        row = int(mask.any(axis=1).argmax())
        column = int(mask[row].argmax())
        return f"{self.ids[column]!r} at {self.freq.show(self.times[row])}"

    def when(self, mask: np.ndarray) -> str:
        """Name the first marked time."""
        return self.freq.show(int(self.times[mask.any(axis=1).argmax()]))

    def cells(self, mask: np.ndarray) -> str:
        """Tell which series, how many in each, and the first: ``in 2 series ('OT' 50, …)``."""
        counts = mask.sum(axis=0)
        worst = np.argsort(-counts, kind="stable")[: min(3, (counts > 0).sum())]
        shares = ", ".join(f"{self.ids[i]!r} {counts[i]}" for i in worst)
        series = int((counts > 0).sum())
        more = ", …" if series > 3 else ""
        return f"in {series} series ({shares}{more}; first: {self.place(mask)})"


def describe_rows(
    present: np.ndarray, duplicates: np.ndarray, finder: Finder, wide: bool
) -> list[str]:
    """Tell of repeated stamps, missing stamps and early ends. Both arrays are ``[T, N or 1]``."""
    found = []
    if count := int(duplicates.sum()):
        where = finder.when(duplicates > 0) if wide else finder.place(duplicates > 0)
        found.append(
            f"{count} duplicated time stamp{_s(count)} (first: {where}); "
            "the first row of each was kept."
        )
    steps = np.arange(len(present))[:, None]
    first, last = present.argmax(axis=0), len(present) - 1 - present[::-1].argmax(axis=0)
    gaps = ~present & (steps > first) & (steps < last)
    if count := int(gaps.sum()):
        where = f"(first: {finder.when(gaps)})" if wide else finder.cells(gaps)
        found.append(f"{count} missing time stamp{_s(count)} {where}; treated as not observed.")
    late = int(first.argmax())
    if first[late] > 0:
        count = int((first > 0).sum())
        found.append(
            f"{count} series begin after the first time stamp, {finder.ids[late]!r} by "
            f"{first[late]} steps."
        )
    early = np.flatnonzero(last < last.max())
    if early.size:
        most = int(early[last[early].argmin()])
        found.append(
            f"{early.size} series end before the last time stamp, {finder.ids[most]!r} by "
            f"{last.max() - last[most]} steps; each is forecast from its own end."
        )
    return found


def suspect_sentinels(values: np.ndarray, observed: np.ndarray, finder: Finder) -> list[str]:
    """Find numbers such as -9999 far outside the rest of a series, not declared as missing."""
    found = []
    for sentinel in _SENTINELS:
        mask = (values == sentinel) & observed
        for i in np.flatnonzero(mask.any(axis=0)):
            rest = values[observed[:, i] & ~mask[:, i], i]
            spread = np.ptp(rest) if rest.size else np.inf
            if np.abs(rest - sentinel).min(initial=np.inf) <= 2 * max(spread, 1.0):
                mask[:, i] = False
        if count := int(mask.sum()):
            found.append(
                f"{count} value{_s(count)} of {sentinel:g} {finder.cells(mask)} look like a mark "
                f"for missing data; pass missing_values=[{sentinel:g}] to leave them out."
            )
    return found


def describe_unused(names: Sequence[str]) -> list[str]:
    """Tell of columns that were neither asked for nor used."""
    if not names:
        return []
    return [f"Not used: {listing(names)}. Name covariates with past= or future=."]


def _s(count: int) -> str:
    return "" if count == 1 else "s"
