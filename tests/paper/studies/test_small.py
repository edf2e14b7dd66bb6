import re

from fighter.benchmark.datasets import with_files
from fighter.benchmark.runs import Environment, perform
from paper.studies import small


def test_small_tables_are_cut_scored_and_shown(monkeypatch, tmp_path):
    pieces = {
        "hours": small.Piece("grid", slice(600), slice(2), 6),
        "days": small.Piece("grid", slice(None), slice(1, 3), 2, "D"),
    }
    monkeypatch.setattr(small, "PIECES", pieces)
    # Without the vector autoregression, so that every network has a share in its forecasts.
    fast = {"max_epochs": 1, "vector": False}
    short = {name: {**options, **fast} for name, options in small.VARIANTS.items()}
    monkeypatch.setattr(small, "VARIANTS", short)
    data = small.write_tables(tmp_path, None)
    runs = small.plan(data, [0, 1])
    assert [run.settings["horizon"] for run in runs[:4]] == [6, 6, 2, 2]
    rows = perform(runs, tmp_path / "runs", with_files(Environment(), data))
    assert {row["result"]["series"] for row in rows} == {2}

    errors = {small.cell(row): row["result"]["mse"] for row in rows}
    for name in pieces:  # no variant equals another
        found = [error for (_, data, seed), error in errors.items() if (data, seed) == (name, 0)]
        assert len({*found}) == len(small.VARIANTS)
    text = small.section(rows)
    line = r"^\| hours \| 0\.\d{4} / 0\.\d{4} \|( [+-]\d+\.\d% / \S+% \|){4}$"
    assert re.search(line, text, re.M)
    wanted = []
    for name in pieces:
        base = sum(errors["default", name, seed] for seed in (0, 1)) / 2
        wanted.append(100 * (errors["seasonal naive", name, 0] / base - 1))
    for average in ("mean", "median"):  # the same for two tables
        (shown,) = re.findall(rf"^\| {average} \|  \|.*\| (\S+)% / \S+% \|$", text, re.M)
        assert abs(float(shown) - sum(wanted) / 2) < 0.06
    assert small.words(rows) == {"seeds": "0, 1", "count": "2"}


def test_every_piece_lies_in_the_training_rows():
    rows = {"ETTh1": 8640, "eia_demand_hourly": 30_000, "weather": 36_887}  # 70 % or less
    for piece in small.PIECES.values():
        if piece.data != "grid":
            assert piece.rows.stop <= rows[piece.data]
