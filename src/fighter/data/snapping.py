"""Time stamps that are not quite regular, moved to the nearest step of a regular grid."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..errors import FighterError
from .frequency import HOUR, SECOND, Frequency, plural, stamp_differences
from .layout import Layout
from .notes import DataNote
from .open_week import DAY, MINUTE, WEEK
from .time_grid import quote_row


class _Limits(NamedTuple):
    """How irregular stamps may be."""

    lost: float  # share of the rows that may fall on the step of a later row
    drift: float  # by which the mean difference of stamps may be off a whole number of steps


_UNASKED, _GIVEN = _Limits(0.05, 0.01), _Limits(0.2, 0.05)  # without and with a given frequency
_FEW = 0.05  # share of the rows of the busiest time of the day
_CENTRED = 0.7  # mean resultant length of the phases of a table that has a clear centre
_CENTRED_SERIES = 0.3  # the same of a series; a wrong step makes it about 0
_SLIGHT = 0.1  # share of a step by which rows may be off the grid of an exact training table

_DIVISORS = (1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30)
_USUAL_STEPS = sorted(
    {n * unit for n in (1, 2, 5, 10, 20, 50, 100, 200, 500) for unit in (10**3, 10**6)}
    | {n * unit for n in _DIVISORS for unit in (SECOND, MINUTE)}
    | {n * HOUR for n in (1, 2, 3, 4, 6, 8, 12)}
    | {DAY, WEEK}
)
_ROUND = sorted(
    {n * 10**k for n in (1, 2, 5) for k in range(9)}
    | {n * unit for n in (1, 5, 10, 15, 30) for unit in (SECOND, MINUTE)}
    | {HOUR}
)


def find_frequency(layout: Layout) -> tuple[Layout, Frequency]:
    """Infer the frequency; return it with the layout, whose stamps may have been moved to it.

    Stamps are moved if hardly any two of a series fall on one step. If more do, the error names the
    frequency to pass.
    """
    integer = layout.axis.kind == "integer"
    found = error = None
    try:
        found = Frequency.infer(layout.times, layout.series, integer)
    except FighterError as refused:
        error = refused
    if found and (integer or _is_regular(layout.times, found)):
        return layout, found
    steps = [] if integer else _likely_steps(layout)
    for step in steps[:-1]:
        if snapped := snap(layout, step, _UNASKED):
            usual = _usual_rows(snapped, step)
            series = None if snapped.series is None else snapped.series[usual]
            own = Frequency.infer(snapped.times[usual], series)
            return snapped, own if own.fixed_step == step else Frequency("ns", step)
    for step in steps:
        if snapped := snap(layout, step, _GIVEN):
            reason = "cannot be inferred with certainty because time stamps are not regular"
            remedy = f"pass freq={str(Frequency('ns', step))!r} to move each to its nearest step"
            if lost := int(snapped.left_out.sum()):  # pyright: ignore[reportOptionalMemberAccess]
                remedy += f", which leaves out {plural(lost, 'row')} of {layout.times.size}"
            raise FighterError(f"{reason}; {remedy}", argument="freq")
    if found is None:
        raise error  # pyright: ignore[reportGeneralTypeIssues]
    return layout, found


def fit_to_frequency(
    layout: Layout, freq: Frequency, phase: int | None = None, exact: bool = False
) -> Layout:
    """Move stamps to the grid of a given frequency, if they are off it by less than half a step.

    ``phase`` is that of an earlier table; if that one was ``exact``, stamps may be off slightly.
    The layout stays as it is if its stamps are on the grid, or too far from it.
    """
    step = freq.fixed_step
    if step is None or _is_regular(layout.times, freq, phase):
        return layout
    if exact and phase is not None:
        offsets = np.abs(layout.times - nearest(layout.times, step, phase))
        if offsets.max(initial=0) > _SLIGHT * step:
            return layout
    return snap(layout, step, _GIVEN, phase) or layout


def snap(layout: Layout, step: int, limits: _Limits, phase: int | None = None) -> Layout | None:
    """Move all stamps to the nearest step; None if they are at another frequency.

    Of the stamps of a series that fall on one step, the last is used.
    """
    times, series = layout.times, layout.series
    differences = _usual_differences(times, series)
    if differences.size:
        steps = differences.mean() / step
        drift = abs(steps - round(steps))
        centred = _centring(times, series, step) >= _CENTRED_SERIES
        # All differences of a series together are off by one step at most.
        least = len(layout.ids) / differences.size if series is not None else 1 / differences.size
        most = max(_GIVEN.drift if centred else limits.drift, least)
        if not round(steps) or drift > most:
            return None
    phases = _likely_phases(times, step) if phase is None else [phase]
    found = (_snap_to(layout, step, likely, limits.lost) for likely in phases)
    return next((snapped for snapped in found if snapped), None)


def _snap_to(layout: Layout, step: int, phase: int, most_lost: float) -> Layout | None:
    """Move all stamps to the nearest step of a grid; None if too many fall on the same one."""
    times, series = layout.times, layout.series
    moved = nearest(times, step, phase)
    offsets = np.abs(times - moved)
    slots = np.unique(moved, return_inverse=True)[1]
    if series is not None:
        slots = slots * len(layout.ids) + series
    last = np.full(slots.max() + 1, times.min())
    np.maximum.at(last, slots, times)
    left_out = times < last[slots]  # rows with equal stamps are compared later
    ties = int((2 * offsets == step).sum())
    if left_out.sum() + ties > most_lost * times.size:
        return None
    what = f"{int((offsets > 0).sum())} of {plural(times.size, 'time stamp')} moved to the nearest"
    far = f"{_duration(offsets.max())} ({quote_row(layout, slice(None), offsets > 0)})"
    text = f"{what} step of {Frequency('ns', step)}, by at most {far}"
    if lost := int(left_out.sum()):
        text += f"; {plural(lost, 'row')} left out, because a later one falls on the same step"
    notes = (*layout.notes, DataNote("shifted", f"{text}."))
    return replace(layout, times=moved, left_out=left_out, notes=notes)


def nearest(times: np.ndarray, step: int, phase: int) -> np.ndarray:
    """Return the nearest stamp of the grid for each stamp: ``int64``."""
    rest = (times % step - phase) % step
    return times - rest + np.where(2 * rest >= step, step, 0)


def _is_regular(times: np.ndarray, freq: Frequency, phase: int | None = None) -> bool:
    """Tell whether all stamps have the same phase; of weeks, the same time of the day."""
    step = freq.fixed_step
    if step is None or not times.size:
        return True
    if step % WEEK == 0:
        step, phase = DAY, None
    return bool((times % step == (times[0] % step if phase is None else phase)).all())


def _usual_differences(times: np.ndarray, series: np.ndarray | None) -> np.ndarray:
    """Return the differences between neighbouring stamps that are not gaps or repetitions."""
    differences = stamp_differences(times, series)
    middle = np.median(differences) if differences.size else 0
    return differences[(differences > 0.5 * middle) & (differences < 1.5 * middle)]


def _likely_steps(layout: Layout) -> list[int]:
    """List steps that the stamps may have: a usual one, the most common, and the mean, rounded."""
    differences = _usual_differences(layout.times, layout.series)
    if not differences.size:
        return []
    mean = float(differences.mean())
    lengths, counts = np.unique(differences, return_counts=True)
    common = int(lengths[counts.argmax()])
    usual = min(_USUAL_STEPS, key=lambda step: abs(np.log(step / mean)))
    unit = _round_unit(int(mean), divides=False)
    rounded = max(round(mean / unit), 1) * unit if mean < DAY else usual
    if 2 * counts.max() < counts.sum():
        return [usual, rounded]
    phases = np.unique(layout.times % common, return_counts=True)[1]
    exact = 2 * phases.max() > layout.times.size  # only some stamps are off
    return [common, usual, rounded] if exact else [usual, common, rounded]


def _likely_phases(times: np.ndarray, step: int) -> list[int]:
    """List phases that the grid may have: that of most stamps, or a round one near their centre.

    Whole steps come first if the stamps have no clear centre.
    """
    phases, counts = np.unique(times % step, return_counts=True)
    if 2 * counts.max() > counts.sum():
        return [int(phases[counts.argmax()])]
    centre = np.average(np.exp(2j * np.pi * phases / step), weights=counts)
    unit = _round_unit(step)
    near = round(float(np.angle(centre)) / (2 * np.pi) * step / unit) * unit % step
    return [near] if abs(centre) >= _CENTRED else [0, near]


def _centring(times: np.ndarray, series: np.ndarray | None, step: int) -> float:
    """Return the mean resultant length of the phases of a series, 0 to 1, weighted by rows."""
    angles = times % step * (2 * np.pi / step)
    series = np.zeros(times.shape, np.int64) if series is None else series
    sums = np.bincount(series, np.cos(angles)) + 1j * np.bincount(series, np.sin(angles))
    return float(np.abs(sums).sum() / times.size)


def _usual_rows(layout: Layout, step: int) -> np.ndarray:
    """Leave out times of the day with few rows, as stamps around opening have: ``bool [rows]``."""
    if step < MINUTE:  # too short for opening hours
        return np.ones(layout.times.shape, bool)
    clock = layout.times % DAY // step
    counts = np.bincount(clock)
    usual = counts[clock] > _FEW * counts.max()
    if layout.series is not None:
        odd = np.bincount(layout.series, ~usual) > 2 * _FEW * np.bincount(layout.series)
        usual |= bool(odd.any())
    return usual


def _duration(length: int) -> str:
    """Write a duration to three digits: ``14.5 minutes``."""
    units = {"hour": HOUR, "minute": MINUTE, "second": SECOND}
    name, unit = next((item for item in units.items() if length >= item[1]), ("second", SECOND))
    number = f"{length / unit:.3g}"
    return f"{number} {name}" + ("" if number == "1" else "s")


def _round_unit(step: int, divides: bool = True) -> int:
    """Return the largest round duration of at most a twelfth of a step, which divides it."""
    units = [unit for unit in _ROUND if 12 * unit <= step and not (divides and step % unit)]
    return max(units, default=1)
