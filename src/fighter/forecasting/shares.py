"""The share of one of two forecasts in their mean, chosen by errors, for each series."""

import torch
from torch import Tensor

from .._typing import Bool, Float, Int
from .spread import Points, independent_windows

SHARES = torch.linspace(0, 1, 11)
POOLED = 4.0  # windows of a series that count as much as all series together
PRIOR = 0.1  # of a share of 0 or 1, in windows
LEAST_SHARE = 0.03  # in the mean; below, a forecast is not used
RECENCY = 4.0  # an error after half of the rows counts 1 / 2 ** RECENCY as much


def choose_shares(
    first: Points,
    second: Points,
    target: Points,
    seen: Points,
    apart: float = 1.0,
    *,
    prior: Float[Tensor, "shares"] | None = None,
    squared: bool = False,
) -> tuple[Float[Tensor, "series"], tuple[float, float, float]]:
    """Choose the share of the first of two forecasts in their mean, for each series.

    It has the smallest absolute error on validation windows, see :func:`pick_shares`. Also returns
    the mean absolute errors of the first, the second and both mixed. Windows begin ``apart`` rows
    apart in the mean; ``prior`` is what speaks against each share, in windows (default: that
    against unequal ones). Errors may be ``squared``.
    """
    count, size = seen.sum((0, 1)), torch.square if squared else torch.abs
    errors = torch.stack(
        [(size(target - second - s * (first - second)) * seen).sum((0, 1)) for s in SHARES]
    ) / count.clamp(min=1e-9)  # [shares, N]
    known = count > 0
    chosen = pick_shares(errors, known, independent_windows(seen, apart), SHARES, prior)
    each = (errors[-1], errors[0], errors.gather(0, chosen[None])[0])
    a, b, mixed = (round(float(e[known].mean()), 6) for e in each)
    return SHARES[chosen], (a, b, mixed)


def pick_shares(
    losses: Float[Tensor, "shares series"],
    known: Bool[Tensor, "series"],
    independent: Float[Tensor, "series"],
    shares: Float[Tensor, "shares"],
    prior: Float[Tensor, "shares"] | None = None,
) -> Int[Tensor, "series"]:
    """Return the place of the share with the smallest loss, for each series.

    The losses of a series count more the more independent windows it has; those of all ``known``
    series together, and a prior (default: one for equal shares), count like a few windows.
    """
    relative = torch.where(known, losses / losses.mean(0).clamp(min=1e-9), 1.0)
    pooled = relative[:, known].mean(1, keepdim=True)
    prior = PRIOR * (2 * shares - 1).square() if prior is None else prior
    return (independent * relative + POOLED * pooled + prior[:, None]).argmin(0)
