"""The loss of the pretrained network."""

import torch

from fighter.models.pretrained import PATCH, QUANTILES, PretrainedNet
from fighter.models.pretrained_loss import EASIEST, relative_losses, simple_error


def example() -> tuple[torch.Tensor, ...]:
    torch.manual_seed(0)
    past = torch.randn(2, 3, 4 * PATCH).cumsum(-1)
    seen = torch.rand_like(past) > 0.1
    future = past[..., -1:] + torch.randn(2, 3, 2 * PATCH).cumsum(-1)
    scored = torch.rand_like(future) > 0.3
    return past * seen, seen, future, scored, torch.tensor([[7, 0], [0, 0]])


@torch.no_grad()
def test_it_is_the_quantile_loss_in_multiples_of_simple_errors():
    network = PretrainedNet(width=16, layers=2, heads=2).eval()
    past, seen, future, scored, seasons = example()
    made = relative_losses(network, past, seen, future, scored, seasons)
    z, mean, deviation = network.units(past, seen)
    y = network.inside(z, seen, seasons, 2)[1, 2]
    target = ((future - mean) / deviation).asinh()[1, 2].clamp(-6, 6)
    total = 0.0
    for t in scored[1, 2].nonzero()[:, 0]:
        for q, level in enumerate(QUANTILES):
            over = float(target[t] - y[t, q])
            total += 2 * max(level * over, (level - 1) * over) / len(QUANTILES)
    last = float(z[1, 2][seen[1, 2]][-1])
    simple = float((target - last).abs()[scored[1, 2]].mean())  # no season is told
    expected = total / int(scored[1, 2].sum()) / (simple + EASIEST)
    torch.testing.assert_close(made[1, 2], torch.tensor(expected), rtol=1e-4, atol=1e-5)


def test_nothing_is_lost_where_nothing_is_scored():
    network = PretrainedNet(width=16, layers=2, heads=2).eval()
    past, seen, future, scored, seasons = example()
    scored[0, 1] = False
    made = relative_losses(network, past, seen, future, scored, seasons)
    assert made[0, 1] == 0
    assert (made.flatten()[[0, 2, 3, 4, 5]] > 0).all()
    z, mean, deviation = network.units(past, seen)
    target = ((future - mean) / deviation).asinh()
    assert simple_error(z, seen, seasons, target, scored)[0, 1] == 0
