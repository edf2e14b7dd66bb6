import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import pytest

from fighter.cli.arguments import (
    File,
    Model,
    UsageError,
    help_page,
    parse,
    read_arguments,
    require,
)
from fighter.cli.main import COMMANDS, main
from fighter.cli.options import read_config, setting_arguments
from fighter.models import MODELS, Fighter


def command(
    model: Model,
    file: File | None = None,
    *,
    level: Sequence[float] | None = None,
    past: Sequence[str] = (),
    id_col: str | Sequence[str] = "id",
    freq: str | int | None = None,
    loss: Literal["mae", "mse"] = "mae",
    bounds: bool = True,
    limits: bool | tuple[float | None, float | None] = True,
    quiet: bool = False,
    out: Path | None = None,
) -> None:
    """Do something.

    Example: fighter command model

    Args:
        model: the model, whose
            help has two lines.
        file: the table.
        level: levels.
        past: columns.
        id_col: one column or more.
        freq: the step.
        loss: the loss.
        bounds: find bounds.
        limits: find limits, or two numbers.
        quiet: say nothing.
        out: a file.
    """


ARGUMENTS = read_arguments(command)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("m", {"model": Path("m")}),
        ("m f.csv", {"model": Path("m"), "file": "f.csv"}),
        ("m --quiet f.csv", {"model": Path("m"), "file": "f.csv", "quiet": True}),
        ("m -", {"model": Path("m"), "file": "-"}),
        ("m --level 80 95", {"level": (80.0, 95.0)}),
        ("m --level 80 --quiet f.csv", {"level": (80.0,), "quiet": True, "file": "f.csv"}),
        ("m --level None", {"level": None}),
        ("m --level -1 -2e3", {"level": (-1.0, -2000.0)}),
        ("m --past a b", {"past": ("a", "b")}),
        ("m --id-col a", {"id_col": "a"}),
        ("m --id-col a b", {"id_col": ("a", "b")}),
        ("m --freq 10", {"freq": 10}),
        ("m --freq 10min", {"freq": "10min"}),
        ("m --freq none", {"freq": None}),
        ("m --out=a=b", {"out": Path("a=b")}),
        ("m --no-bounds", {"bounds": False}),
        ("m --limits", {"limits": True}),
        ("m --no-limits", {"limits": False}),
        ("m --limits -1e3 none", {"limits": (-1000.0, None)}),
        ("m --limits 0 5 --quiet f.csv", {"limits": (0.0, 5.0), "quiet": True, "file": "f.csv"}),
        ("m --quiet --no-quiet", {"quiet": False}),
        ("m -- --level", {"file": "--level"}),
    ],
)
def test_a_command_line_is_parsed(text, expected):
    assert {"model": Path("m"), **expected} == parse(ARGUMENTS, text.split())


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("m --levle 80", "'--level'"),
        ("m --out", "--out"),
        ("m --out --quiet", "--out"),
        ("m --quiet=1", "--quiet"),
        ("m f.csv g.csv", "'g.csv'"),
        ("m --data f.csv", "FILE"),
        ("m -x", "-x"),
    ],
)
def test_a_wrong_command_line_is_refused(text, part):
    with pytest.raises(UsageError) as error:
        parse(ARGUMENTS, text.split())
    assert part in error.value.reason


@pytest.mark.parametrize(
    ("text", "argument", "value"),
    [("m --level high", "level", "high"), ("m --loss mas", "loss", "mas")],
)
def test_a_wrong_value_names_its_flag(text, argument, value):
    with pytest.raises(UsageError) as error:
        parse(ARGUMENTS, text.split())
    assert (error.value.argument, error.value.value) == (argument, value)


def test_what_is_required_must_be_there():
    for texts in (["--past", "a", "model"], ["--level", "80", "model"]):
        with pytest.raises(UsageError, match="MODEL is missing; it stands before"):
            parse(ARGUMENTS, texts)
    require(ARGUMENTS, {"model": Path("m")})


@pytest.mark.parametrize("texts", [["--model", "naive"], ["x", "--model=naive"]])
def test_the_model_is_read_ahead_of_the_other_flags(texts):
    assert read_config([*texts, "--other", "3"]) == {"model": "naive"}
    assert read_config(["--model", "--other"]) == read_config([]) == {}


def test_the_help_shows_every_argument_once(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    page = help_page("fighter command", command, ARGUMENTS)
    assert page.startswith("usage: fighter command MODEL [FILE] [flags]\n\nDo something.\n\n")
    assert all(len(line) <= 60 for line in page.splitlines())
    assert page.count("\n  --") == len(ARGUMENTS) - 2 + 1  # two are positional; --no-limits
    assert "the model, whose help has two" in page
    assert "--bounds, --no-bounds" in page
    assert "  --quiet  " in page
    assert "mae|mse" in page
    assert "(default: mae)" in page


@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "data"])
@pytest.mark.parametrize("columns", [80, 200])
def test_help_pages_are_of_one_form(command, columns, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(columns))
    assert main([command, "--help"]) == 0
    page = capsys.readouterr().out
    assert page.startswith(f"usage: fighter {command}")
    lines = [line for line in page.splitlines() if not line.startswith("  fighter")]
    assert max(map(len, lines)) <= min(columns, 100)
    for raw in ("{None}", "[STR", "INT", "(default: )", "(default: None)", "(required)"):
        assert raw not in page


@pytest.mark.parametrize("name", MODELS)
def test_every_option_of_a_model_has_a_flag_with_help(name):
    flags = setting_arguments({"model": name})
    assert all(argument.help for argument in flags)
    assert len({argument.name for argument in flags}) == len(flags)
    own = [a for a in flags if a.group == "model" and a.name != "model"]
    assert all(a.help.count("(default:") == 1 for a in own)
    for argument in own:
        if argument.default is not None:
            assert f"(default: {argument.default})" in argument.help


def test_flags_make_a_model():
    texts = ["--kappa", "4", "--powers", "0", "2", "--nodes", "time", "--dropout", "0.5"]
    given = parse(setting_arguments({}), texts)
    assert Fighter(**given) == Fighter(kappa=4, powers=(0, 2), nodes="time", dropout=0.5)


@pytest.mark.parametrize(
    ("texts", "part"),
    [
        (["forecast", "a.csv", "--horizn", "3"], "'--horizon'"),
        (["forecats", "a.csv"], "'forecast'"),
        (["data", "lst"], "'list'"),
        (["predict", "m", "--future", "a.csv"], "'--future-file'"),
        (["explain", "m", "--data", "a.csv"], "FILE"),
        (["forecast", "a.csv", "--horizon", "3", "--model", "mean", "--kappa", "2"], "fighter"),
        (["forecast", "--horizon", "3"], "FILE"),
        (["forecast", "a.csv"], "--horizon"),
        (["fit", "a.csv", "--horizon", "3"], "--out"),
        (["forecast", "a.csv", "--horizon", "3", "--loss", "msee"], "'mse'"),
    ],
)
def test_a_misspelt_command_line_gets_one_line_of_advice(texts, part, capsys):
    with pytest.raises(SystemExit) as exit_:
        main(texts)
    assert exit_.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert part in line


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("words", "completed"),
    [
        (["fo"], "forecast"),
        (["forecast", "a.csv", "--hor"], "--horizon"),
        (["data", "fe"], "fetch"),
        (["data", "fetch", "x", "--data"], "--data-dir"),
        (["predict", "m", "--fut"], "--future-file"),
    ],
)
def test_bash_completes_commands_and_flags(words, completed, capsys):
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    typed = f"COMP_WORDS=(fighter {' '.join(words)}); COMP_CWORD={len(words)}"
    script += f"\n{typed}; _fighter; echo ${{COMPREPLY[*]}}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    assert (done.stdout.split(), done.stderr) == ([completed], "")
