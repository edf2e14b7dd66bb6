"""Weights of experts: how much each one counts, by the errors of its forecasts so far.

Errors are compared with those of the median expert at the same rows, so that experts that began
later are judged by the rows that they forecast. The weights depend on the step, because errors are
measured at several steps (anchors) of the horizon.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from .._typing import Bool, Float

SHARPNESS = 20.0  # an expert with errors 1 % larger than the best has 0.82 of its weight
FAMILY_SHARPNESS = 4.0  # the same of all autoregressions, and of all other experts
FEW_TO_CHOOSE = 10.0  # with this many errors, that is halved
SHIFT_HALF_LIFE = 14.0  # rows, of errors that tell of a jump
SHIFT = 1.4  # an expert loses weight once its relative error grows by more than this factor
FEW_ERRORS = 2.0  # with this many errors, the sharpness is halved
PRIOR_ERRORS = 8.0  # number of errors that the prior of an expert counts as
SHARED_ERRORS = 12.0  # the errors at all steps count as at most so many at each step
LEAST_WEIGHT = 0.01  # of the largest; smaller ones are dropped

States = Float[Tensor, "experts series"]
Anchored = Float[Tensor, "anchors experts series"]


class Sums(NamedTuple):
    """Discounted sums over the rows so far, for every expert and series.

    ``late`` holds recent errors of the first step, and those of the median expert beside them.
    """

    total: Anchored  # errors
    usual: Anchored  # errors of the median expert at the same rows
    number: Anchored  # of errors
    late: Float[Tensor, "2 experts series"]

    @classmethod
    def zeros(cls, anchors: int, experts: int, series: int) -> "Sums":
        """Return sums over no rows."""
        shape = (experts, series)
        each = [torch.zeros(count, *shape, dtype=torch.float64) for count in (anchors,) * 3 + (2,)]
        return cls(*each)

    @property
    def ratio(self) -> States:
        """Error of each expert in units of the median expert, over all anchors."""
        return relative(self.total.sum(0), self.usual.sum(0))

    @property
    def evidence(self) -> States:
        """Number of errors of each expert, over all anchors."""
        return self.number.sum(0)


class Weighed(NamedTuple):
    """The weights of the experts, and the error of their mean forecast so far."""

    weights: Anchored
    error: Float[Tensor, "series"]


def weigh(
    sums: Sums,
    prior: Float[Tensor, "experts 1"],
    usable: Bool[Tensor, "experts series"],
    linear: Bool[Tensor, "experts 1"],
    sharpness: float = SHARPNESS,
) -> Weighed:
    """Weigh experts by their errors so far.

    Args:
        sums: errors so far.
        prior: usual error of each expert, in units of the median expert.
        usable: which experts can forecast now; others get no weight.
        linear: which experts are autoregressions.
        sharpness: power of the errors that weights follow from.
    """
    shared, common = sums.ratio, sums.evidence
    lean = SHARED_ERRORS * common / (common + SHARED_ERRORS)
    excess = _excess(sums.late, sums.total[0], sums.usual[0])
    every = torch.zeros_like(sums.total)
    weighed, errors = torch.zeros_like(shared[0]), torch.zeros_like(shared[0])
    for i, (total, usual, count) in enumerate(zip(*sums[:3], strict=True)):
        known = count + lean + PRIOR_ERRORS
        ratio = count * relative(total, usual) + lean * shared
        ratio = excess * (ratio + PRIOR_ERRORS * prior) / known
        ratio = torch.where(usable, ratio, torch.inf)
        power = sharpness * known / (known + FEW_ERRORS)
        weights = torch.where(usable, (ratio / ratio.min(0).values) ** -power, 0.0)
        weights = _balance(weights, ratio, count + lean, linear)
        weights = torch.where(weights < LEAST_WEIGHT * weights.max(0).values, 0.0, weights)
        weights = every[i] = weights / weights.sum(0)
        place = count.argmax(0)[None]
        most = count.gather(0, place)[0]
        usual_now = usual.gather(0, place)[0]  # times the number of errors
        ratio = torch.where(weights > 0, weights * ratio, 0.0).sum(0)
        errors, weighed = errors + ratio * usual_now, weighed + most
    return Weighed(every, errors / weighed.clamp(min=1e-9))


def relative(total: Tensor, usual: Tensor) -> Tensor:
    """Return errors in units of those usual at the same rows; 1 where nothing is known."""
    return torch.where(usual > 0, total / usual.clamp(min=1e-300), 1.0)


def nearness(anchors: Sequence[int], horizon: int) -> Float[Tensor, "horizon anchors"]:
    """Return how much each anchor counts for each step: linearly, between the two next to it."""
    steps = np.arange(1, horizon + 1)
    rows = [np.interp(steps, anchors, each) for each in np.eye(len(anchors))]
    return torch.from_numpy(np.stack(rows, 1))


def _balance(
    weights: States, ratio: States, count: States, linear: Bool[Tensor, "experts 1"]
) -> States:
    """Weigh autoregressions, and all other experts together, by the mean errors of each.

    Their weights differ less than those of single experts: a mean of both is hard to beat.
    """
    most = count.amax(0)
    power = FAMILY_SHARPNESS * most / (most + FEW_TO_CHOOSE)
    shares, means = [], []
    for family in (~linear, linear):
        own = torch.where(family, weights, 0.0)
        whole = own.sum(0)
        shares.append(own / torch.where(whole > 0, whole, 1.0))
        mean = torch.where(own > 0, shares[-1] * ratio, 0.0).sum(0)
        means.append(torch.where(whole > 0, mean, torch.inf))
    best = torch.minimum(*means)
    for share, mean in zip(shares, means, strict=True):
        share *= torch.where(mean.isfinite(), (mean / best) ** -power, 0.0)
    return shares[0] + shares[1]


def _excess(late: Tensor, total: Tensor, usual: Tensor) -> States:
    """Return how far the recent errors of each expert exceed its earlier ones, at least 1.

    Both are relative to the median expert. After a jump of the level, slow experts stay wrong for
    long, however good they were before. Their errors at later steps do not show it yet.
    """
    now, before = relative(*late), relative(total, usual)
    return (now / (SHIFT * before.clamp(min=1e-9))).clamp(min=1)
