"""Tensors on disk, and checkpoints of a training run: one safetensors file, replaced as a whole.

A checkpoint holds the network, the average of its weights, the best weights so far, the optimiser's
state and counters. A process killed at any moment leaves the old file or the new one. Every file
carries a checksum of all it holds.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from .._files import atomic_write
from ..errors import FighterError

CHECKSUM = "sha256"
START_AGAIN = "remove the file to start again, or on the command line pass --overwrite"


def write_tensors(tensors: Mapping[str, Tensor], key: str, text: str, path: Path) -> None:
    """Write tensors, a text under ``key`` and the checksum of both to one safetensors file."""
    contiguous = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    # As a tensor: of several texts, safetensors would choose the order at random.
    contiguous[CHECKSUM] = checksum(contiguous, text)
    with atomic_write(path, durable=True) as temporary:
        temporary.touch()
        mode = temporary.stat().st_mode  # what the umask says; safetensors hides its files
        try:
            save_file(contiguous, temporary, metadata={key: text})
        except SafetensorError as error:
            found = re.search(r"(\w[^:]*) \(os error (\d+)\)", str(error))
            if found is None:
                raise
            raise OSError(int(found[2]), found[1]) from error
        temporary.chmod(mode)


def read_tensors(path: Path, key: str) -> tuple[dict[str, Tensor], str, bool]:
    """Read a file of :func:`write_tensors`: tensors on the CPU, the text, and if it was verified.

    Files of early versions have no checksum. Raises an exception of any type if the file is
    damaged, and FighterError if it cannot be opened.
    """
    try:
        path.open("rb").close()
    except OSError as error:
        raise FighterError(f"{path} cannot be read: {error.strerror}") from error
    with safe_open(path, "pt", device="cpu") as file:
        text = (file.metadata() or {})[key]
        # Copies, because the file may change or shrink while its tensors are in use.
        tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
    expected = tensors.pop(CHECKSUM, None)
    if expected is not None and not torch.equal(checksum(tensors, text), expected):
        raise ValueError(f"its content and its checksum differ, {path.name} was altered")
    return tensors, text, expected is not None


def checksum(tensors: Mapping[str, Tensor], text: str) -> Tensor:
    """Compute the SHA-256 of contiguous tensors (names, dtypes, shapes, bytes) and of a text."""
    digest = hashlib.sha256(text.encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"\0{name}\0{tensor.dtype}\0{tuple(tensor.shape)}\0".encode())
        flat = tensor.as_strided((tensor.numel(),), (1,))  # of one number, strides may be odd
        digest.update(flat.view(torch.uint8).numpy().data)
    return torch.tensor(list(digest.digest()), dtype=torch.uint8)


def check_like(tensors: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> None:
    """Raise ValueError unless names, shapes and dtypes are as expected."""
    for name in sorted(tensors.keys() ^ expected.keys()):
        raise ValueError(f"tensor {name!r} is {'missing' if name in expected else 'unknown'}")
    for name, tensor in tensors.items():
        wanted = expected[name]
        if tensor.shape != wanted.shape or tensor.dtype != wanted.dtype:
            raise ValueError(f"tensor {name!r} is {_sizes(tensor)}, not {_sizes(wanted)}")


def _sizes(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"


def save(tensors: Mapping[str, Tensor], state: dict[str, Any], path: Path) -> None:
    """Write a checkpoint: tensors and a state that JSON can hold."""
    write_tensors(tensors, "state", json.dumps(state), path)


def load(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read a checkpoint: its tensors, on the CPU, and its state."""
    try:
        tensors, text, verified = read_tensors(path, "state")
        state = json.loads(text)
        if not verified or not isinstance(state, dict):
            raise ValueError("it was written by an earlier version")
    except FighterError:
        raise
    except Exception as error:
        raise damaged(path, error) from error
    return tensors, state


def damaged(path: Path, error: Exception) -> FighterError:
    """Return the error for a checkpoint that cannot be resumed from."""
    return FighterError(
        f"{path} is not a checkpoint that can be read ({type(error).__name__}: {error}): "
        f"{START_AGAIN}"
    )


def fingerprint(*datasets: object | None) -> str:
    """Compute a digest of training data; a checkpoint is resumed only with the same data."""
    digest = hashlib.sha256()
    queue = [vars(dataset) for dataset in datasets if dataset is not None]
    while queue:
        for name, value in queue.pop(0).items():
            if is_dataclass(value):  # sampled windows hold windows
                queue.append(vars(value))
                continue
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
