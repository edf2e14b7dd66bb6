import resource

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fighter.data.windows import Windows
from fighter.errors import FighterError


@given(
    length=st.integers(5, 40),
    lookback=st.integers(1, 8),
    horizon=st.integers(1, 6),
    stride=st.integers(1, 4),
    begin=st.integers(0, 30),
    size=st.integers(1, 40),
    seed=st.integers(0, 9),
)
def test_windows_agree_with_a_loop(length, lookback, horizon, stride, begin, size, seed):
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(length, 3, generator=generator)
    observed = torch.rand(length, 3, generator=generator) > 0.2
    rows = slice(begin, begin + size)
    targets = set(range(length)[rows])
    expected = [
        s for s in range(length - lookback - horizon + 1)
        if set(range(s + lookback, s + lookback + horizon)) <= targets
    ][::stride]  # fmt: skip
    if not expected:
        with pytest.raises(FighterError, match="no window fits"):
            Windows.over(values, observed, lookback, horizon, rows, stride)
        return
    windows = Windows.over(values, observed, lookback, horizon, rows, stride)
    assert windows.starts.tolist() == expected
    index = torch.randperm(len(windows), generator=generator)
    batch = windows.gather(index)
    for b, i in enumerate(index.tolist()):
        middle = expected[i] + lookback
        torch.testing.assert_close(batch.past[b], values[expected[i] : middle])
        torch.testing.assert_close(batch.future[b], values[middle : middle + horizon])
        if batch.past_observed is not None:
            assert torch.equal(batch.past_observed[b], observed[expected[i] : middle])
            assert torch.equal(batch.future_observed[b], observed[middle : middle + horizon])
        else:
            assert observed.all()
        assert batch.start[b] == expected[i]


def test_windows_cover_every_target_of_the_rows():
    windows = Windows.over(torch.zeros(100, 2), None, 10, 5, slice(80, 100))
    assert windows.starts.tolist() == list(range(70, 86))


@pytest.mark.parametrize("shuffled", [False, True])
def test_batches_hold_every_window_once(shuffled):
    windows = Windows.over(torch.zeros(50, 2), None, 5, 5)
    generator = torch.Generator().manual_seed(0) if shuffled else None
    batches = list(windows.batches(16, generator))
    assert [len(b) for b in batches] == [16, 16, 9]
    order = torch.cat(batches).tolist()
    assert sorted(order) == list(range(41))
    assert (order != sorted(order)) == shuffled


def test_batches_include_covariates_and_the_calendar():
    rows = torch.arange(30.0)
    windows = Windows.over(
        rows[:, None].repeat(1, 2), None, 4, 3,
        past_covariates=rows[:, None, None].expand(30, 2, 1),
        future_covariates=rows[:, None, None].expand(30, 2, 5),
        calendar=rows[:, None],
    )  # fmt: skip
    batch = windows.gather(torch.tensor([0, 7]))
    assert batch.past_covariates.shape == (2, 4, 2, 1)
    assert batch.future_covariates.shape == (2, 7, 2, 5)
    assert batch.calendar[1, :, 0].tolist() == [7, 8, 9, 10, 11, 12, 13]


def test_fully_observed_windows_have_no_masks():
    windows = Windows.over(torch.zeros(20, 2), torch.ones(20, 2, dtype=torch.bool), 3, 2)
    batch = windows.gather(torch.arange(4))
    assert windows.observed is None
    assert batch.past_observed is None
    assert batch.future_observed is None


def test_impossible_windows_are_refused_with_numbers():
    with pytest.raises(FighterError, match=r"40 rows .* lookback 96 \+ horizon 24 = 120"):
        Windows.over(torch.zeros(40, 1), None, 96, 24)
    with pytest.raises(FighterError, match=r"rows 0 to 16; .*rows 0 to 15") as error:
        Windows(torch.zeros(20, 1), None, 3, 2, torch.tensor([0, 16]))
    assert error.value.argument == "starts"
    with pytest.raises(FighterError) as error:
        next(Windows.over(torch.zeros(20, 1), None, 3, 2).batches(0))
    assert error.value.argument == "batch_size"
    for name in ("lookback", "horizon", "stride"):
        sizes = {"lookback": 3, "horizon": 2, "stride": 1, name: 0}
        with pytest.raises(FighterError) as error:
            Windows.over(torch.zeros(20, 1), None, **sizes)
        assert error.value.argument == name


def test_an_epoch_over_many_windows_needs_little_memory():
    values = torch.from_numpy(np.random.default_rng(0).normal(size=(52696, 21)).astype(np.float32))
    windows = Windows.over(values, None, 96, 96)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    total = sum(len(windows.gather(index).past) for index in windows.batches(256))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before  # KiB
    assert total == 52505
    assert grown < 50_000
