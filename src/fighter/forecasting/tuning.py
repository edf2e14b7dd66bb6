"""Fine-tune the pretrained network on the rows of a table, where that clearly helps.

The network learns from windows before the validation rows and forecasts the validation rows before
and after training. Weights between the old and the new ones are tried as well. The old ones stay
unless others are clearly better.
"""

import copy
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from .._typing import Bool, Float, Int
from ..data import Panel, Windows
from ..models.pretrained import PATCH, PretrainedNet
from ..models.pretrained_loss import relative_losses
from ..models.zero_shot import (
    CONTEXT,
    HORIZONS,
    LENGTHS,
    cut_windows,
    load_network,
    round_up,
    tell,
)
from .alone import is_linked
from .autoconfig import Plan
from .config import Training
from .rehearsal import recent

# A round takes 4,096 nodes on a CPU; after each the validation rows are forecast.
ROUNDS, PATIENCE = 5, 2  # rounds at most, and rounds without a lower loss
RATE = 1e-4
# Nodes of the network: of a step, of a round and of the forecasts of validation rows.
STEP, ROUND, TEST = ({"cpu": n, "cuda": 16 * n} for n in (2**9, 2**12, 2**12))
GROUP = 8  # series that see each other in training, if they do
SHARES = (0.3, 0.6)  # of the new weights that are tried, besides all of them
LEAST_GAIN = 0.01  # share by which the loss must fall
SURE = 2.0  # standard errors by which it must fall
CLIP = 1.0  # largest norm of a gradient


class Cells(NamedTuple):
    """Forecasts to learn from or to test: after ``rows``, of the series where there is a target."""

    rows: Int[Tensor, "origins"]
    usable: Bool[Tensor, "origins series"]
    places: Int[Tensor, "forecasts 2"]  # where usable is true

    @classmethod
    def of(cls, windows: Windows) -> "Cells":
        """Return the forecasts that (recent) windows stand for."""
        windows = recent(windows)
        series = torch.arange(windows.values.shape[1], device=windows.device)
        usable = (windows.targets_of(series) > 0).cpu()
        return cls((windows.starts + windows.lookback).cpu(), usable, torch.nonzero(usable))


class Examples(NamedTuple):
    """A batch to forecast, and its truth, both at level 0 and with deviation 1."""

    past: Float[Tensor, "batch series time"]
    observed: Bool[Tensor, "batch series time"]
    future: Float[Tensor, "batch series steps"]
    scored: Bool[Tensor, "batch series steps"]


@dataclass(frozen=True)
class Tuned:
    """Weights that won, how much of the new ones is in them, and by which share the loss fell."""

    network: PretrainedNet | None  # None if the old ones stay
    share: float = 0.0
    gain: float = 0.0

    def describe(self) -> str:
        """Say what was chosen."""
        change = f"the loss on validation rows {'fell' if self.gain >= 0 else 'rose'} by "
        change += f"{100 * abs(self.gain):.1f} %"
        if self.network is None:
            return f"{change}: the pretrained weights stay"
        return f"{change} with {100 * self.share:.0f} % of the new weights"


class Table:
    """The rows of a table as the network takes them."""

    def __init__(self, plan: Plan, panel: Panel, device: torch.device, linked: bool):
        self.values = torch.from_numpy(panel.values).double()
        self.seen = torch.from_numpy(panel.observed)
        self.begin = torch.where(self.seen.any(0), self.seen.int().argmax(0), len(self.seen))
        self.horizon, self.device, self.linked = plan.horizon, device, linked
        self.ahead = round_up(plan.horizon, HORIZONS)
        self.told = tell(plan.seasons).to(device)

    def patches(self, rows: Tensor, series: Tensor) -> Int[Tensor, "batch"]:
        """Return how many patches of the past each forecast looks back at."""
        length = (rows[:, None] - self.begin[series]).amax(1).clamp(1, CONTEXT)
        return torch.tensor([round_up(int(n), LENGTHS) for n in length])

    def examples(
        self, rows: Int[Tensor, "batch"], series: Int[Tensor, "batch some"], usable: Tensor
    ) -> Examples:
        """Return look-backs and futures; ``usable`` says which series are scored."""
        steps = int(self.patches(rows, series).max()) * PATCH
        z, known, level, unit = cut_windows(self.values, self.seen, rows, series, steps)
        step = torch.arange(self.ahead * PATCH)
        index = (rows[:, None] + step)[:, None]
        inside = (index < len(self.values)) & (step < self.horizon)
        index = index.clamp(max=len(self.values) - 1)
        scored = self.seen[index, series[..., None]] & inside & usable[..., None]
        scored = scored & known.any(2, keepdim=True)
        future = (self.values[index, series[..., None]] - level) / unit
        future = torch.where(scored, future, 0.0).clamp(-1e6, 1e6).float()
        return Examples(*(each.to(self.device) for each in (z, known, future, scored)))

    def losses(self, network: PretrainedNet, examples: Examples) -> Float[Tensor, "batch some"]:
        """Return the loss of each series."""
        kind = self.device.type
        with torch.autocast(kind, torch.bfloat16, enabled=kind == "cuda"):
            told = self.told.expand(len(examples.past), -1)
            return relative_losses(network, *examples, told)

    def draw(self, cells: Cells, generator: torch.Generator) -> Examples:
        """Draw a batch of about as many nodes as a step has."""
        origin, series = cells.places.unbind(1)
        first = int(torch.randint(len(origin), (1,), generator=generator))
        nodes = int(self.patches(cells.rows[origin[first], None], series[first, None, None]))
        size = max(STEP[self.device.type] // (nodes + self.ahead), 1)
        if not self.linked:
            picked = torch.randint(len(origin), (size,), generator=generator)
            o, s = origin[picked], series[picked][:, None]
        else:
            group = min(GROUP, len(self.begin))
            picked = torch.randint(len(origin), (-(-size // group),), generator=generator)
            o = origin[picked]
            order = torch.rand(len(o), len(self.begin), generator=generator)
            order[torch.arange(len(o)), series[picked]] = -1.0
            s = order.argsort(1)[:, :group]
        return self.examples(cells.rows[o], s, cells.usable[o[:, None], s])

    def tests(self, cells: Cells) -> Iterator[tuple[Tensor, Tensor, Examples]]:
        """Yield the origins and series of a sample of forecasts, and their examples."""
        count = len(self.begin)
        every = torch.arange(count)[None]
        nodes = int(self.patches(cells.rows[-1:], every)) + self.ahead
        most = max(TEST[self.device.type] // nodes, 2)
        if self.linked:  # all series after few rows
            picked = torch.linspace(0, len(cells.rows) - 1, max(most // count, 2)).long().unique()
            for o in picked[:, None]:
                yield o, every, self.examples(cells.rows[o], every, cells.usable[o])
            return
        order = torch.randperm(len(cells.places), generator=torch.Generator().manual_seed(0))
        for some in cells.places[order[:most]].split(max(STEP[self.device.type] // nodes, 1)):
            o, s = some[:, 0], some[:, 1:]
            yield o, s, self.examples(cells.rows[o], s, cells.usable[o[:, None], s])


class Trial:
    """Forecasts of validation rows, and the losses that networks have on them."""

    def __init__(self, table: Table, cells: Cells):
        self.table, self.parts = table, [*table.tests(cells)]
        self.scored = torch.cat([part.scored.any(-1).flatten() for *_, part in self.parts]).cpu()
        origin = torch.cat([o[:, None].expand_as(s).flatten() for o, s, _ in self.parts])
        series = torch.cat([s.flatten() for _, s, _ in self.parts])
        self.origin, self.series = origin[self.scored], series[self.scored]
        rows = cells.rows
        self.windows = 1 + float(rows[-1] - rows[0]) / table.horizon  # that do not overlap

    @torch.no_grad()
    def losses(self, network: PretrainedNet) -> Float[Tensor, "forecasts"]:
        """Return the loss of each forecast."""
        parts = [self.table.losses(network, part).flatten() for *_, part in self.parts]
        return torch.cat(parts).cpu().double()[self.scored]

    def error(self, difference: Float[Tensor, "forecasts"]) -> float:
        """Return the standard error of a mean difference, infinite where nothing tells it.

        It is the larger one of that over the series and that over the windows.
        """
        found = [0.0]
        count = len(self.series.unique())
        if count > 1:
            found.append(float(_means(difference, self.series).std()) / count**0.5)
        if self.windows >= 2 and len(self.origin.unique()) > 1:
            found.append(float(_means(difference, self.origin).std()) / self.windows**0.5)
        return max(found) if len(found) > 1 else float("inf")


def _means(x: Tensor, group: Tensor) -> Tensor:
    """Return the mean of each group."""
    _, place, count = group.unique(return_inverse=True, return_counts=True)
    return x.new_zeros(len(count)).index_add_(0, place, x) / count


def tune(
    plan: Plan,
    panel: Panel,
    training: Windows,
    validation: Windows,
    settings: Training,
    *,
    start: PretrainedNet | None,
    seed: int,
) -> Tuned:
    """Fine-tune on the training windows; keep what is better on the validation windows.

    ``start`` are the weights to begin with (default: those of the package).
    """
    device = training.device
    table = Table(plan, panel, device, is_linked(plan, panel.n_series))
    cells, last = Cells.of(training), Cells.of(validation)
    old = load_network(str(device)) if start is None else start.to(device)
    if not len(cells.places) or not len(last.places):
        return Tuned(None)
    test = Trial(table, last)
    before = test.losses(old)
    best, losses = _train(table, cells, test, (old, before), settings, seed)
    found = {1.0: (best, losses)}
    for share in SHARES:
        network = mix(old, best, share)
        found[share] = network, test.losses(network)
    share = min(found, key=lambda each: float(found[each][1].mean()))
    network, losses = found[share]
    saved = before - losses
    gain = float(saved.mean() / before.mean().clamp(min=1e-9))
    if gain < LEAST_GAIN or float(saved.mean()) < SURE * test.error(saved):
        return Tuned(None, 0.0, round(gain, 4))
    return Tuned(network, share, round(gain, 4))


def _train(
    table: Table,
    cells: Cells,
    test: Trial,
    start: tuple[PretrainedNet, Tensor],
    settings: Training,
    seed: int,
) -> tuple[PretrainedNet, Tensor]:
    """Train for some rounds; return the weights after the best one, and their losses."""
    network = copy.deepcopy(start[0]).requires_grad_(True)
    rate = RATE if settings.lr is None else settings.lr
    optimiser = torch.optim.AdamW(network.parameters(), lr=rate, weight_decay=0.0)
    generator = torch.Generator().manual_seed(seed)
    rounds, patience = settings.max_epochs or ROUNDS, settings.patience or PATIENCE
    (best, losses), lowest, since = start, float("inf"), 0
    begin = time.monotonic()
    for number in range(rounds):
        nodes, most = 0, ROUND[table.device.type]
        while nodes < most:
            examples = table.draw(cells, generator)
            done = number + nodes / most  # rounds
            for group in optimiser.param_groups:  # warms up over a quarter of a round
                group["lr"] = rate * min(1.0, 4 * done + 0.1) * max(1 - done / rounds, 0.05)
            each = table.losses(network, examples)
            optimiser.zero_grad(set_to_none=True)
            (each.sum() / examples.scored.any(-1).sum().clamp(min=1)).backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), CLIP)
            optimiser.step()
            batch, series, steps = examples.past.shape
            nodes += batch * series * (steps // PATCH + table.ahead)
        tried = test.losses(network)
        since += 1
        if float(tried.mean()) < lowest:
            kept = copy.deepcopy(network).requires_grad_(False)
            best, lowest, losses, since = kept, float(tried.mean()), tried, 0
        late = settings.time_budget and time.monotonic() - begin > settings.time_budget
        if since >= patience or late:
            break
    return best, losses


def mix(old: PretrainedNet, new: PretrainedNet, share: float) -> PretrainedNet:
    """Return weights between two networks."""
    network = copy.deepcopy(old)
    with torch.no_grad():
        for ours, theirs in zip(network.parameters(), new.parameters(), strict=True):
            ours.lerp_(theirs, share)
    return network
