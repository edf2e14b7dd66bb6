"""What lies between the point forecast and a quantile of it, term by term."""

import torch

from ..data import Panel, Scaler, Windows
from ..data.bounds import clamp_finished, clamp_to_bounds, to_table_units
from ..errors import FighterError
from ..explain import Mix
from ..training.calibration import adjust
from .fitted import Fitted


def find_output(quantiles: tuple[float, ...], quantile: float | None) -> int:
    """Return the output of a quantile, 0 for the point forecast; refuse one that is not there."""
    if quantile is None:
        return 0
    for place, known in enumerate(quantiles, start=1):
        if isinstance(quantile, int | float) and abs(known - quantile) < 1e-6:
            return place
    have = ", ".join(f"{q:g}" for q in quantiles)
    have = f"the quantiles {have}" if have else "no quantiles"
    reason = f"the model forecasts {have}; fit with level= or quantiles= for others"
    if isinstance(quantile, int | float) and quantile > 1:
        reason += ". The ends of an 80 % interval are the quantiles 0.1 and 0.9"
    raise FighterError(reason, argument="quantile", value=quantile)


class QuantileEnds:
    """One quantile of the forecasts after a panel, beyond what the past values are parts of.

    A quantile of the mixture is its point, plus the network's distance of the quantile from its own
    point, plus that of the others, both by their shares in the widths. ``spread`` is the part of
    the others: multiples of past errors, and what the pretrained network adds to its median.
    ``counts`` is what a distribution of counts changes, and ``rounding`` that to whole numbers.
    ``calibration`` is the conformal shift, with the sorting around the point.
    """

    def __init__(
        self,
        fitted: Fitted,
        panel: Panel,
        windows: Windows,
        scaler: Scaler,
        position: torch.Tensor,
        output: int,
    ):
        self.output, self.scale = output, torch.from_numpy(scaler.scale)
        batch = windows.gather(windows.starts.new_zeros(1))
        ids, blend = panel.ids, fitted.blend_of(panel.ids)
        with torch.no_grad():
            y = None
            if blend is None or blend.share.any():
                y = clamp_to_bounds(fitted.network(batch, position).to(batch.past), batch)
            self.share = self.width_share = torch.ones(panel.n_series)
            spread = least = counts = torch.zeros(())
            if blend is not None:
                first = fitted.preprocessing.start_step(panel)
                rows = torch.tensor([panel.length])
                alone = fitted.forecast_alone(blend, panel, scaler, first, rows)
                local = blend.local(alone, scaler).to(batch.past)
                self.share, self.width_share = (
                    torch.zeros(panel.n_series) if y is None else each(batch)[0, 0, :, 0].cpu()
                    for each in (blend.shares, blend.width_shares)
                )
                y = local if y is None else blend.mix(y, batch, local)
                own = (1 - self.width_share)[:, None].to(local)
                spread = own * (local - local[..., :1])
                mixed, y = y, blend.with_counts(y, alone, scaler)
                counts = y - mixed
                wide = blend.widen(y, batch, scaler)
                least, y = wide - y, wide
            assert y is not None
            held = clamp_to_bounds(y, batch)
            mean = fitted.plan.point == "mean"
            shifted = adjust(held, fitted.shifts_of(ids), fitted.plan.quantiles, mean=mean)
            done = clamp_finished(shifted, batch)
        self.rounding = None
        if blend is not None and blend.counts:
            exact = to_table_units(done, batch, scaler)
            self.rounding = (blend.counts.rounded(exact) - exact)[0]
        self.found = {
            "counts": counts, "spread": spread, "least width": least, "calibration": shifted - held,
            "bound": held - y + done - shifted,
        }  # fmt: skip

    def mix(self, series: int) -> Mix:
        """Return the weights of the network's outputs, relative to its share in the point."""
        share, width = float(self.share[series]), float(self.width_share[series])
        ratio = width / share if share else 0.0
        return (0, 1 - ratio), (self.output, ratio)

    def terms(self, series: int, step: int) -> dict[str, float]:
        """Return the terms of a series at a step from 1 that are not zero."""
        values = {
            name: float(part[0, step - 1, series, self.output]) * float(self.scale[series])
            for name, part in self.found.items()
            if part.ndim
        }
        if self.rounding is not None:
            values["rounding"] = float(self.rounding[step - 1, series, self.output])
        return {name: value for name, value in values.items() if value}
