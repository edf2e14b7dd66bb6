"""``fighter leaderboard``: what it measures, stores and prints."""

import json
import re
import shlex

import numpy as np
import pandas as pd
import pytest

from fighter.benchmark import score
from fighter.benchmark.contest import RATES, Contest, check_rows, find_models
from fighter.benchmark.datasets import file_dataset
from fighter.cli import main
from fighter.errors import FighterError
from fighter.models import MODELS

HORIZON = 6


def stored(folder):
    return json.loads((folder / "leaderboard.json").read_text())["rows"]


@pytest.fixture(scope="module")
def ranked(call, path, tmp_path_factory):
    """The folder of one call, and what it stored."""
    folder = tmp_path_factory.mktemp("results")
    command = (path, "--models", "fighter", "linear", "mean", "--horizons", HORIZON, 12)
    assert call(*command, "--seeds", 0, 1, "--max-epochs", 1, "--results", folder) == 0
    return folder, json.loads((folder / "leaderboard.json").read_text())


# ---- what is measured ----------------------------------------------------------------------


def test_every_cell_is_stored(ranked):
    folder, kept = ranked
    cells = {(row["model"], row["horizon"], row["seed"]) for row in kept["rows"]}
    trained = {(m, h, s) for m in ("Fighter", "Linear") for h in (HORIZON, 12) for s in (0, 1)}
    assert cells == trained | {("WindowMean", h, 0) for h in (HORIZON, 12)}
    assert kept["provenance"]["device"].startswith("cpu: ")
    text = (folder / "accuracy.md").read_text()
    assert "Mean rank of 3 models over the 2 tasks" in text
    assert "load: look-back 96, horizon 6**, 2 series, 115 test windows, at most 1 epoch\n" in text


def test_learning_rate_is_the_best_on_the_validation_rows(ranked):
    """It is chosen for each model but Fighter and each horizon, with seed 0, for all seeds."""
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
def test_command_of_a_cell_reproduces_it(ranked, model, tmp_path, monkeypatch):
    row = next(row for row in ranked[1]["rows"] if row["model"] == model and row["seed"] == 1)
    program, *words = shlex.split(row["command"])
    assert program == "fighter"
    monkeypatch.chdir(tmp_path)  # from any folder
    assert main([*words, "--jobs", "1", "--results", "again"]) == 0
    (again,) = stored(tmp_path / "again")
    for metric in ("mse", "mae", "validation"):
        assert again["result"][metric] == row["result"][metric]


# ---- several calls -------------------------------------------------------------------------


def test_later_call_ranks_with_earlier_results_and_trains_nothing_twice(
    call, path, tmp_path, capsys
):
    command = (path, "--horizons", HORIZON, "--results", tmp_path, "--seeds", 0, 0)
    assert call(*command, "--models", "mean") == 0
    assert call(*command, "--models", "repeat") == 0
    capsys.readouterr()
    assert call(*command, "--models", "mean", "repeat", "mean") == 0
    said = "".join(capsys.readouterr())
    assert "2 runs, 2 of them done before" in said
    order = re.findall(r"^\| (\w+) \| \d", said, re.M)
    kept = stored(tmp_path)
    assert order == [r["model"] for r in sorted(kept, key=lambda r: r["result"]["mse"])]
    assert sorted(order) == ["RepeatLast", "WindowMean"]


def test_results_belong_to_the_content_of_a_file(call, table, path, tmp_path, capsys):
    """The name does not matter: it may change, be used twice, or stand for other content."""
    file, other = tmp_path / "load.csv", tmp_path / "else" / "load.csv"
    other.parent.mkdir()
    file.write_bytes(path.read_bytes())
    command = ("--models", "mean", "--horizons", HORIZON, "--results", tmp_path / "out")
    assert call(file, *command) == 0
    first = "".join(capsys.readouterr())
    assert call(path, *command) == 0
    assert "1 runs, 1 of them done before" in "".join(capsys.readouterr())
    table.iloc[::-1].assign(date=table["date"]).to_csv(file, index=False)
    other.write_bytes(path.read_bytes())
    assert call(file, other, *command) == 0
    said = "".join(capsys.readouterr())
    titles = re.findall(r"^\*\*load \((.*), \w{8}\): look-back 96", said, re.M)
    assert sorted(titles) == sorted([str(file), str(other)])
    assert len(re.findall(r"^\| WindowMean \| 0\.\d+ \|", said, re.M)) == 2  # no ± of two files
    assert first.partition("| WindowMean")[2].partition("\n")[0] in said


def test_seeds_of_several_calls_share_a_row(call, path, tmp_path, capsys):
    """They share a learning rate, and a model without seeds runs once."""
    command = (path, "--models", "linear", "naive", "--horizons", HORIZON, "--max-epochs", 1)
    for seed in (0, 3):
        assert call(*command, "--seeds", seed, "--results", tmp_path) == 0
    said = "".join(capsys.readouterr())
    assert "3 runs to choose learning rates by, 1 others, then 1\n4 runs, 4 of them done" in said
    kept = stored(tmp_path)
    linear = [row for row in kept if row["model"] == "Linear"]
    assert [row["seed"] for row in linear] == [0, 3]
    assert len({row["settings"]["options"]["lr"] for row in linear}) == 1
    assert len(kept) == 3
    assert re.search(r"^\| SeasonalNaive \| 0\.\d+ \| 0\.\d+ \| \S+ Linear \|", said, re.M)


def test_other_budgets_are_other_tasks(call, path, tmp_path, capsys):
    command = (path, "--models", "linear", "--horizons", HORIZON, "--seeds", 0)
    for epochs, lr in ((2, 1e-3), (3, 1e-3)):
        flags = ("--max-epochs", epochs, "--lr", lr, "--results", tmp_path)
        assert call(*command, *flags) == 0
    said = "".join(capsys.readouterr())
    title = "115 test windows, at most {} epochs, learning rate 0.001 for all but Fighter"
    assert said.count(title.format(2)) == 2  # the table of the first call stays
    assert said.count(title.format(3)) == 1


def test_tasks_with_different_models_have_no_ranks(call, path, tmp_path, capsys):
    folder = ("--results", tmp_path)
    assert call(path, "--models", "mean", "repeat", "--horizons", 6, *folder) == 0
    assert call(path, "--models", "mean", "naive", "--horizons", 12, *folder) == 0
    assert "Mean rank" not in "".join(capsys.readouterr())


def test_ranks_cover_most_cells(call, path, tmp_path, capsys):
    """A task with one more model, or with a single model, does not remove the ranks."""
    folder = ("--results", tmp_path)
    assert call(path, "--models", "mean", "repeat", "--horizons", 6, 12, *folder) == 0
    assert call(path, "--models", "mean", "--horizons", 18, *folder) == 0
    assert call(path, "--models", "naive", "--horizons", 6, *folder) == 0
    said = capsys.readouterr().out.split("Lower is better")[-2]
    ranks = said[said.index("Mean rank of 2 models over the 2 tasks") :].partition("**\n\n**")[0]
    assert {line.split(" | ")[0] for line in ranks.splitlines()[4:6]} == {
        "| WindowMean",
        "| RepeatLast",
    }


# ---- failures ------------------------------------------------------------------------------


def test_call_without_any_result_writes_no_file(call, path, tmp_path, capsys, monkeypatch):
    def never(chosen, environment):
        raise FighterError("it did not work")

    monkeypatch.setattr(score, "perform", never)
    assert call(path, "--models", "mean", "--horizons", 6, "--results", tmp_path) == 1
    assert "\nfighter: 1 of 1 runs failed; the first: " in capsys.readouterr().err
    assert not (tmp_path / "leaderboard.json").exists()


def test_failures_are_reported_after_the_other_results(call, path, tmp_path, capsys, monkeypatch):
    perform = score.perform

    def sometimes(chosen, environment):
        if chosen["options"]["model"] == "repeat":
            raise FighterError("it did not work")
        return perform(chosen, environment)

    monkeypatch.setattr(score, "perform", sometimes)
    flags = ("--models", "mean", "repeat", "--horizons", 6, "--results", tmp_path)
    assert call(path, *flags) == 1
    spoken = capsys.readouterr()
    assert "| WindowMean |" in spoken.out
    said, _, last = spoken.err.partition("fighter: ")
    assert said.count("it did not work") == 1  # it is not tried again
    assert "1 of 2 runs failed, the others are kept; the first: " in last
    assert last.endswith("it did not work\n")


# ---- tables --------------------------------------------------------------------------------


def test_models_are_found_by_column_name_in_any_case(call, path, tmp_path):
    names = ("SeasonalNaive", "mean", "windowmean", "REPEAT")
    assert call(path, "--models", *names, "--horizons", 6, "--results", tmp_path) == 0
    kept = stored(tmp_path)
    assert [row["model"] for row in kept] == ["SeasonalNaive", "WindowMean", "RepeatLast"]


def test_suspected_missing_values_are_reported(call, table, tmp_path, capsys):
    file, folder = tmp_path / "marked.csv", tmp_path / "out"
    table.assign(a=table["a"].where(table.index % 9 > 0, -9999)).to_csv(file, index=False)
    command = (file, "--models", "mean", "--horizons", HORIZON, "--results", folder)
    assert call(*command) == 0
    assert re.search(r"marked\.csv: .*-9999", "".join(capsys.readouterr()))
    assert call(*command, "--missing-values", -9999) == 0
    said = "".join(capsys.readouterr())
    assert "115 test windows, missing values -9999\n" in said
    assert "115 test windows\n" in said  # the other table stays
    kept = stored(folder)
    assert "--missing-values -9999.0" in kept[1]["command"]
    assert kept[1]["result"]["mse"] != kept[0]["result"]["mse"]


def test_series_that_cannot_be_scaled_are_reported(call, table, tmp_path, capsys):
    file, row = tmp_path / "steps.csv", table.index
    table.assign(
        late=table["a"].where(row >= 500), flat=1.0, moves=1.0 + (row > 490), b=table["b"] + 1e6
    ).to_csv(file, index=False)
    assert call(file, "--models", "mean", "--horizons", 6, "--results", tmp_path / "out") == 0
    assert "'late', 'moves': constant or missing" in "".join(capsys.readouterr())


def test_forecast_without_error_is_ranked(call, tmp_path, capsys):
    times = pd.date_range("2024-01-01", periods=300, freq="h")
    file = tmp_path / "flat.csv"
    pd.DataFrame({"ds": times, "a": np.arange(300) % 24.0}).to_csv(file, index=False)
    command = (file, "--models", "naive", "mean", "--results", tmp_path / "out")
    assert call(*command, "--lookback", 48) == 0
    said = "".join(capsys.readouterr())
    assert re.search(r"^\| SeasonalNaive \| 0\.0000 .* \| -100\.0% WindowMean", said, re.M)
    assert re.search(r"^\| WindowMean \| \S+ \| \S+ \| SeasonalNaive", said, re.M)


def test_columns_of_a_long_table_can_be_named(call, table, tmp_path, capsys):
    file = tmp_path / "long.csv"
    long = table.rename(columns={"date": "when"}).melt("when", var_name="zone", value_name="mw")
    pd.concat([long, long.tail(3)]).to_csv(file, index=False)
    command = (file, "--models", "mean", "--horizons", HORIZON, "--results", tmp_path / "out")
    assert call(*command) == 1
    said = capsys.readouterr().err
    assert "long.csv" in said
    assert "time" in said
    names = ("--id-col", "zone", "--time-col", "when", "--target-col", "mw")
    assert call(*command, *names) == 0
    said = "".join(capsys.readouterr())
    assert "2 series, 115 test windows" in said
    assert "3 duplicated" in said  # what was changed in the table is reported


def test_tables_are_read_with_the_flags_of_forecast(call, table, tmp_path, capsys):
    file = tmp_path / "ours.csv"
    days = table.date.dt.strftime("%Y_%m_%d %H")
    table.assign(date=days, Größe="klein").to_csv(file, index=False, encoding="latin-1")
    command = (file, "--models", "mean", "--horizons", HORIZON, "--results", tmp_path / "out")
    flags = ("--encoding", "latin-1", "--date-format", "%Y_%m_%d %H", "--drop", "Größe")
    assert call(*command) == 1
    assert call(*command, *flags) == 0
    assert call(*command, *flags[:4], "--columns", *table.columns[1:]) == 0
    assert "2 series, 115 test windows" in "".join(capsys.readouterr())


def test_unused_columns_are_not_reported(call, table, tmp_path, capsys):
    """A leaderboard takes no covariates, so a column of text is of no interest."""
    file = tmp_path / "noted.csv"
    long = table.melt("date", var_name="unique_id", value_name="y").rename(columns={"date": "ds"})
    long.assign(remark="fine").to_csv(file, index=False)
    flags = ("--models", "mean", "--horizons", HORIZON, "--results", tmp_path / "out")
    assert call(file, *flags) == 0
    assert "remark" not in "".join(capsys.readouterr())


# ---- wrong input ---------------------------------------------------------------------------


def test_help_names_every_model(call, capsys):
    assert call("--help") == 0
    said = " ".join(capsys.readouterr().out.split())
    listed = said.partition("(default: all): ")[2].partition(".")[0]
    assert sorted(listed.split(", ")) == sorted(MODELS)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("nobody", "fighter"),
        ("load.csv", "Files come first"),
        ("dlinaer", "Did you mean 'dlinear'?"),
        ("naive,mean", "Put spaces between names"),
    ],
)
def test_unknown_model(name, hint):
    with pytest.raises(FighterError) as error:
        find_models(["mean", name])
    assert (error.value.argument, error.value.value) == ("models", name)
    assert hint in error.value.reason


@pytest.mark.parametrize(
    ("settings", "argument", "value"),
    [
        ({"lr": float("inf")}, "lr", float("inf")),
        ({"lr": -1.0}, "lr", -1.0),
        ({"horizons": 400}, "horizons", 400),
        ({"horizons": 0}, "horizons", 0),
        ({"lookback": 500}, "lookback", 500),
        ({"lookback": -3}, "lookback", -3),
        ({"max_epochs": 0}, "max_epochs", 0),
        ({"seeds": ()}, "seeds", None),
    ],
)
def test_settings_of_a_contest_are_checked(path, settings, argument, value):
    horizons = {file_dataset(path): (settings.pop("horizons", HORIZON),)}
    with pytest.raises(FighterError) as error:
        Contest(("mean",), horizons, **settings)
    assert (error.value.argument, error.value.value) == (argument, value)


def test_rows_that_do_not_suffice_are_counted(path):
    dataset = file_dataset(path)
    with pytest.raises(FighterError, match="60 validation rows"):
        check_rows(dataset, 400, None)
    with pytest.raises(FighterError, match="420 training rows"):
        check_rows(dataset, HORIZON, 500)


def test_wrong_input_is_reported_before_any_training(call, path, tmp_path, capsys):
    assert call(path, "--lookback", 500, "--results", tmp_path) == 1
    spoken = capsys.readouterr()
    assert "--lookback 500: " in spoken.err
    assert "runs" not in spoken.out + spoken.err


def test_rows_without_values_are_reported(table, tmp_path):
    file = tmp_path / "ends.csv"
    table.assign(
        a=table["a"].where(table.index < 470), b=table["b"].where(table.index < 470)
    ).to_csv(file, index=False)
    with pytest.raises(FighterError, match="ends has no value in its 120 test rows, 481 to 600"):
        check_rows(file_dataset(file), HORIZON, None)


def test_too_few_rows_are_reported(table, tmp_path):
    table.head(4).to_csv(tmp_path / "four.csv", index=False)
    with pytest.raises(FighterError, match="four has 4 rows"):
        check_rows(file_dataset(tmp_path / "four.csv"), 1, None)
