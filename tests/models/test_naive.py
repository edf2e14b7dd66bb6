import pytest
import torch

from fighter.errors import FighterError
from fighter.models import Task, build_core


def test_repeats_the_last_period():
    core = build_core("naive", Task(lookback=6, horizon=5, series=1, period=3))
    past = torch.arange(6.0).reshape(1, 6, 1)
    assert core(past).flatten().tolist() == [3, 4, 5, 3, 4]


def test_repeats_the_last_value_without_a_period():
    core = build_core("naive", Task(lookback=6, horizon=2, series=1))
    assert core(torch.arange(6.0).reshape(1, 6, 1)).flatten().tolist() == [5, 5]


def test_refuses_a_period_longer_than_the_lookback():
    with pytest.raises(FighterError, match="needs lookback ≥ 8"):
        build_core("naive", Task(lookback=6, horizon=2, series=1, period=8))
