"""What the vector autoregression took from each series, in the windows of a network."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from .._typing import Bool, Float
from ..data import Batch, Panel
from ..explain.links import Links
from ..models.vector import fill_gaps, fit_after
from .fitted import Fitted

LinksFound = tuple[Links, np.ndarray, np.ndarray]
"""Links to one target, true values less forecasts, and where there is a true value."""


class VectorLinks:
    """The forecasts of the vector autoregression after some rows, in deviations of the series.

    Args:
        fitted: the model.
        panel: the rows.
        ends: the windows: each forecast is made after so many rows.
    """

    def __init__(self, fitted: Fitted, panel: Panel, ends: Sequence[int]):
        plan, blend = fitted.plan, fitted.blend_of(panel.ids)
        assert blend is not None
        scaler = fitted.preprocessing.scaler_of(panel)
        first = fitted.preprocessing.start_step(panel)
        applied = fitted.applied(blend, panel, scaler, first)
        table = panel if applied is None else applied.panel
        values, observed = (
            torch.from_numpy(np.ascontiguousarray(each)) for each in (table.values, table.observed)
        )
        x, begin, _ = fill_gaps(values, observed)
        self.x = (x - torch.from_numpy(scaler.shift)) / torch.from_numpy(scaler.scale)
        self.ends, self.lookback = list(ends), plan.lookback
        self.fits = list(fit_after(self.x, begin, plan.seasons, plan.horizon, self.ends))
        self.reach = max([plan.lookback, *(fit.reach for fit in self.fits if fit is not None)])

    def made(self, windows: Sequence[int]) -> Bool[Tensor, "windows"]:
        """Tell in which windows there is a forecast."""
        return torch.tensor([self.fits[window] is not None for window in windows])

    def split(
        self, batch: Batch, windows: Sequence[int], steps: np.ndarray, targets: Sequence[int]
    ) -> Iterator[LinksFound]:
        """Yield the links to each target, the errors, and where these are known.

        Each window of the batch, by its place among all, is forecast at one step from 0. All
        look-backs are as long as the longest one of network and regression.
        """
        count = self.x.shape[1]
        made = self.x.new_zeros(len(windows), count)
        parts = torch.zeros(len(windows), self.reach, count, count)
        z = torch.zeros(len(windows), self.reach, count)
        for place, (window, step) in enumerate(zip(windows, steps.tolist(), strict=True)):
            end = self.ends[window]
            own = self.x[max(end - self.reach, 0) : end]
            own = own - own[-self.lookback :].mean(0)
            z[place, -len(own) :] = own.float()
            if (fit := self.fits[window]) is not None:
                made[place] = fit.forecast(self.x[None, end - fit.reach : end], step + 1)[0, -1]
                slopes = fit.slopes(step + 1) * own[-fit.reach :, :, None]
                parts[place, -fit.reach :] = slopes.float()
        miss, seen = compare_with_truth(made, batch, steps)
        for target in targets:
            yield Links(target, parts[..., target], z), miss[:, target], seen[:, target]


def mix_links(
    network: Iterable[LinksFound],
    linear: Iterable[LinksFound],
    share: Float[Tensor, "windows series"],
) -> Iterator[LinksFound]:
    """Mix the links of the network with those of :class:`VectorLinks`, by the share of these."""
    for (one, first, seen), (other, second, _) in zip(network, linear, strict=True):
        part = share[:, other.target]
        parts = F.pad(one.parts.cpu(), (0, 0, other.parts.shape[1] - one.parts.shape[1], 0))
        parts = torch.lerp(parts, other.parts, part[:, None, None].float())
        miss = first + part.numpy() * (second - first)
        yield Links(other.target, parts, other.z), miss, seen


def compare_with_truth(
    forecast: Float[Tensor, "windows series"], batch: Batch, steps: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return true values less forecasts, 0 where there is no true value, and where there is one.

    Each window is forecast at one step from 0.
    """
    rows, step = torch.arange(len(steps)), torch.from_numpy(steps)
    forecast, target = forecast.double().cpu(), batch.future.double().cpu()[rows, step]
    seen = torch.ones_like(target, dtype=torch.bool)
    if batch.future_observed is not None:
        seen = batch.future_observed.cpu()[rows, step]
    return torch.where(seen, target - forecast, 0.0).numpy(), seen.numpy()
