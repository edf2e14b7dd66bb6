import re

from fighter.benchmark.datasets import file_dataset
from fighter.benchmark.page import write_page
from fighter.benchmark.runs import Environment, add_rows, perform
from fighter.forecasting.forecaster import Forecaster
from paper.studies import search
from paper.studies.changes import CHANGES

from ...benchmark.test_contest import path, table  # noqa: F401
from .test_ablations import ORIGIN


def test_settings_are_compared_before_the_test_rows(monkeypatch, path, table, tmp_path):  # noqa: F811
    space = {"width": (8,), "lookback": (24,), "change": ("linear head",)}
    monkeypatch.setattr(search, "SPACE", space)
    source = file_dataset(path)
    runs = search.plan([source], [*search.variants()], [0, 1], 6, 12)
    labels = ["default", "width=8", "lookback=24", "linear head"]
    assert [run.tags["variant"] for run in runs[::2]] == labels
    assert [run.settings["lookback"] for run in runs[::2]] == [12, 12, 24, 12]
    rows = perform(runs, tmp_path / "runs", Environment(files={source.sha256: source.file}))

    # Other test rows, same results.
    changed = table.copy()
    changed.loc[table.index >= 0.8 * len(table), ["a", "b"]] *= 7
    changed.to_csv(tmp_path / "other.csv", index=False)
    other = file_dataset(tmp_path / "other.csv")
    place = Environment(files={other.sha256: other.file})
    (again,) = perform(search.plan([other], [], [0], 6, 12), tmp_path / "again", place)
    assert again["result"]["mse"] == rows[0]["result"]["mse"]

    before = [{**row, "around": "another"} for row in rows[:2]]
    for kept in (before, rows[:3], rows):  # the same cells again take the place of the old
        add_rows(tmp_path / search.FILE, {"provenance": ORIGIN}, kept, search.cell)
    said = write_page(tmp_path, tmp_path / "page.md")
    assert re.search(r"^\| default \| 0\.\d{4} / 0\.\d{4} \| 2 \|$", said, re.M)
    assert re.search(r"^\| lookback=24 \| [+-]\d+\.\d% / [+-]\d+\.\d% \| 2 \|$", said, re.M)
    assert re.search(r"^\| width=8 \| [+-]\d+\.\d% / [+-]\d+\.\d% \| 2 \|$", said, re.M)
    now, then = re.findall(r"^\*\*12 steps to 6\*\*, default: (.*)$", said, re.M)
    assert now.startswith("adjacency=lazy, layers=1, kappa=3, heads=8, members=4, discount=8.0")
    assert then == "another"


def test_every_setting_is_one():
    for options in search.variants().values():
        given = {name: value for name, value in options.items() if name != "change"}
        assert Forecaster(4, **given).get_params().items() >= given.items()
        assert options.get("change", "linear head") in CHANGES
