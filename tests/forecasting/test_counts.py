"""Intervals of counts, and forecasts of means."""

import numpy as np
import pandas as pd
import pytest
import torch

from fighter import FighterError, Forecaster
from fighter.data import to_panel
from fighter.forecasting.count_shares import choose_counts
from fighter.forecasting.counts import Counts, are_counts

from ..tables import tiny, waves

LEVELS = (0.1, 0.5, 0.75, 0.9)
late = pytest.mark.filterwarnings("ignore:in the data")


def parts(rows: int = 120, items: int = 6, chance: float = 0.25) -> pd.DataFrame:
    """Return the sales of items that are rarely sold."""
    random = np.random.default_rng(0)
    sold = (random.random((rows, items)) < chance) * (1 + random.poisson(3, (rows, items)))
    names = {f"item {i}": sold[:, i].astype(float) for i in range(items)}
    table = pd.DataFrame(names).assign(ds=pd.date_range("2024-01-01", periods=rows))
    return table.melt("ds", var_name="unique_id", value_name="y")


@pytest.fixture(scope="module")
def model() -> Forecaster:
    return tiny(quantiles=LEVELS).fit(parts())


def test_counts_are_whole_numbers_that_differ():
    table = pd.DataFrame([[0, 0.5, -1, 0, 900, 3], [2, 1, 3, 0, 800, 4.0]], columns=[*"abcdef"])
    table["ds"] = pd.date_range("2024-01-01", periods=2)
    assert are_counts(to_panel(table)).tolist() == [True, False, False, False, False, True]
    table.loc[0, "b"] = None
    assert are_counts(to_panel(table)).tolist()[1]


def test_quantiles_of_counts_are_whole_numbers_around_the_point(model):
    counts = model.fitted.blend.counts
    assert model.plan.count_share == pytest.approx(float(counts.share.mean()), abs=1e-3)
    assert counts.share.any()
    forecast = model.predict()
    low, high = forecast["Fighter-q0.1"], forecast["Fighter-q0.9"]
    assert (low >= 0).all()
    assert (low <= forecast.Fighter).all()
    assert (forecast.Fighter <= high).all()
    used = dict(zip(model.fitted.context.ids, counts.share > 0, strict=True))
    inside = forecast[forecast.unique_id.map(used).astype(bool)]
    assert (inside["Fighter-q0.9"] % 1 == 0).mean() > 0.8  # but where the point is above


def test_other_tables_do_not_pay_for_it():
    model = tiny(quantiles=LEVELS).fit(waves(100))
    blend = model.fitted.blend
    assert blend is not None
    assert blend.counts is None
    assert blend.mean_prior is None
    assert model.plan.count_share == 0


def test_the_better_quantiles_are_chosen():
    random, levels = torch.Generator().manual_seed(0), (0.1, 0.5, 0.9)
    mean = torch.full((60, 4, 3), 2.0, dtype=torch.float64)
    target = torch.poisson(mean.float(), generator=random).double()
    exact = torch.tensor([0.0, 2.0, 4.0], dtype=torch.float64)
    some = torch.tensor([True, True, False])
    for wrong, right in ((exact + 3, True), (exact, False)):
        plain = wrong.expand(*target.shape, 3)
        made = choose_counts(some, plain, mean, target, torch.ones_like(target), levels, 4.0)
        if right:
            assert made is not None
            assert made.share[:2].tolist() == [1, 1]
            assert made.share[2] == 0
        else:  # both are the same: neither is preferred
            assert made is None or (made.share[:2] == 0.5).all()


def test_a_new_series_has_the_usual_shape():
    counts = Counts(torch.tensor([1.0, 0.5, 0.0]), torch.tensor([3, 3, 9]), (0.5,))
    chosen = counts.select([2, -1])
    assert chosen.share.tolist() == [0, 0.5]
    assert chosen.shape.tolist() == [9, 3]


def test_it_is_saved_and_evaluated(model, tmp_path):
    model.save(tmp_path)
    loaded = Forecaster.load(tmp_path)
    pd.testing.assert_frame_equal(loaded.predict(), model.predict())
    whole = parts(140)
    pd.testing.assert_frame_equal(
        loaded.evaluate(whole, last=20, metrics="wql"),
        model.evaluate(whole, last=20, metrics="wql"),
    )


@pytest.mark.parametrize("rows", [14, 120])
def test_a_mean_is_explained_exactly(rows, tmp_path):
    model = tiny(4, 6, quantiles=LEVELS, point="mean").fit(parts(rows))
    assert model.plan.point == "mean"
    forecast = model.predict()
    for step in (1, 4):
        graph = model.explain(unique_id="item 1", step=step)
        own = forecast[forecast.unique_id == "item 1"].Fighter.iloc[step - 1]
        assert graph.forecast == pytest.approx(own, abs=1e-5)
        total = sum(graph.terms.values()) + graph.sources.sum()
        assert total == pytest.approx(graph.forecast, abs=1e-5)
    quantiles = forecast.filter(like="-q").to_numpy()
    assert (np.diff(quantiles, axis=1) >= -1e-9).all()
    model.save(tmp_path)
    pd.testing.assert_frame_equal(Forecaster.load(tmp_path).predict(), forecast)


def test_means_add_up_where_medians_do_not():
    df = parts(160, items=12)
    past, later = df[df.ds < "2024-05-20"], df[df.ds >= "2024-05-20"]
    bias = {}
    for point in ("median", "mean"):
        few = {"pretrained": False, "max_epochs": 2}
        model = Forecaster.from_flat(
            horizon=later.ds.nunique(), point=point, verbose=False, device="cpu", **few
        )
        bias[point] = model.fit(past).predict().Fighter.sum() / later.y.sum() - 1
    assert bias["median"] < -0.4
    assert abs(bias["mean"]) < 0.15


@pytest.mark.parametrize(("name", "value"), [("point", "mode"), ("missing_rows", "nothing")])
def test_unknown_words_are_refused(name, value):
    with pytest.raises(FighterError, match=f"{name}=.{value}.: needs"):
        Forecaster(4, **{name: value})


@late
def test_a_step_without_a_row_is_zero():
    df = parts(60, 4)
    sold = df[(df.y > 0) | (df.ds == df.ds.max())]
    whole = Forecaster(4).read(df)
    panel = Forecaster(4, freq="D", missing_rows="zero").read(sold)
    first = sold.groupby("unique_id").ds.min()
    for i, name in enumerate(panel.ids):
        begin = (first[name] - df.ds.min()).days
        offset = (pd.Timestamp(panel.times[0]) - df.ds.min()).days
        own = panel.values[max(begin - offset, 0) :, i]
        assert panel.observed[max(begin - offset, 0) :, i].all()
        assert np.array_equal(own, whole.values[begin:, whole.ids.index(name)])
        assert not panel.observed[: max(begin - offset, 0), i].any()
    gone = sold[(sold.unique_id != "item 2") | (sold.ds < "2024-01-20")]  # not sold since
    assert Forecaster(4, freq="D", missing_rows="zero").read(gone).ends.tolist() == [60] * 4


@late
def test_a_later_table_lists_sales_only_too():
    df = parts(80, 4)
    sold = df[(df.y > 0) | (df.ds == df.ds.max())]
    model = tiny(4, freq="D", missing_rows="zero").fit(sold[sold.ds < "2024-02-20"])
    later = model.read(sold[sold.ds >= "2024-02-20"])
    whole = model.read(sold)
    rows = min(later.length, whole.length)
    assert np.array_equal(
        later.values[-rows:], whole.values[-rows:][:, [whole.ids.index(i) for i in later.ids]]
    )
    assert later.observed[-12:].all()
