import numpy as np
import pandas as pd
import pytest
import torch

from fighter.data import grid_load
from fighter.forecasting.intervals import keep_centre

from ..tables import tiny, waves
from .small import small


def test_columns_of_levels_are_sorted_and_ordered():
    forecast = tiny(level=[95, 80, 99.5]).fit(waves(160)).predict()
    assert forecast.columns.tolist() == [
        "unique_id", "ds", "Fighter",
        "Fighter-lo-80", "Fighter-hi-80", "Fighter-lo-95", "Fighter-hi-95",
        "Fighter-lo-99.5", "Fighter-hi-99.5",
    ]  # fmt: skip
    order = ["lo-99.5", "lo-95", "lo-80", "hi-80", "hi-95", "hi-99.5"]
    values = forecast[[f"Fighter-{name}" for name in order]].to_numpy()
    assert (np.diff(values) >= 0).all()


def test_columns_of_quantiles_are_sorted_and_ordered():
    forecast = small("linear", quantiles=[0.9, 0.5, 0.05]).fit(waves(80)).predict()
    names = ["Linear-q0.05", "Linear-q0.5", "Linear-q0.9"]
    assert forecast.columns.tolist() == ["unique_id", "ds", "Linear", *names]
    assert (np.diff(forecast[names].to_numpy()) >= 0).all()


def test_shifts_of_mixed_forecasts_move_the_tails_only():
    shifts = torch.full((2, 5), 0.5)
    found = keep_centre(shifts, (0.005, 0.1, 0.5, 0.9, 0.995))
    share = torch.tensor([0.9801, 0.64, 0.0, 0.64, 0.9801])
    torch.testing.assert_close(found, 0.5 * share.expand(2, -1))


def test_intervals_of_seasonal_naive_cover():
    df = waves(400, noise=0.5)
    model = small("naive", level=[80]).fit(df[df.index % 400 < 300])
    assert model.evaluate(df, last=100)["coverage-80"].mean() == pytest.approx(80, abs=8)


def test_conformal_shifts_belong_to_their_series():
    """A noisy and a calm series keep their own shifts, also when predicted alone."""
    df = waves(160)
    rng = np.random.default_rng(0)
    df["y"] += np.where(df.unique_id == "a", 0.01, 3.0) * rng.normal(size=len(df))
    settings = {"level": [80], "adjacency": "cosine", "cycle": None, "lr": 0.01, "ema": 0.9}
    model = tiny(**settings).fit(df)
    width = model.predict().assign(w=lambda f: f["Fighter-hi-80"] - f["Fighter-lo-80"])
    width = width.groupby("unique_id").w.mean()
    assert width["b"] > 2 * width["a"]
    alone = model.predict(df[df.unique_id == "b"])
    shifts = model.fitted.conformal_shifts
    assert (model.fitted.shifts_of(("b", "a")) == shifts[[1, 0]]).all()
    assert torch.allclose(model.fitted.shifts_of(("new",))[0], shifts.mean(0))
    assert np.isfinite(alone["Fighter-lo-80"]).all()


def coverage(df: pd.DataFrame, model: str, **settings) -> pd.DataFrame:
    """Fit on the first four fifths and return the coverage on the rest."""
    stamps = np.sort(df.ds.unique())
    test = len(stamps) // 5
    size = {"width": 32, "heads": 8} if model == "fighter" else {}
    settings |= {"level": [80, 95], "batch_size": 64, "lr": 3e-3, "ema": 0.99, "max_epochs": 3}
    scores = (
        small(model, 24, 96, **size, **settings)
        .fit(df[df.ds < stamps[-test]])
        .evaluate(df, last=test)
    )
    assert (scores.windows == test - 23).all()
    return scores.set_index("unique_id")[["coverage-80", "coverage-95"]]


# Networks of three short epochs; a baseline is held to 5 points.
POINTS = pytest.mark.parametrize(("model", "points"), [("fighter", 4), ("linear", 5)])


@pytest.mark.slow
@POINTS
def test_coverage_on_the_generated_grid(model, points):
    df = grid_load().frame().drop(columns="temperature")
    found = coverage(df, model).mean()
    assert found.tolist() == pytest.approx([80, 95], abs=points)


@pytest.mark.filterwarnings("ignore::fighter.errors.DataWarning")
@pytest.mark.slow
@POINTS
def test_coverage_on_weather(model, points, data_dir):
    """Use the full hours only, so that it takes seconds.

    No interval around dry hours or night holds exactly 80 %: more of their values are zero.
    """
    df = pd.read_parquet(data_dir / "weather.parquet")
    df = df[df.date.dt.minute == 0].rename(columns={"date": "ds"})
    found = coverage(df, model, missing_values=[-9999])
    rests = found.index.str.contains("rain|SWDR|PAR")
    assert found[~rests].mean().tolist() == pytest.approx([80, 95], abs=points)
    assert (found[rests].mean() > [80 - points, 95 - points]).all()
