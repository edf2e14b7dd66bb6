"""Forecasts of each series by itself, split over its past values exactly."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from .._typing import Float
from .bank import Bank
from .blocks import Block, blocks_of
from .choice import Prior
from .smoothing import Observed, Values
from .teams import LARGEST_LOG


class Parts(NamedTuple):
    """The forecast of one series: reference + bias + Σ past."""

    forecast: Float[Tensor, "horizon"]
    bias: Float[Tensor, "horizon"]  # what autoregressions add whatever the past is
    past: Float[Tensor, "horizon time"]  # the last rows; before, there is nothing
    slopes: Float[Tensor, "horizon time"]  # of the forecast, by these values


class Attribution:
    """The forecasts after the last row, split over the past values of each series.

    The weights of the experts (by absolute or by ``squared`` errors), those of autoregressions, and
    the probabilities of TSB are held constant. The forecast of an expert is then linear in what it
    sees, so its response to a value is its forecast of a series that is 1 there and 0 elsewhere. A
    logarithm, and the exponential that undoes it, count by their chords from the reference.
    """

    def __init__(
        self,
        values: Values,
        observed: Observed,
        seasons: Sequence[int],
        horizon: int,
        prior: Prior | None = None,
        *,
        squared: bool = False,
    ):
        self.squared = squared
        self.prior, self.values, self.observed = prior, values.double().cpu(), observed.cpu()
        self.seasons, self.horizon = seasons, horizon
        self.blocks = blocks_of(self.observed, len(self.values))
        self.place = {
            series: (number, place)
            for number, block in enumerate(self.blocks)
            for place, series in enumerate(block.series.tolist())
        }
        self.banks: dict[int, Bank] = {}

    @torch.no_grad()
    def split(self, series: int, reference: float) -> Parts:
        """Split the forecast of one series into its difference from ``reference``."""
        number, place = self.place[series]
        bank = self.banks.get(number) or self._run(self.blocks[number])
        self.banks[number] = bank
        rows = slice(self.blocks[number].first, None)
        x, seen = self.values[rows, series], self.observed[rows, series]
        steps = len(x)
        if not seen.any():
            nothing = torch.zeros(self.horizon, dtype=torch.float64)
            no_parts = torch.zeros(self.horizon, steps)
            return Parts(nothing + reference, nothing, no_parts, no_parts)
        one, all_rows = (self.horizon,), (self.horizon, steps)
        total = Parts(*(x.new_zeros(shape) for shape in (one, one, all_rows, all_rows)))
        weights = bank.weights[:, :, place].T @ bank.nearness.T  # [experts, H]
        parts = weights.split([team.size for team in bank.teams])
        for kind, weight in enumerate(parts):  # on values, on logarithms, others
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
            own, slopes = response * ((u - start) * seen), response * seen
            bias = constant + start * (response.sum(2) - 1)
            path = start + own.sum(2) + bias
            if log:
                rise = path - start
                path = path.clamp(max=LARGEST_LOG).exp()
                chord = (path - base) / torch.where(rise == 0, 1.0, rise)
                chord = torch.where(rise == 0, base, chord)
                own, bias = own * chord[..., None], bias * chord
                same = x == base
                rate = torch.where(same, 1 / base, (u - start) / torch.where(same, 1.0, x - base))
                slopes = slopes * rate * chord[..., None]
                # A reference without a logarithm is reached from the base by a constant.
                bias = bias + base - reference
            share = weight[used]
            total.forecast.add_((share * path).sum(0))
            total.bias.add_((share * bias).sum(0))
            total.past.add_((share[..., None] * own).sum(0))
            total.slopes.add_((share[..., None] * slopes).sum(0))
        return total

    def _run(self, block: Block) -> Bank:
        x, seen = block.cut(self.values, self.observed)
        bank = Bank(x, seen, self.seasons, self.horizon, [len(x)], self.prior, squared=self.squared)
        bank.run()
        return bank
