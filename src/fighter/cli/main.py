"""The entry point of the command line: find the command, parse, call, report errors."""

import inspect
import io
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NamedTuple, NoReturn

from .. import __version__
from ..errors import FighterError, did_you_mean


class Command(NamedTuple):
    """Where a command lives; the module is imported when the command is called."""

    module: str
    attribute: str
    summary: str


COMMANDS = {
    "demo": Command(".demo", "demo", "Train on a generated grid and compare with three baselines."),
    "forecast": Command(
        ".forecast", "forecast", "Train on a table and forecast the steps after it."
    ),
    "fit": Command(".forecast", "fit", "Train on a table and save the model."),
    "predict": Command(".forecast", "predict", "Forecast with a saved model."),
    "collect": Command(
        ".files", "collect", "Count the forecasts of many files, or join them to one table."
    ),
    "evaluate": Command(".forecast", "evaluate", "Score a model on a table, series by series."),
    "explain": Command(
        ".explain", "explain", "Show where a forecast comes from; write a page about it."
    ),
    "network": Command(
        ".network", "network", "Show which series of a table follow which, and by how long."
    ),
    "info": Command(".info", "info", "Show what a saved model is and what it needs."),
    "data": Command(
        ".data", "COMMANDS", "List, show, fetch and find known data sets; split a large table."
    ),
    "leaderboard": Command(
        ".leaderboard", "leaderboard", "Rank models on data sets, your own or the benchmarks."
    ),
    "completion": Command(
        ".completion", "completion", "Print a script that completes commands in the shell."
    ),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns:
        0 for success, 1 for an error, 130 after Ctrl-C; a command line that cannot be parsed
        exits with 2.
    """
    # Set before torch is loaded: waiting threads sleep. Threads that spin slow each other down on a
    # busy machine, and a fit takes many times as long.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # some encodings lack letters such as κ
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in arguments
    with _ctrl_c() as pressed:
        try:
            result = _run([argument for argument in arguments if argument != "--debug"])
            sys.stdout.flush()  # here, where a closed pipe is understood
            return result
        except BrokenPipeError:
            # The reader closed the pipe; Python must not fail again when it flushes at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1
        except (Exception, KeyboardInterrupt) as error:
            if debug:
                raise
            if pressed.is_set() or isinstance(error, KeyboardInterrupt):
                after = "\n" if sys.stderr.isatty() else ""  # after the terminal's ^C
                lost = f": {error}" if isinstance(error, KeyboardInterrupt) and str(error) else ""
                print(f"{after}fighter: stopped{lost}", file=sys.stderr)
                return 130
            if not isinstance(error, (FighterError, OSError)):
                raise
            _complain(error)
            return 1


@contextmanager
def _ctrl_c() -> Iterator[threading.Event]:
    """Note whether Ctrl-C was pressed: a library being loaded can turn it into another error."""
    pressed = threading.Event()

    def stop(*_: object) -> None:
        pressed.set()
        raise KeyboardInterrupt

    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield pressed  # only the main thread handles signals, and a caller may have its own handler
        return
    signal.signal(signal.SIGINT, stop)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _run(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_usage())
        return 0
    if arguments[0] == "--version":
        print(f"fighter {__version__}")
        return 0
    name, *rest = arguments
    if name not in COMMANDS:
        hint = did_you_mean(name, COMMANDS)
        _refuse(f"there is no command {name!r}.{hint} See fighter --help.")
    command = COMMANDS[name]
    target = getattr(import_module(command.module, __package__), command.attribute)
    if isinstance(target, dict):
        return _run_subcommand(name, command.summary, target, rest)
    return _call(name, target, rest)


def _run_subcommand(
    name: str, summary: str, targets: dict[str, Callable[..., Any]], texts: list[str]
) -> int:
    if not texts or texts[0] in ("-h", "--help"):
        width = max(map(len, targets))
        lines = [
            f"  {sub:<{width}}  {inspect.getdoc(target).splitlines()[0]}"  # pyright: ignore
            for sub, target in targets.items()
        ]
        more = f"fighter {name} COMMAND --help describes a command and shows an example."
        usage = f"usage: fighter {name} COMMAND …"
        print("\n\n".join([usage, summary, "\n".join(lines), more]))
        return 0
    sub, *rest = texts
    if sub not in targets:
        hint = did_you_mean(sub, targets)
        _refuse(f"there is no command {name} {sub!r}.{hint} See fighter {name} --help.")
    return _call(f"{name} {sub}", targets[sub], rest)


def _call(name: str, target: Callable[..., Any], texts: list[str]) -> int:
    """Parse the flags of a command and call it."""
    from .arguments import UsageError, help_page, parse, read_arguments, require
    from .messages import in_flags, notes_on_stderr

    own = read_arguments(target)
    settings: dict[str, Any] | None = None
    explain, arguments = None, own
    try:
        if "settings" in (a.name for a in own):
            from .options import CONFIG, explain_flag, read_config, setting_arguments

            settings, explain = read_config(texts), explain_flag
            others = [a for a in own if a.name != "settings"]
            arguments = [*others, *setting_arguments(settings), CONFIG]
        elif any(a.name == "model" and a.positional for a in own):
            from .options import explain_fixed_flag as explain
        if {"-h", "--help"} & set(texts):
            print(help_page(f"fighter {name}", target, arguments))
            return 0
        given = parse(arguments, texts, explain)
        values = {a.name: given.pop(a.name) for a in own if a.name in given}
        if settings is not None:
            given.pop("config", None)
            if settings.pop("quiet", False):
                values.setdefault("quiet", True)
            values["settings"] = settings | given
        require(arguments, {**values, **(values.get("settings") or {})})
    except UsageError as error:
        text = in_flags(error)
        _refuse(f"{text}{'' if text[-1] in '.?' else '.'} See fighter {name} --help.")
    with notes_on_stderr():
        return target(**values) or 0


def _refuse(text: str) -> NoReturn:
    print(f"fighter: {text}", file=sys.stderr)
    raise SystemExit(2)


def _usage() -> str:
    width = max(map(len, COMMANDS))
    commands = "\n".join(f"  {name:<{width}}  {c.summary}" for name, c in COMMANDS.items())
    return f"""usage: fighter COMMAND …

Time series forecasting whose model can be read as a graph.

{commands}

Begin with:
  fighter demo
  fighter forecast load.csv --horizon 24 --out forecast.csv

fighter COMMAND --help describes a command and shows an example. --debug, after
any command, shows the traceback of an error. fighter --version prints the
version. Results go to standard output, progress and notes to standard error."""


def _complain(error: Exception) -> None:
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        text = f"{where}{error.strerror}"
    elif isinstance(error, FighterError):
        from .messages import in_flags

        text = in_flags(error)
    else:
        text = str(error)
    print(f"fighter: {text}", file=sys.stderr)
