import re

from fighter.benchmark.datasets import at
from fighter.benchmark.page import write_page
from fighter.benchmark.runs import Environment, add_rows, perform
from paper.studies import small

from .test_ablations import ORIGIN


def test_small_tables_are_cut_ranked_and_told(monkeypatch, tmp_path):
    pieces = {
        "hours": small.Piece("grid", slice(600), slice(2), 6),
        "days": small.Piece("grid", slice(None), slice(1, 3), 2, "D"),
    }
    monkeypatch.setattr(small, "PIECES", pieces)
    short = {name: {**options, "max_epochs": 1} for name, options in small.VARIANTS.items()}
    monkeypatch.setattr(small, "VARIANTS", short)
    data = small.write_tables(tmp_path, None)
    runs = small.plan(data, [0, 1])
    assert [run.settings["horizon"] for run in runs[:4]] == [6, 6, 2, 2]
    rows = perform(runs, tmp_path / "runs", at(Environment(), data))
    assert {row["result"]["series"] for row in rows} == {2}

    errors = {small.cell(row): row["result"]["mse"] for row in rows}
    for name in pieces:  # every variant is another
        found = [error for (_, data, seed), error in errors.items() if (data, seed) == (name, 0)]
        assert len({*found}) == len(small.VARIANTS)
    add_rows(tmp_path / small.FILE, {"provenance": ORIGIN}, rows, small.cell)
    said = write_page(tmp_path, tmp_path / "page.md")
    line = r"^\| hours \| 0\.\d{4} / 0\.\d{4} \|( [+-]\d+\.\d% / \S+% \|){4}$"
    assert re.search(line, said, re.M)
    wanted = []
    for name in pieces:
        base = sum(errors["default", name, seed] for seed in (0, 1)) / 2
        wanted.append(100 * (errors["seasonal naive", name, 0] / base - 1))
    for middle in ("mean", "median"):  # the same, of two
        (told,) = re.findall(rf"^\| {middle} \|  \|.*\| (\S+)% / \S+% \|$", said, re.M)
        assert abs(float(told) - sum(wanted) / 2) < 0.06
    assert "on 2 tables" in (tmp_path / "page.md").read_text()


def test_every_piece_is_of_rows_that_are_trained_on():
    rows = {"ETTh1": 8640, "eia_demand_hourly": 30_000, "weather": 36_887}  # 70 %, and less
    for piece in small.PIECES.values():
        if piece.data != "grid":
            assert piece.rows.stop <= rows[piece.data]
