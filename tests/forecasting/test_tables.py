"""From tables of all kinds to forecasts."""

import datetime as dt
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch

from fighter import FighterError, Forecaster
from fighter.errors import DataWarning
from fighter.forecasting.config import Training
from fighter.models import MODELS

from ..tables import CONVERT, tail, tiny, waves, wide
from ..training.nets import same_weights
from .small import all_new, small

TYPES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.Table}


def rows_of(table) -> dict[str, list]:
    if isinstance(table, pa.Table):
        return table.to_pydict()
    if isinstance(table, pl.DataFrame):
        return table.to_dict(as_series=False)
    return table.to_dict(orient="list")


@pytest.mark.parametrize("backend", CONVERT)
@pytest.mark.parametrize("shape", ["long", "wide", "renamed"])
def test_every_table_type_and_layout_gives_the_same_forecast(backend, shape):
    df, names, settings = waves(60), ("unique_id", "ds"), {}
    expected = tiny().fit(df).predict()
    if shape == "wide":
        df = wide(df).reset_index()
    if shape == "renamed":
        names = ("meter", "hour")
        settings = {"id_col": "meter", "time_col": "hour", "target_col": "kwh"}
        df = df.rename(columns={"unique_id": "meter", "ds": "hour", "y": "kwh"})
    table = CONVERT[backend](df)
    model = tiny(**settings).fit(table)
    for forecast in (model.predict(), model.predict(table)):
        assert isinstance(forecast, TYPES[backend])
        found = rows_of(forecast)
        assert list(found) == [*names, "Fighter"]
        assert found[names[0]] == expected.unique_id.tolist()
        assert [pd.Timestamp(t) for t in found[names[1]]] == expected.ds.tolist()
        assert found["Fighter"] == pytest.approx(expected.Fighter.tolist(), rel=1e-6)


def shops() -> pd.DataFrame:
    """Return sales of two shops and two items, in a table that names its ids by numbers."""
    df = waves(60, ids=("1 a", "1 b", "2 a", "2 b"))
    keys = df.unique_id.str.split(" ", expand=True)
    return pd.DataFrame({"ds": df.ds, "shop": keys[0].astype(int), "item": keys[1], "sold": df.y})


@pytest.mark.parametrize("backend", CONVERT)
@pytest.mark.parametrize("named", [True, False])
def test_ids_over_several_columns(tmp_path, backend, named):
    names = {"id_col": ["shop", "item"], "target_col": "sold"} if named else {}
    table = CONVERT[backend](shops())
    with nullcontext() if named else pytest.warns(DataWarning, match="'shop', 'item'"):
        small("repeat", **names).fit(table).save(tmp_path / "m")
    model = Forecaster.load(tmp_path / "m")
    scores, windows = model.evaluate(table), model.cross_validation(table) if named else None
    for out in (model.predict(), model.predict(table), scores, windows):
        if out is not None:
            found = rows_of(out)
            assert list(found)[:2] == ["shop", "item"]
            keys = dict.fromkeys(zip(found["shop"], found["item"], strict=True))
            assert list(keys) == [(1, "a"), (1, "b"), (2, "a"), (2, "b")]
    subset = CONVERT[backend](shops().query("shop == 1"))
    assert rows_of(model.predict(subset))["shop"] == [1] * 12


@pytest.mark.filterwarnings("ignore::fighter.errors.DataWarning")
def test_ids_over_several_columns_are_explained(tmp_path):
    model = tiny().fit(shops())
    graph = model.explain(unique_id=(2, "a"))
    assert graph.target == (2, "a")
    assert graph.summary().startswith("2 / a at ")
    assert set(graph.edges().target) == {"2 / a"}
    assert rows_of(replace(graph, like="polars").edges(top=1))["target"] == ["2 / a"]
    assert model.explain(unique_id=[1, "b"]).target == (1, "b")
    with pytest.raises(FighterError) as error:
        model.explain(unique_id=(3, "a"))
    assert error.value.argument == "unique_id"
    assert "2 of 4 series" in model.save_page(tmp_path / "a.html", first=((1, "a"), 1), most=2)


def test_columns_that_are_left_out_may_be_missing_later():
    table = wide(waves(60)).reset_index()
    model = small("repeat", drop=["note"]).fit(table.assign(note="text"))
    expected = model.predict()
    assert model.predict(table).equals(expected)
    with pytest.warns(DataWarning, match="'extra'"):
        assert model.predict(table.assign(extra="new")).equals(expected)
    chosen = small("repeat", columns=["a"]).fit(table)
    assert chosen.predict().unique_id.unique().tolist() == ["a"]


def test_the_order_of_rows_and_ids_does_not_matter():
    df = waves(60, ids=("a", "b", "c"))
    model = tiny().fit(df)
    expected = model.predict(df)
    shuffled = df.sample(frac=1, random_state=0)
    turned = df.sort_values(["unique_id", "ds"], ascending=[False, True])
    for other in (shuffled, turned):
        found = model.predict(other).set_index(["unique_id", "ds"]).Fighter
        right = expected.set_index(["unique_id", "ds"]).Fighter.loc[found.index]
        assert np.array_equal(found, right)


def test_each_series_is_forecast_from_its_own_end():
    df = waves(100, ids=("a", "b", "c"))
    a, b, c = (df[df.unique_id == name] for name in "abc")
    uneven = pd.concat([a, b[:70], c[30:]])
    with pytest.warns(DataWarning, match="'b' by 30 steps; each is forecast from its own end"):
        model = tiny().fit(uneven)
    own = model.predict()
    for name, last in (("a", a), ("b", b[:70]), ("c", c)):
        assert own[own.unique_id == name].ds.min() == last.ds.max() + pd.Timedelta(hours=1)
    # the end of b lies further back than a look-back: its forecast is that of the table cut there
    with pytest.warns(DataWarning):
        again = model.predict(uneven)
    assert np.array_equal(own.Fighter, again.Fighter)
    with pytest.warns(DataWarning):
        early = model.predict(uneven[uneven.ds <= b[:70].ds.max()])
    assert np.allclose(own[own.unique_id == "b"].Fighter, early[early.unique_id == "b"].Fighter)


@pytest.mark.parametrize("step", [1, 5])
def test_integers_work_as_time_axis(step):
    df = waves(60)
    df["ds"] = np.tile(100 + step * np.arange(60), 2)
    forecast = tiny().fit(df).predict()
    assert forecast.ds.tolist() == 2 * [100 + step * (60 + k) for k in range(6)]


@pytest.mark.parametrize(
    ("freq", "start", "first"),
    [
        ("MS", "2001-01-01", "2011-01-01"),
        ("ME", "2001-01-31", "2011-01-31"),
        ("B", "2024-01-01", "2024-06-17"),
        ("D", "2024-01-01", "2024-04-30"),
        ("W-SUN", "2020-01-05", "2022-04-24"),
        ("10min", "2024-01-01", "2024-01-01 20:00"),
    ],
)
def test_forecast_stamps_follow_the_frequency(freq, start, first):
    forecast = tiny().fit(waves(120, freq=freq, start=start)).predict()
    stamps = pd.date_range(first, periods=6, freq=freq)
    assert forecast[forecast.unique_id == "a"].ds.tolist() == stamps.tolist()
    assert np.isfinite(forecast.Fighter).all()


def test_dates_come_back_as_dates():
    df = waves(60, freq="D")
    df["ds"] = df.ds.dt.date
    forecast = tiny().fit(df).predict()
    assert forecast.ds[0] == dt.date(2024, 3, 1)


def test_gaps_duplicates_and_sentinels_are_reported():
    df = waves(200, freq="10min")
    df.loc[[5, 250], "y"] = -9999
    df.loc[7, "y"] = np.nan
    broken = pd.concat([df.drop(index=[50, 51, 52, 333]), df.loc[[80]]])
    with pytest.warns(DataWarning) as warned:
        model = tiny(missing_values=[-9999]).fit(broken)
    (message,) = (str(warning.message) for warning in warned)
    assert "1 duplicated time stamp (first: 'a' at 2024-01-01 13:20)" in message
    assert (
        "4 missing time stamps in 2 series ('a' 3, 'b' 1; first: 'a' at 2024-01-01 08:20)"
        in message
    )
    assert "2 values of -9999 in 2 series" in message
    assert "1 empty value (NaN) in 1 series ('a' 1; first: 'a' at 2024-01-01 01:10)" in message
    forecast = model.predict()
    assert forecast.ds.min() == pd.Timestamp("2024-01-02 09:20")
    assert np.isfinite(forecast.Fighter).all()
    assert forecast.Fighter.between(-5, 15).all()


@pytest.mark.filterwarnings("ignore::fighter.errors.DataWarning")
def test_values_that_are_not_observed_do_not_matter():
    """Two different marks for missing values give equal weights and forecasts."""
    fits = []
    for mark in (-9999.0, 31.5):
        df = waves(80)
        df.loc[df.index % 5 == 2, "y"] = mark
        model = tiny(missing_values=[mark], level=[80]).fit(df)
        fits.append((model, model.predict(), model.evaluate(df)))
    assert same_weights(fits[0][0].fitted.network, fits[1][0].fitted.network)
    assert fits[0][1].equals(fits[1][1])
    assert fits[0][2].equals(fits[1][2])


@pytest.mark.filterwarnings("ignore::fighter.errors.DataWarning")
@pytest.mark.parametrize("model", MODELS)
def test_a_forecast_is_never_nan(model):
    df = waves(80, ids=("a", "b", "c"))
    df.loc[(df.unique_id == "b") & (df.ds >= df.ds.max() - pd.Timedelta(hours=20)), "y"] = np.nan
    fitted = small(model, level=[80], max_epochs=1).fit(df)
    forecast = fitted.predict()
    assert len(forecast) == 18
    assert np.isfinite(forecast.iloc[:, 2:]).all(axis=None)
    b = forecast[forecast.unique_id == "b"].iloc[:, 2]
    assert b.between(0, 20).all()  # no look-back at all: about the level of its past


def test_a_constant_series_is_forecast_as_constant():
    df = waves(80)
    df.loc[df.unique_id == "a", "y"] = 7.0
    forecast = tiny(level=[80]).fit(df).predict()
    a = forecast[forecast.unique_id == "a"].iloc[:, 2:]
    assert np.allclose(a, 7, atol=0.2)
    everything = tiny(level=[80]).fit(df[df.unique_id == "a"]).predict()
    assert np.allclose(everything.Fighter, 7)
    assert np.allclose(everything.iloc[:, 2:], 7, atol=0.5)  # it may still change


@pytest.mark.parametrize(
    ("level", "spread"), [(1e9, 1.0), (0.0, 1e-9), (-1e12, 1e6), (1e-6, 1e-12)]
)
def test_huge_and_tiny_values_keep_their_precision(level, spread):
    df = waves(96)
    plain = tiny().fit(df).predict().Fighter
    df["y"] = level + spread * df.y
    moved = tiny().fit(df).predict().Fighter
    assert np.allclose((moved - level) / spread, plain, atol=2e-2)


def test_a_table_that_is_too_short_is_refused_with_the_numbers():
    with pytest.raises(FighterError) as error:
        tiny(horizon=24, lookback=96, smoothing=False).fit(waves(40, ids=("a",)))
    assert "series 'a' has 40 points, needs look-back 96 + horizon 24 = 120" in str(error.value)
    with pytest.raises(FighterError, match="intervals are calibrated on validation rows, and 20"):
        tiny(level=[80], smoothing=False).fit(waves(20))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda df: df.head(0), "empty"),
        (
            lambda df: df.rename(columns={"y": "Y"}).assign(x=1.0),
            "target_col='y'.*Did you mean 'Y'",
        ),
        (lambda df: df.assign(y=df.y.astype(str) + "x"), "which is not a number"),
        (lambda df: df.assign(y=df.y.where(df.index != 3, np.inf)), "1 infinite value"),
        (lambda df: df.assign(y=df.y.where(df.unique_id != "b")), "no observed value, 'b'"),
        (lambda df: df.to_numpy(), "pandas, polars or pyarrow"),
    ],
)
def test_unusable_tables_are_refused_and_nothing_is_written(spoil, message, tmp_path):
    place = tmp_path / "run"
    model = tiny()
    with pytest.raises(FighterError, match=message):
        model.fit(spoil(waves(60)), folder=place)
    assert not place.exists()
    with pytest.raises(FighterError, match="has not been fitted"):
        model.predict()


def test_predict_accepts_a_history_shorter_than_the_look_back():
    df = waves(80)
    model = tiny().fit(df)
    forecast = model.predict(df.groupby("unique_id").tail(3))
    assert np.isfinite(forecast.Fighter).all()
    assert forecast.ds.tolist() == model.predict().ds.tolist()


# ---- later data, other series --------------------------------------------------------------------


def test_only_the_look_back_matters_for_later_data():
    """The same look-back gives the same forecast of the network, whatever lies before it."""
    df = waves(130)
    model = tiny(cycle=24, smoothing=False).fit(tail(df, 30))
    whole = model.predict(df)
    short = model.predict(df.groupby("unique_id").tail(12))
    longer = model.predict(df.groupby("unique_id").tail(47))
    for other in (short, longer):
        assert other.ds.tolist() == whole.ds.tolist()
        assert np.allclose(other.Fighter, whole.Fighter, rtol=1e-5)


@pytest.mark.parametrize("shift", [-31, -24, 0, 7, 100])
def test_the_phase_of_the_cycle_follows_the_time_stamps(shift):
    """Tables may begin anywhere in the cycle, also before the training table."""
    profile = np.array([0.0, 5, -3, 2, 8, 1, -7])
    step = np.arange(140)
    df = pd.DataFrame(
        {"ds": pd.date_range("2024-01-01", periods=140, freq="h"), "y": profile[step % 7]}
    )
    model = small("linear", 7, 7, cycle=7, max_epochs=60, lr=0.05, ema=0.9).fit(df)
    later = step[:20] + shift
    other = pd.DataFrame(
        {"ds": df.ds[0] + pd.to_timedelta(later, unit="h"), "y": profile[later % 7]}
    )
    forecast = model.predict(other)
    expected = profile[(later[-1] + 1 + np.arange(7)) % 7]
    assert np.allclose(forecast.iloc[:, 2], expected, atol=0.5)


@all_new
def test_models_without_series_weights_serve_new_series_and_subsets():
    df = waves(80, ids=("a", "b", "c"))
    model = tiny(adjacency="cosine", cycle=None, level=[80]).fit(df)
    new = waves(80, ids=("x", "y"))
    new["y"] = 1e6 + 1e4 * new.y
    forecast = model.predict(new)
    assert forecast.unique_id.unique().tolist() == ["x", "y"]
    scaled = (forecast["Fighter"] - 1e6) / 1e4
    assert scaled[:6].between(-3, 3).all()
    assert scaled[6:].between(7, 13).all()
    assert (forecast["Fighter-lo-80"] <= forecast["Fighter-hi-80"]).all()
    # an unseen series is scaled by its own past, all of it, on the way in and on the way out
    same = new.assign(y=(new.y - 1e6) / 1e4)
    assert np.allclose(scaled, model.predict(same).Fighter, atol=1e-3)
    part = model.predict(df[df.unique_id != "b"])
    assert part.unique_id.unique().tolist() == ["a", "c"]
    mixed = model.predict(pd.concat([new[new.unique_id == "x"], df[df.unique_id == "c"]]))
    assert set(mixed.unique_id) == {"c", "x"}


def test_a_table_without_any_series_of_training_is_reported():
    """Ids may be text in one table and numbers in the other, or be written in another way."""
    df = waves(80).replace({"a": "0001", "b": "0002"})
    model = tiny(adjacency="cosine", cycle=None, lookback=12, smoothing=False).fit(df)
    numbers = df.assign(unique_id=df.unique_id.astype(int))
    both = r"such as 1 \(int\), .* such as '0001' \(str\)"
    for use in (model.predict, lambda table: model.evaluate(table, last=6), model.score):
        with pytest.warns(DataWarning, match=both) as told:
            use(numbers)
        assert len(told) == 1
    with pytest.warns(DataWarning, match="such as '1', .* such as '0001':"):
        model.predict(numbers.astype({"unique_id": str}))
    model.predict(pd.concat([df, waves(80)]))  # one of training is enough


def test_patches_forecast_each_series_by_itself():
    df = waves(80, ids=("a", "b", "c"))
    model = tiny(nodes="patch", cycle=None).fit(df)
    whole, part = model.predict(df), model.predict(df[df.unique_id == "b"])
    assert np.allclose(part.Fighter, whole[whole.unique_id == "b"].Fighter, rtol=1e-5)


@pytest.mark.parametrize(
    ("settings", "alternative"),
    [
        ({}, "Fighter with a cosine adjacency"),
        ({"adjacency": "cosine", "cycle": 24}, "a frame without a cycle"),
        ({"cycle": 24}, "Fighter with a cosine adjacency and a frame without a cycle"),
        ({"nodes": "time"}, "Fighter over series or patches"),
        ({"model": "transformer"}, "Fighter with a cosine adjacency"),
    ],
)
def test_the_error_for_new_series_names_the_settings_that_serve_them(settings, alternative):
    df = waves(80)
    model = tiny(**{"cycle": None, **settings}).fit(df)
    with pytest.raises(FighterError) as error:
        model.predict(waves(80, ids=("a", "z")))
    assert "trained on 'a', 'b', and 'z' is not one of them" in str(error.value)
    assert alternative in str(error.value)
    part = model.predict(df[df.unique_id == "a"])  # a part of the series is served
    whole = model.predict(df)
    pd.testing.assert_frame_equal(part, whole[whole.unique_id == "a"])


def test_the_users_random_state_is_left_alone():
    np.random.seed(3)
    torch.manual_seed(3)
    before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].copy()
    tiny(level=[80]).fit(waves(60)).predict()
    assert torch.equal(torch.get_rng_state(), before)
    assert np.array_equal(np.random.get_state()[1], numpy_before)


DAYS = pd.date_range("2024-01-01", periods=200)
HOURS = pd.date_range("2024-01-01", periods=1400, freq="h")
WORKING = HOURS[(HOURS.day_of_week < 5) & (HOURS.hour >= 9) & (HOURS.hour < 17)]
MONTHS = pd.date_range("2008-01-01", periods=200, freq="MS")
ODD_TIMES = {  # and the first season
    "dates in integers": (DAYS.strftime("%Y%m%d").astype(int), 7),
    "seconds": (HOURS[:200].as_unit("s").asi8, 24),
    "month first": (DAYS.strftime("%m/%d/%y"), 7),
    "opening hours": (WORKING, 8),
    "local opening hours": (WORKING.tz_localize("America/New_York"), 8),
    "30th of the month": ([t.replace(day=min(30, t.days_in_month)) for t in MONTHS], 12),
}


@pytest.mark.filterwarnings("ignore::fighter.errors.DataWarning")
@pytest.mark.parametrize("name", ODD_TIMES)
def test_a_saved_model_reads_later_times_like_the_first(name, tmp_path):
    times, season = ODD_TIMES[name]
    df = pd.DataFrame({"ds": times, "y": np.arange(float(len(times)))})
    model = small("repeat", horizon=3).fit(df.iloc[:-3])
    expected = model.predict()
    assert model.fitted.context.freq.season[0] == season
    model.save(tmp_path / "model")
    loaded = type(model).load(tmp_path / "model")
    pd.testing.assert_frame_equal(loaded.predict(), expected)
    pd.testing.assert_frame_equal(loaded.predict(df.iloc[-40:-3]), expected)
    truth = loaded.read(df.iloc[-40:]).times[-3:]
    np.testing.assert_array_equal(loaded.fitted.forecast().times[:, 0], truth)


@pytest.mark.parametrize("freq", ["YS", "D"])
def test_a_horizon_past_the_last_stamp_is_refused_before_training(freq):
    times = pd.date_range("2242-01-01", periods=20, freq="YS").as_unit("s")
    if freq == "D":
        times = pd.date_range("2261-12-01", periods=20).as_unit("s")
    df = pd.DataFrame({"ds": times, "y": np.arange(20.0)})
    with pytest.raises(FighterError) as error:
        small("repeat", horizon=200).fit(df)
    assert error.value.argument == "horizon"


def test_tiny_values_are_forecast():
    df = pd.DataFrame({"ds": range(30), "y": 1e-50 * np.arange(30.0)})
    forecast = small("repeat", horizon=1).fit(df).predict()["RepeatLast"]
    np.testing.assert_allclose(forecast, 2.9e-49, rtol=1e-6)


@pytest.mark.parametrize(("freq", "shift"), [("W", "1D"), ("h", "30min"), ("B", "10h")])
def test_later_rows_on_another_grid_are_refused_with_their_stamp(freq, shift):
    times = pd.date_range("2024-01-01", periods=70, freq=freq)
    df = pd.DataFrame({"ds": times, "y": np.arange(70.0)})
    model = small("repeat", horizon=3).fit(df[:60])
    later = df[60:].assign(ds=times[60:] + pd.Timedelta(shift))
    with pytest.raises(FighterError) as error:
        model.predict(later)
    assert (error.value.argument, error.value.value) == ("freq", freq)
    assert f"{later['ds'].iloc[0]:%Y-%m-%d}" in str(error.value)


def test_series_that_end_before_every_validation_window_are_fitted():
    """No window is left for validation: nothing chooses the epochs to learn all rows again."""
    df = waves(108)
    a, b = df[df.unique_id == "a"][:60], df[df.unique_id == "b"][48:]
    with pytest.warns(DataWarning):
        model = Forecaster(24, verbose=False, training=Training(max_epochs=1)).fit(
            pd.concat([a, b])
        )
    assert np.isfinite(model.predict().Fighter).all()


def listed_late(rows: int = 60) -> pd.DataFrame:
    """Return three items, of which b is listed at row 30 and c is never sold."""
    df = waves(rows, ids=("a", "b", "c"))
    step = df.groupby("unique_id").cumcount()
    return df.assign(
        y=df.y.where(((df.unique_id == "b") & (step >= 30)) | (df.unique_id == "a"), 0)
    )


def test_zeros_before_the_first_sale_are_left_out():
    df = listed_late()
    df.loc[df.index[40], "y"] = 0.0  # of a, after its first sale
    kept, dropped = (tiny(leading_zeros=keep).read(df) for keep in (True, False))
    assert kept.observed.all()
    assert dropped.observed.all(0).tolist() == [True, False, True]
    assert dropped.observed[:, 1].tolist() == [False] * 30 + [True] * 30
    assert np.array_equal(dropped.values, kept.values)
    model = tiny(leading_zeros=False).fit(df)
    own = df[df.unique_id == "b"].y[30 : 60 - model.plan.validation]
    assert model.fitted.preprocessing.scaler.shift[1] == pytest.approx(own.mean())


def test_zeros_of_a_later_table_are_sales():
    """Only series that were not trained on have their first sale in it."""
    df = listed_late()
    model = small("linear", cycle=None, leading_zeros=False).fit(df)
    later = df.assign(y=0.0).iloc[-20:].assign(ds=lambda t: t.ds + pd.Timedelta(hours=30))
    later.iloc[-5:, later.columns.get_loc("y")] = 7.0
    names = [later.assign(unique_id=name) for name in ("b", "new")]
    first = pd.concat(names).ds.min()
    panel = model.read(pd.concat(names))
    rows = panel.times >= first.value
    assert panel.observed[rows, 0].sum() == 20
    assert panel.observed[rows, 1].sum() == 5
    again = model.read(df)  # the training table
    assert again.observed.sum(0).tolist() == [60, 30, 60]
