"""Series with a natural bound are forecast within it."""

import re

import numpy as np
import pandas as pd
import pytest

from fighter import Forecaster

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
    model = tiny(24, 48, level=[80], cycle=None, max_epochs=8).fit(table)
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
