"""``python -m paper``: its list of commands, its errors and the theory command."""

import pytest

from fighter.errors import FighterError
from paper import commands
from paper.__main__ import COMMANDS, main
from paper.theory import Identity


@pytest.mark.parametrize("arguments", [[], ["-h"], ["--help"]])
def test_help_lists_every_command(arguments, capsys):
    assert main(arguments) == 0
    out = capsys.readouterr().out
    for name, command in COMMANDS.items():
        assert f"  {name} " in out
        assert command.summary in out


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example(name, capsys):
    try:
        code = main([name, "--help"])
    except SystemExit as stopped:
        code = stopped.code
    assert code == 0
    assert f"Example: python -m paper {name}" in capsys.readouterr().out


def test_an_unknown_command_is_named_with_a_suggestion(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["theroy"])
    assert stopped.value.code == 2
    assert "'theroy'. Did you mean 'theory'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code", "complaint"),
    [
        (FighterError("is wrong", argument="size", value=0), 1, "paper: size=0: is wrong\n"),
        (FileNotFoundError("there is no file"), 1, "paper: there is no file\n"),
        (KeyboardInterrupt(), 130, "paper: stopped\n"),
    ],
)
def test_an_error_is_one_line_and_an_exit_code(error, code, complaint, monkeypatch, capsys):
    def fail(**_):
        raise error

    monkeypatch.setattr(commands, "check_all", fail)
    assert main(["theory"]) == code
    assert capsys.readouterr() == ("", complaint)


def test_a_defect_keeps_its_traceback(monkeypatch):
    monkeypatch.setattr(commands, "check_all", lambda **_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        main(["theory"])


def test_theory_prints_its_table_and_succeeds(capsys):
    assert main(["theory", "--seed", "3", "--size", "2"]) == 0
    out = capsys.readouterr().out
    assert "Transformer gradient, W_K" in out
    assert "all corrected forms hold" in out


def test_theory_fails_if_a_corrected_form_does_not_hold(monkeypatch, capsys):
    broken = [Identity("broken", "nothing", None, 0.5)]
    monkeypatch.setattr(commands, "check_all", lambda **_: broken)
    assert main(["theory"]) == 1
    assert "NOT hold" in capsys.readouterr().out
