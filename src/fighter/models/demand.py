"""Forecasts for intermittent demand: TSB, the probability of a sale times the size of one.

At every row, the probability moves towards 1 or 0 by a share of the difference; the size moves
towards the value, only at rows with a sale (Teunter, Syntetos and Babai, 2011). The probability is
thus not a linear map of the values, but with it held constant, the forecast is one: the probability
times a weighted mean of the values that are not zero.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from .._typing import Bool, Float

RATES = ((0.02, 0.02), (0.05, 0.1), (0.15, 0.15), (0.3, 0.1))  # of the probability, of the size


class Intermittent:
    """TSB at several rates over some series; of use only for series with zeros.

    Args:
        x: values.
        seen: where they are observed; other rows change nothing.
        horizon: steps to forecast; every step has the same forecast.
    """

    def __init__(
        self,
        x: Float[Tensor, "time series"],
        seen: Bool[Tensor, "time series"],
        horizon: int,
    ):
        self.horizon, self.kinds = horizon, RATES
        self.x = torch.where(seen, x, 0.0).numpy()
        self.seen, self.sold = seen.numpy(), (seen & (x != 0)).numpy()
        sold, zeros = self.sold.cumsum(0), (self.seen & ~self.sold).cumsum(0)
        self.useful = (sold > 0) & (zeros > 0)  # so far, [T, N]
        count, self.sales = self.seen.cumsum(0), sold
        # The first values count alike: a fixed rate would rest on the first one for long.
        self.slow = tuple(1 / np.maximum(n, 1.0) for n in (count, sold))  # of values, of sales
        self.first = self.end = 0
        nothing = np.zeros((len(RATES), x.shape[1]))
        self.chance, self.size = nothing[None], nothing[None]

    def advance(self, end: int) -> None:
        """Read the rows up to ``end``."""
        p, z = self.chance[-1], self.size[-1]
        rows = range(self.end, end)
        self.chance = np.empty((len(rows), *p.shape))
        self.size = np.empty_like(self.chance)
        for i, t in enumerate(rows):
            a, b = self.rates(t)
            p = np.where(self.seen[t], p + a * (self.sold[t] - p), p)
            z = np.where(self.sold[t], z + b * (self.x[t] - z), z)
            self.chance[i], self.size[i] = p, z
        self.first, self.end = self.end, end

    def rates(self, t: int) -> list[np.ndarray]:
        """Return the shares ``[kinds, N]`` by which probability and size move at a row."""
        pairs = zip(np.array(RATES).T, self.slow, strict=True)
        return [np.maximum(rate[:, None], slow[t]) for rate, slow in pairs]

    def ready(self) -> Bool[Tensor, "rows kinds series"]:
        """Tell where there was a zero and another value, up to each row."""
        useful = torch.from_numpy(self.useful[self.first : self.end])
        return useful[:, None].expand(-1, len(RATES), -1)

    def path(self, h: int) -> Float[Tensor, "rows kinds series"]:
        """Forecast step h after each row of the last block."""
        return torch.from_numpy(self.chance * self.size)

    def paths(self, t: int) -> Float[Tensor, "kinds horizon series"]:
        """Forecast all steps after row t of the last block."""
        i = t - self.first
        one = torch.from_numpy(self.chance[i] * self.size[i])
        return one[:, None].expand(-1, self.horizon, -1)

    def responses(
        self, used: Sequence[int], series: int, t: int
    ) -> Float[Tensor, "kinds horizon time"]:
        """Return the response of some forecasts of a series after row t to each value."""
        rates = np.stack([self.rates(row)[1][:, series] for row in range(t + 1)])  # [T, kinds]
        sold = self.sold[: t + 1, series, None]
        kept = np.where(sold, 1 - rates, 1.0)
        later = np.concatenate([np.cumprod(kept[::-1], 0)[::-1][1:], np.ones_like(kept[:1])])
        weights = np.where(sold, rates, 0.0) * later * self.chance[t - self.first, :, series]
        own = torch.from_numpy(weights.T[list(used)])
        return own[:, None].expand(-1, self.horizon, -1)
