"""The command line of studies stores rows, replaces old ones and prints tables."""

from fighter.benchmark.runs import read_results
from paper.studies import small

PIECES = {"hours": small.Piece("grid", slice(600), slice(2), 6)}
VARIANTS = {small.BASELINE: {"model": "mean"}, small.NAIVE: {"model": "naive"}}


def test_study_is_stored_with_its_command(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(small, "PIECES", PIECES)
    monkeypatch.setattr(small, "VARIANTS", VARIANTS)
    arguments = ["--seeds", "0", "--results", str(tmp_path)]
    for _ in range(2):
        small.main(arguments)
    assert "2 runs, 2 of them done before" in capsys.readouterr().out
    stored = read_results(tmp_path / "small.json")
    command = f"python -m paper study small --seeds 0 --results {tmp_path}"
    assert stored["provenance"]["command"] == command
    assert [(row["variant"], row["baseline"]) for row in stored["rows"]] == [
        (small.BASELINE, True),
        (small.NAIVE, False),
    ]
    assert all("pieces" not in row["result"] for row in stored["rows"])
