from functools import partial

import numpy as np
import pandas as pd
import pytest

from fighter.benchmark.runs import Environment
from fighter.data.datasets import catalogue
from fighter.errors import FighterError
from paper.reproduction import forecasting
from paper.reproduction.forecasting import FRACTIONS, LOOKBACK, perform, read_values

settings = partial(forecasting.settings, seed=0, epochs=1, patience=1, lr=1e-3)
HORIZON = 8


@pytest.fixture(scope="module")
def values():
    """Return three series of very different scale; the last leaves its range in the test rows."""
    draw = np.random.default_rng(1)
    steps = np.arange(700)[:, None] / np.array([5.0, 9.0, 24.0])
    table = np.array([1.0, 50.0, 1e3]) * (np.sin(steps) + 0.3 * draw.normal(size=(700, 3)))
    table[600:, 2] += 5e3
    return table


@pytest.fixture(scope="module")
def path(values, tmp_path_factory):
    file = tmp_path_factory.mktemp("tables") / "table.csv"
    times = pd.date_range("2024-01-01", periods=len(values), freq="h")
    pd.DataFrame({"date": times, **dict(zip("abc", values.T, strict=True))}).to_csv(
        file, index=False
    )
    return str(file)


def scales(values, kind):
    """Return shift and scale by the training rows."""
    train = values[: 7 * len(values) // 10]
    if kind == "standard":
        return train.mean(0), train.std(0)
    return train.min(0), train.max(0) - train.min(0)


def literal_errors(values, kind, horizon, guess, lookback=LOOKBACK):
    """Return MSE and MAE over every test window in turn, and the number of windows."""
    shift, scale = scales(values, kind)
    scaled = (values - shift) / scale
    begin = len(values) - 15 * len(values) // 100
    errors = []
    for first in range(begin, len(values) - horizon + 1):
        past, future = scaled[first - lookback : first], scaled[first : first + horizon]
        errors.append(guess(past, horizon) - future)
    errors = np.stack(errors)
    return (errors**2).mean(), np.abs(errors).mean(), len(errors)


def last_value(past, horizon):
    return past[-1:]


def window_mean(past, horizon):
    return past.mean(0, keepdims=True)


def last_day(period, past, horizon):
    return np.stack([past[len(past) - period + step % period] for step in range(horizon)])


def check_errors(result, values, horizon, guess, **more):
    for kind in ("standard", "minmax"):
        mse, mae, windows = literal_errors(values, kind, horizon, guess, **more)
        assert result[f"{kind}_mse"] == pytest.approx(mse, rel=1e-4)
        assert result[f"{kind}_mae"] == pytest.approx(mae, rel=1e-4)
        assert result["windows"] == windows


@pytest.mark.parametrize(
    ("model", "guess", "units"),
    [("repeat", last_value, "standard"), ("mean", window_mean, "minmax")],
)
def test_every_test_window_is_scored(path, values, model, guess, units):
    result = perform(settings("x", HORIZON, model, {}, path=path, units=units), Environment())
    check_errors(result, values, HORIZON, guess)
    assert result["parameters"] == result["epochs"] == 0
    assert result["best_epoch"] is None
    assert result["series"] == 3


def test_scalers_see_the_training_rows_only(path, values, monkeypatch):
    """One series leaves its range in the test rows: a scaler that saw them would be wider."""
    seen = []
    fit = forecasting.Scaler.fit
    monkeypatch.setattr(
        forecasting.Scaler, "fit", lambda rows, **kind: seen.append(rows) or fit(rows, **kind)
    )
    perform(settings("x", HORIZON, "repeat", {}, path=path), Environment())
    for rows in seen:
        np.testing.assert_allclose(rows, values[:490])
    wide = values.std(0)[2] / scales(values, "standard")[1][2]
    assert wide > 2


def test_the_seasonal_naive_forecast_looks_back_a_day_and_has_the_same_targets(path, values):
    """On Weather a day has 144 steps, more than the look-back of the other models."""
    plain = perform(settings("weather", HORIZON, "repeat", {}, path=path), Environment())
    naive = perform(settings("weather", HORIZON, "naive", {}, path=path), Environment())
    assert plain["windows"] == naive["windows"] == 105 - HORIZON + 1
    check_errors(naive, values, HORIZON, partial(last_day, 144), lookback=144)
    hourly = perform(settings("x", 30, "naive", {}, path=path), Environment())
    check_errors(hourly, values, 30, partial(last_day, 24))


def test_only_the_first_rows_are_used_if_a_number_is_given(path, values):
    result = perform(settings("x", HORIZON, "repeat", {}, path=path, rows=500), Environment())
    check_errors(result, values[:500], HORIZON, last_value)


def test_a_network_is_trained_and_its_result_depends_on_seed_and_units(path):
    asked = settings("x", HORIZON, "dlinear", {}, path=path) | {"epochs": 3, "patience": 3}
    result = perform(asked, Environment())
    assert result["epochs"] == 3
    assert 1 <= result["best_epoch"] <= 3
    assert result["parameters"] == 2 * (LOOKBACK + 1) * HORIZON
    assert np.isfinite(result["standard_mse"])
    assert perform(asked, Environment()) | {"train_seconds": 0} == result | {"train_seconds": 0}
    other = perform(asked | {"seed": 1}, Environment())
    assert other["standard_mse"] != result["standard_mse"]
    # Trained in other units it is another network.
    minmax = perform(asked | {"units": "minmax"}, Environment())
    assert minmax["standard_mse"] != pytest.approx(result["standard_mse"], rel=1e-3)


def test_errors_in_both_units_belong_to_the_same_predictions(path, values):
    """Both follow from the network's own forecasts and the scales of each series."""
    asked = settings("x", HORIZON, "dlinear", {}, path=path, rows=400)
    table = values[:400]
    result = perform(asked, Environment())
    kept = {}
    original = forecasting.per_series_errors

    def keep_errors(network, windows):
        batches = forecasting.forecast(network, windows)
        kept["errors"] = np.concatenate([(y[..., 0] - b.future).numpy() for b, y in batches])
        return original(network, windows)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forecasting, "per_series_errors", keep_errors)
        assert perform(asked, Environment())["minmax_mse"] == result["minmax_mse"]
    raw = kept["errors"] * scales(table, "standard")[1]
    for kind in ("standard", "minmax"):
        errors = raw / scales(table, kind)[1]
        assert result[f"{kind}_mse"] == pytest.approx((errors**2).mean(), rel=1e-5)
        assert result[f"{kind}_mae"] == pytest.approx(np.abs(errors).mean(), rel=1e-5)


def test_the_hundred_series_of_largest_training_variance_are_kept(tmp_path):
    draw = np.random.default_rng(0)
    table = draw.normal(size=(200, 110)) * draw.permutation(np.arange(1, 111))
    table[150:, table[:140].var(0).argmin()] *= 1e4  # large only after the training rows
    frame = pd.DataFrame(table, columns=[f"c{i}" for i in range(110)])
    frame.to_parquet(tmp_path / "wide.parquet")
    values, period = read_values("x", str(tmp_path / "wide.parquet"), None, False)
    largest = sorted(np.argsort(table[: int(200 * FRACTIONS[0])].var(0))[-100:])
    np.testing.assert_array_equal(values, table[:, largest])
    assert period == 24


def test_marks_of_missing_values_are_interpolated_if_cleaned(tmp_path):
    times = pd.date_range("2020-01-01", periods=6, freq="10min")
    columns = {"p (mbar)": [1.0, -9999, 3, 4, 5, 6], "OT": [-9999.0, 2, -9999, -9999, 5, -9999]}
    pd.DataFrame({"date": times, **columns}).to_csv(tmp_path / "weather.csv", index=False)
    raw, period = read_values("weather", None, tmp_path, False)
    np.testing.assert_array_equal(raw, np.array([*columns.values()]).T)
    assert period == 144
    clean, _ = read_values("weather", None, tmp_path, True)
    np.testing.assert_allclose(clean.T, [[1, 2, 3, 4, 5, 6], [2, 2, 3, 4, 5, 5]])


def test_unusable_data_are_reported(tmp_path, path):
    with pytest.raises(FighterError, match=r"nothing\.csv"):
        read_values("x", str(tmp_path / "nothing.csv"), None, False)
    with pytest.raises(FighterError, match="wether"):
        read_values("wether", None, None, False)
    with pytest.raises(FighterError, match="96"):  # no window fits
        perform(settings("x", 96, "repeat", {}, path=path, rows=300), Environment())
    pd.DataFrame({"a": [1.0, None, 3.0]}).to_csv(tmp_path / "gap.csv")
    with pytest.raises(FighterError, match=r"gap\.csv has 1 cells"):
        read_values("x", str(tmp_path / "gap.csv"), None, False)


def test_repeating_the_last_value_on_weather_has_its_known_error(data_dir):
    """Compare with a sum over all rows, and with the known error for the paper's split."""
    result = perform(settings("weather", 96, "repeat", {}), Environment(data_dir))
    table = catalogue.load("weather", data_dir).select_dtypes("number").to_numpy()
    mean, deviation = scales(table, "standard")
    scaled = (table - mean) / deviation
    begin, end = len(table) - 15 * len(table) // 100, len(table) - 96
    total = np.zeros(2)
    for step in range(96):
        error = scaled[begin + step : end + step + 1] - scaled[begin - 1 : end]
        total += (error**2).mean(), np.abs(error).mean()
    assert result["windows"] == end - begin + 1 == 7809
    assert result["standard_mse"] == pytest.approx(total[0] / 96, rel=1e-5)
    assert result["standard_mae"] == pytest.approx(total[1] / 96, rel=1e-5)
    assert result["standard_mse"] == pytest.approx(0.240, abs=5e-4)
