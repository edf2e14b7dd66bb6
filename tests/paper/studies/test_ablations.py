import re

import pytest

from fighter.benchmark import score as cells
from fighter.benchmark.datasets import file_dataset
from fighter.benchmark.page import write_page
from fighter.benchmark.runs import Environment, perform, write_rows
from fighter.errors import FighterError
from paper.studies import ablations
from paper.studies.ablations import GROUPS, plan

from ...benchmark.test_contest import path, table  # noqa: F401


@pytest.fixture
def small(monkeypatch, path):  # noqa: F811
    """A small table."""
    monkeypatch.setattr(ablations, "HORIZON", 8)
    monkeypatch.setattr(ablations, "LOOKBACK", 24)
    return file_dataset(path)


def test_every_variant_is_trained_and_told(small, tmp_path):
    runs = plan([small], [*GROUPS], [0], max_epochs=1)
    rows = perform(runs, tmp_path / "runs", Environment(files={small.sha256: small.file}))
    errors = {run.key: row["result"]["mse"] for run, row in zip(runs, rows, strict=True)}
    (default,) = {run.key for run in runs if run.tags["variant"] == "one member"}
    for run in runs:  # these are weeks, which the cycle is told, and no series has a limit
        if run.tags["variant"] in ("no calendar", "no limits"):
            assert errors.pop(run.key) == errors[default]
    assert len({*errors.values()}) == len(errors)  # no variant is another under a new name
    write_rows(tmp_path / ablations.FILE, {"provenance": ORIGIN}, rows)
    write_page(tmp_path, tmp_path / "page.md")
    text = (tmp_path / "page.md").read_text()
    assert "the same seeds (0)" in text
    for group, variants in GROUPS.items():
        part = text.partition(f"**{group}, 24 steps to 8**")[2].partition("**")[0]
        assert re.findall(r"^\| ([^|]+) \| [\d+-]\S*[\d%] ", part, re.M) == [*variants]
        assert re.search(r"^\| one member \| (0\.\d{4} / ){2}0\.\d{4} \|", part, re.M)
        assert "Best by the rows that choose: load " in part
    # A validation score that is no absolute error is not compared with those that are.
    assert re.search(r"^\| squared error \| \S+% / \S+% / - \|", text, re.M)


ORIGIN = {"command": "made up", "device": "cpu", "torch": "2", "date": "2024-01-01"}


def test_an_unknown_change_is_refused(small):
    chosen = cells.settings(small, 8, {}, lookback=24, change="nothing")
    with pytest.raises(FighterError, match="change='nothing': needs one of no basis"):
        cells.perform(chosen, Environment(files={small.sha256: small.file}))
