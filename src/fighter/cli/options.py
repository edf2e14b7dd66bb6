"""The settings of a Forecaster as flags, and as keys of a configuration file.

Names, types, defaults and help texts come from the dataclasses of the settings; nothing is listed
twice. Which flags a model has is known once ``--model`` is, so that flag is read first.
"""

import argparse
import tomllib
from collections.abc import Sequence
from dataclasses import MISSING, asdict, field, fields, make_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import tyro

from ..errors import FighterError
from ..forecasting.config import Config, Frame, Training, nest
from ..forecasting.forecaster import Forecaster
from ..models import MODELS, find_model

_METAVARS = {int: "N", float: "NUMBER", str: "TEXT"}


def read_settings(arguments: Sequence[str]) -> Any:
    """Return the settings before any flag: the defaults, overridden by the ``--config`` file.

    The type of the result has the flags of the chosen model.
    """
    path, model = _read_ahead(arguments)
    given = {} if path is None else _read_config(path)
    given |= {} if model is None else {"model": model}
    quiet = given.pop("quiet", False)
    name = given.get("model", "fighter")
    find_model(name)  # an unknown name is the flag's fault, not the file's
    try:
        nested = nest(given)
    except FighterError as error:
        raise FighterError(f"{path}: {error.argument} = {error.value!r}: {error.reason}") from error
    parts = {
        "network": find_model(nested.pop("model", name)),
        "frame": nested.pop("frame", Frame()),
        "training": nested.pop("training", Training()),
    }
    kinds = {part: _flags_of(type(value)) for part, value in parts.items()}
    values = {part: kinds[part](**asdict(value)) for part, value in parts.items()}
    settings = _settings_type(kinds)
    return settings(**{"horizon": tyro.MISSING, **nested, **values, "model": name, "quiet": quiet})


def make_forecaster(settings: Any, *, verbose: bool) -> Forecaster:
    """Return the Forecaster that the flags describe."""
    given = {f.name: getattr(settings, f.name) for f in fields(Config) if f.name != "verbose"}
    config = MODELS[given["model"]]
    network = config(**vars(settings.network))
    given |= {
        "model": given["model"] if network == config() else network,
        "frame": Frame(**vars(settings.frame)),
        "training": Training(**vars(settings.training)),
    }
    return Forecaster(verbose=verbose, **given)


def _read_ahead(arguments: Sequence[str]) -> tuple[Path | None, str | None]:
    """Return what ``--config`` and ``--model`` say, before all flags are parsed."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--config", type=Path)
    parser.add_argument("--model")
    try:
        found, _ = parser.parse_known_args(list(arguments))
    except argparse.ArgumentError:  # the parser of all flags says it better
        return None, None
    return found.config, found.model


def _read_config(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FighterError(f"{path} is not TOML: {error}") from error


def _settings_type(parts: dict[str, type]) -> type:
    """Return a dataclass of all flags; tyro takes their help from the Forecaster's docstring."""
    rows: list[Any] = []
    for f in fields(Config):
        if f.name == "verbose":  # the command line says --quiet
            continue
        kind = parts.get(f.name) or _flag(f.type)
        if f.name == "model":
            names = f"the model to train: {', '.join(MODELS)}; each has flags of its own."
            about = tyro.conf.arg(help=names, metavar="NAME", help_behavior_hint="")
            kind = Annotated[str, about]
        rows.append((f.name, kind, field(default=_default(f))))
        if f.name == "model":
            rows.append(("network", parts["network"], field(default=None)))
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
    return _documented(make_dataclass("Settings", rows, frozen=True, kw_only=True), Forecaster)


def _flags_of(described: type) -> type:
    """Return a dataclass with the same fields, whose types are shown plainly in the help."""
    rows = [(f.name, _flag(f.type), field(default=_default(f))) for f in fields(described)]
    made = make_dataclass(described.__name__, rows, frozen=True, kw_only=True)
    return _documented(made, described)


def _documented(kind: type, described: type) -> type:
    kind.__doc__ = described.__doc__
    return kind


def _default(row: Any) -> Any:
    return tyro.MISSING if row.default is MISSING else row.default


def _flag(kind: Any) -> Any:
    """Return the type of a flag: numbers are tried before text, metavars are short."""
    members = sorted(_members(kind), key=lambda member: member is str)
    several = Sequence[str] in members  # one text is a list of one
    shown = "|".join(
        _metavar(member)
        for member in members
        if member is not NoneType and not (several and member is str)
    )
    metavar = None if kind is bool or "" in shown.split("|") else shown
    return Annotated[Union[tuple(members)], tyro.conf.arg(metavar=metavar, help_behavior_hint="")]  # noqa: UP007


def _members(kind: Any) -> Sequence[Any]:
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else [kind]


def _metavar(kind: Any) -> str:
    if get_origin(kind) is Sequence:
        return f"{_METAVARS[get_args(kind)[0]]} …"
    return _METAVARS.get(kind, "")
