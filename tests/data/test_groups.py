import numpy as np
import pandas as pd
import pytest
import torch

from fighter.data import SampledWindows, Windows, to_panel
from fighter.data.groups import group_codes, pack, some_series
from fighter.errors import FighterError


def panel(static: pd.DataFrame | None = None, stores: int = 3, items: int = 2):
    days = pd.date_range("2024-01-01", periods=5)
    rows = [
        (f"s{s}", f"i{i}", day, 1.0) for s in range(stores) for i in range(items) for day in days
    ]
    table = pd.DataFrame(rows, columns=["store", "item", "ds", "y"])
    if static is None:
        return to_panel(table, id_col=["store", "item"])
    table["unique_id"] = table.store + table["item"]
    return to_panel(table.drop(columns=["store", "item"]), static=static)


def static(kinds: list) -> pd.DataFrame:
    ids = [f"s{s}i{i}" for s in range(len(kinds) // 2) for i in range(2)]
    return pd.DataFrame({"unique_id": ids, "region": kinds})


def same(codes: np.ndarray) -> list[list[bool]]:
    return (codes[:, None] == codes).tolist()


@pytest.mark.parametrize(
    "kinds", [["a", "a", "b", "c", "b", "c"], [1, 1, 2, 3, 2, 3]], ids=["words", "numbers"]
)
def test_series_of_one_category_are_a_group(kinds):
    codes = group_codes(panel(static(kinds)), "region")
    assert same(codes) == same(np.array([*map(str, kinds)]))


def test_many_categories_are_numbered():
    kinds = [f"r{i % 11}" for i in range(22)]
    made = panel(static(kinds), stores=11)
    assert same(group_codes(made, "region")) == same(np.array(kinds))


def test_an_id_column_names_groups():
    assert group_codes(panel(), "store").tolist() == [0, 0, 1, 1, 2, 2]
    assert group_codes(panel(), "item").tolist() == [0, 1, 0, 1, 0, 1]


def test_an_unknown_column_is_refused():
    with pytest.raises(FighterError, match="item") as caught:
        group_codes(panel(), "shop")
    assert caught.value.argument == "groups"


def test_parts_hold_whole_groups():
    codes = np.array([5, 1, 5, 2, 2, 2, 2, 2, 3, 1])
    parts = pack(codes, 4)
    assert sorted(np.concatenate(parts).tolist()) == list(range(10))
    assert [sorted(set(codes[part])) for part in parts] == [[1], [2], [3, 5]]
    assert [len(part) for part in pack(codes, 100)] == [10]


def test_some_series_are_whole_groups():
    codes = np.arange(100) // 5
    some = some_series(100, 22, codes)
    assert len(some) == 20
    assert all(count == 5 for count in np.unique(codes[some], return_counts=True)[1])
    assert some_series(100, 10).tolist() == np.linspace(0, 99, 10).astype(int).tolist()


def test_samples_hold_whole_groups():
    codes = torch.arange(30) % 10  # ten groups of three
    values = torch.zeros(20, 30)
    windows = Windows.over(values, None, 4, 2, groups=codes)
    sampled = SampledWindows.of(windows, 12, 10, seed=0)
    assert torch.bincount(sampled.samples.flatten(), minlength=30).min() >= 16
    cut = [
        int((torch.bincount(codes[sample], minlength=10) % 3 > 0).sum())
        for sample in sampled.samples
    ]
    assert max(cut) <= 2
    batch = sampled.gather(torch.tensor([0, 1]))
    assert batch.groups is not None
    assert torch.equal(batch.groups, codes[sampled.samples[0]])
