import warnings

import numpy as np
import pandas as pd
import pytest

from fighter import DataWarning, FighterError
from fighter.data.windows import MOST_AT_ONCE, Windows

from ..tables import CONVERT, tail, tiny, waves
from ..training.nets import same_weights
from .small import small


@pytest.mark.filterwarnings("ignore::fighter.errors.DataWarning")
def test_evaluate_equals_scoring_every_window_by_hand(monkeypatch):
    df = waves(70)
    df.loc[[65, 66, 120], "y"] = np.nan
    model = tiny(level=[80]).fit(tail(df, 20))
    monkeypatch.setitem(MOST_AT_ONCE, "cpu", (18 * 2 * 4, 256))  # batches of 4: the last has 3
    scores = model.evaluate(df, last=20).set_index("unique_id")
    stamps, errors, inside = np.sort(df.ds.unique()), [], []
    for origin in range(50, 65):  # every forecast origin whose six targets lie in the last 20 rows
        forecast = model.predict(df[df.ds < stamps[origin]])
        both = forecast.merge(df, on=["unique_id", "ds"]).dropna(subset="y")
        errors.append(both.assign(error=both.Fighter - both.y)[["unique_id", "error"]])
        held = both.y.between(both["Fighter-lo-80"], both["Fighter-hi-80"])
        inside.append(pd.DataFrame({"unique_id": both.unique_id, "held": 100.0 * held}))
    error = pd.concat(errors).groupby("unique_id").error
    assert (scores.windows == 15).all()
    assert scores.mae.to_numpy() == pytest.approx(error.apply(lambda e: e.abs().mean()), rel=1e-4)
    assert scores.mse.to_numpy() == pytest.approx(error.apply(lambda e: (e**2).mean()), rel=1e-4)
    held = pd.concat(inside).groupby("unique_id").held.mean()
    assert scores["coverage-80"].to_numpy() == pytest.approx(held, abs=1e-6)
    scale = df[df.ds < stamps[50 - model.plan.validation]].groupby("unique_id").y.std(ddof=0)
    assert scores.scaled_mae.to_numpy() == pytest.approx(scores.mae / scale, rel=1e-4)


@pytest.mark.filterwarnings("ignore::fighter.errors.DataWarning")
def test_a_series_without_targets_has_an_empty_score():
    df = waves(70)
    model = tiny().fit(tail(df, 20))
    gone = df.assign(y=df.y.where((df.unique_id == "a") | (df.ds < np.sort(df.ds.unique())[-20])))
    scores = model.evaluate(gone, last=20)
    assert scores.mae.notna().tolist() == [True, False]


@pytest.mark.filterwarnings("ignore::fighter.errors.DataWarning")
def test_evaluate_uses_batches_of_bounded_size(monkeypatch):
    """A batch holds a bounded number of values, however many series there are."""
    df = waves(60, ids=[f"s{i}" for i in range(30)])
    model = small("linear").fit(df)
    sizes = []
    gather = Windows.gather

    def spy(self, index):
        sizes.append(len(index))
        return gather(self, index)

    monkeypatch.setattr(Windows, "gather", spy)
    monkeypatch.setitem(MOST_AT_ONCE, "cpu", (18 * 30 * 5, 256))
    model.evaluate(df)
    assert max(sizes) == 5
    assert sum(sizes) == 60 - 18 + 1


def test_evaluate_refuses_a_table_that_is_too_short():
    model = tiny().fit(waves(60))
    with pytest.raises(FighterError, match="12 \\+ horizon 6 = 18"):
        model.evaluate(waves(10))
    for last in (5, 0, 1.5, "a", True):
        with pytest.raises(FighterError) as error:
            model.evaluate(waves(60), last=last)
        assert (error.value.argument, error.value.value) == ("last", last)
    with pytest.raises(FighterError, match="4 rows to score"):
        model.evaluate(waves(4, start="2024-01-03 12:00"))


def test_windows_that_the_model_has_seen_are_counted():
    df = waves(100)
    model = tiny().fit(tail(df, 20))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        held_out = model.evaluate(df, last=20)
        assert model.evaluate(df[df.ds >= np.sort(df.ds.unique())[80]]).equals(held_out)
    assert (held_out.windows == 15).all()
    with pytest.warns(DataWarning) as caught:
        model.evaluate(df, last=30)
    (message,) = (str(warning.message) for warning in caught)
    assert "10 of the 25 windows" in message
    stamps = np.sort(df.ds.unique())
    for row in (79 - model.plan.validation, 79):
        assert pd.Timestamp(stamps[row]).strftime("%Y-%m-%d %H:%M") in message
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        small("repeat").fit(df).evaluate(df)  # it learns nothing


def test_rows_joined_from_training_are_not_scored():
    """Also where series begin at different times in the table."""
    df = waves(100, ids=("a", "b", "c"))
    stamps = np.sort(df.ds.unique())
    with pytest.warns(DataWarning):  # c ends early, so that the kept context reaches far back
        model = small("repeat").fit(df[df.ds < np.where(df.unique_id == "c", *stamps[[60, 80]])])
    begin = df.unique_id.map({"a": stamps[74], "b": stamps[80], "c": stamps[99] + 1})
    with pytest.warns(DataWarning):
        scores = model.evaluate(df[df.ds >= begin]).set_index("unique_id")
    for name, first in (("a", 74), ("b", 80)):
        y = df[df.unique_id == name].y.to_numpy()
        errors = [
            abs(y[t] - y[origin - 1])
            for origin in range(74, 95)
            for t in range(max(origin, first), origin + 6)
        ]
        assert scores.mae[name] == pytest.approx(np.mean(errors), rel=1e-5)


@pytest.mark.parametrize("backend", CONVERT)
def test_cross_validation_columns_and_windows(backend):
    df = waves(70)
    table = tiny(level=[80]).cross_validation(CONVERT[backend](df), n_windows=3, step_size=4)
    assert isinstance(table, type(CONVERT[backend](df)))
    found = table if backend == "pandas" else table.to_pandas()
    assert found.columns.tolist() == [
        "unique_id", "ds", "cutoff", "Fighter", "Fighter-lo-80", "Fighter-hi-80", "y",
    ]  # fmt: skip
    stamps = np.sort(df.ds.unique())
    assert np.sort(found.cutoff.unique()).tolist() == stamps[[55, 59, 63]].tolist()
    assert (found.groupby(["unique_id", "cutoff"]).size() == 6).all()
    ahead = (found.ds - found.cutoff) / pd.Timedelta(hours=1)
    assert set(ahead) == {1, 2, 3, 4, 5, 6}
    both = found.merge(df, on=["unique_id", "ds"], suffixes=("", "_true"))
    assert np.array_equal(both.y, both.y_true)


def test_cross_validation_does_not_change_the_model():
    df = waves(70)
    model = tiny().fit(df)
    before, network = model.predict(), model.fitted.network
    model.cross_validation(df, n_windows=2)
    assert model.fitted.network is network
    assert model.predict().equals(before)


@pytest.mark.parametrize("refit", [False, True])
def test_cross_validation_sees_nothing_after_a_cutoff(refit):
    df = waves(70, noise=0.3)
    model = tiny(n := 6)
    first = model.cross_validation(df, n_windows=3, refit=refit)
    for k, cutoff in enumerate(np.sort(first.cutoff.unique())):
        spoiled = df.assign(y=df.y.where(df.ds <= cutoff, 1e3 + 17 * df.index))
        again = model.cross_validation(spoiled, n_windows=3, refit=refit)
        mine = first.cutoff == cutoff
        assert mine.sum() == 2 * n
        assert np.array_equal(again[mine].Fighter, first[mine].Fighter), k


def test_refit_learns_from_the_rows_between_cutoffs():
    df = waves(90, noise=0.3)
    still = tiny().cross_validation(df, n_windows=3)
    moving = tiny().cross_validation(df, n_windows=3, refit=True)
    same = still.groupby("cutoff").Fighter.agg(list) == moving.groupby("cutoff").Fighter.agg(list)
    assert same.tolist() == [True, False, False]
    # a window of a refitted model is what fit and predict give by hand
    cutoff = still.cutoff.max()
    by_hand = tiny().fit(df[df.ds <= cutoff])
    assert np.allclose(moving[moving.cutoff == cutoff].Fighter, by_hand.predict().Fighter)
    first = tiny().fit(df[df.ds <= still.cutoff.min()])
    assert not same_weights(first.fitted.network, by_hand.fitted.network)


def test_cross_validation_fills_no_covariate_from_after_the_cutoff():
    df = waves(70)
    first = df.ds > df.ds.max() - pd.Timedelta(hours=6)
    noise = np.random.default_rng(0).normal(size=len(df))
    late = df.assign(p=np.where((df.unique_id == "a") & ~first, np.nan, noise))
    other = late.assign(p=np.where((df.unique_id == "a") & first, noise + 50, late.p))
    with pytest.warns(DataWarning):
        one, two = (tiny(past=["p"]).cross_validation(table) for table in (late, other))
    assert np.array_equal(one.Fighter, two.Fighter)


def test_cross_validation_leaves_out_series_that_begin_after_the_cutoff():
    df = waves(70)
    new = df[(df.unique_id == "a") & (df.ds > df.ds.max() - pd.Timedelta(hours=6))]
    with pytest.warns(DataWarning) as caught:
        found = tiny().cross_validation(pd.concat([df, new.assign(unique_id="new")]))
    assert "left out: 'new'" in str(caught[-1].message)
    pd.testing.assert_frame_equal(found, tiny().cross_validation(df))


def test_cross_validation_names_the_truth_as_the_table_does():
    df = waves(70).rename(columns={"y": "load"})
    found = small("repeat", target_col="load").cross_validation(df)
    both = found.merge(df, on=["unique_id", "ds"])
    assert np.array_equal(both.load_x, both.load_y)


@pytest.mark.parametrize(
    ("ask", "argument"),
    [
        ({"n_windows": 0}, "n_windows"),
        ({"n_windows": 1.5}, "n_windows"),
        ({"step_size": 0}, "step_size"),
        ({"step_size": "a"}, "step_size"),
        ({"n_windows": 10}, "n_windows"),
    ],
)
def test_cross_validation_names_the_wrong_argument(ask, argument):
    with pytest.raises(FighterError) as error:
        tiny().cross_validation(waves(70), **ask)
    assert error.value.argument == argument
    assert error.value.value == ask[argument]
    if ask == {"n_windows": 10}:
        assert "10 of 70 rows" in error.value.reason
        assert "needs 18" in error.value.reason
