import pytest
import torch
from torch import nn

from fighter.data.windows import Windows
from fighter.training import calibration
from fighter.training.calibration import FEW_WINDOWS, adjust, sample_windows
from fighter.training.calibration import calibrate as calibrate_pairs
from fighter.training.inference import forecast

QUANTILES = (0.025, 0.1, 0.9, 0.975)


class Fixed(nn.Module):
    """Forecasts wrong quantiles: a tenth as wide as they should be, and too high."""

    def __init__(self, horizon: int):
        super().__init__()
        self.horizon = horizon

    def forward(self, batch, _):
        size = batch.past.std(1, keepdim=True)[..., None]  # wider in a volatile window
        places = torch.tensor([0.0, -0.2, -0.13, 0.13, 0.2]) + 0.3
        return (size * places).expand(-1, self.horizon, -1, -1)


def noise(rows: int, scale=1.0, seed: int = 0, missing: bool = False) -> Windows:
    draw = torch.Generator().manual_seed(seed)
    values = scale * torch.randn(rows, 2, generator=draw)
    observed = torch.rand(rows, 2, generator=draw) > 0.2 if missing else None
    return Windows.over(values, observed, 20, 3)


def calibrate(network, windows, quantiles):
    """Return the shifts of a network on (a sample of) the windows."""
    return calibrate_pairs(forecast(network, sample_windows(windows, quantiles)), quantiles)[0]


def coverage(network, windows, conformal_shifts) -> list[float]:
    batch = windows.gather(torch.arange(len(windows)))
    y = adjust(network(batch, None), conformal_shifts, QUANTILES)
    inside = [
        (y[..., a] <= batch.future) & (batch.future <= y[..., b]) for a, b in ((2, 3), (1, 4))
    ]
    return [100 * share.float().mean().item() for share in inside]


@pytest.mark.parametrize("missing", [False, True])
def test_wrong_quantiles_are_corrected(missing):
    network = Fixed(3)
    conformal_shifts = calibrate(network, noise(3000, missing=missing), QUANTILES)
    assert coverage(network, noise(20_000, seed=1), conformal_shifts) == pytest.approx(
        [80, 95], abs=3
    )


def test_shifts_scale_with_the_predicted_width():
    network = Fixed(3)
    conformal_shifts = calibrate(network, noise(3000), QUANTILES)
    calm = noise(20_000, scale=0.05, seed=1)
    assert coverage(network, calm, conformal_shifts) == pytest.approx([80, 95], abs=3)


def test_drift_within_validation_widens_the_intervals():
    """Shifts from the past do not cover the next block when the targets drift."""
    network = Fixed(3)
    still, moving = noise(3000), noise(3000)
    moving.values.add_(torch.linspace(0, 6, 3000)[:, None])
    quiet, wide = (calibrate(network, w, QUANTILES) for w in (still, moving))
    assert ((wide[:, 3] - wide[:, 0]) > 1.5 * (quiet[:, 3] - quiet[:, 0])).all()


def test_adjusted_quantiles_are_sorted_around_the_point():
    y = torch.randn(5, 3, 2, 6)
    adjusted = adjust(y, torch.randn(2, 5), (0.025, 0.1, 0.5, 0.9, 0.975))
    assert (adjusted[..., 2:] >= adjusted[..., 1:-1]).all()
    assert torch.equal(adjusted[..., 0], y[..., 0])
    assert torch.equal(adjusted[..., 3], y[..., 0])  # the median is the point


def test_a_series_without_observations_takes_the_shifts_of_all():
    windows = noise(500)
    seen = torch.ones(500, 2, dtype=torch.bool)
    seen[:, 1] = False
    conformal_shifts = calibrate(Fixed(3), Windows.over(windows.values, seen, 20, 3), QUANTILES)
    assert conformal_shifts.isfinite().all()
    torch.testing.assert_close(conformal_shifts[0], conformal_shifts[1])


def test_few_windows_give_the_finite_sample_quantiles_of_the_scores():
    """With 8 windows of 3 steps, q = 0.1 takes the second of 24 scores and 0.9 the 23rd.

    Of the 48 scores of both series, it takes the fourth and the 45th; the shift lies between.
    """
    network, windows = Fixed(3), noise(30)
    batch = windows.gather(torch.arange(8))
    y = network(batch, None)
    width = (y[..., -1:] - y[..., 1:2]).clamp(min=1e-3)
    scores = ((batch.future[..., None] - y[..., 1:]) / width).flatten(0, 1).sort(0).values
    own = torch.stack([scores[rank, :, i] for i, rank in enumerate((0, 1, 22, 23))], 1)
    pooled = scores.flatten(0, 1).sort(0).values
    shared = torch.stack([pooled[rank, i] for i, rank in enumerate((0, 3, 44, 47))])
    expected = (8 * own + FEW_WINDOWS * shared) / (8 + FEW_WINDOWS)
    torch.testing.assert_close(calibrate(network, windows, QUANTILES), expected)


def test_a_single_window_gives_finite_shifts():
    conformal_shifts = calibrate(Fixed(3), noise(23), QUANTILES)
    assert conformal_shifts.shape == (2, 4)
    assert conformal_shifts.isfinite().all()


def test_drift_that_no_series_can_show_is_not_allowed_for():
    """Each series has windows in one block only, so nothing compares earlier with later ones."""
    score = torch.full((32, 2, 8, 2), float("nan"))
    for block in range(8):
        score[4 * block : 4 * block + 4, :, block] = torch.randn(4, 2, 1)
    allowance = calibration._drift_allowance(score, torch.tensor([0.1, 0.9]))
    assert allowance.tolist() == [0.0, 0.0]
