"""Windows whose forecasts are explained by several methods."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

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

Scores = dict[str, Tensor]


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
        """Take ``count`` evenly spaced windows with targets in the ``last`` rows."""
        panel = model.read(table)
        windows, _, start_step = model.fitted.scored_windows(panel, last)
        batch = windows.gather(torch.linspace(0, len(windows) - 1, count).long())
        position = batch.start + start_step
        generator = torch.Generator().manual_seed(seed)
        return cls(model.fitted.network.eval(), batch, position, panel.ids, generator)

    @cached_property
    def parts(self) -> tuple[Tensor, Function]:
        """The windows ``[B, L, N]`` and the function that forecasts ``[B, H, N, outputs]``."""
        return forecast_parts(self.network, self.batch, self.position)

    @cached_property
    def graphs(self) -> list[Tensor]:
        """The graph A of every layer, averaged over heads."""
        z, forecast = self.parts
        return layer_graphs(self.network, lambda: forecast(z))

    def scores(self, series: int, step: int) -> Scores:
        """Score the past ``[B, L, N]`` by every method, for one series and step (from 0)."""
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
        """Return how the forecast changes when one past value becomes its look-back's mean.

        Returns:
            ``[L, N, B, steps, N]``, for the first ``steps`` steps.
        """
        z, forecast = self.parts
        before, changes = forecast(z)[:, :steps, :, 0], []
        for row in range(z.shape[1]):
            for series in range(z.shape[2]):
                without = z.clone()
                without[:, row, series] = 0
                changes.append(before - forecast(without)[:, :steps, :, 0])
        return torch.stack(changes).unflatten(0, z.shape[1:])
