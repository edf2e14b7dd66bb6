"""Flags of a command, from its signature and docstring; argparse parses them and shows the help."""

import argparse
import inspect
import re
import shutil
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from docstring_parser.google import parse as parse_docstring

from ..errors import FighterError, did_you_mean

REQUIRED: Any = inspect.Parameter.empty
GROUPS = ("forecast", "data", "model", "frame", "training", "output", "flags")
HELP_COLUMN = 22
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
    def members(self) -> list[Any]:
        """The types of its union."""
        return [part for part in _parts(self.kind) if not isinstance(part, Shown)]

    @property
    def takes_several(self) -> bool:
        """True if several values may be given."""
        return any(map(_item, self.members))

    @property
    def scalars(self) -> list[Any]:
        """The types that one value may have, None aside; numbers are tried before text."""
        kinds = [kind for kind in dict.fromkeys(self._kinds) if kind not in (NoneType, bool)]
        return sorted(kinds, key=lambda kind: kind in (str, Path))

    @property
    def _kinds(self) -> list[Any]:
        """The types in its union and in its sequences."""
        return [kind for member in self.members for kind in _parts(_item(member) or member)]

    @property
    def metavar(self) -> str:
        """The placeholder of the value, such as ``N`` or ``FILE``."""
        words = ["|".join(get_args(k)) or _KINDS.get(k, ("TEXT", ""))[0] for k in self.scalars]
        usual = self.name.upper() if self.positional else "|".join(words)
        return _shown(self.kind).metavar or usual

    def add_to(self, group: Any, width: int) -> None:
        """Add this argument to a group of a parser whose help texts have this width."""
        default, text = self.default, self.help
        if default not in (REQUIRED, None, (), False) and "(default:" not in text:
            value = " ".join(map(str, default)) if isinstance(default, tuple) else default
            text = f"{text.removesuffix('.')} (default: {value})."
        add = partial(group.add_argument, help=_fill(text, width).replace("%", "%%"))
        if self.positional:
            add(self.name, metavar=self.metavar, nargs="*" if self.takes_several else "?")
        elif self.members != [bool]:
            switch = bool in self.members  # --bounds, --no-bounds, --bounds 0 none
            nargs = ("*" if switch else "+") if self.takes_several else None
            add(self.flag, dest=self.name, metavar=self.metavar, nargs=nargs)
            if switch:
                turn_off = {"action": "store_false", "help": f"turn {self.flag} off."}
                add(f"--no-{self.flag[2:]}", dest=self.name, **turn_off)
        elif default is not False:
            add(self.flag, dest=self.name, action=argparse.BooleanOptionalAction)
        else:
            hidden = {"action": "store_false", "help": argparse.SUPPRESS}  # overrides a --config
            add(self.flag, dest=self.name, action="store_true")
            add(f"--no-{self.flag[2:]}", dest=self.name, **hidden)

    def convert(self, given: str | Sequence[str] | bool) -> Any:
        """Return the value that a text or several stand for."""
        if isinstance(given, bool):
            return given
        if not given and bool in self.members:
            return True
        values = [self._convert(text) for text in ([given] if isinstance(given, str) else given)]
        alone = values == [None] or (len(values) == 1 and {*self.scalars} & {*self.members})
        return values[0] if alone else tuple(values)

    def _convert(self, text: str) -> Any:
        is_file = _shown(self.kind).metavar in ("FILE", "DIR")
        if NoneType in self._kinds and text.casefold() == "none" and not is_file:
            return None
        choices = [choice for kind in self.scalars for choice in get_args(kind)]
        if text in choices:
            return text
        for kind in self.scalars:
            if not get_args(kind):
                with suppress(ValueError):
                    return kind(text)
        needed = " or ".join(choices or [_KINDS[kind][1] for kind in self.scalars])
        hint = did_you_mean(text, choices)
        reason = f"needs {needed}{'.' if hint else ''}{hint}"
        if self.positional:
            raise UsageError(f"{self.flag} {text}: {reason}")
        raise UsageError(reason, argument=self.name, value=text)


def read_arguments(function: Callable[..., Any]) -> list[Argument]:
    """Return the arguments of a command: keyword-only parameters are flags."""
    helps = read_helps(function)
    return [
        Argument(
            name,
            parameter.annotation,
            _shown(parameter.annotation).help or helps.get(name, ""),
            parameter.default,
            _shown(parameter.annotation).group or "flags",
            parameter.kind is not inspect.Parameter.KEYWORD_ONLY,
        )
        for name, parameter in inspect.signature(function).parameters.items()
    ]


def read_helps(described: Any) -> dict[str, str]:
    """Return the text of each argument in a docstring."""
    params = parse_docstring(described.__doc__ or "").params
    return {param.arg_name: " ".join((param.description or "").split()) for param in params}


def parse(
    arguments: Sequence[Argument],
    texts: Iterable[str],
    explain: Callable[[str], str] | None = None,
) -> dict[str, Any]:
    """Return the values that the command line gives, by name; defaults are not among them.

    Positional arguments stand anywhere but behind a flag that takes several values. ``explain`` may
    say why a flag that is not there cannot be used.
    """
    try:
        found, rest = _parser(arguments).parse_known_intermixed_args(list(texts))
    except argparse.ArgumentError as error:
        raise UsageError(f"{error.argument_name}: {error.message}") from error
    if unknown := [text.partition("=")[0] for text in rest if text.startswith("-")]:
        reason = explain(unknown[0]) if explain else ""
        raise UsageError(f"{unknown[0]}: {reason or _unknown(unknown[0], arguments)}")
    if rest:
        raise UsageError(f"there is no place for {rest[0]!r}")
    given = vars(found)
    require([a for a in arguments if a.positional], given)
    return {a.name: a.convert(given[a.name]) for a in arguments if a.name in given}


def require(arguments: Sequence[Argument], given: Mapping[str, Any]) -> None:
    """Refuse a command line that lacks a required argument."""
    for argument in arguments:
        if argument.default is REQUIRED and argument.name not in given:
            wanted = argument.flag if argument.positional else f"{argument.flag} {argument.metavar}"
            place = "; it stands before the flags" if argument.positional else ""
            raise UsageError(f"{wanted} is missing{place}: {argument.help}")


def _unknown(flag: str, arguments: Sequence[Argument]) -> str:
    """Say what to write instead of a flag that does not exist."""
    for argument in (a for a in arguments if a.positional):
        also = ("data", "input") if argument.name == "file" else ()
        if flag.removeprefix("--") in (argument.name, *also):
            return f"{argument.flag} is given without a flag."
    known = [a.flag for a in arguments if not a.positional]
    return f"there is no such flag.{did_you_mean(flag, known)}"


def help_page(program: str, function: Any, arguments: Sequence[Argument]) -> str:
    """Return the help of a command, as wide as the terminal and at most 100 columns."""
    words = [program]
    for a in arguments:
        if a.positional:
            several = f"{a.flag} ..." if a.takes_several else a.flag
            words.append(several if a.default is REQUIRED else f"[{several}]")
        elif a.default is REQUIRED:
            words.append(f"{a.flag} {a.metavar}")
    words += ["[flags]"] * any(not a.positional for a in arguments)
    described = parse_docstring(function.__doc__ or "").description or ""
    return _parser(arguments, " ".join(words), described).format_help().rstrip()


def _parser(
    arguments: Sequence[Argument], usage: str = "", description: str = ""
) -> argparse.ArgumentParser:
    """Return a parser that requires nothing and knows no defaults; ``require`` comes later."""
    width = min(shutil.get_terminal_size().columns, 100)
    shape = {"max_help_position": HELP_COLUMN, "width": width}
    parser = argparse.ArgumentParser(
        usage=usage,
        description="\n\n".join(_fill(text, width) for text in description.split("\n\n")),
        formatter_class=partial(argparse.RawTextHelpFormatter, **shape),
        argument_default=argparse.SUPPRESS,
        add_help=False,
        allow_abbrev=False,
        exit_on_error=False,
    )
    parser._negative_number_matcher = re.compile(r"-\.?\d")  # argparse's own knows no -1e3
    groups = {name: parser.add_argument_group(name) for name in (None, *GROUPS)}
    for argument in arguments:
        group = groups[None if argument.positional else argument.group]
        argument.add_to(group, max(width - HELP_COLUMN, 20))
    return parser


def _fill(paragraph: str, width: int) -> str:
    """Fill a paragraph to a width; one with indented lines stays as it is."""
    if "\n " in paragraph:
        return paragraph
    return textwrap.fill(paragraph, width, break_on_hyphens=False, break_long_words=False)


def _parts(kind: Any) -> list[Any]:
    """Return the types in a union, and how they are to be shown."""
    if get_origin(kind) not in (Annotated, Union, UnionType):
        return [kind]
    return [part for inner in get_args(kind) for part in _parts(inner)]


def _shown(kind: Any) -> Shown:
    """Return how an annotated type is to be shown."""
    return next((part for part in _parts(kind) if isinstance(part, Shown)), Shown())


def _item(kind: Any) -> Any:
    """Return the type of the items of a sequence; None for any other type."""
    return get_args(kind)[0] if get_origin(kind) in (Sequence, tuple) else None
