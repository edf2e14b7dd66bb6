"""Ridge regression of the values of many series on earlier ones, from sums that move on."""

import torch
from torch import Tensor

from .._typing import Bool, Float, Int

PULL = 5.0  # of the weights towards zero, as strong as so many rows of noise
FEWEST_ROWS = 3  # of a series, to fit on

Values = Float[Tensor, "time series"]
Observed = Bool[Tensor, "time series"]
Rows = Int[Tensor, "series"]


class LaggedSums:
    """Sums of products of lagged values, over a range of rows that moves on.

    Args:
        lags: how many steps ago the values are.
        features: weighted sums of them to regress on, ``[features, lags]``.
        difference: take differences over so many steps first (default: 0, the values themselves).
        series: number of series.
    """

    def __init__(
        self,
        lags: Int[Tensor, "lags"],
        features: Float[Tensor, "features lags"],
        difference: int,
        series: int,
    ):
        self.lags, self.features, self.difference = lags, features, difference
        self.single = torch.equal(features, torch.eye(len(lags)).to(features))
        size = len(features) + 1  # the features, and the value they explain
        self.begin = self.end = 0
        self.count = torch.zeros(series, dtype=torch.float64)
        self.total = torch.zeros(series, size, dtype=torch.float64)
        self.products = torch.zeros(series, size, size, dtype=torch.float64)

    def move(self, x: Values, seen: Observed, first: Rows, begin: int, end: int) -> None:
        """Make the rows from ``begin`` to ``end`` those that are summed over.

        Series begin at the rows ``first``.
        """
        self._add(x, seen, first, max(self.end, begin), end, 1.0)
        self._add(x, seen, first, self.begin, min(begin, self.end), -1.0)
        self.begin, self.end = begin, end

    def _add(
        self, x: Values, seen: Observed, first: Rows, begin: int, end: int, sign: float
    ) -> None:
        reach = int(self.lags[-1]) + self.difference
        begin = max(begin, reach)
        if begin >= end:
            return
        own = x[begin - reach : end].T.contiguous()  # the rows of a series lie side by side
        if self.difference:
            own = own[:, self.difference :] - own[:, : -self.difference]
        back = torch.cat([self.lags, self.lags.new_zeros(1)])
        index = torch.arange(end - begin)[:, None] + int(self.lags[-1]) - back
        part = own[:, index]  # [N, rows, lags + 1]
        used = seen[begin:end] & (torch.arange(begin - reach, end - reach)[:, None] >= first)
        if not used.all():
            part *= used.T[..., None]
        if not self.single:
            part = torch.cat([part[..., :-1] @ self.features.T, part[..., -1:]], -1)
        self.count += sign * used.sum(0)
        self.total += sign * part.sum(1)
        self.products += sign * (part.transpose(1, 2) @ part)

    def solve(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return slopes ``[N, lags]``, intercepts ``[N]``, and which series have enough rows."""
        count = self.count.clamp(min=1)
        mean = self.total / count[:, None]
        products = self.products / count[:, None, None] - mean[..., None] * mean[:, None]
        variance = products[:, -1, -1]
        varies = variance > 1e-12 * mean[:, -1].square()
        size = torch.where(varies, count / torch.where(varies, variance, 1.0), 0.0)
        products = products * size[:, None, None]  # in rows of a series with variance 1
        own, target = products[:, :-1, :-1], products[:, :-1, -1]
        ridge = own + PULL * torch.eye(len(self.features)).to(own)
        slopes, failed = torch.linalg.solve_ex(ridge, target)
        slopes[failed > 0] = 0.0  # rounding can leave a matrix of extreme values singular
        intercept = mean[:, -1] - (slopes * mean[:, :-1]).sum(-1)
        slopes = slopes if self.single else slopes @ self.features
        return slopes, intercept, self.count >= FEWEST_ROWS
