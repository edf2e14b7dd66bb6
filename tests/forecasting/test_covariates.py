import numpy as np
import pandas as pd
import pytest

from fighter import FighterError, Forecaster
from fighter.data import future_values, to_panel

from ..tables import tiny, waves
from .small import all_new, small


def driven(rows: int = 400, ids=("a", "b")) -> pd.DataFrame:
    """Return series that follow a random switch, which only a future covariate can reveal."""
    rng = np.random.default_rng(0)
    parts = []
    for k, name in enumerate(ids):
        switch = rng.integers(0, 2, rows).astype(float)
        y = 10 * k + 3 * switch + 0.1 * rng.normal(size=rows)
        times = pd.date_range("2024-01-01", periods=rows, freq="h")
        parts.append(pd.DataFrame({"unique_id": name, "ds": times, "y": y, "switch": switch}))
    return pd.concat(parts, ignore_index=True)


def cut(df: pd.DataFrame, steps: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    last = np.sort(df.ds.unique())[-steps]
    return df[df.ds < last], df[df.ds >= last]


SETTINGS = {
    "max_epochs": 12, "batch_size": 32, "lr": 0.02, "ema": 0.9, "cycle": None, "calendar": False,
}  # fmt: skip


@pytest.fixture(scope="module")
def fitted() -> Forecaster:
    history, _ = cut(driven(), 6)
    return tiny(future=["switch"], **SETTINGS).fit(history)


def error(forecast, truth) -> float:
    both = forecast.merge(truth, on=["unique_id", "ds"])
    assert len(both) == len(truth)
    return float((both.Fighter - both.y).abs().mean())


def test_future_covariates_are_used(fitted):
    history, truth = cut(driven(), 6)
    informed = fitted.predict(future=truth.drop(columns="y"))
    blind = tiny(**SETTINGS).fit(history.drop(columns="switch")).predict()
    assert error(informed, truth) < 0.3 * error(blind, truth)


def test_future_covariates_may_come_from_rows_beyond_the_targets(fitted):
    df = driven()
    _, truth = cut(df, 6)
    beyond = df.assign(y=df.y.where(~df.ds.isin(truth.ds)))
    informed = fitted.predict(future=truth.drop(columns="y"))
    assert np.allclose(fitted.predict(beyond).Fighter, informed.Fighter)
    again = tiny(future=["switch"], **SETTINGS).fit(beyond)
    assert again.plan == fitted.plan
    assert np.array_equal(again.predict().Fighter, informed.Fighter)


@pytest.mark.filterwarnings("ignore::fighter.errors.DataWarning")
def test_a_stock_out_in_the_last_row_asks_for_no_covariate_that_the_table_holds(fitted):
    df = driven()
    history, truth = cut(df, 6)
    before, later = cut(history, 1)
    sold_out = history.assign(
        y=history.y.mask(history.ds.isin(later.ds) & (history.unique_id == "b"))
    )
    covariates = truth.drop(columns="y")
    forecast = fitted.predict(sold_out, future=covariates)
    b = forecast[forecast.unique_id == "b"]
    assert b.ds.tolist() == sorted(later.ds.unique()) + sorted(truth.ds.unique())[:-1]
    whole = fitted.predict(before, future=pd.concat([later, truth]).drop(columns="y"))
    assert np.allclose(b.Fighter, whole[whole.unique_id == "b"].Fighter)
    a = forecast[forecast.unique_id == "a"]
    assert a.ds.tolist() == sorted(truth.ds.unique())
    again = tiny(future=["switch"], **{**SETTINGS, "max_epochs": 1}).fit(sold_out)
    assert again.predict(future=covariates).ds.tolist() == forecast.ds.tolist()


def test_a_future_table_counts_more_than_the_rows_of_the_history():
    df = driven(60)
    beyond = df.assign(y=df.y.where(df.ds < df.ds.max()))
    panel = to_panel(beyond, future="switch")
    revised = df[df.ds == df.ds.max()].assign(switch=7.0).query("unique_id == 'a'")
    values = future_values(panel, revised[["unique_id", "ds", "switch"]], 1)[0, :, 0]
    assert values.tolist() == [7.0, df.switch.iloc[-1]]


def test_a_future_table_may_be_shared_by_all_series(fitted):
    _, truth = cut(driven(), 6)
    shared = truth[truth.unique_id == "a"][["ds", "switch"]]
    each = pd.concat([shared.assign(unique_id=name) for name in "ab"])
    assert np.array_equal(
        fitted.predict(future=shared).Fighter, fitted.predict(future=each).Fighter
    )


def test_the_first_missing_future_value_is_named(fitted):
    _, truth = cut(driven(), 6)
    gone = truth[~((truth.unique_id == "b") & (truth.ds >= "2024-01-17 13:00"))]
    with pytest.raises(FighterError) as raised:
        fitted.predict(future=gone)
    assert raised.value.argument == "future"
    assert "3 of 12" in raised.value.reason
    assert "column 'switch' of series 'b' at 2024-01-17 13:00" in str(raised.value)
    with pytest.raises(FighterError, match="column 'switch' of series 'a' at 2024-01-17 10:00"):
        fitted.predict()
    with pytest.raises(FighterError) as raised:
        fitted.predict(future=truth.drop(columns="switch"))
    assert (raised.value.argument, raised.value.value) == ("future", "switch")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"unique_id": 1}, r"no id of this table, such as 1 \(int\), .* such as 'a' \(str\)"),
        ({"unique_id": "c"}, "no id of this table, such as 'c', .* such as 'a'; write"),
        (
            {"ds": "2025-01-01"},
            "no time stamp of this table, such as 2025-01-01.* at 2024-01-17 10",
        ),
    ],
)
def test_a_future_table_of_other_ids_or_times_is_refused(fitted, change, words):
    _, truth = cut(driven(), 6)
    covariates = truth.drop(columns="y").query("unique_id == 'a'").assign(**change)[:1]
    with pytest.raises(FighterError, match=words) as raised:
        fitted.predict(future=covariates)
    assert raised.value.argument == "future"


def test_a_mark_for_missing_values_counts_in_the_future_table_too(tmp_path):
    history, truth = cut(driven(), 6)
    model = tiny(future=["switch"], missing_values=[-9999], **{**SETTINGS, "max_epochs": 1})
    model.fit(history)
    marked = truth.drop(columns="y").assign(
        switch=truth.switch.where(truth.ds != truth.ds.max(), -9999)
    )
    for use in (
        lambda: model.predict(future=marked),
        lambda: model.explain(unique_id="a", future=marked),
        lambda: model.save_page(tmp_path / "page.html", future=marked),
    ):
        with pytest.raises(FighterError) as raised:
            use()
        assert raised.value.argument == "future"


def test_future_covariates_that_the_model_does_not_have_are_refused():
    history, truth = cut(driven(), 6)
    model = small("repeat").fit(history[["unique_id", "ds", "y"]])
    with pytest.raises(FighterError) as raised:
        model.predict(future=truth)
    assert raised.value.argument == "future"


@pytest.mark.filterwarnings("ignore::fighter.errors.DataWarning")
def test_a_series_that_ends_early_needs_its_own_future():
    """The future covariates after an early end are required, not invented."""
    df = driven()
    early = df[~((df.unique_id == "b") & (df.ds >= "2024-01-15"))]
    model = tiny(future=["switch"], **{**SETTINGS, "max_epochs": 1}).fit(early)
    after_a = pd.DataFrame(
        {"ds": pd.date_range("2024-01-17 16:00", periods=6, freq="h"), "switch": 1.0}
    )
    with pytest.raises(FighterError, match="of series 'b' at 2024-01-15"):
        model.predict(future=after_a)
    after_b = pd.DataFrame({"ds": pd.date_range("2024-01-15", periods=6, freq="h"), "switch": 1.0})
    forecast = model.predict(future=pd.concat([after_a, after_b]))
    assert forecast.groupby("unique_id").ds.min().tolist() == [after_a.ds[0], after_b.ds[0]]


@pytest.mark.filterwarnings("ignore::fighter.errors.DataWarning")
def test_rows_beyond_the_targets_may_begin_at_different_times():
    df = driven()
    limit = df.unique_id.map(
        {"a": pd.Timestamp("2024-01-17 10:00"), "b": pd.Timestamp("2024-01-15")}
    )
    model = tiny(future=["switch"], **{**SETTINGS, "max_epochs": 1})
    forecast = model.fit(df.assign(y=df.y.where(df.ds < limit))).predict()
    assert forecast.groupby("unique_id").ds.min().tolist() == limit.unique().tolist()


def test_past_covariates_are_used():
    """The covariate reveals the next value, and the series itself does not."""
    rng = np.random.default_rng(0)
    tells = rng.normal(size=601)
    times = pd.date_range("2024-01-01", periods=600, freq="h")
    df = pd.DataFrame({"unique_id": "a", "ds": times, "y": tells[:-1], "hint": tells[1:]})
    settings = {**SETTINGS, "horizon": 1}
    scores = {}
    for past in ((), ("hint",)):
        columns = ["unique_id", "ds", "y", *past]
        model = small("linear", past=past, **settings).fit(df[columns][:500])
        scores[past] = model.evaluate(df[columns], last=100).scaled_mae[0]
    assert scores[("hint",)] < 0.5 * scores[()]


@all_new
def test_static_covariates_numeric_and_categorical():
    rng = np.random.default_rng(0)
    rows, parts = 200, []
    kinds = {"a": ("up", 1.0), "b": ("down", 1.0), "c": ("up", 3.0), "d": ("down", 3.0)}
    switch = rng.integers(0, 2, rows).astype(float)
    for name, (kind, size) in kinds.items():
        y = (1 if kind == "up" else -1) * size * switch + 0.1 * rng.normal(size=rows)
        times = pd.date_range("2024-01-01", periods=rows, freq="h")
        parts.append(pd.DataFrame({"unique_id": name, "ds": times, "y": y, "switch": switch}))
    df = pd.concat(parts, ignore_index=True)
    static = pd.DataFrame(
        [(name, *row) for name, row in kinds.items()], columns=["unique_id", "kind", "size"]
    )
    history, truth = cut(df, 6)
    alone = {"smoothing": False, "pretrained": False}  # the network, which static covariates reach
    settings = {**SETTINGS, "adjacency": "cosine", **alone}
    with_static = tiny(future=["switch"], **settings).fit(history, static=static)
    without = tiny(future=["switch"], **settings).fit(history)
    future = truth.drop(columns="y")
    assert error(with_static.predict(future=future), truth) < 0.5 * error(
        without.predict(future=future), truth
    )
    # static covariates of trained series are remembered; new series need theirs
    assert len(with_static.predict(history, future=future)) == 24
    new = history[history.unique_id == "a"].assign(unique_id="z")
    new_future = future[future.unique_id == "a"].assign(unique_id="z")
    with pytest.raises(FighterError, match="series 'z' was not trained on") as raised:
        with_static.predict(new, future=new_future)
    assert raised.value.argument == "static"
    given = pd.DataFrame({"unique_id": ["z"], "kind": ["up"], "size": [1.0]})
    assert len(with_static.predict(new, future=new_future, static=given)) == 6
    with pytest.raises(FighterError, match="'sideways', which is not among the categories"):
        with_static.predict(new, future=new_future, static=given.assign(kind="sideways"))
    with pytest.raises(FighterError, match="fitted without static covariates"):
        without.predict(history, future=future, static=static)
    again = with_static.fit(history, warm_start=True)
    assert error(again.predict(future=future), truth) < 1


def test_a_missing_covariate_column_is_named():
    with pytest.raises(FighterError) as raised:
        tiny(past=["wind"]).fit(waves(60))
    assert (raised.value.argument, raised.value.value) == ("past", "wind")
