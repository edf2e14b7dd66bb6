"""Synthetic series of many families, drawn on the GPU as fast as the network learns from them.

A batch has groups of eight series that share a calendar (the lengths of their seasons). Families
are drawn in equal shares. Some groups are systems: a series follows others after a lag, linearly or
not, or all share a factor. Every family returns ``[series, time]`` of about unit size; the last
steps are the horizon.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from fighter.models.pretrained import PATCH

GROUP = 8  # series of a group
TABLE = 96  # entries of a seasonal profile
LINKED = (1 / 8, 1 / 8, 1 / 8)  # shares of systems, of shared factors, of unlinked joint groups


class Calendar(NamedTuple):
    """Seasons of a table, its usual lengths and horizons, and how often it is drawn."""

    seasons: tuple[int, int]
    least: int
    most: int
    horizon: tuple[int, int]
    weight: float


CALENDARS = {
    True: (  # short ones, with few patches
        Calendar((0, 0), 8, 200, (4, 16), 2.0),
        Calendar((4, 0), 12, 240, (4, 16), 2.0),
        Calendar((12, 0), 20, 256, (6, 36), 3.0),
        Calendar((52, 0), 40, 256, (8, 64), 1.0),
        Calendar((7, 0), 28, 256, (7, 64), 1.5),
        Calendar((5, 0), 20, 256, (5, 40), 0.5),
        Calendar((24, 168), 48, 256, (12, 64), 0.5),
        Calendar((-1, 0), 16, 256, (4, 48), 0.5),  # any season
    ),
    False: (
        Calendar((0, 0), 150, 1024, (8, 64), 1.0),
        Calendar((12, 0), 120, 1024, (6, 48), 1.0),
        Calendar((52, 0), 150, 1024, (8, 64), 1.5),
        Calendar((7, 0), 150, 1024, (7, 90), 1.5),
        Calendar((7, 365), 300, 1024, (7, 90), 2.0),
        Calendar((5, 0), 150, 1024, (5, 64), 0.7),
        Calendar((24, 0), 150, 1024, (12, 96), 1.0),
        Calendar((24, 168), 200, 1024, (12, 192), 3.0),
        Calendar((48, 336), 300, 1024, (24, 192), 1.2),
        Calendar((96, 672), 400, 1024, (24, 192), 0.7),
        Calendar((144, 1008), 500, 1024, (36, 192), 0.5),
        Calendar((288, 0), 500, 1024, (12, 192), 0.5),
        Calendar((18, 126), 150, 1024, (18, 126), 0.4),
        Calendar((-1, 0), 150, 1024, (8, 192), 1.0),
    ),
}


class Examples(NamedTuple):
    """A batch to learn from."""

    past: Tensor  # [groups, 8, context]
    observed: Tensor
    future: Tensor  # [groups, 8, horizon]
    scored: Tensor  # bool, as future
    seasons: Tensor  # int [groups, 2], as the network is told
    links: Tensor  # bool [groups]: whether the series of a group see each other


class Setting(NamedTuple):
    """What the families need to know of each series."""

    size: int  # number of series
    steps: int  # in all, the horizon too
    horizon: int
    first: Tensor  # [n, 1] true first season, 0 for none
    second: Tensor
    span: Tensor  # [n, 1] steps that are seen
    device: torch.device

    def part(self, index: Tensor) -> "Setting":
        """Take some series."""
        rows = (self.first[index], self.second[index], self.span[index])
        return Setting(len(index), self.steps, self.horizon, *rows, self.device)


# ---- random numbers -----------------------------------------------------------------------


def normal(*shape: int, device: torch.device) -> Tensor:
    """Draw normal numbers."""
    return torch.randn(*shape, device=device)


def uniform(n: int, low: float, high: float, device: torch.device) -> Tensor:
    """Draw one number per series, ``[n, 1]``."""
    return low + (high - low) * torch.rand(n, 1, device=device)


def log_uniform(n: int, low: float, high: float, device: torch.device) -> Tensor:
    """Draw one number per series, evenly on a logarithmic scale."""
    return uniform(n, math.log(low), math.log(high), device).exp()


def chance(n: int, p: float, device: torch.device) -> Tensor:
    """Draw one truth value per series, ``[n, 1]``."""
    return torch.rand(n, 1, device=device) < p


def pick(weights: Tensor, n: int) -> Tensor:
    """Draw indices."""
    return torch.multinomial(weights, n, replacement=True)


def unit(x: Tensor) -> Tensor:
    """Bring each series to mean 0 and deviation 1."""
    x = x - x.mean(1, keepdim=True)
    return x / (x.square().mean(1, keepdim=True).sqrt() + 1e-6)


# ---- parts ----------------------------------------------------------------------------------


def innovations(n: int, steps: int, device: torch.device) -> Tensor:
    """Draw white noise: normal, or with heavy tails, or skewed."""
    x = normal(n, steps, device=device)
    spread = uniform(n, 0.2, 1.1, device)
    heavy = x * (spread * (normal(n, steps, device=device) - spread)).exp()
    skewed = (x.abs() ** 1.5 - 0.86) * 0.9
    kind = torch.rand(n, 1, device=device)
    return torch.where(kind < 0.55, x, torch.where(kind < 0.9, heavy, skewed)).clamp(-30, 30)


def smooth(n: int, steps: int, scale: Tensor) -> Tensor:
    """Draw smooth paths whose values are alike over ``scale`` steps, from their spectrum."""
    device, size = scale.device, 2 * steps
    omega = torch.linspace(0, math.pi, size // 2 + 1, device=device)
    rough = uniform(n, 0.8, 3.0, device)
    power = (1 + (omega * scale).square()) ** -rough
    gauss = torch.exp(-0.5 * (omega * scale).square())
    power = torch.where(chance(n, 0.5, device), power, gauss) + 1e-12
    noise = torch.fft.rfft(normal(n, size, device=device))
    return unit(torch.fft.irfft(noise * power.sqrt(), n=size)[:, :steps])


def linear_scan(a: Tensor, b: Tensor) -> Tensor:
    """Compute x_t = a_t x_{t-1} + b_t for all t, in log(steps) passes."""
    shift, steps = 1, a.shape[1]
    while shift < steps:
        b = b + a * F.pad(b, (shift, 0))[:, :steps]
        a = a * F.pad(a, (shift, 0))[:, :steps]
        shift *= 2
    return b


def profile(n: int, device: torch.device) -> Tensor:
    """Draw one period of a season, ``[n, TABLE]``: smooth, rough, pulses or on and off."""
    order = torch.arange(1, TABLE // 2 + 1, device=device)
    decay = order ** -uniform(n, 0.3, 2.5, device)
    cut = order <= log_uniform(n, 1.0, 40.0, device).round()
    waves = torch.complex(*(normal(n, TABLE // 2, device=device) for _ in range(2))) * decay * cut
    waves = torch.cat([torch.zeros_like(waves[:, :1]), waves], 1)
    harmonic = unit(torch.fft.irfft(waves, n=TABLE))
    place = torch.arange(TABLE, device=device) / TABLE
    centre, width = torch.rand(n, 1, device=device), uniform(n, 0.02, 0.5, device)
    distance = ((place - centre + 0.5) % 1 - 0.5).abs()
    pulse = torch.exp(-0.5 * (distance / width * 2).square())
    day = (distance < width).float() * torch.cos(distance / width * math.pi / 2).clamp(min=0)
    on = (distance < width).float()
    kind = torch.rand(n, 1, device=device)
    shape = torch.where(kind < 0.12, pulse, torch.where(kind < 0.24, day, on))
    mixed = unit(shape) + 0.3 * chance(n, 0.5, device) * harmonic
    return unit(torch.where(kind < 0.65 * 0.48, mixed, harmonic))


def periodic(s: Setting, period: Tensor, wander: float = 0.0) -> Tensor:
    """Repeat a profile with a period; 0 where the period is 0. The phase may wander."""
    table = profile(s.size, s.device)
    t = torch.arange(s.steps, device=s.device) + 1000 * torch.rand(s.size, 1, device=s.device)
    turn = t / period.clamp(min=1)
    if wander:
        drift = smooth(s.size, s.steps, 3 * period.clamp(min=1)) * wander
        turn = turn + drift * uniform(s.size, 0, 1, s.device)
    place = (turn % 1) * TABLE
    low = place.floor().long().clamp(max=TABLE - 1)
    share = place - low
    value = table.gather(1, low) * (1 - share) + table.gather(1, (low + 1) % TABLE) * share
    return value * (period > 1)


def weekly(s: Setting) -> Tensor:
    """Return a factor for each day of a week, where the second season is seven of the first."""
    days = 1 + 0.3 * normal(s.size, 7, device=s.device)
    rest = uniform(s.size, 0, 1, s.device)
    weekend = torch.arange(7, device=s.device) >= 5
    days = torch.where(weekend & chance(s.size, 0.6, s.device), rest, days)
    offset = torch.randint(0, 10_000, (s.size, 1), device=s.device)
    step = torch.arange(s.steps, device=s.device) + offset
    day = (step // s.first.clamp(min=1).long()) % 7
    here = (s.second == 7 * s.first) & (s.first > 1)
    return torch.where(here, days.gather(1, day), 1.0)


def seasons(s: Setting) -> Tensor:
    """Return one or two seasons whose size slowly changes, of about unit size."""
    one = periodic(s, s.first)
    change = 1 + 0.5 * uniform(s.size, 0, 1, s.device) * smooth(
        s.size, s.steps, s.span * log_uniform(s.size, 0.1, 2, s.device)
    )
    other = periodic(s, s.first)
    blend = torch.sigmoid(smooth(s.size, s.steps, s.span * log_uniform(s.size, 0.2, 2, s.device)))
    evolving = one * blend + other * (1 - blend)
    one = torch.where(chance(s.size, 0.25, s.device), evolving, one) * change
    two = periodic(s, s.second) * log_uniform(s.size, 0.1, 1.5, s.device)
    return one * weekly(s) + torch.where(chance(s.size, 0.5, s.device), two, 0 * two)


def elapsed(s: Setting) -> Tensor:
    """Return time in spans, 0 at about the end of what is seen."""
    step = torch.arange(s.steps, device=s.device)
    return (step - (s.steps - s.horizon)) / s.span


def trend(s: Setting) -> Tensor:
    """Return a trend: none, straight, bent, saturating, a walk or smooth."""
    n, device, t = s.size, s.device, elapsed(s)
    slope = normal(n, 1, device=device)
    bend = -torch.rand(n, 1, device=device) * 1.2
    bent = slope * t + 1.5 * normal(n, 1, device=device) * (t - bend).clamp(min=0)
    middle, speed = uniform(n, -1, 0.3, device), log_uniform(n, 3, 30, device)
    saturating = slope * 2 * torch.sigmoid((t - middle) * speed)
    walk = normal(n, s.steps, device=device).cumsum(1) / s.span.sqrt()
    drifting = walk + slope * t
    slow = smooth(n, s.steps, s.span * log_uniform(n, 0.05, 1.0, device))
    momentum = linear_scan(
        uniform(n, 0.8, 0.995, device).expand(-1, s.steps), normal(n, s.steps, device=device)
    ).cumsum(1)
    momentum = momentum / (momentum[:, -1:] - momentum[:, :1]).abs().clamp(min=1)
    kinds = [0 * t, slope * t, bent, saturating, walk, drifting, slow, momentum]
    return choose(kinds, n, device) * log_uniform(n, 0.3, 3, device)


def choose(kinds: list[Tensor], n: int, device: torch.device) -> Tensor:
    """Take one of several paths for each series."""
    kind = torch.randint(len(kinds), (n, 1), device=device)
    out = kinds[0]
    for i, path in enumerate(kinds[1:], 1):
        out = torch.where(kind == i, path, out)
    return out


def noise(s: Setting) -> Tensor:
    """Return white or coloured noise."""
    x = innovations(s.size, s.steps, s.device)
    a = uniform(s.size, -0.4, 0.95, s.device)
    a = torch.where(chance(s.size, 0.5, s.device), 0.0, a)
    coloured = linear_scan(a.expand(-1, s.steps), x * (1 - a.square()).sqrt())
    swing = 1 + 0.6 * uniform(s.size, 0, 1, s.device) * periodic(s, s.first)
    return torch.where(chance(s.size, 0.15, s.device), coloured * swing, coloured)


# ---- families ---------------------------------------------------------------------------------


def additive(s: Setting) -> Tensor:
    """Trend + seasons + noise."""
    size = log_uniform(s.size, 0.005, 1.5, s.device)
    return trend(s) + seasons(s) + size * noise(s)


def multiplicative(s: Setting) -> Tensor:
    """Growth, times seasons, times noise."""
    swing = log_uniform(s.size, 0.05, 1.0, s.device)
    size = log_uniform(s.size, 0.003, 0.5, s.device)
    x = 0.6 * trend(s) + swing * seasons(s) + size * noise(s)
    return unit(x.clamp(-6, 6).exp().clamp(max=1e3))


def arma(s: Setting) -> Tensor:
    """Return a stable ARMA path, perhaps summed up, over steps and over seasons."""
    n, device, size = s.size, s.device, 2 * s.steps
    omega = torch.linspace(0, math.pi, size // 2 + 1, device=device)
    z = torch.polar(torch.ones_like(omega), -omega)
    response = torch.ones(n, len(omega), dtype=torch.complex64, device=device)
    for i in range(3):
        radius = uniform(n, 0.0, 1.0, device) ** 0.5 * 0.97 * chance(n, 0.6, device)
        angle = uniform(n, 0, math.pi, device) * chance(n, 0.5 if i else 0.3, device)
        near = (2 * math.pi / log_uniform(n, 3, 120, device)).clamp(max=math.pi)
        angle = torch.where(chance(n, 0.4, device), near, angle)
        pole, twin = torch.polar(radius, angle), torch.polar(radius, -angle)
        response = response / (1 - pole * z) / torch.where(angle > 0, 1 - twin * z, 1.0)
    ma = uniform(n, -0.9, 0.6, device) * chance(n, 0.6, device)
    response = response * (1 + ma * z)
    lag = s.first.clamp(min=1)
    strong = uniform(n, 0, 0.98, device) * chance(n, 0.6, device) * (s.first > 1)
    response = response / (1 - strong * torch.polar(torch.ones_like(lag), -lag * omega))
    x = torch.fft.irfft(torch.fft.rfft(innovations(n, size, device)) * response, n=size)
    x = unit(x[:, : s.steps])
    summed = x.cumsum(1) + uniform(n, -0.1, 0.1, device) * torch.arange(s.steps, device=device)
    x = choose([x, x, summed, unit(summed)], n, device)
    with_season = unit(x) + log_uniform(n, 0.1, 2, device) * seasons(s)
    return torch.where(chance(n, 0.3, device), with_season, x)


def regimes(s: Setting) -> Tensor:
    """Return paths that are drawn to a level which, like their noise, changes at times."""
    n, device = s.size, s.device
    rate = log_uniform(n, 0.5, 10, device) / s.span
    switch = torch.rand(n, s.steps, device=device) < rate
    number = switch.cumsum(1) % 16
    level = (normal(n, 16, device=device) * log_uniform(n, 0.3, 4, device)).gather(1, number)
    pull = log_uniform(n, 0.005, 0.8, device)
    vol = log_uniform(n, 0.02, 0.6, device) * (normal(n, 16, device=device) * 0.7).exp()
    shock = innovations(n, s.steps, device) * vol.gather(1, number) * pull.sqrt()
    x = linear_scan((1 - pull).expand(-1, s.steps), pull * level + shock)
    return x + 0.5 * chance(n, 0.4, device) * seasons(s)


def processes(s: Setting) -> Tensor:
    """Return sums and products of smooth random paths and seasons."""
    n, device = s.size, s.device

    def one() -> Tensor:
        free = smooth(n, s.steps, s.span * log_uniform(n, 0.01, 1.0, device))
        own = periodic(s, s.span * log_uniform(n, 0.02, 0.6, device))
        return choose([free, periodic(s, s.first), own, free], n, device)

    a, b, c = one(), one(), one()
    both = torch.where(chance(n, 0.5, device), a + b, a * (1 + 0.7 * b))
    return both + 0.5 * chance(n, 0.5, device) * c + log_uniform(n, 0.003, 0.7, device) * noise(s)


def walks(s: Setting) -> Tensor:
    """Return random walks, of prices too, whose noise comes and goes."""
    n, device = s.size, s.device
    calm = smooth(n, s.steps, log_uniform(n, 5, 200, device))
    shock = innovations(n, s.steps, device) * (uniform(n, 0, 1.0, device) * calm).exp()
    drift = uniform(n, -1, 1, device) * chance(n, 0.4, device) / s.span.sqrt()
    x = (shock + drift).cumsum(1) / s.span.sqrt()
    size = log_uniform(n, 0.1, 1.0, device)
    price = (size * x).clamp(-8, 8).exp()
    noisy = x + log_uniform(n, 0.01, 1.0, device) * innovations(n, s.steps, device)
    seasonal = x + log_uniform(n, 0.05, 1.0, device) * seasons(s)
    return choose([x, price, noisy, seasonal], n, device)


def steps(s: Setting) -> Tensor:
    """Return levels that jump and spikes, perhaps at regular times."""
    n, device = s.size, s.device
    jump = (torch.rand(n, s.steps, device=device) < log_uniform(n, 0.3, 8, device) / s.span).float()
    level = (jump * normal(n, s.steps, device=device)).cumsum(1) * log_uniform(n, 0.3, 3, device)
    often = torch.rand(n, s.steps, device=device) < log_uniform(n, 0.002, 0.08, device)
    spike = often * innovations(n, s.steps, device).abs() * log_uniform(n, 0.5, 8, device)
    fade = uniform(n, 0, 0.9, device) * chance(n, 0.5, device)
    spike = linear_scan(fade.expand(-1, s.steps), spike)
    spike = spike * torch.where(chance(n, 0.75, device), 1.0, -1.0)
    parts = [chance(n, 0.6, device) * level, chance(n, 0.6, device) * spike]
    x = sum(parts) + chance(n, 0.6, device) * seasons(s) * uniform(n, 0.2, 1, device)
    return x + log_uniform(n, 0.01, 0.6, device) * noise(s)


def rate(s: Setting) -> Tensor:
    """Return a positive rate of events, of mean 1."""
    swing = uniform(s.size, 0, 1.0, s.device)
    x = swing * seasons(s) + 0.7 * uniform(s.size, 0, 1, s.device) * trend(s)
    x = (x + 0.3 * uniform(s.size, 0, 1, s.device) * noise(s)).clamp(-5, 4).exp()
    return x / x.mean(1, keepdim=True)


def counts(s: Setting) -> Tensor:
    """Return counts of events, from rare to frequent, Poisson or more spread."""
    mean = rate(s) * log_uniform(s.size, 0.1, 200, s.device)
    shape = log_uniform(s.size, 0.5, 20, s.device)
    mixed = torch.distributions.Gamma(shape, shape).sample((s.steps,))[..., 0].T
    mean = torch.where(chance(s.size, 0.5, s.device), mean, mean * mixed)
    return torch.poisson(mean.clamp(0, 1e5))


def intermittent(s: Setting) -> Tensor:
    """Return demand: mostly none, then some of a random size."""
    n, device = s.size, s.device
    share = (rate(s) * log_uniform(n, 0.03, 0.8, device)).clamp(0, 0.98)
    sticky = uniform(n, 0, 0.8, device) * chance(n, 0.3, device)
    draw = linear_scan(sticky.expand(-1, s.steps), torch.rand(n, s.steps, device=device))
    draw = draw * (1 - sticky)
    demand = (draw < share).float()
    size = (normal(n, s.steps, device=device) * uniform(n, 0, 1, device)).exp()
    whole = (size * log_uniform(n, 1, 20, device)).ceil()
    growth = (0.5 * chance(n, 0.3, device) * trend(s)).clamp(-3, 3).exp()
    return demand * torch.where(chance(n, 0.8, device), whole, size * growth)


def bounded(s: Setting) -> Tensor:
    """Return paths that rest at a bound: zero at night, full at peak, closed on some days."""
    n, device = s.size, s.device
    weather = 1 + uniform(n, 0, 0.8, device) * noise(s)
    slow = 1 + 0.5 * smooth(n, s.steps, s.span)
    day = (seasons(s) + uniform(n, -0.7, 1.0, device)).clamp(min=0) * weather.clamp(min=0)
    solar = day * slow.clamp(min=0.1)
    x = additive(s)
    low = torch.quantile(x[:, ::7], 0.3, dim=1, keepdim=True)
    high = torch.quantile(x[:, ::7], 0.8, dim=1, keepdim=True)
    cut = torch.where(chance(n, 0.7, device), x.clamp(min=low), x)
    cut = torch.where(chance(n, 0.4, device), torch.minimum(cut, high), cut)
    open_days = periodic(s, s.first) > uniform(n, -1.0, 0.5, device)
    closed = (x - x.amin(1, keepdim=True)) * torch.where(s.first > 1, open_days, True)
    return choose([solar, solar, cut, closed], n, device)


def events(s: Setting) -> Tensor:
    """Return a usual course with events that come back with the season, and some that do not."""
    n, device = s.size, s.device
    period = torch.where(s.second > 1, s.second, s.first)
    period = torch.where(period > 1, period, s.span * 0.3)
    t = torch.arange(s.steps, device=device) + torch.randint(0, 1000, (n, 1), device=device)
    x = torch.zeros(n, s.steps, device=device)
    for _ in range(3):
        centre, width = uniform(n, 0, 1, device) * period, log_uniform(n, 0.5, 5, device)
        width = torch.minimum(width, period / 4)
        after = ((t - centre) % period) / width
        before = ((centre - t) % period) / width
        x = x + 2 * normal(n, 1, device=device) * torch.maximum((-after).exp(), (-2 * before).exp())
    rare = (torch.rand(n, s.steps, device=device) < 3 / s.span) * normal(n, s.steps, device=device)
    return additive(s) + log_uniform(n, 0.2, 2, device) * (x + 2 * rare)


def cycles(s: Setting) -> Tensor:
    """Return waves of no fixed length, such as those of business or of animals."""
    n, device = s.size, s.device
    period = torch.minimum(log_uniform(n, 3, 150, device), s.span * 0.7)
    table = profile(n, device)
    speed = (1 + 0.3 * uniform(n, 0, 1, device) * smooth(n, s.steps, period)).clamp(min=0.1)
    place = ((speed / period).cumsum(1) % 1) * TABLE
    low = place.floor().long().clamp(max=TABLE - 1)
    share = place - low
    wave = table.gather(1, low) * (1 - share) + table.gather(1, (low + 1) % TABLE) * share
    size = (0.6 * uniform(n, 0, 1, device) * smooth(n, s.steps, 1.5 * period)).exp()
    x = wave * size + log_uniform(n, 0.01, 0.6, device) * noise(s)
    grown = (uniform(n, 0.3, 1.5, device) * x).clamp(-6, 5).exp()
    return choose([x, grown, x + 0.7 * trend(s)], n, device)


FAMILIES: dict[str, Callable[[Setting], Tensor]] = {
    f.__name__: f
    for f in (
        additive, multiplicative, arma, regimes, processes, walks, steps, counts, intermittent,
        bounded, events, cycles,
    )
}  # fmt: skip


# ---- batches ----------------------------------------------------------------------------------


@torch.no_grad()
def draw(
    groups: int,
    patches: int,
    ahead: int,
    device: torch.device,
    families: dict[str, Callable[[Setting], Tensor]] = FAMILIES,
) -> Examples:
    """Draw groups of series with at most so many patches of context and of horizon."""
    context, ahead = patches * PATCH, ahead * PATCH
    calendars = CALENDARS[context <= 256]
    weights = torch.tensor([c.weight for c in calendars], device=device)
    kind = pick(weights, groups)
    numbers = torch.tensor([[*c.seasons, c.least, c.most, *c.horizon] for c in calendars])
    numbers = numbers.to(device).float()[kind]  # [groups, 6]
    longest = max(min(context // 2, 250), 8)
    any_season = log_uniform(groups, 2, longest, device).round()
    first = torch.where(numbers[:, :1] < 0, any_season, numbers[:, :1])
    true = torch.cat([first, numbers[:, 1:2]], 1)
    least, most = numbers[:, 2:3], numbers[:, 3:4].clamp(max=context)
    if context > 256:  # most of the patches are used
        least = least.clamp(min=context / 4, max=context)
    span = (least.log() + torch.rand(groups, 1, device=device) * (most / least).log()).exp()
    span = span.clamp(max=context)
    low, high = numbers[:, 4:5], numbers[:, 5:6].clamp(max=ahead)
    horizon = (low + torch.rand(groups, 1, device=device) * (high - low + 1)).floor()
    horizon = torch.minimum(horizon, (2 * span).ceil()).clamp(max=ahead)

    count = groups * GROUP
    each = torch.arange(groups, device=device).repeat_interleave(GROUP)
    present = ~chance(count, 0.15, device)  # a season may be absent though the calendar has it
    s = Setting(
        count,
        context + ahead,
        ahead,
        true[each, :1] * present,
        true[each, 1:] * present,
        span[each],
        device,
    )
    x = torch.empty(count, s.steps, device=device)
    order = torch.randperm(count, device=device)
    for family, index in zip(families.values(), order.tensor_split(len(families)), strict=True):
        x[index] = family(s.part(index)).float()
    x = unit(x.nan_to_num(0, 0, 0)).clamp(-1e4, 1e4)
    x = finish(x.view(groups, GROUP, -1), span)
    told = tell(true, device)
    x, links = link(x, device)
    past, future = x.split([context, ahead], 2)
    observed = holes(past, span, device)
    scored = (torch.arange(ahead, device=device) < horizon)[:, None].expand_as(future)
    return Examples(past * observed, observed, future, scored, told.long(), links)


def finish(x: Tensor, span: Tensor) -> Tensor:
    """Mix some series of a group, turn a few over, round some, and add wild values."""
    groups, _, total = x.shape
    device = x.device
    shape = (groups, GROUP, 1)

    def some(p: float) -> Tensor:
        return torch.rand(shape, device=device) < p

    other = x.roll(1, 1)
    weight = torch.rand(shape, device=device)
    x = torch.where(some(0.12), weight * x + (1 - weight) * other, x)
    x = torch.where(some(0.1), -x, x)
    x = torch.where(some(0.02), x.flip(2), x)
    grid = torch.exp(torch.rand(shape, device=device) * 3 - 3.5)
    x = torch.where(some(0.15), (x / grid).round() * grid, x)
    wild = torch.rand(groups, GROUP, total, device=device) < 2 / span[:, None]
    shock = wild * 6 * torch.randn(groups, GROUP, total, device=device)
    return x + some(0.06) * shock


def link(x: Tensor, device: torch.device) -> tuple[Tensor, Tensor]:
    """Let series of some groups follow each other, or share a factor; tell which see each other."""
    groups, _, total = x.shape
    kind = torch.rand(groups, 1, 1, device=device)
    system, factor, joint = LINKED
    step = torch.arange(total, device=device)
    made = [x[:, 0]]
    for j in range(1, GROUP):
        value = x[:, j] * torch.exp(torch.rand(groups, 1, device=device) * 3 - 2.5)
        for _ in range(2):
            source = torch.stack(made, 1)
            parent = torch.randint(j, (groups, 1, 1), device=device).expand(-1, 1, total)
            path = source.gather(1, parent)[:, 0]
            lag = torch.exp(torch.rand(groups, 1, device=device) * math.log(48)).floor().long()
            path = path.gather(1, (step - lag).clamp(min=0))
            bent = choose([path, path, path.clamp(min=0), (2 * path).tanh()], groups, device)
            strength = torch.randn(groups, 1, device=device)
            value = value + strength * (torch.rand(groups, 1, device=device) < 0.6) * bent
        made.append(unit(value))
    followers = torch.stack(made, 1)
    shuffle = torch.rand(groups, GROUP, device=device).argsort(1)
    followers = followers.gather(1, shuffle[..., None].expand(-1, -1, total))
    own = torch.exp(torch.rand(groups, GROUP, 1, device=device) * 3 - 2.5)
    load = 1 + 0.5 * torch.randn(groups, GROUP, 1, device=device)
    common = x[:, :1] * load + own * x
    x = torch.where(kind < system, followers, torch.where(kind < system + factor, common, x))
    return x, kind[:, 0, 0] < system + factor + joint


def tell(true: Tensor, device: torch.device) -> Tensor:
    """Return the seasons as the network is told: mostly true ones, sometimes none or wrong ones."""
    groups = len(true)
    wrong = torch.randint(2, 60, (groups, 1), device=device).float()
    wrong = torch.cat([wrong, torch.zeros_like(wrong)], 1)
    first_only = torch.cat([true[:, :1], torch.zeros_like(true[:, 1:])], 1)
    kind = torch.rand(groups, 1, device=device)
    told = torch.where(kind < 0.7, true, first_only)
    told = torch.where(kind > 0.85, torch.zeros_like(true), told)
    return torch.where(kind > 0.95, wrong, told)


def holes(past: Tensor, span: Tensor, device: torch.device) -> Tensor:
    """Return what is observed: the last steps of the past, save for a few holes."""
    groups, _, context = past.shape
    step = torch.arange(context, device=device)
    late = torch.where(torch.rand(groups, GROUP, 1, device=device) < 0.15,
                       torch.rand(groups, GROUP, 1, device=device), 1.0)  # fmt: skip
    length = (span[:, None] * late).clamp(min=6)
    seen = step >= context - length
    share = torch.rand(groups, GROUP, 1, device=device) ** 2 * 0.4
    gaps = torch.rand(groups, GROUP, context, device=device) < share
    runs = smooth(groups * GROUP, context, 0.05 * span.repeat_interleave(GROUP, 0) + 2)
    runs = runs.view(groups, GROUP, context) > 1.3
    some = torch.rand(groups, GROUP, 1, device=device)
    lost = torch.where(some < 0.08, gaps, torch.where(some < 0.13, runs, False))
    lost[..., -1] = False  # something is seen
    return seen & ~lost
