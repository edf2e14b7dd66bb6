import re

from fighter.benchmark.datasets import with_files
from fighter.benchmark.result import Record
from fighter.benchmark.runs import Environment, perform
from fighter.forecasting.config import Config
from fighter.forecasting.forecaster import Forecaster
from paper.studies import search
from paper.studies.changes import CHANGES


def test_settings_are_compared_with_the_default(monkeypatch, dataset, tmp_path):
    monkeypatch.setattr(search, "SPACE", {"width": (8,), "lookback": (24,)})
    monkeypatch.setattr(search, "CHANGES", ("linear head",))
    runs = search.plan([dataset], [*search.variants()], [0, 1], 6, 12, max_epochs=1)
    names = ["default", "width=8", "lookback=24", "linear head"]
    assert [run.tags["variant"] for run in runs[::2]] == names
    assert [run.settings["lookback"] for run in runs[::2]] == [12, 12, 24, 12]
    assert all(run.settings["inner"] for run in runs)  # the test rows are not looked at
    rows = perform(runs, tmp_path / "runs", with_files(Environment(), [dataset]))
    text = search.section(rows)
    assert re.search(r"^\| default \| \d\.\d{4} / \d\.\d{4} \| 2 \|$", text, re.M)
    for name in names[1:]:
        line = rf"^\| {re.escape(name)} \| [+-]\d+\.\d% / [+-]\d+\.\d% \| 2 \|$"
        assert re.search(line, text, re.M), name


def row(default: dict, note: str, variant: str = "default") -> Record:
    return {
        "variant": variant, "baseline": variant == "default", "data": "load", "seed": 0,
        "default": default, "note": note, "lookback": 12, "settings": {"horizon": 6},
        "result": {"mse": 1.0, "mae": 1.0},
    }  # fmt: skip


def test_table_of_the_present_default_comes_first():
    rows = [row({"layers": 9}, "by hand"), row({"layers": 9}, ""), row(dict(search.DEFAULT), "")]
    titles = re.findall(r"^\*\*look-back 12, horizon 6\*\*, (.*)$", search.section(rows), re.M)
    present = ", ".join(f"{name}={value}" for name, value in search.DEFAULT.items())
    assert titles == [f"default: {present}", "default: layers=9 (by hand)", "default: layers=9"]


def test_other_defaults_are_other_cells():
    rows = [row({"layers": 9}, ""), row({"layers": 9}, "by hand"), row({"layers": 1}, "")]
    assert len({search.cell(found) for found in rows}) == 3


def test_every_setting_exists():
    for variant in search.variants().values():
        Config.from_flat(horizon=4, verbose=False, **variant.options)
        assert variant.change in (None, *CHANGES)


def test_default_of_the_titles_is_the_default(table):
    model = Forecaster.from_flat(horizon=4, lookback=8, max_epochs=1, verbose=False, device="cpu")
    chosen = model.fit(table.head(60)).plan.model
    shown = dict(search.DEFAULT)
    assert shown.pop("discount") == model.training.discount
    assert shown.pop("bounds") == model.frame.bounds
    assert {name: getattr(chosen, name) for name in shown} == shown
