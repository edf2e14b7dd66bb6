import pytest
import torch

from fighter.models.embedding import (
    Cycle,
    TimeEmbedding,
    lag_correlation,
    moving_average,
    time_basis,
    window_statistics,
)


def test_window_statistics_use_the_observed_values():
    past = torch.randn(2, 9, 3)
    observed = torch.rand(2, 9, 3) < 0.6
    observed[0, :, 1] = False
    mean, std = window_statistics(past, observed)
    seen = past[1, observed[1, :, 2], 2]
    torch.testing.assert_close(mean[1, 0, 2], seen.mean())
    torch.testing.assert_close(std[1, 0, 2], (seen.var(unbiased=False) + 1e-5).sqrt())
    assert (mean[0, 0, 1], std[0, 0, 1]) == (0, 1)
    whole = window_statistics(past, torch.ones_like(observed))
    torch.testing.assert_close(whole, window_statistics(past, None))


@pytest.mark.parametrize("masked", [False, True])
def test_the_lag_correlation_is_the_mean_over_observed_pairs(masked):
    values = torch.randn(50, 3, dtype=torch.float64).cumsum(0)
    values[:, 2] = 4.0  # a constant series has no correlation and is left out
    observed = torch.rand(50, 3) < 0.7 if masked else torch.ones(50, 3, dtype=torch.bool)
    wanted = []
    for k in range(8):
        ratios = []
        for series in range(2):
            x, seen = values[:, series], observed[:, series]
            x = x - x[seen].mean()
            pairs = seen[: 50 - k] & seen[k:]
            covariance = (x[: 50 - k] * x[k:])[pairs].mean()
            ratios.append(covariance / (x[seen] ** 2).mean())
        wanted.append(torch.stack(ratios).mean())
    got = lag_correlation(values * observed, observed if masked else None, 8)
    torch.testing.assert_close(got, torch.stack(wanted))


def test_a_time_basis_is_orthogonal_and_begins_with_slow_movement():
    basis = time_basis(0.95 ** torch.arange(24, dtype=torch.float64), 24)
    torch.testing.assert_close(basis.T @ basis, torch.eye(24, dtype=torch.float64))
    walk = torch.randn(200, 24, dtype=torch.float64).cumsum(1)
    walk = walk - walk.mean(1, keepdim=True)
    energy = (walk @ basis).square().mean(0)
    assert energy[:4].sum() > 0.7 * energy.sum()


def test_constant_data_have_a_time_basis_too():
    correlation = lag_correlation(torch.full((30, 2), 5.0), None, 6)
    basis = time_basis(correlation, 6)
    torch.testing.assert_close(basis.T @ basis, torch.eye(6))


def test_the_time_embedding_is_the_outer_product_written_out():
    embed = TimeEmbedding(lookback=12, width=5, channels=4).double()
    embed.basis.copy_(time_basis(0.9 ** torch.arange(12, dtype=torch.float64), 12))
    x = torch.randn(2, 3, 12, dtype=torch.float64)
    literal = (x @ embed.basis)[..., None] * embed.vector  # [B, N, L, channels]
    wanted = literal.flatten(2) @ embed.weight.flatten(0, 1) + embed.bias
    torch.testing.assert_close(embed(x), wanted)


def test_a_cycle_is_read_by_position_also_before_zero():
    cycle = Cycle(period=5, series=2)
    torch.nn.init.normal_(cycle.profile)
    read = cycle(torch.tensor([3, -1]), steps=7)
    for b, start in enumerate((3, -1)):
        for step in range(7):
            assert torch.equal(read[b, step], cycle.profile[(start + step) % 5])


@pytest.mark.parametrize("kernel", [1, 4, 5, 25])
def test_a_moving_average_repeats_the_first_and_last_value(kernel):
    x = torch.randn(2, 9, 3, dtype=torch.float64)
    wanted = torch.zeros_like(x)
    for t in range(9):
        for step in range(t - (kernel - 1) // 2, t + kernel // 2 + 1):
            wanted[:, t] += x[:, min(max(step, 0), 8)] / kernel
    torch.testing.assert_close(moving_average(x, kernel), wanted)


def test_rounding_does_not_choose_the_time_basis():
    # A day and its half: most eigenvalues are equal, and every vector is symmetric in time.
    steps = torch.arange(96, dtype=torch.float64)
    correlation = (2 * torch.pi * steps / 24).cos() / 2 + (2 * torch.pi * steps / 12).cos() / 2
    basis = time_basis(correlation, 96)
    for seed in range(5):
        noise = 1e-13 * torch.randn(96, generator=torch.Generator().manual_seed(seed)).double()
        torch.testing.assert_close(time_basis(correlation + noise, 96), basis, rtol=0, atol=1e-6)


@pytest.mark.parametrize("lags", [6, 9, 14])
def test_lags_beyond_all_rows_have_no_correlation(lags):
    values = torch.randn(5, 2, dtype=torch.float64)
    found = lag_correlation(values, None, lags)
    assert found.shape == (lags,)
    assert torch.allclose(found[:5], lag_correlation(values, None, 5), atol=1e-12)
    assert found[5:].abs().max() < 1e-12
