"""From panels to tensors: scales fitted on the training rows, and windows in those scales."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from ..data import Panel, Scaler, Scheme, Windows
from ..data.bounds import Wanted, with_bounds
from ..data.columns import listing
from ..data.holidays import MARKS, holiday_marks
from ..errors import FighterError
from .autoconfig import Plan
from .history import extend, steps_between
from .metrics import naive_errors


@dataclass(frozen=True)
class Preprocessing:
    """What is kept of the training table, so that later tables are treated alike."""

    ids: tuple
    scheme: Scheme
    origin: int  # the first time stamp: step 0 of the learned cycle
    scaler: Scaler
    past: Scaler  # of past covariates
    future: Scaler  # of what is known ahead: future covariates, static ones and holidays
    # [2, N]: what errors are compared with, see naive_errors; older models have none
    naive_errors: np.ndarray | None = None

    @classmethod
    def fit(
        cls, panel: Panel, rows: int, bounds: Wanted = False, held: np.ndarray | None = None
    ) -> "Preprocessing":
        """Fit scales and the ``bounds`` asked for on the first ``rows`` rows (training).

        ``held`` is the number of rows that are held out at the end of each series, where series
        end at different rows.
        """
        seen = panel.observed[:rows]
        if held is not None:
            seen = seen & (np.arange(rows)[:, None] < panel.ends - held)
        scaler = _fit_series(panel.values[:rows], seen, bounds)
        late = ~seen.any(0)  # a series that starts later has only its own rows
        if late.any():
            own = _fit_series(panel.values[:, late], panel.observed[:, late], bounds)
            for name, array in own.state().items():
                getattr(scaler, name)[..., late] = array
        return cls(
            panel.ids,
            panel.scheme,
            int(panel.times[0]),
            scaler,
            _fit_columns(panel.past[:rows]),
            _fit_columns(_known_ahead(panel, rows)),
            naive_errors(panel),
        )

    def check_series(self, ids: tuple, alternative: str) -> None:
        """Refuse series that were not trained on, if the network does not serve them.

        ``alternative`` says which settings would serve other series; empty if these do.
        """
        trained = set(self.ids)
        if alternative and (new := [name for name in ids if name not in trained]):
            alike = [name for name in self.ids if str(name) == str(new[0])]
            kinds = f"{type(new[0]).__name__}, there {type(alike[0]).__name__}" if alike else ""
            hint = f" (here it is {kinds})" if alike else ""
            raise FighterError(
                f"the model was trained on {listing(self.ids, 3)}, and {new[0]!r} is not one of "
                f"them{hint}: rename it; other series need {alternative}"
            )

    def take(self, series: np.ndarray) -> "Preprocessing":
        """Keep the series at these places."""
        ids = tuple(self.ids[i] for i in series.tolist())
        naive = None if self.naive_errors is None else self.naive_errors[:, series]
        return replace(self, ids=ids, scaler=self.scaler.select(series), naive_errors=naive)

    def places(self, ids: Sequence) -> list[int]:
        """Return the places of series among those of training; -1 for others."""
        if ids == self.ids:
            return list(range(len(ids)))
        place = {name: i for i, name in enumerate(self.ids)}
        return [place.get(name, -1) for name in ids]

    def in_order(self, ids: tuple) -> tuple:
        """Return the ids in the order of training, new ones last."""
        present, trained = set(ids), set(self.ids)
        new = [name for name in ids if name not in trained]
        return (*(name for name in self.ids if name in present), *new)

    def scaler_of(self, panel: Panel) -> Scaler:
        """Return the scale of each series: as in training, or of a new series from its own past."""
        if panel.ids == self.ids:
            return self.scaler
        place = {name: i for i, name in enumerate(self.ids)}
        given, trained = self.scaler.given_bounds, self.scaler.state()
        wanted = self.scaler.bounds is not None if given is None else (given[0, 0], given[1, 0])
        own = _fit_series(panel.values, panel.observed, wanted).state()
        here = [i for i, name in enumerate(panel.ids) if name in place]
        there = [place[panel.ids[i]] for i in here]
        for name, array in trained.items():
            own[name][..., here] = array[..., there]
        return Scaler(**{name: own[name] for name in trained})  # older models have no floor

    def naive_errors_of(self, ids: tuple) -> np.ndarray:
        """Return the errors of naive forecasts ``[2, N]``, 0 for a series not trained on."""
        known = dict(zip(self.ids, () if (e := self.naive_errors) is None else e.T, strict=False))
        return np.array([known.get(name, (0.0, 0.0)) for name in ids]).T

    def start_step(self, panel: Panel) -> int:
        """Return how many steps after the start of the training table the panel begins."""
        return steps_between(panel.freq, self.origin, int(panel.times[0]))

    def windows(
        self,
        panel: Panel,
        plan: Plan,
        device: torch.device,
        scaler: Scaler,
        rows: slice = slice(None),
    ) -> Windows:
        """Return the windows whose targets lie in ``rows``, scaled by ``scaler``.

        A model without weights gets ``float64``: it repeats values, and they keep all digits.
        """
        exact = torch.float32 if plan.model.trainable else torch.float64

        def tensor(array: np.ndarray, dtype: torch.dtype = exact) -> Tensor:
            return torch.from_numpy(np.ascontiguousarray(array)).to(device, dtype)

        observed = None if panel.observed.all() else tensor(panel.observed, torch.bool)
        values = tensor(scaler.transform(panel.values))
        rest: dict[str, Tensor] = {}
        known = _known_ahead(panel, panel.length)
        for name, scale, columns in (
            ("past", self.past, panel.past),
            ("future", self.future, known),
        ):
            if columns.shape[2]:
                rest[f"{name}_covariates"] = tensor(np.nan_to_num(scale.transform(columns)))
        if plan.calendar:
            rest["calendar"] = tensor(panel.freq.calendar(panel.times)[:, plan.calendar])
        if panel.weights is not None:
            rest["weights"] = tensor(panel.weights / panel.weights.mean())
        for name in Scaler.BOUNDS:
            bounds = getattr(scaler, name)
            if bounds is not None and np.isfinite(bounds).any():
                rest[name] = tensor(scaler.transform(bounds.astype(panel.values.dtype)))
        return Windows.over(
            values if observed is None else values * observed,
            observed, plan.lookback, plan.horizon, rows, 1, **rest,
        )  # fmt: skip

    def window_after(
        self, panel: Panel, plan: Plan, known: np.ndarray, device: torch.device
    ) -> tuple[Panel, Scaler, Windows]:
        """Return the window that follows the panel: its rows as a panel, its scale, the window.

        ``known`` holds the future covariates of the horizon, ``[H, N, F]``.
        """
        recent = panel.slice(max(panel.length - plan.lookback, 0), None)
        whole = extend(recent, plan.lookback, plan.horizon, known)
        scaler, last = self.scaler_of(panel), slice(len(whole.times) - plan.horizon, None)
        return whole, scaler, self.windows(whole, plan, device, scaler, last)


def with_targets(windows: Windows) -> Windows:
    """Keep the windows to learn from: those with an observed past and an observed target."""
    if windows.observed is None and windows.origins is None:
        return windows
    seen = windows.observed
    seen = torch.ones_like(windows.values, dtype=torch.bool) if seen is None else seen
    begin, middle = windows.starts, windows.starts + windows.lookback
    past = seen.any(1).long().cumsum(0)
    past = torch.cat([past.new_zeros(1), past])
    useful = past[middle] > past[begin]
    target = windows.count_targets() > 0
    return replace(windows, starts=begin[useful & target.any(1)])


def held_rows(panel: Panel, validation: int, horizon: int) -> np.ndarray | None:
    """Return how many rows are held out at the end of each series, ``[N]``.

    They are the last rows of the series itself: the same share of its length as the validation
    rows are of the table, at least one horizon, and none if less than two horizons would be left.
    None if all series end with the table.
    """
    if (panel.ends == panel.length).all() or not validation:
        return None
    own = panel.ends - panel.observed.argmax(0)
    wanted = np.round(validation / panel.length * own).astype(np.int64)
    wanted = np.clip(wanted, horizon, max(validation, horizon))
    return np.where(own >= wanted + 2 * horizon, wanted, np.where(own >= 3 * horizon, horizon, 0))


def split_windows(
    windows: Windows, panel: Panel, rows: int, held: np.ndarray | None
) -> tuple[Windows, Windows]:
    """Return the training and the validation windows.

    The targets of the former lie before the rows that are held out, those of the latter in them:
    the last rows of each series, see :func:`held_rows`, or if ``held`` is None the rows from
    ``rows`` on.
    """
    if held is None:
        windows = with_targets(windows)
        return windows.within(slice(0, rows)), windows.within(slice(rows, None))
    first_held, horizon = panel.ends - held, windows.horizon
    spans = (
        (np.zeros_like(held), first_held - horizon),
        (np.where(held > 0, first_held, panel.length), panel.ends - horizon),
    )
    training, validation = (
        with_targets(replace(windows, origins=torch.from_numpy(np.stack(span)).to(windows.device)))
        for span in spans
    )
    return training, validation


def borrow(panel: Panel, trained: Panel) -> Panel:
    """Add the static features and the countries of the training table to a panel that lacks them.

    Its series must be those of training.
    """
    static = bool(trained.static.shape[1]) and not panel.static.shape[1]
    holidays = bool(trained.holidays) and not panel.holidays
    if not static and not holidays:
        return panel
    known = set(trained.ids)
    if unknown := [name for name in panel.ids if name not in known]:
        needed = "pass its static covariates too" if static else "give its country too"
        raise FighterError(
            f"series {unknown[0]!r} was not trained on: {needed}",
            argument="static" if static else "holidays",
        )
    own = trained.select(panel.ids)
    if static:
        panel = replace(panel, static=own.static, static_names=own.static_names)
    return replace(panel, holidays=own.holidays) if holidays else panel


def count_known_ahead(panel: Panel) -> int:
    """Return the number of covariates that are known ahead: future, static ones and holidays."""
    return panel.future.shape[2] + panel.static.shape[1] + len(MARKS) * bool(panel.holidays)


def _known_ahead(panel: Panel, rows: int) -> np.ndarray:
    """Return the covariates that are known ahead, in the first rows: ``[rows, N, F]``."""
    parts = [panel.future[:rows]]
    if panel.static.shape[1]:
        parts.append(np.broadcast_to(panel.static, (rows, *panel.static.shape)))
    if panel.holidays:
        parts.append(holiday_marks(panel, rows))
    return np.concatenate(parts, 2) if len(parts) > 1 else parts[0]


def _fit_series(values: np.ndarray, observed: np.ndarray, bounds: Wanted) -> Scaler:
    """Fit the scale of each series and find its bounds."""
    return with_bounds(Scaler.fit(values, observed), values, observed, bounds)


def _fit_columns(columns: np.ndarray) -> Scaler:
    """Fit one scale per covariate, over all series."""
    steps, series, count = columns.shape
    cells = columns.reshape(steps * series, count)
    return Scaler.fit(cells, ~np.isnan(cells))
