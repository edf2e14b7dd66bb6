"""The frame around every core."""

import torch

from fighter.data.windows import Batch
from fighter.models import ForecastNet, Task, build_core
from fighter.models.embedding import window_statistics


def plain(past: torch.Tensor, observed=None) -> Batch:
    return Batch(past, past[:, :1], observed, None, torch.zeros(len(past), dtype=torch.long))


def test_a_shifted_and_scaled_window_has_a_shifted_and_scaled_forecast():
    network = ForecastNet(build_core("linear", Task(8, 3, 2))).eval()
    past = torch.randn(4, 8, 2)
    y = network(plain(past), torch.zeros(4, dtype=torch.long))
    moved = network(plain(5 * past + 100), torch.zeros(4, dtype=torch.long))
    torch.testing.assert_close(moved, 5 * y + 100, rtol=1e-4, atol=1e-2)


def test_reversion_moves_level_and_deviation_step_by_step():
    task = Task(8, 3, 2)
    kept = ForecastNet(build_core("linear", task), period=4).eval()
    network = ForecastNet(build_core("linear", task), period=4, reversion=True).eval()
    assert network.load_state_dict(kept.state_dict(), strict=False).missing_keys
    past, start = torch.randn(4, 8, 2) + 3, torch.arange(4)
    torch.testing.assert_close(network(plain(past), start), kept(plain(past), start))
    r, s = torch.rand(2, 3, 2)
    network.reversion.pull.data = torch.stack([r, s])
    mean, std = window_statistics(past, None)
    wanted = (kept(plain(past), start)[..., 0] - mean) / std * (std * (1 - s) + s) + mean * (1 - r)
    torch.testing.assert_close(network(plain(past), start)[..., 0], wanted)


def test_reversion_is_per_series_only_if_the_network_is_series_specific():
    core = build_core("linear", Task(8, 3, 2))
    assert ForecastNet(core, reversion=True).reversion.pull.shape == (2, 3, 1)
    assert ForecastNet(core, reversion=True, period=4).reversion.pull.shape == (2, 3, 2)
    assert ForecastNet(core, reversion=True, normalise=False).reversion is None


def test_a_cycle_removed_before_normalisation_does_not_change_the_rest():
    """Check that a profile added to data and cycle is added to the forecast and does no more."""
    torch.manual_seed(0)
    task, past, start = Task(8, 3, 2), torch.randn(4, 8, 2), torch.tensor([0, 5, 30, 71])
    for cycle_before_norm in (True, False):
        core = build_core("linear", task)
        network = ForecastNet(
            core, period=12, cycle_before_norm=cycle_before_norm, reversion=True
        ).eval()
        network.cycle.profile.data.normal_()
        network.reversion.pull.data.uniform_()
        y = network(plain(past), start)
        profile = torch.randn(12, 2)
        steps = start[:, None] + torch.arange(11)
        before, after = profile[steps % 12].split([8, 3], 1)
        network.cycle.profile.data += profile
        moved = network(plain(past + before), start)
        assert torch.allclose(moved - y, after[..., None], atol=1e-4) == cycle_before_norm


def test_a_forecast_is_the_mean_of_its_members():
    torch.manual_seed(0)
    core = build_core("fighter", Task(8, 3, 2, outputs=3), width=16, heads=2, members=4)
    network = ForecastNet(core, period=4, reversion=True, covariates=(0, 1)).eval()
    core.prepare(torch.tensor([0.7**lag for lag in range(8)]))
    batch = plain(torch.randn(5, 8, 2))._replace(future_covariates=torch.randn(5, 11, 2, 1))
    per_member, together = (
        network(batch, torch.arange(5), per_member=True),
        network(batch, torch.arange(5)),
    )
    assert per_member.shape == (4, 5, 3, 2, 3)
    torch.testing.assert_close(per_member.mean(0), together)
    assert (per_member[0] - per_member[1]).abs().max() > 1e-3
    # A member does not see the others.
    for name, value in core.named_parameters():
        if name.startswith("head."):
            value.data.view(4, -1)[3] *= 2
    changed = network(batch, torch.arange(5), per_member=True)
    assert torch.equal(changed[:3], per_member[:3])
    assert not torch.equal(changed[3], per_member[3])
