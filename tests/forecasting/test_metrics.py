import numpy as np
import pandas as pd
import pytest

from fighter import FighterError, Forecaster

from ..tables import CONVERT, tail, tiny, waves
from .small import all_new, small

NAMES = ["wape", "bias", "rmsse", "mase", "scaled_mae"]


def shop() -> pd.DataFrame:
    """Two items of 40 days, of which the second was not sold on its first 20 days."""
    rng = np.random.default_rng(0)
    days = pd.date_range("2024-01-01", periods=40)
    tea, ice = rng.integers(1, 9, 40), rng.integers(0, 5, 40) * (np.arange(40) > 19)
    parts = {"tea": tea, "ice": ice}
    return pd.concat(pd.DataFrame({"unique_id": k, "ds": days, "y": y}) for k, y in parts.items())


@pytest.fixture(scope="module")
def scored():
    """Return the shop, its scores over one window of three days, and its forecast."""
    df = shop()
    model = small("repeat", horizon=3, lookback=7).fit(tail(df, 3))
    options = {"last": 3, "metrics": NAMES}
    return df, model.evaluate(df, **options), model.evaluate(df, **options, total=True), model


def test_metrics_are_what_they_are_by_hand(scored):
    df, scores, total, _ = scored
    scores = scores.set_index("unique_id")
    error, truth, rmsse = {}, {}, {}
    for name in ("tea", "ice"):
        y = df[df.unique_id == name].y.to_numpy(float)
        past, future = y[:-3], y[-3:]
        error[name], truth[name] = past[-1] - future, np.abs(future).sum()
        row = scores.loc[name]
        assert row["wape"] == pytest.approx(np.abs(error[name]).sum() / truth[name])
        assert row["bias"] == pytest.approx(error[name].sum() / truth[name])
        sold = past[np.flatnonzero(past)[0] :]
        rmsse[name] = np.sqrt((error[name] ** 2).mean() / (np.diff(sold) ** 2).mean())
        assert row["rmsse"] == pytest.approx(rmsse[name])
        season = np.abs(past[7:] - past[:-7]).mean()
        assert row["mase"] == pytest.approx(np.abs(error[name]).mean() / season)
    everything = sum(truth.values())
    assert total["wape"] == pytest.approx(sum(np.abs(e).sum() for e in error.values()) / everything)
    assert total["bias"] == pytest.approx(sum(e.sum() for e in error.values()) / everything)
    assert total["rmsse"] == pytest.approx(np.mean([*rmsse.values()]))
    assert total["scaled_mae"] == pytest.approx(scores.scaled_mae.mean())


def test_a_saved_model_keeps_the_scales(scored, tmp_path):
    df, scores, _, model = scored
    model.save(tmp_path / "m")
    again = Forecaster.load(tmp_path / "m").evaluate(df, last=3, metrics=NAMES)
    pd.testing.assert_frame_equal(again, scores)


def test_there_is_no_score_without_a_scale():
    """A constant series has no scale; a series of zeros has no share but counts in that of all."""
    df = waves(60, ids=("a", "b", "c"))
    df.loc[df.unique_id == "b", "y"] = 5.0
    df.loc[df.unique_id == "c", "y"] = np.where(np.arange(60) < 54, 1.0, 0.0)
    model = small("repeat").fit(tail(df, 6))
    metrics = ["rmsse", "mase", "wape"]
    scores = model.evaluate(df, last=6, metrics=metrics)
    assert scores[["rmsse", "mase"]].notna().to_numpy().tolist() == [[True] * 2, *[[False] * 2] * 2]
    assert scores.wape.isna().tolist() == [False, False, True]
    total = model.evaluate(df, last=6, metrics=metrics, total=True)
    assert total["rmsse"] == pytest.approx(scores.rmsse[0])
    truth = df.groupby("unique_id").y.apply(lambda y: y[-6:].abs().sum())
    errors = scores.wape[0] * truth["a"] + 6.0  # 1 is forecast where 0 comes
    assert total["wape"] == pytest.approx(errors / truth.sum())


@pytest.mark.parametrize("backend", CONVERT)
@pytest.mark.filterwarnings("ignore::fighter.errors.DataWarning")
def test_wql_is_the_mean_pinball_loss(backend):
    df = waves(80)
    quantiles = [0.1, 0.5, 0.8]
    model = tiny(quantiles=quantiles).fit(tail(df, 6))
    scores = model.evaluate(CONVERT[backend](df), last=6, metrics="wql")
    both = model.predict().merge(df, on=["unique_id", "ds"])
    loss = sum(
        np.maximum(q * (both.y - both[f"Fighter-q{q}"]), (q - 1) * (both.y - both[f"Fighter-q{q}"]))
        for q in quantiles
    )
    sums = pd.DataFrame({"loss": 2 * loss / 3, "y": both.y.abs()}).groupby(both.unique_id).sum()
    assert np.allclose(np.array(scores["wql"]), sums.loss / sums.y, rtol=1e-4)
    total = model.evaluate(df, last=6, metrics="wql", total=True)
    assert total["wql"] == pytest.approx(sums.loss.sum() / sums.y.sum(), rel=1e-4)


def test_metrics_that_cannot_be_measured_are_refused():
    model = small("repeat").fit(df := waves(60))
    for name, words in (("wap", "'wape'"), ("wql", "level"), ("coverage", "level")):
        with pytest.raises(FighterError, match=words) as error:
            model.evaluate(df, metrics=["mae", name])
        assert (error.value.argument, error.value.value) == ("metrics", name)
    with pytest.raises(FighterError) as error:
        model.evaluate(df, metrics=3)
    assert (error.value.argument, error.value.value) == ("metrics", 3)


@all_new
def test_series_that_were_not_trained_on_have_no_scale():
    df = waves(60)
    model = small("repeat").fit(df[df.unique_id == "a"])
    scores = model.evaluate(df[df.unique_id == "b"], metrics=["rmsse", "mae"])
    assert scores.rmsse.isna().all()
    assert scores.mae.notna().all()
