"""Intervals of counts: quantiles of a distribution of counts, beside those of past errors."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from .._typing import Bool, Float, Int
from ..data import Panel
from ..data.censored import without_bounds
from ..models.counts import MOST_MEAN, count_quantiles
from .spread import Points

Quantiles = Float[Tensor, "windows horizon series quantiles"]


@dataclass(frozen=True, eq=False)
class Counts:
    """The distribution of the counts of each series.

    Args:
        share: share of its quantiles beside those of past errors ``[N]``; above 0, quantiles are
            rounded.
        shape: place of its shape in ``SHAPES`` ``[N]``.
        levels: the quantiles.
    """

    share: Float[Tensor, "series"]
    shape: Int[Tensor, "series"]
    levels: tuple[float, ...]

    def select(self, index: Sequence[int]) -> "Counts":
        """Return those of other series; -1, a new one, gets the mean share and the usual shape."""
        share = torch.cat([self.share, self.share.mean(0, keepdim=True)])
        used = self.shape[self.share > 0]
        usual = (used if len(used) else self.shape).mode().values
        return Counts(share[index], torch.cat([self.shape, usual[None]])[index], self.levels)

    def rounded(self, y: np.ndarray) -> np.ndarray:
        """Return finished forecasts with the quantiles of counts as whole numbers.

        Quantiles below 0.5 stay at or below the point forecast, those above stay at or above it.
        """
        point, levels = y[..., :1], np.array(self.levels)
        whole = y[..., 1:].round()
        whole = np.where(levels < 0.5, np.minimum(whole, point), np.maximum(whole, point))
        whole = np.where(levels == 0.5, y[..., 1:], whole)
        whole = np.where(self.share.numpy()[:, None] > 0, whole, y[..., 1:])
        return np.concatenate([point, whole], -1)

    def quantiles(self, mean: Points) -> Quantiles:
        """Return the quantiles of counts with these means."""
        return count_quantiles(mean.clamp(min=0), self.shape, self.levels)


def are_counts(panel: Panel) -> Bool[Tensor, "series"]:
    """Tell which series hold counts: whole numbers from 0 on that differ, not large in the mean.

    Large counts are left out: rounding matters so little that they need no distribution of counts.
    """
    parts = [_are_counts(part.values, without_bounds(part)) for _, part in panel.blocks()]
    return torch.from_numpy(np.concatenate(parts))


def _are_counts(values: np.ndarray, observed: np.ndarray) -> np.ndarray:
    whole = ((values == np.round(values)) & (values >= 0) | ~observed).all(0)
    seen = np.where(observed, values, 0.0)
    mean = seen.sum(0) / np.maximum(observed.sum(0), 1)
    return whole & (mean <= MOST_MEAN) & (seen.max(0, initial=0.0) > 0)
