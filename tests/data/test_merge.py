"""Panels of different files are joined into what reading all of them at once gives."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from fighter import FighterError
from fighter.data import ragged, to_panel
from fighter.data.merge import merge_panels
from fighter.data.weights import with_weights

ARRAYS = ("values", "observed", "times", "ends", "past", "future", "static", "weights")


def shop(covariates: bool = False) -> pd.DataFrame:
    rng, days = np.random.default_rng(0), pd.date_range("2024-01-01", periods=60)
    parts = []
    for i in range(9):
        first, last = 10 * (i % 3 == 0) + 3, 60 - 6 * (i % 4)
        part = pd.DataFrame({"unique_id": f"s{i}", "ds": days, "y": rng.poisson(4, 60) * 1.0})
        if covariates:
            part["price"], part["rain"] = rng.random(60), rng.random(60)
        parts.append(part[first:last])
    df = pd.concat(parts, ignore_index=True)
    df.loc[[5, 100], "y"] = np.nan
    return df


def sizes() -> pd.DataFrame:
    ids = [f"s{i}" for i in range(9)]
    kinds = ["a" if i < 3 else "b" if i < 8 else "c" for i in range(9)]
    return pd.DataFrame({"unique_id": ids, "kind": kinds, "size": np.arange(9.0)})


def split(df: pd.DataFrame, *cuts: int) -> list[pd.DataFrame]:
    number = df.unique_id.str[1:].astype(int)
    ends = [0, *cuts, 9]
    return [df.loc[(number >= a) & (number < b)] for a, b in pairwise(ends)]


@pytest.mark.parametrize(
    "options",
    [
        {}, {"static": sizes()}, {"future": "price", "past": "rain"},
        {"season": 7}, {"missing_values": 3.0},
    ],
    ids=str,
)  # fmt: skip
def test_parts_are_joined_to_the_whole(options):
    df = shop("future" in options)
    whole, parts = to_panel(df, **options), [to_panel(p, **options) for p in split(df, 2, 6)]
    weights = {f"s{i}": i for i in range(9)}
    joined = merge_panels([with_weights(part, weights) for part in parts])
    whole = with_weights(whole, weights)
    assert joined.ids == whole.ids
    assert joined.scheme == whole.scheme
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(joined, name), getattr(whole, name), err_msg=name)
    assert (joined.static_names, joined.static_categories) == (
        whole.static_names,
        whole.static_categories,
    )


@pytest.mark.parametrize("parts_too", [False, True])
def test_a_mostly_empty_grid_is_joined_ragged(monkeypatch, parts_too):
    days = pd.date_range("2024-01-01", periods=90)
    df = pd.concat(
        pd.DataFrame({"unique_id": f"s{i}", "ds": days[10 * i : 10 * i + 10], "y": range(10)})
        for i in range(9)
    )
    whole = to_panel(df)
    parts = [to_panel(part) for part in split(df, 4)]
    monkeypatch.setattr(ragged, "DENSE", 60)
    if parts_too:
        parts = [to_panel(part) for part in split(df, 4)]
    joined = merge_panels(parts)
    assert joined.ragged
    assert parts[0].ragged == parts_too
    assert joined.values.nbytes == 90 * 8
    np.testing.assert_array_equal(np.asarray(joined.values), whole.values)
    np.testing.assert_array_equal(np.asarray(joined.observed), whole.observed)
    np.testing.assert_array_equal(joined.ends, whole.ends)


def test_files_that_differ_are_refused():
    one, two = split(shop(), 4)
    with pytest.raises(FighterError, match="'s2' is in the files of two"):
        merge_panels([to_panel(one), to_panel(split(shop(), 2, 6)[1])])
    with pytest.raises(FighterError) as error:
        merge_panels([to_panel(one), to_panel(two.assign(ds=two.ds - (two.ds - two.ds.min()) / 2))])
    assert error.value.argument == "freq"
    with pytest.raises(FighterError, match="target col"):
        merge_panels([to_panel(one), to_panel(two.rename(columns={"y": "z"}), target_col="z")])
