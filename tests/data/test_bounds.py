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


def batch(past, target):
    """Make one window of one series with the bounds 0 and 2."""
    past, target = (torch.tensor(values)[None, :, None] for values in (past, target))
    return Batch(past, target, None, None, torch.tensor([0]), bounds=torch.tensor([[0.0], [2.0]]))


def test_forecasts_are_clamped_to_the_bounds():
    y = torch.tensor([-1.0, 1.0, 3.0])[None, :, None, None]
    assert clamp_to_bounds(y, batch([0.0, 1.0], [0.0, 0.0, 0.0])).flatten().tolist() == [0, 1, 2]
    # A series that has passed its bounds may pass them again.
    assert clamp_to_bounds(y, batch([-0.5, 2.5], [0.0, 0.0, 0.0])).flatten().tolist() == [
        -0.5,
        1,
        2.5,
    ]
    assert clamp_to_bounds(y, batch([0.0], [0.0])._replace(bounds=None)) is y


def test_gradients_of_the_straight_through_clamp():
    y = torch.tensor([-1.0, -1.0, 0.5, 3.0, 3.0])[None, :, None, None].requires_grad_()
    here = batch([0.0, 1.0], [0.0, 1.0, 0.0, 2.0, 1.0])
    held = straight_through_clamp(y, here)
    torch.testing.assert_close(held, clamp_to_bounds(y, here))
    (held - here.future[..., None]).abs().sum().backward()
    # No gradient beyond a bound if the target is at it; otherwise one that leads back.
    assert y.grad is not None
    assert y.grad.flatten().tolist() == [0, -1, 1, 0, 1]
