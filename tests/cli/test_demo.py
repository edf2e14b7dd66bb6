import pytest

from fighter.cli import main
from fighter.cli.demo import MODELS, Size, run_demo

SMALL = Size(weeks=7, held_out=1, most_epochs=1)


@pytest.mark.slow
def test_the_demo_compares_all_models_and_draws(tmp_path, capsys):
    models = run_demo(tmp_path / "out", size=SMALL)
    assert set(models) == set(MODELS)
    out = capsys.readouterr().out
    rows = [line for line in out.splitlines() if line.startswith(("Fi", "Tr", "li", "seasonal"))]
    assert len(rows) == 4
    assert "%" in rows[0]
    assert str(tmp_path / "out") in out.split("MAE")[0]  # printed before anything is written
    written = sorted(path.name for path in (tmp_path / "out").iterdir())
    pictures = ["forecast-2024-02-12.png", "forecast-2024-02-18.png"]
    assert written == [*pictures, "grid.csv", "why-2024-02-18.html"]
    assert "why-2024-02-18.html" in out
    assert (
        len({tuple(vars(m.plan)[k] for k in ("lookback", "horizon")) for m in models.values()}) == 1
    )


def test_an_unwritable_folder_is_refused_at_once(tmp_path, capsys):
    (tmp_path / "file").touch()
    assert main(["demo", "--out", str(tmp_path / "file" / "demo")]) == 1
    assert "is a file, not a folder" in capsys.readouterr().err
