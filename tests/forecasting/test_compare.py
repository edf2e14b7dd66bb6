"""Why the forecast of the same hour changed."""

import numpy as np
import pandas as pd
import pytest

from fighter import FighterError
from fighter.cli.main import main
from fighter.models.attribution import Attribution

from ..tables import tail, tiny, waves
from .test_covariates import cut, driven


def at_times(table, change, column="Fighter"):
    """Return predicted values at the times of the change, ``[H, N]``."""
    wide = table.pivot(index="ds", columns="unique_id", values=column)
    when = change.before.times[:, 0].astype("datetime64[ns]")
    return wide.loc[when].to_numpy()


def check(change, before, after, column="Fighter"):
    for forecast, table in ((change.before, before), (change.after, after)):
        expected = at_times(table, change, column)
        np.testing.assert_allclose(forecast.point, expected, rtol=2e-5, atol=2e-5)
    total = sum(change.parts.values())
    np.testing.assert_allclose(total, change.difference, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("settings", [{"smoothing": False}, {"validation": 0}])
@pytest.mark.parametrize("new", [1, 4])
def test_new_rows(settings, new):
    df = waves(100)
    model = tiny(**settings).fit(tail(df, 10))
    yesterday = tail(df, new)
    change = model.compare(yesterday, df)
    check(change, model.predict(yesterday), model.predict(df))
    assert len(change.before.point) == 6 - new
    assert {"news of a", "news of b", "later window"} <= set(change.parts)
    assert "revised values" not in change.parts
    assert "news of b" in change.summary()


def test_each_series_is_followed_once_however_many_bring_news(monkeypatch):
    df = waves(100, ids=("a", "b", "c", "d"))
    model = tiny(max_epochs=1).fit(df)
    split, followed = Attribution.split, []
    monkeypatch.setattr(
        Attribution, "split", lambda self, i, level: followed.append(i) or split(self, i, level)
    )
    change = model.compare(tail(df, 1), df)
    assert len(change.effects) == 4
    assert sorted(followed) == [0, 1, 2, 3]


def test_rows_that_come_as_forecast_are_no_news():
    model = tiny(smoothing=False).fit(waves(100))
    df = waves(100)
    expected = model.predict().groupby("unique_id").head(2).rename(columns={"Fighter": "y"})
    change = model.compare(df, pd.concat([df, expected]))
    parts = change.parts
    size = np.abs(change.difference).max()
    for name in set(parts) - {"later window"}:
        assert np.abs(parts[name]).max() < 1e-4 * max(size, 1)


def test_news_are_differences_from_the_forecast_times_their_weight():
    df = waves(100)
    model = tiny(smoothing=False, reversion=False).fit(df)
    expected = model.predict().groupby("unique_id").head(1).rename(columns={"Fighter": "y"})
    base = pd.concat([df, expected])
    surprise = base.copy()
    surprise.loc[(base.unique_id == "b") & (base.ds == base.ds.max()), "y"] += 0.5
    news = model.compare(df, surprise).effects["news of b"]
    what = model.what_if(base, {("b", base.ds.max()): "+0.5"}).effects
    np.testing.assert_allclose(news, next(iter(what.values()))[:5], rtol=1e-4, atol=1e-6)


@pytest.mark.filterwarnings("ignore::fighter.errors.DataWarning")
def test_revised_values_and_several_ends():
    df = waves(100)
    df = df[(df.unique_id == "a") | (df.ds < df.ds.max() - pd.Timedelta("3h"))]
    model = tiny(smoothing=False).fit(df)
    today = df.copy()
    today.loc[(df.unique_id == "a") & (df.ds == df.ds.max()), "y"] += 1
    change = model.compare(df, today)
    assert change.effects["revised values"].any()
    before, after = model.predict(df), model.predict(today)
    for forecast, table in ((change.before, before), (change.after, after)):
        expected = table.Fighter.to_numpy().reshape(2, 6).T
        np.testing.assert_allclose(forecast.point, expected, rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(sum(change.parts.values()), change.difference, atol=1e-9)


@pytest.mark.parametrize("settings", [{"smoothing": False}, {"validation": 0}])
def test_two_models_on_one_table(settings):
    df = waves(90)
    old, model = (tiny(seed=seed, **settings).fit(df) for seed in (0, 1))
    change = model.compare(df, before=old)
    check(change, old.predict(df), model.predict(df))
    assert {"other model: level", "other model: own past"} <= set(change.parts)
    table = change.table("pandas")
    one, other = (m.explain(df, unique_id="b", step=2) for m in (old, model))
    row = table[table.unique_id == "b"].iloc[1]
    level = other.terms["level"] - one.terms["level"]
    assert row["other model: level"] == pytest.approx(level, rel=1e-6, abs=1e-9)


def test_new_rows_and_another_model():
    df = waves(90)
    yesterday = tail(df, 2)
    old, model = (tiny(seed=seed, smoothing=False).fit(yesterday) for seed in (0, 1))
    change = model.compare(yesterday, df, before=old)
    check(change, old.predict(yesterday), model.predict(df))


def test_covariates_that_turn_out_otherwise():
    df = driven(120)
    history, ahead = cut(df, 6)
    model = tiny(future=["switch"], cycle=None, smoothing=False, lr=0.05, max_epochs=3).fit(history)
    future = ahead.drop(columns="y")
    grown = pd.concat([history, ahead.groupby("unique_id").head(2)])
    more = pd.concat([future, future.assign(ds=future.ds + pd.Timedelta("6h"))])
    told = future.assign(switch=1 - future.switch)
    change = model.compare(history, grown, future=more, future_before=told)
    check(change, model.predict(history, future=told), model.predict(grown, future=more))
    assert change.effects["covariates"].any()


def test_tables_that_do_not_fit_are_refused():
    df = waves(90)
    model = tiny(smoothing=False, max_epochs=1).fit(df)
    with pytest.raises(FighterError, match="share no time") as error:
        model.compare(tail(df, 6), df)
    assert error.value.argument == "today"
    with pytest.raises(FighterError, match="earlier table first"):
        model.compare(df, tail(df, 6))
    with pytest.raises(FighterError) as error:
        model.compare(df, before=tiny(horizon=4, smoothing=False, max_epochs=1).fit(df))
    assert error.value.argument == "before"


def test_the_command_says_what_if_and_why(tmp_path, capsys):
    df = waves(90)
    model = tiny(smoothing=False, max_epochs=1).fit(df)
    model.save(tmp_path / "m")
    df.to_csv(tmp_path / "today.csv", index=False)
    tail(df, 1).to_csv(tmp_path / "then.csv", index=False)
    flags = ["explain", str(tmp_path / "m"), str(tmp_path / "today.csv"), "--series", "a"]
    last = df.ds.max()
    changes = ["--change", "a=+10%", f"b@{last}=12"]
    assert main([*flags, *changes, "--yesterday", str(tmp_path / "then.csv")]) == 0
    shown = capsys.readouterr().out
    change = model.what_if(df, {"a": "+10%", ("b", str(last)): 12.0})
    for each in (change, model.compare(tail(df, 1), df)):
        assert each.summary(unique_id="a") in shown  # the series that was asked for
    assert "\nb changes" not in shown
    for wrong in ("a", "=3", "c=3"):
        assert main([*flags, "--change", wrong]) == 1
        assert "--change " in capsys.readouterr().err
    flags[2] = str(tmp_path / "then.csv")
    assert main([*flags, "--yesterday", str(tmp_path / "today.csv")]) == 1
    assert "FILE: ends before" in capsys.readouterr().err


def test_rows_of_today_tell_what_was_known_ahead_yesterday():
    df = driven(120)
    history, ahead = cut(df, 6)
    first, _ = cut(history, 1)
    model = tiny(future=["switch"], cycle=None, max_epochs=1).fit(history)
    future = ahead.drop(columns="y")
    both = pd.concat([history, ahead]).drop(columns="y")
    change = model.compare(first, history, future=future)
    check(change, model.predict(first, future=both), model.predict(history, future=future))
    assert "covariates" not in change.effects
    other = both.assign(switch=1 - both.switch)
    change = model.compare(first, history, future=future, future_before=other)
    check(change, model.predict(first, future=other), model.predict(history, future=future))
    assert "covariates" in change.effects


def test_a_model_of_another_kind_is_refused():
    model = tiny(max_epochs=1, smoothing=False).fit(waves(60))
    with pytest.raises(FighterError) as error:
        model.compare(waves(60), before="model")
    assert (error.value.argument, error.value.value) == ("before", "str")
