"""Distributions of counts: probabilities and quantiles."""

import numpy as np
import pytest
import torch

from fighter.models.counts import SHAPES, count_quantiles, log_probability

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)


def draw(mean: float, shape: tuple[float, float], count: int = 200_000) -> np.ndarray:
    random, (dispersion, zeros) = np.random.default_rng(0), shape
    rate = np.full(count, mean / (1 - zeros))
    if dispersion:
        rate = random.gamma(1 / dispersion, dispersion * rate)
    return random.poisson(rate) * (random.random(count) >= zeros)


@pytest.mark.parametrize("shape", [(0.0, 0.0), (0.5, 0.0), (0.0, 0.4), (2.0, 0.6)])
def test_probabilities_are_those_of_drawn_counts(shape):
    counts = draw(3.0, shape)
    k = torch.arange(12.0, dtype=torch.float64)
    probability = log_probability(k, torch.full_like(k, 3.0), shape).exp()
    drawn = np.bincount(counts, minlength=12)[:12] / len(counts)
    assert np.allclose(probability.numpy(), drawn, atol=0.005)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_mean_is_the_one_asked_for(shape):
    k = torch.arange(4000.0, dtype=torch.float64)
    probability = log_probability(k, torch.full_like(k, 4.0), shape).exp()
    assert float(probability.sum()) == pytest.approx(1, abs=1e-6)
    assert float(probability @ k) == pytest.approx(4, abs=1e-3)


@pytest.mark.parametrize("mean", [0.2, 3.0, 40.0, 5000.0])
def test_quantiles_are_those_of_drawn_counts(mean):
    for i in (SHAPES.index((0.0, 0.0)), SHAPES.index((0.5, 0.2)), SHAPES.index((1.0, 0.6))):
        if mean > 1000 and SHAPES[i][0] == 0:
            continue  # quantiles of large Poisson counts do not grow with the mean
        means = torch.full((1, 1), mean, dtype=torch.float64)
        found = count_quantiles(means, torch.tensor([i]), LEVELS)[0, 0].numpy()
        drawn = np.quantile(draw(mean, SHAPES[i]), LEVELS)
        assert np.abs(found - drawn).max() <= 1 + 0.05 * drawn.max()


def test_each_series_has_its_own_shape_and_quantiles_rise():
    means = torch.rand(7, 3, dtype=torch.float64) * 5
    shapes = torch.tensor([0, 7, len(SHAPES) - 1])
    whole = count_quantiles(means, shapes, LEVELS)
    assert (whole.diff(dim=-1) >= 0).all()
    assert (whole >= 0).all()
    for n in range(3):
        assert torch.equal(whole[:, [n]], count_quantiles(means[:, [n]], shapes[[n]], LEVELS))
