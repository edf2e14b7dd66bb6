"""A fitted estimator on disk: ``config.json`` and ``model.safetensors``. No pickle.

The weights file carries the config too, and only that copy is read back: the file is replaced as a
whole, so a kill while saving leaves the old model or the new one. ``config.json`` is the same text
for people and other programs.
"""

import datetime as dt
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from ._files import CHECKPOINT, CONFIG, METRICS, WEIGHTS, atomic_write, part_path
from .data.columns import SeriesKey
from .errors import FighterError
from .training.checkpoint import write_tensors

FORMAT = 2
READABLE = (1, 2)


def save_folder(folder: Path, config: dict[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """Write a model, replacing one that was saved there before."""
    if folder.exists() and not (folder.is_dir() and _ours(folder)):
        raise FighterError(
            f"{folder} exists and is not a saved model: choose another folder, or remove it"
        )
    text = json.dumps({"format": FORMAT, **config}, indent=1, ensure_ascii=False, default=_plain)
    folder.mkdir(parents=True, exist_ok=True)
    write_tensors(tensors, {"config": text}, folder / WEIGHTS)
    with atomic_write(folder / CONFIG, durable=True) as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")


def load_folder(folder: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read config and tensors, on the CPU."""
    if not (folder / WEIGHTS).is_file():
        raise FighterError(f"{folder} holds no saved model: {WEIGHTS} is missing")
    try:
        with safe_open(folder / WEIGHTS, "pt", device="cpu") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            config = json.loads((file.metadata() or {})["config"])
    except (KeyError, OSError, SafetensorError, ValueError) as error:
        raise damaged(folder, error) from error
    if config.get("format") not in READABLE:
        raise FighterError(
            f"{folder} was saved in format {config.get('format')}, this version reads formats "
            f"{' and '.join(map(str, READABLE))}: "
            "install the version that saved it, or fit again"
        )
    return config, tensors


@contextmanager
def loading(folder: Path, kind: type) -> Iterator[tuple[dict[str, Any], dict[str, Tensor]]]:
    """Yield what was saved by an estimator of this kind; turn errors into "damaged model"."""
    config, tensors = load_folder(folder)
    saved = config.get("estimator", "Forecaster")  # early forecasters did not write their name
    if saved not in (base.__name__ for base in kind.__mro__):
        raise FighterError(
            f"{folder} holds a {saved}, not a {kind.__name__}: load it with fighter.{saved}"
        )
    try:
        yield config, tensors
    except (AttributeError, KeyError, RuntimeError, TypeError, ValueError) as error:
        raise damaged(folder, error) from error


def damaged(folder: Path, error: Exception) -> FighterError:
    """Return the error for a model that cannot be read."""
    return FighterError(
        f"{folder} holds a damaged model ({type(error).__name__}: {error}): save it again"
    )


def _ours(folder: Path) -> bool:
    """Tell whether the folder is empty or holds only files of a model or a training run."""
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
    """Convert numpy numbers to Python's, and dates and times to what :func:`read_id` reads."""
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
    """Return an id as it was before it was saved; a list is an id over several columns."""
    if isinstance(value, list):
        return SeriesKey(map(read_id, value))
    if not isinstance(value, dict):
        return value
    ((kind, text),) = value.items()
    return (dt.datetime if kind == "datetime" else dt.date).fromisoformat(text)


def table_library(table: Any) -> str:
    """Return the name of the library a table is from; forecasts come back in its type."""
    if isinstance(table, str):
        return table
    return type(table).__module__.split(".")[0]


def to_tensors(prefix: str, arrays: Mapping[str, Any]) -> dict[str, Tensor]:
    """Return arrays as tensors whose names begin with a prefix."""
    return {f"{prefix}.{name}": torch.as_tensor(array) for name, array in arrays.items()}


def strip_prefix(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors whose names begin with a prefix, without it."""
    start = f"{prefix}."
    return {k.removeprefix(start): v for k, v in tensors.items() if k.startswith(start)}
