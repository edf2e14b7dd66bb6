"""The settings of a Forecaster as flags, and as keys of a configuration file.

Names, types, defaults and help texts come from the dataclasses of the settings; nothing is listed
twice. Which flags a model has is known once ``--model`` is, so that flag is read first.
"""

import argparse
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Annotated, Any

from ..errors import FighterError, check_bool
from ..forecasting.config import Config, Frame, Training, nest
from ..forecasting.forecaster import Forecaster
from ..models import MODELS, find_model
from ..models.registry import models_with
from .arguments import REQUIRED, Argument, Shown, read_helps

_GROUPS = {"forecast": ("horizon", "lookback", "level", "quantiles"), "model": ("model",)}
_GROUPS |= {"training": ("validation", "seed", "device")}
_NOT_FLAGS = ("frame", "training", "verbose")  # parts with flags of their own; --quiet

CONFIG = Argument(
    "config",
    Annotated[Path | None, Shown("FILE")],
    "TOML file with any of these settings; flags override it.",
    None,
)


def read_config(texts: Sequence[str]) -> dict[str, Any]:
    """Return the settings in the ``--config`` file, checked; the flag ``--model`` replaces its."""
    early = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    early.add_argument("--config", nargs="?", type=Path)
    early.add_argument("--model", nargs="?")
    flags, _ = early.parse_known_args(texts)
    path = flags.config
    given = {} if path is None else _read_file(path)
    given |= {} if flags.model is None else {"model": flags.model}
    find_model(given.get("model", "fighter"))  # an unknown name is the flag's fault, not the file's
    settings = {name: value for name, value in given.items() if name != "quiet"}
    try:
        check_bool("quiet", given.get("quiet", False))
        if "verbose" in given:
            reason = "there is no such setting; quiet = true hides progress and summary"
            raise FighterError(reason, argument="verbose", value=given["verbose"])
        Config(**{"horizon": 1, **nest(settings)})
    except FighterError as error:
        raise FighterError(f"{path}: {error.argument} = {error.value!r}: {error.reason}") from error
    return given


def setting_arguments(given: Mapping[str, Any]) -> list[Argument]:
    """Return the flags of all settings, those of the chosen model among them."""
    groups = {name: group for group, names in _GROUPS.items() for name in names}
    names = f"the model to train: {', '.join(MODELS)}; each has flags of its own."
    model = find_model(given.get("model", "fighter"))
    found = _from_fields(Config, Forecaster, lambda name: groups.get(name, "data"))
    return [
        Argument("model", Annotated[str, Shown("NAME")], names, "fighter", "model")
        if argument.name == "model"
        else argument
        for argument in found
        if argument.name not in _NOT_FLAGS
    ] + [
        argument
        for kind, group in ((type(model), "model"), (Frame, "frame"), (Training, "training"))
        for argument in _from_fields(kind, kind, lambda _, group=group: group)
    ]


def explain_flag(flag: str) -> str:
    """Say which models have a flag that the chosen one lacks; empty if none has it."""
    name = flag.removeprefix("--").removeprefix("no-").replace("-", "_")
    having = models_with(name)
    return f"only these models have it: {', '.join(having)}." if having else ""


def explain_fixed_flag(flag: str) -> str:
    """Say that a setting of the Forecaster cannot be changed in a fitted model; else empty."""
    name = flag.removeprefix("--").replace("-", "_")
    fixed = name != "future" and name in {f.name for f in fields(Config)}  # --future-file is meant
    return "it is fixed when the model is fitted; fit again to change it." if fixed else ""


def make_forecaster(settings: Mapping[str, Any], *, verbose: bool) -> Forecaster:
    """Return the Forecaster that the settings describe."""
    return Forecaster.from_flat(**settings, verbose=verbose)


def _from_fields(kind: type, documented: type, group: Any) -> list[Argument]:
    helps: dict[str, str] = {}
    for base in reversed(documented.__mro__):
        helps |= read_helps(base)
    return [
        Argument(
            f.name,
            f.type,
            helps.get(f.name, ""),
            REQUIRED if f.default is MISSING else f.default,
            group(f.name),
        )
        for f in fields(kind)
        if f.init
    ]


def _read_file(path: Path) -> dict[str, Any]:
    """Read a configuration; keys may be written like flags, ``max-epochs``."""
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FighterError(f"{path} is not TOML: {error}") from error
    if tables := [name for name, value in given.items() if isinstance(value, dict)]:
        what = f"[{tables[0]}] is a table: a configuration has none"
        raise FighterError(f"{path}: {what}; delete that line, its settings stand alone")
    return {name.replace("-", "_"): value for name, value in given.items()}
