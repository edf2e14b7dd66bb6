"""The vector autoregression: its weights, its honesty, and what its forecasts are made of."""

import pytest
import torch

from fighter.models.vector import (
    FEWEST_ROWS,
    VectorAttribution,
    choose_lags,
    fill_gaps,
    fit_vector,
    forecast_vector,
)


def follow(rows: int = 400, seed: int = 0) -> torch.Tensor:
    """Return three series; the second follows the first by one step, the third is noise."""
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, 3, generator=draw, dtype=torch.float64)
    x[1:, 1] = 0.9 * x[:-1, 0] + 0.1 * x[1:, 1]
    return x


def seen(x: torch.Tensor) -> torch.Tensor:
    return torch.ones_like(x, dtype=torch.bool)


def test_it_finds_the_series_that_leads():
    fit = fit_vector(follow(), (), 4)
    assert fit is not None
    first = fit.weights[0]
    assert first[0, 1] == pytest.approx(0.9, abs=0.05)
    assert first[2].abs().max() < 0.1
    x = follow(seed=1)
    made = fit.forecast(x[:-1].unfold(0, fit.reach, 1).transpose(1, 2), 1)[:, 0, 1]
    assert (made - x[fit.reach :, 1]).square().mean() < 0.05 * x[:, 1].var()


def test_with_little_penalty_it_is_least_squares(monkeypatch):
    monkeypatch.setattr("fighter.models.vector.PENALTIES", torch.tensor([1e-9]))
    x = follow()
    fit = fit_vector(x, (), 1)
    assert fit is not None
    z = x - x.mean(0)
    reach = fit.reach
    past = torch.stack([z[reach - k : len(z) - k] for k in range(1, reach + 1)], 1).flatten(1)
    expected = torch.linalg.lstsq(past, z[reach:]).solution
    torch.testing.assert_close(fit.weights.flatten(0, 1), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e9])
def test_units_and_levels_of_a_series_do_not_matter(scale):
    x = follow()
    plain = forecast_vector(x, seen(x), (), 3, torch.tensor([400]))
    changed = x * scale + 7 * scale
    made = forecast_vector(changed, seen(x), (), 3, torch.tensor([400]))
    torch.testing.assert_close(made, plain * scale + 7 * scale, rtol=1e-6, atol=1e-6 * scale)


def test_the_order_of_series_does_not_matter():
    x, order = follow(), [2, 0, 1]
    made = forecast_vector(x, seen(x), (), 3, torch.tensor([400]))
    other = forecast_vector(x[:, order], seen(x), (), 3, torch.tensor([400]))
    torch.testing.assert_close(other, made[..., order])


def test_no_forecast_sees_a_later_row():
    x = follow()
    rows = torch.tensor([50, 200, 300])
    made = forecast_vector(x, seen(x), (7,), 5, rows)
    later = x.clone()
    later[200:] += 100
    other = forecast_vector(later, seen(x), (7,), 5, rows)
    assert torch.equal(made[:2], other[:2])
    assert not torch.equal(made[2], other[2])


def test_what_is_not_observed_does_not_matter():
    x, known = follow(), seen(follow())
    known[::5, 0] = False
    known[:40, 2] = False
    other = torch.where(known, x, 1e6)
    rows = torch.tensor([30, 400])
    made, again = (forecast_vector(each, known, (), 3, rows) for each in (x, other))
    assert made[0].isnan().all()  # the third series has not begun
    assert made[1].isfinite().all()
    torch.testing.assert_close(made, again, equal_nan=True)


def test_few_rows_make_no_forecast():
    x = follow(FEWEST_ROWS - 1)
    assert fit_vector(x, (), 2) is None
    assert forecast_vector(x, seen(x), (), 2, torch.tensor([len(x)])).isnan().all()


def test_a_constant_series_stays_constant():
    x = follow()
    x[:, 2] = 5.0
    made = forecast_vector(x, seen(x), (), 3, torch.tensor([400]))
    assert (made[0, :, 2] == 5.0).all()
    assert made.isfinite().all()


def test_forecasts_that_would_run_away_are_not_made():
    x = follow(60) * 0.01 + 1.1 ** torch.arange(60.0, dtype=torch.float64)[:, None]
    assert fit_vector(x, (), 1) is not None
    assert fit_vector(x, (), 200) is None


@pytest.mark.parametrize(("rows", "series"), [(30, 2), (200, 40), (2000, 3), (100, 300)])
def test_there_are_more_rows_than_regressors_where_series_are_few(rows, series):
    lags, pull = choose_lags(rows, series, (12, 24))
    assert lags == sorted(set(lags))
    assert len(lags) == len(pull)
    assert lags[-1] < rows / 2
    assert len(lags) * series <= max(300, series)


def test_the_parts_add_up():
    x, known = follow(), seen(follow())
    known[-3:, 0] = False
    known[::4, 1] = False
    split = VectorAttribution(x, known, (7,), 5)
    made = forecast_vector(x, known, (7,), 5, torch.tensor([400]))[0]
    assert split.fit is not None
    torch.testing.assert_close(split.made, made)
    draw = torch.Generator().manual_seed(3)
    changed = x + torch.randn(x.shape, generator=draw, dtype=x.dtype) * known
    last = fill_gaps(changed, known)[0][None, len(x) - split.fit.reach :]
    expected = split.fit.forecast(last, 5)[0]
    for step in range(1, 6):
        slopes = split.slopes(step)
        assert not slopes[~known].any()
        moved = torch.einsum("rst,rs->t", slopes, changed - x)
        torch.testing.assert_close(made[step - 1] + moved, expected[step - 1])
