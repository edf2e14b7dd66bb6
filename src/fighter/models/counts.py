"""Quantiles of counts: a negative binomial distribution around a mean, with zeros added or not.

A count is 0 with a probability of its own, and otherwise follows a negative binomial distribution,
whose variance is m + dispersion · m² at the mean m. With dispersion 0 it is Poisson's. These two
numbers are the shape of a distribution; there are a few to choose from.
"""

from collections.abc import Sequence
from functools import cache
from itertools import product
from math import log1p

import torch
from torch import Tensor

from .._typing import Float, Int

DISPERSIONS, ZEROS = (0.0, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0), (0.0, 0.2, 0.4, 0.6, 0.8)
SHAPES = tuple(product(DISPERSIONS, ZEROS))
LEAST_MEAN, MOST_MEAN = 1e-3, 100.0  # above, quantiles grow with the mean
MEANS, LARGEST = 96, 8192  # means and counts of the table that quantiles are read from


def log_probability(
    counts: Float[Tensor, "*cells"], mean: Float[Tensor, "*cells"], shape: tuple[float, float]
) -> Float[Tensor, "*cells"]:
    """Return the logarithm of the probability of counts that have these means."""
    dispersion, zeros = shape
    m = (mean / (1 - zeros)).clamp(min=LEAST_MEAN)
    if dispersion:
        r = 1 / dispersion
        ways = torch.lgamma(counts + r) - torch.lgamma(torch.full_like(m, r))
        log = ways + r * torch.log(r / (r + m)) + counts * torch.log(m / (r + m))
    else:
        log = counts * torch.log(m) - m
    log = log - torch.lgamma(counts + 1) + log1p(-zeros)
    return torch.where(counts > 0, log, torch.log(zeros + log.exp()))


def count_quantiles(
    mean: Float[Tensor, "*cells series"],
    shapes: Int[Tensor, "series"],
    levels: Sequence[float],
) -> Float[Tensor, "*cells series levels"]:
    """Return the quantiles of counts with these means; each series has a place in ``SHAPES``.

    They are read from a table of means, and lie between two whole numbers where these change.
    """
    used, place = shapes.unique(return_inverse=True)
    tables = torch.stack([_table(SHAPES[i], tuple(levels)) for i in used.tolist()])  # [S, M, Q]
    where = (mean.clamp(LEAST_MEAN, MOST_MEAN) / LEAST_MEAN).log() / _grid()[1].div(
        LEAST_MEAN
    ).log()
    low = where.floor().long().clamp(0, MEANS - 2)
    place = place.expand_as(low)
    found = torch.lerp(tables[place, low], tables[place, low + 1], (where - low)[..., None])
    return found * (mean / MOST_MEAN).clamp(min=1)[..., None]


def _grid() -> Float[Tensor, "means"]:
    ratio = MOST_MEAN / LEAST_MEAN
    return LEAST_MEAN * ratio ** torch.linspace(0, 1, MEANS, dtype=torch.float64)


@cache
def _table(shape: tuple[float, float], levels: tuple[float, ...]) -> Float[Tensor, "means levels"]:
    """Return the smallest count, for each mean, that is at least the quantile."""
    counts = torch.arange(LARGEST, dtype=torch.float64)
    mean, counts = torch.broadcast_tensors(_grid()[:, None], counts)
    sums = log_probability(counts, mean, shape).exp().cumsum(1)
    wanted = torch.tensor(levels, dtype=torch.float64).expand(MEANS, -1).contiguous()
    return torch.searchsorted(sums, wanted - 1e-12).clamp(max=LARGEST - 1).double()
