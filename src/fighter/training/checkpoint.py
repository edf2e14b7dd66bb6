"""A training run on disk: one file, whole or not at all.

Tensors of the network, its average, the best so far and the optimiser, random states and counters
go into a single safetensors file, which takes the old one's place in one step.
"""

import json
import os
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from ..errors import FighterError


def save_atomically(tensors: dict[str, Tensor], state: dict[str, Any], path: Path) -> None:
    """Write beside, flush, and move into place: a kill leaves the old file or the new one."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        contiguous = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
        save_file(contiguous, beside, metadata={"state": json.dumps(state)})
        with beside.open("rb+") as file:
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def load(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors on the CPU, and the state beside them."""
    try:
        with safe_open(path, "pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            return tensors, json.loads((file.metadata() or {}).get("state", "{}"))
    except (SafetensorError, OSError, ValueError) as error:
        raise FighterError(f"{path} is not a checkpoint that can be read ({error})") from error


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
