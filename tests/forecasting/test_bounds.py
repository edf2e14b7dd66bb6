"""Series with a natural bound are forecast within it."""

import re

import numpy as np
import pandas as pd
import pytest
import torch

from fighter import FighterError, Forecaster, Frame

from ..tables import tiny
from .small import small


def light(rows: int = 600, names: str = "ab") -> pd.DataFrame:
    """Hourly, zero at night, with some noise by day; the last series has no night."""
    rng, hours = np.random.default_rng(0), np.arange(rows)
    frames = []
    for i, name in enumerate([*names, "free"]):
        day = np.sin(2 * np.pi * (hours + i) / 24) * 100 + rng.normal(0, 20, rows)
        values = day if name == "free" else np.maximum(day, 0)
        times = pd.date_range("2024-01-01", periods=rows, freq="h")
        frames.append(pd.DataFrame({"unique_id": name, "ds": times, "y": values}))
    return pd.concat(frames, ignore_index=True)


@pytest.fixture(scope="module")
def fitted() -> Forecaster:
    return tiny(48, 24, level=[80, 99], cycle=None, max_epochs=8).fit(light())


def of(table: pd.DataFrame, name: str) -> np.ndarray:
    return table[table.unique_id == name].drop(columns=["unique_id", "ds"]).to_numpy()


def test_nothing_is_forecast_below_the_bound(fitted, tmp_path):
    table = fitted.predict()
    assert of(table, "a").min() == 0.0
    assert of(table, "free").min() < -50
    free = tiny(48, 24, level=[80, 99], cycle=None, max_epochs=8, bounds=False).fit(light())
    assert of(free.predict(), "a").min() < 0
    fitted.save(tmp_path / "m")
    pd.testing.assert_frame_equal(Forecaster.load(tmp_path / "m").predict(), table)


@pytest.mark.filterwarnings("ignore::fighter.errors.DataWarning")
def test_evaluate_scores_the_bounded_forecasts(fitted):
    table, steps = light(), 48
    last = table.groupby("unique_id").tail(steps)
    forecasts = fitted.predict(table.drop(last.index)).merge(last)
    error = (forecasts.y - forecasts.Fighter).abs().groupby(forecasts.unique_id).mean()
    scores = fitted.evaluate(table, last=steps).set_index("unique_id")
    np.testing.assert_allclose(scores["mae"][error.index], error, rtol=1e-5)
    assert scores["coverage-80"].between(50, 100).all()  # what is at the floor is inside
    windows = fitted.cross_validation(table, n_windows=2)
    assert windows[windows.unique_id == "a"]["Fighter-lo-99"].min() == 0.0


def test_a_look_back_beyond_the_bound_is_not_clamped(fitted):
    history = light()
    history.loc[history.groupby("unique_id").tail(24).index, "y"] -= 500
    assert of(fitted.predict(history), "a").min() < -100


def test_a_series_that_grows_beyond_its_bound_is_followed():
    """A series of 0 and 1 that later counts to 4 was held at 2, the highest of its look-back."""
    rng, hours = np.random.default_rng(0), np.arange(600)
    day = hours % 24 // 12
    noise = (rng.random(600) < 0.1).astype(int)
    times = pd.date_range("2024-01-01", periods=600, freq="h")
    table = pd.DataFrame({"unique_id": "s", "ds": times, "y": (day ^ noise).astype(float)})
    model = tiny(24, 48, level=[80], cycle=None, max_epochs=8, smoothing=False).fit(table)
    known = of(model.predict(), "s")
    assert known.max() == 1.0
    assert known.min() == 0.0
    table.loc[552:, "y"] *= np.linspace(1, 3, 48).round()
    grown = of(model.predict(table), "s")
    assert grown.max() > 2.5
    assert grown.min() == 0.0  # the other side keeps its bound


def test_new_series_get_their_own_bounds():
    model = small("linear", 48, 24, cycle=None)
    model.fit(light())
    assert of(model.predict(light(names="xyz")), "z").min() == 0.0


def test_an_explanation_has_a_term_for_the_bound(fitted):
    table = fitted.predict()
    a = table[table.unique_id == "a"].reset_index(drop=True)
    night, day = int(a.Fighter.idxmin()) + 1, int(a.Fighter.idxmax()) + 1
    held, open_ = (fitted.explain(unique_id="a", step=step) for step in (night, day))
    assert held.terms["bound"] > 0
    assert held.forecast == 0.0
    assert sum(held.terms.values()) + held.sources.sum() == pytest.approx(held.forecast, abs=1e-9)
    assert re.search(r"past values \S+, bound \+\S+\.\n", str(held))
    assert "bound" not in open_.terms


def test_an_explanation_adds_up_where_the_bound_is_lifted(fitted):
    history = light()
    history.loc[history.groupby("unique_id").tail(24).index, "y"] -= 500
    table = fitted.predict(history)
    a = table[table.unique_id == "a"].reset_index(drop=True)
    step = int(a.Fighter.idxmin()) + 1
    graph = fitted.explain(history, unique_id="a", step=step)
    assert "bound" not in graph.terms
    assert graph.forecast == pytest.approx(a.Fighter.min(), rel=1e-6)
    total = sum(graph.terms.values()) + graph.sources.sum()
    assert total == pytest.approx(graph.forecast, rel=1e-9)


def counts(rows: int = 400) -> pd.DataFrame:
    """Daily: a count with 5 % zeros, views with a spike, one that falls to 1, one with a sign."""
    rng = np.random.default_rng(0)
    views = np.round(145 + 30 * rng.normal(size=rows)).clip(82)
    views[rows // 2] = 84178
    columns = {
        "poisson": rng.poisson(3, rows).astype(float),
        "views": views,
        "falling": np.arange(rows, 0, -1.0),
        "signed": rng.normal(size=rows),
    }
    times = pd.date_range("2022-01-01", periods=rows, freq="D")
    return pd.concat(
        [pd.DataFrame({"unique_id": k, "ds": times, "y": v}) for k, v in columns.items()],
        ignore_index=True,
    )


def fit_counts(bounds: object) -> Forecaster:
    settings = {"cycle": None, "max_epochs": 4, "bounds": bounds, "smoothing": False}
    return tiny(14, 56, level=[80, 95], **settings).fit(counts())


@pytest.fixture(scope="module")
def unbounded() -> Forecaster:
    return fit_counts(False)


@pytest.fixture(scope="module")
def floored() -> Forecaster:
    return fit_counts(True)


POSITIVE = ("poisson", "views", "falling")


def test_what_was_never_negative_is_not_forecast_below_zero(unbounded, floored):
    free, held = unbounded.predict(), floored.predict()
    for name in POSITIVE:
        before = of(free, name)
        assert before.min() < -1
        np.testing.assert_array_equal(of(held, name), before.clip(0))
    np.testing.assert_array_equal(of(held, "signed"), of(free, "signed"))
    assert of(held, "signed").min() < -1


def test_the_floor_does_not_change_training(unbounded, floored):
    def trained(model: Forecaster) -> tuple:
        fitted = model.fitted
        return *fitted.network.state_dict().values(), fitted.conformal_shifts

    for ours, theirs in zip(trained(floored), trained(unbounded), strict=True):
        assert torch.equal(ours, theirs)


def spiked() -> pd.DataFrame:
    """The views after another spike: their point forecasts fall below zero."""
    table = counts()
    table.loc[table[table.unique_id == "views"].index[-20], "y"] = 84178
    return table


@pytest.mark.filterwarnings("ignore::fighter.errors.DataWarning")
def test_scores_know_the_floor(unbounded, floored):
    table, steps = spiked(), 14
    last = table.groupby("unique_id").tail(steps)
    forecasts = floored.predict(table.drop(last.index)).merge(last)
    error = (forecasts.y - forecasts.Fighter).abs().groupby(forecasts.unique_id).mean()
    held, free = (m.evaluate(table, last=steps) for m in (floored, unbounded))
    held, free = held.set_index("unique_id"), free.set_index("unique_id")
    np.testing.assert_allclose(held["mae"][error.index], error, rtol=1e-5)
    assert held["mae"]["views"] < free["mae"]["views"] - 50
    rest = ["poisson", "falling", "signed"]
    pd.testing.assert_frame_equal(held.loc[rest], free.loc[rest])


def test_an_explanation_adds_up_at_the_floor(unbounded, floored):
    table = spiked()
    free, held = unbounded.predict(table), floored.predict(table)
    points = of(free, "views")[:, 0]
    assert (points < -100).sum() >= 3
    step = int(points.argmin()) + 1
    graph = floored.explain(table, unique_id="views", step=step)
    assert graph.forecast == of(held, "views")[step - 1, 0] == 0.0
    assert graph.terms["bound"] == pytest.approx(-points.min(), rel=1e-5)
    assert sum(graph.terms.values()) + graph.sources.sum() == pytest.approx(0.0, abs=1e-6)


def test_a_negative_look_back_lifts_the_floor(unbounded, floored):
    table = spiked()
    table.loc[table.groupby("unique_id").tail(1).index, "y"] = -40.0
    held, free = floored.predict(table), unbounded.predict(table)
    pd.testing.assert_frame_equal(held, free)
    points = of(held, "views")[:, 0]
    assert points.min() < -100
    graph = floored.explain(table, unique_id="views", step=int(points.argmin()) + 1)
    assert "bound" not in graph.terms
    assert graph.forecast == pytest.approx(points.min(), rel=1e-5)
    total = sum(graph.terms.values()) + graph.sources.sum()
    assert total == pytest.approx(graph.forecast, rel=1e-9)


def test_a_saved_model_keeps_the_floor(floored, tmp_path):
    floored.save(tmp_path / "m")
    loaded = Forecaster.load(tmp_path / "m")
    pd.testing.assert_frame_equal(loaded.predict(), floored.predict())
    half = counts().query("unique_id != 'views'")  # a panel of fewer series
    pd.testing.assert_frame_equal(loaded.predict(half), floored.predict(half))


@pytest.mark.parametrize("given", [[0, np.inf], (1, 5), (None, 2.5)])
def test_bounds_may_be_given(given, unbounded, tmp_path):
    model = fit_counts(given)
    low, high = (None if side in (None, np.inf) else side for side in given)
    assert model.frame.bounds == (low, high)
    free, held = unbounded.predict(), model.predict()
    for name in (*POSITIVE, "signed"):  # no matter what the look-back holds
        np.testing.assert_array_equal(of(held, name), of(free, name).clip(low, high))
    graph = model.explain(unique_id="falling", step=14)
    assert graph.forecast == pytest.approx(of(held, "falling")[-1, 0], rel=1e-6)
    assert ("bound" in graph.terms) == (high is not None)  # the forecast is 33.8
    total = sum(graph.terms.values()) + graph.sources.sum()
    assert total == pytest.approx(graph.forecast, rel=1e-9)
    model.save(tmp_path / "m")
    loaded = Forecaster.load(tmp_path / "m")
    assert loaded.frame == model.frame
    pd.testing.assert_frame_equal(loaded.predict(), held)


@pytest.mark.filterwarnings("ignore::fighter.errors.DataWarning")
def test_given_bounds_hold_for_new_series_and_models_without_weights():
    for model in ("linear", "repeat", "mean"):
        fitted = small(model, 14, 56, bounds=(None, 100)).fit(counts())
        new = counts().replace({"unique_id": {"views": "new"}})
        assert of(fitted.predict(new), "new").max() == 100.0
        assert fitted.score(new) < 0


@pytest.mark.parametrize(
    "given",
    [None, 0, "0", (0,), (0, 1, 2), (None, None), (1, 1), (2, 1), (0, True), ("0", None),
     (float("nan"), 1), (float("inf"), None), (None, -float("inf"))],
)  # fmt: skip
def test_wrong_bounds_are_refused(given):
    with pytest.raises(FighterError) as error:
        Frame(bounds=given)
    assert error.value.argument == "bounds"


def test_bounds_do_not_collapse_the_interval_of_a_constant_series():
    rng, rows = np.random.default_rng(0), 300
    times = pd.date_range("2022-01-01", periods=rows, freq="D")
    columns = {"flat": 1000.0, "zero": 0.0, "minus": -7.0, "noise": rng.normal(size=rows)}
    table = pd.concat(
        [pd.DataFrame({"unique_id": k, "ds": times, "y": v}) for k, v in columns.items()],
        ignore_index=True,
    )
    model = tiny(7, 28, level=[80], cycle=None, smoothing=False).fit(table)
    scaler = model.fitted.preprocessing.scaler
    assert scaler.bounds is not None
    assert np.isinf(scaler.bounds).all()
    assert scaler.floor is not None
    assert scaler.floor[0].tolist() == [0, 0, -np.inf, -np.inf]
    # What the network and the calibration find is what comes out, but not below zero.
    free = tiny(7, 28, level=[80], cycle=None, bounds=False, smoothing=False).fit(table)
    later = table.copy()
    changing = later[later.unique_id != "noise"].groupby("unique_id").tail(7).index
    later.loc[changing, "y"] += 50
    for history in (None, later):
        held, before = model.predict(history), free.predict(history)
        for name, low in (("flat", 0), ("zero", 0), ("minus", None), ("noise", None)):
            np.testing.assert_array_equal(of(held, name), of(before, name).clip(low))
    jumped = held[held.unique_id == "flat"]
    assert (jumped["Fighter-hi-80"] - jumped["Fighter-lo-80"]).min() > 0.1
    assert jumped.Fighter.min() > 1000.5  # it follows the jump
