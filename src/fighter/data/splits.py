"""Training, validation and test rows."""

from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import FighterError


@dataclass(frozen=True)
class Split:
    """Three ranges of rows that hold the targets; a look-back may reach into the rows before."""

    train: slice
    val: slice
    test: slice


def by_fraction(length: int, fractions: Sequence[float] = (0.7, 0.1, 0.2)) -> Split:
    """Split rows as the benchmarks do: train and test rounded down, validation the rest."""
    if len(fractions) != 3 or min(fractions) < 0 or abs(sum(fractions) - 1) > 1e-6:
        needed = "three shares (train, validation, test) that sum to 1"
        raise FighterError(f"needs {needed}", argument="fractions", value=tuple(fractions))
    # Round first: 0.7 * 10 is slightly less than 7 in floating point.
    train, test = (int(round(length * fractions[i], 6)) for i in (0, 2))
    return Split(slice(0, train), slice(train, length - test), slice(length - test, length))


def by_count(length: int, train: int, val: int, test: int) -> Split:
    """Take the first ``train`` rows, then ``val``, then ``test``; leave out the rows after them."""
    if train + val + test > length or min(train, val, test) < 0:
        rows = f"{train} + {val} + {test} = {train + val + test} rows"
        raise FighterError(f"a split of {rows} does not fit into {length} rows")
    return Split(slice(0, train), slice(train, train + val), slice(train + val, train + val + test))


def ett(length: int, steps_per_hour: int = 1) -> Split:
    """Split as the ETT benchmarks do: 12, 4 and 4 months of 30 days."""
    month = 30 * 24 * steps_per_hour
    return by_count(length, 12 * month, 4 * month, 4 * month)
