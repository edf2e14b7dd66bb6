"""Forecasts of each series by itself, split over its past values exactly."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from .._typing import Float
from .local import LARGEST_LOG, SERIES_AT_ONCE, Bank, Prior
from .smoothing import Observed, Values


class Parts(NamedTuple):
    """The forecast of one series: reference + bias + Σ past."""

    forecast: Float[Tensor, "horizon"]
    bias: Float[Tensor, "horizon"]  # what autoregressions add whatever the past is
    past: Float[Tensor, "horizon time"]


class Attribution:
    """The forecasts after the last row, split over the past values of each series.

    The weights of the experts, and those of autoregressions, are held constant. The forecast of an
    expert is then linear in what it sees, so its response to a value is its forecast of a series
    that is 1 there and 0 elsewhere. A logarithm, and the exponential that undoes it, count by their
    chords from the reference.
    """

    def __init__(
        self,
        values: Values,
        observed: Observed,
        seasons: Sequence[int],
        horizon: int,
        prior: Prior | None = None,
    ):
        self.prior, self.values, self.observed = prior, values.double().cpu(), observed.cpu()
        self.seasons, self.horizon = seasons, horizon
        self.banks: dict[int, Bank] = {}

    @torch.no_grad()
    def split(self, series: int, reference: float) -> Parts:
        """Split the forecast of one series into its difference from ``reference``."""
        group, place = divmod(series, SERIES_AT_ONCE)
        bank = self.banks.get(group) or self._run(group)
        self.banks[group] = bank
        x, seen = self.values[:, series], self.observed[:, series]
        steps = len(x)
        if not seen.any():
            nothing = torch.zeros(self.horizon, dtype=torch.float64)
            return Parts(nothing + reference, nothing, torch.zeros(self.horizon, steps))
        total = Parts(
            torch.zeros(self.horizon, dtype=torch.float64),
            torch.zeros(self.horizon, dtype=torch.float64),
            torch.zeros(self.horizon, steps, dtype=torch.float64),
        )
        weights = bank.weights[:, :, place].T @ bank.nearness.T  # [experts, H]
        parts = weights.tensor_split([bank.per_scale, 2 * bank.per_scale])
        for kind, weight in enumerate(parts):  # on values, on logarithms, medians
            used = torch.nonzero((weight > 0).any(1))[:, 0].tolist()
            if not used:
                continue
            response, constant = bank.responses(used, place, kind)  # [E, H, T], [E, H]
            log = kind == 1
            u, base = x, x.new_tensor(reference)
            if log:  # all values are above 0
                base = base if reference > 0 else u[seen].mean()
                u = torch.where(u > 0, u, 1.0).log()
            start = float(base.log() if log else base)
            own = response * ((u - start) * seen)
            bias = constant + start * (response.sum(2) - 1)
            path = start + own.sum(2) + bias
            if log:
                rise = path - start
                path = path.clamp(max=LARGEST_LOG).exp()
                chord = (path - base) / torch.where(rise == 0, 1.0, rise)
                chord = torch.where(rise == 0, base, chord)
                own, bias = own * chord[..., None], bias * chord
                # A reference without a logarithm is reached from the base by a constant.
                bias = bias + base - reference
            share = weight[used]
            total.forecast.add_((share * path).sum(0))
            total.bias.add_((share * bias).sum(0))
            total.past.add_((share[..., None] * own).sum(0))
        return total

    def _run(self, group: int) -> "Bank":
        some = slice(group * SERIES_AT_ONCE, (group + 1) * SERIES_AT_ONCE)
        x, seen = self.values[:, some], self.observed[:, some]
        bank = Bank(x, seen, self.seasons, self.horizon, [len(x)], self.prior)
        bank.run()
        return bank
