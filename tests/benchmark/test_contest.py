"""`fighter leaderboard`: what it measures, keeps and says."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fighter.benchmark import score as cells
from fighter.benchmark.contest import RATES, _against, horizons_for, sign_test
from fighter.benchmark.datasets import file_dataset, find_datasets, known_dataset, read
from fighter.benchmark.page import write_page
from fighter.benchmark.runs import Environment
from fighter.benchmark.score import perform, settings
from fighter.cli import main
from fighter.errors import FighterError
from fighter.models import CORES
from paper.studies import published

ROOT = Path(__file__).resolve().parents[2]
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
    source = file_dataset(path)
    chosen = settings(source, HORIZON, {"model": "mean"}, lookback=48)
    found = perform(chosen, Environment(files={source.sha256: path}))
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
    pieces = np.array_split(errors, 2)  # of two days or a little more
    np.testing.assert_allclose(
        found["pieces"]["mse"], [(piece**2).mean() for piece in pieces], rtol=1e-4
    )


def test_an_inner_split_does_not_look_at_the_test_rows(table, tmp_path):
    found = []
    for last in (1.0, 100.0):
        file = tmp_path / f"{last}.csv"
        scale = np.where(np.arange(ROWS) < 480, 1.0, last)
        table.assign(a=table["a"] * scale).to_csv(file, index=False)
        source = file_dataset(file)
        chosen = settings(source, HORIZON, {"model": "mean"}, lookback=48, inner=True)
        found.append(perform(chosen, Environment(files={source.sha256: file})))
    assert found[0]["mse"] == found[1]["mse"]
    assert found[0]["windows"] == 96 - HORIZON + 1  # of the 480 rows before them


def test_known_data_are_taken_as_benchmarks_do(data_dir):
    """Rows as they stand: Weather has a stamp twice and nine too few, ETT ends after 20 months."""
    weather, split = read(known_dataset("weather", data_dir))
    assert weather.length == 52_696
    assert weather.observed.all()
    assert (split.train.stop, split.val.stop, split.test.stop) == (36_887, 42_157, 52_696)
    ett, split = read(known_dataset("ETTh1", data_dir))
    assert ett.length == split.test.stop == 14_400
    assert split.val.start == 8_640


def test_all_cells_are_there(ranked):
    folder, kept = ranked
    cells = {(row["model"], row["horizon"], row["seed"]) for row in kept["rows"]}
    trainable = {(m, h, s) for m in ("Fighter", "Linear") for h in (HORIZON, 12) for s in (0, 1)}
    assert cells == trainable | {("WindowMean", h, 0) for h in (HORIZON, 12)}
    assert kept["provenance"]["device"].startswith("cpu: ")
    text = (folder / "accuracy.md").read_text()
    assert "Mean rank of 3 models over the 2 tasks" in text
    assert "load: 96 steps seen, 6 forecast**, 2 series, 115 test windows, at most 2 epochs" in text


def test_the_learning_rate_is_the_best_on_validation(ranked):
    """Of all but Fighter, for each horizon with seed 0, and then for the other seeds too."""
    folder, kept = ranked
    tried: dict[int, dict[float, float]] = {}
    for file in (folder / "runs").iterdir():
        run = json.loads(file.read_text())
        chosen, result = run["settings"], run["result"]
        if chosen["options"]["model"] == "linear" and chosen["seed"] == 0:
            scores = tried.setdefault(chosen["horizon"], {})
            scores[chosen["options"]["lr"]] = result["validation"]
    assert {horizon: {*scores} for horizon, scores in tried.items()} == {
        HORIZON: {*RATES},
        12: {*RATES},
    }
    for row in kept["rows"]:
        scores = tried[row["horizon"]]
        best = min(scores, key=lambda rate: scores[rate]) if row["model"] == "Linear" else None
        assert row["settings"]["options"].get("lr") == best


@pytest.mark.parametrize("model", ["Fighter", "Linear"])
def test_a_cell_comes_out_again_by_its_command(ranked, model, tmp_path, monkeypatch):
    row = next(row for row in ranked[1]["rows"] if row["model"] == model and row["seed"] == 1)
    program, *words = shlex.split(row["command"])
    assert program == "fighter"
    monkeypatch.chdir(tmp_path)  # from wherever
    assert main([*words, "--jobs", "1", "--results", "again"]) == 0
    (again,) = json.loads((tmp_path / "again" / "leaderboard.json").read_text())["rows"]
    for metric in ("mse", "mae", "validation"):
        assert again["result"][metric] == row["result"][metric]


def test_calls_add_up(path, tmp_path, capsys):
    """A later call ranks with what is there, replaces its own cells, and trains nothing twice."""
    command = (path, "--horizons", HORIZON, "--results", tmp_path, "--seeds", 0, 0)
    assert call(*command, "--models", "mean") == 0
    assert call(*command, "--models", "repeat") == 0
    capsys.readouterr()
    assert call(*command, "--models", "mean", "repeat", "mean") == 0
    said = capsys.readouterr().out
    assert "2 runs, 2 of them done before" in said
    order = re.findall(r"^\| (\w+) \| \d", said, re.M)
    kept = json.loads((tmp_path / "leaderboard.json").read_text())["rows"]
    assert order == [r["model"] for r in sorted(kept, key=lambda r: r["result"]["mse"])]
    assert sorted(order) == ["RepeatLast", "WindowMean"]


def test_results_belong_to_the_content_of_a_file(table, path, tmp_path, capsys):
    """Not to its name: not if it changes, not if another has the same, not if it has two."""
    file, other = tmp_path / "load.csv", tmp_path / "else" / "load.csv"
    other.parent.mkdir()
    file.write_bytes(path.read_bytes())
    command = ("--models", "mean", "--horizons", HORIZON, "--results", tmp_path / "out")
    assert call(file, *command) == 0
    first = capsys.readouterr().out
    assert call(path, *command) == 0
    assert "1 runs, 1 of them done before" in capsys.readouterr().out
    table.iloc[::-1].assign(date=table["date"]).to_csv(file, index=False)
    other.write_bytes(path.read_bytes())
    assert call(file, other, *command) == 0
    said = capsys.readouterr().out
    titles = re.findall(r"^\*\*load \((.*), \w{8}\): 96 steps seen", said, re.M)
    assert sorted(titles) == sorted([str(file), str(other)])
    assert len(re.findall(r"^\| WindowMean \| 0\.\d+ \|", said, re.M)) == 2  # no ± of two files
    assert first.partition("| WindowMean")[2].partition("\n")[0] in said


def test_seeds_of_several_calls_make_one_row(path, tmp_path, capsys):
    """At one learning rate; and what has no seed is run once, whichever are asked for."""
    command = (path, "--models", "linear", "naive", "--horizons", HORIZON, "--max-epochs", 1)
    for seed in (0, 3):
        assert call(*command, "--seeds", seed, "--results", tmp_path) == 0
    said = capsys.readouterr().out
    assert "3 runs to choose learning rates by, 1 others, then 1\n4 runs, 4 of them done" in said
    kept = json.loads((tmp_path / "leaderboard.json").read_text())["rows"]
    linear = [row for row in kept if row["model"] == "Linear"]
    assert [row["seed"] for row in linear] == [0, 3]
    assert len({row["settings"]["options"]["lr"] for row in linear}) == 1
    assert len(kept) == 3
    assert re.search(r"^\| SeasonalNaive \| 0\.\d+ \| 0\.\d+ \| \S+ Linear \|", said, re.M)


def test_against_another_number_of_seeds():
    """By the mean of the others, not by whichever seed of theirs comes first."""
    ours, others = ([{"mse": mse, "pieces": {"mse": [mse]}} for mse in many]
                    for many in ((1.0, 3.0, 5.0), (0.0, 8.0)))  # fmt: skip
    assert _against(ours, others, "Them") == "-25.0% Them, 2 of 3 seeds"


def test_a_call_in_which_all_fails(path, tmp_path, capsys, monkeypatch):
    def never(chosen, place):
        raise FighterError("it did not work")

    monkeypatch.setattr(cells, "perform", never)
    assert call(path, "--models", "mean", "--horizons", 6, "--results", tmp_path) == 1
    assert capsys.readouterr().err.startswith("fighter: 1 of 1 runs failed; the first: ")
    assert not (tmp_path / "leaderboard.json").exists()


def test_models_go_by_the_names_of_the_table(path, tmp_path):
    names = ("SeasonalNaive", "mean", "windowmean", "REPEAT")
    assert call(path, "--models", *names, "--horizons", 6, "--results", tmp_path) == 0
    kept = json.loads((tmp_path / "leaderboard.json").read_text())["rows"]
    assert [row["model"] for row in kept] == ["SeasonalNaive", "WindowMean", "RepeatLast"]


def test_marks_for_missing_values(table, tmp_path, capsys):
    """Told in flags that there are, and what was done with them is in title and command."""
    file, folder = tmp_path / "marked.csv", tmp_path / "out"
    table.assign(a=table["a"].where(table.index % 9 > 0, -9999)).to_csv(file, index=False)
    command = (file, "--models", "mean", "--horizons", HORIZON, "--results", folder)
    assert call(*command) == 0
    assert "pass --missing-values -9999 to leave them out" in capsys.readouterr().out
    assert call(*command, "--missing-values", -9999) == 0
    said = capsys.readouterr().out
    assert "115 test windows, without -9999\n" in said
    assert "115 test windows\n" in said  # the other table stays
    kept = json.loads((folder / "leaderboard.json").read_text())["rows"]
    assert "--missing-values -9999.0" in kept[1]["command"]
    assert kept[1]["result"]["mse"] != kept[0]["result"]["mse"]


def test_series_without_a_deviation_are_told(table, tmp_path, capsys):
    file, row = tmp_path / "steps.csv", table.index
    table.assign(
        late=table["a"].where(row >= 500), flat=1.0, moves=1.0 + (row > 490), b=table["b"] + 1e6
    ).to_csv(file, index=False)
    assert call(file, "--models", "mean", "--horizons", 6, "--results", tmp_path / "out") == 0
    assert "'late', 'moves': constant or not there" in capsys.readouterr().out


def test_other_budgets_are_other_tasks(path, tmp_path, capsys):
    command = (path, "--models", "linear", "--horizons", HORIZON, "--seeds", 0)
    for epochs, lr in ((2, 1e-3), (3, 1e-3)):
        flags = ("--max-epochs", epochs, "--lr", lr, "--results", tmp_path)
        assert call(*command, *flags) == 0
    said = capsys.readouterr().out
    title = "115 test windows, at most {} epochs, learning rate 0.001 for all but Fighter"
    assert said.count(title.format(2)) == 2  # the first call's table stays
    assert said.count(title.format(3)) == 1


def test_tables_with_other_models_each(path, tmp_path, capsys):
    """No ranks over tasks that do not have the same models."""
    folder = ("--results", tmp_path)
    assert call(path, "--models", "mean", "repeat", "--horizons", 6, *folder) == 0
    assert call(path, "--models", "mean", "naive", "--horizons", 12, *folder) == 0
    assert "Mean rank" not in capsys.readouterr().out


def test_ranks_are_over_most_cells(path, tmp_path, capsys):
    """One task with a model more, or one with a model alone, does not take the others' ranks."""
    folder = ("--results", tmp_path)
    assert call(path, "--models", "mean", "repeat", "--horizons", 6, 12, *folder) == 0
    assert call(path, "--models", "mean", "--horizons", 18, *folder) == 0
    assert call(path, "--models", "naive", "--horizons", 6, *folder) == 0
    said = capsys.readouterr().out.split("Written to")[-2]
    ranks = said[said.index("Mean rank of 2 models over the 2 tasks") :].partition("**\n\n**")[0]
    assert {line.split(" | ")[0] for line in ranks.splitlines()[4:6]} == {
        "| WindowMean",
        "| RepeatLast",
    }


def test_a_forecast_without_error(tmp_path, capsys):
    times = pd.date_range("2024-01-01", periods=300, freq="h")
    file = tmp_path / "flat.csv"
    pd.DataFrame({"ds": times, "a": np.arange(300) % 24.0}).to_csv(file, index=False)
    command = (file, "--models", "naive", "mean", "--results", tmp_path / "out")
    assert call(*command, "--lookback", 48) == 0
    said = capsys.readouterr().out
    assert re.search(r"^\| SeasonalNaive \| 0\.0000 .* \| -100\.0% WindowMean", said, re.M)
    assert re.search(r"^\| WindowMean \| \S+ \| \S+ \| SeasonalNaive", said, re.M)


def test_what_failed_is_told_after_the_rest(path, tmp_path, capsys, monkeypatch):
    def sometimes(chosen, place):
        if chosen["options"]["model"] == "repeat":
            raise FighterError("it did not work")
        return perform(chosen, place)

    monkeypatch.setattr(cells, "perform", sometimes)
    flags = ("--models", "mean", "repeat", "--horizons", 6, "--results", tmp_path)
    assert call(path, *flags) == 1
    spoken = capsys.readouterr()
    assert "| WindowMean |" in spoken.out
    assert spoken.out.count("it did not work") == 1  # not tried again
    assert "1 of 2 runs failed, the others are kept; the first: " in spoken.err
    assert spoken.err.endswith("it did not work\n")


def test_what_is_in_a_folder(path, tmp_path, nothing_cached, data_dir):
    for name in ("load.csv", "weather.csv"):  # the second is not the one that everybody knows
        (tmp_path / name).write_bytes(path.read_bytes() + name.encode()[:0] + b"\n" * len(name))
    (tmp_path / "text.csv").write_text("title,label\nSome news,1\n")
    (tmp_path / "notes.md").write_text("nothing")
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "copy.parquet").write_bytes((data_dir / "ETTh1.parquet").read_bytes())
    said = []
    found = find_datasets((), tmp_path, None, said.append)
    assert [(source.name, source.known) for source in found] == [
        ("ETTh1", "ETTh1"), ("load", None), ("weather", None),
    ]  # fmt: skip
    assert len(said) == 1
    assert said[0].startswith("text.csv is left out: ")
    (tmp_path / "load.csv").rename(tmp_path / "LOAD.CSV")
    assert [s.name for s in find_datasets((), tmp_path / "LOAD.CSV")] == ["LOAD"]
    assert [s.name for s in find_datasets(("etth1",), data_dir)] == ["ETTh1"]
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty.csv").touch()
    for data, place, message in (
        (("nothing",), None, "there is no data set 'nothing'"),
        (("nothing.csv",), None, "there is no file nothing.csv"),
        (("nowhere/nothing.xlsx",), None, "there is no file nowhere/nothing.xlsx"),
        ((str(tmp_path),), None, "is a folder"),
        ((), None, "weather was not found"),
        ((str(tmp_path / "empty.csv"),), None, f"^{tmp_path / 'empty.csv'} is empty"),
        ((), tmp_path / "empty", "has no CSV or Parquet file"),
        ((), tmp_path / "nowhere", "there is no such folder or file"),
    ):
        with pytest.raises(FighterError, match=message):
            find_datasets(data, place)


@pytest.fixture
def nothing_cached(tmp_path, monkeypatch):
    for name in ("FIGHTER_DATA", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "cache"))


def test_own_columns(table, tmp_path, capsys):
    file = tmp_path / "long.csv"
    long = table.rename(columns={"date": "when"}).melt("when", var_name="zone", value_name="mw")
    pd.concat([long, long.tail(3)]).to_csv(file, index=False)
    command = (file, "--models", "mean", "--horizons", HORIZON, "--results", tmp_path / "out")
    assert call(*command) == 1
    assert "--time-col" in capsys.readouterr().err
    names = ("--id-col", "zone", "--time-col", "when", "--target-col", "mw")
    assert call(*command, *names) == 0
    said = capsys.readouterr().out
    assert "2 series, 115 test windows" in said
    assert "3 duplicated" in said  # what was mended is told


def test_own_data_have_a_horizon_of_their_own(path, data_dir):
    assert horizons_for(file_dataset(path)) == (24,)
    assert horizons_for(known_dataset("ETTh1", data_dir)) == (96, 192)


def test_help_names_every_model(capsys):
    with pytest.raises(SystemExit):
        call("--help")
    said = " ".join(re.sub(r"[│\s]+", " ", capsys.readouterr().out).split())
    listed = said.partition("all unless given: ")[2].partition(".")[0]
    assert sorted(listed.split(", ")) == sorted(CORES)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--models", "nobody"], "'nobody' is not one of fighter"),
        (["--models", "mean", "load.csv"], "Files come first"),
        (["--models", "dlinaer"], "Did you mean 'dlinear'?"),
        (["--models", "naive,mean"], "Put spaces between names"),
        (["--lr", "inf"], "--lr inf: needs a number above 0"),
        (["--horizons", "400"], "400 steps do not fit into the 60 rows"),
        (["--horizons", "0"], "needs a whole number of at least 1"),
        (["--lookback", "500"], "do not fit into the 420 rows"),
        (["--lookback", "-3"], "--lookback -3: needs a whole number of at least 1"),
        (["--max-epochs", "0"], "--max-epochs 0: needs a whole number of at least 1"),
        (["--lr", "-1"], "--lr -1.0: needs a number above 0"),
        (["--seeds"], "seeds: give at least one"),
    ],
)
def test_wrong_input(path, tmp_path, capsys, arguments, message):
    """Told before anything is trained."""
    assert call(path, *arguments, "--results", tmp_path) == 1
    spoken = capsys.readouterr()
    assert message in spoken.err
    assert "runs" not in spoken.out


def test_rows_without_values_are_refused(table, tmp_path, capsys):
    file = tmp_path / "ends.csv"
    table.assign(
        a=table["a"].where(table.index < 470), b=table["b"].where(table.index < 470)
    ).to_csv(file, index=False)
    assert call(file, "--models", "mean", "--horizons", 6, "--results", tmp_path / "out") == 1
    assert "no value in the 120 rows to test" in capsys.readouterr().err


def test_too_few_rows(table, tmp_path, capsys):
    table.head(4).to_csv(tmp_path / "four.csv", index=False)
    assert call(tmp_path / "four.csv", "--models", "mean", "--results", tmp_path / "out") == 1
    assert "four has 4 rows, too few" in capsys.readouterr().err


def test_signs():
    draw = np.random.default_rng(0)
    noise = draw.normal(size=40)
    assert sign_test(noise, noise) == 1
    assert sign_test(noise, noise + 5) == sign_test(noise + 5, noise) == 1e-4
    few = np.arange(1.0, 8)
    assert sign_test(few, 0 * few) == 2 / 2**7  # all of them, and all of them turned
    # Under chance alone every value is as likely as any other.
    found = [sign_test(draw.normal(size=30), draw.normal(size=30), 200) for _ in range(200)]
    assert abs(np.mean(found) - 0.5) < 0.08
    assert 0.01 < np.mean(np.array(found) < 0.05) < 0.1


def cell(lookback, horizon, mse, validation, seed=0, model="Fighter", known="weather"):
    result = {"lookback": lookback, "mse": mse, "mae": mse / 2, "validation": validation}
    chosen = {"known": known}
    tags = {"model": model, "horizon": horizon, "seed": seed, "max_epochs": None}
    return {**tags, "settings": chosen, "result": result}


def test_published_numbers():
    rows = [
        cell(96, 96, 0.12, 0.3),
        cell(96, 96, 0.14, 0.3, seed=1),
        cell(512, 96, 0.11, 0.2),
        cell(720, 96, 0.10, 0.25),
        cell(96, 192, 0.2, 0.4),
        cell(512, 336, 0.2, 0.4),  # beside which nothing is known
        cell(96, 96, 0.01, 0.1, model="Linear"),
        cell(96, 96, 0.01, 0.1, known="ETTh1"),
    ]
    lines = published.section(rows).splitlines()[2:]
    assert [line.split(" | ")[0] for line in lines] == [
        "| 96 steps to 96", "| 96 steps to 192", "| 512 steps to 96", "| 720 steps to 96",
    ]  # fmt: skip
    assert [line.split(" | ")[2:] for line in lines] == [
        ["0.1300 ± 0.0141 / 0.0650 ± 0.0071", "0.3000", "2 |"],
        ["0.2000 / 0.1000", "0.4000", "1 |"],
        ["0.1100 / 0.0550", "0.2000", "1 |"],
        ["0.1000 / 0.0500", "0.2500", "1 |"],
    ]
    assert published.section(rows[-2:]) == ""


def test_the_page_in_the_docs_is_that_of_the_results(tmp_path):
    folder = ROOT / "results" / "accuracy"
    if not folder.exists():  # an installed copy
        pytest.skip("no results beside the tests")
    write_page(folder, tmp_path / "page.md")
    assert (tmp_path / "page.md").read_text() == (ROOT / "docs" / "accuracy.md").read_text()
