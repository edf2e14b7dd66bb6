"""What a command is to write: checked before it reads or trains anything."""

import fnmatch
import glob
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from .._files import check_folder, check_no_run, check_target
from ..data.datasets import catalogue
from ..data.files import WRITABLE, write_table
from ..errors import FighterError
from ..explain.page import PAGES, plotly_script
from ..plotting.theme import PICTURES, Theme


def check_targets(
    inputs: Mapping[str, str | None], data_dir: Path | None = None, **targets: Path | None
) -> None:
    """Refuse targets that are inputs, that are each other, or that could not be written.

    Inputs and targets are given by the names of their flags.
    """
    given = {flag: path for flag, path in targets.items() if path is not None}
    named = {flag: name for flag, name in inputs.items() if name is not None}
    for i, (flag, path) in enumerate(given.items()):
        clashes = [f"this is also --{o}" for o in list(given)[:i] if _same(path, given[o])]
        for source, name in named.items():
            shown = "FILE" if source == "file" else f"--{source.replace('_', '-')}"
            if any(_same(path, file) for file in _files_of(name, data_dir)):
                clashes.append(f"this is {shown}, which would be overwritten")
            elif flag == "out" and _among(path, name):
                clashes.append(f"the next call would read it as part of {shown}")
        if clashes:
            reason = f"{clashes[0]}: choose another name"
            raise FighterError(reason, argument=flag, value=path)
    for flag, path in given.items():
        _CHECKS[flag](path)


def is_stream(path: Path) -> bool:
    """Tell whether a target is standard output, a pipe or a device, which gets CSV."""
    return str(path) in ("-", "/dev/stdout") or path.is_fifo() or path.is_char_device()


def write(table: Any, path: Path) -> None:
    """Write a pandas table to a file, or as CSV to a stream."""
    if str(path) in ("-", "/dev/stdout"):
        table.to_csv(sys.stdout, index=False)
    elif is_stream(path):
        with path.open("w", encoding="utf-8") as stream:
            table.to_csv(stream, index=False)
    else:
        write_table(table, path)


def _check_table(path: Path) -> None:
    if is_stream(path):
        return
    check_target(path, WRITABLE)
    if path.suffix.casefold() == ".parquet" and find_spec("pyarrow") is None:
        raise FighterError(f"{path} needs pyarrow: pip install pyarrow, or write a .csv file")


def _check_picture(path: Path) -> None:
    check_target(path, PICTURES)
    Theme.follow()  # needs matplotlib


def _check_page(path: Path) -> None:
    check_target(path, PAGES)
    plotly_script()  # needs plotly


def _check_parts(path: Path) -> None:
    check_target(path, (".parquet",))
    if find_spec("pyarrow") is None:
        raise FighterError(f"{path} needs pyarrow: pip install pyarrow")


def _check_model(folder: Path) -> None:
    check_folder(folder)
    check_no_run(folder)


_CHECKS = {
    "out": _check_table,
    "plot": _check_picture,
    "report": _check_page,
    "html": _check_page,
    "parts": _check_parts,
    "save": _check_model,
}


def _files_of(name: str, data_dir: Path | None) -> list[Path]:
    """Return the files and folders that an input names."""
    if name == "-":
        return [Path("/dev/stdin")]
    if Path(name).exists():
        return [Path(name)]
    if glob.has_magic(name):
        return [Path(match) for match in glob.iglob(name, recursive=True)]  # noqa: PTH207
    try:
        return [catalogue.find(name, data_dir)]
    except FighterError:  # neither a data set nor a file, which is said when it is opened
        return [Path(name)]


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:  # one of them is not there yet
        return one.resolve() == other.resolve()


def _among(path: Path, name: str) -> bool:
    """Tell whether a file is in the folder, or fits the pattern, that an input names."""
    if Path(name).is_dir():
        return path.resolve().is_relative_to(Path(name).resolve())
    return glob.has_magic(name) and fnmatch.fnmatch(
        str(path.absolute()), str(Path(name).absolute())
    )
