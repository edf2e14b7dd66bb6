import numpy as np
import pytest
import torch

from fighter.data import Batch
from fighter.data.bounds import clamp_to_bounds, find_bounds, straight_through_clamp

ROWS = 4000
RNG = np.random.default_rng(0)
NOISE = RNG.normal(size=ROWS)


def bounds_of(values, observed=None):
    values = np.asarray(values, float)[:, None]
    seen = np.ones(values.shape, bool) if observed is None else observed[:, None]
    return tuple(find_bounds(values, seen)[:, 0])


def test_bounds_are_found_where_series_rest_at_them():
    assert bounds_of(np.maximum(NOISE, 0)) == (0.0, np.inf)
    assert bounds_of(np.minimum(NOISE, 1)) == (-np.inf, 1.0)
    assert bounds_of(np.clip(NOISE, -1, 1)) == (-1.0, 1.0)
    assert bounds_of(np.full(ROWS, 7.0)) == (7.0, 7.0)


@pytest.mark.parametrize(
    "values",
    [
        NOISE,
        np.round(10 * NOISE),  # the lowest whole number is rare
        np.maximum(NOISE - np.arange(ROWS) / 1000, -5),  # at its bound only in the end
        np.where(np.arange(ROWS) < 500, 0, 5 + np.abs(NOISE)),  # zero only in the beginning
        [],
        [1.0],
    ],
)
def test_other_series_have_no_bounds(values):
    assert bounds_of(values) == (-np.inf, np.inf)


def test_a_bound_is_found_despite_a_broken_sensor_and_gaps():
    values = np.maximum(NOISE, 0)
    values[[10, 900]] = -9999
    assert bounds_of(values)[0] == 0.0
    observed = RNG.random(ROWS) < 0.3
    assert bounds_of(np.where(observed, values, -5), observed)[0] == 0.0


def batch(past, target, observed=None):
    """Make one window of one series with the bounds 0 and 2."""
    past, target = (torch.tensor(values)[None, :, None] for values in (past, target))
    seen = None if observed is None else torch.tensor(observed)[None, :, None]
    return Batch(past, target, seen, None, torch.tensor([0]), bounds=torch.tensor([[0.0], [2.0]]))


Y = torch.tensor([-1.0, 1.0, 3.0])[None, :, None, None]


@pytest.mark.parametrize(
    ("past", "expected"),
    [
        ([0.0, 1.0], [0, 1, 2]),
        ([0.0, 2.0], [0, 1, 2]),  # at a bound is not beyond it
        ([-5e-7, 2.000001], [0, 1, 2]),  # nor is rounding
        ([-0.5, 1.0], [-1, 1, 2]),  # beyond a bound, there is none on that side
        ([1.0, 2.5], [0, 1, 3]),
        ([-0.5, 2.5], [-1, 1, 3]),
    ],
)
def test_forecasts_are_clamped_to_the_bounds_unless_the_look_back_passed_them(past, expected):
    here = batch(past, [0.0, 0.0, 0.0])
    assert clamp_to_bounds(Y, here).flatten().tolist() == expected
    assert straight_through_clamp(Y, here).flatten().tolist() == expected


def test_only_observed_values_lift_a_bound():
    # What is not observed is 0 in scaled units: the mean, which a stray value may move anywhere.
    window = batch([-0.5, 1.0, 2.5], [0.0, 0.0, 0.0], [False, True, False])
    assert clamp_to_bounds(Y, window).flatten().tolist() == [0, 1, 2]
    window = window._replace(past_observed=torch.tensor([True, True, False])[None, :, None])
    assert clamp_to_bounds(Y, window).flatten().tolist() == [-1, 1, 2]
    window = window._replace(past_observed=torch.zeros(1, 3, 1, dtype=torch.bool))
    assert clamp_to_bounds(Y, window).flatten().tolist() == [0, 1, 2]


def test_without_bounds_a_forecast_stays_as_it_is():
    assert clamp_to_bounds(Y, batch([0.0], [0.0])._replace(bounds=None)) is Y


def test_each_window_has_its_own_bounds():
    here = batch([0.0, 1.0], [0.0])
    both = here._replace(past=torch.tensor([[0.0, 1.0], [0.0, 2.5]])[..., None])
    assert clamp_to_bounds(Y.expand(2, -1, -1, -1), both)[..., 0, 0].tolist() == [
        [0, 1, 2],
        [0, 1, 3],
    ]
    members = Y.expand(4, 1, -1, -1, -1)  # each member is clamped alike
    assert clamp_to_bounds(members, here)[:, 0, :, 0, 0].tolist() == [[0, 1, 2]] * 4


def test_gradients_of_the_straight_through_clamp():
    y = torch.tensor([-1.0, -1.0, 0.5, 3.0, 3.0])[None, :, None, None].requires_grad_()
    here = batch([0.0, 1.0], [0.0, 1.0, 0.0, 2.0, 1.0])
    held = straight_through_clamp(y, here)
    torch.testing.assert_close(held, clamp_to_bounds(y, here))
    (held - here.future[..., None]).abs().sum().backward()
    # No gradient beyond a bound if the target is at it; otherwise one that leads back.
    assert y.grad is not None
    assert y.grad.flatten().tolist() == [0, -1, 1, 0, 1]
