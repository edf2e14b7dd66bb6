import torch

from fighter.data import SampledWindows, Windows


def windows(series: int) -> Windows:
    values = torch.arange(40.0)[:, None] + 100 * torch.arange(series)
    observed = torch.rand(40, series, generator=torch.Generator().manual_seed(0)) > 0.2
    covariates = values[..., None] + 0.5
    bounds = torch.stack([-torch.arange(series), torch.arange(series)]).float()
    origins = torch.stack([torch.zeros(series), torch.full((series,), 20.0)]).long()
    return Windows.over(
        values, observed, 6, 3,
        past_covariates=covariates, future_covariates=-covariates, bounds=bounds,
        calendar=torch.arange(40.0)[:, None], origins=origins,
    )  # fmt: skip


def same(one, other) -> None:
    for a, b in zip(one, other, strict=True):
        assert (a is None) == (b is None)
        assert a is None or torch.equal(a, b)


def test_some_series_of_a_window_are_gathered():
    every, some, index = windows(9), torch.tensor([7, 2, 3]), torch.tensor([4, 0, 11])
    same(every.gather(index, some), every.select(some).gather(index))
    batch = every.gather(index)
    assert torch.equal(every.select(some).gather(index).past, batch.past[..., some])
    assert torch.equal(every.gather(index, some).future_observed, batch.future_observed[..., some])


def test_groups_hold_every_series_alike_often():
    sampled = SampledWindows.of(windows(10), 4, 100, seed=0)
    assert sampled.samples.shape[1] == 4
    counts = torch.bincount(sampled.samples.flatten(), minlength=10)
    assert int(counts.min()) >= 16
    assert all(len(set(group)) == 4 for group in sampled.samples.tolist())


def test_a_batch_has_windows_of_one_group():
    data = windows(10)
    sampled = SampledWindows.of(data, 4, 50, seed=0)
    random = torch.Generator().manual_seed(1)
    batches = list(sampled.batches(8, random))
    assert [len(index) for index in batches] == [8] * 6 + [2]
    used = set()
    for index in batches:
        group = index // len(data)
        assert (group == group[0]).all()
        batch = sampled.gather(index)
        same(batch, data.gather(index % len(data), sampled.samples[group[0]]))
        used.add(int(group[0]))
    assert len(used) > 1
    again = list(sampled.batches(8, torch.Generator().manual_seed(1)))
    assert all(torch.equal(a, b) for a, b in zip(batches, again, strict=True))


def test_windows_are_drawn_as_often_as_they_have_targets():
    observed = torch.zeros(30, 6, dtype=torch.bool)
    observed[10:20, 0] = observed[16:20] = True  # most windows have one target or none
    data = Windows.over(torch.zeros(30, 6), observed, 4, 2)
    assert data.count_targets()[12].item() == 2 * 6
    assert data.count_targets()[11].item() == 2 + 1 * 5
    sampled = SampledWindows.of(data, 3, 4000, seed=0)
    drawn = torch.cat([*sampled.batches(1000, torch.Generator().manual_seed(0))]) % len(data)
    share = torch.bincount(drawn, minlength=len(data)) / 4000
    expected = data.count_targets() / data.count_targets().sum()
    assert torch.allclose(share, expected.float(), atol=0.03)
