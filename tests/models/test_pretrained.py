"""The pretrained network, and its forecasts of any series after any row."""

import numpy as np
import pytest
import torch

from fighter.models.pretrained import AHEAD, MEDIAN, PATCH, PATCHES, QUANTILES, PretrainedNet
from fighter.models.zero_shot import CONTEXT, WEIGHTS, load_network, zero_shot

SEASONS = torch.tensor([[12, 0]])


def tables(rows: int = 100, series: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    """Return noisy seasons and a mask with holes; values that are not observed are 0."""
    draw = torch.Generator().manual_seed(0)
    step = torch.arange(rows)[:, None] + 2 * torch.arange(series)
    x = 20 + (step * 2 * torch.pi / 12).sin() * 3 + torch.randn(rows, series, generator=draw)
    seen = torch.rand(rows, series, generator=draw) > 0.1
    return torch.where(seen, x, 0).double(), seen


def last(x, seen, seasons=(12,), horizon=6, **options):
    return zero_shot(x, seen, seasons, horizon, torch.tensor([len(x)]), **options)[0]


def test_the_weights_fit_into_the_package():
    assert WEIGHTS.stat().st_size < 25e6
    network = load_network()
    assert all(not parameter.requires_grad for parameter in network.parameters())
    assert not network.training


def test_a_trained_network_beats_its_anchors_on_a_noisy_season():
    errors = {"network": 0.0, "naive": 0.0}
    for seed in range(10):
        rng = np.random.default_rng(seed)
        y = 5 * np.sin(np.arange(132) * 2 * np.pi / 12 + seed) + rng.normal(size=132)
        x = torch.from_numpy(y)[:, None]
        made = last(x[:120], torch.ones(120, 1, dtype=torch.bool), horizon=12)[:, 0, 0]
        errors["network"] += float((made - x[120:, 0]).abs().mean())
        errors["naive"] += float((x[108:120, 0] - x[120:, 0]).abs().mean())
    assert errors["network"] < 0.85 * errors["naive"]


@pytest.mark.parametrize("linked", [False, True])
def test_hidden_values_have_no_effect(linked):
    x, seen = tables()
    other = torch.where(seen, x, 1e9)
    assert torch.equal(last(x, seen, linked=linked), last(other, seen, linked=linked))


@pytest.mark.parametrize("linked", [False, True])
def test_the_order_of_the_series_does_not_matter(linked):
    x, seen = tables()
    order = torch.tensor([2, 0, 1])
    there = last(x[:, order], seen[:, order], levels=(0.1, 0.9), linked=linked)
    here = last(x, seen, levels=(0.1, 0.9), linked=linked)
    torch.testing.assert_close(there, here[:, order], rtol=1e-5, atol=1e-5)


def test_linked_series_see_each_other_and_others_do_not():
    x, seen = tables()
    other = x.clone()
    other[:, 0] = other[:, 0].flip(0) * 2 + torch.arange(100)
    assert torch.equal(last(x, seen)[:, 1:], last(other, seen)[:, 1:])
    changed = last(x, seen, linked=True)[:, 1:] - last(other, seen, linked=True)[:, 1:]
    assert changed.abs().max() > 1e-4


@pytest.mark.parametrize(("factor", "shift"), [(1e-6, 0.0), (1e6, -3e8), (1.0, 1e9)])
def test_units_do_not_matter(factor, shift):
    x, seen = tables()
    moved = torch.where(seen, x * factor + shift, 0)
    expected = last(x, seen, levels=(0.1,)) * factor + shift
    got = last(moved, seen, levels=(0.1,))
    torch.testing.assert_close(
        (got - shift) / factor, (expected - shift) / factor, rtol=1e-3, atol=1e-3
    )


def test_a_forecast_does_not_depend_on_later_rows():
    x, seen = tables()
    rows = torch.tensor([60, 80])
    before = zero_shot(x, seen, (12,), 6, rows)
    x[80:], seen[80:] = 1e6, True
    assert torch.equal(zero_shot(x, seen, (12,), 6, rows), before)
    torch.testing.assert_close(before[1], last(x[:80], seen[:80]), rtol=1e-5, atol=1e-5)


def test_quantiles_are_in_order_and_hold_the_median():
    x, seen = tables()
    levels = (0.005, 0.1, 0.5, 0.9, 0.995)
    made = last(x, seen, levels=levels)
    assert (made[..., 1:].diff(dim=-1) > 0).all()
    assert torch.equal(made[..., 0], made[..., 1 + levels.index(0.5)])


@pytest.mark.parametrize("horizon", [1, PATCH * AHEAD, PATCH * AHEAD + 30])
def test_any_horizon_and_any_history(horizon):
    x, seen = tables(rows=CONTEXT + 50, series=1)
    assert last(x, seen, horizon=horizon).shape == (horizon, 1, 1)
    assert last(x[:1], seen[:1] | True, horizon=horizon).isfinite().all()
    steps = last(x, seen, horizon=PATCH * AHEAD + 30)
    torch.testing.assert_close(last(x, seen, horizon=PATCH * AHEAD), steps[: PATCH * AHEAD])


def test_only_the_context_is_looked_back_at():
    x, seen = tables(rows=CONTEXT + 50, series=2)
    assert torch.equal(last(x, seen), last(x[50:], seen[50:]))


def test_a_series_that_is_never_observed_is_forecast_by_zero():
    x, seen = tables()
    seen[:, 1] = False
    for linked in (False, True):
        assert not last(x, seen, linked=linked)[:, 1].any()


@pytest.mark.parametrize("value", [0.0, 7.5, -1e12])
def test_a_constant_series_is_continued(value):
    x = torch.full((40, 1), value).double()
    made = last(x, torch.ones(40, 1, dtype=torch.bool), levels=(0.1, 0.9))
    torch.testing.assert_close(made[..., 0], x[:6], rtol=1e-4, atol=1e-4)
    assert (made[..., 2] - made[..., 1] > 0.01 * max(abs(value), 1)).all()  # it may still change


def test_gradients_reach_every_parameter():
    torch.manual_seed(0)
    network = PretrainedNet(width=16, layers=2, heads=2, kappa=3)
    past = torch.randn(2, 3, 4 * PATCH)
    seen = torch.ones_like(past, dtype=torch.bool)
    out = network(past, seen, SEASONS.expand(2, -1), 2)
    assert out.shape == (2, 3, 2 * PATCH, len(QUANTILES))
    out.square().mean().backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.any(), name


def test_the_longest_context_is_taken():
    network = load_network()
    past = torch.randn(1, 1, PATCH * PATCHES)
    seen = torch.ones_like(past, dtype=torch.bool)
    assert network(past, seen, SEASONS, AHEAD)[..., MEDIAN].isfinite().all()
