"""Forecasts from a few later rows, from a part of the series, and from next to nothing."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit

from fighter import DataWarning, FighterError, Forecaster

from ..tables import CONVERT, tail, tiny, waves, wide
from .small import small


@pytest.fixture(scope="module")
def fitted() -> Forecaster:
    return tiny(level=[80], cycle=24).fit(until(100))


def until(row: int) -> pd.DataFrame:
    df = waves(300)
    return df[df.ds < df.ds.min() + pd.Timedelta(hours=row)]


def after(df: pd.DataFrame, row: int) -> pd.DataFrame:
    return df[df.ds >= np.sort(df.ds.unique())[row]]


def quiet(use):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return use()


@pytest.mark.parametrize("rows", [1, 2, 10, 11, 12, 40])
@pytest.mark.parametrize("backend", CONVERT)
def test_later_rows_continue_the_training_table(fitted, rows, backend):
    """New rows alone give the forecast of the whole table up to them."""
    df = until(100 + min(rows, 30))
    whole = fitted.predict(df)
    few = quiet(lambda: fitted.predict(CONVERT[backend](after(df, len(df) // 2 - rows))))
    few = few if backend == "pandas" else few.to_pandas()
    assert few.ds.tolist() == whole.ds.tolist()
    assert np.allclose(few.iloc[:, 2:], whole.iloc[:, 2:], rtol=1e-5)


def test_new_rows_win_where_they_overlap(fitted):
    df = until(105)
    revised = after(df, 95).assign(y=lambda rows: rows.y + 1)
    both = pd.concat([df[~df.index.isin(revised.index)], revised]).sort_index()
    assert np.allclose(fitted.predict(revised).Fighter, fitted.predict(both).Fighter, rtol=1e-5)
    assert not np.allclose(fitted.predict(revised).Fighter, fitted.predict(df).Fighter)


def test_each_series_continues_from_its_own_training_end():
    df = waves(110)
    stamps = np.sort(df.ds.unique())
    a, b = df.unique_id == "a", df.unique_id == "b"
    early = df[(a & (df.ds < stamps[90])) | (b & (df.ds < stamps[80]))]
    new = df[(a & (df.ds >= stamps[90])) | (b & (df.ds >= stamps[80]))]
    with pytest.warns(DataWarning):
        model = tiny().fit(early)
    with pytest.warns(DataWarning, match="begin"):
        few = model.predict(new)
    assert np.allclose(few.Fighter, model.predict(df).Fighter, rtol=1e-5)


def test_a_gap_is_not_observed(fitted):
    """A gap between training and later rows is as a gap in one table."""
    df = until(112)
    stamps = np.sort(df.ds.unique())
    gap = df[~df.ds.between(stamps[100], stamps[105])]
    with pytest.warns(DataWarning, match="missing"):
        whole = fitted.predict(gap)
    with pytest.warns(DataWarning, match="6 steps after"):
        assert np.allclose(fitted.predict(after(df, 106)).Fighter, whole.Fighter)


def test_a_look_back_that_holds_next_to_nothing_is_reported(fitted):
    df = until(300)
    with pytest.warns(DataWarning, match="less than a tenth .* of 'a', 'b'"):
        fitted.predict(after(df, 299))
    known = (df.unique_id == "a") | (df.ds < df.ds.max() - pd.Timedelta("1D"))
    gone = df.assign(y=df.y.where(known))
    with pytest.warns(DataWarning) as caught:
        fitted.predict(gone)
    assert "no observed value in the look-back (12 steps) of 'b'" in str(caught[-1].message)
    panel = quiet_read(fitted, gone)
    for use in (fitted.predict, lambda p: fitted.explain(p, unique_id="b")):
        with pytest.warns(DataWarning, match="of 'b'"):
            use(panel)
    quiet(lambda: fitted.explain(panel, unique_id="a"))


def quiet_read(model, df):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.read(df)


def test_a_sensor_that_died_before_the_end_is_reported():
    df = waves(100)
    df.loc[(df.unique_id == "b") & (df.ds >= df.ds.max() - pd.Timedelta(hours=30)), "y"] = np.nan
    with pytest.warns(DataWarning):
        model = tiny().fit(df)
    with pytest.warns(DataWarning, match="no observed value .* of 'b'"):
        model.predict()


def test_panels_stay_as_they_are(fitted):
    panel = small("repeat").read(after(until(110), 107))
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        forecast = fitted.predict(panel)
    assert fitted.read(panel) is panel
    assert not np.allclose(forecast.Fighter, fitted.predict(until(110)).Fighter)


def test_explain_evaluate_and_plot_join_too(fitted):
    df = until(112)
    new = after(df, 100)
    graph = fitted.explain(new, unique_id="a", step=np.int64(2))
    whole = fitted.explain(df, unique_id="a", step=2)
    assert graph.forecast == pytest.approx(whole.forecast, rel=1e-5)
    assert np.array_equal(graph.past, whole.past)
    assert fitted.evaluate(new).mae.to_numpy() == pytest.approx(fitted.evaluate(df, last=12).mae)
    assert len(fitted.plot(new).axes[0].lines[0].get_ydata()) > 8


@pytest.mark.parametrize("kind", ["past", "future"])
def test_covariates_join_too(kind):
    df = waves(120).assign(x=lambda t: np.arange(len(t)) % 7.0)
    future = df.groupby("unique_id").tail(6).drop(columns="y") if kind == "future" else None
    model = tiny(**{kind: ["x"]}, max_epochs=4, lr=0.05, ema=0.5).fit(tail(df, 12))
    history = tail(df, 6)
    whole = model.predict(history, future=future)
    few = model.predict(after(history, 108), future=future)
    assert np.allclose(few.Fighter, whole.Fighter, rtol=1e-5)
    zero = history.assign(x=history.x.where(history.ds >= np.sort(df.ds.unique())[108], 0.0))
    assert not np.allclose(model.predict(zero, future=future).Fighter, whole.Fighter)


def test_another_time_grid_is_refused(fitted):
    df = after(until(120), 105)
    with pytest.raises(FighterError, match="same grid"):
        fitted.predict(df.assign(ds=df.ds + pd.Timedelta(minutes=30)))


# ---- a part of the series ------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["fighter", "transformer", "normlin", "patchtst"])
def test_a_part_of_the_series_is_served(model):
    df = waves(80, ids=("a", "b", "c"))
    fitted = small(model, level=[80]).fit(df)
    whole = fitted.predict(df)
    for ids in (["b"], ["c", "a"], ["c", "b", "a"]):
        part = pd.concat([df[df.unique_id == name] for name in ids])
        found = quiet(lambda part=part: fitted.predict(part))
        expected = pd.concat([whole[whole.unique_id == name] for name in ids])
        pd.testing.assert_frame_equal(found, expected.reset_index(drop=True), rtol=1e-4)


def test_absent_series_come_from_training_and_are_not_observed_later(fitted):
    df = until(106)
    gone = df.assign(y=df.y.where((df.unique_id == "a") | (df.ds < np.sort(df.ds.unique())[100])))
    with pytest.warns(DataWarning):
        expected = fitted.predict(gone)
    a = df[df.unique_id == "a"]
    for part in (a, after(a, 100)):
        assert np.allclose(
            fitted.predict(part).Fighter, expected[expected.unique_id == "a"].Fighter, rtol=1e-5
        )
    with pytest.warns(DataWarning, match="also depends on 'b'"):
        fitted.predict(until(160)[lambda t: t.unique_id == "a"])


def test_a_part_is_explained_scored_drawn_and_paged(fitted, tmp_path):
    df = until(110)
    a = df[df.unique_id == "a"]
    graph = fitted.explain(a)
    assert (graph.target, graph.ids) == ("a", ("a", "b"))
    assert graph.forecast == pytest.approx(fitted.predict(a).Fighter[0], rel=1e-5)
    scores = fitted.evaluate(a, last=10)
    assert scores.unique_id.tolist() == ["a"]
    assert np.isfinite(scores.mae).all()
    assert len(fitted.plot(a).axes) == 1
    page = tmp_path / "a.html"
    assert "one series" in fitted.save_page(page, a, most=2)
    assert page.exists()


def test_a_part_of_a_wide_table_in_another_order():
    df = wide(waves(80, ids=("a", "b", "c"))).reset_index()
    fitted = tiny().fit(df)
    whole = fitted.predict(df)
    found = fitted.predict(df[["ds", "c", "a"]])
    assert found.unique_id.unique().tolist() == ["c", "a"]
    for name in "ca":
        left, right = (t[t.unique_id == name].Fighter for t in (found, whole))
        assert np.array_equal(left, right)


# ---- scikit-learn --------------------------------------------------------------------------------


def test_a_search_of_scikit_learn_over_later_rows():
    df = wide(waves(160)).reset_index()
    model = tiny(horizon=4, lookback=8, max_epochs=1)
    search = GridSearchCV(
        model,
        {"training__lr": [1e-5, 0.05], "model": ["linear"]},
        cv=TimeSeriesSplit(3),
        error_score="raise",
    )
    search.fit(df)
    assert search.best_params_["training__lr"] == 0.05
    assert (search.cv_results_["mean_test_score"] < 0).all()
    assert len(search.predict(df)) == 8
    train, test = df[:120], df[120:]
    fitted = clone(search.best_estimator_).fit(train)
    assert fitted.score(test) == pytest.approx(-fitted.evaluate(df, last=40).scaled_mae.mean())
    with pytest.raises(FighterError) as error:
        fitted.fit(train, y=train["a"])
    assert error.value.argument == "y"
    with pytest.raises(FighterError, match="3 rows to score"):
        fitted.score(df[120:123])


@pytest.mark.parametrize(
    ("fitted_with", "given"),
    [("Europe/Berlin", None), (None, "America/New_York"), ("UTC", None), (None, "UTC")],
)
@pytest.mark.parametrize("freq", ["h", "D"])
def test_later_rows_need_a_zone_if_the_training_table_had_one(fitted_with, given, freq):
    model = Forecaster(2, 24, model="repeat", verbose=False)
    with warnings.catch_warnings(action="ignore"):
        model.fit(zoned(60, freq, fitted_with))
    with pytest.raises(FighterError) as error:
        model.predict(zoned(70, freq, given)[60:])
    assert error.value.argument == "time_col"


def test_later_days_of_another_zone_are_refused():
    model = Forecaster(2, 24, model="repeat", verbose=False)
    with warnings.catch_warnings(action="ignore"):
        model.fit(zoned(60, "D", "Europe/Berlin"))
    with pytest.raises(FighterError) as error:
        model.predict(zoned(70, "D", "America/New_York")[60:])
    assert error.value.argument == "time_col"


def test_later_hours_may_have_another_zone_or_another_name_of_utc():
    df = zoned(70, "h", "UTC")
    model = Forecaster(2, 24, model="repeat", verbose=False).fit(df[:60])
    for zone in ("UTC", "Etc/UTC", "Europe/Berlin"):
        with warnings.catch_warnings(action="ignore"):
            later = model.predict(
                df[60:].assign(ds=lambda rows, to=zone: rows.ds.dt.tz_convert(to))
            )
        assert (later.ds == model.predict(df[60:]).ds).all()


def zoned(rows: int, freq: str, zone: str | None) -> pd.DataFrame:
    stamps = pd.date_range("2024-01-01", periods=rows, freq=freq, tz=zone)
    return pd.DataFrame({"ds": stamps, "y": np.arange(rows) % 7.0})


@pytest.mark.parametrize("gap", [1, 11, 12, 5000])
def test_rows_after_a_gap_are_reported_unless_they_fill_the_lookback(fitted, gap):
    lookback, rows = fitted.plan.lookback, 5
    df = waves(100 + gap + lookback)
    few = df[df.ds.isin(np.sort(df.ds.unique())[100 + gap : 100 + gap + rows])]
    with pytest.warns(DataWarning, match=f"{min(gap, lookback - rows)} of the {lookback} steps"):
        fitted.predict(few)
    quiet(lambda: fitted.predict(after(df, 100 + gap)))


def test_unknown_series_are_told_the_known_ones():
    df = waves(60)
    numbered = df.assign(unique_id=df.unique_id.map({"a": 0, "b": 1}))
    model = tiny(cycle=24).fit(numbered)
    with pytest.raises(FighterError, match=r"0, 1.*str.*int"):
        model.predict(numbered.astype({"unique_id": str}))


@pytest.mark.parametrize("name", ["h", "horizon"])
def test_the_horizon_of_a_fitted_model_is_fixed(fitted, name):
    assert len(fitted.predict(**{name: fitted.plan.horizon})) == 2 * fitted.plan.horizon
    with pytest.raises(FighterError) as error:
        fitted.predict(**{name: fitted.plan.horizon + 1})
    assert error.value.argument == name


@pytest.mark.parametrize("model", ["repeat", "naive", "mean"])
def test_models_without_weights_need_no_future_values(model):
    df = waves(60).assign(x=1.0)
    fitted = Forecaster(3, 24, model=model, future=["x"], verbose=False).fit(df)
    assert fitted.predict().iloc[:, 2].notna().all()
