"""`fighter leaderboard`: what it measures, keeps and says."""

import json
import re
import shlex

import numpy as np
import pandas as pd
import pytest

from fighter.cli import main
from fighter.errors import FighterError
from fighter.experiments import leaderboard
from fighter.experiments.cells import perform, read, settings
from fighter.experiments.leaderboard import RATES, Source, sign_test, sources
from fighter.experiments.runs import Place

ROWS, HORIZON = 600, 6


@pytest.fixture(scope="module")
def table():
    draw = np.random.default_rng(0)
    hours = np.arange(ROWS)
    day = np.sin(2 * np.pi * hours[:, None] / 24 + np.array([0.0, 1.0]))
    values = np.array([5.0, 300.0]) * (day + 0.2 * draw.normal(size=(ROWS, 2)))
    times = pd.date_range("2024-01-01", periods=ROWS, freq="h")
    return pd.DataFrame({"date": times, "a": values[:, 0], "b": values[:, 1]})


@pytest.fixture(scope="module")
def path(table, tmp_path_factory):
    file = tmp_path_factory.mktemp("own") / "load.csv"
    table.to_csv(file, index=False)
    return file


def call(*arguments):
    return main(["leaderboard", *map(str, arguments), "--device", "cpu", "--jobs", "1"])


@pytest.fixture(scope="module")
def ranked(path, tmp_path_factory):
    """The results of one call, with its folder."""
    folder = tmp_path_factory.mktemp("results")
    command = (path, "--models", "fighter", "linear", "mean", "--horizons", HORIZON, 12)
    assert call(*command, "--seeds", 0, 1, "--max-epochs", 2, "--results", folder) == 0
    return folder, json.loads((folder / "leaderboard.json").read_text())


def test_a_cell_scores_every_test_window(table, path):
    """Against the mean of the look-back, one window after the other."""
    chosen = settings("load", HORIZON, {"model": "mean"}, lookback=48, path=str(path))
    found = perform(chosen, Place())
    values = table[["a", "b"]].to_numpy()
    train = values[:420]
    scaled = (values - train.mean(0)) / train.std(0)
    errors = np.array(
        [
            scaled[first : first + HORIZON] - scaled[first - 48 : first].mean(0)
            for first in range(480, ROWS - HORIZON + 1)
        ]
    )
    assert found["windows"] == len(errors) == 115
    np.testing.assert_allclose(found["mse"], (errors**2).mean(), rtol=1e-5)
    np.testing.assert_allclose(found["mae"], np.abs(errors).mean(), rtol=1e-5)
    pieces = [errors[i : i + 12] for i in range(0, 115, 12)]
    np.testing.assert_allclose(
        found["pieces"]["mse"], [(piece**2).mean() for piece in pieces], rtol=1e-4
    )


def test_known_data_are_taken_as_benchmarks_do(data_dir):
    """Rows as they stand: Weather has a stamp twice and nine too few, ETT ends after 20 months."""
    weather, split = read("weather", None, data_dir)
    assert weather.length == 52_696
    assert weather.observed.all()
    assert (split.train.stop, split.val.stop, split.test.stop) == (36_887, 42_157, 52_696)
    ett, split = read("ETTh1", None, data_dir)
    assert ett.length == split.test.stop == 14_400
    assert split.val.start == 8_640


def test_all_cells_are_there(ranked):
    folder, kept = ranked
    cells = {(row["model"], row["horizon"], row["seed"]) for row in kept["rows"]}
    learned = {(m, h, s) for m in ("Fighter", "Linear") for h in (HORIZON, 12) for s in (0, 1)}
    assert cells == learned | {("WindowMean", h, 0) for h in (HORIZON, 12)}
    assert kept["provenance"]["device"].startswith("cpu: ")
    assert [*kept["data"]] == ["load"]
    text = (folder / "accuracy.md").read_text()
    assert "Mean rank of 3 models over 2 tasks" in text
    assert "2 series, 115 windows" in text


def test_the_learning_rate_is_the_best_on_validation(ranked):
    """Of all but Fighter, at the first horizon and seed, and then for the other cells too."""
    folder, kept = ranked
    runs = [json.loads(file.read_text()) for file in (folder / "runs").iterdir()]
    linear = [run for run in runs if run["settings"]["options"]["model"] == "linear"]
    tried = {
        run["settings"]["options"]["lr"]: run["result"]["validation"]
        for run in linear
        if (run["settings"]["horizon"], run["settings"]["seed"]) == (HORIZON, 0)
    }
    assert {*tried} == {*RATES}
    for row in kept["rows"]:
        best = min(tried, key=lambda rate: tried[rate]) if row["model"] == "Linear" else None
        assert row["settings"]["options"].get("lr") == best


@pytest.mark.parametrize("model", ["Fighter", "Linear"])
def test_a_cell_comes_out_again_by_its_command(ranked, model, tmp_path):
    row = next(row for row in ranked[1]["rows"] if row["model"] == model and row["seed"] == 1)
    program, name, *words = shlex.split(row["command"])
    assert (program, name) == ("fighter", "leaderboard")
    assert call(*words, "--results", tmp_path) == 0
    (again,) = json.loads((tmp_path / "leaderboard.json").read_text())["rows"]
    for metric in ("mse", "mae", "validation"):
        assert again["result"][metric] == row["result"][metric]


def test_calls_add_up(path, tmp_path, capsys):
    """A later call ranks with what is there, replaces its own cells, and trains nothing twice."""
    command = (path, "--horizons", HORIZON, "--results", tmp_path, "--seeds", 0)
    assert call(*command, "--models", "mean") == 0
    assert call(*command, "--models", "repeat") == 0
    capsys.readouterr()
    assert call(*command, "--models", "mean", "repeat") == 0
    said = capsys.readouterr().out
    assert "2 runs, 2 of them done before" in said
    order = re.findall(r"^\| (\w+) \| \d", said, re.M)
    kept = json.loads((tmp_path / "leaderboard.json").read_text())["rows"]
    assert order == [r["model"] for r in sorted(kept, key=lambda r: r["result"]["mse"])]
    assert sorted(order) == ["RepeatLast", "WindowMean"]


def test_what_is_in_a_folder(path, tmp_path, nothing_cached):
    for name in ("load.csv", "weather.csv", "ag_news_test.csv", "notes.md"):
        (tmp_path / name).write_bytes(path.read_bytes())
    said = []
    own = str(tmp_path / "load.csv")
    assert sources((), tmp_path, said.append) == [Source("load", own), Source("weather")]
    assert len(said) == 1
    assert said[0].startswith("ag_news_test.csv is left out")
    assert sources((), tmp_path / "load.csv") == [Source("load", own)]
    assert sources(("etth1", own), None) == [Source("ETTh1"), Source("load", own)]
    with pytest.raises(FighterError, match="There is no data set 'nothing'"):
        sources(("nothing",), None)
    with pytest.raises(FighterError, match="weather was not found"):
        sources((), None)
    (tmp_path / "empty").mkdir()
    with pytest.raises(FighterError, match="has no CSV or Parquet file"):
        sources((), tmp_path / "empty")


@pytest.fixture
def nothing_cached(tmp_path, monkeypatch):
    for name in ("FIGHTER_DATA", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "cache"))


def test_own_data_have_a_horizon_of_their_own(path):
    assert leaderboard.horizons_for(Source("load", str(path)), Place()) == (24,)
    assert leaderboard.horizons_for(Source("weather"), Place()) == (96, 192)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--models", "nobody"], "'nobody' is not one of fighter"),
        (["--models", "mean", "--horizons", "400"], "400 steps do not fit into the 60 rows"),
        (["--models", "mean", "--seeds"], "seeds: give at least one"),
    ],
)
def test_wrong_input(path, tmp_path, capsys, arguments, message):
    assert call(path, *arguments, "--results", tmp_path) == 1
    assert message in capsys.readouterr().err


def test_signs():
    draw = np.random.default_rng(0)
    noise = draw.normal(size=40)
    assert sign_test(noise, noise) == 1
    assert sign_test(noise, noise + 5) == sign_test(noise + 5, noise) == 1e-4
    # Under chance alone every value is as likely as any other.
    found = [sign_test(draw.normal(size=30), draw.normal(size=30), 199) for _ in range(200)]
    assert abs(np.mean(found) - 0.5) < 0.08
    assert 0.01 < np.mean(np.array(found) < 0.05) < 0.1
