"""The type that tables and tensors share: many series on one regular time grid."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..errors import FighterError
from .columns import listing
from .frequency import Frequency
from .notes import DataNote
from .ragged import DENSE, Ragged, pack_series
from .time_axis import TimeAxis


@dataclass(frozen=True)
class Scheme:
    """How a table was read, so that a later one is read the same way. JSON can hold it."""

    freq: str
    axis: dict[str, Any]
    past_names: tuple[str, ...] = ()
    future_names: tuple[str, ...] = ()
    static_categories: Mapping[str, tuple] = field(default_factory=dict)
    id_cols: tuple[str, ...] = ("unique_id",)
    target_col: str = "y"
    series_cols: tuple[str, ...] = ()  # of a wide table
    season: tuple[int, ...] = ()  # given season lengths
    phase: int | None = None  # of the grid, in nanoseconds after a whole step
    snapped: bool = False  # whether stamps were moved to the grid
    numbered: tuple[str, ...] = ()  # static columns whose categories are numbered


@dataclass(frozen=True, eq=False)
class Panel:
    """N series over T steps of a regular time grid, with their covariates.

    A value that was not observed is 0.0 in ``values`` and False in ``observed``. ``data_notes``
    say what was found in the table, such as gaps.
    """

    ids: tuple  # N, in order of first appearance; tuples if there are several id columns
    times: np.ndarray  # int64 [T]: nanoseconds since 1970-01-01, or integers
    values: np.ndarray  # float64 [T, N]; a Ragged if the grid is large and mostly empty
    observed: np.ndarray  # bool [T, N]; ragged like the values
    freq: Frequency
    axis: TimeAxis = field(default_factory=TimeAxis)
    past: np.ndarray = field(default=None)  # pyright: ignore[reportAssignmentType]  # float64 [T, N, P]
    # float64 [T', N, F], T' > T if the table has rows after the last target; NaN where it has no
    # row after the end of a series
    future: np.ndarray = field(default=None)  # pyright: ignore[reportAssignmentType]
    static: np.ndarray = field(default=None)  # pyright: ignore[reportAssignmentType]  # float64 [N, C]
    past_names: tuple[str, ...] = ()
    future_names: tuple[str, ...] = ()
    static_names: tuple[str, ...] = ()
    # the static columns in order: () for a number, else the categories, one-hot or numbered
    static_categories: Mapping[str, tuple] = field(default_factory=dict)
    data_notes: tuple[DataNote, ...] = ()
    # int64 [N]: the step after the last row of each series; T in a wide table
    ends: np.ndarray = field(default=None)  # pyright: ignore[reportAssignmentType]
    # columns of the table: ids and target of a long one, series of a wide one
    id_cols: tuple[str, ...] = ("unique_id",)
    target_col: str = "y"
    series_cols: tuple[str, ...] = ()
    # int64 [N]: the first row of each series that is its own; those before come from an earlier
    # table, to be looked back at
    begins: np.ndarray = field(default=None)  # pyright: ignore[reportAssignmentType]
    snapped: bool = False  # whether stamps were moved to the grid
    holidays: tuple[str, ...] = ()  # N: the country of each series, such as DE; () for none
    weights: np.ndarray | None = None  # float64 [N]: how much each series counts
    # float64 [T, N]: lower bounds of values that are not known exactly, NaN where they are; None if
    # all are. The values are then those that were to be expected, see ``censored.py``.
    at_least: np.ndarray | None = None
    like: Any = "pandas"  # a row of the table, or its library: forecasts come back as its type

    def __post_init__(self) -> None:
        steps, series = self.values.shape
        none, static = np.zeros((steps, series, 0)), np.zeros((series, 0))
        ends = np.full(series, steps)
        begins = np.zeros(series, np.int64)
        defaults = {"past": none, "future": none, "static": static, "ends": ends, "begins": begins}
        for name, default in defaults.items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, default)

    @property
    def length(self) -> int:
        """T, the number of steps."""
        return self.values.shape[0]

    @property
    def n_series(self) -> int:
        """N, the number of series."""
        return self.values.shape[1]

    @property
    def scheme(self) -> Scheme:
        """The scheme with which :func:`~fighter.data.frames.to_panel` reads another table."""
        names, categories = (self.past_names, self.future_names), dict(self.static_categories)
        columns = (self.id_cols, self.target_col, self.series_cols)
        step = self.freq.fixed_step
        phase = None if step is None else int(self.times[0] % step)
        grid = (self.freq.given_season, phase, self.snapped)
        axis, numbered = self.axis.state(), tuple(self.numbered)
        return Scheme(str(self.freq), axis, *names, categories, *columns, *grid, numbered)

    @property
    def numbered(self) -> dict[str, int]:
        """The static columns whose categories are numbered, with the number of categories."""
        kinds = self.static_categories
        return {name: len(kinds[name]) for name in self.static_names if kinds.get(name)}

    def slice(self, start: int | None, stop: int | None) -> "Panel":
        """Take steps ``start`` to ``stop``, as in a Python slice, without copying."""
        rows = slice(start, stop)
        # Future covariates keep their end; only their beginning moves.
        first, last, _ = rows.indices(self.length)
        return replace(
            self, times=self.times[rows], values=self.values[rows], observed=self.observed[rows],
            past=self.past[rows], future=self.future[first:],
            at_least=None if self.at_least is None else self.at_least[rows],
            ends=np.clip(self.ends, first, last) - first,
            begins=np.clip(self.begins, first, last) - first,
        )  # fmt: skip

    def without_leading_zeros(self, keep: Collection = ()) -> "Panel":
        """Count the zeros before the first other value of each series as not observed.

        Series that hold nothing but zeros, and those in ``keep``, stay as they are.
        """
        kept = np.array([name in keep for name in self.ids])
        parts = []
        for some, part in self.blocks():
            sold = part.observed & (part.values != 0)
            early = ~np.logical_or.accumulate(sold, axis=0) & sold.any(0) & ~kept[some]
            parts.append(part.observed & ~early)
        if isinstance(self.observed, Ragged):
            return replace(self, observed=pack_series(parts, self.observed.spans))
        return replace(self, observed=parts[0])

    @property
    def ragged(self) -> bool:
        """Whether the grid is stored without the rows before and after each series."""
        return isinstance(self.values, Ragged)

    def dense(self) -> "Panel":
        """Return the panel with arrays of the whole grid."""
        if not self.ragged:
            return self
        return replace(self, values=np.asarray(self.values), observed=np.asarray(self.observed))

    def blocks(self) -> "Iterator[tuple[slice, Panel]]":
        """Yield the panel, or if its grid is not stored, the grid of some series at a time."""
        if not self.ragged:
            yield slice(0, self.n_series), self
            return
        size = max(DENSE // self.length, 1)
        for begin in range(0, self.n_series, size):
            some = slice(begin, min(begin + size, self.n_series))
            yield some, self.take(np.arange(some.start, some.stop)).dense()

    def select(self, ids: Sequence) -> "Panel":
        """Take the series ``ids``, in that order."""
        place = {name: i for i, name in enumerate(self.ids)}
        if unknown := [name for name in ids if name not in place]:
            what = f"{len(unknown)} of {len(ids)} series are not in the panel"
            reason = f"{what}, the first is {unknown[0]!r}; it has {listing(self.ids, 5)}"
            raise FighterError(reason, argument="ids")
        return self.take(np.array([place[name] for name in ids], np.int64))

    def take(self, columns: np.ndarray) -> "Panel":
        """Take the series at these places, in that order."""
        return replace(
            self, ids=tuple(self.ids[i] for i in columns.tolist()),
            values=self.values[:, columns], observed=self.observed[:, columns],
            past=self.past[:, columns], future=self.future[:, columns], static=self.static[columns],
            ends=self.ends[columns], begins=self.begins[columns],
            holidays=tuple(self.holidays[i] for i in columns) if self.holidays else (),
            weights=None if self.weights is None else self.weights[columns],
            at_least=None if self.at_least is None else self.at_least[:, columns],
        )  # fmt: skip
