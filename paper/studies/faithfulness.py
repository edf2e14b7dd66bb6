"""How faithful attributions are: ours beside attention, rollout and gradients, on one model.

On the generated grid the truth is known: do the links and their delays come out? On any data the
model itself can be asked: does the forecast change when the past values that are said to matter
are taken away? Every method is read in the same way, by the mean |score| of a past value.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from fighter.benchmark.runs import Environment
from fighter.data import GridLoad, grid_load, to_panel
from fighter.data.datasets import catalogue
from fighter.data.files import import_pandas
from fighter.data.windows import Batch
from fighter.forecasting.forecaster import Forecaster
from fighter.models import ForecastNet

from .attributions import (
    Function,
    forecast_parts,
    frozen_input,
    gradient_input,
    integrated_gradients,
    layer_graphs,
    over_inputs,
    rollout,
)

LONGEST_LAG = 12  # of the grid's links
FRACTIONS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0)
STEPS = (1, 6, 24, 96)  # of the forecasts whose past is taken away
SUBSETS, SUBSET = 24, 0.1  # random sets of past values, and their size

Scores = dict[str, Tensor]
Result = dict[str, Any]


def settings(
    data: str,
    options: Mapping[str, Any],
    *,
    seed: int,
    windows: int,
    test: int,
    rows: int | None = None,
) -> Result:
    """All that a run depends on.

    ``data`` is "grid" or a name of the catalogue, ``options`` are the forecaster's, ``test`` the
    number of last rows, which it does not see and ``windows`` windows of which are explained.
    Seed: of the weights, and of the grid too. ``rows``: the first only.
    """
    return {**locals(), "options": dict(options)}


def perform(settings: Mapping[str, Any], place: Environment) -> Result:
    """Train, explain and score."""
    seed, test, grid = settings["seed"], settings["test"], None
    if settings["data"] == "grid":
        grid = grid_load(settings["rows"] or 26 * 7 * 24, seed=seed)
        columns = dict(zip(grid.zones, grid.load.T, strict=True))
        table = import_pandas().DataFrame({"ds": grid.times, **columns})
    else:
        table = catalogue.load(settings["data"], place.data_dir, clean=True)[: settings["rows"]]
    model = Forecaster(**settings["options"], seed=seed, device=place.device, verbose=False)
    model.fit(table[:-test])
    sample = Sample.draw(model, table, test, settings["windows"], seed)
    truth = {} if grid is None else {"planted": planted(sample, grid)}
    return {
        "validation": min(record["validation"] for record in model.history),
        "test": float(model.evaluate(table, last=test)["scaled_mae"].mean()),
        "epochs": len(model.history),
        **truth,
        "removal": removal(sample),
    }


@dataclass(frozen=True, eq=False)
class Sample:
    """Windows to explain, and the network that forecasts them."""

    network: ForecastNet
    batch: Batch
    position: Tensor
    ids: tuple
    generator: torch.Generator

    @classmethod
    def draw(cls, model: Forecaster, table: Any, last: int, count: int, seed: int) -> "Sample":
        """``count`` windows with targets in the ``last`` rows, from first to last."""
        panel, preparation = model.preparation.align(to_panel(table), ""), model.preparation
        device = next(model.network.parameters()).device
        rows = slice(panel.length - last, None)
        windows = preparation.windows(panel, model.plan, device, preparation.scaler, rows)
        batch = windows.gather(torch.linspace(0, len(windows) - 1, count).long())
        position = batch.start + preparation.start_step(panel)
        generator = torch.Generator().manual_seed(seed)
        return cls(model.network.eval(), batch, position, panel.ids, generator)

    @cached_property
    def parts(self) -> tuple[Tensor, Function]:
        """The windows ``[B, L, N]`` and their forecast function to ``[B, H, N, outputs]``."""
        return forecast_parts(self.network, self.batch, self.position)

    @cached_property
    def graphs(self) -> list[Tensor]:
        """A of every layer, heads averaged."""
        z, forecast = self.parts
        return layer_graphs(self.network, lambda: forecast(z))

    def scores(self, series: int, step: int) -> Scores:
        """What each method makes of the past ``[B, L, N]`` of one series' step (from 0)."""
        z, forecast = self.parts

        def target(z: Tensor) -> Tensor:
            return forecast(z)[:, step, series, 0]

        return {
            "ours": frozen_input(target, z),
            "integrated gradients": integrated_gradients(target, z),
            "gradient × input": gradient_input(target, z),
            "rollout": over_inputs(rollout(self.graphs), self.network, series),
            "attention": over_inputs(self.graphs[-1], self.network, series),
            "random": torch.rand(z.shape, generator=self.generator).to(z),
        }

    @torch.no_grad()
    def single_removals(self, steps: int) -> Tensor:
        """The change of the first steps' forecasts when one past value becomes the mean of its
        look-back: ``[L, N, B, steps, N]``.
        """
        z, forecast = self.parts
        before, changes = forecast(z)[:, :steps, :, 0], []
        for row in range(z.shape[1]):
            for series in range(z.shape[2]):
                without = z.clone()
                without[:, row, series] = 0
                changes.append(before - forecast(without)[:, :steps, :, 0])
        return torch.stack(changes).unflatten(0, z.shape[1:])


# ---- planted links ------------------------------------------------------------------------


def planted(sample: Sample, grid: GridLoad) -> dict[str, dict[str, float]]:
    """How well links and lags of the grid come out, by method.

    A link of lag d shows in the steps 1 … d, in which its source has been observed; all of them are
    explained (of a zone without a source, 12). "removals" is what single removals, that is the
    model itself, would find: no attribution of a model can be expected to find more.

    - series: mean |Σ over lags of the scores| (net, as scores add up; "gross": Σ over lags of the
      mean |score|), as a share of all series', averaged over steps. AUROC and precision at k (as
      many as there are links) over all pairs of two zones, against the direct links, and with
      those over other zones;
    - lag: AUROC of the planted lag among all lags of the source; whether the highest is within 1 h;
    - cell: AUROC of (source, planted lag) among all past values of other zones;
    - use: correlation of |score| and |change by removal| over the past values of a window.
    """
    z, ids = sample.parts[0], sample.ids
    lookback, count = z.shape[1:]
    changes = sample.single_removals(LONGEST_LAG)
    net: dict[str, Tensor] = defaultdict(lambda: torch.zeros(count, count))  # row: target
    gross: dict[str, Tensor] = defaultdict(lambda: torch.zeros(count, count))
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    direct = torch.zeros(count, count, dtype=torch.bool)
    for link in grid.links:
        direct[ids.index(link.target), ids.index(link.source)] = True
    lags = {ids.index(link.target): link.lag for link in grid.links}
    for target in range(count):
        source, lag = int(direct[target].int().argmax()), lags.get(target)
        elsewhere = torch.arange(count) != target
        for step in range(lag or LONGEST_LAG):
            removals = changes[:, :, :, step, target].permute(2, 0, 1)
            for name, score in {**sample.scores(target, step), "removals": removals}.items():
                cells = score.abs().mean(0).cpu()  # [L, N]
                whole = score.sum(1).abs().mean(0).cpu()  # [N]
                net[name][target] += whole / whole.sum()
                gross[name][target] += cells.sum(0) / cells.sum()
                here = found[name]
                here["use"].append(float(correlation(score.abs(), removals.abs()).mean()))
                if lag is None:
                    continue
                truth = torch.zeros(lookback, count, dtype=torch.bool)
                truth[lookback - lag + step, source] = True
                profile, at = cells[:, source], truth[:, source]
                near = at | at.roll(1) | at.roll(-1)
                here["lag AUROC"].append(auroc(profile, at))
                here["lag within 1 h"].append(float(near[profile == profile.max()].float().mean()))
                here["cell AUROC"].append(auroc(cells[:, elsewhere], truth[:, elsewhere]))
        for shares in (*net.values(), *gross.values()):
            shares[target] = (shares[target] / (lag or LONGEST_LAG)).round(decimals=5)  # ties stay
    pairs = ~torch.eye(count, dtype=torch.bool)
    reach = direct.clone()
    for _ in range(count):
        reach |= (reach.float() @ direct.float()) > 0
    return {
        name: {
            "series AUROC": auroc(net[name][pairs], direct[pairs]),
            "series precision@k": precision(net[name][pairs], direct[pairs]),
            "series AUROC, indirect too": auroc(net[name][pairs], reach[pairs]),
            "series AUROC, gross": auroc(gross[name][pairs], direct[pairs]),
            "series precision@k, gross": precision(gross[name][pairs], direct[pairs]),
            **{key: sum(values) / len(values) for key, values in here.items()},
        }
        for name, here in found.items()
    }


def auroc(score: Tensor, truth: Tensor) -> float:
    """The chance that something true scores higher than something false; ties count half."""
    yes, no = score[truth][:, None], score[~truth]
    return float(((yes > no).double() + 0.5 * (yes == no)).mean())


def precision(score: Tensor, truth: Tensor) -> float:
    """How much of the highest k is true, k the number of true ones; of ties, their share."""
    k = int(truth.sum())
    last = score.topk(k).values[-1]
    sure, series_specific = score > last, score == last
    hits = truth[sure].sum() + (k - sure.sum()) * truth[series_specific].double().mean()
    return float(hits / k)


def correlation(a: Tensor, b: Tensor) -> Tensor:
    """Pearson's, over all but the first axis; 0 where one of them does not vary."""
    a, b = (x.flatten(1) - x.flatten(1).mean(1, keepdim=True) for x in (a, b))
    size = a.norm(dim=1) * b.norm(dim=1)
    return torch.where(size > 0, (a * b).sum(1) / size.clamp(min=1e-30), 0.0)


# ---- past values taken away ---------------------------------------------------------------


@torch.no_grad()
def removal(sample: Sample) -> dict[str, Result]:
    """What happens to forecasts when past values become the mean of their look-back, by method.

    The values of highest |score| are taken away first (deletion), or are all that is left
    (insertion). Curves give the mean |change of the forecast| at ``FRACTIONS`` of the values, in
    units of the change when all are gone; areas are under them. Deletion should be large at once,
    insertion small at once. One forecast is explained of each series, at the ``STEPS`` in turn.

    "whole" areas let the window's mean and deviation change too, which no method takes into
    account. "sums": over random tenths of the past values, the correlation of their scores' sum
    with the change of the forecast without them.
    """
    z, forecast = sample.parts
    horizon = sample.network.core.task.horizon
    curves: dict[str, dict[str, Tensor]] = defaultdict(dict)
    gone: dict[str, Tensor] = defaultdict(lambda: torch.zeros(()))
    sums: dict[str, list[float]] = defaultdict(list)
    ways: dict[str, Function] = {"inside": forecast, "whole": lambda z: _whole(sample, z)}
    for series in range(z.shape[2]):
        step = min(STEPS[series % len(STEPS)], horizon) - 1
        scores = sample.scores(series, step)
        for way, function in ways.items():

            def change(
                z_left: Tensor,
                function: Function = function,
                at: tuple[int, int] = (step, series),
            ) -> Tensor:
                y, left = (function(x)[:, at[0], at[1], 0] for x in (z, z_left))
                return y - left

            gone[way] = gone[way] + change(torch.zeros_like(z)).abs().mean()
            for name, score in scores.items():
                rank = score.abs().flatten(1).argsort(1, descending=True).argsort(1).view_as(z)
                cuts = [rank >= round(part * rank[0].numel()) for part in FRACTIONS]
                for kind, kept in (("deletion", cuts), ("insertion", [~cut for cut in cuts])):
                    curve = torch.stack([change(z * keep).abs().mean() for keep in kept])
                    key = f"{kind}, {way}"
                    curves[name][key] = curves[name].get(key, 0) + curve
            if way == "inside":
                for name, found in _sums(sample, scores, change).items():
                    sums[name].append(found)
    return {
        name: {
            "sums": sum(sums[name]) / len(sums[name]),
            **{
                key: _area(curve / gone[key.split(", ")[1]], 1.0 * key.startswith("insertion"))
                for key, curve in of.items()
            },
            "curves": {
                key: [round(float(x), 4) for x in curve / gone["inside"]]
                for key, curve in of.items()
                if key.endswith("inside")
            },
        }
        for name, of in curves.items()
    }


def _sums(sample: Sample, scores: Scores, change: Function) -> dict[str, float]:
    z = sample.parts[0]
    draws = torch.rand(SUBSETS, *z.shape, generator=sample.generator).to(z) < SUBSET
    changes = torch.stack([change(z * ~draw) for draw in draws], 1)  # [B, subsets]
    return {
        name: float(
            correlation(torch.stack([(s * d).sum((1, 2)) for d in draws], 1), changes).mean()
        )
        for name, s in scores.items()
    }


def _whole(sample: Sample, z: Tensor) -> Tensor:
    """The forecast from the past that ``z`` stands for, normalised anew."""
    window = sample.network.window(sample.batch, sample.position)
    past = z * window.std + window.centre
    return sample.network(sample.batch._replace(past=past), sample.position)


def _area(curve: Tensor, start: float) -> float:
    places = torch.tensor([0.0, *FRACTIONS])
    return float(torch.trapezoid(torch.cat([torch.tensor([start]), curve.cpu()]), places))
