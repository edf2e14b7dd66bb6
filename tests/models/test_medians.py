import numpy as np
import torch

from fighter.models.attribution import Attribution
from fighter.models.local import smooth
from fighter.models.medians import Medians, make_medians

ROWS, SEASON, HORIZON = 60, 4, 6


def series() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(ROWS, 2, generator=generator, dtype=torch.float64)
    seen = torch.ones(ROWS, 2, dtype=torch.bool)
    seen[[20, 57], 1] = False
    return x, seen


def run() -> tuple[Medians, torch.Tensor]:
    x, seen = series()
    medians = Medians(x, seen, [SEASON], HORIZON)
    for end in (10, 37, ROWS):
        medians.advance(end)
    return medians, x


def test_forecasts_are_medians_of_the_last_values_of_the_phase():
    medians, x = run()
    paths = medians.paths(ROWS - 1)
    for i, (season, count) in enumerate(make_medians([SEASON])):
        for h in range(HORIZON):
            rows = [ROWS - season + h % season - season * k for k in range(count)]
            assert paths[i, h, 0] == np.median(x[rows, 0].numpy())
            assert torch.equal(paths[i, h], medians.path(h + 1)[-1, i])


def test_a_forecast_rests_on_one_observed_value():
    medians, x = run()
    paths, used = medians.paths(ROWS - 1), [0, 2, 4]
    for n in (0, 1):
        response = medians.responses(used, n, ROWS - 1)
        assert torch.equal((response > 0).sum(2), torch.ones(3, HORIZON).long())
        assert torch.equal(response @ x[:, n], paths[used][..., n])
    assert not response[..., [20, 57]].any()


def test_a_rarely_sold_item_is_forecast_as_zero_and_still_explained():
    generator = torch.Generator().manual_seed(0)
    sold = torch.rand(120, 1, generator=generator, dtype=torch.float64) < 0.2
    x = torch.where(sold, 3.0, 0.0).double()
    seen = torch.ones_like(x, dtype=torch.bool)
    forecast = smooth(x, seen, [], HORIZON).point[0, :, 0]
    assert forecast.abs().mean() < x.mean() / 3
    parts = Attribution(x, seen, [], HORIZON).split(0, float(x.mean()))
    total = float(x.mean()) + parts.bias + parts.past.sum(1)
    assert torch.allclose(total, forecast, atol=1e-9)
    assert torch.allclose(parts.forecast, forecast, atol=1e-9)


def test_weights_depend_on_the_step():
    """A walk that returns to its seasonal mean: the last value helps at first, not at the end."""
    generator = torch.Generator().manual_seed(1)
    noise, x = torch.randn(600, generator=generator).double(), torch.zeros(600).double()
    for t in range(1, 600):
        x[t] = 0.8 * x[t - 1] + noise[t]
    x = (x + 3 * torch.sin(torch.arange(600) * torch.pi / 6))[:, None]
    forecast = smooth(x, torch.ones_like(x, dtype=torch.bool), [12], 24).point[0, :, 0]
    expected = 3 * torch.sin(torch.arange(600, 624) * torch.pi / 6)
    away = x[-1, 0] - 3 * torch.sin(torch.tensor(599 * torch.pi / 6))
    reverting = expected + away * 0.8 ** torch.arange(1, 25)
    assert (forecast - reverting).abs().mean() < (
        forecast * 0 + x[-1, 0] - reverting
    ).abs().mean() / 2
    assert (forecast[12:] - expected[12:]).abs().mean() < 0.7
