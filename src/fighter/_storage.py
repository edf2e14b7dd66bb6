"""A fitted estimator on disk: ``config.json`` and ``model.safetensors``. No pickle.

The weights file carries the config too, and only that copy is read back: the file is replaced as a
whole, so a kill while saving leaves the old model or the new one. ``config.json`` is the same text
for people and other programs.
"""

import datetime as dt
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import fields
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from ._files import CHECKPOINT, CONFIG, WEIGHTS, atomic_write, check_no_run, own_folder
from .data.columns import SeriesKey
from .errors import FighterError, warn_user
from .training import World
from .training.checkpoint import check_like, read_tensors, write_tensors

FORMAT = 3
READABLE = (1, 2, 3)
UNVERIFIED = (1, 2)  # formats without a checksum
LARGEST = 2**20  # of a setting that no saved tensor shows
ROOM = 2**26  # for numbers of a network that are computed and not saved

Network = TypeVar("Network", bound=nn.Module)


@contextmanager
def training_folder(
    folder: str | Path | None, world: World, overwrite: bool, tensorboard: bool
) -> Iterator[dict[str, Any]]:
    """Hold the folder of a training run, if there is one, and yield the options about it."""
    if not folder:
        for name, value in (("overwrite", overwrite), ("tensorboard", tensorboard)):
            if value:
                raise FighterError("needs a folder to write to", argument=name, value=True)
        yield {}
        return
    place = Path(folder)
    with own_folder(place) if world.first else nullcontext():
        world.wait()  # until rank 0 holds the folder
        yield {"folder": place, "overwrite": overwrite, "tensorboard": tensorboard}
    world.wait()  # until rank 0 has written the model


def save_folder(folder: Path, config: dict[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """Write a model, replacing one that was saved there before."""
    with own_folder(folder):
        check_no_run(folder)
        write_folder(folder, config, tensors)


def write_folder(folder: Path, config: dict[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """Write a model to a folder that this process holds, and remove the run's checkpoint."""
    text = json.dumps({"format": FORMAT, **config}, indent=1, ensure_ascii=False, default=_plain)
    (folder / CONFIG).unlink(missing_ok=True)  # it never stands beside another model
    write_tensors(tensors, "config", text, folder / WEIGHTS)
    with atomic_write(folder / CONFIG, durable=True) as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")
    (folder / CHECKPOINT).unlink(missing_ok=True)


@contextmanager
def loading(folder: Path, kind: type) -> Iterator[tuple[dict[str, Any], dict[str, Tensor]]]:
    """Yield what was saved by an estimator of this kind; turn errors into "damaged model"."""
    if not (folder / WEIGHTS).exists():
        raise FighterError(f"{folder} holds no saved model: {WEIGHTS} is missing")
    with damaged(folder):
        file = (folder / WEIGHTS).stat()
        tensors, text, verified = read_tensors(folder / WEIGHTS, "config")
        config = json.loads(text)
        if not isinstance(config, dict):
            raise TypeError(f"its config is a {type(config).__name__}")
    version, saved = config.get("format"), config.get("estimator", "Forecaster")
    if version not in READABLE:
        raise FighterError(
            f"{folder} was saved in format {version}, this version reads formats "
            f"{', '.join(map(str, READABLE))}: install the version that saved it, or fit again"
        )
    if saved not in (base.__name__ for base in kind.__mro__):
        raise FighterError(
            f"{folder} holds a {saved}, not a {kind.__name__}: load it with fighter.{saved}"
        )
    with damaged(folder):
        if not verified and version not in UNVERIFIED:
            raise ValueError("it has no checksum")
        yield config, tensors
    copied = _text(folder / CONFIG)
    replaced = not os.path.samestat(file, (folder / WEIGHTS).stat())  # by another process, just now
    if copied not in (None, text) and not replaced:
        warn_user(
            f"{folder / CONFIG} was changed, which has no effect: it is a copy for reading. To "
            "change settings, fit again"
        )


def _text(path: Path) -> str | None:
    """Return a text without its last line break; None if there is none."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").removesuffix("\n")
    except FileNotFoundError:
        return None


@contextmanager
def damaged(folder: Path) -> Iterator[None]:
    """Turn whatever a damaged model raises into one error; the cause is chained to it."""
    try:
        yield
    except Exception as error:
        # A file that cannot be opened and a package that is missing are no damage.
        if isinstance(error, FighterError) and isinstance(error.__cause__, OSError | ImportError):
            raise
        raise FighterError(
            f"{folder} holds a damaged model ({type(error).__name__}: {error}): restore the folder "
            "from a copy, or fit again and save"
        ) from error


def check_finite(tensors: Mapping[str, Tensor]) -> None:
    """Raise ValueError if a tensor holds a number that is not finite."""
    for name, tensor in tensors.items():
        if not tensor.isfinite().all():
            raise ValueError(f"tensor {name!r} holds numbers that are not finite")


def check_types(settings: Any) -> None:
    """Raise TypeError unless the fields of a dataclass hold what their annotations say."""
    hints = get_type_hints(type(settings))
    for field in fields(settings):
        value = getattr(settings, field.name) if field.init else None
        if field.init and not fits(value, hints[field.name]):
            raise TypeError(f"{field.name} is {value!r:.60}, not {hints[field.name]}")


def fits(value: Any, hint: Any) -> bool:
    """Tell whether a value is of an annotated type; whole numbers are numbers, booleans are not."""
    kind, inner = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if kind in (Union, UnionType):
        return any(fits(value, choice) for choice in inner)
    if kind is Literal:
        return value in inner
    if kind is not None and issubclass(kind, Mapping):
        return isinstance(value, Mapping) and all(
            fits(k, inner[0]) and fits(v, inner[1]) for k, v in value.items()
        )
    if kind is not None:  # tuple[int, ...] or Sequence[int]
        return isinstance(value, list | tuple) and all(fits(v, inner[0]) for v in value)
    if hint in (int, float):
        numbers = int if hint is int else (int, float)
        return isinstance(value, numbers) and not isinstance(value, bool)
    return isinstance(value, hint)


def rebuild(
    build: Callable[[], Network], options: Mapping[str, Any], saved: Mapping[str, Tensor]
) -> Network:
    """Build a network and load its saved weights; stop if it grows larger than they are.

    Args:
        build: builds the network, with any weights.
        options: the settings that its size depends on.
        saved: its weights.
    """
    # Each layer has a tensor, so more layers than tensors need not be tried.
    most = max(sum(tensor.numel() for tensor in saved.values()), LARGEST)
    for name, value in options.items():
        limit = len(saved) if name.endswith("layers") else most
        for number in value if isinstance(value, tuple) else (value,):
            if isinstance(number, int) and number > limit:
                raise ValueError(f"{name} is {number}, too large for what was saved")
    with _Building(2 * most + ROOM):
        network = build()
    check_like(saved, network.state_dict())
    network.load_state_dict(saved)
    return network


class _Building(TorchFunctionMode):
    """Limits how many numbers a network may hold while it is built, and draws no random weights.

    The weights are loaded afterwards. Numbers from a generator of its own are drawn.
    """

    def __init__(self, most: int):
        super().__init__()
        self.left = most

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run a function of torch, if there is room for its result."""
        kwargs = kwargs or {}
        if func in _FACTORIES:
            sizes = args[0] if args and isinstance(args[0], list | tuple) else args
            sizes = [size for size in kwargs.get("size", sizes) if isinstance(size, int)]
            self.left -= _FACTORIES[func](sizes)
            if self.left < 0:
                raise ValueError(f"its network is larger than its weights, at {sizes}")
        if func in (torch.randn, torch.rand):
            return torch.empty(*args, **kwargs)
        drawn = func in (Tensor.uniform_, Tensor.normal_) and kwargs.get("generator") is None
        if drawn or getattr(func, "__module__", "") == "torch.nn.init":
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)


# Functions that make a tensor, and how many numbers it has.
_FACTORIES: dict[Any, Callable[[list[int]], int]] = {
    torch.empty: math.prod,
    torch.zeros: math.prod,
    torch.ones: math.prod,
    torch.randn: math.prod,
    torch.rand: math.prod,
    torch.full: math.prod,
    torch.eye: lambda sizes: max(sizes) ** 2,
    torch.arange: max,
}


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
    return {"datetime": dt.datetime, "date": dt.date}[kind].fromisoformat(text)


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
