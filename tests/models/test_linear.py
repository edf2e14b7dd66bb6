import torch

from fighter.data.windows import Batch
from fighter.models import ForecastNet, Task, build_core
from fighter.models.embedding import moving_average

TASK = Task(lookback=20, horizon=4, series=3, outputs=2, context=2, period=5)
PAST = torch.randn(2, 20, 3)


def test_dlinear_is_one_map_of_the_trend_and_one_of_the_remainder():
    core = build_core("dlinear", TASK).eval()
    trend = moving_average(PAST, 25)
    maps = [core.trend.map, core.remainder.map]
    parts = [f(x.mT) for f, x in zip(maps, (trend, PAST - trend), strict=True)]
    wanted = sum(parts).unflatten(-1, (4, 2)).transpose(1, 2)
    torch.testing.assert_close(core(PAST), wanted)


def test_cyclenet_is_a_perceptron_on_the_window_without_its_cycle():
    network = ForecastNet(build_core("cyclenet", TASK, width=8), period=5).eval()
    network.cycle.profile.data.normal_()
    network.affine.factor.data.uniform_(0.5, 2)
    first, _, second = network.core.map
    start = torch.tensor([3, 11])
    y = network(Batch(PAST, PAST[:, :4], None, None, start), start)
    mean, std = PAST.mean(1, keepdim=True), PAST.var(1, correction=0, keepdim=True).add(1e-5).sqrt()
    steps = torch.stack([torch.arange(24) + place for place in start.tolist()]) % 5
    cycle = network.cycle.profile[steps]  # [2, 24, 3]
    x = ((PAST - mean) / std - cycle[:, :20]) * network.affine.factor
    hidden = (x.mT @ first.weight.T + first.bias).clamp(min=0)
    ahead = (hidden @ second.weight.T + second.bias).unflatten(-1, (4, 2)).transpose(1, 2)
    ahead = ahead / network.affine.factor[:, None] + cycle[:, 20:, :, None]
    torch.testing.assert_close(y, ahead * std[..., None] + mean[..., None])
