"""Autoregressions: how they are fitted, what they forecast, and what a forecast is made of."""

import numpy as np
import pytest
import torch

from fighter.models import autoregression, ridge
from fighter.models.autoregression import Autoregressions, Kind, choose_features, make_kinds


def waves(rows: int = 120, series: int = 3, seed: int = 0) -> torch.Tensor:
    """Return stationary series that swing: AR(2) with complex roots around different means."""
    rng = np.random.default_rng(seed)
    x = np.zeros((rows + 50, series))
    for t in range(2, rows + 50):
        x[t] = 1.6 * x[t - 1] - 0.8 * x[t - 2] + rng.normal(size=series)
    return torch.from_numpy(x[50:] + 10 * np.arange(1, series + 1))


def fitted(x: torch.Tensor, seasons=(), horizon: int = 6, seen=None) -> Autoregressions:
    seen = torch.ones_like(x, dtype=torch.bool) if seen is None else seen
    found = Autoregressions(x, seen, seasons, horizon, [len(x)], make_kinds(seasons))
    for end in (len(x) // 3, len(x)):
        found.advance(end)
    return found


def oracle(x: np.ndarray, lags: list[int], difference: int) -> tuple[np.ndarray, float]:
    """Fit one series by ridge regression of centred values."""
    z = x[difference:] - x[: len(x) - difference] if difference else x
    start = max(lags)
    rows = np.array([[z[t - lag] for lag in lags] for t in range(start, len(z))])
    y = z[start:]
    design, target = rows - rows.mean(0), y - y.mean()
    size = len(y) / (target @ target)  # in rows of a series with variance 1
    gram = size * design.T @ design + ridge.PULL * np.eye(len(lags))
    slopes = np.linalg.solve(gram, size * design.T @ target)
    return slopes, float(y.mean() - rows.mean(0) @ slopes)


@pytest.mark.parametrize(("difference", "seasons"), [(0, ()), (1, ()), (4, (4,)), (0, (4,))])
def test_the_weights_are_those_of_ridge_regression(difference, seasons):
    x = waves(40, 1)
    found = Autoregressions(
        x, torch.ones_like(x, dtype=torch.bool), seasons, 6, [40], make_kinds(seasons)
    )
    weights = found.fit(39)
    which = make_kinds(seasons).index(Kind(difference))
    lags = choose_features(40, seasons, Kind(difference))[0].tolist()
    slopes, intercept = oracle(x[:, 0].numpy(), lags, difference)
    expected = np.zeros(max(lags) + difference + 1)
    expected[lags] += slopes
    if difference:
        expected[np.array(lags) + difference] -= slopes
        expected[difference] += 1
    actual = np.zeros_like(expected)
    for lag, weight in zip(
        weights.lags.tolist(), weights.weight[:, which, 0].tolist(), strict=True
    ):
        if lag < len(actual):
            actual[lag] = weight
    assert actual == pytest.approx(expected, abs=1e-9)
    constant = intercept + float(x[0, 0]) * (expected.sum() - 1)  # values count from the first one
    assert float(weights.intercept[which, 0]) == pytest.approx(constant, abs=1e-9)


def test_a_swing_is_forecast():
    x = waves(160, 1, seed=3)
    past, future = x[:150], x[150:156, 0]
    error = (fitted(past).paths(149)[0, :, 0] - future).abs().mean()
    assert float(error) < 0.6 * float((past[-1, 0] - future).abs().mean())


@pytest.mark.parametrize("h", [1, 2, 5, 6])
@pytest.mark.parametrize("seasons", [(), (4,), (4, 12)])
def test_a_step_is_the_same_by_its_map_as_step_by_step(seasons, h):
    x = waves(90)
    found = fitted(x, seasons)
    whole, single = found.paths(89)[:, h - 1], found.path(h)[-1]
    usable = found.ready()[-1]
    assert usable.any()
    torch.testing.assert_close(single[usable], whole[usable], rtol=1e-9, atol=1e-9)


def test_sums_that_move_on_equal_those_computed_anew(monkeypatch):
    """Old rows leave the sums: the weights are those of the last rows alone."""
    monkeypatch.setattr(autoregression, "MEMORY", 60)
    x = waves(200)
    weights, cut = fitted(x).fit(199), fitted(x[140:]).fit(59)
    # Rows before the cut explain its first values, so only the second fit lacks some.
    assert torch.equal(weights.lags, cut.lags)
    anew = Autoregressions(
        x, torch.ones_like(x, dtype=torch.bool), (), 6, [200], make_kinds(())
    ).fit(199)
    torch.testing.assert_close(weights.weight, anew.weight, rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(weights.intercept, anew.intercept, rtol=1e-8, atol=1e-8)


def test_a_forecast_that_would_run_away_is_not_used():
    x = torch.from_numpy(1.3 ** np.arange(60.0))[:, None]
    assert not fitted(x, horizon=40).ready()[-1, 0].any()


def test_a_constant_series_stays_constant():
    x = torch.full((40, 2), 7.0, dtype=torch.float64)
    found = fitted(x)
    paths = found.paths(39)[found.ready()[-1].any(1)]
    torch.testing.assert_close(paths, torch.full_like(paths, 7.0))


def test_responses_add_up_to_the_forecast_over_missing_rows():
    """A missing value counts as the last one observed before it."""
    x, seen = waves(70), torch.ones(70, 3, dtype=torch.bool)
    seen[[30, 31, 69], 1] = False
    found = fitted(x * seen, (4,), seen=seen)
    used = torch.nonzero(found.ready()[-1][:, 1])[:, 0].tolist()
    response, constant = found.responses(used, 1, 69)
    whole = (response * (x * seen)[:, 1]).sum(2) + constant
    torch.testing.assert_close(whole, found.paths(69)[used][..., 1], rtol=1e-9, atol=1e-9)
    assert not response[..., ~seen[:, 1]].any()
