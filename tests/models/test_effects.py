import numpy as np
import pytest
import torch

from fighter.models.effects import Effects, find_closed, fit_effects

ROWS = 400


def columns(rng: np.random.Generator, series: int = 2) -> torch.Tensor:
    """Return a covariate that is 0 or 1, and one of noise."""
    switch = (rng.random((ROWS, series)) < 0.2).astype(float)
    return torch.from_numpy(np.stack([switch, rng.normal(size=(ROWS, series))], 2))


def noise(rng: np.random.Generator, series: int = 2) -> torch.Tensor:
    """Return a season of a week and errors, most of which are carried over to the next row."""
    errors = rng.normal(size=(ROWS, series))
    for row in range(1, ROWS):
        errors[row] += 0.9 * errors[row - 1]
    return torch.from_numpy(errors + 3 * np.sin(np.arange(ROWS) * 2 * np.pi / 7)[:, None])


def fit(y: torch.Tensor, x: torch.Tensor, seen: torch.Tensor | None = None) -> Effects:
    seen = torch.ones_like(y, dtype=torch.bool) if seen is None else seen
    return fit_effects(y, seen, x, (7,), 0, torch.ones(y.shape[1]).double())


def test_an_effect_is_found_beside_a_season_and_slow_errors():
    rng = np.random.default_rng(0)
    x = columns(rng)
    size = torch.tensor([4.0, 2.0]).double()
    found = fit(noise(rng) + size * x[..., 0], x)
    assert not found.log
    assert (found.weights[:, 0, 0] - size).abs().max() < 0.5
    assert found.weights[:, 1, 0].abs().max() < 0.2
    parts = found.parts(x, 0, torch.ones(2).double())
    rise = parts[..., 0][x[..., 0] == 1].mean() - parts[..., 0][x[..., 0] == 0].mean()
    assert abs(float(rise) - 3.0) < 0.4


def test_a_factor_is_found_where_values_are_above_zero():
    rng = np.random.default_rng(1)
    x = columns(rng)
    level = torch.tensor([10.0, 1000.0]).double() * torch.linspace(0, 2, ROWS).exp()[:, None]
    y = level * (0.5 * x[..., 0] + 0.1 * noise(rng)).exp()
    found = fit(y.double(), x)
    assert found.log
    assert (found.weights[:, 0, 0] - 0.5).abs().max() < 0.07


def test_zeros_stay_zeros_of_series_that_rest_at_zero():
    rng = np.random.default_rng(2)
    x = columns(rng)
    y = torch.from_numpy(rng.poisson(np.where(x[..., 0] == 1, 2.0, 1.0))).double()
    found = fit(y, x)
    assert found.log  # a factor: what is zero stays zero
    assert 0.3 < float(found.weights[:, 0, 0].mean()) < 1.2
    assert found.closed.isnan().all()  # zeros are common, and say nothing


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_a_value_at_which_all_is_zero_is_found(value):
    rng = np.random.default_rng(3)
    x = columns(rng)
    y = torch.where(x[..., 0] == value, 0.0, 5 + noise(rng).abs())
    seen = torch.ones_like(y, dtype=torch.bool)
    assert float(find_closed(y, seen, x)[0]) == value
    y[torch.nonzero(x[:, 0, 0] == value)[0], 0] = 1.0  # one sale on a closed day
    assert find_closed(y, seen, x).isnan().all()


def test_odd_columns_do_no_harm():
    rng = np.random.default_rng(4)
    x = columns(rng)
    hole = torch.where(torch.rand(ROWS, 2) < 0.1, torch.nan, x[..., 0])
    every = [x[..., 0], x[..., 0] + 1e-9, 1e200 * x[..., 0], torch.ones(ROWS, 2), hole]
    weekday = (torch.arange(ROWS) % 7 == 0).double()[:, None].expand(-1, 2)  # all in the season
    empty = torch.full((ROWS, 2), torch.nan)
    x = torch.stack([*every, weekday, empty], 2).double()
    seen = torch.from_numpy(rng.random((ROWS, 2)) < 0.8)
    found = fit(noise(rng) + 4 * x[..., 0], x, seen)
    parts = found.parts(x, 0, torch.ones(2).double())
    assert found.weights.isfinite().all()
    assert parts.isfinite().all()
    assert parts[..., 3:4].abs().max() == 0
    assert parts[..., 6].abs().max() == 0
    rise = parts.sum(2)[x[..., 0] == 1].mean() - parts.sum(2)[x[..., 0] == 0].mean()
    assert abs(float(rise) - 4.0) < 1.0


def test_a_series_with_few_rows_follows_the_others():
    rng = np.random.default_rng(5)
    x = columns(rng, 4)
    seen = torch.ones(ROWS, 4, dtype=torch.bool)
    seen[:-5, 3] = False
    found = fit(noise(rng, 4) + 3 * x[..., 0], x, seen)
    assert abs(float(found.weights[3, 0, 0]) - 3.0) < 0.7


def test_a_series_without_a_value_and_a_constant_one_have_finite_effects():
    rng = np.random.default_rng(6)
    x = columns(rng, 3)
    y, seen = noise(rng, 3) + 3 * x[..., 0], torch.ones(ROWS, 3, dtype=torch.bool)
    seen[:, 1], y[:, 2] = False, 7.0
    found = fit(y, x, seen)
    assert found.weights.isfinite().all()
    assert abs(float(found.weights[0, 0, 0]) - 3.0) < 0.5
