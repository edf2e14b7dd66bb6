"""The command line ``python -m paper``: parses, calls, prints."""

import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NamedTuple

from fighter.errors import FighterError, did_you_mean


class Command(NamedTuple):
    """Where the function of a command lives; it is imported when the command is called."""

    module: str
    function: str
    summary: str


COMMANDS = {
    "theory": Command(
        "paper.commands", "theory", "Check the paper's identities and gradients on fresh numbers."
    ),
    "reproduce": Command(
        "paper.commands", "reproduce", "Run the paper's experiments again and judge its claims."
    ),
    "study": Command(
        "paper.studies.__main__", "main", "Study the forecaster: ablations, search, small tables."
    ),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns:
        0 if it succeeded, 1 if it failed, 130 if it was interrupted; a command line that cannot be
        parsed exits with 2.
    """
    # Set before torch is loaded: waiting threads should sleep, because spinning threads make a fit
    # many times slower on a machine that has other work.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # for encodings without letters such as κ
    try:
        return _run(list(sys.argv[1:] if arguments is None else arguments))
    except KeyboardInterrupt:
        print("paper: stopped", file=sys.stderr)
        return 130
    except (FighterError, OSError) as error:
        print(f"paper: {error}", file=sys.stderr)
        return 1


def _run(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_usage())
        return 0
    name, *rest = arguments
    if name not in COMMANDS:
        hint = did_you_mean(name, COMMANDS)
        print(f"paper: there is no command {name!r}.{hint}\n\n{_usage()}", file=sys.stderr)
        raise SystemExit(2)
    command = COMMANDS[name]
    function = getattr(import_module(command.module), command.function)
    if name == "study":  # the studies parse their own flags
        return function(rest)
    from fighter.cli.arguments import UsageError, help_page, parse, read_arguments, require
    from fighter.cli.messages import in_flags

    known = read_arguments(function)
    if {"-h", "--help"} & set(rest):
        print(help_page(f"python -m paper {name}", function, known))
        return 0
    try:
        given = parse(known, rest)
        require(known, given)
    except UsageError as error:
        print(f"paper: {in_flags(error)}", file=sys.stderr)
        raise SystemExit(2) from None
    return function(**given) or 0


def _usage() -> str:
    width = max(map(len, COMMANDS))
    commands = "\n".join(f"  {name:<{width}}  {c.summary}" for name, c in COMMANDS.items())
    return f"""usage: python -m paper COMMAND …

The paper's theory and experiments. Run it from the root of a checkout.

{commands}

python -m paper COMMAND --help describes a command and shows an example."""


if __name__ == "__main__":
    sys.exit(main())
