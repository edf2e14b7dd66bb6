import re

import pytest

from fighter.benchmark.datasets import with_files
from fighter.benchmark.runs import Environment, perform
from paper.studies import ablations
from paper.studies.ablations import BASELINE, GROUPS, plan


@pytest.mark.slow
def test_every_variant_is_trained_and_shown(dataset, monkeypatch, tmp_path):
    monkeypatch.setattr(ablations, "HORIZON", 8)
    monkeypatch.setattr(ablations, "LOOKBACK", 24)
    runs = plan([dataset], [*GROUPS], [0], max_epochs=1)
    rows = perform(runs, tmp_path / "runs", with_files(Environment(), [dataset]))
    errors = {run.key: row["result"]["mse"] for run, row in zip(runs, rows, strict=True)}
    (default,) = {run.key for run in runs if run.tags["baseline"]}
    # The table covers weeks, which the cycle encodes already, and no series has bounds.
    same = [run for run in runs if run.tags["variant"] in ("no calendar", "no bounds")]
    assert len(same) == 2
    for run in same:
        assert errors.pop(run.key) == errors[default]
    assert len({*errors.values()}) == len(errors)  # no variant equals another
    text = ablations.section(rows)
    for group, variants in GROUPS.items():
        part = text.partition(f"**{group}: look-back 24, horizon 8**")[2].partition("**")[0]
        assert re.findall(r"^\| ([^|]+) \| [\d+-]\S*[\d%] ", part, re.M) == [*variants]
        assert re.search(r"^\| one member \| (0\.\d{4} / ){2}0\.\d{4} \|", part, re.M)
        assert "Best on the validation rows: load " in part
    # A validation score that is no absolute error is not compared with those that are.
    assert re.search(r"^\| squared error \| \S+% / \S+% / - \|", text, re.M)


def test_every_group_has_one_baseline(dataset):
    for group in GROUPS:
        runs = plan([dataset], [group], [0])
        assert [run.tags["variant"] for run in runs if run.tags["baseline"]] == [BASELINE]
