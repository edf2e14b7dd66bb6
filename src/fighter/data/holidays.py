"""Public holidays as covariates that are known in advance, from the package holidays."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import narwhals as nw
import numpy as np

from ..errors import FighterError, needs_package
from .columns import as_table, check_full, empty_cells, factorise, listing, number_cells, open_frame
from .frequency import DAY
from .layout import Layout, lift_index
from .panel import Panel

MARKS = (0, 1, -1)  # is the day a holiday, is the next one, was the last one?


def holiday_marks(panel: Panel, rows: int) -> np.ndarray:
    """Mark the holidays, their eves and the days after, in the first rows: ``[rows, N, 3]``."""
    clock = panel.axis.clock
    local = panel.axis.zone in (None, "UTC") or panel.axis.wall
    times = panel.times[:rows] if local else np.array([clock(int(t)) for t in panel.times[:rows]])
    days = np.asarray(times // DAY, np.int64)
    codes, series = np.unique(panel.holidays, return_inverse=True)
    marks = np.zeros((rows, len(codes), len(MARKS)))
    if rows:
        years = days[[0, -1]].astype("M8[D]").astype("M8[Y]").astype(int) + 1970
        for place, code in enumerate(codes.tolist()):
            found = holidays_of(code, int(years.min()) - 1, int(years.max()) + 1)
            for mark, ahead in enumerate(MARKS):
                marks[:, place, mark] = np.isin(days + ahead, found)
    return marks[:, series]


@cache
def holidays_of(code: str, first: int, last: int) -> np.ndarray:
    """Return the holidays of a country or state from year ``first`` to ``last``, in days."""
    with needs_package("holidays"):
        from holidays import country_holidays, list_supported_countries
    country, _, state = code.partition("-")
    states = list_supported_countries().get(country)
    if states is None or (state and state not in states):
        known = "a country of the package holidays, such as DE, or a state, such as DE-BY"
        reason = f"needs {known}, or a column of the table or of static that holds such codes"
        raise FighterError(reason, argument="holidays", value=code)
    found = country_holidays(country, subdiv=state or None, years=range(first, last + 1))
    return np.array(sorted(found), "M8[D]").astype(np.int64)


def with_holidays(
    panel: Panel, holidays: str | None, layout: Layout, static: Any, later: bool
) -> Panel:
    """Return the panel with the country of each series.

    Args:
        panel: the panel.
        holidays: a country, or a column of countries in the table or in ``static``; None for no
            holidays.
        layout: the columns of the table.
        static: the static table, or None.
        later: whether the table follows an earlier one; then it need not have the column.
    """
    if holidays is None:
        return panel
    step = panel.freq.fixed_step
    if step is None or step > DAY:
        reason = f"needs steps of a day or less, the table has {panel.freq}; count the holidays of "
        reason += "each step in a column of your own and name it in future="
        raise FighterError(reason, argument="holidays", value=holidays)
    series = np.zeros(len(layout.times), int) if len(layout.ids) == 1 else layout.series
    if series is not None and holidays in layout.frame.columns:
        return replace(panel, holidays=_codes(layout.frame[holidays], layout.ids, series))
    if static is not None:
        frame, _ = open_frame(lift_index(as_table(static, "static"), layout.id_cols, ""), "static")
        if holidays in frame.columns:
            ids, rows = factorise(frame, layout.id_cols)
            codes = dict(zip(ids, _codes(frame[holidays], ids, rows), strict=True))
            return replace(panel, holidays=tuple(codes[name] for name in panel.ids))
    try:
        _check_country(holidays)
    except FighterError:
        if later:
            return panel  # the training table had a column, whose countries still hold
        raise
    return replace(panel, holidays=(holidays,) * panel.n_series)


def _codes(column: nw.Series, ids: Sequence, series: np.ndarray) -> tuple[str, ...]:
    """Return the country of each of the ``ids``; ``series`` is the number of that of each row."""
    remedy = "give each series its country"
    check_full(empty_cells(column), "holidays", column.name, remedy)
    kinds, codes = number_cells(column.to_list(), "holidays", column.name)
    found = np.unique(series * len(kinds) + codes)
    numbers, places = np.divmod(found, len(kinds))
    if (again := np.flatnonzero(np.diff(numbers) == 0)).size:
        first = int(again[0])
        which = listing([kinds[place] for place in places[first : first + 2]])
        reason = f"series {ids[numbers[first]]!r} has more than one country, {which}; keep one"
        raise FighterError(reason, argument="holidays", value=column.name)
    for kind in kinds:
        _check_country(str(kind))
    return tuple(str(kinds[place]) for place in places)


def _check_country(code: str) -> None:
    holidays_of(code, 2024, 2024)
