"""The accuracy pages, and the stored results that they are written from."""

import re
from pathlib import Path

import pytest

from fighter.benchmark.runs import read_results
from fighter.forecasting.config import Config
from paper.studies import page, published
from paper.studies.__main__ import COMMANDS, main
from paper.studies.changes import CHANGES

ROOT = Path(__file__).resolve().parents[3]
RESULTS = ROOT / "results" / "accuracy"
FILES = ("leaderboard", "ablations", "search", "small")

pytestmark = pytest.mark.skipif(not RESULTS.exists(), reason="no results beside the tests")


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("docs")
    assert main(["page", "--results", str(RESULTS), "--docs", str(folder)]) == 0
    return {file.name: file.read_text() for file in folder.iterdir()}


@pytest.mark.parametrize("name", ["accuracy.md", "accuracy-runs.md"])
def test_committed_page_is_the_rendered_one(pages, name):
    assert pages[name] == (ROOT / "docs" / name).read_text()


def test_pages_state_a_spread_over_seeds(pages):
    """They once said that one seed cannot tell, as no variant was called "default"."""
    spread = r"over seeds is \d\.\d% to (\d\.\d)%"
    for text, count in ((pages["accuracy.md"], 1), (pages["accuracy-runs.md"], 2)):
        found = re.findall(spread, text)
        assert len(found) == count
        assert all(0 < float(high) < 5 for high in found)
        assert "one seed only" not in text


def test_summary_is_short(pages):
    text = pages["accuracy.md"]
    prose = [line for line in text.splitlines() if not line.startswith("|")]
    assert len(" ".join(prose).split()) < 700
    assert len(re.findall(r"^\| --- \|", text, re.M)) == 2  # tables
    for fact in (
        "-3.5% | 5 of 5 | 0.0004",  # Weather, horizon 96
        "0.4169 ± 0.0011 PatchTST",  # the best other MAE is not that of the best MSE
        "look-back 288 to 720, horizon 192: 0.1804 to 0.1819 / 0.2198 to 0.2209",
        "0.337 / 0.333 (OLinear)",
        "DLinear's MSE is 7% higher in the median, and lower on 5",
        "1.2% to 2.0% behind a single member in MSE",
    ):
        assert fact in text, fact


def test_studies_without_results_are_left_out(tmp_path):
    (tmp_path / "small.json").write_text((RESULTS / "small.json").read_text())
    text = page.runs_page(tmp_path)
    assert re.findall(r"^## (.*)", text, re.M) == ["Small tables"]


@pytest.mark.parametrize("name", FILES)
def test_settings_of_stored_rows_can_be_rebuilt(name):
    """Rows whose settings the library does not have are marked and say where they come from."""
    rows = read_results(RESULTS / f"{name}.json")["rows"]
    for row in rows:
        if not row.get("reproducible", True):
            assert row["note"]
            continue
        settings = row["settings"]
        Config.from_flat(
            horizon=settings["horizon"],
            lookback=settings["lookback"],
            seed=settings["seed"],
            verbose=False,
            **settings["options"],
        )
        assert settings.get("change") in (None, *CHANGES)
    assert sum(row.get("reproducible", True) for row in rows) > len(rows) / 3


@pytest.mark.parametrize("name", FILES)
def test_stored_rows_have_their_origin(name):
    result = read_results(RESULTS / f"{name}.json")
    assert {"command", "commit", "date", "device", "torch"} <= result["provenance"].keys()
    for row in result["rows"]:
        assert row["commit"]
        assert len(row["settings"]["sha256"]) == 64


def test_commands_exist(capsys):
    assert main([]) == 0
    listed = capsys.readouterr().out
    assert all(f"  {name} " in listed for name in COMMANDS)
    assert main(["ablation"]) == 2
    assert "'ablations'" in capsys.readouterr().err
    for name in COMMANDS:
        with pytest.raises(SystemExit) as end:
            main([name, "--help"])
        assert end.value.code == 0
        assert f"python -m paper study {name}" in capsys.readouterr().out


# ---- published numbers ---------------------------------------------------------------------


def cell(lookback, horizon, mse, validation, seed=0, model="Fighter", known="weather"):
    result = {"lookback": lookback, "mse": mse, "mae": mse / 2, "validation": validation}
    tags = {"model": model, "horizon": horizon, "seed": seed, "max_epochs": None}
    return {**tags, "settings": {"known": known}, "result": result}


def test_published_numbers_stand_beside_ours():
    rows = [
        cell(96, 96, 0.12, 0.3),
        cell(96, 96, 0.14, 0.3, seed=1),
        cell(512, 96, 0.11, 0.2),
        cell(720, 96, 0.10, 0.25),
        cell(96, 192, 0.2, 0.4),
        cell(512, 336, 0.2, 0.4),  # nothing is published for it
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
