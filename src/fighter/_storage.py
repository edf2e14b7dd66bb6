"""A fitted estimator on disk: ``config.json`` and ``model.safetensors``. No pickle.

The weights file carries the config too, and only that copy is read back: the file is replaced as a
whole, so a kill while saving leaves the old model or the new one. ``config.json`` is the same text
for people and other programs.
"""

import datetime as dt
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import fields
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
import torch
from torch import Tensor, nn

from ._files import CHECKPOINT, CONFIG, WEIGHTS, atomic_write, own_folder
from .errors import FighterError, warn_user
from .training import World
from .training.checkpoint import check_like, read_tensors, write_tensors
from .training.parallel import own_random_state

FORMAT = 3
READABLE = (1, 2, 3)
UNVERIFIED = (1, 2)  # formats without a checksum
LARGEST = 2**20  # of a setting that no saved tensor shows
MOST_COMPUTED = 2**30  # bytes of a network that are computed and not saved

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
    if (folder / CONFIG).exists() and _text(folder / CONFIG) != text:
        warn_user(
            f"{folder / CONFIG} was changed, which has no effect: it is a copy for reading. To "
            "change settings, fit again"
        )


def _text(path: Path) -> str | None:
    """Return a text without its last line break; None if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8").removesuffix("\n")
    except (OSError, UnicodeDecodeError):
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
    """Build a network and load its saved weights, after a look at how large it would be.

    Args:
        build: builds the network, with any weights.
        options: the settings that its size depends on.
        saved: its weights.
    """
    # A network is first built without memory, to compare it with what was saved. That would never
    # end for a billion layers, and each layer has a tensor; other sizes have a plain limit.
    most = max(sum(tensor.numel() for tensor in saved.values()), LARGEST)
    for name, value in options.items():
        limit = len(saved) if name.endswith("layers") else most
        for number in value if isinstance(value, tuple) else (value,):
            if isinstance(number, int) and number > limit:
                raise ValueError(f"{name} is {number}, too large for what was saved")
    with torch.device("meta"):
        sketch = build()
    check_like(saved, sketch.state_dict())
    computed = {name: b for name, b in sketch.named_buffers() if name not in saved}
    if (size := sum(buffer.nbytes for buffer in computed.values())) > MOST_COMPUTED:
        raise ValueError(f"its network needs {size} bytes for {', '.join(computed)}")
    if not computed:
        sketch.load_state_dict(saved, assign=True)
        return sketch
    with own_random_state():
        network = build()
    network.load_state_dict(saved)
    return network


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
    """Return an id as it was before it was saved."""
    if isinstance(value, list):  # an id of several columns
        return tuple(map(read_id, value))
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
