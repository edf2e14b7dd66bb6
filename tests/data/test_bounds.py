import numpy as np
import pytest
import torch

from fighter.data import Batch
from fighter.data.bounds import clamp_to_bounds, find_bounds, straight_through_clamp

ROWS = 4000
RNG = np.random.default_rng(0)
NOISE = RNG.normal(size=ROWS)


def found(values, observed=None):
    values = np.asarray(values, float)[:, None]
    seen = np.ones(values.shape, bool) if observed is None else observed[:, None]
    return tuple(find_bounds(values, seen)[:, 0])


def test_a_series_that_rests_at_its_lowest_value_has_a_floor():
    assert found(np.maximum(NOISE, 0)) == (0.0, np.inf)
    assert found(np.minimum(NOISE, 1)) == (-np.inf, 1.0)
    assert found(np.clip(NOISE, -1, 1)) == (-1.0, 1.0)
    assert found(np.full(ROWS, 7.0)) == (7.0, 7.0)


@pytest.mark.parametrize(
    "values",
    [
        NOISE,
        np.round(10 * NOISE),  # the lowest whole number is rare
        np.maximum(NOISE - np.arange(ROWS) / 1000, -5),  # touched only at the end
        np.where(np.arange(ROWS) < 500, 0, 5 + np.abs(NOISE)),  # off in the beginning
        [],
        [1.0],
    ],
)
def test_others_have_none(values):
    assert found(values) == (-np.inf, np.inf)


def test_neither_a_broken_sensor_nor_gaps_hide_it():
    values = np.maximum(NOISE, 0)
    values[[10, 900]] = -9999
    assert found(values)[0] == 0.0
    observed = RNG.random(ROWS) < 0.3
    assert found(np.where(observed, values, -5), observed)[0] == 0.0


def batch(past, target):
    """One window of one series that goes no lower than 0 and no higher than 2."""
    past, target = (torch.tensor(values)[None, :, None] for values in (past, target))
    return Batch(past, target, None, None, torch.tensor([0]), bounds=torch.tensor([[0.0], [2.0]]))


def test_forecasts_stay_within():
    y = torch.tensor([-1.0, 1.0, 3.0])[None, :, None, None]
    assert clamp_to_bounds(y, batch([0.0, 1.0], [0.0, 0.0, 0.0])).flatten().tolist() == [0, 1, 2]
    # It has been lower and higher: then these are no limits.
    assert clamp_to_bounds(y, batch([-0.5, 2.5], [0.0, 0.0, 0.0])).flatten().tolist() == [
        -0.5,
        1,
        2.5,
    ]
    assert clamp_to_bounds(y, batch([0.0], [0.0])._replace(bounds=None)) is y


def test_what_is_learned_of_a_limit():
    y = torch.tensor([-1.0, -1.0, 0.5, 3.0, 3.0])[None, :, None, None].requires_grad_()
    here = batch([0.0, 1.0], [0.0, 1.0, 0.0, 2.0, 1.0])
    held = straight_through_clamp(y, here)
    torch.testing.assert_close(held, clamp_to_bounds(y, here))
    (held - here.future[..., None]).abs().sum().backward()
    # Beyond a limit that the target is at nothing is to be learned, else what leads back is.
    assert y.grad is not None
    assert y.grad.flatten().tolist() == [0, -1, 1, 0, 1]
