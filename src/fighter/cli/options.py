"""The settings of a Forecaster as flags and as keys of a configuration file.

Names, types, defaults and help come from the Forecaster itself; nothing is listed twice.
"""

import argparse
import difflib
import inspect
import re
import tomllib
from collections.abc import Sequence
from dataclasses import field, make_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import tyro

from ..errors import FighterError
from ..forecasting.forecaster import Forecaster
from ..training import Recipe

_PARAMETERS = {
    name: parameter
    for name, parameter in inspect.signature(Forecaster).parameters.items()
    if name != "verbose"  # the command line says --quiet
}
_METAVARS = {int: "N", float: "NUMBER", str: "TEXT"}


def in_flags(text: str) -> str:
    """``lookback=96`` as ``--lookback 96``: what the library says, in the words of this place."""

    def flag(match: re.Match) -> str:
        value = re.sub(r"float\('([^']*)'\)", r"\1", match[2] or "")
        value = value.replace(",", "").strip("[]\"'()")
        return f"--{match[1].replace('_', '-')} {value}".strip()

    names = "|".join([*_PARAMETERS, "data_dir", "jobs"])
    return re.sub(
        rf"\b({names})=(\[[^]]*\]|\([^)]*\)|\"[^\"]*\"|'[^']*'|[\w+-]([\w.+-]*\w)?)?", flag, text
    )


def _help() -> dict[str, str]:
    """What the docstrings say of each setting; those of training are described by the Recipe."""
    recipe = _arguments(Recipe)
    own = {name: words for name, words in _arguments(Forecaster).items() if "Recipe" not in words}
    return {"max_epochs": recipe["epochs"], **recipe, **own}


def _arguments(described: type) -> dict[str, str]:
    """The arguments of a docstring, in the words of a command line."""
    found = {}
    for entry in re.split(r"\n    (?=\S)", (inspect.getdoc(described) or "").partition("Args:")[2]):
        names, _, words = entry.strip().partition(": ")
        words = re.sub(r"\[([-\d., ]+)\]", lambda m: m[1].replace(",", ""), words)
        words = in_flags(" ".join(words.replace("``", "").split()))
        found |= dict.fromkeys(names.split(", "), words)
    return found


def _flag(name: str, kind: Any, words: str) -> Any:
    """The annotation of one setting."""
    if dict in (get_origin(member) for member in get_args(kind)):
        return Annotated[kind, tyro.conf.Fixed, tyro.conf.Suppress]  # only in a configuration file
    members = sorted(_members(kind), key=lambda member: member is str)  # 24 is a number first
    shown = "|".join(_metavar(member) for member in members if member is not NoneType)
    hint = "" if _PARAMETERS[name].default in (None, ()) else None
    about = tyro.conf.arg(
        help=words, metavar=None if kind is bool else shown, help_behavior_hint=hint
    )
    return Annotated[Union[tuple(members)], about]  # noqa: UP007


def _members(kind: Any) -> Sequence[Any]:
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else [kind]


def _metavar(kind: Any) -> str:
    if get_origin(kind) is Sequence:
        return f"{_METAVARS[get_args(kind)[0]]} …"
    return _METAVARS.get(kind, "")


def _make_settings() -> type:
    words = _help()
    rows: list[Any] = [
        (
            name,
            _flag(name, p.annotation, words.get(name, "")),
            field(default=tyro.MISSING if p.default is p.empty else p.default),
        )
        for name, p in _PARAMETERS.items()
    ]
    quiet = tyro.conf.arg(help="show no progress and no summary.")
    config = tyro.conf.arg(
        metavar="FILE",
        help="TOML file with any of these settings; flags override it.",
        help_behavior_hint="",
    )
    rows.append(
        ("quiet", Annotated[bool, quiet, tyro.conf.FlagCreatePairsOff], field(default=False))
    )
    rows.append(("config", Annotated[Path | None, config], field(default=None)))
    return make_dataclass("Settings", rows, frozen=True)


Settings = _make_settings()


def make_forecaster(settings: Any, *, verbose: bool) -> Forecaster:
    """The Forecaster that the flags describe."""
    return Forecaster(verbose=verbose, **{name: getattr(settings, name) for name in _PARAMETERS})


def read_settings(arguments: Sequence[str]) -> Any:
    """Settings before any flag: the defaults, and over them the file that ``--config`` names."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--config")
    try:
        path = parser.parse_known_args(list(arguments))[0].config
    except argparse.ArgumentError:  # said better by the parser of all flags
        path = None
    return Settings(**(_read_config(Path(path)) if path else {}))


def _read_config(path: Path) -> dict[str, Any]:
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FighterError(f"{path} is not TOML: {error}") from error
    kinds = {name: p.annotation for name, p in _PARAMETERS.items()} | {"quiet": bool}
    for name, value in given.items():
        if name not in kinds:
            near = difflib.get_close_matches(name.replace("-", "_"), kinds, n=1, cutoff=0)
            raise FighterError(f"{path} has an unknown key {name!r}; did you mean {near[0]!r}?")
        if not any(_fits(value, kind) for kind in _members(kinds[name])):
            wanted = " or ".join(filter(None, map(_wanted, _members(kinds[name]))))
            raise FighterError(f"{path}: {name} = {value!r} needs {wanted}")
    return given


def _fits(value: Any, kind: Any) -> bool:
    origin = get_origin(kind)
    if origin is Sequence:
        return isinstance(value, list) and all(_fits(item, get_args(kind)[0]) for item in value)
    if isinstance(value, bool):
        return kind is bool
    if kind is float:
        return isinstance(value, int | float)
    return isinstance(value, origin or kind)


def _wanted(kind: Any) -> str:
    if get_origin(kind) is Sequence:
        return f"a list of {_wanted(get_args(kind)[0]).split()[-1]}s"
    words = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}
    return words.get(kind, "a table" if get_origin(kind) is dict else "")
