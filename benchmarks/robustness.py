"""Measure what the default forecaster promises on tables that threw version 0.1 off.

    python -m benchmarks.robustness [--quick] [--out results/robustness.json]

Every table is generated, most of them as a known mean plus noise of deviation 1. The chance that
the future lies inside an interval is then known exactly: "coverage" is that chance in per cent, for
the forecast right after the training rows, and "se" its standard error over the tables. Errors are
those of a future that is drawn once.

``--quick`` measures a few short tables, and writes a file only if ``--out`` names one.
"""

import argparse
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch

from fighter import DataWarning, Forecaster
from fighter.benchmark.provenance import provenance
from fighter.benchmark.runs import write_rows
from fighter.forecasting.forecast import Forecast

RESULTS = Path(__file__).resolve().parents[1] / "results" / "robustness.json"
LEVELS = (80, 95, 99)
DAY = 24
ROUNDING = 1e-9  # an interval narrower than this share of its value has no width

Row = dict[str, Any]


# ---- tables and forecasts --------------------------------------------------------------------


class Trial(NamedTuple):
    """A generated table, what follows it, the forecast, and the chances of its intervals."""

    past: np.ndarray
    expected: np.ndarray  # mean of the future, given the past
    truth: np.ndarray  # one future, drawn
    forecast: Forecast
    chances: dict[int, np.ndarray]  # by level, in per cent: [horizon, series]


def trials(
    mean: np.ndarray,
    horizon: int,
    tables: int,
    *,
    noise: np.ndarray | float = 1.0,
    phi: float = 0.0,
    freq: str = "h",
    late: Sequence[int] | None = None,
) -> Iterator[Trial]:
    """Fit the default forecaster to tables with the same mean and other noise.

    Args:
        mean: mean of the past and the future rows, ``[rows + horizon, series]``.
        horizon: number of future rows.
        tables: number of tables.
        noise: deviation of the noise, or of its innovations, of all or of each series.
        phi: coefficient of AR(1) noise (default: 0, the noise is independent).
        freq: step of the time stamps.
        late: how many steps later each series begins and ends (default: 0).
    """
    rows, step = len(mean) - horizon, np.arange(1, horizon + 1)[:, None]
    deviation = noise * np.sqrt((1 - phi ** (2 * step)) / (1 - phi**2))
    for seed in range(tables):
        values = mean + noise * draw_noise(mean.shape, seed, phi)
        past, truth = values[:rows], values[rows:]
        forecast = fit(to_table(past, freq, late), horizon).forecast()
        expected = mean[rows:] + phi**step * (past[-1] - mean[rows - 1])
        chances = {}
        for level in LEVELS:
            ends = (np.stack(forecast.interval(level)) - expected) / np.maximum(deviation, 1e-12)
            below, upto = torch.special.ndtr(torch.from_numpy(ends)).numpy()
            chances[level] = 100 * (upto - below)
        yield Trial(past, expected, truth, forecast, chances)


def draw_noise(shape: tuple[int, ...], seed: int, phi: float = 0.0) -> np.ndarray:
    """Return stationary AR(1) noise with innovations of deviation 1."""
    noise = np.random.default_rng(seed).normal(size=shape)
    noise[0] /= np.sqrt(1 - phi**2)
    for step in range(1, len(noise)):
        noise[step] += phi * noise[step - 1]
    return noise


def to_table(past: np.ndarray, freq: str = "h", late: Sequence[int] | None = None) -> pd.DataFrame:
    """Return the columns as a long table; series i begins ``late[i]`` steps later (default: 0)."""
    rows, series = past.shape
    begins = late or [0] * series
    times = pd.date_range("2001-01-01", periods=rows + max(begins), freq=freq)
    columns = [
        pd.DataFrame({"unique_id": i, "ds": times[begin : begin + rows], "y": past[:, i]})
        for i, begin in enumerate(begins)
    ]
    return pd.concat(columns, ignore_index=True)


def fit(table: pd.DataFrame, horizon: int) -> Forecaster:
    """Fit the default forecaster."""
    return Forecaster(horizon, level=LEVELS, verbose=False).fit(table)


def daily_wave(rows: int, series: int, height: float = 6.0) -> np.ndarray:
    """Return the mean ``[rows, series]`` of hourly series, each with its own level and phase."""
    number, step = np.arange(series), np.arange(rows)[:, None]
    return 20 * (number + 1) + height * np.sin(2 * np.pi * step / DAY + number)


def months(rows: int, series: int) -> np.ndarray:
    """Return the mean ``[rows, series]`` of monthly series with a trend and a growing season."""
    number, step = np.arange(series), np.arange(rows)[:, None]
    return (30 + step) * (1 + 0.2 * np.sin(2 * np.pi * step / 12 + number))


def draw_counts(rows: int, seed: int) -> dict[str, np.ndarray]:
    """Return series of counts by name."""
    rng, step = np.random.default_rng(seed), np.arange(rows)
    return {
        "Poisson(3)": rng.poisson(3, rows),
        "Poisson(1)": rng.poisson(1, rows),
        "Poisson(0.2)": rng.poisson(0.2, rows),
        "intermittent": (rng.random(rows) < 0.3) * (1 + rng.poisson(4, rows)),
        "growing": rng.poisson(0.5 + 10 * step / rows),
        "falling to 0": np.maximum(rows - 7 - step, 0),  # it arrives within the horizon
    }


# ---- scores ----------------------------------------------------------------------------------


def point_inside(forecasts: Sequence[Forecast]) -> float:
    """Return the share of steps, in per cent, whose point lies inside all of its intervals."""
    inside = [
        np.all([(low <= one.point) & (one.point <= high) for low, high in one.bands.values()], 0)
        for one in forecasts
    ]
    return 100 * float(np.mean(inside))


def truth_inside(forecast: Forecast, truth: np.ndarray) -> np.ndarray:
    """Return which true values lie inside the 80 % interval, as 0 or 100: ``[horizon, series]``."""
    low, high = forecast.interval(80)
    return 100.0 * ((low <= truth) & (truth <= high))


SIMPLE: dict[str, Callable[[Trial], np.ndarray]] = {
    "last value": lambda one: one.past[-1:],
    "seasonal naive": lambda one: one.past[-DAY:],
    "ramp": lambda one: one.expected,
}


def errors(made: Sequence[Trial], simple: Sequence[str]) -> Row:
    """Return the mean absolute error divided by those of simple forecasts, and the coverage."""

    def mean_error(point: Callable[[Trial], np.ndarray]) -> float:
        return float(np.mean([np.abs(point(one) - one.truth).mean() for one in made]))

    own = mean_error(lambda one: one.forecast.point)
    return {
        **{f"MAE / {name}": own / mean_error(SIMPLE[name]) for name in simple},
        "coverage-80": float(np.mean([one.chances[80] for one in made])),
        "point inside": point_inside([one.forecast for one in made]),
    }


def coverage(made: Sequence[Trial]) -> Row:
    """Return the coverage of all levels, their standard errors, and the worst series at 80 %."""
    row: Row = {"series": made[0].past.shape[1], "tables": len(made)}
    for level in LEVELS:
        each = [one.chances[level].mean() for one in made]
        row[f"coverage-{level}"] = float(np.mean(each))
        row[f"se-{level}"] = float(np.std(each) / np.sqrt(len(made)))
    row["worst series"] = float(min(one.chances[80].mean(0).min() for one in made))
    return {**row, "point inside": point_inside([one.forecast for one in made])}


# ---- measures --------------------------------------------------------------------------------


def level_shift(
    rows: int = 500, series: int = 4, tables: int = 3, starts: Sequence[int] = (12, 24, 60, 96)
) -> list[Row]:
    """Shift all series by 20 deviations, 12 to 96 steps before the end of the table."""
    found = []
    for data, height in (("daily wave", 6), ("noise", 0)):
        for start in starts:
            mean = daily_wave(rows + DAY, series, height)
            mean[rows - start :] += 20
            scores = errors([*trials(mean, DAY, tables)], ["last value", "seasonal naive"])
            found.append({"data": data, "steps before the end": start, **scores})
    return found


def ramp(rows: int = 300, tables: int = 5, starts: Sequence[int] = (12, 24, 45, 90)) -> list[Row]:
    """Let a daily series climb by two deviations a step, from 12 to 90 steps before the end on.

    The ramp goes on in the future; "MAE / ramp" is 1 for a forecast that knows it.
    """
    horizon = 14
    step = np.arange(rows + horizon)[:, None]
    found = []
    for start in starts:
        mean = 50 + 2.0 * np.maximum(step - (rows - start), 0)
        scores = errors([*trials(mean, horizon, tables, freq="D")], ["last value", "ramp"])
        found.append({"data": "noise, ramp", "steps before the end": start, **scores})
    return found


def small_tables(tables: Mapping[int, int] = {4: 10, 1: 40}) -> list[Row]:
    """Measure 130 hours without a pattern, and 36 months; ``tables`` of so many series each."""
    found = []
    for series, count in tables.items():
        level = daily_wave(130 + DAY, series, 0)
        made = {
            "i.i.d., 130 rows": trials(level, DAY, count),
            "AR(1), 130 rows": trials(level, DAY, count, phi=0.8),
            "36 months": trials(months(36 + 6, series), 6, count, freq="MS"),
        }
        found += [{"data": data, **coverage([*each])} for data, each in made.items()]
    return found


def unequal_ends(rows: int = 400, series: int = 5, tables: int = 6) -> list[Row]:
    """Let series end at the same time, or each two days after the one before.

    The values and the futures are the same in both tables; only time stamps move.
    """
    mean = daily_wave(rows + DAY, series)
    found = []
    for data, days in (("equal ends", 0), ("unequal ends", 2)):
        late = [days * DAY * i for i in range(series)]
        found.append({"data": data, **coverage([*trials(mean, DAY, tables, phi=0.8, late=late)])})
    return found


def counts(rows: int = 300, tables: int = 5) -> list[Row]:
    """Count the forecasts and quantiles of counts that are below zero.

    "inside-80" is the share of drawn counts inside: no interval of counts holds exactly 80 %.
    """
    horizon = 14
    drawn = [draw_counts(rows + horizon, seed) for seed in range(tables)]
    values = [np.stack([*one.values()], 1).astype(float) for one in drawn]
    made = [fit(to_table(one[:rows], "D"), horizon).forecast() for one in values]
    pairs = zip(made, values, strict=True)
    inside = np.mean([truth_inside(one, y[rows:]) for one, y in pairs], (0, 1))
    below = np.sum([(one.point < 0) + (one.quantiles < 0).sum(2) for one in made], (0, 1))
    return [
        {
            "data": data,
            "negative": int(below[i]),
            "inside-80": float(inside[i]),
            "point inside": point_inside(made),
        }
        for i, data in enumerate(drawn[0])
    ]


def constants(tables: Mapping[int, int] = {60: 6, 400: 2}) -> list[Row]:
    """Measure the 80 % intervals of constant series, and of a noisy one beside them.

    ``tables`` says how many tables of how many rows there are. "narrowest" is the width of an
    interval of a constant series, divided by the value, or by 1 if that is zero. "coverage-80" is
    that of the noisy series.
    """
    values, horizon = np.array([0.0, 5.0, 1e6]), 6
    found = []
    for rows, count in tables.items():
        wave = daily_wave(rows + horizon, 1)
        flat = np.tile(values, (rows + horizon, 1))
        for data, mean in (("noisy", wave), ("constant", flat), ("both", np.hstack([flat, wave]))):
            noisy = np.ptp(mean, 0) > 0
            number = count if noisy.any() else 1
            made = [*trials(mean, horizon, number, noise=noisy.astype(float))]
            row: Row = {"data": f"{data}, {rows} rows", "tables": number}
            if not noisy.all():
                low, high = np.stack([one.forecast.interval(80) for one in made], 1)
                row["narrowest"] = float(((high - low)[..., ~noisy] / np.maximum(values, 1)).min())
            if noisy.any():
                row["coverage-80"] = float(np.mean([one.chances[80][:, noisy] for one in made]))
            found.append({**row, "point inside": point_inside([one.forecast for one in made])})
    return found


def passed_bounds(rows: int = 400) -> list[Row]:
    """Let series pass their bounds after training.

    A series of 0 and 1 climbs by one every 12 steps: the next day is one and two higher. A series
    that rests at 0 falls to -0.05 once. "at the bound" counts the 80 % limits that are exactly the
    bound or the furthest value, where version 0.1 held them.
    """
    rng = np.random.default_rng(0)
    coin = rng.integers(0, 2, (rows, 1)).astype(float)
    rain = np.maximum(rng.normal(size=(rows + DAY, 1)), 0)
    climbing, resting = fit(to_table(coin), DAY), fit(to_table(rain[:rows]), DAY)
    cases = []
    for peak in (2, 9, 15):
        climb = 1.0 + np.arange(12 * (peak + 2))[:, None] // 12
        later, truth = np.vstack([coin, climb[:-DAY]]), climb[-DAY:]
        cases.append((f"0 or 1, then up to {peak}", climbing, later, truth, 1, (1, peak)))
    below = np.vstack([rain[:rows], [[-0.05]]])
    cases.append(("at least 0, then -0.05", resting, below, rain[rows:], 0, (0, -0.05)))
    found = []
    for data, model, later, truth, side, bounds in cases:
        one = model.forecast(to_table(later))
        limit = one.interval(80)[side]
        found.append(
            {
                "data": data,
                "at the bound": sum(int(np.isclose(limit, x, 0, 1e-6).sum()) for x in bounds),
                "lowest limit": float(limit.min()),
                "highest limit": float(limit.max()),
                "inside-80": float(truth_inside(one, truth).mean()),
                "point inside": point_inside([one]),
            }
        )
    return found


# ---- the run ---------------------------------------------------------------------------------

# The settings of --quick; the full run takes the defaults.
MEASURES: dict[Callable[..., list[Row]], dict[str, Any]] = {
    level_shift: {"rows": 150, "series": 1, "tables": 1, "starts": [24]},
    ramp: {"rows": 100, "tables": 1, "starts": [24]},
    small_tables: {"tables": {1: 2}},
    unequal_ends: {"rows": 100, "series": 2, "tables": 1},
    counts: {"rows": 40, "tables": 1},
    constants: {"tables": {30: 1}},
    passed_bounds: {"rows": 130},
}


def measure(quick: bool = False) -> list[Row]:
    """Take all measures, print a table of each, and return all rows."""
    found = []
    for take, small in MEASURES.items():
        name = take.__name__.replace("_", " ")
        rows = take(**small) if quick else take()
        table = pd.DataFrame(rows).to_string(index=False, float_format="%.3g", na_rep="")
        print(f"{name}\n{table}\n", flush=True)
        found += [{"measure": name, **row} for row in rows]
    return found


def broken(rows: Sequence[Row]) -> list[str]:
    """Return the rows that break a promise which holds for every table."""
    kept = {
        "point inside": lambda value: value == 100,
        "negative": lambda value: value == 0,
        "narrowest": lambda value: value > ROUNDING,
        "at the bound": lambda value: value == 0,
    }
    return [
        f"{row['measure']}, {row['data']}: {name} {row[name]:.3g}"
        for row in rows
        for name, keeps in kept.items()
        if name in row and not keeps(row[name])
    ]


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.robustness")
    parser.add_argument("--quick", action="store_true", help="only a few short tables")
    parser.add_argument("--out", type=Path, help="JSON file (default: results/robustness.json)")
    args = parser.parse_args()
    warnings.simplefilter("ignore", DataWarning)
    rows = measure(args.quick)
    print("\n".join(f"BROKEN {line}" for line in broken(rows)) or "All promises are kept.")
    out = args.out or (None if args.quick else RESULTS)
    if out:
        device = "cuda" if torch.cuda.is_available() else "cpu"
        write_rows(out, {"provenance": provenance("python -m benchmarks.robustness", device)}, rows)


if __name__ == "__main__":
    main()
