import subprocess
import sys

import pytest

import fighter.theory
from fighter.cli import main
from fighter.theory import Identity


def test_theory_prints_its_table_and_ends_well(capsys):
    assert main(["theory", "--seed", "3", "--size", "2"]) == 0
    out = capsys.readouterr().out
    assert "Transformer gradient, W_K" in out
    assert "all corrected forms hold" in out


def test_theory_ends_non_zero_if_a_corrected_form_fails(monkeypatch, capsys):
    broken = [Identity("broken", "nothing", None, 0.5)]
    monkeypatch.setattr(fighter.theory, "check_all", lambda **_: broken)
    assert main(["theory"]) == 1
    assert "NOT hold" in capsys.readouterr().out


def test_a_wrong_value_is_one_line_and_1(capsys):
    assert main(["theory", "--size", "0"]) == 1
    captured = capsys.readouterr()
    assert captured.err == "fighter: size=0: needs a whole number from 1 to 64\n"


def test_debug_shows_the_traceback():
    with pytest.raises(fighter.FighterError):
        main(["theory", "--size", "0", "--debug"])


@pytest.mark.parametrize("arguments", [["theory", "--sizes", "3"], ["theoryy"]])
def test_a_command_line_that_cannot_be_read_is_2(arguments):
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == 2


def test_every_command_has_help_with_an_example():
    done = subprocess.run(
        [sys.executable, "-m", "fighter", "theory", "--help"], capture_output=True, text=True
    )
    assert done.returncode == 0
    assert "Example: fighter theory" in done.stdout


def test_importing_fighter_loads_nothing_heavy_but_torch():
    """Other packages are imported where they are used; a list, because seconds are noise."""
    code = (
        "import sys, torch; before = set(sys.modules); import fighter; "
        "print(*sorted({m.split('.')[0] for m in set(sys.modules) - before}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    loaded = set(done.stdout.split())
    assert "fighter" in loaded
    assert not loaded & {"pandas", "polars", "pyarrow", "matplotlib", "plotly", "tyro", "tqdm"}
