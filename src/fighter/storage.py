"""A fitted forecaster on disk: ``config.json`` and ``model.safetensors``. No pickle."""

import json
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from .errors import FighterError

FORMAT = 1


def save_folder(folder: Path, config: dict[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """Write a whole new folder beside, then let it take the old one's place."""
    if folder.exists() and not (folder.is_dir() and _replaceable(folder)):
        raise FighterError(
            f"{folder} exists and is not a saved model: choose another place, or remove it"
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as work:
        new, old = Path(work) / "new", Path(work) / "old"
        new.mkdir()
        save_file({k: v.contiguous().cpu() for k, v in tensors.items()}, new / "model.safetensors")
        text = json.dumps({"format": FORMAT, **config}, indent=1, ensure_ascii=False, default=str)
        (new / "config.json").write_text(text + "\n", encoding="utf-8")
        if folder.exists():
            for kept in folder.iterdir():  # metrics and checkpoints of the run stay with it
                if kept.name not in ("config.json", "model.safetensors"):
                    target = new / kept.name
                    if kept.is_dir():
                        shutil.copytree(kept, target)
                    else:
                        shutil.copy2(kept, target)
            folder.rename(old)
        new.rename(folder)


def load_folder(folder: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Config and tensors, on the CPU."""
    for name in ("config.json", "model.safetensors"):
        if not (folder / name).is_file():
            raise FighterError(f"{folder} holds no saved model: {name} is missing")
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        tensors = load_file(folder / "model.safetensors", device="cpu")
    except (json.JSONDecodeError, SafetensorError) as error:
        raise FighterError(f"{folder} holds a damaged model ({error})") from error
    if config.get("format") != FORMAT:
        raise FighterError(
            f"{folder} was saved in format {config.get('format')}, this version reads {FORMAT}: "
            "install the version that saved it, or fit again"
        )
    return config, tensors


def _replaceable(folder: Path) -> bool:
    names = {path.name for path in folder.iterdir()}
    return not names or bool(names & {"config.json", "metrics.jsonl", "checkpoint.safetensors"})


def kind_of(table: Any) -> str:
    """The library a table is from, by name; forecasts come back in its type."""
    if isinstance(table, str):
        return table
    return type(table).__module__.split(".")[0]


def to_tensors(prefix: str, arrays: Mapping[str, Any]) -> dict[str, Tensor]:
    """Arrays as tensors with a prefix."""
    return {f"{prefix}.{name}": torch.as_tensor(array) for name, array in arrays.items()}


def under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of a prefix, without it."""
    start = f"{prefix}."
    return {k.removeprefix(start): v for k, v in tensors.items() if k.startswith(start)}
