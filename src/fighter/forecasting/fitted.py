"""A fitted model, which never changes: it reads later tables and forecasts."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..data import Batch, Panel, Scaler, Windows, future_values, to_panel
from ..data.bounds import clamp_finished, to_table_units
from ..data.buckets import read_folder
from ..data.censored import with_expected
from ..data.columns import column_names, listing, quote_ids
from ..data.groups import pack
from ..data.weights import with_weights, without_weights
from ..errors import FighterError, check_count, warn_user
from ..models import ForecastNet, Pretrained
from ..models.autoregression import MEMORY
from ..models.local import Smoothed
from ..models.pretrained import PretrainedNet
from ..training import forecast
from ..training.calibration import adjust
from .alone import Untrained
from .autoconfig import Plan, check_rows
from .blend import Blend, mixed_forecasts, with_mean
from .config import MAY_CHANGE, Config
from .covariates import Applied
from .forecast import Forecast
from .history import complete, join, positions, warn_if_unseen
from .preprocessing import (
    Preprocessing,
    borrow,
    groups_of,
)

SERIES_AT_ONCE = 4096  # that are forecast together, if there are many


@dataclass(frozen=True, eq=False)
class Fitted:
    """A trained model and all that forecasts need; nothing in it changes after ``fit``.

    The network stays in eval mode, so that several threads may forecast at the same time.

    Args:
        config: the settings it was fitted with.
        plan: what was decided from the data.
        preprocessing: scales and layout of the training table.
        network: the trained network.
        conformal_shifts: corrections of the quantiles ``[N, Q]``; None without validation rows.
        blend: how the network is mixed with smoothing; None if it is not.
        tuned: the pretrained network, if it has other weights than those of the package.
        context: the end of the training table, at least one look-back of each series.
        device: where the network is.
        history: one record per epoch.
    """

    config: Config
    plan: Plan
    preprocessing: Preprocessing
    network: ForecastNet
    conformal_shifts: Tensor | None
    context: Panel
    device: torch.device
    history: list[dict[str, Any]]
    blend: Blend | None = None
    tuned: PretrainedNet | None = None

    def __post_init__(self) -> None:
        self.network.eval()

    def to_device(self) -> None:
        """Move the networks to the device of the model, from wherever they were built."""
        self.network.to(self.device)
        if self.tuned is not None:
            self.tuned.to(self.device)

    # ---- tables to panels -----------------------------------------------------------------

    def read(self, df: Any, static: Any = None, weights: Any = None) -> Panel:
        """Read a later table as the training table was read, and join it to the end of that.

        A panel is returned as it is; None is the end of the training table itself.
        """
        if df is None:
            return self.context
        panel = self._read(df, static, weights)
        self.preprocessing.check_series(panel.ids, self.alternative)
        if isinstance(df, Panel):
            return panel
        if not {*panel.ids} & {*self.preprocessing.ids}:
            new, known = quote_ids(panel.ids[0], self.preprocessing.ids[0])
            warn_user(
                f"no series of this table, such as {new}, is one of training, such as {known}: all "
                "are forecast as new series; if they are not new, write their ids as in training."
            )
        memory = max(self.plan.lookback, MEMORY if self.blend else 0)
        return with_expected(join(panel, self.context, self.plan.lookback, memory))

    def read_again(self, config: Config, df: Any, static: Any = None, weights: Any = None) -> Panel:
        """Read a table to continue training on: all of the series, in their order.

        ``config`` may differ in how tables are read and networks are trained, not in what the
        network is.
        """
        config.check_same(self.config, MAY_CHANGE, "fit without a warm start, or set it back")
        panel = self._read(df, static, weights, config)
        trained = self.preprocessing
        trained.check_series(panel.ids, "a fit without a warm start")
        if lacking := set(trained.ids) - set(panel.ids):
            reason = f"a warm start needs all {len(trained.ids)} series that were trained on"
            raise FighterError(f"{reason}, and {min(lacking, key=str)!r} is missing")
        panel = panel if panel.ids == trained.ids else panel.select(trained.ids)
        panel = panel if isinstance(df, Panel) else with_expected(panel)
        return panel if panel.weights is not None else replace(panel, weights=self.context.weights)

    def _read(
        self, df: Any, static: Any, weights: Any = None, config: Config | None = None
    ) -> Panel:
        trained = self.context
        covariates = without_weights(static, weights, trained.id_cols)
        if covariates is not None and not trained.static.shape[1]:
            raise FighterError(
                "the model was fitted without static covariates: leave them out", argument="static"
            )
        if isinstance(df, Integral) and not isinstance(df, bool):
            check_horizon(self.plan, df=df)
        panel = read_panel(config or self.config, df, static, weights, self.preprocessing)
        return borrow(panel, trained)

    def served(self, panel: Panel) -> Panel:
        """Return a panel as the network takes it: its series in the order of training.

        A network whose weights belong to series takes all of them; absent ones come from the
        context.
        """
        if self.alternative:
            return complete(panel, self.context)
        ids = self.preprocessing.in_order(panel.ids)
        return panel if panel.ids == ids else panel.select(ids)

    def warn_if_unseen(self, panel: Panel, wanted: np.ndarray | None = None) -> None:
        """Warn if the look-backs of the ``wanted`` series (default: all) hold next to nothing."""
        asked = {name for i, name in enumerate(panel.ids) if wanted is None or wanted[i]}
        present = set(panel.ids)
        warn_if_unseen(self.served(panel), self.plan.lookback, asked, present)

    @property
    def apart(self) -> bool:
        """Whether the model has many series and forecasts each of them by itself."""
        return self.plan.series_at_once > 0 and self.network.core.series_apart

    @property
    def alternative(self) -> str:
        """Settings under which the model would serve other series; empty if it does."""
        core = self.network.core
        return " and ".join(
            [core.alternative] * core.series_specific
            + ["a frame without a cycle"] * (self.network.cycle is not None)
        )

    def weights_of(self, panel: Panel) -> np.ndarray | None:
        """Return how much each series counts in the score of a table: as given, or as in training.

        None if all count the same.
        """
        if panel.weights is not None or self.context.weights is None:
            return panel.weights
        known = dict(zip(self.context.ids, self.context.weights, strict=True))
        remedy = "the fit gave none; give each series one in evaluate(weights=…), 0 to leave it out"
        return with_weights(panel, known, remedy=remedy).weights

    # ---- forecasts ------------------------------------------------------------------------

    def forecast(self, panel: Panel | None = None, future: Any = None) -> Forecast:
        """Forecast the steps after the end of each series; ``future`` holds future covariates."""
        panel = self.context if panel is None else panel
        self.warn_if_unseen(panel)
        steps, series = self.plan.horizon, panel.n_series
        times = np.zeros((steps, series), np.int64)
        y = np.zeros((steps, series, 1 + len(self.plan.quantiles)))
        for until, known, ending in group_by_end(self.config, panel, future):
            times[:, ending] = panel.freq.future(int(until.times[-1]), steps)[:, None]
            y[:, ending] = self._outputs_of(until, known, ending)
        return self._to_forecast(panel, times, y)

    def forecast_known(self, panel: Panel, known: np.ndarray) -> Forecast:
        """Forecast the steps after the last row; ``known`` holds their covariates ``[H, N, F]``."""
        times = panel.freq.future(int(panel.times[-1]), self.plan.horizon)
        times = np.repeat(times[:, None], panel.n_series, 1)
        every = np.ones(panel.n_series, bool)
        return self._to_forecast(panel, times, self._outputs_of(panel, known, every))

    def finish(self, y: Tensor, batch: Batch, ids: tuple, scaler: Scaler) -> np.ndarray:
        """Calibrate and sort the quantiles, clamp, and convert to the units of the table.

        ``y`` is ``[batch, H, N, outputs]``, as the network gives it.
        """
        if self.plan.quantiles:
            mean = self.plan.point == "mean"
            y = adjust(y, self.shifts_of(ids), self.plan.quantiles, mean=mean)
        finished = to_table_units(clamp_finished(y, batch), batch, scaler)
        blend = self.blend_of(ids)
        return blend.counts.rounded(finished) if blend and blend.counts else finished

    def outputs(
        self,
        windows: Windows,
        panel: Panel,
        scaler: Scaler,
        start_step: int,
        first_row: int = 0,
        wanted: np.ndarray | None = None,
    ) -> Iterator[tuple[Batch, Tensor]]:
        """Yield batches of windows with their forecasts, scaled: network and smoothing mixed.

        ``panel`` holds the rows that smoothing looks back at; its row ``first_row`` is row 0 of the
        windows. ``wanted`` says which series are of interest, bool ``[N]`` (default: all).
        """
        smoothed = None
        if (blend := self.blend_of(panel.ids)) is not None:
            rows = windows.starts.cpu() + windows.lookback
            first = start_step - first_row
            made = self.forecast_alone(blend, panel, scaler, first, rows + first_row, wanted)
            smoothed = made._replace(rows=rows)
        yield from mixed_forecasts(self.network, windows, start_step, scaler, blend, smoothed)

    def blend_of(self, ids: tuple) -> Blend | None:
        """Return how network and smoothing are mixed for these series; None if they are not."""
        if self.blend is None:
            return None
        return self.blend.select(self.preprocessing.places(ids))

    def untrained(self, blend: Blend) -> Untrained:
        """Return the forecasts that a blend mixes with the network."""
        return Untrained(
            self.plan, self.device, blend.prior, blend.mean_prior, self.tuned,
            smooths=blend.smooths, pretrained=bool(blend.zero_shot.any()),
            vector=bool(blend.vector.any()),
        )  # fmt: skip

    def forecast_alone(
        self,
        blend: Blend,
        panel: Panel,
        scaler: Scaler,
        first: int,
        rows: Tensor,
        wanted: np.ndarray | None = None,
    ) -> Smoothed:
        """Forecast without the network after some rows of a panel, whose first is step ``first``.

        The effects of covariates are in it. ``wanted`` is that of :meth:`outputs`.
        """
        applied = self.applied(blend, panel, scaler, first)
        here = panel if applied is None else applied.panel
        made = self.untrained(blend).forecast(here, rows, wanted=wanted, wait=False)
        return made if applied is None else applied.restore(made)

    @staticmethod
    def applied(blend: Blend, panel: Panel, scaler: Scaler, first: int) -> Applied | None:
        """Apply the effects of covariates to a panel, whose first row is step ``first``."""
        if blend.effects is None:
            return None
        return Applied(blend.effects, panel, scaler.scale, first)

    def scored_windows(self, panel: Panel, last: int | None = None) -> tuple[Windows, Scaler, int]:
        """Return the windows whose targets lie in the last rows, their scale and start step.

        Their series are those of :meth:`served`; rows before ``begins`` are only looked back at.
        """
        plan, preprocessing = self.plan, self.preprocessing
        rows = slice(first_scored_row(panel, plan, last), None)
        check_rows(panel, plan.lookback, plan.horizon)
        panel = self.served(panel)
        scaler = preprocessing.scaler_of(panel)
        windows = preprocessing.windows(panel, plan, self.device, scaler, rows)
        return windows, scaler, preprocessing.start_step(panel)

    def window_after(self, panel: Panel, known: np.ndarray) -> tuple[Panel, Scaler, Windows]:
        """Return the window after a panel, see :meth:`Preprocessing.window_after`."""
        whole = self.served_with(panel, known)
        ahead = whole.future[whole.length :]
        return self.preprocessing.window_after(whole, self.plan, ahead, self.device)

    def served_with(self, panel: Panel, known: np.ndarray) -> Panel:
        """Return :meth:`served` with the future covariates ``known`` after the last row."""
        whole = self.served(panel)
        ahead = np.full((len(known), whole.n_series, known.shape[2]), np.nan)
        ahead[:, positions(panel.ids, whole.ids)] = known
        return replace(whole, future=np.concatenate([whole.future[: whole.length], ahead]))

    def _outputs_of(self, panel: Panel, known: np.ndarray, wanted: np.ndarray) -> np.ndarray:
        """Return the outputs of the wanted series, ``[H, wanted, 1 + quantiles]``.

        If series do not see each other, only those are forecast, some at a time.
        """
        codes = groups_of(self.plan.model, panel)
        if not self.apart and (codes is None or not self.plan.series_at_once):
            return self._outputs_after(panel.dense(), known, wanted)[:, wanted]
        if codes is None:
            places = np.flatnonzero(wanted)
            parts = np.split(places, range(SERIES_AT_ONCE, len(places), SERIES_AT_ONCE))
        else:  # a group is forecast as a whole
            places = np.flatnonzero(np.isin(codes, codes[wanted]))
            parts = [places[part] for part in pack(codes[places], SERIES_AT_ONCE)]
        outputs = np.zeros((len(known), panel.n_series, 1 + len(self.plan.quantiles)))
        for some in parts:
            own = None if codes is None else wanted[some]
            outputs[:, some] = self._outputs_after(panel.take(some).dense(), known[:, some], own)
        return outputs[:, wanted]

    def _outputs_after(
        self, panel: Panel, known: np.ndarray, wanted: np.ndarray | None = None
    ) -> np.ndarray:
        """Return the outputs for the steps after a panel, ``[H, N, 1 + quantiles]``.

        ``wanted`` says which series are of interest, bool ``[N]`` (default: all).
        """
        whole, scaler, windows = self.window_after(panel, known)
        start_step = self.preprocessing.start_step(whole)
        served = self.served_with(panel, known)
        first_row = served.length - self.plan.lookback
        if wanted is not None:
            places = np.array(positions(panel.ids, served.ids))[wanted]
            wanted = np.isin(np.arange(served.n_series), places)
        ((batch, y),) = self.outputs(windows, served, scaler, start_step, first_row, wanted)
        outputs = self.finish(y, batch, whole.ids, scaler)[0]
        if self.blend is None and not self.plan.model.trainable:
            # Scaling and back would change the last digits.
            seen = whole.observed.any(0)  # a series that is not keeps its mean
            none, one = np.zeros_like(scaler.shift), np.ones_like(scaler.scale)
            plain = replace(scaler, shift=none, scale=one)
            rows = slice(len(whole.times) - self.plan.horizon, None)
            windows = self.preprocessing.windows(whole, self.plan, self.device, plain, rows)
            ((batch, y),) = forecast(self.network, windows, start_step)
            outputs[:, seen, 0] = clamp_finished(y, batch)[0, ..., 0].cpu().numpy()[:, seen]
        return outputs[:, positions(panel.ids, whole.ids)]

    def _to_forecast(self, panel: Panel, times: np.ndarray, y: np.ndarray) -> Forecast:
        return Forecast(
            name=self.plan.model.column,
            ids=panel.ids,
            times=times,
            point=y[..., 0],
            quantiles=y[..., 1:],
            quantile_levels=self.plan.quantiles,
            interval_levels=self.config.interval_levels,
            axis=panel.axis,
            id_cols=panel.id_cols,
            like=panel.like,
        )

    def shifts_of(self, ids: tuple) -> Tensor:
        """Return the conformal shifts of the series; new series get the mean of all."""
        if self.conformal_shifts is None:
            return torch.zeros(len(ids), len(self.plan.quantiles))
        return with_mean(self.conformal_shifts)[self.preprocessing.places(ids)]


def group_by_end(
    config: Config, panel: Panel, future: Any, wanted: np.ndarray | None = None
) -> Iterator[tuple[Panel, np.ndarray, np.ndarray]]:
    """Group the series of a panel by where they end.

    Yields the panel up to that end, the future covariates after it ``[H, N, F]``, and which series
    end there (bool ``[N]``). ``wanted`` says which series are forecast (default: all).
    """
    if future is not None and not panel.future_names:
        raise FighterError("there are no future covariates: leave it out", argument="future")
    for end in np.unique(panel.ends if wanted is None else panel.ends[wanted]):
        until, ending = panel.slice(None, int(end)), panel.ends == end
        needed = ending if wanted is None else ending & wanted
        model = config.model_config
        needed = needed & (model.trainable or isinstance(model, Pretrained))  # others use none
        marks = config.missing_values
        known = future_values(until, future, config.horizon, needed=needed, missing_values=marks)
        yield until, known, ending


def first_scored_row(panel: Panel, plan: Plan, last: int | None) -> int:
    """Return the first row that holds a target of the scored windows; refuse too few rows."""
    first = int(panel.begins.min())
    if last is not None:
        first = max(panel.length - check_count("last", last, plan.horizon), first)
    if panel.length - first < plan.horizon:
        raise FighterError(
            f"the table has {panel.length - first} rows to score: needs at least the horizon, "
            f"{plan.horizon}"
        )
    return max(first, plan.lookback)


def check_horizon(plan: Plan, **asked: Any) -> None:
    """Refuse to forecast another number of steps than the model was fitted for."""
    for argument, steps in asked.items():
        if steps not in (None, plan.horizon):
            reason = f"the model forecasts {plan.horizon} steps, fixed when it was fitted"
            remedy = "fit again with another horizon for more or fewer"
            raise FighterError(f"{reason}; {remedy}", argument=argument, value=steps)


def check_future(config: Config, panel: Panel, future: Any) -> None:
    """Refuse future covariates that lack a value, before any training."""
    for _ in group_by_end(config, panel, future):
        pass


def read_panel(
    config: Config,
    df: Any,
    static: Any = None,
    weights: Any = None,
    trained: Preprocessing | None = None,
    files: Sequence[Path] = (),
) -> Panel:
    """Read a table as the settings say, and warn about what was noticed in it.

    ``trained`` gives the layout of the training table. A panel is returned as it is, with
    ``weights`` if there are any; of a folder, the Parquet files are read, or only ``files``.
    """
    given, id_cols = static, column_names(config.id_col, "id_col")
    static = without_weights(given, weights, id_cols)
    if isinstance(df, Panel):
        if static is not None:
            reason = "a panel holds its static covariates: pass them where the panel is read"
            raise FighterError(reason, argument="static")
        for name, held in (("past", df.past_names), ("future", df.future_names)):
            if (named := tuple(getattr(config, name))) not in ((), held):
                reason = f"the panel has {listing(held) or 'none'}: read it with the same settings"
                raise FighterError(reason, argument=name, value=named)
        freq = df.freq.with_season(config.season)
        return with_weights(df if freq == df.freq else replace(df, freq=freq), weights, given)
    if isinstance(df, str | Path) and Path(df).is_dir():
        df = read_folder(Path(df), trained.scheme.id_cols if trained else id_cols, files)
    panel = to_panel(
        df,
        id_col=config.id_col,
        time_col=config.time_col,
        target_col=config.target_col,
        freq=config.freq,
        season=config.season,
        date_format=config.date_format,
        past=tuple(config.past),
        future=tuple(config.future),
        static=static,
        missing_values=config.missing_values,
        columns=config.columns,
        drop=config.drop,
        holidays=config.holidays,
        censored=config.censored,
        missing_rows=config.missing_rows,
        scheme=None if trained is None else trained.scheme,
    )
    if not config.leading_zeros:
        # A table that begins later does not hold the first sales of the series trained on.
        later = trained is not None and panel.times[0] > trained.origin
        panel = panel.without_leading_zeros({*trained.ids} if trained and later else ())
    if config.missing_rows == "zero" and trained is not None:  # a new series begins with a sale
        panel = panel.without_leading_zeros({*trained.ids})
    if trained is None:  # a later table is first joined to the training table
        panel = with_expected(panel)
    panel.freq.future(int(panel.times[-1]), config.horizon)  # refuse a horizon past the last stamp
    if panel.data_notes:
        warn_user("in the data: " + " ".join(map(str, panel.data_notes)))
    return with_weights(panel, weights, given)
