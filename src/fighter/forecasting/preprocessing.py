"""From panels to tensors: scales fitted on the training rows, and windows in those scales."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from ..data import Panel, Scaler, Scheme, Windows
from ..data.bounds import Wanted, with_bounds
from ..data.columns import listing
from ..data.groups import group_codes
from ..data.holidays import MARKS, holiday_marks
from ..data.ragged import Ragged, RaggedTensor, true_rows
from ..errors import FighterError
from ..models.base import ModelConfig
from .autoconfig import Plan
from .covariates import HOLIDAYS
from .history import extend, steps_between
from .metrics import naive_errors

UNSEEN = 1e30  # scale of a covariate that never changed


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
        scales, naive = [], []
        for some, part in panel.blocks():
            scales.append(_fit_scale(part, rows, bounds, None if held is None else held[some]))
            naive.append(naive_errors(part))
        return cls(
            panel.ids,
            panel.scheme,
            int(panel.times[0]),
            Scaler.join(scales),
            _fit_columns(panel.past[:rows]),
            _keep_numbers(
                _fit_columns(
                    _known_ahead(panel, 1 if panel.ragged and _static_only(panel) else rows)
                ),
                [*numbered_columns(panel)],
            ),
            np.concatenate(naive, 1),
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
        parts = [_fit_series(p.values, p.observed, wanted) for _, p in panel.blocks()]
        own = Scaler.join(parts).state()
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

        values, observed = scaler.transform(panel.values), None
        if isinstance(values, Ragged):
            observed = RaggedTensor.of(panel.observed, device, torch.bool)
            values = RaggedTensor.of(values * panel.observed, device, exact)
        else:
            observed = None if panel.observed.all() else tensor(panel.observed, torch.bool)
            values = tensor(values)
            values = values if observed is None else values * observed
        rest: dict[str, Tensor] = {}
        known = _known_ahead(panel, 1 if _static_only(panel) else panel.length)
        for name, scale, columns in (
            ("past", self.past, panel.past),
            ("future", self.future, known),
        ):
            if columns.shape[2]:
                scaled = tensor(np.nan_to_num(scale.transform(columns)))
                rest[f"{name}_covariates"] = scaled.expand(panel.length, -1, -1)
        if plan.calendar:
            rest["calendar"] = tensor(panel.freq.calendar(panel.times)[:, plan.calendar])
        if panel.weights is not None:
            rest["weights"] = tensor(panel.weights / panel.weights.mean())
        if (groups := groups_of(plan.model, panel)) is not None:
            rest["groups"] = tensor(groups, torch.int64)
        if panel.at_least is not None and not np.isnan(panel.at_least).all():
            rest["at_least"] = tensor(scaler.transform(panel.at_least))
        for name in Scaler.BOUNDS:
            bounds = getattr(scaler, name)
            if bounds is not None and np.isfinite(bounds).any():
                rest[name] = tensor(scaler.transform(bounds.astype(panel.values.dtype)))
        return Windows.over(values, observed, plan.lookback, plan.horizon, rows, 1, **rest)

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


def groups_of(model: ModelConfig, panel: Panel) -> np.ndarray | None:
    """Return the groups of the series that a model names; None if it names none."""
    name = getattr(model, "groups", None)
    return None if name is None else group_codes(panel, name)


def with_targets(windows: Windows) -> Windows:
    """Keep the windows to learn from: those with an observed past and an observed target."""
    if windows.observed is None and windows.origins is None:
        return windows
    begin, middle = windows.starts, windows.starts + windows.lookback
    past = windows.observed_rows().long().cumsum(0)
    past = torch.cat([past.new_zeros(1), past])
    useful = past[middle] > past[begin]
    return replace(windows, starts=begin[useful & (windows.count_targets() > 0)])


def held_rows(panel: Panel, validation: int, horizon: int) -> np.ndarray | None:
    """Return how many rows are held out at the end of each series, ``[N]``.

    They are the last rows of the series itself: the same share of its length as the validation
    rows are of the table, at least one horizon, and none if less than two horizons would be left.
    None if all series end with the table.
    """
    if (panel.ends == panel.length).all() or not validation:
        return None
    own = panel.ends - true_rows(panel.observed)[0]
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
        names = {"static_names": own.static_names, "static_categories": own.static_categories}
        panel = replace(panel, static=own.static, **names)
    return replace(panel, holidays=own.holidays) if holidays else panel


def numbered_columns(panel: Panel) -> dict[int, int]:
    """Return which covariates known ahead are numbers of categories, and how many there are."""
    first = panel.future.shape[2]
    return {first + panel.static_names.index(n): count for n, count in panel.numbered.items()}


def _keep_numbers(scaler: Scaler, columns: list[int]) -> Scaler:
    """Return the scaler with some columns left as they are."""
    scaler.shift[columns], scaler.scale[columns] = 0.0, 1.0
    return scaler


def count_known_ahead(panel: Panel) -> int:
    """Return the number of covariates that are known ahead: future, static ones and holidays."""
    return panel.future.shape[2] + panel.static.shape[1] + len(MARKS) * bool(panel.holidays)


def _fit_scale(panel: Panel, rows: int, bounds: Wanted, held: np.ndarray | None) -> Scaler:
    """Fit the scale of each series on the rows that are not held out, see :meth:`fit`."""
    seen = panel.observed[:rows]
    if held is not None:
        seen = seen & (np.arange(rows)[:, None] < panel.ends - held)
    scaler = _fit_series(panel.values[:rows], seen, bounds)
    late = ~seen.any(0)  # a series that starts later has only its own rows
    if late.any():
        own = _fit_series(panel.values[:, late], panel.observed[:, late], bounds)
        for name, array in own.state().items():
            getattr(scaler, name)[..., late] = array
    return scaler


def _static_only(panel: Panel) -> bool:
    """Tell whether all that is known ahead stays the same, so that one row says it all."""
    return bool(panel.static.shape[1]) and not panel.future.shape[2] and not panel.holidays


def covariate_names(panel: Panel) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the name of each column that is known ahead, and of each that is known of the past.

    The columns of a category share its name.
    """

    def column(name: str) -> str:
        known = panel.static_categories
        return next((own for own in known if name.startswith(f"{own}=")), name)

    static = [
        name if name in panel.static_categories else column(name) for name in panel.static_names
    ]
    holidays = HOLIDAYS if panel.holidays else ()
    return (*panel.future_names, *static, *holidays), panel.past_names


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
    """Fit one scale per covariate, over all series.

    One that never changed has a scale so large that the network does not see it change later: it
    has not learned what that means.
    """
    steps, series, count = columns.shape
    cells = columns.reshape(steps * series, count)
    seen = ~np.isnan(cells)
    scaler = Scaler.fit(cells, seen)
    low = np.where(seen, cells, np.inf).min(0, initial=np.inf)
    high = np.where(seen, cells, -np.inf).max(0, initial=-np.inf)
    return replace(scaler, scale=np.where(low < high, scaler.scale, UNSEEN))
