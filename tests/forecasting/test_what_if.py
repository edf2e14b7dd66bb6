"""What if: both forecasts, and the exact reasons of their difference."""

import numpy as np
import pandas as pd
import pytest

from fighter import FighterError, Forecaster
from fighter.forecasting import reaction
from fighter.forecasting.change import REACTIONS

from ..tables import CONVERT, tiny, waves
from .test_covariates import cut, driven
from .test_parts import with_covariates

TIME = "2024-01-04 20:00"


def check(change, before, after, column="Fighter"):
    """Check the forecasts against predict, and that the parts add up."""
    for forecast, table in ((change.before, before), (change.after, after)):
        expected = table[column].to_numpy().reshape(-1, len(forecast.point)).T
        np.testing.assert_allclose(forecast.point, expected, rtol=2e-5, atol=2e-5)
    total = sum(change.parts.values())
    np.testing.assert_allclose(total, change.difference, rtol=1e-9, atol=1e-10)


def changed(df, rows, value):
    df = df.copy()
    df.loc[rows, "y"] = value(df.loc[rows, "y"])
    return df


KINDS = {
    "network": {"smoothing": False},
    "mixed": {"validation": 0},
    "alone": {"level": [80]},
    "time": {"smoothing": False, "nodes": "time"},
    "patch": {"smoothing": False, "nodes": "patch", "adjacency": "cosine"},
    "informer": {"smoothing": False, "model": "informer"},
    "linear": {"smoothing": False, "model": "itransformer"},
}


@pytest.mark.parametrize("kind", KINDS)
def test_forecasts_are_those_of_the_changed_table_and_parts_add_up(kind):
    df = waves(100)
    model = tiny(**KINDS[kind]).fit(df)
    last = df.ds == df.ds.max()
    wanted = {"a": "+10%", ("b", df.ds.max()): 12.5}
    change = model.what_if(df, wanted)
    after = changed(df, df.unique_id == "a", lambda y: 1.1 * y)
    after = changed(after, last & (df.unique_id == "b"), lambda y: 12.5)
    column = model.plan.model.column
    check(change, model.predict(df), model.predict(after), column)
    assert list(change.effects) == ["a", f"b {df.ds.max()}"]
    assert set(change.reactions) <= set(REACTIONS)
    if model.plan.network_share != 0:
        assert {"norms", "gates"} & set(change.reactions)
    mixed = model.fitted.blend is not None
    assert mixed == ("smoothing" in change.reactions)
    assert mixed == ("pretrained network" in change.reactions)


def test_an_effect_is_that_of_the_frozen_map_by_brute_force():
    """One more in a past value adds its slope: by parts of explanations, and by the level."""
    df = waves(100)
    model = tiny(smoothing=False, reversion=False).fit(df)
    panel = model.fitted.context
    one = model.what_if(None, {("b", TIME): "+1"})
    two = model.what_if(None, {("b", TIME): "+2"})
    both = model.what_if(None, {("b", TIME): "+1", "b": "+1"})
    name = f"b {TIME}"
    np.testing.assert_allclose(2 * one.effects[name], two.effects[name], rtol=1e-6)
    np.testing.assert_allclose(both.effects[name], one.effects[name], rtol=1e-6)
    # The slope of a value is that of its difference from the mean, less the mean of all slopes,
    # and for its own series a part of the level.
    graph = model.explain(unique_id="b", step=3)
    place = [graph.freq.show(int(t)) for t in graph.times].index(TIME)
    slopes = (graph.sources.sum(0) / (graph.past - graph.past.mean(0)))[:, 1]
    own = slopes[place] - slopes.mean() + 1 / len(slopes)
    assert one.effects[name][2, 1] == pytest.approx(own, rel=1e-3)
    # A constant more leaves all differences, so a network without reversion adds it as it is.
    np.testing.assert_allclose(both.effects["b"][:, 1], 1, rtol=1e-6)
    np.testing.assert_allclose(both.effects["b"][:, 0], 0, atol=1e-6)
    assert panel.ids == ("a", "b")


def test_the_pretrained_network_reacts_as_a_whole():
    df = waves(60)
    model = Forecaster(horizon=6, model="pretrained", verbose=False, device="cpu").fit(df)
    change = model.what_if(df, {("b", df.ds.max()): "-1"})
    after = changed(df, (df.unique_id == "b") & (df.ds == df.ds.max()), lambda y: y - 1)
    check(change, model.predict(df), model.predict(after), "Pretrained")
    assert change.reactions["pretrained network"].any()


def test_smoothing_alone_reacts_only_through_its_weights():
    df = waves(26, ids=("a",))
    model = tiny(lookback=24).fit(df)
    assert not model.plan.trained
    change = model.what_if(df, {("a", df.ds.max()): "+0.5"})
    after = changed(df, df.ds == df.ds.max(), lambda y: y + 0.5)
    check(change, model.predict(df), model.predict(after))
    assert set(change.reactions) <= {"smoothing", "bounds", "shares"}
    graph, place = model.explain(step=1), -1
    slope = graph.sources.sum(0)[place, 0] / (graph.past[place, 0] - np.nanmean(graph.past[-24:]))
    (effect,) = change.effects.values()
    assert effect[0, 0] == pytest.approx(0.5 * slope, rel=1e-6)


def test_covariates_of_every_kind_can_be_changed():
    model, future = with_covariates()
    path = np.linspace(0, 1, 6)
    wanted = {
        "wind": path, ("a", "switch"): 1, ("seen", "2024-01-05 09:00"): 3.0, ("b", "size"): "+50%",
    }  # fmt: skip
    change = model.what_if(None, wanted, future=future)
    ahead = future.copy()
    ahead["wind"] = np.tile(path, 2)
    ahead.loc[ahead.unique_id == "a", "switch"] = 1.0
    check(change, model.predict(future=future), change_static_and_past(model, ahead))
    assert list(change.effects) == [
        "wind", "a switch", "seen 2024-01-05 09:00", "b size"
    ]  # fmt: skip
    assert not change.effects["a switch"][:, 1].any()
    assert not change.effects["b size"][:, 0].any()
    assert all(part.any() for part in change.effects.values())
    direct = model.what_if(None, {"wind": path}, future=future)
    np.testing.assert_allclose(direct.effects["wind"], change.effects["wind"], rtol=1e-9)


def change_static_and_past(model, ahead):
    from dataclasses import replace

    panel = model.fitted.context
    static, past = panel.static.copy(), panel.past.copy()
    static[1, panel.static_names.index("size")] *= 1.5
    past[[panel.freq.show(int(t)) for t in panel.times].index("2024-01-05 09:00")] = 3.0
    return model.predict(replace(panel, static=static, past=past), future=ahead)


@pytest.mark.filterwarnings("ignore::fighter.errors.DataWarning")
def test_series_that_end_early_and_values_that_are_or_were_missing():
    df = waves(100)
    df = df[(df.unique_id == "a") | (df.ds < df.ds.max() - pd.Timedelta("3h"))]
    hole = (df.unique_id == "a") & (df.ds == df.ds.max() - pd.Timedelta("2h"))
    known = df.copy()
    df = changed(df, hole, lambda y: np.nan)
    model = tiny(smoothing=False).fit(df)
    when = known.ds[hole].iloc[0]
    filled = model.what_if(df, {("a", when): float(known.y[hole].iloc[0])})
    check(filled, model.predict(df), model.predict(known))
    assert filled.reactions["scale and gaps"].any()
    removed = model.what_if(known, {("a", when): None})
    check(removed, model.predict(known), model.predict(df))
    last = known[known.unique_id == "a"].tail(12).y
    mean = last.drop(last.index[known.ds[last.index] == when]).mean()
    filled = model.what_if(known, {("a", when): mean})  # it counts as the mean of the others
    (one,), (other,) = removed.effects.values(), filled.effects.values()
    np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("backend", CONVERT)
def test_tables_pictures_and_sentences(backend, tmp_path):
    model = tiny(smoothing=False).fit(CONVERT[backend](waves(90)))
    change = model.what_if(None, {"a": "+20%"})
    table = change.table()
    assert type(table) is type(CONVERT[backend](waves(5)))
    table = change.table("pandas")
    named = ["unique_id", "ds", "before", "after", "difference", "a"]
    assert list(table.columns[:6]) == named
    parts = table.columns[5:]
    np.testing.assert_allclose(table[parts].sum(axis=1), table.difference, atol=1e-9)
    text = str(change)
    assert text.startswith(("a changes by ", "b changes by "))
    assert "from a" in text
    change.plot(path=tmp_path / "why.png")
    assert (tmp_path / "why.png").stat().st_size > 5000
    assert "No forecast changes" in model.what_if(None, {"a": "+0%"}).summary()


def test_mistakes_name_the_argument_and_the_remedy():
    model, future = with_covariates()
    for changes, words in (
        (None, "mapping"), ({}, "mapping"), ({"nothing": 1}, "series, a covariate"),
        ({"a": 1.1}, r"\+10%"), ({("a", "soon"): 1}, "a time such as"),
        ({("a", "2030-01-01"): 1}, "nothing at"), ({"wind": [1, 2]}, "needs 6"),
        ({"wind": "much"}, r"\+10%"), ({("a", "wind", TIME, 3): 1}, "series, covariate"),
        ({"kind": 3}, "series, a covariate"),
    ):  # fmt: skip
        with pytest.raises(FighterError, match=words) as error:
            model.what_if(None, changes, future=future)
        assert error.value.argument == "changes", changes


def test_integer_times():
    df = waves(80)
    df["ds"] = df.groupby("unique_id").cumcount()
    model = tiny(smoothing=False).fit(df)
    after = changed(df, (df.ds == 79) & (df.unique_id == "a"), lambda y: y - 2)
    change = model.what_if(df, {("a", 79): "-2"})
    check(change, model.predict(df), model.predict(after))


def test_reactions_do_not_depend_on_an_order(monkeypatch):
    """Each kind has the mean over all orders; reversed kinds give the same."""
    model = tiny(smoothing=False, adjacency="cosine", cycle=None).fit(waves(90))
    wanted = {"a": "+30%"}
    first = model.what_if(None, wanted).reactions
    monkeypatch.setattr(reaction, "KINDS", reaction.KINDS[::-1])
    second = model.what_if(None, wanted).reactions
    assert first["attention"].any()
    for name, part in first.items():
        np.testing.assert_allclose(second[name], part, rtol=1e-9, atol=1e-12)


@pytest.mark.filterwarnings("ignore::fighter.errors.DataWarning")
def test_times_with_a_zone():
    df = waves(80)
    df["ds"] = df.ds.dt.tz_localize("Europe/Berlin")
    model = tiny(smoothing=False, max_epochs=1).fit(df)
    last = df.ds.max()
    after = changed(df, (df.ds == last) & (df.unique_id == "a"), lambda y: y - 2)
    for time in (last, last.isoformat(), str(last.tz_convert("UTC"))):
        change = model.what_if(df, {("a", time): "-2"})
        check(change, model.predict(df), model.predict(after))
    with pytest.raises(FighterError, match="time zone Europe/Berlin") as error:
        model.what_if(df, {("a", "2024-01-04 07:00"): 1})
    assert error.value.argument == "changes"


def test_the_changes_come_second():
    model = tiny(smoothing=False, max_epochs=1).fit(waves(60))
    with pytest.raises(FighterError, match="the table comes first") as error:
        model.what_if({"a": "+10%"})
    assert error.value.argument == "changes"


@pytest.mark.parametrize("validation", [0, None])
def test_effects_of_covariates_on_smoothing_are_effects(validation):
    history, ahead = cut(driven(150), 6)
    model = tiny(future=["switch"], validation=validation, cycle=None, max_epochs=1).fit(history)
    future = ahead.drop(columns="y")
    assert model.fitted.blend.effects is not None
    other = future.assign(switch=1 - future.switch)
    path = other.switch[other.unique_id == "b"].to_numpy()
    change = model.what_if(None, {("b", "switch"): path, "a": "+1"}, future=future)
    mixed = future.copy()
    mixed.loc[mixed.unique_id == "b", "switch"] = path
    after = history.copy()
    after.loc[after.unique_id == "a", "y"] += 1
    check(change, model.predict(future=future), model.predict(after, future=mixed))
    size = np.abs(change.difference[:, 1]).max()
    assert size > 0.5
    left = change.difference[:, 1] - change.effects["b switch"][:, 1]
    assert np.abs(left).max() < 0.2 * size  # most is the effect, not a reaction


def test_changes_of_one_name_are_parts_of_their_own():
    df = waves(100)
    model = tiny(smoothing=False).fit(df)
    time = df.ds.max()
    change = model.what_if(df, {("a", str(time)): 5.0, ("a", time): 12.0})
    assert list(change.effects) == [f"a {time}", f"a {time} (2)"]
    np.testing.assert_allclose(sum(change.parts.values()), change.difference, atol=1e-9)


def test_ids_over_several_columns_are_named_as_elsewhere():
    df = waves(60).assign(store=1)
    model = tiny(id_col=["store", "unique_id"], max_epochs=1, smoothing=False).fit(df)
    change = model.what_if(df, {(1, "a"): "+10%", ((1, "b"), df.ds.max()): 3.0})
    assert list(change.effects) == ["1 / a", f"1 / b {df.ds.max()}"]


@pytest.mark.parametrize(
    "value", [float("inf"), -1e200, [1.0, np.inf], {1.0}, {}, ["x", "y"], np.array(3.0)], ids=str
)
def test_values_that_a_table_could_not_hold_are_refused(value):
    df = waves(60)
    model = tiny(max_epochs=1, smoothing=False).fit(df)
    key = "a" if isinstance(value, list) else ("a", df.ds.max())
    with pytest.raises(FighterError) as error:
        model.what_if(df, {key: value})
    assert error.value.argument == "changes"


def test_covariates_that_would_be_missing_are_refused():
    model, ahead = with_covariates()
    for changes in (
        {"wind": None}, {"wind": float("nan")}, {"seen": None}, {"size": None},
        {("a", "size", "2024-01-05"): 2.0}, {"switch": float("inf")},
    ):  # fmt: skip
        with pytest.raises(FighterError) as error:
            model.what_if(None, changes, future=ahead)
        assert error.value.argument == "changes"


def test_a_summary_may_be_of_one_series():
    df = waves(60)
    model = tiny(max_epochs=1, smoothing=False).fit(df)
    change = model.what_if(df, {"b": "+10%"})
    assert change.summary(unique_id="b").startswith("b changes by")
    assert "a " not in change.summary(unique_id="b").split(":")[0]
    for name, given in (("unique_id", {"unique_id": "c"}), ("most", {"most": 0})):
        with pytest.raises(FighterError) as error:
            change.summary(**given)
        assert error.value.argument == name
    same = model.compare(df, df)
    assert same.summary(unique_id="a") == "The forecast of a does not change."
    with pytest.raises(FighterError, match=r"\.png"):
        change.plot("a", "change.docx")
    with pytest.raises(FighterError) as error:
        change.table(3)
    assert error.value.argument == "like"
