"""Forecast many files, each by itself: a file in, a file out, and a summary once it is done."""

import re
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import _storage
from .._files import CONFIG, WEIGHTS, check_target, file_sha256, own_folder
from ..data.buckets import parquet_files
from ..data.collect import INPUTS, Collection, collect, read_json, write_json
from ..data.columns import listing
from ..data.files import PARQUET, open_table, read_table, write_table
from ..errors import DataWarning, FighterError, check_count
from ..training.parallel import one_thread
from ..training.progress import say
from .runners import Record, Runner, failure, find_runner
from .storage import pack

if TYPE_CHECKING:
    from .forecaster import Forecaster

Files = str | Path | Iterable[str | Path]
Work = Callable[[Path, Path | None], tuple[Sequence[str], Any]]

_MODEL = ".model"  # a copy for the workers, and the lock of a folder of forecasts
_loaded: dict[Any, "Forecaster"] = {}  # the model of this process, one at most


@dataclass(frozen=True)
class Job:
    """What is done with every file; it travels to the workers.

    Args:
        out: folder of the results.
        work: makes a table from a file and the file with its future covariates, if there is one;
            returns the names of the id columns and the table.
        key: what the result depends on, besides these files.
        future: the file with future covariates, or a folder with one for each file.
    """

    out: Path
    work: Work
    key: Mapping[str, Any]
    future: Path | None = None


def predict_files(
    model: "Forecaster",
    files: Files,
    out: str | Path,
    *,
    runner: Any = None,
    workers: int = 1,
    future: str | Path | None = None,
) -> Collection:
    """Forecast files of series; see :meth:`fighter.Forecaster.predict_files`."""
    inputs, place = _input_files(files), Path(out).resolve()
    run = find_runner(runner, workers, model.torch_device.type == "cuda")
    ahead = None if future is None else _future_files(model, Path(future).resolve())
    # Settings on which no forecast depends are the same in every copy of a model.
    config = replace(model.fitted.config, device=None, verbose=False)
    with _own_results(place, inputs) as folder:
        _storage.write_folder(folder, *pack(replace(model.fitted, config=config)))
        digest = file_sha256(folder / WEIGHTS)
        copy = (type(model), folder, model.device, digest)
        key = {"task": "predict", "model": digest}
        _loaded[copy] = model
        try:
            return _run(Job(place, partial(_predict, copy), key, ahead), inputs, run, model.verbose)
        finally:
            _loaded.clear()


def cross_validate_files(
    model: "Forecaster",
    files: Files,
    out: str | Path,
    *,
    n_windows: int = 1,
    step_size: int | None = None,
    refit: bool = False,
    runner: Any = None,
    workers: int = 1,
) -> Collection:
    """Cross-validate on files; see :meth:`fighter.Forecaster.cross_validate_files`."""
    inputs, place = _input_files(files), Path(out).resolve()
    run = find_runner(runner, workers, model.torch_device.type == "cuda")
    windows = {"n_windows": check_count("n_windows", n_windows), "step_size": step_size}
    settings = {**model.get_params(deep=False), "verbose": False}
    work = partial(_cross_validate, type(model)(**settings), {**windows, "refit": refit})
    plain = repr(type(model)(**{**settings, "device": None}))
    key = {"task": "cross_validate", "model": plain, **windows, "refit": refit}
    with _own_results(place, inputs):
        return _run(Job(place, work, key), inputs, run, model.verbose)


def do_file(job: Job, file: Path) -> Record:
    """Do one file, unless that is done, and return its summary; an error is part of it.

    The result depends on the file and the job alone, not on where and how often this is called.
    """
    start = time.monotonic()
    table_file, summary = (job.out / f"{file.stem}{suffix}" for suffix in (".parquet", ".json"))
    try:
        future = job.future
        if future is not None and future.is_dir():
            future /= file.name
        used = {"input": file} | ({} if future is None else {"future": future})
        key = {**job.key, **{name: file_sha256(path) for name, path in used.items()}}
        done = read_json(summary)
        if done.get("key") == key and table_file.exists():
            return {**done, "again": True}
        for path in (summary, table_file):  # a summary never stands beside another table
            path.unlink(missing_ok=True)
        with one_thread(), _noted() as notes:  # sums would depend on the number of threads
            id_cols, table = job.work(file, future)
        write_table(table, table_file)
        record = {
            "name": file.stem,
            "file": str(file),
            "rows": len(table),
            "series": len(ids := table[list(id_cols)].drop_duplicates().to_numpy().tolist()),
            "seconds": round(time.monotonic() - start, 3),
            "notes": notes,
            "key": key,
            "ids": ids,
        }
        write_json(summary, record)
    except Exception as error:  # the other files go on
        record = failure(file, error)
        with suppress(OSError):
            write_json(summary, record)
    return record


def _predict(copy: Any, file: Path, future: Path | None) -> tuple[Sequence[str], Any]:
    model = _loaded.get(copy)
    if model is None:
        kind, folder, device, _ = copy
        _loaded.clear()
        _loaded[copy] = model = kind.load(folder, device=device)
    panel = model.read(read_table(file))
    forecast = model.forecast(panel, future=None if future is None else open_table(future))
    return panel.id_cols, forecast.table()


def _cross_validate(
    model: "Forecaster", windows: Mapping[str, Any], file: Path, _: Path | None
) -> tuple[Sequence[str], Any]:
    panel = model.read(read_table(file))
    return panel.id_cols, model.cross_validation(panel, **windows)


def _run(job: Job, inputs: Sequence[Path], runner: Runner, verbose: bool) -> Collection:
    """Do all files; raise an error about those that failed once the others are done."""
    failed: dict[str, str] = {}
    for count, record in enumerate(runner(partial(do_file, job), inputs), 1):
        name = record["name"]
        if "error" in record:
            failed[name] = said = record["error"]
        else:
            said = f"{record['series']:,} series, {record['rows']:,} rows"
            said += ", done before" if record.get("again") else f" in {record['seconds']:.1f} s"
        if verbose:
            say(f"[{count}/{len(inputs)}] {name}: {said}")
    if failed:
        name, reason = next(iter(failed.items()))
        what = f"{len(failed)} of {len(inputs)} files failed, {listing(failed, 8)}"
        raise FighterError(f"{what}; the others are kept; the first reason, of {name!r}: {reason}")
    return collect(job.out)


def _input_files(files: Files) -> list[Path]:
    """Return the files by their full paths; their names are to be the names of the results."""
    if isinstance(files, str | Path):
        if not Path(files).is_dir():
            needed = "needs a folder of Parquet files, which fighter data split writes, or a list"
            raise FighterError(needed, argument="files", value=str(files))
        paths = parquet_files(Path(files))
    else:
        paths = [Path(file) for file in files]
    homes: dict[str, Path] = {}
    for path in paths:
        if path.suffix.casefold() not in PARQUET:
            raise FighterError(f"{path} is no Parquet file: fighter data split writes such files")
        if (other := homes.setdefault(path.stem, path)) is not path:
            reason = f"{other} and {path} have one name, so their forecasts would have too: rename"
            raise FighterError(f"{reason} one", argument="files")
    if not paths:
        raise FighterError("needs at least one file", argument="files")
    return [path.absolute() for path in paths]


def _future_files(model: "Forecaster", future: Path) -> Path:
    """Return the file or folder with future covariates, if there is one and a use for it."""
    if not model.fitted.context.future_names:
        raise FighterError("there are no future covariates: leave it out", argument="future")
    if not future.exists():
        raise FighterError("there is no such file", argument="future", value=str(future))
    return future


@contextmanager
def _own_results(out: Path, inputs: Sequence[Path]) -> Iterator[Path]:
    """Hold a folder of results, note its inputs, and yield a folder for a copy of the model.

    The folder is absent, empty or one of results; no file of somebody else is replaced.
    """
    check_target(out)
    if any(path.parent.resolve() == out for path in inputs):
        reason = "holds the files to forecast, which would be replaced: choose another folder"
        raise FighterError(reason, argument="out", value=str(out))
    names = [path.name for path in out.iterdir()] if out.exists() else []
    names = [name for name in names if not name.startswith(".")]
    if names and INPUTS not in names:
        reason = f"is no folder of forecasts, it holds {min(names)!r}: choose another folder"
        raise FighterError(reason, argument="out", value=str(out))
    folder = out / _MODEL
    with own_folder(folder):
        for path in out.iterdir():
            if re.match(r"\.\d+\.", path.name):  # temporary files of a call that was killed
                path.unlink(missing_ok=True)
        known = read_json(out / INPUTS)
        for name, source in known.copy().items():
            if not Path(source).exists() and not (out / f"{name}.parquet").exists():
                del known[name]  # both were removed
        known |= {path.stem: str(path) for path in inputs}
        write_json(out / INPUTS, dict(sorted(known.items())))
        try:
            yield folder
        finally:
            for name in (CONFIG, WEIGHTS):
                (folder / name).unlink(missing_ok=True)
    with suppress(OSError):
        folder.rmdir()  # which a call that was killed left behind


@contextmanager
def _noted() -> Iterator[list[str]]:
    """Collect what is noticed in the data, instead of warning; other warnings are issued after."""
    notes: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DataWarning)
        yield notes
    for warning in caught:
        if issubclass(warning.category, DataWarning):
            notes.append(str(warning.message))
        else:
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )
