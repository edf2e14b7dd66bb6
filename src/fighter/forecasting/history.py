"""The rows that a forecast looks back at: later rows joined to the end of the training table."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

import numpy as np

from ..data import Panel
from ..data.columns import listing
from ..data.frequency import Frequency, plural
from ..data.ragged import Spans, pack_series, true_rows
from ..data.time_grid import carry_forward
from ..errors import FighterError, warn_user

SERIES_AT_ONCE = 4096  # that are joined together, if their grid is mostly empty
_NEXT_TO_NOTHING = 0.1  # share of the look-back that is observed


def positions(ids: Sequence, among: Sequence) -> list[int]:
    """Return the positions of some ids among others."""
    place = {name: i for i, name in enumerate(among)}
    return [place[name] for name in ids]


def steps_between(freq: Frequency, first: int, then: int) -> int:
    """Return the number of steps from one stamp to another, negative if it lies before."""
    try:
        if then >= first:
            return int(freq.positions(np.array([then]), first)[0])
        return -int(freq.positions(np.array([first]), then)[0])
    except FighterError as error:
        raise FighterError(
            f"the table begins at {freq.show(then)}, which is no whole number of steps ({freq}) "
            f"from {freq.show(first)} in the training table: use time stamps on the same grid",
            argument="freq",
            value=str(freq),
        ) from error


def join(panel: Panel, context: Panel, lookback: int, memory: int) -> Panel:
    """Put the end of the training table before a later table of its series.

    At most ``memory`` rows are taken, and none if the gap is longer than the look-back.

    The later table wins from the first observed value of each series on. Steps that are in neither
    are not observed; covariates carry their last value over them.
    """
    ahead = steps_between(panel.freq, int(context.times[0]), int(panel.times[0]))
    gap = ahead - context.length
    before = min(max(ahead, 0), memory) if gap < lookback else 0
    # A look-back with next to nothing is reported later.
    few = gap >= lookback and panel.length < _NEXT_TO_NOTHING * lookback
    if gap > 0 and panel.length < lookback and {*panel.ids} & {*context.ids} and not few:
        empty = min(gap, lookback - panel.length)
        what = f"{empty:,} of the {lookback:,} steps of the look-back are not observed"
        begins_at = f"the table begins {plural(gap, 'step')} after the end of the training table"
        warn_user(f"{begins_at}; {what}.")
    if not panel.ragged and not context.ragged:
        return _join(panel, context, ahead, before)
    known, parts = set(context.ids), []
    for begin in range(0, panel.n_series, SERIES_AT_ONCE):
        part = panel.take(np.arange(begin, min(begin + SERIES_AT_ONCE, panel.n_series))).dense()
        old = context.select([name for name in part.ids if name in known]).dense()
        parts.append(_join(part, old, ahead, before))
    spans = [true_rows(part.observed) for part in parts]
    first, last = (np.concatenate(each) for each in zip(*spans, strict=True))
    spans = Spans.of(first, last + 1, parts[0].length)
    return replace(
        panel,
        times=parts[0].times,
        values=pack_series([part.values for part in parts], spans),
        observed=pack_series([part.observed for part in parts], spans),
        past=np.concatenate([part.past for part in parts], 1),
        future=np.concatenate([part.future for part in parts], 1),
        ends=np.concatenate([part.ends for part in parts]),
        begins=np.concatenate([part.begins for part in parts]),
    )


def _join(panel: Panel, context: Panel, ahead: int, before: int) -> Panel:
    """Put ``before`` rows of the context, which begins ``ahead`` rows earlier, before a panel."""
    place = {name: i for i, name in enumerate(context.ids)}
    columns = np.array([place.get(name, -1) for name in panel.ids])
    begins = before + panel.observed.argmax(0)
    steps = np.arange(before + panel.length)
    head = (steps[:, None] < begins) & (columns >= 0)
    rows = steps + ahead - before  # of the context
    if not before and not head[(rows >= 0) & (rows < context.length)].any():
        return panel

    def joined(old: np.ndarray, new: np.ndarray, blank: float | bool) -> np.ndarray:
        whole = np.concatenate([np.full((before, *new.shape[1:]), blank, new.dtype), new])
        old = _rows_of(old, rows, blank)[:, columns]
        if new.ndim == 2:
            whole[: len(steps)][head] = old[head]
            return whole
        missing = head[..., None] & np.isnan(whole[: len(steps)])
        whole[: len(steps)][missing] = old[missing]
        carried = carry_forward(whole[: len(steps)].reshape(len(steps), -1))
        whole[: len(steps)][missing] = carried.reshape(old.shape)[missing]
        return whole

    return replace(
        panel,
        times=panel.freq.range(int(panel.times[0]), len(steps), first=-before),
        values=joined(context.values, panel.values, 0.0),
        observed=joined(context.observed, panel.observed, False),
        past=joined(context.past, panel.past, np.nan),
        future=joined(context.future, panel.future, np.nan),
        at_least=_join_bounds(context, panel, joined),
        ends=panel.ends + before,
        begins=begins,
    )


def complete(panel: Panel, context: Panel) -> Panel:
    """Return a panel of all series of the context, in its order.

    Those that the panel lacks come from the context; they are not observed where it has no row.
    """
    if panel.ids == context.ids:
        return panel
    panel, context = panel.dense(), context.dense()
    rows = np.arange(panel.length) + steps_between(
        panel.freq, int(context.times[0]), int(panel.times[0])
    )
    here = positions(panel.ids, context.ids)

    def completed(old: np.ndarray, new: np.ndarray, blank: float | bool) -> np.ndarray:
        whole = _rows_of(old, rows, blank)
        whole[:, here] = new[: panel.length]
        return whole

    begins, ends = np.zeros(context.n_series, np.int64), np.full(context.n_series, panel.length)
    begins[here], ends[here] = panel.begins, panel.ends
    return replace(
        panel,
        ids=context.ids,
        values=completed(context.values, panel.values, 0.0),
        observed=completed(context.observed, panel.observed, False),
        past=completed(context.past, panel.past, np.nan),
        future=completed(context.future, panel.future, np.nan),
        at_least=_join_bounds(context, panel, completed),
        static=context.static,
        begins=begins,
        ends=ends,
        holidays=context.holidays,
        weights=context.weights,
    )


def extend(panel: Panel, lookback: int, horizon: int, future: np.ndarray) -> Panel:
    """Append ``horizon`` empty steps, and prepend enough empty ones for a whole look-back."""
    freq: Frequency = panel.freq
    before = max(lookback - panel.length, 0)

    def padded(array: np.ndarray, blank: float | bool) -> np.ndarray:
        around = [(before, horizon)] + [(0, 0)] * (array.ndim - 1)
        return np.pad(array, around, constant_values=blank)

    known = np.concatenate([np.repeat(panel.future[:1], before, 0), panel.future[: panel.length]])

    return replace(
        panel,
        times=freq.range(int(panel.times[0]), before + panel.length + horizon, first=-before),
        values=padded(panel.values, 0.0),
        observed=padded(panel.observed, False),
        past=padded(panel.past, np.nan),
        at_least=None if panel.at_least is None else padded(panel.at_least, np.nan),
        future=np.concatenate([known, future]),
        ends=panel.ends + before,
        begins=panel.begins + before,
    )


def warn_if_unseen(panel: Panel, lookback: int, asked: Collection, present: Collection) -> None:
    """Warn if look-backs at the ends of series hold next to nothing.

    ``asked`` are the series to forecast; ``present`` those of the table, the others of the panel
    come from the training table.
    """
    panel = panel.slice(max(int(panel.ends.min()) - lookback, 0), None)
    share = np.concatenate([_observed_share(part, lookback) for _, part in panel.blocks()])
    shares = dict(zip(panel.ids, share.tolist(), strict=True))
    notes = []
    if empty := [name for name in shares if name in asked and not shares[name]]:
        notes.append(
            f"no observed value in the look-back ({lookback} steps) of {listing(empty, 3)}: the "
            "forecast rests on the mean of the series."
        )
    if few := [name for name in shares if name in asked and 0 < shares[name] < _NEXT_TO_NOTHING]:
        notes.append(
            f"less than a tenth of the look-back ({lookback} steps) of {listing(few, 3)} is "
            "observed: the forecast rests on few values."
        )
    if others := [name for name in shares if name not in present and not shares[name]]:
        notes.append(
            f"the forecast also depends on {listing(others, 3)}, without an observed value in the "
            f"look-back ({lookback} steps): give these series too."
        )
    if notes:
        warn_user(" ".join(notes))


def _observed_share(panel: Panel, lookback: int) -> np.ndarray:
    """Return the observed share of the last look-back of each series."""
    seen = np.pad(panel.observed.cumsum(0), ((1, 0), (0, 0)))
    series = np.arange(panel.n_series)
    begins = np.maximum(panel.ends - lookback, 0)
    return (seen[panel.ends, series] - seen[begins, series]) / lookback


def _join_bounds(
    context: Panel, panel: Panel, join: Callable[..., np.ndarray]
) -> np.ndarray | None:
    """Join the lower bounds of two panels; None if neither has any."""
    if context.at_least is None and panel.at_least is None:
        return None
    parts = [
        np.full(each.values.shape, np.nan) if each.at_least is None else each.at_least
        for each in (context, panel)
    ]
    return join(parts[0], parts[1], np.nan)


def _rows_of(array: np.ndarray, rows: np.ndarray, blank: float | bool) -> np.ndarray:
    """Return rows of an array, ``blank`` where it has none."""
    inside = (rows >= 0) & (rows < len(array))
    taken = array[np.where(inside, rows, 0)]
    taken[~inside] = blank
    return taken
