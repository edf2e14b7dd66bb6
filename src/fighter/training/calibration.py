"""Split-conformal calibration of quantiles on validation windows."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ..data.windows import Windows
from ..shapes import Float
from .forecasts import forecast

MOST_WINDOWS = 1000  # more would sharpen nothing: neighbouring windows share almost all targets
FEW = 50  # below so many windows the steps of a series are pooled


def calibrate(
    network: nn.Module, windows: Windows, quantiles: Sequence[float], offset: int = 0
) -> Float[Tensor, "horizon series quantiles"]:
    """What to add to each quantile so that it is one on the validation windows.

    For quantile q: the q-quantile, with the finite-sample correction, of target − forecast. By
    step and series; over all steps of a series where there are few windows.
    """
    picked = torch.linspace(0, len(windows) - 1, min(len(windows), MOST_WINDOWS)).long().unique()
    chosen = Windows(**{**vars(windows), "starts": windows.starts[picked]})
    errors = []
    for batch, y in forecast(network, chosen, offset):
        error = batch.future[..., None] - y[..., 1:]  # [B, H, N, Q]
        if batch.future_observed is not None:
            error = error.masked_fill(~batch.future_observed[..., None], float("nan"))
        errors.append(error.cpu())
    error = torch.cat(errors)
    pooled = _offsets(error.flatten(0, 1), quantiles)  # [N, Q]
    if len(error) < FEW:
        return pooled.expand(error.shape[1], -1, -1).clone()
    offsets = _offsets(error, quantiles)  # [H, N, Q]
    return torch.where(offsets.isnan(), pooled, offsets).nan_to_num(0.0)


def _offsets(error: Tensor, quantiles: Sequence[float]) -> Tensor:
    """The corrected quantiles over the first axis, NaN where nothing was observed."""
    count = (~error.isnan()).sum(0)  # [..., Q]
    columns = []
    for i, q in enumerate(quantiles):
        n = count[..., i].double().clamp(min=1)
        # ceil((n+1) q) of n from above, and the mirror image from below
        level = ((n + 1) * q).ceil() / n if q > 0.5 else 1 - ((n + 1) * (1 - q)).ceil() / n
        ordered = error[..., i].sort(0).values  # NaN last
        place = (level.clamp(0, 1) * (n - 1)).round().long()
        columns.append(ordered.gather(0, place[None])[0])
    return torch.stack(columns, -1).nan_to_num(0.0) if error.ndim == 2 else torch.stack(columns, -1)
