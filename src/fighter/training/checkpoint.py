"""Checkpoints of a training run: one safetensors file, replaced as a whole.

It holds the network, the average of its weights, the best weights so far, the optimiser's state
and counters. A process killed at any moment leaves the old file or the new one.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from .._files import atomic_write, part_path
from ..errors import FighterError


def write_tensors(tensors: Mapping[str, Tensor], metadata: dict[str, str], path: Path) -> None:
    """Write tensors and metadata to one safetensors file."""
    contiguous = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    with atomic_write(path, durable=True) as temporary:
        save_file(contiguous, temporary, metadata=metadata)


def save(tensors: Mapping[str, Tensor], state: dict[str, Any], path: Path) -> None:
    """Write a checkpoint: tensors and a state that JSON can hold."""
    write_tensors(tensors, {"state": json.dumps(state)}, path)


def load(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read a checkpoint: its tensors, on the CPU, and its state."""
    try:
        with safe_open(path, "pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            return tensors, json.loads((file.metadata() or {}).get("state", "{}"))
    except (SafetensorError, OSError, ValueError) as error:
        raise FighterError(f"{path} is not a checkpoint that can be read ({error})") from error


def remove(path: Path) -> None:
    """Remove a checkpoint and the temporary file that a killed process may have left."""
    for file in (path, part_path(path)):
        file.unlink(missing_ok=True)


def fingerprint(*datasets: object | None) -> str:
    """Compute a digest of training data; a checkpoint is resumed only with the same data."""
    digest = hashlib.sha256()
    for dataset in datasets:
        for name, value in ({} if dataset is None else vars(dataset)).items():
            digest.update(f"{name} {getattr(value, 'shape', value)} ".encode())
            if isinstance(value, Tensor):
                digest.update(value.detach().cpu().contiguous().numpy().data)
    return digest.hexdigest()


def pack(parts: dict[str, dict[str, Tensor]]) -> dict[str, Tensor]:
    """Join dictionaries into one, with the name of each as a prefix."""
    return {f"{part}/{name}": t for part in parts for name, t in parts[part].items()}


def unpack(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the dictionary that was packed with a prefix."""
    start = f"{prefix}/"
    return {n.removeprefix(start): t for n, t in tensors.items() if n.startswith(start)}


def optimiser_tensors(optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return an optimiser's state as named tensors."""
    state = optimiser.state_dict()["state"]
    return {f"{i}/{key}": value for i, values in state.items() for key, value in values.items()}


def restore_optimiser(optimiser: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """Load an optimiser's state from the tensors of :func:`optimiser_tensors`."""
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        i, key = name.split("/")
        state.setdefault(int(i), {})[key] = tensor
    optimiser.load_state_dict({**optimiser.state_dict(), "state": state})
