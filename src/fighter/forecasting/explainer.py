"""The methods of a forecaster that explain its forecasts, what changes them, and its network."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..data import Panel
from ..errors import FighterError
from ..explain import Network, TemporalGraph
from . import explain as explaining
from .change import ForecastChange
from .compare import compare
from .fitted import Fitted
from .network import find_network
from .parts import explain_windows, write_parts
from .what_if import check_changes, what_if

if TYPE_CHECKING:
    from .forecaster import Forecaster


class Explainer(ABC):
    """What explains forecasts: the half of a :class:`~fighter.Forecaster` that does not make them.

    Whoever inherits from it says what forecasts, and how tables are read for it.
    """

    @abstractmethod
    def read(self, df: Any = None, static: Any = None, weights: Any = None) -> Panel:
        """Read a table into a panel."""

    @abstractmethod
    def _ready(self, df: Any, static: Any) -> tuple[Fitted, Panel]:
        """Return what forecasts, and the table it forecasts after."""

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
        if before is not None and not isinstance(before, Explainer):
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
