"""How uncertain a forecast is beside other forecasts of the same series.

Errors come in calm and in wild times, some hours of a day are harder to forecast than others, and
the errors of many series grow with their level. Each of these is a factor on the usual error of a
series; how much each one counts is fitted to past errors.
"""

import torch
from torch import Tensor

from .._typing import Bool, Float, Int

HALF_LIFE = 500.0  # rows after which an error counts half in the usual error
RECENT = 30.0  # the same, of recent errors
FEW = 4.0  # errors that the mean over all counts as
LARGEST = 8.0  # a factor is at most this, and at least one over it
LEAST_LEVEL = 0.1  # of the mean level, so that a level of zero has a width
PULL = 2.0  # of the powers towards zero, in independent windows
CLIP = 5.0  # times the mean: larger errors are cut off
ROUNDS = 20
FACTORS = 3

Factors = Float[Tensor, "factors origins horizon series"]


def width_factors(
    surprise: Float[Tensor, "time series"],
    lowest: Float[Tensor, "origins series"],
    point: Float[Tensor, "origins horizon series"],
    rows: Int[Tensor, "origins"],
    season: int,
) -> Factors:
    """Return three factors of the usual error of each forecast, in the units of the values.

    They are from recent errors, from errors at the same phase of the season, and from the height of
    the forecast above the lowest value so far.

    Args:
        surprise: median error of the experts at each row; NaN where it is unknown.
        lowest: lowest value before each forecast.
        point: the forecasts.
        rows: a forecast is made after so many rows.
        season: length of the season; 1 if there is none.
    """
    known = ~surprise.isnan()
    error, known = torch.where(known, surprise, 0.0), known.to(surprise)
    count, total = (each.cumsum(0)[rows - 1] for each in (known, error))
    mean = total / count.clamp(min=1)

    def ratio(total: Tensor, count: Tensor, mean: Tensor) -> Tensor:
        shrunk = (total + FEW * mean) / (count + FEW)
        return torch.where(mean > 0, shrunk / mean.clamp(min=1e-300), 1.0)

    age = rows[:, None] - 1 - torch.arange(len(error))

    def discounted(half_life: float) -> tuple[Tensor, Tensor]:
        weight = torch.where(age >= 0, 0.5 ** (age.clamp(min=0) / half_life), 0.0).to(error)
        return weight @ error, weight @ known

    slow, slow_count = discounted(HALF_LIFE)
    recent = ratio(*discounted(RECENT), slow / slow_count.clamp(min=1e-9))
    recent = recent[:, None].expand_as(point)
    phase, steps = torch.ones_like(point), torch.arange(point.shape[1])
    if season > 1:
        # The last row before the forecast with the phase of each step; row -1 has nothing.
        last = rows[:, None] + steps % season - season
        sums = [_phase_sums(each, season) for each in (error, known)]
        total, count = (each[(last + 1).clamp(min=0)] for each in sums)
        phase = ratio(total, count, mean[:, None])
    height = (point - lowest[:, None]).clamp(min=0)
    usual = height.mean(1, keepdim=True)
    level = (height + LEAST_LEVEL * usual) / ((1 + LEAST_LEVEL) * usual).clamp(min=1e-300)
    level = torch.where(usual > 0, level, 1.0)
    return torch.stack([recent, phase, level]).clamp(1 / LARGEST, LARGEST)


def fit_powers(
    factors: Factors,
    size: Float[Tensor, "origins horizon series"],
    seen: Bool[Tensor, "origins horizon series"],
    windows: float,
) -> Float[Tensor, "factors"]:
    """Fit how much each factor counts: its power, from 0 to 1.

    Errors follow a Laplace distribution whose width is the product of the factors with their
    powers. Its likelihood is concave, so Newton's method finds the maximum. Single odd errors are
    cut off.

    Args:
        factors: see :func:`width_factors`.
        size: absolute errors, in units of the usual ones of their series and step.
        seen: which errors are known.
        windows: number of independent windows; with few, the powers stay near 0.
    """
    logs, size = factors.log()[:, seen], size[seen]
    powers = logs.new_zeros(len(logs))
    if not size.sum() > 0:
        return powers
    pull = PULL / max(windows, 1e-9)
    logs = logs - logs.mean(1, keepdim=True)
    for _ in range(ROUNDS):
        weight = size * (-powers @ logs).exp()
        weight = (weight / weight.mean()).clamp(max=CLIP)
        weight = weight / weight.mean()
        gradient = pull * powers - (logs * weight).mean(1)
        curvature = (logs * weight) @ logs.T / len(size)
        curvature = curvature + (pull + 1e-9) * torch.eye(len(logs)).to(logs)
        step = torch.linalg.solve(curvature, gradient)
        powers = (powers - step.clamp(-0.5, 0.5)).clamp(0, 1)
    return powers


def apply(factors: Factors, powers: Float[Tensor, "factors"]) -> Float[Tensor, "..."]:
    """Return the product of the factors, each to its power."""
    return (powers.to(factors)[:, None, None, None] * factors.log()).sum(0).exp()


def _phase_sums(x: Float[Tensor, "time series"], season: int) -> Float[Tensor, "later series"]:
    """Return sums over rows of the same phase, up to each row; row 0 of the result is empty."""
    rows = -(-len(x) // season) * season
    padded = torch.cat([x, x.new_zeros(rows - len(x), x.shape[1])])
    sums = padded.view(-1, season, x.shape[1]).cumsum(0).view(rows, -1)[: len(x)]
    return torch.cat([x.new_zeros(1, x.shape[1]), sums])
