import numpy as np
import pytest
import torch

from fighter.data import Batch, Scaler
from fighter.data.bounds import (
    clamp_finished,
    clamp_to_bounds,
    describe_bounds,
    find_bounds,
    find_floor,
    straight_through_clamp,
    to_table_units,
    with_bounds,
)

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
    assert bounds_of(np.where(np.arange(ROWS) % 20 < 19, 0, 1 + NOISE**2)) == (0.0, np.inf)


@pytest.mark.parametrize(
    "values",
    [
        NOISE,
        np.round(10 * NOISE),  # the lowest whole number is rare
        np.maximum(NOISE - np.arange(ROWS) / 1000, -5),  # at its bound only in the end
        np.where(np.arange(ROWS) < 500, 0, 5 + np.abs(NOISE)),  # zero only in the beginning
        np.full(ROWS, 7.0),  # both bounds would be its value
        np.zeros(ROWS),
        np.where(np.arange(ROWS) == 7, -9999, 7.0),  # constant but for a broken sensor
        np.where(np.arange(ROWS) == 7, 12.0, 7.0),
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


@pytest.mark.parametrize(
    ("values", "low"),
    [
        (np.random.default_rng(1).poisson(3, ROWS), 0.0),  # 5 % zeros, no bound by itself
        (82 + np.abs(NOISE), 0.0),
        (np.maximum(NOISE, 0), 0.0),
        (np.zeros(ROWS), 0.0),
        (np.where(np.arange(ROWS) == 7, -1e-17, np.abs(NOISE)), 0.0),  # rounding
        (NOISE, -np.inf),
        (np.where(np.arange(ROWS) == 7, -0.01, np.abs(NOISE)), -np.inf),  # once is enough
        ([], -np.inf),
        ([3.0], 0.0),
    ],
)
def test_a_series_that_is_never_negative_has_a_floor(values, low):
    values = np.asarray(values, float)[:, None]
    assert find_floor(values, np.ones(values.shape, bool)).tolist() == [[low], [np.inf]]


def test_the_floor_comes_from_observed_values():
    values, seen = np.array([[1.0], [-5.0], [2.0]]), np.array([[True], [False], [True]])
    assert find_floor(values, seen)[0] == 0.0
    assert find_floor(values, ~seen)[0] == -np.inf
    assert find_floor(values, np.zeros((3, 1), bool))[0] == -np.inf


def scaler_of(*columns, wanted):
    values = np.stack([np.asarray(column, float) for column in columns], 1)
    seen = np.ones(values.shape, bool)
    return with_bounds(Scaler.fit(values, seen), values, seen, wanted)


def test_given_bounds_replace_the_others():
    rain, load, humidity = np.maximum(NOISE, 0), 50 + np.abs(NOISE), np.minimum(NOISE, 1)
    columns = rain, load, humidity
    off, on = (scaler_of(*columns, wanted=wanted) for wanted in (False, True))
    assert (off.bounds, off.floor, off.given_bounds) == (None, None, None)
    assert on.given_bounds is None
    assert on.bounds is not None
    assert on.bounds.tolist() == [[0, -np.inf, -np.inf], [np.inf, np.inf, 1]]
    assert on.floor is not None
    assert on.floor[0].tolist() == [0, 0, -np.inf]
    given = scaler_of(*columns, wanted=(0, None))
    assert given.floor is None
    assert given.given_bounds is not None
    assert given.given_bounds.tolist() == [[0] * 3, [np.inf] * 3]
    assert given.bounds is not None  # only what is touched takes part in training
    assert given.bounds.tolist() == [[0, -np.inf, -np.inf], [np.inf] * 3]
    assert describe_bounds(off, "abc") == ""
    assert describe_bounds(on, "abc") == "detected for 'a', 'c'; at least 0 for 'a', 'b'"
    assert describe_bounds(given, "abc") == "at least 0, as given"
    both = scaler_of(*columns, wanted=(-1.5, 100))
    assert describe_bounds(both, "abc") == "at least -1.5 and at most 100, as given"
    picked = on.select(np.array([2, 0]))
    assert picked.floor is not None
    assert picked.floor[0].tolist() == [-np.inf, 0]


def batch(past, target, observed=None):
    """Make one window of one series with the bounds 0 and 2."""
    past, target = (torch.tensor(values)[None, :, None] for values in (past, target))
    seen = None if observed is None else torch.tensor(observed)[None, :, None]
    return Batch(past, target, seen, None, torch.tensor([0]), bounds=torch.tensor([[0.0], [2.0]]))


FLOOR, GIVEN = torch.tensor([[-2.0], [torch.inf]]), torch.tensor([[-0.5], [1.5]])
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


def test_the_floor_is_for_finished_forecasts_only():
    y = torch.tensor([-3.0, -1.0, 3.0])[None, :, None, None]
    window = batch([0.0], [0.0, 0.0, 0.0])._replace(bounds=None, floor=FLOOR)
    assert clamp_to_bounds(y, window) is y
    assert straight_through_clamp(y, window) is y
    assert clamp_finished(y, window).flatten().tolist() == [-2, -1, 3]
    below = window._replace(past=torch.tensor([[[-2.5]]]))
    assert clamp_finished(y, below).flatten().tolist() == [-3, -1, 3]


def test_the_floor_holds_where_a_bound_above_it_is_lifted():
    """A series of at least 1 that falls to 0 may be 0, not less."""
    y = torch.tensor([-3.0, -1.0, 3.0])[None, :, None, None]
    window = batch([1.0], [0.0, 0.0, 0.0])._replace(floor=FLOOR)
    assert clamp_finished(y, window).flatten().tolist() == [0, 0, 2]
    below = window._replace(past=torch.tensor([[[-1.5]]]))
    assert clamp_finished(y, below).flatten().tolist() == [-2, -1, 2]


def test_given_bounds_hold_whatever_the_look_back_holds():
    for past in ([0.0], [-5.0, 5.0]):
        window = batch(past, [0.0, 0.0, 0.0])._replace(bounds=None, given_bounds=GIVEN)
        assert clamp_finished(Y, window).flatten().tolist() == [-0.5, 1, 1.5]
        assert clamp_to_bounds(Y, window) is Y


def test_a_forecast_at_a_bound_becomes_the_bound_exactly():
    values = np.random.default_rng(2).poisson(3, ROWS) * 0.1
    for wanted, low in ((True, 0.0), ((0.1, None), 0.1)):
        scaler = scaler_of(values, wanted=wanted)
        window = batch([0.0], [0.0, 0.0, 0.0])._replace(bounds=None)
        for name in ("floor", "given_bounds"):
            if (bounds := getattr(scaler, name)) is not None:
                window = window._replace(**{name: torch.tensor(scaler.transform(bounds)).float()})
        y = clamp_finished(9 * Y, window)
        assert to_table_units(y, window, scaler).min() == low


def test_without_bounds_a_forecast_stays_as_it_is():
    for clamp in (clamp_to_bounds, straight_through_clamp, clamp_finished):
        assert clamp(Y, batch([0.0], [0.0])._replace(bounds=None)) is Y


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
