"""Forecasts by the pretrained network: of any series, after any row, without training.

Nothing is learned from the table, so every row is an honest test of the forecast made before it.
With its graphs and gates frozen, a forecast is an affine map of the values before it, and can be
split over them exactly.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import safe_open
from torch import Tensor

from .._typing import Bool, Float, Int
from .base import ModelConfig
from .naive import RepeatLastNet
from .pretrained import AHEAD, MEDIAN, PATCH, PATCHES, QUANTILES, PretrainedNet
from .smoothing import Observed, Values

WEIGHTS = Path(__file__).with_name("pretrained.safetensors")
CONTEXT = PATCH * PATCHES  # rows that it looks back at
LENGTHS = (2, 4, 8, 16, 32, PATCHES)  # patches that look-backs are padded to
HORIZONS = (2, 4, AHEAD)  # patches that were forecast in training
TOKENS_AT_ONCE = {"cpu": 2**8, "cuda": 2**17}
MOST_LINKED = 128  # series that see each other
# Real series are less regular than synthetic ones: quantiles lie further from the median by the
# first number plus the second by the root of the number of values. Chosen on development tables.
WIDEST = (1.2, 2.0)
CONSTANT = 0.01  # deviation of what follows constant values, as a share of these

Forecasts = Float[Tensor, "origins horizon series outputs"]
Levels = Float[Tensor, "batch horizon levels"]


@dataclass(frozen=True, kw_only=True)
class Pretrained(ModelConfig):
    """The pretrained network, which forecasts without training: see :func:`zero_shot`.

    It stands beside the frame, whose core only repeats the last value and is not used. ``fit``
    weighs it with smoothing.

    Args:
        tune: ``fit`` also trains its weights further, and keeps them if they are clearly better on
            the validation rows (default: True).
    """

    name, column, network = "pretrained", "Pretrained", RepeatLastNet
    trainable = False
    tune: bool = True


@cache
def network_options() -> dict[str, int]:
    """Return the size of the network with the weights of this package."""
    with safe_open(WEIGHTS, "pt") as file:
        return json.loads(file.metadata()["options"])


@cache
def load_network(device: str = "cpu") -> PretrainedNet:
    """Load the network with the weights of this package, once for each device."""
    with safe_open(WEIGHTS, "pt") as file:
        weights = {name: file.get_tensor(name).float() for name in file.keys()}  # noqa: SIM118
    network = PretrainedNet(**network_options())
    network.load_state_dict(weights)
    return network.eval().requires_grad_(False).to(device)


@cache
def digest() -> str:
    """Return a checksum of the weights: a saved model needs those that it was fitted with."""
    return hashlib.sha256(WEIGHTS.read_bytes()).hexdigest()[:16]


def count_tokens(rows: int, horizon: int) -> int:
    """Return how many nodes a forecast after so many rows takes; its time grows with them."""
    return round_up(min(rows, CONTEXT), LENGTHS) + round_up(horizon, HORIZONS)


@torch.no_grad()
def zero_shot(
    values: Values,
    observed: Observed,
    seasons: Sequence[int],
    horizon: int,
    rows: Int[Tensor, "origins"],
    levels: Sequence[float] = (),
    device: torch.device | str = "cpu",
    linked: bool = False,
    mean: bool = False,
    tuned: PretrainedNet | None = None,
) -> Forecasts:
    """Forecast every series after its first ``rows`` rows: the point, then the quantiles.

    The point is the median, or the ``mean`` of the quantiles.

    Forecasts are in the units of the values; those of a series of which nothing was observed yet
    are 0. ``seasons`` are the lengths of at most two seasons. ``linked`` lets the series see each
    other, if they are not too many. ``tuned`` has other weights than those of the package.
    """
    kind = torch.device(device).type
    network = load_network(str(device)) if tuned is None else tuned
    weigh = _to_levels(levels)
    normal = torch.special.ndtri(torch.tensor(levels, dtype=torch.float64))
    x, seen, rows = values.double().cpu(), observed.cpu(), rows.cpu()
    outputs = x.new_zeros(len(rows), horizon, x.shape[1], 1 + len(levels))
    told = tell(seasons).to(device)
    for origin, series, patches in _examples(seen, rows, linked):
        nodes = series.shape[1] * (patches + round_up(horizon, HORIZONS))
        size = max(TOKENS_AT_ONCE[kind] // nodes, 1)
        for o, s in zip(origin.split(size), series.split(size), strict=True):
            # A forecast must not depend on what is forecast beside it, not even by rounding.
            full = (torch.arange(size) % len(o)).to(device)
            z, known, level, unit = cut_windows(x, seen, rows[o], s, patches * PATCH)
            with torch.autocast(kind, torch.bfloat16, enabled=kind == "cuda"):
                y = paths(network, z.to(device)[full], known.to(device)[full], told, horizon)
            y = y[: len(o)]
            y = (y.cpu().double() * unit[..., None] + level[..., None]).transpose(1, 2)
            middle = y[..., MEDIAN, None]
            point = (y @ point_weights(mean).double())[..., None]
            wider = WIDEST[0] + WIDEST[1] * known.sum(2).clamp(min=1).rsqrt()
            widths = wider[:, None, :, None] * (y.sort(-1).values @ weigh - middle)
            own = CONSTANT * torch.where(level == 0, 1.0, level.abs()).transpose(1, 2)[..., None]
            constant = ~z.any(2)[:, None, :, None]
            y = middle + torch.where(constant, own * normal, widths)
            some = o[:, None, None], torch.arange(horizon)[:, None], s[:, None]
            outputs[some] = torch.cat([point, y], -1)
    return outputs


def paths(
    network: PretrainedNet,
    z: Float[Tensor, "batch series time"],
    known: Bool[Tensor, "batch series time"],
    seasons: Int[Tensor, "1 2"],
    horizon: int,
) -> Float[Tensor, "batch series horizon quantiles"]:
    """Forecast any number of steps: beyond the longest horizon, medians are looked back at.

    The spread of later steps includes that of the last step before.
    """
    ahead = round_up(horizon, HORIZONS)
    told = seasons.expand(len(z), -1)
    y = network(z, known, told, ahead)[:, :, :horizon].float()
    steps = y.shape[2]
    if steps == horizon:
        return y
    z = torch.cat([z, y[..., MEDIAN]], 2)[..., -CONTEXT:]
    known = torch.cat([known, known.new_ones(*y.shape[:3])], 2)[..., -CONTEXT:]
    later = paths(network, z, known, seasons, horizon - steps)
    middle = later[..., MEDIAN, None]
    before = y[:, :, -1:] - y[:, :, -1:, MEDIAN, None]
    spread = torch.hypot(later - middle, before) * torch.sign(torch.tensor(QUANTILES) - 0.5).to(y)
    return torch.cat([y, middle + spread], 2)


class LookBack(NamedTuple):
    """What the network looks back at for one forecast, at level 0 and with deviation 1."""

    z: Float[Tensor, "series time"]
    known: Bool[Tensor, "series time"]
    level: Float[Tensor, "series 1"]
    unit: Float[Tensor, "series 1"]
    series: Int[Tensor, "series"]  # places of these series in the table


def look_back(values: Values, observed: Observed, series: int, linked: bool) -> LookBack:
    """Return the look-back of the forecast of a series after the last row."""
    rows = torch.tensor([len(values)])
    for _, places, patches in _examples(observed, rows, linked):
        own = (places == series).any(1)
        if own.any():
            places = places[own]
            z, known, level, unit = cut_windows(
                values.double(), observed, rows, places, patches * PATCH
            )
            return LookBack(z[0], known[0], level[0], unit[0], places[0])
    raise ValueError(f"nothing is observed of series {series}")


@cache
def point_weights(mean: bool) -> Float[Tensor, "quantiles"]:
    """Return how much each quantile counts in the point: the median alone, or all in the mean.

    In the mean, each stands for the probabilities that are nearest to its own.
    """
    levels = torch.tensor(QUANTILES)
    if not mean:
        return (levels == levels[MEDIAN]).float()
    borders = torch.cat([torch.zeros(1), (levels[1:] + levels[:-1]) / 2, torch.ones(1)])
    return borders.diff()


def tell(seasons: Sequence[int]) -> Int[Tensor, "1 2"]:
    """Return the first two seasons as the network takes them."""
    return torch.tensor([([*seasons, 0, 0])[:2]])


def cut_windows(
    x: Values,
    seen: Observed,
    rows: Int[Tensor, "batch"],
    series: Int[Tensor, "batch some"],
    steps: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Cut look-backs, and bring them to level 0 and deviation 1 in double precision.

    The network does so too, in single precision, which large levels would not survive.
    """
    index = (rows[:, None] - steps + torch.arange(steps))[:, None]
    inside, index = index >= 0, index.clamp(min=0)
    known = seen[index, series[..., None]] & inside
    z = torch.where(known, x[index, series[..., None]], 0.0)
    count = known.sum(2, keepdim=True).clamp(min=1)
    level = z.sum(2, keepdim=True) / count
    z = torch.where(known, z - level, 0.0)
    largest = z.abs().amax(2, keepdim=True)  # its square could overflow
    unit = torch.where(largest > 0, largest, 1.0)
    unit = unit * ((z / unit).square().sum(2, keepdim=True) / count).sqrt()
    unit = torch.where(unit > 0, unit, torch.maximum(level.abs(), torch.ones_like(level)) * 1e-6)
    return (z / unit).float(), known, level, unit


def _examples(
    seen: Observed, rows: Int[Tensor, "origins"], linked: bool
) -> Iterator[tuple[Int[Tensor, "batch"], Int[Tensor, "batch some"], int]]:
    """Yield origins, and the series of each that see each other, with their number of patches."""
    begin = torch.where(seen.any(0), seen.int().argmax(0), len(seen))
    length = (rows[:, None] - begin).clamp(max=CONTEXT)  # [origins, N]
    if linked and seen.shape[1] <= MOST_LINKED:
        for origin in range(len(rows)):
            series = torch.nonzero(length[origin] > 0)[:, 0]
            if len(series):
                longest = int(length[origin].max())
                yield torch.tensor([origin]), series[None], round_up(longest, LENGTHS)
        return
    least = 0
    for patches in LENGTHS:
        origin, series = torch.nonzero((length > least) & (length <= patches * PATCH)).unbind(1)
        least = patches * PATCH
        if len(origin):
            yield origin, series[:, None], patches


def round_up(steps: int, patches: Sequence[int]) -> int:
    """Return the smallest number of patches that holds the steps, or the largest there is."""
    return next((n for n in patches if n * PATCH >= steps), patches[-1])


def _to_levels(levels: Sequence[float]) -> Float[Tensor, "quantiles levels"]:
    """Return how quantiles of any level are mixed from those of the network.

    They are interpolated as if the distribution were normal between neighbours, and beyond them.
    """
    have, want = (
        torch.special.ndtri(torch.tensor(q, dtype=torch.float64)) for q in (QUANTILES, [*levels])
    )
    place = torch.searchsorted(have, want).clamp(1, len(have) - 1)
    share = ((want - have[place - 1]) / (have[place] - have[place - 1]))[:, None]
    one = torch.eye(len(have), dtype=torch.float64)
    return (one[place - 1] * (1 - share) + one[place] * share).T
