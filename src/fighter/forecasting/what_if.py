"""What if: forecasts after changes to past values and covariates, beside those without."""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import Any

import numpy as np

from ..data import Panel
from ..data.columns import listing
from ..data.layout import LARGEST_VALUE
from ..errors import FighterError
from .change import REACTIONS, ForecastChange, drop_zeros, name_uniquely
from .fitted import Fitted, group_by_end
from .reaction import Split, Version, split_versions

RELATIVE = re.compile(r"([+-])\s*(\d+(?:\.\d+)?)\s*(%?)\s*")
ADVICE = 'pass a number for a new value, "+10%" or "-3" to change what is there, a list, or None'


def what_if(fitted: Fitted, panel: Panel, changes: Any, future: Any = None) -> ForecastChange:
    """Forecast a panel with and without changes, and split the difference."""
    wanted = [Change.read(key, value, panel) for key, value in changes.items()]
    forecast = fitted.forecast(panel, future)
    parts: list[tuple[np.ndarray, Split]] = []
    used = np.zeros(len(wanted), bool)
    for until, known, ending in group_by_end(fitted.config, panel, future):
        versions: list[Version] = [(until.dense(), known)]
        for place, change in enumerate(wanted):
            versions.append(change.apply(*versions[-1]))
            before, after = versions[-2:]
            used[place] |= after[0] is not before[0] or after[1] is not before[1]
        parts.append((ending, split_versions(fitted, versions)))
    for change, found in zip(wanted, used, strict=True):
        if not found:
            reason = f"there is nothing at {change.key!r}: the times are those of the table"
            if panel.future_names:
                reason += ", and for future covariates also those of the horizon"
            raise FighterError(reason, argument="changes", value=change.key)
    taken = ("before", "after", "difference", panel.axis.name, *panel.id_cols, *REACTIONS)
    names = name_uniquely([change.name for change in wanted], taken)
    return join_splits(forecast, names, parts, panel)


def check_changes(changes: Any) -> None:
    """Refuse changes that are not a mapping, before a table is read."""
    if not isinstance(changes, Mapping) or not changes:
        reason = 'needs a mapping from what to change to new values, such as {"price": "+10%"}'
        advice = "; the table comes first, None for that of training"
        raise FighterError(reason + advice * (changes is None), argument="changes", value=changes)


def join_splits(
    forecast: Any, names: list[str], parts: list[tuple[np.ndarray, Split]], history: Panel
) -> ForecastChange:
    """Join the splits of series that end at different times."""

    def joined(pick: Callable[[Split], np.ndarray]) -> np.ndarray:
        whole = np.zeros_like(forecast.point)
        for ending, split in parts:
            whole[:, ending] = pick(split)[:, ending]
        return whole

    none = np.zeros_like(forecast.point)
    before, after = joined(lambda s: s.before), joined(lambda s: s.after)
    kinds = {name: None for _, split in parts for name in split.reactions}
    reactions = {name: joined(_reaction(name, none)) for name in kinds}
    scale = np.maximum(np.abs(before), np.abs(after))
    plain = replace(forecast, quantiles=none[..., None][..., :0], quantile_levels=())
    plain = replace(plain, interval_levels=())
    return ForecastChange(
        before=replace(plain, point=before),
        after=replace(plain, point=after),
        effects={name: joined(lambda s, i=i: s.effects[i]) for i, name in enumerate(names)},
        reactions=drop_zeros(reactions, scale),
        history=history,
    )


def _reaction(name: str, none: np.ndarray) -> Callable[[Split], np.ndarray]:
    return lambda split: split.reactions.get(name, none)


@dataclass(frozen=True, eq=False)
class Change:
    """New values of some series or of a covariate, at one time or all of them."""

    key: Any
    value: Any
    series: tuple[int, ...]
    covariate: str | None  # None: the values of the series
    time: int | None  # None: all times that a change of this kind can mean
    name: str  # of the change, in tables and sentences

    @classmethod
    def read(cls, key: Any, value: Any, panel: Panel) -> "Change":
        """Read one item of ``changes``; refuse what the table does not have."""
        covariates = (*panel.future_names, *panel.past_names, *_static_numbers(panel))
        everything = tuple(range(panel.n_series))
        name = key if isinstance(key, tuple) and key not in panel.ids else (key,)
        rest = () if key in panel.ids else key if isinstance(key, tuple) else (key,)
        series, covariate, time = None, None, None
        if key in panel.ids:
            series = panel.ids.index(key)
        elif rest and rest[0] in panel.ids:
            series, rest = panel.ids.index(rest[0]), rest[1:]
        if rest and isinstance(rest[0], str) and rest[0] in covariates:
            covariate, rest = rest[0], rest[1:]
        if rest and (series is not None or covariate is not None):
            time, rest = _read_time(rest[0], panel), rest[1:]
        if rest or (series is None and covariate is None):
            have = f"series {listing(panel.ids, 3)}"
            have += f" and covariates {listing(covariates)}" if covariates else ""
            raise FighterError(
                f"needs a series, a covariate, (series, time), (series, covariate) or "
                f"(series, covariate, time); there are {have}",
                argument="changes",
                value=key,
            )
        if time is None and covariate is None and _is_number(value):
            reason = (
                f'would set all past values of {key!r} to {value}: pass "+10%" or "-3" to change '
                f"the series as a whole, or ({key!r}, time) to set one value"
            )
            raise FighterError(reason, argument="changes", value=value)
        if time is not None and covariate in _static_numbers(panel):
            reason = f"{covariate!r} is static and has no times: leave the time out"
            raise FighterError(reason, argument="changes", value=key)
        if series is not None:
            name = (panel.ids[series], *name[1:])  # an id of several columns as it is shown
            everything = (series,)
        return cls(key, value, everything, covariate, time, " ".join(map(str, name)))

    def apply(self, panel: Panel, known: np.ndarray) -> Version:
        """Return the changed table and horizon; the same objects if this is not in them."""
        rows = self._rows(panel.times)
        if self.covariate is None:
            return self._apply_to_values(panel, rows), known
        if self.covariate in _static_numbers(panel):
            column = panel.static_names.index(self.covariate)
            static = panel.static.copy()
            for i in self.series:
                static[i, column] = self._changed(static[i : i + 1, column])[0]
            return replace(panel, static=static), known
        if self.covariate in panel.past_names:
            column, past = panel.past_names.index(self.covariate), panel.past.copy()
            if len(rows):
                for i in self.series:
                    past[rows, i, column] = self._changed(past[rows, i, column])
            return (replace(panel, past=past) if len(rows) else panel), known
        column = panel.future_names.index(self.covariate)
        ahead = panel.freq.future(int(panel.times[-1]), len(known))
        places = self._rows(ahead)
        if len(places):
            known = known.copy()
            for i in self.series:
                known[places, i, column] = self._changed(known[places, i, column])
        if self.time is not None and len(rows):
            future = panel.future.copy()
            for i in self.series:
                future[rows, i, column] = self._changed(future[rows, i, column])
            panel = replace(panel, future=future)
        return panel, known

    def _apply_to_values(self, panel: Panel, rows: np.ndarray) -> Panel:
        (series,) = self.series
        rows = rows[(rows < panel.ends[series])]
        seen = panel.observed[rows, series]
        if self.time is None:
            rows = rows[seen]
        if not len(rows):
            return panel
        values, observed = panel.values.copy(), panel.observed.copy()
        if self.time is None and _is_sequence(self.value):
            rows = rows[-len(self.value) :]
        old = np.where(observed[rows, series], values[rows, series], np.nan)
        new = self._changed(old)
        observed[rows, series] = ~np.isnan(new)
        values[rows, series] = np.nan_to_num(new)
        return replace(panel, values=values, observed=observed)

    def _rows(self, times: np.ndarray) -> np.ndarray:
        return np.arange(len(times)) if self.time is None else np.flatnonzero(times == self.time)

    def _changed(self, old: np.ndarray) -> np.ndarray:
        """Return the new values of some old ones."""
        new = self._new_values(old)
        if self.covariate is not None and np.isnan(new[~np.isnan(old)]).any():
            reason = f"{self.covariate!r} is a covariate, which cannot be missing: pass a number"
            raise FighterError(reason, argument="changes", value=self.value)
        if (np.abs(new) > LARGEST_VALUE).any():
            reason = f"makes a value of {self.key!r} larger than {LARGEST_VALUE:g}"
            raise FighterError(reason, argument="changes", value=self.value)
        return new

    def _new_values(self, old: np.ndarray) -> np.ndarray:
        value = self.value
        if isinstance(value, str):
            match = RELATIVE.fullmatch(value.strip())
            if match:
                size = float(match[1] + match[2])
                return old * (1 + size / 100) if match[3] else old + size
        elif value is None:
            return np.full_like(old, np.nan)
        elif _is_number(value):
            return np.full_like(old, float(value))
        elif _is_sequence(value):
            return self._listed(old.shape)
        reason = f"cannot be a value of {self.key!r}: {ADVICE}"
        raise FighterError(reason, argument="changes", value=value)

    def _listed(self, shape: tuple[int, ...]) -> np.ndarray:
        """Return the values of a list; None is not observed."""
        with suppress(TypeError, ValueError):  # of entries that are no numbers
            new = np.asarray(self.value, np.float64)
            if new.shape == shape:
                return new
        shown = listing(self.value, 3)
        reason = f"needs {shape[0]} number{'s' * (shape[0] > 1)} for {self.key!r}"
        raise FighterError(reason, argument="changes", value=f"[{shown}]")


def _static_numbers(panel: Panel) -> tuple[str, ...]:
    """Return the static covariates that are numbers."""
    return tuple(name for name, kinds in panel.static_categories.items() if not kinds)


def _read_time(time: Any, panel: Panel) -> int:
    """Return a time stamp of a key on the axis of the table."""
    if panel.axis.kind == "integer":
        if isinstance(time, int | np.integer) and not isinstance(time, bool):
            return int(time)
    else:
        wanted = time
        with suppress(ValueError):  # of another text, which is refused below
            time = datetime.fromisoformat(time) if isinstance(time, str) else time
        if isinstance(time, datetime) and time.tzinfo is not None:
            time = (time if panel.axis.wall else time.astimezone(UTC)).replace(tzinfo=None)
        elif panel.axis.zone is not None and not panel.axis.wall:
            reason = f"the table has the time zone {panel.axis.zone}: pass a time with its zone"
            remedy = "such as a stamp of the table, or '2024-06-30 07:00+00:00'"
            raise FighterError(f"{reason}, {remedy}", argument="changes", value=wanted)
        if isinstance(time, str | date | np.datetime64):
            try:
                return int(np.array([time], "M8[ns]").astype(np.int64)[0])
            except ValueError:
                pass
    shown = panel.freq.show(int(panel.times[-1]))
    reason = f"needs a time such as {shown!r}, the last one, or the name of a covariate"
    raise FighterError(reason, argument="changes", value=time)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def _is_sequence(value: Any) -> bool:
    """Return whether a value is a list, or an array or column of one dimension or more."""
    return isinstance(value, list | tuple) or (hasattr(value, "__array__") and np.ndim(value) > 0)
