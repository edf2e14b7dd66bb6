"""Damaged and hostile models and checkpoints: they load to equal forecasts, or are refused.

A case takes a saved model or a checkpoint, damages its files, loads it and forecasts (or resumes
the training). Half of the edits of settings and tensors are written with Fighter's own writer, so
that their digest is valid: those may lead to other forecasts, but to no exception, no number that
is not finite, no death and no gigabytes.
"""

import contextlib
import json
import math
import os
import pickle
import shutil
import struct
import tempfile
import warnings
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from fighter import DataWarning, FighterError, Forecaster, TextClassifier, _storage
from fighter._files import CHECKPOINT, CONFIG, WEIGHTS
from fighter.forecasting.config import Frame, Training
from fighter.models import Fighter
from fighter.training import checkpoint, progress
from tests.fuzz.runner import Outcome, Suite, place

Config = dict[str, Any]
Tensors = dict[str, Tensor]

VALUES: tuple[Any, ...] = (
    None, 0, -1, 1, 2, 10**9, 2**63, 1e308, math.nan, math.inf, True, "", "x", "../../etc/passwd",
    [], [0], ["a", "a"], [[]], {}, {"a": 1}, "D", 0.5, -0.5, 10**30, ["0", "1", "2", "3", "4"],
)  # fmt: skip
TEXTS = ["markets fell again", "the team won", "shares rise today", "a late goal"] * 6


# ---- the models that are damaged ----------------------------------------------------------------


def _table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    rows = 60
    parts = [
        pd.DataFrame(
            {
                "unique_id": name,
                "ds": pd.date_range("2024-01-01", periods=rows, freq="h"),
                "y": np.abs(np.sin(np.arange(rows) / 4) + k + 0.1 * rng.normal(size=rows)),
                "wind": rng.normal(size=rows),
                "price": rng.normal(size=rows),
            }
        )
        for k, name in enumerate("ab")
    ]
    return pd.concat(parts, ignore_index=True)


def _future() -> pd.DataFrame:
    times = pd.date_range("2024-01-03 12:00", periods=2, freq="h")
    return pd.DataFrame({"ds": times, "price": [0.5, -0.5]})


def _forecasters() -> dict[str, Forecaster]:
    quick = Training(max_epochs=2, batch_size=16)
    common = {"verbose": False, "device": "cpu", "training": quick}
    frame = Frame(cycle=4)
    return {
        "covariates": Forecaster(
            2, 8, model=Fighter(width=8, heads=2, members=1), level=[80], past=["wind"],
            future=["price"], frame=frame, **common,
        ),
        "patches": Forecaster(
            3, 12, model=Fighter(width=8, heads=2, members=1, nodes="patch"), **common
        ),
        "members": Forecaster(3, 12, model=Fighter(width=8, heads=2, members=2), **common),
        "dlinear": Forecaster(2, 8, model="dlinear", quantiles=[0.1, 0.9], **common),
        "naive": Forecaster(4, 8, model="naive", frame=frame, **common),
    }  # fmt: skip


def _wide() -> pd.DataFrame:
    table = _table().pivot(index="ds", columns="unique_id", values="y")
    return table.rename_axis(columns=None).reset_index()


def _table_of(name: str) -> pd.DataFrame:
    return _table() if name == "covariates" else _wide()


def prepare(folder: Path) -> None:
    """Fit the models and interrupt a training, once for all cases."""
    warnings.simplefilter("ignore", DataWarning)
    for name, model in _forecasters().items():
        model.fit(_table_of(name)).save(folder / name)
    classifier = _classifier()
    classifier.fit(TEXTS, [len(text) % 2 for text in TEXTS]).save(folder / "text")
    with contextlib.suppress(_StopError), _stop_after(2):
        _trained(folder / "checkpoint")


def _classifier() -> TextClassifier:
    return TextClassifier(
        width=8, heads=2, max_epochs=2, max_length=8, vocabulary=200, device="cpu", verbose=False
    )


class _StopError(Exception):
    pass


@contextlib.contextmanager
def _stop_after(epochs: int) -> Iterator[None]:
    """Interrupt a training after some epochs."""
    true = progress.Progress.epoch

    def stop(self: Any, record: dict[str, Any]) -> None:
        true(self, record)
        if record["epoch"] == epochs:
            raise _StopError

    progress.Progress.epoch = stop
    try:
        yield
    finally:
        progress.Progress.epoch = true


def _trained(folder: Path) -> Forecaster:
    model = Forecaster(
        2, 8, model=Fighter(width=8, heads=2, members=1), verbose=False, device="cpu",
        training=Training(max_epochs=4, batch_size=16),
    )  # fmt: skip
    return model.fit(_wide(), folder=folder)


# ---- what a model says, to be compared ----------------------------------------------------------


def _answer(folder: Path, name: str) -> Any:
    """Load a model and let it forecast; return all that it says."""
    if name == "text":
        classifier = TextClassifier.load(folder)
        labels = classifier.predict(TEXTS[:4])
        return [classifier.predict_proba(TEXTS[:4]), labels.tolist(), str(labels.dtype)]
    if name == "checkpoint":
        model = _trained(folder)
        state = model.fitted.network.state_dict()
        return [*(state[key].numpy() for key in sorted(state)), json.dumps(model.history)]
    model = Forecaster.load(folder)
    future = _future() if name == "covariates" else None
    forecast = model.forecast(future=future)
    later = model.forecast(_table_of(name), future=future)
    table = model.predict(future=future)
    return [
        forecast.point, forecast.quantiles, forecast.times, list(forecast.ids), later.point,
        later.quantiles, later.times, list(table.columns), str(table.dtypes.tolist()),
    ]  # fmt: skip


def _same(a: Any, b: Any) -> bool:
    for x, y in zip(a, b, strict=True):
        if isinstance(x, np.ndarray):
            if x.shape != y.shape or x.dtype != y.dtype or x.tobytes() != y.tobytes():
                return False
        elif repr(x) != repr(y):
            return False
    return True


def _finite(answer: Any) -> bool:
    return all(np.isfinite(x).all() for x in answer if isinstance(x, np.ndarray))


@cache
def _expected(base: Path, name: str) -> Any:
    if name == "checkpoint":
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(base / name, folder, dirs_exist_ok=True)
            return _answer(Path(folder), name)
    return _answer(base / name, name)


# ---- damages ----------------------------------------------------------------------------------


def _read(file: Path) -> tuple[Tensors, dict[str, str]]:
    with safe_open(file, "pt") as opened:
        return {k: opened.get_tensor(k).clone() for k in opened.keys()}, dict(opened.metadata())  # noqa: SIM118


def _paths(value: Any, path: tuple = ()) -> Iterator[tuple]:
    """List the paths of all values in a JSON document."""
    if path:
        yield path
    children = value.items() if isinstance(value, dict) else ()
    if isinstance(value, list):
        children = enumerate(value)
    for key, child in children:
        yield from _paths(child, (*path, key))


def _inside(config: Any, path: tuple) -> Any:
    for key in path[:-1]:
        config = config[key]
    return config


class Damage:
    """One model's file, read so that it can be written again with a change."""

    def __init__(self, folder: Path, name: str, rng: np.random.Generator, number: int) -> None:
        self.folder, self.name, self.rng, self.number = folder, name, rng, number
        self.file = folder / (CHECKPOINT if name == "checkpoint" else WEIGHTS)
        self.key = "state" if name == "checkpoint" else "config"
        self.tensors, self.metadata = _read(self.file)
        self.config = json.loads(self.metadata[self.key])
        self.sealed = False

    def pick(self, things: Any) -> Any:
        things = sorted(things) if isinstance(things, set) else list(things)
        return things[int(self.rng.integers(len(things)))]

    def write(self, config: Any = None, tensors: Tensors | None = None, seal: bool = True) -> None:
        """Write the file again, half of the time with a valid digest."""
        config = self.config if config is None else config
        tensors = self.tensors if tensors is None else tensors
        if seal and self.number % 2 and isinstance(config, dict):
            self.sealed = True
            tensors = {name: t for name, t in tensors.items() if name != checkpoint.CHECKSUM}
            if self.name == "checkpoint":
                checkpoint.save(tensors, config, self.file)
            else:
                _storage.save_folder(self.folder, config, tensors)
            return
        self.write_text(json.dumps(config), tensors)

    def write_text(self, text: str, tensors: Tensors | None = None) -> None:
        """Write the file again with a config that may be no JSON, and the old digest."""
        metadata = {**self.metadata, self.key: text}
        save_file(self.tensors if tensors is None else tensors, self.file, metadata)

    # Each method below is one sort of damage.

    def truncated(self) -> None:
        data = self.file.read_bytes()
        self.file.write_bytes(data[: int(self.rng.integers(len(data)))])

    def appended(self) -> None:
        with self.file.open("ab") as file:
            file.write(self.rng.bytes(int(self.rng.integers(1, 100))))

    def flip(self, header: bool) -> None:
        data = bytearray(self.file.read_bytes())
        size = 8 + struct.unpack("<Q", data[:8])[0]
        where = int(self.rng.integers(0, size) if header else self.rng.integers(size, len(data)))
        data[where] ^= 1 << int(self.rng.integers(8))
        self.file.write_bytes(data)

    def replaced_value(self) -> None:
        paths = list(_paths(self.config))
        path = paths[self.number // 2 % len(paths)]
        config = deepcopy(self.config)
        _inside(config, path)[path[-1]] = self.pick(VALUES)
        self.write(config)

    def nudged_value(self) -> None:
        """Change a value to another of its type."""
        config = deepcopy(self.config)
        path = self.pick(_paths(config))
        value = _inside(config, path)[path[-1]]
        changed: Any = {"changed": value}
        if isinstance(value, bool):
            changed = not value
        elif isinstance(value, int | float):
            changed = value + self.pick([1, -1, 7, 1000])
        elif isinstance(value, str):
            changed = self.pick([value + "x", value[:-1], value.upper(), "h", "fighter", "naive"])
        elif isinstance(value, list):
            changed = self.pick([value + value, value[:-1], value[::-1], [*value, None]])
        _inside(config, path)[path[-1]] = changed
        self.write(config)

    def removed_key(self) -> None:
        config = deepcopy(self.config)
        path = self.pick(_paths(config))
        del _inside(config, path)[path[-1]]
        self.write(config)

    def added_key(self) -> None:
        config = deepcopy(self.config)
        homes = [
            p for p in _paths(config) if isinstance(_inside(config, p)[p[-1]], dict) and len(p) < 4
        ]
        path = self.pick([*homes, ()])
        home = config
        for key in path:
            home = home[key]
        home[self.pick(["extra", "__class__", "__init__", "save", "fit", "network", ""])] = (
            self.pick(VALUES)
        )
        self.write(config)

    def change_tensor(self, change: Callable[[Tensor], Tensor | None]) -> None:
        tensors = dict(self.tensors)
        name = self.pick(tensors)
        changed = change(tensors[name])
        if changed is None:
            del tensors[name]
        else:
            tensors[name] = changed.contiguous()
        self.write(tensors=tensors)

    def other_number(self, value: float) -> None:
        def change(tensor: Tensor) -> Tensor:
            if not tensor.is_floating_point() or not tensor.numel():
                return tensor
            tensor = tensor.clone()
            tensor.view(-1)[int(self.rng.integers(tensor.numel()))] = value
            return tensor

        self.change_tensor(change)

    def other_shape(self) -> None:
        def change(tensor: Tensor) -> Tensor:
            flat = tensor.reshape(-1)
            shapes: list[Callable[[], Tensor]] = [
                lambda: flat[:0], lambda: flat, lambda: flat[:1], lambda: tensor[None],
                lambda: torch.cat([flat, flat]), lambda: tensor.transpose(0, -1), lambda: flat[:7],
                lambda: torch.zeros(3, 3, dtype=tensor.dtype),
                lambda: torch.zeros((), dtype=tensor.dtype),
            ]  # fmt: skip
            return self.pick(shapes)().clone() if tensor.dim() else flat.clone()

        self.change_tensor(change)

    def other_dtype(self) -> None:
        kinds = [torch.float16, torch.float64, torch.int8, torch.int64, torch.bool, torch.bfloat16]
        kind = self.pick(kinds)
        self.change_tensor(lambda tensor: tensor.to(kind))

    def other_json(self) -> None:
        texts = [
            "", "null", "[]", "0", '"x"', "{", "{}", "[" * 100_000, '{"a":' * 50_000, "NaN", "\x00",
            '{"format": 1}', '{"format": 2}', '{"format": 3}', "1" * 100_000, '{"format": 1e999}',
            '{"estimator": "Forecaster", "format": 2}', json.dumps({"format": 2, "a": "b" * 10**6}),
        ]  # fmt: skip
        self.write_text(self.pick(texts))

    def lost_metadata(self) -> None:
        drop = self.pick([*self.metadata, None])
        metadata = {} if drop is None else {k: v for k, v in self.metadata.items() if k != drop}
        save_file(self.tensors, self.file, metadata or None)

    def hostile_header(self) -> None:
        data = self.file.read_bytes()
        size = struct.unpack("<Q", data[:8])[0]
        body = data[8 + size :]
        headers = [
            b'{"a":{"dtype":"F32","shape":[9223372036854775807],"data_offsets":[0,4]}}',
            b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[-4,0]}}',
            b'{"a":{"dtype":"X","shape":[1],"data_offsets":[0,4]}}',
            b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],'
            b'"data_offsets":[0,4]}}',
            b"{" * 1000, b"\xff\xfe", b"", b'{"__metadata__":{"config":1}}',
        ]  # fmt: skip
        header = self.pick(headers)
        length = self.pick([len(header), 2**63, 2**64 - 1, 0, size])
        self.file.write_bytes(struct.pack("<Q", length) + header + body)

    def other_file(self) -> None:
        things: list[Callable[[], Any]] = [
            lambda: self.file.write_bytes(b""),
            lambda: self.file.write_bytes(pickle.dumps({"a": 1})),
            lambda: self.file.write_bytes(b"PK\x03\x04" + bytes(100)),
            lambda: self.file.write_bytes(bytes(4096)),
            lambda: self.file.write_bytes(self.rng.bytes(4096)),
            self.file.unlink,
            lambda: self._link("/dev/null"),
            lambda: self._link("/dev/zero"),
            lambda: self._link("/etc/passwd"),
            lambda: self._link("nowhere"),
            lambda: self._link(self.file.name),
            lambda: self._folder(),
        ]
        self.pick(things)()

    def _link(self, target: str) -> None:
        self.file.unlink()
        self.file.symlink_to(target)

    def _folder(self) -> None:
        self.file.unlink()
        self.file.mkdir()

    def swapped(self) -> None:
        """Give the file the config or the tensors of another model."""
        base = Path(os.environ["FUZZ_BASE"])
        others = [
            n
            for n in ("covariates", "patches", "members", "dlinear", "naive", "text")
            if n != self.name
        ]
        other = base / self.pick(others)
        tensors, metadata = _read(other / WEIGHTS)
        if self.rng.random() < 0.2:
            shutil.copy(other / WEIGHTS, self.file)
            self.sealed = True  # a whole model, though another one
        elif self.rng.random() < 0.5 or self.name == "checkpoint":
            self.write(tensors=tensors)
        else:
            self.write(json.loads(metadata["config"]))

    def second_file(self) -> None:
        """Damage the copy of the settings that is meant for people."""
        file = self.folder / CONFIG
        if file.exists():
            text = file.read_text()
            file.write_text(self.pick(["", "[]", text[: len(text) // 2], "{}", text + text]))


DAMAGES: dict[str, Callable[[Damage], None]] = {
    "file cut short": Damage.truncated,
    "bytes appended": Damage.appended,
    "bit flipped in the header": lambda damage: damage.flip(header=True),
    "bit flipped in the tensors": lambda damage: damage.flip(header=False),
    "setting replaced": Damage.replaced_value,
    "setting replaced ": Damage.replaced_value,
    "setting nudged": Damage.nudged_value,
    "setting removed": Damage.removed_key,
    "setting added": Damage.added_key,
    "tensor removed": lambda damage: damage.change_tensor(lambda _: None),
    "number of a tensor is NaN": lambda damage: damage.other_number(math.nan),
    "number of a tensor is infinite": lambda damage: damage.other_number(math.inf),
    "number of a tensor is 1e6": lambda damage: damage.other_number(1e6),
    "tensor of another shape": Damage.other_shape,
    "tensor of another dtype": Damage.other_dtype,
    "JSON bomb or other JSON": Damage.other_json,
    "metadata lost": Damage.lost_metadata,
    "hostile header": Damage.hostile_header,
    "other file, link or folder": Damage.other_file,
    "parts of two models": Damage.swapped,
    "config.json damaged": Damage.second_file,
}
NAMES = ("covariates", "checkpoint", "patches", "covariates", "text", "dlinear", "naive", "members")


def run(number: int, base: Path) -> Outcome:
    """Damage a copy of a model, load it and compare its forecasts with the true ones."""
    os.environ["FUZZ_BASE"] = str(base)
    rng = np.random.default_rng([11, number])
    sort = list(DAMAGES)[number // 2 % len(DAMAGES)]
    name = NAMES[number // (2 * len(DAMAGES)) % len(NAMES)]
    what = {"text": "TextClassifier", "checkpoint": "checkpoint"}.get(name, "Forecaster")
    warnings.simplefilter("ignore", DataWarning)
    expected = _expected(base, name)
    with tempfile.TemporaryDirectory(dir=base) as temporary:
        folder = Path(temporary) / name
        shutil.copytree(base / name, folder)
        damage = Damage(folder, name, rng, number)
        DAMAGES[sort](damage)
        group = f"{what}: {sort.strip()}{', with a valid digest' if damage.sealed else ''}"
        try:
            answer = _answer(folder, name)
        except FighterError as error:
            return Outcome(group, "refused", place(error))
        except Exception as error:
            return Outcome(group, "exception", f"{name}: {place(error)}")
    if len(answer) == len(expected) and _same(answer, expected):
        return Outcome(group, "equal")
    if not _finite(answer):
        return Outcome(group, "different", f"{name}: not finite")
    return Outcome(group, "edited" if damage.sealed else "different", f"{name}: other forecasts")


SUITE = Suite("models", run, cases=8_064, prepare=prepare, seconds=30)
