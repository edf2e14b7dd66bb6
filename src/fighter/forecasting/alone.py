"""Forecasts of each series by itself: smoothing and the pretrained network, without training."""

import numpy as np
import torch
from torch import Tensor

from .._typing import Bool, Int
from ..data import Panel
from ..models import Pretrained
from ..models.autoregression import MEMORY
from ..models.local import Prior, Smoothed, count_experts, learn_prior, smooth, smooth_means
from ..models.pretrained import PretrainedNet
from ..models.widths import FACTORS
from ..models.zero_shot import MOST_LINKED, count_tokens, zero_shot
from ..training.parallel import one_thread
from .autoconfig import Plan

PRIOR_CELLS = 30_000  # values of some series that tell which experts are good on a table
ENOUGH_SERIES, EXPERTS = 100, 24  # from so many series on, only the best experts are run
# Nodes of the pretrained network, at most, in the forecasts that choose its share.
TOKENS = {"cpu": 2**14, "cuda": 2**21}
FEWEST_ORIGINS = 4  # that choose it in any case


def forecast_alone(
    plan: Plan,
    panel: Panel,
    rows: Tensor,
    prior: Prior,
    device: torch.device,
    *,
    smooths: bool,
    pretrained: bool,
    wanted: np.ndarray | None = None,
    wait: bool = True,
    mean_prior: Prior | None = None,
    tuned: PretrainedNet | None = None,
) -> Smoothed:
    """Forecast each series of a panel by itself after its first ``rows`` rows.

    ``smooths`` and ``pretrained`` say who forecasts. ``wanted`` says which series are forecast,
    bool ``[N]`` (default: all); nothing is known of the others. ``wait`` is that of
    :func:`~fighter.training.parallel.one_thread`. With ``mean_prior``, means are forecast, too.
    ``tuned`` is the pretrained network with other weights than those of the package.
    """
    first, until = max(int(rows.min()) - MEMORY, 0), int(rows.max())
    linked = is_linked(plan, panel.n_series)
    if linked:
        wanted = None
    some = np.flatnonzero(np.ones(panel.n_series, bool) if wanted is None else wanted)
    values = torch.from_numpy(np.asarray(panel.values[first:until, some]))
    observed = torch.from_numpy(np.asarray(panel.observed[first:until, some]))
    rows = rows.cpu() - first
    if smooths:
        # No operation is large enough to be shared among threads; of many series, each takes some.
        workers = torch.get_num_threads()
        with one_thread(wait=wait):
            done = smooth(values, observed, plan.seasons, plan.horizon, rows, prior, workers)
            if mean_prior is not None:
                mean = smooth_means(
                    values, observed, plan.seasons, plan.horizon, rows, mean_prior, workers
                )
                done = done._replace(mean=mean)
    else:
        done = without_smoothing(observed, plan.horizon, rows)
    if pretrained:
        guess = zero_shot(
            values, observed, plan.seasons, plan.horizon, rows, plan.quantiles, device,
            linked=linked, mean=plan.point == "mean", tuned=tuned,
        )  # fmt: skip
        done = done._replace(zero_shot=guess)
    if wanted is not None:

        def spread(part: Tensor, rest: float = 0.0, axis: int = -1) -> Tensor:
            shape = list(part.shape)
            shape[axis] = panel.n_series
            whole = part.new_full(shape, rest)
            whole.index_copy_(axis, torch.from_numpy(some), part)
            return whole

        guess = None if done.zero_shot is None else spread(done.zero_shot, axis=2)
        point, error, known, tested = (spread(each) for each in done[:4])
        factors = spread(done.factors, 1.0)
        mean = None if done.mean is None else spread(done.mean)
        done = Smoothed(point, error, known, tested, done.rows, factors, guess, mean)
    return done._replace(rows=done.rows + first)


def without_smoothing(
    observed: Bool[Tensor, "time series"], horizon: int, rows: Int[Tensor, "origins"]
) -> Smoothed:
    """Return what is known of series where smoothing forecasts nothing."""
    count = observed.cumsum(0)[rows - 1]
    point = torch.zeros(len(rows), horizon, observed.shape[1], dtype=torch.float64)
    error = torch.ones(count.shape, dtype=torch.float64)
    factors = point.new_ones(FACTORS, *point.shape)
    return Smoothed(point, error, count > 0, count, rows, factors)


def affordable_origins(panel: Panel, horizon: int, device: torch.device, samples: int = 1) -> int:
    """Return after how many rows of each sample the pretrained network can forecast in time."""
    tokens = panel.n_series * count_tokens(panel.length, horizon)
    return max(TOKENS[device.type] // samples // tokens, FEWEST_ORIGINS)


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
