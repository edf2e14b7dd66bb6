import pytest
import torch

from fighter.data.windows import Batch
from fighter.errors import FighterError
from fighter.models import ForecastNet, Task, build_core


def test_naive_repeats_the_last_period():
    core = build_core("naive", Task(lookback=6, horizon=5, series=1, period=3))
    past = torch.arange(6.0).reshape(1, 6, 1)
    assert core(past).flatten().tolist() == [3, 4, 5, 3, 4]


def test_naive_repeats_the_last_value_without_a_period():
    core = build_core("naive", Task(lookback=6, horizon=2, series=1))
    assert core(torch.arange(6.0).reshape(1, 6, 1)).flatten().tolist() == [5, 5]


def test_a_period_is_at_most_the_lookback():
    with pytest.raises(FighterError, match="at least 8") as error:
        build_core("naive", Task(lookback=6, horizon=2, series=1, period=8))
    assert error.value.argument == "lookback"


def test_repeat_ignores_the_period():
    core = build_core("repeat", Task(lookback=6, horizon=2, series=1, period=3))
    assert core(torch.arange(6.0).reshape(1, 6, 1)).flatten().tolist() == [5, 5]


def test_repeat_and_mean_forecast_the_last_value_and_the_mean():
    past = torch.tensor([1.0, 2.0, 6.0]).reshape(1, 3, 1)
    task = Task(lookback=3, horizon=2, series=1, outputs=2)
    assert build_core("repeat", task)(past).tolist() == [[[[6, 6]], [[6, 6]]]]
    assert build_core("mean", task)(past).tolist() == [[[[3, 3]], [[3, 3]]]]


def test_missing_values_count_neither_in_the_mean_nor_as_the_last_value():
    past = torch.tensor([[1.0, 99.0, 6.0, 2.0, 99.0], [5.0] * 5])[..., None]
    seen = past != 99
    batch = Batch(past, past[:, :2], seen, None, torch.zeros(2, dtype=torch.long))
    forecasts = {}
    for name in ("mean", "repeat"):
        network = ForecastNet(build_core(name, Task(lookback=5, horizon=2, series=1)))
        assert not list(network.parameters())
        forecasts[name] = network(batch, batch.start)[..., 0, 0]
    assert forecasts["mean"].tolist() == [[3, 3], [5, 5]]
    assert forecasts["repeat"].tolist() == [[2, 2], [5, 5]]  # the one after it was not observed
