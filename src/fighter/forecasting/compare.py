"""Why today's forecast differs from yesterday's: new values, reactions, another model."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from ..data import Panel
from ..errors import FighterError
from .change import ForecastChange, drop_zeros
from .explain import explain
from .fitted import Fitted, group_by_end
from .forecast import Forecast
from .history import steps_between
from .reaction import Split, Version, split_versions

MOST_NAMED = 12  # series whose news are listed separately


def compare(
    fitted: Fitted,
    yesterday: Panel,
    today: Panel,
    *,
    before: Fitted | None = None,
    future: Any = None,
    future_before: Any = None,
) -> ForecastChange:
    """Split the difference of two forecasts of the same times.

    What a forecast made yesterday said about the new rows is compared with what they hold: the
    effect of this news is that of the difference, with the model as it was.
    """
    if set(yesterday.ids) - set(today.ids):
        reason = f"lacks series {next(iter(set(yesterday.ids) - set(today.ids)))!r} of yesterday"
        raise FighterError(reason, argument="today")
    today = today if today.ids == yesterday.ids else today.select(yesterday.ids)
    yesterday = _with_known_rows(yesterday, today)
    ends = _ends(fitted, yesterday, today)
    gap = {steps_between(today.freq, old, new) for old, new in ends}
    if len(gap) > 1:
        reason = "has new rows for some series only: compare tables that grow alike"
        raise FighterError(reason, argument="today")
    (new,) = gap
    horizon = fitted.plan.horizon
    if new < 0:
        reason = "ends before the table of yesterday: pass the earlier table first"
        raise FighterError(reason, argument="today")
    if new >= horizon:
        reason = f"has {new} new rows: forecasts of {horizon} steps then share no time"
        raise FighterError(reason, argument="today")
    old = fitted.forecast(yesterday, future_before)
    now = fitted.forecast(today, future)
    names = _names(today)
    groups = [
        (ending, _split(fitted, then, later, new))
        for ending, then, later in _groups(fitted, yesterday, today, future_before, future)
    ]
    return _join(fitted, yesterday, old, now, names, groups, new, before, future_before)


def _with_known_rows(yesterday: Panel, today: Panel) -> Panel:
    """Return yesterday's table with the known covariates of the rows that only today's has.

    They count as known yesterday where neither that table nor ``future_before`` says otherwise.
    """
    if not yesterday.future_names:
        return yesterday
    first = steps_between(today.freq, int(today.times[0]), int(yesterday.times[0]))
    rows = np.arange(len(today.future)) - first
    own = yesterday.future
    known = np.full((max(int(rows[-1]) + 1, len(own)), *own.shape[1:]), np.nan)
    known[rows[rows >= 0]] = today.future[rows >= 0]
    known[: len(own)] = np.where(np.isnan(own), known[: len(own)], own)
    return replace(yesterday, future=known)


def _ends(fitted: Fitted, yesterday: Panel, today: Panel) -> list[tuple[int, int]]:
    return [
        (int(yesterday.times[a - 1]), int(today.times[b - 1]))
        for a, b in zip(yesterday.ends, today.ends, strict=True)
    ]


def _groups(
    fitted: Fitted, yesterday: Panel, today: Panel, future_before: Any, future: Any
) -> Iterator[tuple[np.ndarray, Version, Version]]:
    """Yield the series that end together, with both tables up to there."""
    first = [*group_by_end(fitted.config, yesterday, future_before)]
    second = [*group_by_end(fitted.config, today, future)]
    for (one, known, ending), (other, known_now, _) in zip(first, second, strict=True):
        yield ending, (one.dense(), known), (other.dense(), known_now)


def _split(fitted: Fitted, yesterday: Version, today: Version, new: int) -> Split:
    """Split the difference that new rows make, from what was forecast of them to what they hold."""
    (then, known_then), (now, known_now) = yesterday, today
    rows = np.arange(now.length)
    place = np.array([steps_between(now.freq, int(then.times[0]), int(t)) for t in now.times])
    seen = (place >= 0) & (place < then.length)
    values, observed = now.values.copy(), now.observed.copy()
    values[rows[seen]] = then.values[place[seen]]
    observed[rows[seen]] = then.observed[place[seen]]
    if new:
        expected = fitted.forecast_known(then, known_then).point[:new]
        values[-new:] = np.where(now.observed[-new:], expected, 0.0)
    past, future, known = now.past.copy(), now.future.copy(), known_now.copy()
    if new and past.shape[2]:
        past[-new:] = past[-new - 1]
    if new and future.shape[2]:
        future[now.length - new : now.length] = known_then[:new]
    if known.shape[2]:
        known[: len(known) - new] = known_then[new:]
    base = replace(now, values=values, observed=observed, past=past, future=future)
    versions: list[Version] = [(base, known)]

    def step(panel: Panel, ahead: np.ndarray) -> None:
        versions.append((panel, ahead))

    if known.shape[2] or past.shape[2]:
        step(replace(base, past=now.past, future=now.future), known_now)
    revised, seen_then = values.copy(), observed.copy()
    old_rows = slice(0, now.length - new)
    revised[old_rows], seen_then[old_rows] = now.values[old_rows], now.observed[old_rows]
    panel = replace(versions[-1][0], values=revised, observed=seen_then)
    step(panel, known_now)
    for some in _told_apart(now.n_series):
        revised, seen_then = revised.copy(), seen_then.copy()
        revised[:, some], seen_then[:, some] = now.values[:, some], now.observed[:, some]
        step(replace(panel, values=revised, observed=seen_then), known_now)
    return split_versions(fitted, versions)


def _told_apart(series: int) -> list[list[int]]:
    """Return groups of series: each alone, or if there are many, most of them in one group."""
    few = series if series <= MOST_NAMED else MOST_NAMED - 1
    rest = [[*range(few, series)]] if few < series else []
    return [[i] for i in range(few)] + rest


def _names(today: Panel) -> list[str]:
    """Return the names of the steps between the versions of :func:`_split`."""
    groups = _told_apart(today.n_series)
    news = [
        f"news of {today.ids[some[0]]}" if len(some) == 1 else f"news of {len(some)} other series"
        for some in groups
    ]
    covariates = ["covariates"] * bool(today.future_names or today.past_names)
    return [*covariates, "revised values", *news]


def _join(
    fitted: Fitted,
    yesterday: Panel,
    old: Forecast,
    now: Forecast,
    names: list[str],
    groups: list[tuple[np.ndarray, Split]],
    new: int,
    before: Fitted | None,
    future_before: Any,
) -> ForecastChange:
    """Add what moving on by some steps does, and what another model says."""
    shared = fitted.plan.horizon - new
    shape = (shared, len(old.ids))
    after, expected = np.zeros(shape), np.zeros(shape)
    effects = {name: np.zeros(shape) for name in names}
    reactions = {name: np.zeros(shape) for _, split in groups for name in split.reactions}
    for ending, split in groups:
        after[:, ending] = split.after[:shared, ending]
        expected[:, ending] = split.before[:shared, ending]
        for name, part in zip(names, split.effects, strict=True):
            effects[name][:, ending] = part[:shared, ending]
        for name, part in split.reactions.items():
            reactions[name][:, ending] = part[:shared, ending]
    first = old.point[new:]
    if new:
        reactions["later window"] = expected - first
    else:
        after = after - expected + first  # to the digits of the forecast
    start = first
    if before is not None:
        start, parts = _another_model(fitted, before, yesterday, first, new, future_before)
        effects = {**parts, **effects}
    scale = np.maximum(np.abs(start), np.abs(after))
    plain = replace(
        now, times=now.times[:shared], quantiles=np.zeros((*shape, 0)), quantile_levels=(),
        interval_levels=(),
    )  # fmt: skip
    used = drop_zeros(effects, scale)
    return ForecastChange(
        before=replace(plain, point=start),
        after=replace(plain, point=after),
        effects=used,
        reactions=drop_zeros(reactions, scale),
        history=yesterday,
    )


def _another_model(
    fitted: Fitted, before: Fitted, panel: Panel, ours: np.ndarray, new: int, future: Any
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Return the forecasts of another model, and the difference of each term of the sums."""
    horizon = fitted.plan.horizon
    if before.plan.horizon != horizon:
        reason = f"forecasts {before.plan.horizon} steps, this model {horizon}: need the same"
        raise FighterError(reason, argument="before")
    theirs = before.forecast(panel, future).point[new:]
    targets = [(i, step) for i in range(panel.n_series) for step in range(new + 1, horizon + 1)]
    parts: dict[str, np.ndarray] = {}
    graphs = (explain(one, panel, targets, future, warn=False) for one in (before, fitted))
    for sign, some in zip((-1, 1), graphs, strict=True):
        for graph in some:
            at = graph.step - 1 - new, panel.ids.index(graph.target)
            own = graph.ids.index(graph.target)
            sums = graph.sources.sum((0, 1))
            terms = {**graph.terms, "own past": sums[own], "other series": sums.sum() - sums[own]}
            for name, value in terms.items():
                key = f"other model: {name}"
                parts.setdefault(key, np.zeros_like(ours))[at] += sign * value
    # Explanations are in single precision; what rounding leaves goes to one term.
    rest = ours - theirs - sum(parts.values())
    parts["other model: bias"] = parts.get("other model: bias", np.zeros_like(ours)) + rest
    return theirs, parts
