import re
from pathlib import Path

import pytest

from fighter.benchmark import result as text_of
from fighter.errors import FighterError
from paper.reproduction import figures
from paper.reproduction.page import ORDER, QUICK, RENAMED, write_page
from tests.paper.reproduction.results import everything, forecasts, store, sweep

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def results():
    return everything()


@pytest.fixture(scope="module")
def page(results, tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    store(folder, results)
    verdicts = write_page(folder, folder / "page.md")
    return folder / "page.md", verdicts


def tables_of(text):
    """Return each table as rows of cells."""
    blocks = re.findall(r"(?:^\|.*\|$\n?)+", text, flags=re.MULTILINE)
    return [[line[2:-2].split(" | ") for line in block.splitlines()] for block in blocks]


def test_every_table_has_equal_columns(page):
    tables = tables_of(page[0].read_text())
    assert len(tables) == 1 + 4 + 1 + 1 + 1  # verdicts, four of Table 1, κ, AG News, hops
    for table in tables:
        assert len({len(row) for row in table}) == 1
        assert {*table[1]} == {"---"}


def test_every_picture_exists(page):
    path, _ = page
    pictures = re.findall(r"!\[[^]]+\]\(([^)]+)\)", path.read_text())
    assert sorted(pictures) == sorted(
        f"page/{name}.png"
        for name in ("kappa", "agnews", "heatmaps", "hops", "diagnostics", "backward")
    )
    for picture in pictures:
        assert (path.parent / picture).read_bytes().startswith(b"\x89PNG")
    assert {p.name for p in (path.parent / "page").iterdir()} == {p[5:] for p in pictures}


def test_every_experiment_has_its_section_and_provenance(page):
    text = page[0].read_text()
    titles = re.findall(r"^## (.*)$", text, flags=re.MULTILINE)
    assert titles == [
        "Table 1: forecasting",
        "κ on Weather",
        "AG News",
        "Heat maps",
        "Backward pass",
    ]
    for name in ORDER:
        assert re.search(rf"<sub>\d+ runs?, .*code abc; `{name}.json`\.</sub>", text)
    assert "{" not in text  # every number is filled in
    assert "standard deviation over 3 seeds" in text
    assert "43,361 of the 120,000" in text
    assert QUICK not in text
    assert RENAMED not in text


def test_a_table_has_the_papers_numbers_and_ours_in_both_units(page):
    tables = tables_of(page[0].read_text())
    weather = next(table for table in tables if table[0][1:3] == ["paper", "standardised"])
    rows = {row[0]: row for row in weather}
    assert rows["model"][6] == "sentinels cleaned"
    assert rows["Fighter κ=3"][1] == "0.008 / 0.057"  # the longer horizon comes first
    assert rows["Fighter κ=3"][2] == "0.300 ± 0.001 / 0.548 ± 0.001"
    assert rows["Fighter κ=3"][3] == "0.0100 ± 0.0000 / 0.1000 ± 0.0002"
    assert rows["DLinear"][1] == "-"
    assert rows["window mean"][2] == "0.299 / 0.547"
    assert rows["window mean"][-2:] == ["0", "-"]
    stand_in = next(table for table in tables if "paper, on Electricity" in table[0])
    assert "sentinels cleaned" not in stand_in[0]


def test_the_verdicts_returned_are_those_of_the_page(page):
    path, said = page
    verdicts = tables_of(path.read_text())[0][2:]
    assert len(verdicts) == 12
    for claim, verdict, evidence in verdicts:
        assert re.search(rf"{verdict} +{re.escape(claim)}\n +{re.escape(evidence)}", said)


@pytest.fixture
def without_pictures(monkeypatch):
    monkeypatch.setattr(figures, "save_figure", lambda figure, path: None)


@pytest.mark.usefixtures("without_pictures")
def test_the_page_depends_on_the_results_alone(page, results, tmp_path):
    store(tmp_path, results)
    write_page(tmp_path, tmp_path / "page.md")
    assert (tmp_path / "page.md").read_text() == page[0].read_text()


def test_experiments_that_were_not_run_are_left_out_and_named(tmp_path):
    store(tmp_path, {"kappa": sweep({1: 0.3, 2: 0.2})})
    write_page(tmp_path, tmp_path / "docs" / "p.md")
    text = (tmp_path / "docs" / "p.md").read_text()
    assert "## κ on Weather" in text
    assert "![Errors over κ](p/kappa.png)" in text
    assert "## AG News" not in text
    missing = text[text.index("## Not in these results") :]
    assert re.findall(r"python -m paper reproduce (\w+)", missing) == [
        "table1",
        "agnews",
        "heatmaps",
        "backward",
    ]


def test_results_of_the_former_command_come_with_a_note(tmp_path):
    store(tmp_path, {"kappa": sweep({1: 0.3, 2: 0.2})}, program="fighter")
    write_page(tmp_path, tmp_path / "p.md")
    assert f"\n{RENAMED}\n" in (tmp_path / "p.md").read_text()


def test_a_small_version_says_so_on_the_page_and_in_the_terminal(tmp_path):
    store(tmp_path, {"table1": forecasts()}, quick=True)
    said = write_page(tmp_path, tmp_path / "p.md")
    assert f"\n**{QUICK}**\n" in (tmp_path / "p.md").read_text()
    assert said.startswith(QUICK)


@pytest.mark.parametrize("damage", [lambda text: text[:-5], lambda text: "[1]", lambda text: "{}"])
def test_a_damaged_result_is_reported_by_its_name(tmp_path, damage):
    store(tmp_path, {"kappa": sweep({1: 0.3})})
    path = tmp_path / "kappa.json"
    path.write_text(damage(path.read_text()))
    with pytest.raises(FighterError, match=re.escape(str(path))):
        write_page(tmp_path, tmp_path / "p.md")


def test_numbers_of_several_seeds_are_mean_and_deviation():
    results = [{"a": 0.01}, {"a": 0.02}, {"a": 0.03}]
    assert text_of.number(results, "a") == "0.0200 ± 0.0100"
    assert text_of.number([{"a": 0.5}], "a") == "0.500"
    assert text_of.number(None, "a") == text_of.pair([], "minmax") == "-"
    assert text_of.pair([{"x_mse": 0.25, "x_mae": 0.05}], "x") == "0.250 / 0.0500"
    assert text_of.count([{"n": 1000}, {"n": 2001}], "n") == "1,500"
    assert text_of.count([{"n": None}], "n") == "-"
    rows = [{"a": 1, "b": k, "result": {"r": k}} for k in (1, 2)]
    assert text_of.by(rows, "a") == {1: [{"r": 1}, {"r": 2}]}
    assert text_of.by(rows, "a", "b") == {(1, 1): [{"r": 1}], (1, 2): [{"r": 2}]}


@pytest.mark.usefixtures("without_pictures")
def test_the_page_in_the_documentation_is_rendered_from_the_results(tmp_path):
    """Whoever changes words, claims or results has to render the page again."""
    folder, page = ROOT / "results" / "reproduction", ROOT / "docs" / "reproduction.md"
    if not [*folder.glob("*.json")]:
        pytest.skip("there are no results of the reproduction (results/reproduction)")
    write_page(folder, tmp_path / page.name)
    text = (tmp_path / page.name).read_text(encoding="utf-8")
    assert page.read_text(encoding="utf-8") == text, (
        "render it: python -c 'from pathlib import Path; from paper.reproduction.page import "
        'write_page; write_page(Path("results/reproduction"), Path("docs/reproduction.md"))\''
    )
    for picture in re.findall(r"\]\((reproduction/[^)]+)\)", text):
        assert (page.parent / picture).is_file()
