"""Runs of studies: with a change of the network, and without the test rows."""

import numpy as np
import pytest

from fighter.benchmark import score as plain
from fighter.benchmark.datasets import file_dataset, with_files
from fighter.benchmark.runs import Environment
from fighter.errors import FighterError
from paper.studies.score import KIND, perform, settings
from tests.benchmark.load import ROWS

SMALL = {"members": 1, "width": 16, "heads": 2, "max_epochs": 1}


def scored(dataset, options=SMALL, **more):
    environment = with_files(Environment(), [dataset])
    return perform(settings(dataset, 8, options, lookback=24, **more), environment)


def test_kind_is_the_name_of_the_module():
    assert KIND == "paper.studies.score"


def test_run_without_a_change_scores_like_the_leaderboard(dataset):
    """A study is of the network alone."""
    environment = with_files(Environment(), [dataset])
    wanted = plain.perform(
        plain.settings(dataset, 8, {**SMALL, "smoothing": False}, lookback=24), environment
    )
    found = scored(dataset)
    assert {"hop 1 share", "hop 2 share"} <= found.pop("hops").keys()
    assert "hops" not in wanted
    for result in (found, wanted):
        result.pop("train_seconds")
    assert found == wanted


def test_change_is_applied_before_training(dataset):
    assert scored(dataset, change="linear head")["parameters"] < scored(dataset)["parameters"]


def test_unknown_change_is_refused(dataset):
    with pytest.raises(FighterError, match="no basis") as error:
        scored(dataset, change="nothing")
    assert (error.value.argument, error.value.value) == ("change", "nothing")


def test_inner_split_does_not_look_at_the_test_rows(table, tmp_path):
    found = []
    for last in (1.0, 100.0):
        file = tmp_path / f"{last}.csv"
        scale = np.where(np.arange(ROWS) < 480, 1.0, last)
        table.assign(a=table["a"] * scale).to_csv(file, index=False)
        found.append(scored(file_dataset(file), {"model": "mean"}, inner=True))
    assert found[0]["mse"] == found[1]["mse"]
    assert found[0]["windows"] == 96 - 8 + 1  # the last 20 % of the 480 rows before the test rows
