"""Covariates that are known in advance, in forecasts that need no training."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from fighter import FighterError, Forecaster, Frame
from fighter.forecasting.alone import Untrained
from fighter.forecasting.autoconfig import make_plan
from fighter.forecasting.covariate_shares import rehearse
from fighter.forecasting.fitted import read_panel

from .small import all_new

HORIZON = 7
KNOWN = ["promo", "open", "noise"]


def shop(rows: int = 66, kind: str = "sum", seed: int = 0) -> pd.DataFrame:
    """Return the sales of two shops: ``promo`` matters, ``open`` may be 0, ``noise`` is noise.

    ``kind`` says whether a promotion adds to sales, multiplies them, or does nothing.
    """
    rng, parts = np.random.default_rng(seed), []
    days = np.arange(rows)
    for level, name in ((20, "a"), (60, "b")):
        promo = (rng.random(rows) < 0.3).astype(float)
        is_open = np.where(days % 11 == 6, 0.0, 1.0)
        y = level * (1 + 0.2 * np.sin(2 * np.pi * days / 7)) + level / 20 * rng.normal(size=rows)
        y = {"sum": y + 0.6 * level * promo, "factor": y * np.exp(0.6 * promo), "none": y}[kind]
        table = {"unique_id": name, "ds": pd.date_range("2024-01-01", periods=rows), "y": y}
        table |= {"promo": promo, "open": is_open, "noise": rng.normal(size=rows)}
        parts.append(pd.DataFrame(table).assign(y=y * (is_open if kind != "none" else 1)))
    return pd.concat(parts, ignore_index=True)


def cut(df: pd.DataFrame, steps: int = HORIZON) -> tuple[pd.DataFrame, pd.DataFrame]:
    late = df.ds > df.ds.max() - pd.Timedelta(days=steps)
    return df.loc[~late], df.loc[late]


def model(known=KNOWN, **settings) -> Forecaster:
    """Return a forecaster whose table is too short for a network: smoothing forecasts."""
    quick = {"frame": Frame(pretrained=False), "device": "cpu", "verbose": False}
    settings = quick | settings
    return Forecaster(HORIZON, future=[*known], **settings)


def error(forecast: pd.DataFrame, truth: pd.DataFrame) -> float:
    both = truth.merge(forecast, on=["unique_id", "ds"])
    return float((both.y - both.iloc[:, truth.shape[1]]).abs().mean())


@pytest.fixture(scope="module", params=["sum", "factor"])
def fitted(request) -> tuple[Forecaster, pd.DataFrame, pd.DataFrame]:
    history, truth = cut(shop(kind=request.param))
    return model(level=[80]).fit(history), history, truth


def test_planted_effects_are_found_used_and_told(fitted):
    found, history, truth = fitted
    told = found.plan.covariates
    assert not found.plan.trained
    assert told["share"] > 0.6
    assert told["with"] < 0.7 * told["without"]
    forecast = found.predict(future=truth.drop(columns="y"))
    without = model(()).fit(history[["unique_id", "ds", "y"]]).predict()
    assert error(forecast, truth) < 0.6 * error(without, truth)
    closed = forecast[(truth.open == 0).to_numpy()]
    assert len(closed)
    assert (closed.Fighter == 0).all()


@pytest.mark.parametrize("rows", [30, 60])
def test_a_short_table_without_a_network_uses_them(rows):
    df = shop(rows)
    df = df[df.unique_id == "a"].copy()
    df["y"] = 20 + 10 * df.promo + 0.1 * df.noise
    history, truth = cut(df[["unique_id", "ds", "y", "promo"]])
    found = model(["promo"]).fit(history)
    without = model(()).fit(history[["unique_id", "ds", "y"]])
    future = truth[["unique_id", "ds", "promo"]]
    assert error(found.predict(future=future), truth) < 0.8 * error(without.predict(), truth)


def test_useless_covariates_change_next_to_nothing():
    errors = []
    for seed in range(4):
        history, truth = cut(shop(kind="none", seed=seed))
        found = model().fit(history)
        forecast = found.predict(future=truth.drop(columns="y"))
        without = model(()).fit(history[["unique_id", "ds", "y"]]).predict()
        errors.append((error(forecast, truth), error(without, truth)))
    with_them, without = np.mean(errors, 0)
    assert with_them < 1.03 * without


def test_no_covariates_no_effects():
    history, _ = cut(shop())
    found = model(()).fit(history[["unique_id", "ds", "y"]])
    assert found.plan.covariates == {}
    assert found.fitted.blend is not None
    assert found.fitted.blend.effects is None


def test_the_parts_of_a_forecast_add_up(fitted):
    found, _, truth = fitted
    future = truth.drop(columns="y")
    forecast = found.predict(future=future).set_index(["unique_id", "ds"]).Fighter
    names = set()
    for graph in found.explain_all(future=future):
        row = truth[truth.unique_id == graph.target].iloc[graph.step - 1]
        whole = sum(graph.terms.values()) + graph.sources.sum()
        assert whole == pytest.approx(graph.forecast, abs=1e-9 * row.y + 1e-9)
        assert graph.forecast == pytest.approx(forecast[graph.target, row.ds], rel=1e-6, abs=1e-5)
        names |= set(graph.terms)
        if row.open == 0:
            assert "effect of promo" not in graph.terms
            assert graph.terms["effect of open"] < 0
        elif row.promo == 1:
            assert graph.terms["effect of promo"] > 0
    assert {"effect of promo", "effect of open"} <= names


def test_saved_and_loaded_it_forecasts_the_same(fitted, tmp_path):
    found, _, truth = fitted
    future = truth.drop(columns="y")
    found.save(tmp_path / "model")
    loaded = Forecaster.load(tmp_path / "model")
    assert loaded.plan.covariates == found.plan.covariates
    pd.testing.assert_frame_equal(loaded.predict(future=future), found.predict(future=future))


def test_missing_values_of_the_future_are_refused_and_nothing_needs_a_fit():
    history, truth = cut(shop())
    future, zero_shot = truth.drop(columns="y"), {"model": "pretrained"}
    with pytest.raises(FighterError, match="promo"):
        model(**zero_shot).predict(history, future=future.drop(columns="promo"))
    with pytest.raises(FighterError, match="noise"):
        model(**zero_shot).predict(history, future=future.assign(noise=np.nan))
    forecast = model(**zero_shot).predict(history, future=future)
    without = model((), **zero_shot).predict(history[["unique_id", "ds", "y"]])
    assert error(forecast, truth) < 0.6 * error(without, truth)


def test_later_rows_do_not_change_forecasts_made_before():
    df = shop(90)
    config = model(model="pretrained").copy()
    panel = read_panel(config, df)
    plan = make_plan(config, panel)
    untrained = Untrained.learn(plan, panel, torch.device("cpu"))
    rows = torch.arange(40, 80, 4)

    def forecasts(panel):
        def run(applied, rows):
            return applied.restore(untrained.forecast(applied.panel, rows))

        return rehearse(run, plan.seasons, panel, rows, np.ones(2), 0)[0]

    begin, change = 60, 5.0
    values, future = panel.values.copy(), panel.future.copy()
    values[begin:] *= change
    future[begin + HORIZON :] += change
    then, now = forecasts(panel), forecasts(replace(panel, values=values, future=future))
    early = rows <= begin
    for name in ("point", "error", "zero_shot"):
        torch.testing.assert_close(
            getattr(now, name)[early], getattr(then, name)[early], rtol=0, atol=1e-9
        )
    assert not torch.allclose(now.point[~early], then.point[~early])


def test_every_window_of_a_later_table_uses_them():
    history = shop(80)
    early, _ = cut(history, 28)
    plain = history[["unique_id", "ds", "y"]]
    with_them, without = model().fit(early), model(()).fit(early[plain.columns])
    scores = [each.evaluate(df, last=28) for each, df in ((with_them, history), (without, plain))]
    assert (scores[0].mae < 0.8 * scores[1].mae).all()
    windows = [
        each.cross_validation(df, n_windows=2)
        for each, df in ((model(), history), (model(()), plain))
    ]
    errors = [(table.y - table.Fighter).abs().mean() for table in windows]
    assert errors[0] < 0.7 * errors[1]


@all_new
def test_a_new_series_gets_the_mean_effects():
    history, truth = cut(shop(kind="factor"))
    found = model(model="pretrained").fit(history)
    new, ahead = (df[df.unique_id == "a"].assign(unique_id="z") for df in (history, truth))
    forecast = found.predict(new, future=ahead.drop(columns="y"))
    without = model((), model="pretrained").predict(new[["unique_id", "ds", "y"]])
    assert error(forecast, ahead) < 0.7 * error(without, ahead)


@pytest.mark.filterwarnings("ignore:in the data")
def test_series_that_end_at_different_times_have_their_own_future():
    df = shop()
    ends = df.ds.max() - pd.to_timedelta(np.where(df.unique_id == "a", 20, 0), "D")
    df = df[df.ds <= ends]
    last = df.groupby("unique_id").ds.transform("max")
    late = df.ds > last - pd.Timedelta(days=HORIZON)
    history, truth = df.loc[~late], df.loc[late]
    found = model().fit(history)
    assert error(found.predict(future=truth.drop(columns="y")), truth) < 6
