"""The robustness benchmark: noise and chances by hand, and promises that hold for every table."""

import json
import sys

import numpy as np
import pandas as pd
import pytest

from benchmarks import robustness
from benchmarks.robustness import MEASURES, broken, draw_noise, to_table, trials


def test_noise_has_the_deviation_of_its_process():
    noise = draw_noise((20_000, 2), 0, 0.8)
    assert noise.std(0) == pytest.approx([1 / 0.6] * 2, rel=0.05)  # 1 / √(1 - 0.8²)
    assert noise[0] == pytest.approx(draw_noise((1, 2), 0)[0] / 0.6)
    change = noise[1:] - 0.8 * noise[:-1]
    assert change.std(0) == pytest.approx([1, 1], rel=0.05)


def test_a_table_may_end_at_different_times():
    table = to_table(np.arange(6.0).reshape(3, 2), "D", [0, 2])
    ends = table.groupby("unique_id").ds.max()
    assert ends.tolist() == [*pd.to_datetime(["2001-01-03", "2001-01-05"])]
    assert table.y.tolist() == [0, 2, 4, 1, 3, 5]


class Wide:
    """A model, and its forecast, whose intervals are zero ± their level in hundredths."""

    def forecast(self):
        return self

    def interval(self, level):
        return tuple(np.full((2, 1), side * level / 100) for side in (-1, 1))


def test_chances_are_those_of_the_normal_future(monkeypatch):
    monkeypatch.setattr(robustness, "fit", lambda table, horizon: Wide())
    (one,) = trials(np.zeros((32, 1)), 2, 1, noise=0.5, phi=0.6)
    last = one.past[-1, 0]
    assert one.expected[:, 0] == pytest.approx([0.6 * last, 0.36 * last])
    draws = np.random.default_rng(0).normal(size=(2, 100_000)) * 0.5
    first = 0.6 * last + draws[0]
    for step, future in enumerate((first, 0.6 * first + draws[1])):
        for level, chance in one.chances.items():
            inside = 100 * np.mean(np.abs(future) < level / 100)
            assert chance[step, 0] == pytest.approx(inside, abs=0.6)


def test_broken_promises_are_named():
    row = {"measure": "ramp", "data": "noise", "coverage-80": 0.0, "point inside": 100.0}
    assert not broken([row])
    wrong = {"point inside": 99.9, "negative": 2, "narrowest": 1e-17, "at the bound": 1}
    for name, value in wrong.items():
        assert broken([row, {**row, name: value}]) == [f"ramp, noise: {name} {value:.3g}"]


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """Run the quick benchmark, and read its file."""
    path = tmp_path_factory.mktemp("robustness") / "robustness.json"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["robustness", "--quick", "--out", str(path)])
        robustness.main()
    stored = json.loads(path.read_text())
    assert stored["provenance"]["command"].startswith("python -m benchmarks.robustness --quick")
    return stored["rows"]


@pytest.mark.slow
def test_every_measure_has_rows_of_numbers(rows):
    assert {row["measure"] for row in rows} == {f.__name__.replace("_", " ") for f in MEASURES}
    for row in rows:
        numbers = [value for value in row.values() if not isinstance(value, str)]
        assert np.isfinite(numbers).all()
        assert all(0 <= row[name] <= 100 for name in row if name.startswith("coverage"))
    assert all("point inside" in row for row in rows)


@pytest.mark.slow
def test_promises_hold(rows):
    assert broken([row for row in rows if row["measure"] != "constants"]) == []


@pytest.mark.slow
def test_constant_series_have_intervals(rows):
    assert broken([row for row in rows if row["measure"] == "constants"]) == []
