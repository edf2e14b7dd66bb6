"""What most people import: a table in, a table out."""

import copy
import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .. import storage
from ..data import Batch, Panel, Scaler, Scheme, TimeAxis, forecast_table, future_values, to_panel
from ..data.bounds import clamp_to_bounds, to_table_units
from ..data.forecast_table import first_row
from ..data.frequency import Frequency
from ..data.notes import DataNote
from ..errors import DataWarning, FighterError, did_you_mean
from ..estimator import Estimator
from ..explain import TemporalGraph
from ..models import CORES, ForecastNet, Task, build_core, core_options
from ..models.embedding import lag_correlation
from ..training import Recipe, World, forecast, remove_checkpoint, train
from ..training.calibration import adjust, calibrate
from . import autoconfig as choose
from . import explain as explanation
from .autoconfig import Plan
from .evaluate import cross_validation, evaluate
from .preprocessing import Preparation, borrow_static, with_targets

COLUMNS = {name: core.__name__ for name, core in CORES.items()} | {"itransformer": "iTransformer"}
# Settings of the network. What is not given is the core's own default, but for a few that are
# chosen from the data.
NETWORK = ("width", "dropout", "heads", "layers", "nodes", "kappa", "adjacency", "members")
COUNTS = ("horizon", "lookback", "max_epochs", "batch_size", "patience", "width", "members")
SIZED = ("fighter", "transformer")  # width and dropout are chosen by the size of the data


NEW = {"limits": "bounds", "outside": "cycle_before_norm"}  # names in models of format 1


class Forecaster(Estimator):
    """Forecasts of many series, with intervals, from a table.

    .. code-block:: python

        model = Forecaster(horizon=24, level=[80]).fit(df)   # unique_id, ds, y; or wide
        model.predict()               # unique_id, ds, Fighter, Fighter-lo-80, Fighter-hi-80

    What is left out is chosen from the data; ``model.plan`` shows the choice.

    Args:
        horizon: steps to forecast.
        lookback: steps the model sees; two seasons or two horizons unless given.
        model: ``"fighter"``, or one to compare with. Time steps as nodes: ``"transformer"``,
            ``"seq2seq"`` (the same with a decoder; both Vaswani et al., 2017), ``"informer"``
            (Zhou et al., 2021), ``"autoformer"`` (Wu et al., 2021), ``"reformer"`` (Kitaev et
            al., 2020), ``"gfsa"`` (Choi et al., 2024), ``"gcn"`` (on a fixed graph of lags).
            Series as nodes: ``"itransformer"`` (Liu et al., 2024), ``"normlin"`` (Yue et al.,
            2025). Each series by itself: ``"patchtst"`` (Nie et al., 2023), ``"cyclenet"`` (Lin et
            al., 2024), ``"linear"`` and ``"dlinear"`` (Zeng et al., 2023). Nothing to learn:
            ``"naive"`` (the last season again), ``"repeat"`` (the last value), ``"mean"`` (of the
            look-back). Other series than those trained on are served by the last three, and with
            ``cycle=None`` by itransformer, patchtst, cyclenet, linear, dlinear, and by fighter with
            ``adjacency="cosine"`` or ``nodes="patch"``.
        level: prediction intervals in per cent, such as ``[80, 95]``.
        quantiles: quantiles such as ``[0.1, 0.5, 0.9]``, instead of ``level``.
        nodes: what the graph is over: ``"series"``, ``"patch"`` or ``"time"`` (fighter only);
            series unless given.
        kappa: number of blocks κ, the powers 0 … κ-1 of the graph (fighter and gcn only); 3 unless
            given.
        heads: of attention, where the model has it; the model's own number unless given, mostly 8.
        layers: of the network; the model's own number unless given, 1 for fighter.
        width, dropout: of the network, or of each member; unless given, by the size of the data
            for fighter and transformer, else the model's own.
        adjacency: where the graph comes from (fighter only): ``"static"``, learned once;
            ``"lazy"``, the same with half of every node staying; ``"dynamic"``, drawn from the
            input; ``"cosine"``, the same with normalised queries and keys; or ``"mixed"``. Unless
            given lazy for up to 500 series and cosine for more, or if nodes are not series.
        members: networks side by side, each trained for itself, whose mean is the forecast (fighter
            over series only); unless given 4 for up to 500 series, 1 for more.
        cycle: length of the learned cycle: ``"auto"``, a number of steps, or None for none. The
            naive model learns none; a number is the season that it repeats.
        calendar: whether the model is told the time of the year, and without a cycle that of the
            day and the week.
        reversion: whether a forecast may go back to the series' usual level and deviation, as far
            as the training rows do.
        limits: whether a series that rests at a lowest or highest value, as rain does at zero, is
            forecast within it.
        options: further options of the network.
        freq: step of the time axis, such as ``"h"`` or ``"10min"``; inferred unless given.
        id_col, time_col, target_col: the columns of a long table.
        past, future: covariate columns; those in ``future`` are known in advance.
        missing_values: values that mean "not observed", such as ``[-9999]``.
        discount: how much less later steps weigh in training: 1 / (1 + discount) a season (24 steps
            at least) after the first; 0 for none.
        max_epochs, batch_size, lr, weight_decay, ema, patience, loss: how to train, see
            :class:`fighter.training.Recipe`.
            The batch is 32 windows unless given, fewer with more than 128 series; the learning rate
            0.001, or 0.002 for several members and 30,000 values or more to train on.
        validation: rows at the end that choose the epoch and calibrate intervals; 15 % unless
            given.
        seed: the same seed on the same machine gives the same weights.
        device: ``"cpu"``, ``"cuda"``, …; a GPU if there is one, unless given.
        compile: compile the network on CUDA.
        verbose: show one progress bar.
    """

    def __init__(
        self,
        horizon: int,
        lookback: int | None = None,
        *,
        model: str = "fighter",
        level: Sequence[float] | None = None,
        quantiles: Sequence[float] | None = None,
        nodes: str | None = None,
        kappa: int | None = None,
        heads: int | None = None,
        layers: int | None = None,
        width: int | None = None,
        dropout: float | None = None,
        adjacency: str | None = None,
        members: int | None = None,
        cycle: str | int | None = "auto",
        calendar: bool = True,
        reversion: bool = True,
        bounds: bool = True,
        options: dict[str, Any] | None = None,
        freq: str | int | None = None,
        id_col: str = "unique_id",
        time_col: str = "ds",
        target_col: str = "y",
        past: Sequence[str] = (),
        future: Sequence[str] = (),
        missing_values: Sequence[float] = (),
        max_epochs: int | None = None,
        batch_size: int | None = None,
        lr: float | None = None,
        weight_decay: float = 0.0,
        ema: float = 0.9995,
        patience: int | None = None,
        loss: str = "mae",
        discount: float = 8.0,
        validation: int | None = None,
        seed: int = 0,
        device: str | None = None,
        compile: bool = False,  # noqa: A002
        verbose: bool = True,
    ):
        self.horizon, self.lookback = horizon, lookback
        self.model, self.level, self.quantiles = model, level, quantiles
        self.nodes, self.kappa, self.heads, self.layers = nodes, kappa, heads, layers
        self.width, self.dropout, self.adjacency, self.members = width, dropout, adjacency, members
        self.cycle, self.calendar, self.reversion = cycle, calendar, reversion
        self.bounds, self.options = bounds, options
        self.freq, self.id_col, self.time_col, self.target_col = freq, id_col, time_col, target_col
        self.past, self.future, self.missing_values = past, future, missing_values
        self.max_epochs, self.batch_size, self.lr = max_epochs, batch_size, lr
        self.weight_decay, self.ema, self.patience = weight_decay, ema, patience
        self.loss, self.discount = loss, discount
        self.validation, self.seed, self.device = validation, seed, device
        self.compile, self.verbose = compile, verbose
        self._fixed: dict[str, Any] = {}  # settings that a fitted model cannot change
        self._check()

    # ---- settings -------------------------------------------------------------------------

    def _check(self) -> None:
        if self.model not in CORES:
            hint = did_you_mean(str(self.model), CORES)
            raise FighterError(f"model={self.model!r}: needs one of {', '.join(CORES)}.{hint}")
        for name, value in self._given().items():
            having = [model for model in CORES if name in core_options(model)]
            if self.model not in having:
                raise FighterError(
                    f"{name}={value!r}: model={self.model!r} has no such setting; leave it out, or "
                    f"take a model that has it: {', '.join(having)}"
                )
        for name in ("level", "quantiles", "past", "future", "missing_values"):
            value = getattr(self, name)
            if isinstance(value, str) or not (value is None or hasattr(value, "__len__")):
                raise FighterError(f"{name}={value!r}: needs a list, such as [{value!r}]")
        for name in COUNTS:
            value = getattr(self, name)
            if value is None and name != "horizon":
                continue
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
                raise FighterError(f"{name}={value!r}: needs a whole number of at least 1")
        level, quantiles = _listed(self.level), _listed(self.quantiles)
        if level and quantiles:
            raise FighterError("level= and quantiles= say the same in two ways: give one of them")
        if bad := [q for q in level if not 0 < q < 100]:
            raise FighterError(f"level={self.level}: {bad[0]} is not between 0 and 100 per cent")
        if bad := [q for q in quantiles if not 0 < q < 1]:
            raise FighterError(f"quantiles={self.quantiles}: {bad[0]} is not between 0 and 1")
        if self.cycle not in ("auto", None) and (
            not isinstance(self.cycle, int | np.integer) or self.cycle < 1
        ):
            raise FighterError(f'cycle={self.cycle!r}: needs "auto", a number of steps, or None')
        number = isinstance(self.discount, int | float | np.number)
        if not (number and 0 <= self.discount < math.inf):
            raise FighterError(f"discount={self.discount!r}: needs a number, 0 or more")

    def _given(self) -> dict[str, Any]:
        """The settings of the network that the user has made."""
        return {name: getattr(self, name) for name in NETWORK if getattr(self, name) is not None}

    # ---- fit ------------------------------------------------------------------------------

    def fit(
        self,
        df: Any,
        *,
        static: Any = None,
        warm_start: bool = False,
        folder: str | Path | None = None,
        tensorboard: bool = False,
    ) -> "Forecaster":
        """Train on a table.

        Args:
            df: pandas, polars or pyarrow; long (``unique_id, ds, y``) or wide (a column a series).
            static: a table with one row per id, for static covariates.
            warm_start: go on from the weights of the last fit instead of beginning anew.
            folder: where to keep ``metrics.jsonl``, after every epoch a checkpoint from which a
                run that was cut off goes on, and in its place at the end the model, as ``save``
                does. Nothing is written unless this is given.
            tensorboard: also write TensorBoard's files to ``folder``.
        """
        if warm_start:
            self._fitted()
        if tensorboard and folder is None:
            raise FighterError("tensorboard=True needs folder=, the place to write to")
        place = Path(folder) if folder else None
        before = vars(self).copy()
        try:
            if warm_start:
                panel = self._history(df, static, self._tied() or "warm_start=False")
                self.network = copy.deepcopy(self.network)
            else:
                panel = self._read(df, static)
                _tell(panel.data_notes)
            self._fit(panel, warm_start, folder=place, tensorboard=tensorboard)
        except BaseException:  # what was fitted before is not lost
            vars(self).clear()
            vars(self).update(before)
            raise
        self._like = first_row(df)
        if place is not None:
            self.save(place)
            if World.join(self._device()).first:
                remove_checkpoint(place)
        return self

    def _fit(self, panel: Panel, warm_start: bool = False, **places: Any) -> None:
        if warm_start:
            self.plan = replace(self.plan, validation=self._validation(panel, self.plan.lookback))
        else:
            self._fixed = {name: getattr(self, name) for name in ("model", "level", "quantiles")}
            self.plan = self._make_plan(panel)
        device, rows = self._device(), panel.length - self.plan.validation
        if not warm_start:
            self.preparation = Preparation.fit(panel, rows, bounds=self.bounds)
        choose.check_rows(panel, self.plan.lookback, self.plan.horizon)
        start_step = self.preparation.start_step(panel)
        windows = with_targets(
            self.preparation.windows(panel, self.plan, device, self.preparation.scaler)
        )
        training, held_out = windows.within(slice(0, rows)), windows.within(slice(rows, None))
        if not len(training):
            raise FighterError("no window has an observed target to train on: give more history")
        if not warm_start:
            self.network = self._new_network(panel, rows).to(device)
        self.history = train(
            self.network,
            training,
            held_out if len(held_out) else None,
            self._recipe(),
            start_step=start_step,
            world=World.join(device),
            verbose=self.verbose,
            settings=f"{self.model} {self.plan} warm_start={warm_start}",
            **places,
        )
        self.conformal_shifts = None
        if self.plan.quantiles and len(held_out):
            self.conformal_shifts = calibrate(
                self.network, held_out, self.plan.quantiles, start_step
            )
        # The look-back of each series, also of one that ended long before the others.
        self.context = panel.slice(max(int(panel.ends.min()) - self.plan.lookback, 0), None)

    def _make_plan(self, panel: Panel) -> Plan:
        horizon, season = self.horizon, panel.freq.season
        lookback = self.lookback or choose.choose_lookback(horizon, season, panel.length)
        choose.check_rows(panel, lookback, horizon)
        validation = self._validation(panel, lookback)
        rows = panel.length - validation
        if self._levels() and not validation:
            raise FighterError(
                f"intervals are calibrated on validation rows, and {panel.length} rows leave none "
                f"beside lookback {lookback} + horizon {horizon}: give at least "
                f"{lookback + 2 * horizon} rows, or leave out level= and quantiles="
            )
        batch_size = self.batch_size or choose.choose_batch(panel.n_series)
        steps = -(-(rows - lookback - horizon + 1) // batch_size)
        trainable = CORES[self.model].trainable
        epochs, patience = choose.choose_epochs(steps) if trainable else (1, 1)
        points = int(panel.observed[:rows].sum())
        network = self._network_options(panel.n_series, points)
        lr = choose.choose_rate(points, network.get("members", 1)) if self.lr is None else self.lr
        cycle: Any = self.cycle
        if cycle == "auto":
            cycle = choose.choose_period(panel, rows) if trainable else None
        return Plan(
            lookback=lookback,
            horizon=horizon,
            validation=validation,
            quantiles=self._levels(),
            cycle=cycle,
            calendar=choose.choose_calendar(panel, rows, cycle) if self.calendar else (),
            epochs=self.max_epochs or epochs,
            patience=self.patience or patience,
            network=network,
            batch_size=batch_size,
            lr=lr,
            cycle_before_norm=self.reversion
            and choose.choose_cycle_before_norm(panel, lookback, cycle),
            reversion=self.reversion,
            discount=choose.choose_discount(self.discount, season),
        )

    def _network_options(self, series: int, points: int) -> dict[str, Any]:
        own, given = core_options(self.model), self._given()
        options = {name: own[name] for name in NETWORK if name in own}
        given |= self.options or {}
        if "adjacency" in own:
            if given.get("nodes", "series") != "series" or series > 500:
                options["adjacency"] = "cosine"
            else:
                options["members"] = choose.MEMBERS
        if self.model in SIZED:
            members = (options | given).get("members", 1)
            options["width"], options["dropout"] = choose.choose_size(points, members)
        return options | given

    def _validation(self, panel: Panel, lookback: int) -> int:
        if self.validation is None:
            return choose.choose_validation(self.horizon, panel.length, lookback)
        most = panel.length - lookback - self.horizon
        if self.validation and not self.horizon <= self.validation <= most:
            raise FighterError(
                f"validation={self.validation}: needs 0, or from horizon {self.horizon} to {most} "
                f"of the {panel.length} rows, so that lookback {lookback} + horizon "
                f"{self.horizon} are left to train on"
            )
        return self.validation

    def _levels(self) -> tuple[float, ...]:
        if quantiles := _listed(self.quantiles):
            return tuple(sorted({float(q) for q in quantiles}))
        tails = [(100 - level) / 200 for level in _listed(self.level)]
        return tuple(sorted({round(q, 6) for tail in tails for q in (tail, 1 - tail)}))

    def _recipe(self) -> Recipe:
        return Recipe(
            epochs=self.max_epochs or self.plan.epochs,
            batch_size=self.batch_size or self.plan.batch_size,
            lr=self.plan.lr if self.lr is None else self.lr,
            weight_decay=self.weight_decay,
            ema=self.ema,
            patience=self.patience or self.plan.patience,
            loss=self.loss,  # type: ignore[arg-type]
            discount=self.plan.discount,
            quantiles=self.plan.quantiles,
            compile=self.compile,
            seed=int(self.seed),
        )

    def _new_network(self, panel: Panel, rows: int) -> ForecastNet:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            network = self._network(panel)
        lags = max(self.plan.lookback, self.plan.horizon)
        values = torch.tensor(self.preparation.scaler.transform(panel.values[:rows]))
        network.core.prepare(
            lag_correlation(values, torch.tensor(panel.observed[:rows]), lags).float()
        )
        return network

    def _network(self, panel: Panel) -> ForecastNet:
        plan, season = self.plan, panel.freq.season
        fitting = [s for s in (plan.cycle, *season) if s and s <= plan.lookback]
        task = Task(
            plan.lookback,
            plan.horizon,
            panel.n_series,
            outputs=1 + len(plan.quantiles),
            context=len(plan.calendar),
            period=fitting[0] if fitting else None,
        )
        counts = (panel.past.shape[2], panel.future.shape[2] + panel.static.shape[1])
        core = build_core(self._fixed["model"], task, **plan.network)
        return ForecastNet(
            core,
            period=plan.cycle,
            cycle_before_norm=plan.cycle_before_norm,
            reversion=plan.reversion,
            covariates=counts,
        )

    # ---- predict --------------------------------------------------------------------------

    def predict(self, df: Any = None, *, future: Any = None, static: Any = None) -> Any:
        """Forecast the steps after the end of each series.

        Args:
            df: the history to forecast from, later than the training table or of other series;
                the training table's own end unless given.
            future: values of the ``future`` covariates for the steps to forecast.
            static: static covariates, if ``df`` has series that were not trained on.

        Returns:
            One row per series and step: the forecast, and its intervals or quantiles.
        """
        self._fitted()
        panel = self.context if df is None else self._history(df, static)
        steps, series = self.plan.horizon, panel.n_series
        times = np.zeros((steps, series), np.int64)
        y = np.zeros((steps, series, 1 + len(self.plan.quantiles)))
        for end in np.unique(panel.ends):  # series may end at different times
            here, until = panel.ends == end, panel.slice(None, int(end))
            known = future_values(until, future, steps, id_col=self.id_col, needed=here)
            times[:, here] = panel.freq.future(int(until.times[-1]), steps)[:, None]
            y[:, here] = self._forecast_after(until, known)[:, here]
        return forecast_table(
            self._like if df is None else df,
            panel.ids,
            times,
            self._columns(y),
            axis=panel.axis,
            id_col=self.id_col,
        )

    def _forecast_after(self, panel: Panel, known: np.ndarray) -> np.ndarray:
        """Forecast after the end of a panel, in the table's units: ``[H, N, 1 + quantiles]``."""
        whole, scaler, windows = self.preparation.window_after(
            panel, self.plan, known, self._device()
        )
        ((batch, y),) = forecast(self.network, windows, self.preparation.start_step(whole))
        return self._finish(y, batch, panel.ids, scaler)[0]

    def _finish(self, y: torch.Tensor, batch: Batch, ids: tuple, scaler: Scaler) -> np.ndarray:
        """Calibrated, in order, in the table's units; ``y`` is ``[batch, H, N, outputs]``."""
        if self.plan.quantiles:
            y = clamp_to_bounds(adjust(y, self._conformal_shifts_of(ids)), batch)
        return to_table_units(y, batch, scaler)

    def _conformal_shifts_of(self, ids: tuple) -> torch.Tensor:
        """Corrections of the quantiles; series that were not trained on get the mean of all."""
        if self.conformal_shifts is None:
            return torch.zeros(len(ids), len(self.plan.quantiles))
        place = {name: i for i, name in enumerate(self.preparation.ids)}
        mean = self.conformal_shifts.mean(0)
        return torch.stack([self.conformal_shifts[place[i]] if i in place else mean for i in ids])

    def _columns(self, y: np.ndarray) -> dict[str, np.ndarray]:
        """The named columns of forecasts ``[..., outputs]``."""
        name = self.column
        columns = {name: y[..., 0]}
        place = {q: i + 1 for i, q in enumerate(self.plan.quantiles)}
        for q in sorted(_listed(self._fixed["quantiles"])):
            columns[f"{name}-q{q:g}"] = y[..., place[float(q)]]
        for level in self.levels:
            tail = round((100 - level) / 200, 6)
            columns[f"{name}-lo-{level:g}"] = y[..., place[tail]]
            columns[f"{name}-hi-{level:g}"] = y[..., place[round(1 - tail, 6)]]
        return columns

    @property
    def column(self) -> str:
        """The name of the forecast's column."""
        model: str = self._fixed.get("model", self.model)
        return COLUMNS[model]

    @property
    def levels(self) -> list[float]:
        """The prediction intervals that forecasts come with, in per cent."""
        return sorted(_listed(self._fixed.get("level", self.level)))

    # ---- explain --------------------------------------------------------------------------

    def explain(
        self,
        df: Any = None,
        *,
        unique_id: Any = None,
        step: int = 1,
        future: Any = None,
        static: Any = None,
    ) -> TemporalGraph:
        """Where one forecast comes from, exactly.

        .. code-block:: python

            graph = model.explain(unique_id="north", step=6)
            print(graph.summary())
            graph.edges(top=20)        # past values and their parts of the forecast

        Args:
            df: as in :meth:`predict`.
            unique_id: the series; may be left out if there is only one.
            step: which step of the horizon, from 1.
            future: as in :meth:`predict`.
            static: as in :meth:`predict`.
        """
        self._fitted()
        panel = self.context if df is None else self._history(df, static)
        targets = [(explanation.place(panel, unique_id), step)]
        return next(self._explain(panel, targets, future, self._like if df is None else df))

    def explain_all(
        self,
        df: Any = None,
        *,
        steps: Sequence[int] | None = None,
        future: Any = None,
        static: Any = None,
    ) -> Iterator[TemporalGraph]:
        """The graphs of all series, one after the other, so that memory does not fill.

        Args:
            df: as in :meth:`predict`.
            steps: which steps of the horizon, from 1; all unless given.
            future: as in :meth:`predict`.
            static: as in :meth:`predict`.
        """
        self._fitted()
        panel = self.context if df is None else self._history(df, static)
        chosen = range(1, self.plan.horizon + 1) if steps is None else steps
        targets = [(series, step) for series in range(panel.n_series) for step in chosen]
        return self._explain(panel, targets, future, self._like if df is None else df)

    def _explain(
        self, panel: Panel, targets: Sequence[tuple[int, int]], future: Any, like: Any
    ) -> Iterator[TemporalGraph]:
        """Series may end at different times; those that end together share a window."""
        for end in dict.fromkeys(int(panel.ends[series]) for series, _ in targets):
            until, here = panel.slice(None, end), panel.ends == end
            asked = [target for target in targets if here[target[0]]]
            needed = np.isin(np.arange(panel.n_series), [series for series, _ in asked])
            horizon = self.plan.horizon
            known = future_values(until, future, horizon, id_col=self.id_col, needed=needed)
            yield from explanation.explain(self, until, known, asked, like)

    # ---- evaluate -------------------------------------------------------------------------

    def cross_validation(
        self,
        df: Any,
        *,
        n_windows: int = 1,
        step_size: int | None = None,
        refit: bool = False,
        static: Any = None,
    ) -> Any:
        """Forecast the last ``n_windows`` windows of a table as if their targets were not known.

        Fits on what lies before the first cutoff (before each, with ``refit``) and leaves this
        model as it is. Windows lie ``step_size`` steps apart, one horizon unless given.

        Returns:
            One row per series, window and step: ``cutoff``, the forecast and ``y``.
        """
        panel = self._read(df, static)
        _tell(panel.data_notes)
        model = type(self)(**self.get_params())
        return cross_validation(model, df, panel, n_windows, step_size or self.horizon, refit)

    def evaluate(self, df: Any, *, last: int | None = None, static: Any = None) -> Any:
        """Score the model on every window of a table whose targets it holds, none left out.

        Args:
            df: a table with history and targets, such as the whole data set.
            last: only the windows whose targets lie in the last so many rows, the test rows.
            static: as in ``fit``.

        Returns:
            One row per series: windows scored, ``mae`` and ``mse`` in the table's units,
            ``scaled_mae`` and ``scaled_mse`` in deviations of the training rows, and for each
            level the share of targets inside the interval, in per cent.
        """
        return evaluate(self, df, self._history(df, static), last)

    # ---- keep -----------------------------------------------------------------------------

    def save(self, folder: str | Path) -> None:
        """Write ``config.json`` and ``model.safetensors``; a model saved there is replaced.

        Of processes that trained together the first one writes.
        """
        self._fitted()
        world = World.join(self._device())
        preparation, context = self.preparation, self.context
        config = {
            "estimator": "Forecaster",
            "settings": self.get_params() | self._fixed,
            "plan": asdict(self.plan),
            "ids": list(preparation.ids),
            "scheme": asdict(preparation.scheme),
            "origin": preparation.origin,
            "start": int(context.times[0]),
            "covariates": {
                "past": context.past_names,
                "future": context.future_names,
                "static": context.static_names,
            },
            "table": storage.kind_of(self._like),
        }
        arrays = {"values": context.values, "observed": context.observed, "past": context.past}
        arrays |= {"future": context.future, "static": context.static, "ends": context.ends}
        tensors = {
            **storage.to_tensors("network", self.network.state_dict()),
            **storage.to_tensors(
                "context", {k: np.ascontiguousarray(v) for k, v in arrays.items()}
            ),
            **storage.to_tensors("scaler", preparation.scaler.state()),
            **storage.to_tensors("past_scaler", preparation.past.state()),
            **storage.to_tensors("future_scaler", preparation.future.state()),
        }
        if self.conformal_shifts is not None:
            tensors["conformal_shifts"] = self.conformal_shifts
        if world.first:
            storage.save_folder(Path(folder), config, tensors)
        world.wait()

    @classmethod
    def load(cls, folder: str | Path, *, device: str | None = "cpu") -> "Forecaster":
        """A saved model, on the CPU unless told otherwise."""
        config, tensors = storage.load_folder(Path(folder))
        cls._check_kind(config, folder)
        try:
            return cls._restore(config, tensors, device)
        except (AttributeError, KeyError, RuntimeError, TypeError, ValueError) as error:
            raise storage.damaged(Path(folder), error) from error

    @classmethod
    def _restore(
        cls, config: dict[str, Any], tensors: dict[str, torch.Tensor], device: str | None
    ) -> "Forecaster":
        settings = {NEW.get(k, k): v for k, v in config["settings"].items()}
        # Settings that this model has not: once kept and ignored, or made for the next fit.
        unknown = set(NETWORK) - core_options(settings.get("model", "fighter")).keys()
        model = cls(**{**settings, **dict.fromkeys(unknown)})
        model.device = device
        model._fixed = {name: getattr(model, name) for name in ("model", "level", "quantiles")}
        scheme = Scheme(**{k: _tuples(v) for k, v in config["scheme"].items()})
        ids = tuple(map(storage.read_id, config["ids"]))
        scalers = [
            Scaler.from_state(
                {k: v.numpy() for k, v in storage.strip_prefix(name, tensors).items()}
            )
            for name in ("scaler", "past_scaler", "future_scaler")
        ]
        model.preparation = Preparation(ids, scheme, config["origin"], *scalers)
        model.plan = Plan(**{NEW.get(str(k), k): _tuples(v) for k, v in config["plan"].items()})
        arrays = {k: v.numpy() for k, v in storage.strip_prefix("context", tensors).items()}
        freq = Frequency.parse(scheme.freq)
        covariates = {k: tuple(v) for k, v in config["covariates"].items()}
        model.context = Panel(
            ids,
            freq.range(config["start"], len(arrays["values"])),
            freq=freq,
            axis=TimeAxis(**scheme.axis),
            past_names=covariates["past"],
            future_names=covariates["future"],
            static_names=covariates["static"],
            static_categories=scheme.static_categories,
            **arrays,  # pyright: ignore[reportArgumentType]
        )
        model.network = model._network(model.context).to(model._device())
        model.network.load_state_dict(storage.strip_prefix("network", tensors))
        model.conformal_shifts = tensors.get("offsets", tensors.get("conformal_shifts"))
        model.history, model._like = [], config["table"]
        return model

    # ---- shared ---------------------------------------------------------------------------

    def _read(self, df: Any, static: Any = None, scheme: Scheme | None = None) -> Panel:
        return to_panel(
            df,
            id_col=self.id_col,
            time_col=self.time_col,
            target_col=self.target_col,
            freq=self.freq,
            past=tuple(self.past),
            future=tuple(self.future),
            static=static,
            missing_values=self.missing_values,
            scheme=scheme,
        )

    def _history(self, df: Any, static: Any, series_specific: str | None = None) -> Panel:
        """A later table, read as the training table was."""
        self._fitted()
        if static is not None and not self.context.static.shape[1]:
            raise FighterError("the model was fitted without static covariates: leave out static=")
        panel = self._read(df, static, self.preparation.scheme)
        _tell(panel.data_notes)
        if static is None and self.context.static.shape[1]:
            panel = borrow_static(panel, self.context)
        return self.preparation.align(
            panel, self._tied() if series_specific is None else series_specific
        )

    def _tied(self) -> str:
        """Which settings would serve other series than those trained on; empty if these do."""
        core = self.network.core
        return " and ".join(
            [core.alternative] * core.series_specific
            + ["cycle=None"] * (self.network.cycle is not None)
        )

    def _fitted(self) -> None:
        if not hasattr(self, "network"):
            raise FighterError("this forecaster has not been fitted: call fit(df), or load(folder)")


def _tell(data_notes: Sequence[DataNote]) -> None:
    if data_notes:
        text = "in the data: " + " ".join(map(str, data_notes))
        warnings.warn(text, DataWarning, stacklevel=4)


def _listed(values: Any) -> list[float]:
    return [] if values is None else list(values)


def _tuples(value: Any) -> Any:
    """JSON's lists as the tuples they were."""
    return tuple(value) if isinstance(value, list) else value
