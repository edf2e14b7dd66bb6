"""The frame around every core."""

import torch

from fighter.data.windows import Batch
from fighter.models import ForecastNet, Task, build_core
from fighter.nn.series import Cycle, lag_correlation, time_basis, window_statistics


def plain(past: torch.Tensor, observed=None) -> Batch:
    return Batch(past, past[:, :1], observed, None, torch.zeros(len(past), dtype=torch.long))


def test_level_and_scale_of_the_window_carry_over():
    network = ForecastNet(build_core("linear", Task(8, 3, 2))).eval()
    past = torch.randn(4, 8, 2)
    y = network(plain(past), torch.zeros(4, dtype=torch.long))
    moved = network(plain(5 * past + 100), torch.zeros(4, dtype=torch.long))
    torch.testing.assert_close(moved, 5 * y + 100, rtol=1e-4, atol=1e-2)


def test_statistics_are_of_what_was_observed():
    past = torch.tensor([1.0, 2.0, 3.0, 99.0]).reshape(1, 4, 1)
    seen = torch.tensor([True, True, True, False]).reshape(1, 4, 1)
    mean, scale = window_statistics(past, seen)
    assert mean.item() == 2
    torch.testing.assert_close(scale.item(), (2 / 3) ** 0.5, rtol=1e-4, atol=0)
    mean, scale = window_statistics(past, torch.zeros_like(seen))
    assert (mean.item(), scale.item()) == (0, 1)


def test_cycle_counts_from_the_position_also_before_zero():
    cycle = Cycle(3, 1)
    cycle.profile.data = torch.tensor([[0.0], [1.0], [2.0]])
    y = cycle(torch.tensor([4, -1]), 4)
    assert y[..., 0].tolist() == [[1, 2, 0, 1], [2, 0, 1, 2]]


def test_lag_correlation_against_a_plain_sum():
    torch.manual_seed(0)
    values = torch.randn(60, 2, dtype=torch.float64).cumsum(0)
    seen = torch.rand(60, 2) > 0.2
    found = lag_correlation(values, seen, 5)
    expected = []
    for lag in range(5):
        per_series = []
        for k in range(2):
            x = values[:, k] - values[seen[:, k], k].mean()
            both = seen[: 60 - lag, k] & seen[lag:, k]
            products = (x[: 60 - lag] * x[lag:])[both]
            per_series.append(products.mean() / x[seen[:, k]].square().mean())
        expected.append(torch.stack(per_series).mean())
    torch.testing.assert_close(found, torch.stack(expected))
    basis = time_basis(found, 5)
    torch.testing.assert_close(basis.T @ basis, torch.eye(5, dtype=torch.float64))
