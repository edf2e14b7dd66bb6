"""Flags of a command, from its signature and docstring: parsed, converted and shown as help."""

import inspect
import re
import shutil
import textwrap
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, NoReturn, get_args, get_origin

from ..errors import FighterError, did_you_mean

REQUIRED: Any = inspect.Parameter.empty
GROUPS = ("forecast", "data", "model", "frame", "training", "output", "flags")
_KINDS = {int: ("N", "a whole number"), float: ("NUMBER", "a number")}


@dataclass(frozen=True)
class Shown:
    """How the help shows an argument: the placeholder of its value, its group, and its text.

    The text is that of the docstring unless it is given.
    """

    metavar: str = ""
    group: str = ""
    help: str = ""


File = Annotated[str, Shown("FILE", "data")]
DataFolder = Annotated[Path, Shown("DIR", "data")]
Model = Annotated[Path, Shown("MODEL")]
Target = Annotated[Path, Shown("FILE", "output")]
TargetFolder = Annotated[Path, Shown("DIR", "output")]
Name = Annotated[str, Shown("NAME")]
Encoding = Annotated[str, Shown("NAME", "data")]
Quiet = Annotated[bool, Shown(group="output")]


class UsageError(FighterError):
    """A command line that cannot be parsed."""


@dataclass(frozen=True)
class Argument:
    """One argument of a command.

    Args:
        name: its name in Python, such as ``future_file``.
        kind: its type.
        help: what it is.
        default: its default; ``REQUIRED`` if it has none.
        group: where the help shows it.
        positional: True if it is given by its place, not by a flag.
    """

    name: str
    kind: Any
    help: str
    default: Any = REQUIRED
    group: str = "flags"
    positional: bool = False

    @property
    def flag(self) -> str:
        """The flag, or the placeholder of a positional argument."""
        return self.metavar if self.positional else f"--{self.name.rstrip('_').replace('_', '-')}"

    @property
    def is_switch(self) -> bool:
        """True for a flag without a value."""
        return _members(self.kind) == [bool]

    @property
    def takes_several(self) -> bool:
        """True if several values may follow the flag."""
        return any(get_origin(member) in (Sequence, tuple) for member in _members(self.kind))

    @property
    def scalars(self) -> list[Any]:
        """The types that one value may have; numbers are tried before text."""
        members = [
            get_args(member)[0] if get_origin(member) in (Sequence, tuple) else member
            for member in _members(self.kind)
        ]
        return sorted(dict.fromkeys(members), key=lambda member: member in (str, Path))

    @property
    def metavar(self) -> str:
        """The placeholder of the value, such as ``N`` or ``FILE``."""
        shown = _shown(self.kind).metavar
        if not shown and self.positional:
            shown = self.name.upper()
        if not shown:
            parts = [_placeholder(kind) for kind in self.scalars if kind is not NoneType]
            shown = "|".join(parts)
        return f"{shown} …" if self.takes_several else shown

    def accepts(self, text: str) -> bool:
        """Tell whether a text can be a value of this argument."""
        return any(_convert(kind, text) is not _UNFIT for kind in self.scalars)

    def convert(self, texts: Sequence[str]) -> Any:
        """Return the value that the texts stand for."""
        values = []
        for text in texts:
            fitting = (_convert(kind, text) for kind in self.scalars)
            value = next((value for value in fitting if value is not _UNFIT), _UNFIT)
            if value is _UNFIT:
                self._refuse(text)
            values.append(value)
        if not self.takes_several or (values == [None]):
            return values[0]
        several_only = all(
            get_origin(m) in (Sequence, tuple) or m is NoneType for m in _members(self.kind)
        )
        return values[0] if len(values) == 1 and not several_only else tuple(values)

    def _refuse(self, text: str) -> NoReturn:
        choices = [str(c) for kind in self.scalars for c in get_args(kind)]
        if choices:
            hint = did_you_mean(text, choices)
            reason = f"needs {' or '.join(choices)}{hint and '.' + hint}"
        else:
            numbers = [_KINDS[kind][1] for kind in self.scalars if kind in _KINDS]
            reason = f"needs {' or '.join(numbers)}"
        if self.positional:
            raise UsageError(f"{self.flag} {text}: {reason}")
        raise UsageError(reason, argument=self.name, value=text)


def read_arguments(function: Callable[..., Any]) -> list[Argument]:
    """Return the arguments of a command: keyword-only parameters are flags."""
    _, helps = read_docs(function)
    return [
        Argument(
            parameter.name,
            parameter.annotation,
            _shown(parameter.annotation).help or helps.get(parameter.name, ""),
            parameter.default,
            _shown(parameter.annotation).group or "flags",
            parameter.kind is not inspect.Parameter.KEYWORD_ONLY,
        )
        for parameter in inspect.signature(function).parameters.values()
    ]


def read_docs(described: Any) -> tuple[str, dict[str, str]]:
    """Return the description in a docstring, and the text of each of its arguments."""
    description, _, rest = (inspect.getdoc(described) or "").partition("\nArgs:\n")
    helps: dict[str, str] = {}
    name = ""
    for line in rest.splitlines():
        if line and not line.startswith("    "):
            break  # the next section
        if begin := re.match(r"    (\w+): (.*)", line):
            name = begin[1]
            helps[name] = begin[2]
        elif line:
            helps[name] += f" {line.strip()}"
    return description.strip(), helps


# ---- parse -------------------------------------------------------------------------------------


def parse(
    arguments: Sequence[Argument],
    texts: Iterable[str],
    explain: Callable[[str], str] | None = None,
) -> dict[str, Any]:
    """Return the values that the command line gives, by name; defaults are not among them.

    ``explain`` may say why a flag that is not there cannot be used.
    """
    flags = {a.flag: a for a in arguments if not a.positional}
    flags |= {f"--no-{a.flag[2:]}": a for a in flags.values() if a.is_switch}
    given: dict[str, Any] = {}
    positional: list[str] = []
    queue = deque(texts)
    while queue:
        text = queue.popleft()
        if text == "--":
            positional += queue
            break
        if not _is_flag(text):
            positional.append(text)
            continue
        written, equals, value = text.partition("=")
        if written not in flags:
            reason = explain(written) if explain else ""
            raise UsageError(f"{written}: {reason or _unknown(written, arguments)}")
        argument = flags[written]
        if argument.is_switch:
            if equals:
                raise UsageError(f"{written}: takes no value")
            given[argument.name] = written == argument.flag
            continue
        values = [value] if equals else []
        while not equals and queue and not _is_flag(queue[0]):
            if values and not (argument.takes_several and argument.accepts(queue[0])):
                break
            values.append(queue.popleft())
        if not values:
            raise UsageError(f"{written}: needs a value ({argument.metavar})")
        given[argument.name] = argument.convert(values)
    return given | _place(arguments, positional)


def require(arguments: Sequence[Argument], given: Mapping[str, Any]) -> None:
    """Refuse a command line that lacks a required argument."""
    for argument in arguments:
        if argument.default is REQUIRED and argument.name not in given:
            wanted = argument.flag if argument.positional else f"{argument.flag} {argument.metavar}"
            several = [a.flag for a in arguments if a.takes_several and a.name in given]
            place = argument.positional and several
            hint = f"; it stands before {several[0]}" if place else ""
            raise UsageError(f"{wanted} is missing{hint}: {argument.help}")


def peek(texts: Sequence[str], flag: str) -> str | None:
    """Return the value of one flag before the others are known."""
    found = None
    for i, text in enumerate(texts):
        written, equals, value = text.partition("=")
        if written == flag:
            following = [text for text in texts[i + 1 : i + 2] if not _is_flag(text)]
            found = value if equals else next(iter(following), None)
    return found


def _unknown(flag: str, arguments: Sequence[Argument]) -> str:
    """Say what to write instead of a flag that does not exist."""
    for argument in (a for a in arguments if a.positional):
        also = ("data", "input") if argument.name == "file" else ()
        if flag.removeprefix("--") in (argument.name, *also):
            return f"{argument.flag} is given without a flag."
    known = [a.flag for a in arguments if not a.positional]
    return f"there is no such flag.{did_you_mean(flag, known)}"


def _place(arguments: Sequence[Argument], texts: list[str]) -> dict[str, Any]:
    """Give positional texts to the positional arguments, in order."""
    given: dict[str, Any] = {}
    for argument in (a for a in arguments if a.positional):
        taken = len(texts) if argument.takes_several else 1
        if texts[:taken]:
            given[argument.name] = argument.convert(texts[:taken])
        texts = texts[taken:]
    if texts:
        raise UsageError(f"there is no place for {texts[0]!r}")
    return given


def _is_flag(text: str) -> bool:
    return text.startswith("-") and text != "-" and _convert(float, text) is _UNFIT


# ---- help --------------------------------------------------------------------------------------


def help_page(program: str, function: Any, arguments: Sequence[Argument]) -> str:
    """Return the help of a command, as wide as the terminal and at most 100 columns."""
    width = min(shutil.get_terminal_size().columns, 100)
    parts = [usage(program, arguments, width), _fill(read_docs(function)[0], width)]
    positional = [a for a in arguments if a.positional]
    groups = {"": positional} | {
        group: [a for a in arguments if not a.positional and a.group == group] for group in GROUPS
    }
    for group, members in groups.items():
        if members:
            rows = [_row(argument, width) for argument in members]
            parts.append("\n".join([f"{group}:" if group else "", *rows]).lstrip("\n"))
    return "\n\n".join(parts)


def usage(program: str, arguments: Sequence[Argument], width: int = 100) -> str:
    """Return the usage line of a command."""
    words = [program]
    for a in arguments:
        if a.positional:
            words.append(a.flag if a.default is REQUIRED else f"[{a.flag}]")
    words += [
        f"{a.flag} {a.metavar}" for a in arguments if not a.positional and a.default is REQUIRED
    ]
    if any(not a.positional for a in arguments):
        words.append("[flags]")
    return textwrap.fill("usage: " + " ".join(words), width, subsequent_indent=" " * 7)


def _row(argument: Argument, width: int, column: int = 22) -> str:
    left = argument.flag
    if argument.is_switch:
        left = f"--[no-]{argument.flag[2:]}" if argument.default is not False else left
    elif not argument.positional:
        left += f" {argument.metavar}"
    text = argument.help
    default = argument.default
    if default is not REQUIRED and default not in (None, (), False) and "(default:" not in text:
        shown = " ".join(map(str, default)) if isinstance(default, tuple) else default
        text = f"{text.removesuffix('.')} (default: {shown})."
    lines = textwrap.wrap(text, max(width - column, 20), break_on_hyphens=False) or [""]
    first = f"  {left}"
    if len(first) >= column:
        lines = [first, *(" " * column + line for line in lines)]
    else:
        lines = [f"{first:<{column}}{lines[0]}", *(" " * column + line for line in lines[1:])]
    return "\n".join(lines)


def _fill(text: str, width: int) -> str:
    """Fill each paragraph to a width; indented lines stay as they are."""
    fill = partial(textwrap.fill, width=width, break_on_hyphens=False, break_long_words=False)
    paragraphs = text.split("\n\n")
    return "\n\n".join(p if re.search("^ ", p, re.M) else fill(p) for p in paragraphs)


# ---- types -------------------------------------------------------------------------------------

_UNFIT: Any = object()


def _members(kind: Any) -> list[Any]:
    """Return the types of a union, without annotations."""
    if get_origin(kind) is Annotated:
        return _members(get_args(kind)[0])
    if get_origin(kind) in (Literal, Sequence, tuple) or not get_args(kind):
        return [kind]
    return [inner for member in get_args(kind) for inner in _members(member)]


def _shown(kind: Any) -> Shown:
    """Return how an annotated type is to be shown."""
    if get_origin(kind) is Annotated:
        return next((m for m in get_args(kind)[1:] if isinstance(m, Shown)), Shown())
    inner = [_shown(member) for member in get_args(kind) if get_origin(member) is Annotated]
    return inner[0] if inner else Shown()


def _placeholder(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return "|".join(map(str, get_args(kind)))
    return _KINDS.get(kind, ("TEXT", ""))[0]


def _convert(kind: Any, text: str) -> Any:
    """Return the text as a value of this type, or ``_UNFIT``."""
    if kind is NoneType:
        return None if text.casefold() == "none" else _UNFIT
    if get_origin(kind) is Literal:
        return text if text in get_args(kind) else _UNFIT
    try:
        return kind(text)
    except ValueError:
        return _UNFIT
