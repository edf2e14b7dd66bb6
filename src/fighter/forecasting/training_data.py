"""What a panel is to those who learn from it: its windows, in the scales of the training rows."""

from dataclasses import dataclass

import numpy as np
import torch

from ..data import Panel, Scaler, Windows
from ..data.groups import some_series
from .autoconfig import Plan
from .preprocessing import Preprocessing, split_windows, with_targets

JUDGES = 512  # series that choose and calibrate, if there are many


@dataclass(frozen=True, eq=False)
class TrainingData:
    """A panel, its preprocessing and its windows.

    Args:
        panel: the table.
        preprocessing: its scales.
        device: where the windows are.
        windows: all windows with a target; like the others None if there are too few rows.
        training: those whose targets are training rows.
        validation: those whose targets are validation rows.
    """

    panel: Panel
    preprocessing: Preprocessing
    device: torch.device
    windows: Windows | None = None
    training: Windows | None = None
    validation: Windows | None = None

    @classmethod
    def cut(
        cls,
        plan: Plan,
        panel: Panel,
        preprocessing: Preprocessing,
        held: np.ndarray | None,
        device: torch.device,
    ) -> "TrainingData":
        """Cut the windows of a panel; ``held`` is that of :func:`split_windows`."""
        if panel.length < plan.lookback + plan.horizon:
            return cls(panel, preprocessing, device)
        windows = preprocessing.windows(panel, plan, device, preprocessing.scaler)
        training, validation = split_windows(windows, panel, panel.length - plan.validation, held)
        windows = with_targets(windows)
        return cls(panel, preprocessing, device, windows, training, validation)

    @property
    def scaler(self) -> Scaler:
        """The scale of each series."""
        return self.preprocessing.scaler

    @property
    def start_step(self) -> int:
        """The step of the first row on the training time axis."""
        return self.preprocessing.start_step(self.panel)

    def judges(self, groups: np.ndarray | None) -> "TrainingData":
        """Take the series that choose the epoch and the shares, and calibrate: some of many.

        ``groups`` are those that series see each other in, which are taken whole.
        """
        some = some_series(self.panel.n_series, JUDGES, groups)
        parts = (
            each and each.select(torch.from_numpy(some).to(self.device))
            for each in (self.windows, self.training, self.validation)
        )
        panel, preprocessing = self.panel.take(some).dense(), self.preprocessing.take(some)
        return TrainingData(panel, preprocessing, self.device, *parts)
