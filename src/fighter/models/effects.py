"""What covariates that are known in advance add to series: a small ridge regression.

It is fitted beside a seasonal profile, on rows from which what carries over from the row before has
been taken, so that neither a season nor a slow drift is taken for the effect of a covariate. Each
series has its own weights, pulled towards those of all series together. The effect may differ by
the phase of the season, as that of a holiday differs by the hour.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from .._typing import Bool, Float, Int

PULL = 3.0  # of an effect towards zero, as strong as so many rows in which the covariate differs
OWN_PULL = 12.0  # of the effect on a series towards that on all series
WAVE_PULL = 8.0  # times these: of the difference between phases
WAVES = 3  # of the season, at most, with which an effect changes
WAVE_ROWS = 20  # per weight, from which on it may
MOST_WEIGHTS = 64  # with waves
SEASONS = 3  # that the rows hold at least, for a profile
CLIP = 5.0  # larger errors, in mean absolute ones, are cut off
ROUNDS = 3
FEWEST_ROWS = 8
MOST_CARRIED = 0.98  # from row to row
MOST_ZEROS = 0.01  # that are left out where logarithms are regressed on
BEYOND = 0.5  # of the range seen: how far beyond it values of a covariate count
CELLS = 2**22  # that are regressed on at once
LEAST_NOISE = 0.3  # of that of the median series
MOST_PRODUCTS = 2**24  # with more, all series have the same weights
CLOSED_ROWS = 3  # with nothing but zeros, at least
SURPRISE = 15.0  # minus the logarithm of the chance that all of them are zero, at least
MOST_SOLD = 0.99  # of the other values, for that chance

Covariates = Float[Tensor, "time series covariates"]
Values = Float[Tensor, "time series"]
Seen = Bool[Tensor, "time series"]


@dataclass(frozen=True, eq=False)
class Effects:
    """The effects of covariates on each series.

    Args:
        weights: effect of each covariate, and of its product with each wave of the season, in
            scales of the series or, if ``log``, on its logarithm.
        centre: values of the covariates that have no effect.
        span: lowest and highest value of each covariate that counts.
        closed: value of each covariate at which the series are zero; NaN if there is none.
        resting: phases of the season at which they mostly are.
        log: whether effects are factors: they add to logarithms.
    """

    weights: Float[Tensor, "series covariates waves"]
    centre: Float[Tensor, "series covariates"]
    span: Float[Tensor, "2 covariates"]
    closed: Float[Tensor, "covariates"]
    resting: Bool[Tensor, "season"]
    log: bool

    @property
    def season(self) -> int:
        """Length of the season whose waves and phases are meant."""
        return len(self.resting)

    def parts(self, covariates: Covariates, first: int, scale: Float[Tensor, "series"]) -> Tensor:
        """Return what each covariate adds, to values or their logarithms ``[T, N, F]``.

        ``first`` is the step of the first row, ``scale`` the scale of each series.
        """
        x = _centred(covariates, self.centre, self.span)
        waves = make_waves(len(x), first, self.season, self.weights.shape[2])
        for i in range(x.shape[2]):
            x[..., i] *= waves @ self.weights[:, i].T
        return x if self.log else x * scale[:, None]

    def is_closed(self, covariates: Covariates) -> Bool[Tensor, "time series covariates"]:
        """Tell which covariates say that a series is zero."""
        return covariates == self.closed

    def is_odd(self, closed: Seen, first: int) -> Seen:
        """Tell which of the closed rows the season does not tell of."""
        return (
            closed & ~self.resting[(torch.arange(first, first + len(closed))) % self.season, None]
        )

    def any(self) -> bool:
        """Tell whether anything has an effect."""
        return bool(self.weights.any()) or not bool(self.closed.isnan().all())

    def scaled(self, share: Float[Tensor, "series"]) -> "Effects":
        """Return a share of the effects."""
        return replace(self, weights=self.weights * share.to(self.weights)[:, None, None])

    def select(self, index: Sequence[int]) -> "Effects":
        """Return the effects on other series; -1 stands for a new one, which gets the mean."""
        weights, centre = (
            torch.cat([each, each.mean(0, keepdim=True)])[[*index]]
            for each in (self.weights, self.centre)
        )
        return replace(self, weights=weights, centre=centre)


def make_waves(rows: int, first: int, season: int, count: int) -> Float[Tensor, "time waves"]:
    """Return a constant, and sines and cosines of the season, by row."""
    step = torch.arange(first, first + rows, dtype=torch.float64) % season
    turn = 2 * torch.pi / season * step[:, None] * torch.arange(1, count // 2 + 1)
    return torch.cat([torch.ones(rows, 1).double(), turn.sin(), turn.cos()], 1)


@torch.no_grad()
def fit_effects(
    values: Values,
    seen: Seen,
    covariates: Covariates,
    seasons: Sequence[int],
    first: int,
    scale: Float[Tensor, "series"],
) -> Effects:
    """Fit the effects of covariates on some series; ``first`` is the step of the first row.

    Effects are factors if many values are zero and none below, or if that fits better.
    """
    closed = find_closed(values, seen, covariates)
    shut = seen & (covariates == closed).any(2)
    season = next(iter(seasons), 1)
    phases = (torch.arange(first, first + len(seen)) % season)[:, None].expand_as(seen)
    often = torch.bincount(phases[seen], shut[seen].double(), season)
    resting = 2 * often > torch.bincount(phases[seen], minlength=season)
    seen = seen & ~shut
    count = seen.sum(0).clamp(min=1)[:, None]
    known = covariates.isfinite() & seen[..., None]
    centre = torch.where(known, covariates, 0.0).sum(0) / count
    low = torch.where(known, covariates, torch.inf).amin((0, 1))
    high = torch.where(known, covariates, -torch.inf).amax((0, 1))
    margin = BEYOND * (high - low)
    span = torch.stack([low - margin, high + margin]).nan_to_num(0.0, 0.0, 0.0)
    longest = int(seen.sum(0).max())
    number = 1 + 2 * min(WAVES, (season - 1) // 2)
    weights = covariates.shape[2] * number
    if weights > MOST_WEIGHTS or longest < max(WAVE_ROWS * weights, 2 * SEASONS * season):
        number = 1
    x = _centred(covariates, centre, span)
    waves = make_waves(len(x), first, season, number)
    whole = max((m for m in seasons if longest >= SEASONS * m), default=1)

    def fit(y: Values, seen: Seen) -> tuple[Tensor, Tensor]:
        return _regress(y, seen, x, waves, whole)

    mean = torch.where(seen, values, 0.0).sum(0) / count[:, 0]
    positive = seen & (values > 0)
    zeros = 1 - float(positive.sum()) / max(float(seen.sum()), 1.0)
    log = bool((values[seen] >= 0).all()) and bool(positive.any())
    if log and zeros > MOST_ZEROS:  # zero times any factor is zero: relative to the mean
        found, _ = fit(values / torch.where(mean > 0, mean, 1.0), seen)
    elif log:
        found, error = fit(values / scale, seen)
        logs = torch.where(values > 0, values, 1.0).log()
        others, relative = fit(logs, positive)
        # Errors in the units of the values, if these are as large as in the geometric mean.
        size = (torch.where(positive, logs, 0.0).sum(0) / positive.sum(0).clamp(min=1)).exp()
        better = (relative * size).clamp(min=1e-300).log() - (error * scale).clamp(1e-300).log()
        log = float(better[positive.any(0)].mean()) < 0
        found = others if log else found
    else:
        found, _ = fit(values / scale, seen)
    return Effects(found, centre, span, closed, resting, log)


def find_closed(values: Values, seen: Seen, covariates: Covariates) -> Float[Tensor, "covariates"]:
    """Return the value of each covariate at which all series are zero, such as 0 of "open".

    NaN if there is none, or if zeros are so common that they may be so by chance.
    """
    found = []
    for x in covariates.unbind(2):
        kinds = x[seen].unique()[:3]
        value = torch.nan
        for kind in kinds.tolist() if len(kinds) == 2 else [0.0]:
            on = seen & (x == kind)
            others = seen & (x != kind)
            sold = float((values[others] > 0).double().mean()) if others.any() else 0.0
            surprise = -int(on.sum()) * math.log(1 - min(sold, MOST_SOLD))
            enough = int(on.any(1).sum()) >= CLOSED_ROWS and surprise >= SURPRISE
            if enough and not values[on].any() and bool((values[others] >= 0).all()):
                value = kind
        found.append(value)
    return torch.tensor(found, dtype=torch.float64)


def _centred(
    x: Covariates, centre: Float[Tensor, "series covariates"], span: Float[Tensor, "2 covariates"]
) -> Covariates:
    """Return differences from the centre, 0 where a covariate is missing."""
    x = torch.maximum(torch.minimum(x.double(), span[1]), span[0]) - centre
    return x.nan_to_num(0.0)


def _regress(
    y: Values, seen: Seen, x: Covariates, waves: Float[Tensor, "time waves"], season: int
) -> tuple[Float[Tensor, "series covariates waves"], Float[Tensor, "series"]]:
    """Return the weights, and the mean absolute error of each series from row to row."""
    series, covariates, count = y.shape[1], x.shape[2], waves.shape[1]
    size = covariates * count
    apart = series > 1 and series * size**2 <= MOST_PRODUCTS
    unit = x.abs().amax((0, 1))
    unit = torch.where(unit > 0, unit, 1.0)  # squares of large and tiny numbers leave the range
    x = x / unit
    spread = _spread(x, seen, season)
    pull = (spread[:, None] * (1 + (WAVE_PULL - 1) * (torch.arange(count) > 0))).reshape(-1)
    blocks = range(0, series, max(CELLS // max(len(y) * size, 1), 1))
    blocks = [slice(i, i + blocks.step) for i in blocks]
    weights = y.new_zeros(series, size)
    carried = y.new_zeros(())
    noise = y.new_ones(series)
    for turn in range(ROUNDS):
        products, targets = [], []
        first, second = y.new_zeros(2)
        errors = []
        for some in blocks:
            own, target, rest = _Rows.make(y, seen, x, waves, season, some).without(
                carried, weights[some], turn > 0
            )
            errors.append(rest)
            products.append(torch.einsum("tnp,tnq->npq", own, own))
            targets.append(torch.einsum("tnp,tn->np", own, target))
        noise = torch.cat(errors)
        usual = noise[noise > 0].median() if (noise > 0).any() else noise.new_ones(())
        trust = (usual / noise.clamp(min=LEAST_NOISE * usual)).square() * (noise > 0)
        every = sum(
            (p * trust[some, None, None]).sum(0) for p, some in zip(products, blocks, strict=True)
        )
        whole = sum((t * trust[some, None]).sum(0) for t, some in zip(targets, blocks, strict=True))
        pooled = torch.linalg.solve(every + PULL * torch.diag(pull), whole)
        if apart:
            hold = OWN_PULL * pull
            weights = torch.cat(
                [
                    torch.linalg.solve(p + torch.diag(hold), t + hold * pooled)
                    for p, t in zip(products, targets, strict=True)
                ]
            )
        else:
            weights = pooled.expand(series, -1)
        for some in blocks:
            one, two = _Rows.make(y, seen, x, waves, season, some).carry(weights[some])
            first, second = first + one, second + two
        carried = (first / second.clamp(min=1e-300)).clamp(0, MOST_CARRIED)
    return weights.reshape(series, covariates, count) / unit[:, None], noise


def _spread(x: Covariates, seen: Seen, season: int) -> Float[Tensor, "covariates"]:
    """Return the squared size of each covariate where it differs from its profile.

    It is the mean fourth power over the mean square: 1 for rare ones among zeros.
    """
    away = _without_profile(x, seen, season)
    square = away.square().sum((0, 1))
    spread = away.square().square().sum((0, 1)) / square.clamp(min=1e-300)
    usual = x.square().amax((0, 1))  # a covariate that follows the season has no effect of its own
    return torch.where(square > 1e-9 * usual * seen.sum(), spread, usual).clamp(min=1e-12)


@dataclass(frozen=True)
class _Rows:
    """What is regressed, without its seasonal profile, and the observed row before each."""

    y: Values
    x: Float[Tensor, "time series weights"]
    before: Int[Tensor, "time series"]
    used: Bool[Tensor, "time series"]
    apart: Int[Tensor, "time series"]  # rows from the one before

    @classmethod
    def make(
        cls, y: Values, seen: Seen, x: Covariates, waves: Tensor, season: int, some: slice
    ) -> "_Rows":
        seen = seen[:, some]
        x = (x[:, some, :, None] * waves[:, None, None]).flatten(2)
        both = torch.cat([torch.where(seen, y[:, some], 0.0)[..., None], x], 2)
        both = _without_profile(both, seen, season)
        row = torch.arange(len(y))[:, None]
        last = torch.where(seen, row, -1).cummax(0).values
        before = torch.cat([last.new_full((1, last.shape[1]), -1), last[:-1]])
        used = seen & (before >= 0)
        return cls(both[..., 0], both[..., 1:], before.clamp(min=0), used, row - before)

    def without(
        self, carried: Tensor, weights: Float[Tensor, "series weights"], clip: bool
    ) -> tuple[Tensor, Values, Float[Tensor, "series"]]:
        """Take off what is carried over from the row before.

        Returns the covariates, the values, and the mean absolute error with the present weights.
        With ``clip``, values far from what these say are moved nearer.
        """
        factor = carried**self.apart
        y = (self.y - factor * self.y.gather(0, self.before)) * self.used
        index = self.before[..., None].expand_as(self.x)
        x = (self.x - factor[..., None] * self.x.gather(0, index)) * self.used[..., None]
        made = torch.einsum("tnp,np->tn", x, weights)
        error = y - made
        size = error.abs().sum(0) / self.used.sum(0).clamp(min=1)
        if clip:
            y = made + torch.minimum(torch.maximum(error, -CLIP * size), CLIP * size)
        return x, y, size

    def carry(self, weights: Float[Tensor, "series weights"]) -> tuple[Tensor, Tensor]:
        """Return sums whose ratio is the share of an error that is found in the next one."""
        error = self.y - torch.einsum("tnp,np->tn", self.x, weights)
        size = error.square().sum(0).clamp(min=1e-300)
        pair = self.used & (self.apart == 1)
        last = error.gather(0, self.before)
        product, square = (
            (torch.where(pair, each, 0.0).sum(0) / size).sum()
            for each in (error * last, last.square())
        )
        return product, square


def _without_profile(z: Tensor, seen: Seen, season: int) -> Float[Tensor, "time series columns"]:
    """Take off the mean of each phase of the season over the observed rows; 0 elsewhere."""
    rows = -(-len(z) // season) * season - len(z)
    z = z * seen[..., None]
    padded = torch.cat([z, z.new_zeros(rows, *z.shape[1:])]).unflatten(0, (-1, season))
    count = torch.cat([seen, seen.new_zeros(rows, seen.shape[1])]).unflatten(0, (-1, season)).sum(0)
    profile = padded.sum(0) / count.clamp(min=1)[..., None]
    place = torch.arange(len(z)) % season
    return (z - profile[place]) * seen[..., None]
