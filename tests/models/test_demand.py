"""TSB: the probability of a sale times its size, and forecasts of means."""

import numpy as np
import pytest
import torch

from fighter.models.attribution import Attribution
from fighter.models.demand import RATES, Intermittent
from fighter.models.local import count_experts, learn_prior, smooth, smooth_means

ROWS, HORIZON = 60, 4


def sales(chance: float = 0.3) -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(0)
    size = torch.randint(1, 9, (ROWS, 3), generator=random).double()
    x = torch.where(torch.rand(ROWS, 3, generator=random) < chance, size, 0.0)
    seen = torch.ones_like(x, dtype=torch.bool)
    seen[[7, 30], 1] = False
    return x, seen


def oracle(x: np.ndarray, rates: tuple[float, float]) -> float:
    """Run TSB over one series, NaN where it is not observed, in a plain loop."""
    chance = size = 0.0
    sold = 0
    for seen, value in enumerate(x[~np.isnan(x)], 1):
        chance += max(rates[0], 1 / seen) * ((value != 0) - chance)
        if value:
            sold += 1
            size += max(rates[1], 1 / sold) * (value - size)
    return chance * size


def run(x: torch.Tensor, seen: torch.Tensor) -> Intermittent:
    expert = Intermittent(x, seen, HORIZON)
    for end in (1, 13, 40, ROWS):
        expert.advance(end)
    return expert


def test_forecasts_are_those_of_the_recursion():
    x, seen = sales()
    paths, values = run(x, seen).paths(ROWS - 1), torch.where(seen, x, torch.nan).numpy()
    for i, rates in enumerate(RATES):
        for n in range(3):
            assert float(paths[i, -1, n]) == pytest.approx(oracle(values[:, n], rates))


def test_a_forecast_is_linear_in_the_sales_with_its_probability_held():
    x, seen = sales()
    expert, used = run(x, seen), [0, 2, 3]
    for n in range(3):
        response = expert.responses(used, n, ROWS - 1)
        assert torch.allclose(response @ x[:, n], expert.paths(ROWS - 1)[used][..., n])
        assert not response[..., (x[:, n] == 0) | ~seen[:, n]].any()


def test_it_needs_a_zero_and_a_sale():
    x = torch.tensor([[0.0, 2.0], [0.0, 3.0], [5.0, 1.0], [0.0, 0.0]]).double()
    expert = Intermittent(x, torch.ones_like(x, dtype=torch.bool), 1)
    expert.advance(4)
    assert expert.ready()[:, 0].tolist() == [
        [False, False],
        [False, False],
        [True, False],
        [True, True],
    ]


def test_means_are_explained_exactly_and_less_biased_than_medians():
    x, seen = sales(0.2)
    x[:, 2] += 5
    prior = learn_prior(x, seen, [7], HORIZON, squared=True)
    assert len(prior) == count_experts([7], HORIZON, squared=True)
    rows = torch.arange(30, ROWS + 1)
    means = smooth_means(x, seen, [7], HORIZON, rows, prior)
    medians = smooth(x, seen, [7], HORIZON, rows).point
    actual = x[30:, 0].mean()
    assert (means[..., 0].mean() - actual).abs() < (medians[..., 0].mean() - actual).abs()
    split = Attribution(x, seen, [7], HORIZON, prior, squared=True)
    for n, reference in enumerate((0.7, 0.0, 5.5)):
        parts = split.split(n, reference)
        assert torch.allclose(parts.forecast, means[-1, :, n], atol=1e-9)
        total = reference + parts.bias + parts.past.sum(1)
        assert torch.allclose(total, parts.forecast, atol=1e-9)
