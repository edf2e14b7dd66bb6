"""Forecasts that need no training: smoothing, the pretrained network, a vector autoregression."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from .._typing import Bool, Int
from ..data import Panel
from ..models import Pretrained
from ..models.autoregression import MEMORY
from ..models.local import Prior, Smoothed, count_experts, learn_prior, smooth, smooth_means
from ..models.pretrained import PretrainedNet
from ..models.vector import forecast_vector
from ..models.widths import FACTORS
from ..models.zero_shot import MOST_LINKED, count_tokens, zero_shot
from ..training.parallel import one_thread
from .autoconfig import Plan

PRIOR_CELLS = 30_000  # values of some series that tell which experts are good on a table
ENOUGH_SERIES, EXPERTS = 100, 24  # from so many series on, only the best experts are run
# Nodes of the pretrained network, at most, in the forecasts that choose its share.
TOKENS = {"cpu": 2**14, "cuda": 2**21}
FEWEST_ORIGINS = 4  # that choose it in any case


@dataclass(frozen=True, eq=False)
class Untrained:
    """The forecasts that are mixed with the network and need no training, and what they need.

    They are smoothing, the pretrained network and a vector autoregression; CONTRIBUTING.md says how
    to add a further one.

    Args:
        plan: what was decided from the data.
        device: where the pretrained network runs.
        prior: usual error of each expert of smoothing.
        mean_prior: usual squared error of each expert; with it, means are forecast, too.
        tuned: the pretrained network, if it has other weights than those of the package.
        smooths: whether smoothing is run.
        pretrained: whether the pretrained network is run.
        vector: whether the vector autoregression is run.
    """

    plan: Plan
    device: torch.device
    prior: Prior
    mean_prior: Prior | None = None
    tuned: PretrainedNet | None = None
    smooths: bool = True
    pretrained: bool = True
    vector: bool = False

    @classmethod
    def learn(
        cls,
        plan: Plan,
        panel: Panel,
        device: torch.device,
        tuned: PretrainedNet | None = None,
        *,
        means: bool = False,
    ) -> "Untrained":
        """Learn from a panel what the forecasts of a plan need; ``means`` are forecast if asked."""
        prior = panel_prior(plan, panel) if plan.smoothing else no_prior(plan)
        mean_prior = None
        if plan.smoothing and means:
            mean_prior = panel_prior(plan, panel, squared=True)
        return cls(
            plan, device, prior, mean_prior, tuned, plan.smoothing, plan.pretrained, plan.vector
        )

    def forecast(
        self, panel: Panel, rows: Tensor, *, wanted: np.ndarray | None = None, wait: bool = True
    ) -> Smoothed:
        """Forecast the series of a panel after its first ``rows`` rows.

        ``wanted`` says which series are forecast, bool ``[N]`` (default: all); nothing is known of
        the others. ``wait`` is that of :func:`~fighter.training.parallel.one_thread`.
        """
        first, until = max(int(rows.min()) - MEMORY, 0), int(rows.max())
        linked = is_linked(self.plan, panel.n_series)
        if linked:
            wanted = None
        some = np.flatnonzero(np.ones(panel.n_series, bool) if wanted is None else wanted)
        values = torch.from_numpy(np.asarray(panel.values[first:until, some]))
        observed = torch.from_numpy(np.asarray(panel.observed[first:until, some]))
        rows = rows.cpu() - first
        if self.smooths:
            made = self._smooth(values, observed, rows, wait)
        else:
            made = without_smoothing(observed, self.plan.horizon, rows)
        if self.pretrained:  # a further forecast is made here, too, as a field of its own
            made = made._replace(zero_shot=self._ask(values, observed, rows, linked))
        if self.vector:  # every series counts, also for the forecasts of some
            every = panel.slice(first, until)
            made = made._replace(vector=self._regress(every, rows, wait)[:, :, some, None])
        if wanted is not None:
            made = among_all(made, some, panel.n_series)
        return made._replace(rows=made.rows + first)

    def affordable_origins(self, panel: Panel, samples: int = 1) -> int:
        """Return after how many rows of each sample the pretrained network can be tried."""
        tokens = panel.n_series * count_tokens(panel.length, self.plan.horizon)
        return max(TOKENS[self.device.type] // samples // tokens, FEWEST_ORIGINS)

    def _smooth(self, values: Tensor, observed: Tensor, rows: Tensor, wait: bool) -> Smoothed:
        """Return the forecasts of smoothing."""
        series = values, observed, self.plan.seasons, self.plan.horizon, rows
        # No operation is large enough to be shared among threads; of many series, each takes some.
        workers = torch.get_num_threads()
        with one_thread(wait=wait):
            made = smooth(*series, self.prior, workers)
            if self.mean_prior is None:
                return made
            return made._replace(mean=smooth_means(*series, self.mean_prior, workers))

    def _ask(self, values: Tensor, observed: Tensor, rows: Tensor, linked: bool) -> Tensor:
        """Return the forecasts of the pretrained network and their quantiles."""
        plan = self.plan
        return zero_shot(
            values, observed, plan.seasons, plan.horizon, rows, plan.quantiles, self.device,
            linked=linked, mean=plan.point == "mean", tuned=self.tuned,
        )  # fmt: skip

    def _regress(self, panel: Panel, rows: Tensor, wait: bool) -> Tensor:
        """Return the forecasts of the vector autoregression."""
        values, observed = (
            torch.from_numpy(np.ascontiguousarray(each)) for each in (panel.values, panel.observed)
        )
        with one_thread(wait=wait):
            return forecast_vector(values, observed, self.plan.seasons, self.plan.horizon, rows)


def among_all(made: Smoothed, places: np.ndarray, series: int) -> Smoothed:
    """Return the forecasts of some series, at their places among all; the others are not known."""

    def spread(part: Tensor, rest: float = 0.0, axis: int = -1) -> Tensor:
        shape = list(part.shape)
        shape[axis] = series
        whole = part.new_full(shape, rest)
        whole.index_copy_(axis, torch.from_numpy(places), part)
        return whole

    point, error, known, tested = (spread(each) for each in made[:4])
    factors = spread(made.factors, 1.0)
    mean = None if made.mean is None else spread(made.mean)
    beside = {name: spread(each, axis=2) for name, each in made.beside.items()}
    return Smoothed(point, error, known, tested, made.rows, factors, mean=mean, **beside)


def without_smoothing(
    observed: Bool[Tensor, "time series"], horizon: int, rows: Int[Tensor, "origins"]
) -> Smoothed:
    """Return what is known of series where smoothing forecasts nothing."""
    count = observed.cumsum(0)[rows - 1]
    point = torch.zeros(len(rows), horizon, observed.shape[1], dtype=torch.float64)
    error = torch.ones(count.shape, dtype=torch.float64)
    factors = point.new_ones(FACTORS, *point.shape)
    return Smoothed(point, error, count > 0, count, rows, factors)


def is_linked(plan: Plan, series: int) -> bool:
    """Tell whether the series of the pretrained network see each other.

    They do where it is the model and the series are not many. In a mixture it forecasts each by
    itself, as smoothing does, so that some series can be forecast without the others.
    """
    few = not plan.series_at_once and series <= MOST_LINKED
    return isinstance(plan.model, Pretrained) and few


def no_prior(plan: Plan) -> Prior:
    """Return a prior for smoothing that is not used."""
    return torch.ones(count_experts(plan.seasons, plan.horizon))


def panel_prior(plan: Plan, panel: Panel, *, squared: bool = False) -> Prior:
    """Learn the usual error of each expert from the last rows of (some of) the series.

    ``squared`` stands for squared errors, for forecasts of the mean; few experts make these.
    """
    rows = min(panel.length, MEMORY)
    some = np.unique(np.linspace(0, panel.n_series - 1, -(-PRIOR_CELLS // rows)).astype(int))
    values, observed = (
        torch.from_numpy(np.asarray(each[-rows:, some])) for each in (panel.values, panel.observed)
    )
    most = EXPERTS if squared or panel.n_series >= ENOUGH_SERIES else None
    with one_thread():
        found = learn_prior(values, observed, plan.seasons, plan.horizon, most, squared=squared)
    return found.float()
