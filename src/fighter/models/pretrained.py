"""A network that has learned from synthetic series and forecasts series it has never seen.

Nodes are patches of 16 steps, of each series and of the horizon. Layers over the patches of a
series alternate with layers over the series at the same patch, on graphs drawn from the input. What
a patch holds is its values and, beside them, those one season earlier; a patch of the horizon holds
only the latter. A step's forecast is a weighted mean of simple ones (the last value, one season
earlier, …), whose weights the network chooses, plus a correction. All of it is affine in the past
once the graphs and gates are held constant.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .._typing import Bool, Float, Int
from ..nn import FighterLayer
from .embedding import feed_forward

PATCH, PATCHES, AHEAD = 16, 64, 12  # steps of a patch; most patches of the past and of the horizon
QUANTILES = (*(0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.975, 0.99),)
MEDIAN = QUANTILES.index(0.5)
SEASONS = 2  # that the network is told
PROFILE = 4  # seasons that the mean profile is taken over
LARGEST = 7.0  # of a forecast in asinh units: 548 deviations
CHANNELS = 9  # numbers that a patch holds for each of its steps
ANCHORS = 6  # simple forecasts of a step

Series = Float[Tensor, "batch series time"]
Steps = Float[Tensor, "batch series steps"]


class Lagged(NamedTuple):
    """Values some seasons before each step of the past and the horizon; the mask says if known."""

    last: Steps  # one season earlier; the mean profile where that is missing
    profile: Steps  # mean of the last seasons
    known: Bool[Tensor, "batch series steps"]


def lagged(
    x: Series, observed: Bool[Tensor, "batch series time"], season: Int[Tensor, "batch"], ahead: int
) -> Lagged:
    """Return the values one season, and those of several seasons, before each step.

    A step of the horizon looks back as many seasons as it takes to reach the past. Nothing is known
    where the season is 0.
    """
    length = x.shape[2]
    step = torch.arange(length + ahead, device=x.device)
    m = season.clamp(min=1)[:, None]
    back = torch.where(step < length, 1, (step - length) // m + 1)  # seasons
    total, count = (x.new_zeros(*x.shape[:2], length + ahead) for _ in range(2))
    last = seen_last = total
    for k in range(PROFILE):
        place = step - (back + k) * m
        inside = (place >= 0) & (season[:, None] > 0)
        index = place.clamp(min=0)[:, None].expand(-1, x.shape[1], -1)
        seen = (observed.gather(2, index) & inside[:, None]).to(x)
        value = x.gather(2, index) * seen
        if k == 0:
            last, seen_last = value, seen
        total, count = total + value, count + seen
    profile = total / count.clamp(min=1)
    return Lagged(last + (1 - seen_last) * profile, profile, count > 0)


class Block(nn.Module):
    """A Fighter layer, then a feed-forward network on each node."""

    def __init__(self, width: int, heads: int, kappa: int, hidden: int):
        super().__init__()
        self.layer = fighter_layer(width, heads, kappa)
        self.norm = nn.LayerNorm(width)
        self.feed = feed_forward(width, hidden * width)

    def forward(
        self, x: Float[Tensor, "rows nodes width"], mask: Bool[Tensor, "rows nodes"]
    ) -> Float[Tensor, "rows nodes width"]:
        """Map the nodes of each row."""
        x = self.layer(x, mask)
        return x + self.feed(self.norm(x))


def fighter_layer(width: int, heads: int, kappa: int) -> FighterLayer:
    """Build a layer on a graph with normalised queries and keys."""
    return FighterLayer(
        width,
        kappa=kappa,
        heads=heads,
        adjacency="cosine",
        norm=True,
        residual=True,
        project=True,
    )


class PretrainedNet(nn.Module):
    """Quantiles of any series, from its past and the lengths of its seasons.

    .. code-block:: text

        z = asinh((x - mean) / deviation)                       of the observed past
        forecast = mean + deviation · sinh(Σ w · anchors + a + r · b)

    The anchors are simple forecasts in the units of z: the mean, the last value, and, for both
    seasons, the values one season earlier and their mean over several seasons. Their weights w,
    which sum to 1, and the corrections a and b come from the network. r is the root of the mean
    squared change from step to step in deviations: smooth series get fine corrections.

    Args:
        width: width of a node (default: 256).
        layers: number of layers over patches (default: 6).
        kappa: powers of each graph (default: 3).
        heads: graphs of each layer (default: 8).
        hidden: width inside the feed-forward networks, in widths (default: 4).
        every: a layer over the series follows so many layers over patches (default: 2).
    """

    def __init__(
        self,
        width: int = 256,
        layers: int = 6,
        kappa: int = 3,
        heads: int = 8,
        hidden: int = 4,
        every: int = 2,
    ):
        super().__init__()
        self.linear = nn.Linear(CHANNELS * PATCH, width, bias=False)
        self.embed = feed_forward(CHANNELS * PATCH, 2 * width, width)
        self.position = nn.Parameter(0.02 * torch.randn(PATCHES + AHEAD, width))
        self.over_time = nn.ModuleList(Block(width, heads, kappa, hidden) for _ in range(layers))
        self.over_series = nn.ModuleList(
            fighter_layer(width, heads, kappa) for _ in range(layers // every)
        )
        self.every = every
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, PATCH * (2 * len(QUANTILES) + ANCHORS))

    def forward(
        self,
        past: Series,
        observed: Bool[Tensor, "batch series time"],
        seasons: Int[Tensor, "batch 2"],
        ahead: int,
        links: Bool[Tensor, "batch"] | None = None,
    ) -> Float[Tensor, "batch series horizon quantiles"]:
        """Forecast.

        Args:
            past: the values, a whole number of patches, at most ``PATCHES``.
            observed: where they are known.
            seasons: lengths of two seasons, the shorter one first; 0 for none.
            ahead: patches to forecast.
            links: whether the series of an example see each other (default: they do).
        """
        z, mean, deviation = self.units(past, observed)
        y = self.inside(z, observed, seasons, ahead, links)
        return mean[..., None] + deviation[..., None] * F.hardtanh(y, -LARGEST, LARGEST).sinh()

    def units(self, x: Series, observed: Bool[Tensor, "batch series time"]) -> tuple[Tensor, ...]:
        """Return z, and the mean and deviation of each series ``[batch, series, 1]``."""
        seen = observed.to(x)
        count = seen.sum(2, keepdim=True).clamp(min=1)
        mean = (x * seen).sum(2, keepdim=True) / count
        centred = (x - mean) * seen
        deviation = (centred.square().sum(2, keepdim=True) / count + 1e-10).sqrt()
        return (centred / deviation).asinh(), mean, deviation

    def inside(
        self,
        z: Series,
        observed: Bool[Tensor, "batch series time"],
        seasons: Int[Tensor, "batch 2"],
        ahead: int,
        links: Bool[Tensor, "batch"] | None = None,
    ) -> Float[Tensor, "batch series horizon quantiles"]:
        """Forecast in the units of z."""
        batch, series, length = z.shape
        steps = ahead * PATCH
        seen = observed.to(z)
        index = torch.arange(length, device=z.device)
        place = torch.where(observed, index, 0).amax(2, keepdim=True)
        last = z.gather(2, place)
        before = observed[..., :-1] & observed[..., 1:]
        change = ((z.diff(dim=2) * before).square().sum(2, keepdim=True)) / (
            before.sum(2, keepdim=True).clamp(min=1)
        )
        ratio = (change + 1e-6).sqrt()
        near = ((z - last) / (4 * ratio)).asinh() * seen
        first, second = (lagged(z, observed, season, steps) for season in seasons.unbind(1))
        nothing = z.new_zeros(batch, series, steps)
        rows = torch.stack(
            [
                torch.cat([z, nothing], 2),
                torch.cat([seen, nothing], 2),
                torch.cat([near, nothing], 2),
                first.last,
                first.profile,
                first.known.to(z),
                second.last,
                second.profile,
                second.known.to(z),
            ],
            -1,
        )  # [B, N, T, channels]
        tokens = (length + steps) // PATCH
        rows = rows.unflatten(2, (tokens, PATCH)).flatten(3)
        x = self.linear(rows) + self.embed(rows)
        x = x + self.position[PATCHES - length // PATCH :][:tokens]
        known = observed.unflatten(2, (-1, PATCH)).any(3)
        known = torch.cat([known, known.new_ones(batch, series, ahead)], 2)
        x = self.encode(x, known, links)
        out = self.head(self.norm(x[:, :, -ahead:])).unflatten(-1, (PATCH, -1)).flatten(2, 3)
        out = out.to(z)
        coarse, fine, logits = out.split([len(QUANTILES), len(QUANTILES), ANCHORS], -1)
        end = last.expand_as(nothing)
        simple = [nothing, end]
        for lag in (first, second):
            for values in (lag.last, lag.profile):
                simple.append(torch.where(lag.known, values, last)[..., length:])
        anchor = (torch.stack(simple, -1) * logits.softmax(-1)).sum(-1, keepdim=True)
        return anchor + coarse + ratio[..., None] * fine

    def encode(
        self,
        x: Float[Tensor, "batch series tokens width"],
        known: Bool[Tensor, "batch series tokens"],
        links: Bool[Tensor, "batch"] | None,
    ) -> Float[Tensor, "batch series tokens width"]:
        """Run the layers: over the patches of a series, and over the series at a patch."""
        batch, series, tokens, _ = x.shape
        own = torch.eye(series, dtype=torch.bool, device=x.device)
        pairs = known.transpose(1, 2)[:, :, None].expand(-1, -1, series, -1)
        if links is not None:
            pairs = pairs & links[:, None, None, None]
        pairs = (pairs | own).flatten(0, 1)[:, None]  # [B·T, 1, N, N]
        mask = known.flatten(0, 1)
        across = iter(self.over_series)
        for i, block in enumerate(self.over_time):
            x = block(x.flatten(0, 1), mask).unflatten(0, (batch, series))
            if (i + 1) % self.every == 0:
                rows = x.transpose(1, 2).flatten(0, 1)
                x = next(across)(rows, pairs).unflatten(0, (batch, tokens)).transpose(1, 2)
        return x
