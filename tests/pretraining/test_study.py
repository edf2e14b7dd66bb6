"""The study of sizes, hops and families: a tiny one, resumed, and its table."""

import json
import sys

import pytest

from pretraining import study
from pretraining.generator import FAMILIES

from ..benchmarks.test_zoo import zoo  # noqa: F401


def call(monkeypatch, *flags) -> int:
    monkeypatch.setattr(sys, "argv", ["study", *map(str, flags)])
    return study.main()


def scores(mase: float) -> dict:
    row = {"mase": mase, "wql": mase, "cov80": 80.0, "cov95": 95.0, "tables": 2}
    return {"all": row, "daily": row, "hourly": row | {"mase": 2 * mase - 1}}


def result(name: str, mase: float) -> dict:
    variant = study.variants()[name]
    settings = {"steps": 100, "batch": 0.5, "windows": [0], "most": 9, "quick": False}
    kinds = {"alone": scores(mase), "linked": scores(mase - 0.1)}
    return {"group": variant.group, "parameters": 2_000_000, "settings": settings, **kinds}


def test_variants_cover_sizes_hops_and_every_family():
    found = study.variants()
    assert [name for name, v in found.items() if v.group == "size"] == [
        "20 M",
        "10 M",
        "5 M",
        "2 M",
    ]
    assert {name for name, v in found.items() if v.group == "hops"} == {"κ = 2", "κ = 4"}
    assert {v.flags[-1] for v in found.values() if v.group == "families"} == {*FAMILIES}
    assert len({study.file_name(name) for name in found}) == len(found)


@pytest.mark.parametrize(("name", "millions"), [("2 M", 2), ("5 M", 5), ("10 M", 10), ("20 M", 20)])
def test_sizes_are_about_what_they_are_called(name, millions):
    width, heads = (int(study.variants()[name].flags[i]) for i in (1, 3))
    options = {"width": width, "layers": 6, "kappa": 3, "heads": heads, "hidden": 4}
    assert study.count(options) / 1e6 == pytest.approx(millions, rel=0.12)


def test_the_table_compares_with_the_base_and_tells_what_seeds_do():
    done = {"κ = 2": result("κ = 2", 0.95)}
    with pytest.raises(SystemExit, match="no result of '2 M'"):
        study.render(done)
    done |= {name: result(name, mase) for name, mase in
             {"5 M": 0.85, "2 M": 0.9, "seed 1": 0.92, "seed 2": 0.89}.items()}  # fmt: skip
    text = study.render(done)
    assert "Three seeds of it differ by 0.030" in text
    rows = [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("| ")][1:]
    assert rows == ["2 M", "5 M", "seed 1", "seed 2", "κ = 2"]
    last = text.splitlines()[-1]
    assert "0.950" in last
    assert "0.850" in last
    assert "hourly, +12 %" in last


def test_the_page_is_written_between_its_marks(tmp_path, monkeypatch):
    page, results = tmp_path / "page.md", tmp_path / "r.json"
    results.write_text(json.dumps({"variants": {"2 M": result("2 M", 0.9)}}))
    flags = ["--only-page", "--page", page, "--results", results]
    page.write_text("before")
    with pytest.raises(SystemExit, match="no place for the table"):
        call(monkeypatch, *flags)
    page.write_text(f"before\n{study.BEGIN}\nold\n{study.END}\nafter\n")
    assert call(monkeypatch, *flags) == 0
    assert call(monkeypatch, *flags) == 0
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith(f"{study.END}\nafter\n")
    assert text.count("| 2 M |") == 1
    assert "old" not in text


def test_a_call_whose_time_is_over_keeps_what_is_finished(tmp_path, monkeypatch, capsys):
    flags = ["--folder", tmp_path, "--results", tmp_path / "r.json", "--steps", 100]
    flags += ["--batch", 0.5, "--most", 9, "--variants", "2 M", "κ = 2", "--minutes", 0]
    (tmp_path / "2-M.json").write_text(json.dumps(result("2 M", 0.9)))
    assert call(monkeypatch, *flags) == 1
    assert "missing: κ = 2" in capsys.readouterr().out
    assert [*json.loads((tmp_path / "r.json").read_text())["variants"]] == ["2 M"]
    with pytest.raises(SystemExit, match="other settings"):
        call(monkeypatch, *flags, "--windows", 0, 1)


@pytest.mark.slow
def test_a_quick_study_runs_and_resumes(tmp_path, monkeypatch, zoo, capsys):  # noqa: F811
    flags = ["--quick", "--jobs", 2, "--zoo", zoo, "--folder", tmp_path / "study"]
    flags += ["--results", tmp_path / "r.json", "--variants", "2 M", "without counts"]
    assert call(monkeypatch, *flags) == 0
    told = json.loads((tmp_path / "r.json").read_text())
    assert told["variants"]["without counts"]["without"] == ["counts"]
    assert told["variants"]["2 M"]["alone"]["all"]["tables"] == 2
    assert told["provenance"]["command"].startswith("python -m pretraining.study --quick")
    assert "steps in" in capsys.readouterr().out
    assert call(monkeypatch, *flags) == 0
    assert "steps in" not in capsys.readouterr().out
