"""A fitted forecaster on disk: ``config.json`` and ``model.safetensors``. No pickle.

The weights carry the config with them, and that is what is read back: the one file is whole or
not there at all, so a kill while saving leaves the old model or the new one. ``config.json`` is the
same text for people and other programs.
"""

import datetime as dt
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from ._files import CHECKPOINT, CONFIG, METRICS, WEIGHTS, atomic_write, part_path
from .errors import FighterError
from .training.checkpoint import write_tensors

FORMAT = 1


def save_folder(folder: Path, config: dict[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """Write a model; one that was saved there before is replaced."""
    if folder.exists() and not (folder.is_dir() and _ours(folder)):
        raise FighterError(
            f"{folder} exists and is not a saved model: choose another place, or remove it"
        )
    text = json.dumps({"format": FORMAT, **config}, indent=1, ensure_ascii=False, default=_plain)
    folder.mkdir(parents=True, exist_ok=True)
    write_tensors(tensors, {"config": text}, folder / WEIGHTS)
    with atomic_write(folder / CONFIG, durable=True) as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")


def load_folder(folder: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Config and tensors, on the CPU."""
    if not (folder / WEIGHTS).is_file():
        raise FighterError(f"{folder} holds no saved model: {WEIGHTS} is missing")
    try:
        with safe_open(folder / WEIGHTS, "pt", device="cpu") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            config = json.loads((file.metadata() or {})["config"])
    except (KeyError, OSError, SafetensorError, ValueError) as error:
        raise damaged(folder, error) from error
    if config.get("format") != FORMAT:
        raise FighterError(
            f"{folder} was saved in format {config.get('format')}, this version reads {FORMAT}: "
            "install the version that saved it, or fit again"
        )
    return config, tensors


def damaged(folder: Path, error: Exception) -> FighterError:
    """The error for a model that cannot be read."""
    return FighterError(
        f"{folder} holds a damaged model ({type(error).__name__}: {error}): save it again"
    )


def _ours(folder: Path) -> bool:
    """Whether nothing of somebody else's would be lost."""
    names = {path.name for path in folder.iterdir()}
    training = {METRICS, CHECKPOINT, part_path(folder / CHECKPOINT).name}
    if not names or names & training:
        return True
    try:
        with safe_open(folder / WEIGHTS, "pt") as file:
            return "config" in (file.metadata() or {})
    except (OSError, SafetensorError):
        return False


def _plain(value: Any) -> Any:
    """Numbers of numpy as Python's, and days and times as they can be read back."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, dt.datetime):
        return {"datetime": value.isoformat()}
    if isinstance(value, dt.date):
        return {"date": value.isoformat()}
    if isinstance(value, Path):
        return str(value)
    raise FighterError(f"{value!r} ({type(value).__name__}) cannot be saved as JSON")


def read_id(value: Any) -> Any:
    """An id as it was before it was saved."""
    if not isinstance(value, dict):
        return value
    ((kind, text),) = value.items()
    return (dt.datetime if kind == "datetime" else dt.date).fromisoformat(text)


def kind_of(table: Any) -> str:
    """The library a table is from, by name; forecasts come back in its type."""
    if isinstance(table, str):
        return table
    return type(table).__module__.split(".")[0]


def to_tensors(prefix: str, arrays: Mapping[str, Any]) -> dict[str, Tensor]:
    """Arrays as tensors with a prefix."""
    return {f"{prefix}.{name}": torch.as_tensor(array) for name, array in arrays.items()}


def strip_prefix(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of a prefix, without it."""
    start = f"{prefix}."
    return {k.removeprefix(start): v for k, v in tensors.items() if k.startswith(start)}
