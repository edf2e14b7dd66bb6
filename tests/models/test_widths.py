"""Factors of the usual error: what they are made of, and how much each one counts."""

import pytest
import torch

from fighter.models.local import smooth
from fighter.models.widths import LARGEST, apply, fit_powers, width_factors


def factors(surprise, point, rows, season=1, lowest=0.0) -> torch.Tensor:
    low = torch.full(point[:, 0].shape, lowest).double()
    return width_factors(surprise.double(), low, point.double(), torch.tensor(rows), season)


def test_recent_errors_raise_the_first_factor():
    surprise = torch.ones(400, 2)
    surprise[300:, 1] = 3.0
    calm, wild = factors(surprise, torch.ones(2, 5, 2), [300, 400])[0, :, 0].T
    assert calm.tolist() == pytest.approx([1.0, 1.0])
    assert float(wild[0]) == pytest.approx(1.0)
    assert float(wild[1]) > 1.6


def test_each_step_has_the_errors_of_its_phase():
    phase = torch.arange(203) % 4
    surprise = torch.where(phase == 2, 4.0, 1.0)[:, None]
    found = factors(surprise, torch.ones(1, 6, 1), [200], season=4)[1, 0, :, 0]
    assert (found[[2]] > 2).all()
    assert (found[[0, 1, 3, 4, 5]] < 0.8).all()
    later = torch.cat([surprise[:200], 100 * surprise[200:]])  # rows after the forecast
    same = factors(later, torch.ones(1, 6, 1), [200], season=4)[1, 0, :, 0]
    torch.testing.assert_close(same, found)


def test_the_third_factor_follows_the_height_above_the_lowest_value():
    point = torch.tensor([2.0, 6.0, 10.0])[None, :, None]
    low = factors(torch.ones(9, 1), point, [9], lowest=2.0)[2, 0, :, 0]
    shifted = factors(torch.ones(9, 1), point + 1e3, [9], lowest=1002.0)[2, 0, :, 0]
    torch.testing.assert_close(shifted, low, rtol=1e-4, atol=1e-4)
    assert low.tolist() == pytest.approx([1 / LARGEST, 1.0, 2.1 / 1.1])


def test_unknown_errors_leave_every_factor_at_one():
    surprise = torch.full((30, 1), torch.nan)
    found = factors(surprise, torch.zeros(1, 3, 1), [30], season=7)
    assert torch.equal(found, torch.ones_like(found))


@pytest.mark.parametrize("truth", [0.0, 0.4, 0.9])
def test_the_power_of_a_factor_is_found(truth):
    torch.manual_seed(1)
    logs = torch.randn(2, 400, 6, 3).double().clamp(-2, 2)
    size = (truth * logs[0]).exp() * torch.empty(400, 6, 3).double().exponential_()
    powers = fit_powers(logs.exp(), size, torch.ones(400, 6, 3).bool(), 400.0)
    assert powers.tolist() == pytest.approx([truth, 0.0], abs=0.08)
    few = fit_powers(logs.exp(), size, torch.ones(400, 6, 3).bool(), 0.1)
    assert (few <= 0.05).all()


def test_powers_apply_to_factors():
    found = torch.tensor([4.0, 9.0, 5.0]).double()[:, None, None, None]
    product = apply(found, torch.tensor([0.5, 1.0, 0.0]))
    assert float(product) == pytest.approx(18.0)


def test_forecasts_carry_their_factors():
    torch.manual_seed(0)
    x = torch.randn(120, 3).double()
    made = smooth(x, torch.ones(120, 3).bool(), (7,), 5, torch.tensor([80, 120]))
    assert made.factors.shape == (3, 2, 5, 3)
    chosen = made.at(torch.tensor([120]))
    assert torch.equal(chosen.factors, made.factors[:, 1:])
