"""A training run on disk: one file, whole or not at all.

Tensors of the network, its average, the best so far and the optimiser, and counters go into a
single safetensors file, which takes the old one's place in one step.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from ..errors import FighterError


@contextmanager
def replace_whole(path: Path) -> Iterator[Path]:
    """A place beside ``path`` to write to, then moved there: a kill leaves the old or the new."""
    beside = _beside(path)  # what a killed writer left there is overwritten
    try:
        yield beside
        with beside.open("rb+") as file:
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def write_tensors(tensors: Mapping[str, Tensor], words: dict[str, str], path: Path) -> None:
    """Tensors, and words about them, in one file."""
    contiguous = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    with replace_whole(path) as beside:
        save_file(contiguous, beside, metadata=words)


def save(tensors: Mapping[str, Tensor], state: dict[str, Any], path: Path) -> None:
    """A checkpoint."""
    write_tensors(tensors, {"state": json.dumps(state)}, path)


def load(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors on the CPU, and the state beside them."""
    try:
        with safe_open(path, "pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            return tensors, json.loads((file.metadata() or {}).get("state", "{}"))
    except (SafetensorError, OSError, ValueError) as error:
        raise FighterError(f"{path} is not a checkpoint that can be read ({error})") from error


def remove(path: Path) -> None:
    """Remove a checkpoint, and what a killed writer may have left beside it."""
    for file in (path, _beside(path)):
        file.unlink(missing_ok=True)


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.part")


def fingerprint(*parts: object | None) -> str:
    """A digest of data, by which a checkpoint of other data is known."""
    digest = hashlib.sha256()
    for part in parts:
        for name, value in ({} if part is None else vars(part)).items():
            digest.update(f"{name} {getattr(value, 'shape', value)} ".encode())
            if isinstance(value, Tensor):
                digest.update(value.detach().cpu().contiguous().numpy().data)
    return digest.hexdigest()


def pack(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Names with a prefix, so that several dictionaries fit in one."""
    return {f"{prefix}/{name}": tensor for name, tensor in tensors.items()}


def unpack(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The dictionary that was packed under a prefix."""
    start = f"{prefix}/"
    return {n.removeprefix(start): t for n, t in tensors.items() if n.startswith(start)}


def optimiser_tensors(optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """What an optimiser remembers, as named tensors."""
    state = optimiser.state_dict()["state"]
    return {f"{i}/{key}": value for i, values in state.items() for key, value in values.items()}


def restore_optimiser(optimiser: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """The other way."""
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        i, key = name.split("/")
        state.setdefault(int(i), {})[key] = tensor
    optimiser.load_state_dict({**optimiser.state_dict(), "state": state})
