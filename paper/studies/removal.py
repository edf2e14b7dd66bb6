"""Measure how forecasts change when past values that are said to matter are removed."""

from collections import defaultdict
from typing import Any

import torch
from torch import Tensor

from .attributions import Function
from .planted import correlation
from .sample import Sample, Scores

FRACTIONS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0)
STEPS = (1, 6, 24, 96)  # the explained steps
SUBSETS, SUBSET = 24, 0.1  # random sets of past values, and their size


@torch.no_grad()
def removal(sample: Sample) -> dict[str, dict[str, Any]]:
    """Return how forecasts change when past values become their look-back's mean, by method.

    The values of highest |score| are removed first (deletion), or are all that is left
    (insertion). Curves hold the mean |change of the forecast| at ``FRACTIONS`` of the values, in
    units of the change when all are removed; areas are under them. Deletion should grow at once,
    insertion should shrink at once. One forecast of each series is explained, at the ``STEPS`` in
    turn.

    Areas named "whole" let the window's mean and deviation change too, which no method accounts
    for. "sums" is the correlation, over random tenths of the past values, of the sum of their
    scores with the change of the forecast without them.
    """
    z, forecast = sample.parts
    horizon = sample.network.core.task.horizon
    curves: dict[str, dict[str, Tensor]] = defaultdict(dict)
    total: dict[str, Tensor] = defaultdict(lambda: torch.zeros(()))
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

            total[way] = total[way] + change(torch.zeros_like(z)).abs().mean()
            for name, score in scores.items():
                rank = score.abs().flatten(1).argsort(1, descending=True).argsort(1).view_as(z)
                cuts = [rank >= round(part * rank[0].numel()) for part in FRACTIONS]
                for kind, kept in (("deletion", cuts), ("insertion", [~cut for cut in cuts])):
                    curve = torch.stack([change(z * keep).abs().mean() for keep in kept])
                    key = f"{kind}, {way}"
                    curves[name][key] = curves[name].get(key, 0) + curve
            if way == "inside":
                for name, value in _sums(sample, scores, change).items():
                    sums[name].append(value)
    return {
        name: {
            "sums": sum(sums[name]) / len(sums[name]),
            **{
                key: _area(curve / total[key.split(", ")[1]], 1.0 * key.startswith("insertion"))
                for key, curve in of.items()
            },
            "curves": {
                key: [round(float(x), 4) for x in curve / total["inside"]]
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
    """Forecast from the past that ``z`` stands for, normalised again."""
    window = sample.network.window(sample.batch, sample.position)
    past = z * window.std + window.centre
    return sample.network(sample.batch._replace(past=past), sample.position)


def _area(curve: Tensor, start: float) -> float:
    places = torch.tensor([0.0, *FRACTIONS])
    return float(torch.trapezoid(torch.cat([torch.tensor([start]), curve.cpu()]), places))
