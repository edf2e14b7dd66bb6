"""A ragged grid computes like the whole one and holds only the rows of its series."""

import numpy as np
import pandas as pd
import pytest
import torch

from fighter.data import Windows, to_panel
from fighter.data import panel as panels
from fighter.data import ragged as module
from fighter.data.ragged import (
    Ragged,
    RaggedTensor,
    Spans,
    count_in_rows,
    find_gaps,
    pack_series,
    ragged,
    true_rows,
)


@pytest.fixture
def eager(monkeypatch):
    """Store even small tables ragged."""
    monkeypatch.setattr(module, "DENSE", 60)
    monkeypatch.setattr(panels, "DENSE", 60)


def make(blank=0.0):
    rng = np.random.default_rng(0)
    begins, ends = np.array([0, 3, 9, 5]), np.array([4, 10, 12, 6])
    spans = Spans.of(begins, ends, 12)
    dense = np.full((12, 4), blank)
    for i in range(4):
        dense[begins[i] : ends[i], i] = rng.integers(-2, 3, ends[i] - begins[i])
    cells = np.concatenate(
        [dense[b:e, i] for i, (b, e) in enumerate(zip(begins, ends, strict=True))]
    )
    return ragged(cells, spans, blank), dense


@pytest.mark.parametrize(
    "cut", [lambda x: x, lambda x: x[2:9], lambda x: x[:, [2, 0]], lambda x: x[4:][:, [3, 1, 2]]]
)
@pytest.mark.parametrize(
    "compute",
    [
        lambda x: x, lambda x: x > 0, lambda x: ~(x > 0), lambda x: (x != 0) & (x < 2),
        lambda x: (x > 0).sum(0), lambda x: (x > 0).sum(), lambda x: (x >= 0).all(),
        lambda x: (x > 0).any(), lambda x: (x == 0).any(0), lambda x: (x > 1).any(1),
        lambda x: x[3], lambda x: x[:, 1], lambda x: x[np.arange(len(x)) % 2 == 0, 1],
        lambda x: np.stack(true_rows(x == 1)),
        lambda x: count_in_rows(x > 0, np.arange(len(x)) % 3 == 1),
        lambda x: (x * np.arange(x.shape[1]) + 0) * (x != 0),
    ],
)  # fmt: skip
def test_it_computes_like_an_array(cut, compute):
    own, dense = make()
    np.testing.assert_array_equal(np.asarray(compute(cut(own))), compute(cut(dense)))


def test_gaps_lie_between_the_first_and_the_last_cell():
    own, dense = (x[:, :3] > 0 for x in make())
    expected = find_gaps(dense)
    assert expected.any()
    np.testing.assert_array_equal(np.asarray(find_gaps(own)), expected)


def test_cells_are_set_by_mask_and_by_series():
    own, dense = make(np.nan)
    for array in (own, dense):
        array[array == 1] = 7
        array[np.isnan(array)] = 0
        array[:, 1] = np.where(np.isin(np.arange(12), np.arange(3, 10)), 5.0, 0.0)[
            slice(3, 10) if isinstance(array, Ragged) else slice(None)
        ]
    np.testing.assert_array_equal(np.asarray(own), dense)


def test_arrays_of_other_rows_are_refused():
    own, _ = make()
    with pytest.raises(TypeError):
        assert own[2:] + own[:-2] is None


def test_parts_are_packed_side_by_side():
    own, dense = make()
    assert isinstance(own, Ragged)
    joined = pack_series([dense[:, :1], dense[:, 1:]], own.spans)
    np.testing.assert_array_equal(np.asarray(joined), dense)
    assert joined.nbytes == 15 * 8  # 12 x 4 cells, of which 15 are in a series


def staggered(series: int = 12, rows: int = 10, length: int = 60) -> pd.DataFrame:
    rng, days = np.random.default_rng(1), pd.date_range("2024-01-01", periods=length)
    parts = []
    for i in range(series):
        begin = int(rng.integers(0, length - rows)) if i else 0
        y = rng.poisson(3, rows).astype(float)
        part = pd.DataFrame({"unique_id": f"s{i}", "ds": days[begin : begin + rows], "y": y})
        parts.append(part.drop(part.index[[4]]) if i % 3 == 1 else part)
    df = pd.concat(parts, ignore_index=True)
    df.loc[7, "y"] = np.nan
    df.loc[df.index[-1], "y"] = np.nan
    return pd.concat([df, df.iloc[[20]]], ignore_index=True)


@pytest.mark.parametrize("missing", [(), (3.0,)])
def test_a_sparse_table_is_read_the_same(eager, monkeypatch, missing):
    df = staggered()
    own = to_panel(df, missing_values=missing)
    monkeypatch.setattr(module, "DENSE", 10**9)
    whole = to_panel(df, missing_values=missing)
    assert own.ragged
    assert not whole.ragged
    assert own.values.nbytes <= 10 * 12 * 8
    for name in ("values", "observed", "ends", "times"):
        np.testing.assert_array_equal(np.asarray(getattr(own, name)), getattr(whole, name))
    assert own.data_notes == whole.data_notes
    places = np.array([5, 1, 8])
    for one, other in (
        (own.slice(10, 40), whole.slice(10, 40)),
        (own.take(places).slice(5, None), whole.take(places).slice(5, None)),
        (own.without_leading_zeros({"s2"}), whole.without_leading_zeros({"s2"})),
    ):
        assert one.ragged
        for name in ("values", "observed"):
            np.testing.assert_array_equal(np.asarray(getattr(one, name)), getattr(other, name))
    blocks = [part.values for _, part in own.blocks()]
    assert len(blocks) > 1
    np.testing.assert_array_equal(np.concatenate(blocks, 1), whole.values)


def test_a_value_of_another_time_is_refused_in_a_sparse_table_too(eager):
    df = staggered()
    again = df.iloc[[20]].assign(y=99.0)
    with pytest.raises(Exception, match="repeated with other values"):
        to_panel(pd.concat([df, again], ignore_index=True))


def test_windows_are_the_same():
    own, dense = make()
    seen = dense != 0
    device = torch.device("cpu")
    values = RaggedTensor.of(own, device, torch.float64)
    mask = RaggedTensor.of(own != 0, device, torch.bool)
    one = Windows.over(values, mask, 3, 2)
    other = Windows.over(torch.from_numpy(dense), torch.from_numpy(seen), 3, 2)
    assert one.count_targets().tolist() == other.count_targets().tolist()
    assert one.observed_rows().tolist() == other.observed_rows().tolist()
    for series in (None, torch.tensor([2, 0])):
        index = torch.tensor([0, 5, 3])
        for a, b in zip(
            one.gather(index, series)[:4], other.gather(index, series)[:4], strict=True
        ):
            torch.testing.assert_close(a, b, rtol=0, atol=0)
    some = torch.tensor([3, 1])
    assert torch.equal(one.select(some).values, other.select(some).values)  # pyright: ignore[reportArgumentType]
