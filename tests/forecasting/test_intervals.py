import numpy as np
import pandas as pd
import pytest

from fighter.data import grid_load

from ..tables import tiny, waves
from .small import small


def test_names_and_order_of_levels():
    forecast = tiny(level=[95, 80, 99.5]).fit(waves(80)).predict()
    assert forecast.columns.tolist() == [
        "unique_id", "ds", "Fighter",
        "Fighter-lo-80", "Fighter-hi-80", "Fighter-lo-95", "Fighter-hi-95",
        "Fighter-lo-99.5", "Fighter-hi-99.5",
    ]  # fmt: skip
    order = ["lo-99.5", "lo-95", "lo-80", "hi-80", "hi-95", "hi-99.5"]
    values = forecast[[f"Fighter-{name}" for name in order]].to_numpy()
    assert (np.diff(values) >= 0).all()


def test_names_and_order_of_quantiles():
    forecast = small("linear", quantiles=[0.9, 0.5, 0.05]).fit(waves(80)).predict()
    names = ["Linear-q0.05", "Linear-q0.5", "Linear-q0.9"]
    assert forecast.columns.tolist() == ["unique_id", "ds", "Linear", *names]
    assert (np.diff(forecast[names].to_numpy()) >= 0).all()


def test_naive_intervals_cover():
    df = waves(400, noise=0.5)
    model = small("naive", level=[80]).fit(df[df.index % 400 < 300])
    assert model.evaluate(df, last=100)["coverage-80"].mean() == pytest.approx(80, abs=8)


def test_corrections_go_with_their_series():
    """A wild and a calm series: told apart by name, also in another order or alone."""
    df = waves(160)
    rng = np.random.default_rng(0)
    df["y"] += np.where(df.unique_id == "a", 0.01, 3.0) * rng.normal(size=len(df))
    settings = {"level": [80], "adjacency": "cosine", "cycle": None, "lr": 0.01, "ema": 0.9}
    model = tiny(**settings).fit(df)
    width = model.predict().assign(w=lambda f: f["Fighter-hi-80"] - f["Fighter-lo-80"])
    width = width.groupby("unique_id").w.mean()
    assert width["b"] > 2 * width["a"]
    alone = model.predict(df[df.unique_id == "b"])
    conformal_shifts = model._conformal_shifts_of(("b",))
    assert (conformal_shifts[0] == model.conformal_shifts[1]).all()
    assert np.isfinite(alone["Fighter-lo-80"]).all()


def coverage(df: pd.DataFrame, model: str, **settings) -> pd.DataFrame:
    """Fit on the first four fifths, count in the rest, which nothing was chosen on."""
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


# Within 3 points is the promise of the default model; a baseline is held to less.
POINTS = pytest.mark.parametrize(("model", "points"), [("fighter", 3), ("linear", 5)])


@POINTS
def test_coverage_on_the_embedded_grid(model, points):
    df = grid_load().frame().drop(columns="temperature")
    found = coverage(df, model).mean()
    assert found.tolist() == pytest.approx([80, 95], abs=points)


@pytest.mark.filterwarnings("ignore::fighter.errors.DataWarning")
@POINTS
def test_coverage_on_weather(model, points, data_dir):
    """Every sixth row, the full hours, so that it takes seconds: from autumn to winter.

    No interval around dry hours or night holds just 80 %: more of them are at zero.
    """
    df = pd.read_parquet(data_dir / "weather.parquet")
    df = df[df.date.dt.minute == 0].rename(columns={"date": "ds"})
    found = coverage(df, model, missing_values=[-9999])
    rests = found.index.str.contains("rain|SWDR|PAR")
    assert found[~rests].mean().tolist() == pytest.approx([80, 95], abs=points)
    assert (found[rests].mean() > [80 - points, 95 - points]).all()
