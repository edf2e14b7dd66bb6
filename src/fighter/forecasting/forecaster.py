"""The forecaster that most people import: a table in, a table out."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from .. import _storage
from ..data import Collection, Panel
from ..errors import FighterError
from ..estimator import Estimator, resolve_device
from ..explain import Network, TemporalGraph
from ..models import Pretrained
from ..training import World
from . import evaluate as scoring
from . import explain as explaining
from . import files as filewise
from .autoconfig import Plan
from .change import ForecastChange
from .compare import compare
from .config import Config
from .fit import fit_panel
from .fitted import Fitted, check_horizon, read_panel
from .forecast import Forecast
from .network import find_network
from .parts import explain_windows, write_parts
from .sharing import read_together
from .storage import pack, unpack
from .what_if import check_changes, what_if

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Forecaster(Config, Estimator):
    """Forecast many series, with intervals, from a table.

    .. code-block:: python

        model = Forecaster(horizon=24, level=[80]).fit(df)   # unique_id, ds, y; or wide
        model.predict()               # unique_id, ds, Fighter, Fighter-lo-80, Fighter-hi-80
        model.plot()                  # history, forecast and intervals
        print(model.explain(unique_id="north", step=6).summary())

    What is left out is chosen from the data; ``model.plan`` shows the choice. Tables may be
    pandas, polars or pyarrow, long (``unique_id, ds, y``) or wide (one column per series).
    ``fighter.models`` lists the models and their settings. Series that were not trained on are
    served by models whose weights belong to no series, if there is no cycle: patchtst,
    itransformer, cyclenet, linear, dlinear, and fighter over patches or with a cosine graph.

    Args:
        horizon: number of steps to forecast.
        lookback: number of past steps the network sees; smoothing sees up to 1,024 (default: two
            seasons or two horizons, 96 to 512, and at most a third of the rows).
        model: the model to train: a name such as "fighter", or a config object of
            fighter.models, such as Fighter(kappa=4) (default: "fighter").
        level: prediction intervals in per cent, such as 80 and 95 (default: none).
        quantiles: quantiles such as 0.1 and 0.9, instead of levels (default: none).
        point: what the point forecast is: "median", with the smallest absolute errors, or "mean",
            with the smallest squared ones, which adds up over series and steps (default: "median").
        frame: what surrounds the network: cycle, calendar, reversion, bounds and smoothing.
        training: how the network is trained: epochs, learning rate and so on.
        freq: step of the time axis, such as "10min" or "D[Mon-Sat]" (default: inferred).
        season: season length or lengths in steps, the preferred one first, for cycle, look-back,
            smoothing and seasonal naive; integer time axes have none of their own (default: from
            the frequency).
        date_format: how dates are written in text, such as "%d/%m/%y" (default: found if certain).
        id_col: column or columns of a long table that name the series (default: "unique_id").
        time_col: column with the time stamps (default: "ds").
        target_col: column of a long table with the values (default: "y").
        past: covariate columns known only up to the present (default: none).
        future: covariate columns known in advance (default: none).
        holidays: country whose public holidays are a covariate, such as "DE" or, for a state,
            "DE-BY"; or a column of such codes in the table or in the static table; needs the
            package holidays (default: none).
        missing_values: numbers that mean "not observed", such as -9999 (default: none).
        leading_zeros: keep the zeros before the first other value of a series, as before the first
            sale of an item; False counts them as not observed (default: True).
        censored: column of 0 and 1; where it is 1, the target is only a lower bound, as are the
            sales of a day on which the shelf was empty (default: none).
        missing_rows: "zero" if a step without a row has the value 0, as in a table of sales that
            lists only those; it counts from the first row of a series to the end of the table
            (default: "unknown").
        columns: columns to read, besides those named above (default: all).
        drop: columns to leave out (default: none).
        validation: last rows, of each series where they end at different times; they choose the
            epoch and the shares of network and smoothing, and calibrate the intervals (default:
            15 %, none if there are too few rows).
        seed: seed of weights, batches and dropout; the same seed gives the same weights on the
            same machine (default: 0).
        device: where to train and predict, "cpu" or "cuda" (default: a GPU if there is one).
        verbose: show the plan and a progress bar, on standard error (default: True).
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self._fitted: Fitted | None = None
        self._rank = 0  # among the processes that trained together

    def nested_settings(self) -> dict[str, Any]:
        """Return model, frame and training as config objects."""
        return super().nested_settings() | {"model": self.model_config}

    def fit(
        self,
        df: Any,
        y: None = None,
        *,
        static: Any = None,
        weights: Any = None,
        warm_start: bool = False,
        folder: str | Path | None = None,
        overwrite: bool = False,
        tensorboard: bool = False,
        distributed: bool = False,
    ) -> Self:
        """Train on a table.

        Args:
            df: the training table; a folder of Parquet files, each of whole series; or a panel
                from :meth:`read`.
            y: None, as scikit-learn passes it; the table holds the targets.
            static: a table with one row per id, for static covariates.
            weights: how much each series counts in the loss and in the scores of the whole table: a
                mapping from id to weight, a table with the id columns and one more, or the name of
                a column of ``static``, which is then no covariate (default: all the same).
            warm_start: continue from the weights of the last fit (default: False).
            folder: where to write ``metrics.jsonl``, a checkpoint after every epoch, from which an
                interrupted run resumes, and at the end the model (default: nothing is written).
            overwrite: start again if ``folder`` has a checkpoint of another run (default: refuse).
            tensorboard: also write TensorBoard's files to ``folder``.
            distributed: train together with the other processes of ``torchrun``; rank 0 saves. Of
                a folder, each process reads its share of the files.
        """
        if y is not None:
            raise FighterError("the table holds the targets: leave it out", argument="y")
        config, start = self.copy(), (self._fitted or self.fitted) if warm_start else None
        world = World.join(self.device) if distributed else World()
        with _storage.training_folder(folder, world, overwrite, tensorboard) as places:
            options = {"device": self.torch_device, "start": start, "world": world, **places}
            if start is None:
                panel = read_together(config, df, static, weights, world)
            else:
                panel = start.read_again(config, df, static, weights)
            fitted = fit_panel(config, panel, **options)
            self._fitted, self._rank = fitted, world.rank
            if folder and world.first:
                _storage.write_folder(Path(folder), *pack(self._fitted))
        return self

    def predict(
        self,
        df: Any = None,
        *,
        future: Any = None,
        static: Any = None,
        h: int | None = None,
        horizon: int | None = None,
    ) -> Any:
        """Forecast the steps after the end of each series.

        Args:
            df: the history to forecast from: later rows, which continue the training table, some
                of its series, or other series (default: the training table).
            future: values of the ``future`` covariates for the steps to forecast; what it lacks is
                taken from the rows after the last target of each series.
            static: static covariates, if ``df`` has series that were not trained on.
            h: number of steps; only the horizon, which is fixed when the model is fitted.
            horizon: the same.

        Returns:
            One row per series and step: the forecast, and its intervals or quantiles.
        """
        fitted, panel = self._ready(df, static)
        check_horizon(fitted.plan, h=h, horizon=horizon)
        return fitted.forecast(panel, future).table()

    def forecast(self, df: Any = None, *, future: Any = None, static: Any = None) -> Forecast:
        """Forecast as :meth:`predict` does; return arrays instead of a table."""
        fitted, panel = self._ready(df, static)
        return fitted.forecast(panel, future)

    def predict_files(
        self,
        files: str | Path | Iterable[str | Path],
        out: str | Path,
        *,
        runner: Any = None,
        workers: int = 1,
        future: str | Path | None = None,
    ) -> Collection:
        """Forecast each file by itself; write ``out/NAME.parquet`` and a summary ``NAME.json``.

        A file that is done is skipped, so a call that was cut off goes on when it is made again.
        If files fail, the others are done before the error is raised.

        Args:
            files: a folder of Parquet files of whole series, or a list of such files.
            out: the folder to write.
            runner: "serial", "processes", "ray", or a function like ``map``; the forecasts are the
                same (default: processes if there are several workers). A script that starts
                processes needs ``if __name__ == "__main__":``.
            workers: number of processes; each forecasts on one thread (default: 1).
            future: a file with the values of the ``future`` covariates for the steps to forecast,
                or a folder with a file for each input, of its name.
        """
        options = {"runner": runner, "workers": workers, "future": future}
        return filewise.predict_files(self, files, out, **options)

    def plot(
        self,
        df: Any = None,
        *,
        truth: Any = None,
        future: Any = None,
        static: Any = None,
        path: str | Path | None = None,
    ) -> "Figure":
        """Draw history, forecast and intervals, one small picture per series.

        ``df``, ``future`` and ``static`` are as in :meth:`predict`; ``truth`` is a table with the
        true values of the forecast steps; ``path`` is a file to write, .png, .svg or .pdf.
        """
        fitted, panel = self._ready(df, static)
        forecast = fitted.forecast(panel, future)
        values = None if truth is None else forecast.values_of(fitted.read(truth, static))
        return forecast.plot(panel, values, path)

    def explain(
        self,
        df: Any = None,
        *,
        unique_id: Any = None,
        step: int = 1,
        quantile: float | None = None,
        future: Any = None,
        static: Any = None,
    ) -> TemporalGraph:
        """Split one forecast exactly over the past values it was made of.

        ``unique_id`` may be left out if there is only one series; ``step`` counts from 1;
        ``quantile`` is one that the model forecasts, such as 0.1 or 0.9, the ends of an 80 %
        interval (default: the point forecast); ``df``, ``future`` and ``static`` are as in
        :meth:`predict`.
        """
        fitted, panel = self._ready(df, static)
        target = explaining.find_series(panel, unique_id), step
        return next(explaining.explain(fitted, panel, [target], future, quantile=quantile))

    def explain_all(
        self,
        df: Any = None,
        *,
        steps: Sequence[int] | None = None,
        windows: int = 1,
        quantile: float | None = None,
        future: Any = None,
        static: Any = None,
    ) -> Iterator[TemporalGraph]:
        """Yield the graphs of all series and steps (from 1) one by one; see :meth:`explain`.

        ``windows`` is how many ends of the table to forecast after, one row apart, the last of
        which is the end itself (default: 1).
        """
        fitted, panel = self._ready(df, static)
        return explain_windows(fitted, panel, steps, windows, future, quantile)

    def save_parts(
        self,
        path: str | Path,
        df: Any = None,
        *,
        steps: Sequence[int] | None = None,
        windows: int = 1,
        quantile: float | None = None,
        top: int | None = None,
        future: Any = None,
        static: Any = None,
    ) -> int:
        """Write the parts of many forecasts to a Parquet file; return the number of its rows.

        Forecasts are those of :meth:`explain_all`. They are written as they are explained, so that
        memory does not grow with their number. Rows of one ``target``, ``cutoff`` and ``step`` add
        up to its ``forecast``: one row for each term, named in ``term``, and one for each past
        value, whose ``term`` is "past value", with ``source``, ``time``, ``lag`` and ``hop``.

        Args:
            path: the file to write, ``.parquet``; needs pyarrow.
            df: the history, as in :meth:`predict`.
            steps: steps of the horizon, from 1 (default: all).
            windows: how many ends of the table to forecast after (default: 1).
            quantile: quantile to explain (default: the point forecast).
            top: past values to keep of each forecast, those with the largest parts; the others
                are one row with the term "other past values" (default: all).
            future: as in :meth:`predict`.
            static: as in :meth:`predict`.
        """
        fitted, panel = self._ready(df, static)
        graphs = explain_windows(fitted, panel, steps, windows, future, quantile)
        return write_parts(graphs, path, top)

    def network(self, df: Any = None, *, windows: int | None = None, static: Any = None) -> Network:
        """Return which series the forecasts of each series are made of, over many windows.

        Args:
            df: the rows to explain (default: the end of the training table, as far as the model
                keeps it). The targets of all windows lie in them.
            windows: number of windows, evenly spread (default: 200, or fewer where there are many
                series, so that it takes about a minute).
            static: as in :meth:`predict`.
        """
        return find_network(*self._ready(df, static), windows)

    def what_if(
        self, df: Any = None, changes: Any = None, *, future: Any = None, static: Any = None
    ) -> ForecastChange:
        """Forecast with changed inputs, and split the difference exactly by its reasons.

        .. code-block:: python

            change = model.what_if(df, {"price": "+10%", ("west", "2024-06-30 07:00"): 120.0})
            change.table()          # before, after, difference, and the parts of the difference
            print(change)           # the same in sentences

        Args:
            df: the history, as in :meth:`predict`; None for the training table.
            changes: what to change, and how. Keys: a covariate known ahead (over the horizon), one
                of the past, or a static number; ``(series, covariate)`` or ``(covariate, time)``;
                ``(series, time)`` for one value; a series as a whole. Values: a number is the new
                value, "+10%" or "-3" changes what is there, a list holds a value for each step of
                the horizon (of a series, for its last rows), None means not observed. Changes apply
                in order.
            future: as in :meth:`predict`.
            static: as in :meth:`predict`.
        """
        check_changes(changes)
        fitted, panel = self._ready(df, static)
        return what_if(fitted, panel, changes, future)

    def compare(
        self,
        yesterday: Any,
        today: Any = None,
        *,
        before: "Forecaster | None" = None,
        future: Any = None,
        future_before: Any = None,
    ) -> ForecastChange:
        """Say why two forecasts of the same times differ, exactly: new data, or changed weights.

        .. code-block:: python

            print(model.compare(df[:-1], df))                      # the same model, one row later
            print(model.compare(df, before=old_model))             # two models, the same table

        A new value counts by how far it is from what was forecast of it ("news"), a revised one by
        its change, both with the model as it was. What attention, norms, gates and shares do then,
        and what being some steps closer does, are further parts. Of another model, every term of
        the sum of an explanation is compared.

        Args:
            yesterday: the table of the earlier forecast.
            today: the table of the later one, which has less new rows than the horizon (default:
                the same table).
            before: the model that made the earlier forecast (default: this one).
            future: future covariates of the later forecast, as in :meth:`predict`.
            future_before: those of the earlier forecast (default: the same); what it lacks comes
                from the rows of ``today``.
        """
        if before is not None and not isinstance(before, Forecaster):
            reason = "needs a Forecaster"
            raise FighterError(reason, argument="before", value=type(before).__name__)
        fitted, then = self._ready(yesterday, None)
        now = then if today is None else self.read(today)
        options = {"before": None if before is None else before.fitted, "future": future}
        earlier = future if future_before is None else future_before
        return compare(fitted, then, now, future_before=earlier, **options)

    def save_page(
        self, path: str | Path, df: Any = None, *, static: Any = None, **options: Any
    ) -> str:
        """Write an offline page that explains the forecasts; say in a sentence what it holds.

        Further options: see :func:`fighter.forecasting.explain.save_page`.
        """
        fitted, panel = self._ready(df, static)
        return explaining.save_page(fitted, panel, path, **options)

    def cross_validation(
        self,
        df: Any,
        *,
        n_windows: int = 1,
        step_size: int | None = None,
        refit: bool = False,
        static: Any = None,
        weights: Any = None,
    ) -> Any:
        """Forecast the last ``n_windows`` windows of a table as if their targets were unknown.

        A new model is fitted on the rows before the first cutoff; this one stays as it is.

        Args:
            df: the table.
            n_windows: number of windows (default: 1).
            step_size: steps from one window to the next (default: the horizon).
            refit: fit again before every window (default: False).
            static: as in :meth:`fit`.
            weights: as in :meth:`fit`.

        Returns:
            One row per series, window and step: ``cutoff``, the forecast and the true value,
            named as ``target_col``.
        """
        config, device = self.copy(), self.torch_device
        panel = read_panel(config, df, static, weights)
        return scoring.cross_validate(config, panel, device, n_windows, step_size, refit)

    def cross_validate_files(
        self,
        files: str | Path | Iterable[str | Path],
        out: str | Path,
        *,
        n_windows: int = 1,
        step_size: int | None = None,
        refit: bool = False,
        runner: Any = None,
        workers: int = 1,
    ) -> Collection:
        """Make the :meth:`cross_validation` of each file by itself, with a model of its own.

        Files, runners and results are as in :meth:`predict_files`.
        """
        windows = {"n_windows": n_windows, "step_size": step_size, "refit": refit}
        options = {"runner": runner, "workers": workers}
        return filewise.cross_validate_files(self, files, out, **windows, **options)

    def evaluate(
        self,
        df: Any,
        *,
        last: int | None = None,
        static: Any = None,
        weights: Any = None,
        metrics: str | Sequence[str] | None = None,
        total: bool = False,
    ) -> Any:
        """Score every window of a table, none left out.

        Args:
            df: a table with history and true values that the model has not seen; a table that
                continues the training table needs no history of its own.
            last: score only windows whose targets lie in this many last rows, the test rows.
            static: as in :meth:`fit`.
            weights: weights of the series in the scores of the whole table, as in :meth:`fit`
                (default: those of the fit).
            metrics: names of metrics (default: "mae", "mse", "scaled_mae", "scaled_mse" and, for
                each level, "coverage"):

                - "mae", "mse": mean absolute and squared error, in the units of the table.
                - "scaled_mae", "scaled_mse": the same, in standard deviations of training rows.
                - "coverage": share of the targets inside each interval, in per cent.
                - "wape": sum of absolute errors divided by the sum of absolute true values.
                - "bias": sum of forecast minus true value, divided by the same; above 0 if
                  forecasts are too high.
                - "rmsse", "mase": root mean squared and mean absolute error, divided by that of
                  naive forecasts of the training table: of the last value for RMSSE, from the
                  first value that is not zero (as in the M5 competition), of the last season for
                  MASE. Empty where these made no error, and for series not trained on.
                - "wql": twice the pinball loss, mean over the quantiles, divided by the sum of
                  absolute true values.
            total: return the scores of the whole table as a dictionary: "wape", "bias" and "wql"
                of all series together, of the others the mean over series, all of them weighted
                (default: False).

        Returns:
            One row per series: windows scored, and the metrics, as fractions but for coverage.
        """
        panel = self.read(df, static, weights)
        found = scoring.evaluate(self.fitted, panel, last, metrics)
        return found.total() if total else scoring.table_of(found, panel)

    def score(self, df: Any, y: None = None) -> float:
        """Return minus the mean ``scaled_mae`` of :meth:`evaluate`, for scikit-learn's searches."""
        return scoring.score(self.fitted, self.read(df))

    def save(self, folder: str | Path) -> None:
        """Write ``config.json`` and ``model.safetensors``, replacing a model saved there."""
        if self._rank == 0:  # of processes that trained together, the others do nothing
            _storage.save_folder(Path(folder), *pack(self.fitted))

    @classmethod
    def load(cls, folder: str | Path, *, device: str | None = "cpu") -> Self:
        """Load a saved model, on the CPU by default."""
        where = resolve_device(device)
        with _storage.loading(Path(folder), cls) as (config, tensors):
            fitted = unpack(config, tensors, where)
            model = cls(**{**vars(fitted.config), "device": device})
        fitted.network.to(where)
        if fitted.tuned is not None:
            fitted.tuned.to(where)
        model._fitted = replace(fitted, config=model.copy())
        return model

    def read(self, df: Any = None, static: Any = None, weights: Any = None) -> Panel:
        """Read a table into a panel, which every other method takes in place of the table.

        A fitted model reads it like the training table; the default is the end of that table.
        """
        if self._fitted is None and df is not None:
            return read_panel(self, df, static, weights)
        return self.fitted.read(df, static, weights)

    def _ready(self, df: Any, static: Any) -> tuple[Fitted, Panel]:
        """Return what forecasts, and the table it forecasts after.

        The pretrained network needs no fit: without one, it only takes scales from the table.
        """
        if self._fitted is None and df is not None and isinstance(self.model_config, Pretrained):
            panel = read_panel(self, df, static)
            return fit_panel(self.copy(), panel, device=self.torch_device, learn=False), panel
        return self.fitted, self.read(df, static)

    @property
    def fitted(self) -> Fitted:
        """The fitted model; raises before ``fit``, and after settings were changed."""
        if self._fitted is None:
            raise FighterError("this forecaster has not been fitted: call fit, or load a model")
        self.check_same(self._fitted.config, ("verbose",), "fit again, or set it back")
        return self._fitted

    @property
    def plan(self) -> Plan:
        """All settings, with the open ones chosen from the data."""
        return self.fitted.plan

    @property
    def history(self) -> list[dict[str, Any]]:
        """One record per epoch (loss, validation score, learning rate); empty after ``load``."""
        return self.fitted.history
