"""Tables in files: CSV, Parquet and Excel, also compressed, in folders or on standard input."""

import csv
import gzip
import io
import mmap
import re
import sys
import zipfile
import zlib
from collections.abc import Sequence
from glob import glob, has_magic
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

from .._files import atomic_write
from ..errors import FighterError, needs_package, warn_user

TEXT = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt", ".txt.gz")
PARQUET = (".parquet", ".pq")
READABLE = (*TEXT, *PARQUET, ".gz", ".zip", ".xlsx")
WRITABLE = (".csv", ".csv.gz", ".parquet")
LARGEST = 8 * 2**30  # bytes that a compressed file may unpack to
_SAMPLE = 2000  # lines that are looked at before a CSV file is read
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


def open_table(
    name: str | Path, data_dir: str | Path | None = None, *, encoding: str | None = None
) -> Any:
    """Read a table from a file, several files, standard input or the catalogue.

    Args:
        name: a file; a folder or a pattern such as ``data/*.parquet``, whose files are joined; "-"
            for standard input; or the name of a known data set, in which cells that stand for
            missing data are emptied.
        data_dir: folder where data sets are looked for first.
        encoding: encoding of CSV files, such as "latin-1" (default: UTF-8, or UTF-16 if the file
            begins with its mark).
    """
    from .datasets import catalogue  # it reads its files with read_table

    text, path = str(name), Path(name)
    if _URL.match(text):
        raise FighterError(f"{text} is an address; download the file and name it here")
    if text == "-":
        return _parse(sys.stdin.buffer.read(), "standard input", encoding)
    if path.is_dir():
        files = [p for p in path.iterdir() if p.is_file() and not p.name.startswith((".", "_"))]
        return _join([p for p in files if p.name.casefold().endswith(READABLE)], text, encoding)
    if not path.exists() and has_magic(text):
        matches = map(Path, glob(text, recursive=True))  # noqa: PTH207  # it may be absolute
        return _join([p for p in matches if p.is_file()], text, encoding)
    if path.exists() or path.suffix:
        return read_table(path, encoding=encoding)
    try:
        catalogue.entry(text)
    except FighterError as error:
        raise FighterError(f"there is no file {text}, and {error}") from None
    return catalogue.load(text, data_dir, clean=True)


def read_table(
    path: str | Path, names: Sequence[str] | None = None, encoding: str | None = None
) -> Any:
    """Read a CSV, Parquet or Excel file as a pandas table.

    The separator of a CSV (comma, semicolon, tab or ``|``) is inferred from its first line. In a
    file that is not separated by commas, ``1,5`` may be a number. ``names`` are the column names
    of a CSV without a header.
    """
    path = Path(path)
    if not path.exists():
        beside = sorted(p.name for p in path.parent.glob("*") if p.name.endswith(READABLE))
        there = f"; {path.parent} has {', '.join(beside[:8])}" if beside else ""
        raise FighterError(f"there is no file {path}{there}")
    if path.is_dir():
        raise FighterError(f"{path} is a folder; name a CSV or Parquet file")
    name = path.name.casefold()
    if not name.endswith(READABLE):
        suffixes = ", ".join(READABLE)
        raise FighterError(f"{path} is neither CSV nor Parquet; its name must end in {suffixes}")
    if path.stat().st_size == 0:
        raise FighterError(f"{path} is empty (0 bytes)")
    if name.endswith((".gz", ".zip", ".xlsx")):
        return _parse(path.read_bytes(), str(path), encoding, names)
    if name.endswith(PARQUET):
        return _read_parquet(path, str(path))
    with path.open("rb") as file:
        return _read_csv(path, file, str(path), encoding, names)


def write_table(table: Any, path: str | Path) -> None:
    """Write a pandas table to a Parquet file if its name says so, else to a CSV file."""
    with atomic_write(path) as file:
        if file.name.casefold().endswith(".parquet"):
            table.to_parquet(file, index=False)
        else:
            table.to_csv(file, index=False)


def import_pandas() -> ModuleType:
    """Import pandas, which only files and tables of its type need."""
    with needs_package("pandas"):
        import pandas
    return pandas


def _join(files: list[Path], name: str, encoding: str | None) -> Any:
    """Join files with the same columns, in the order of their names."""
    if not files:
        raise FighterError(f"{name} has no file that ends in {', '.join(READABLE)}")
    files = sorted(files)
    tables = [read_table(file, encoding=encoding) for file in files]
    columns = list(tables[0].columns)
    for file, table in zip(files, tables, strict=True):
        if set(table.columns) != set(columns):
            differ = sorted(map(str, set(columns) ^ set(table.columns)))
            what = f"{file} and {files[0]} have different columns: {', '.join(differ[:8])}"
            raise FighterError(f"{what}; name files of one table")
    return import_pandas().concat([table[columns] for table in tables], ignore_index=True)


def _parse(data: bytes, name: str, encoding: str | None, names: Sequence[str] | None = None) -> Any:
    """Read a file from memory; its first bytes tell its format."""
    if not data:
        raise FighterError(f"{name} is empty (0 bytes)")
    if data.startswith(b"PK\x03\x04"):
        return _parse_zip(data, name, encoding)
    if data.startswith(b"\x1f\x8b") or name.casefold().endswith(".gz"):
        try:
            with gzip.open(io.BytesIO(data)) as file:
                unpacked = io.BytesIO()
                while chunk := file.read(2**24):
                    if unpacked.tell() > LARGEST - len(chunk):
                        raise _too_large(name)
                    unpacked.write(chunk)
        except (OSError, EOFError, zlib.error) as error:
            raise _unreadable(name, error) from error
        inner = name[:-3] if name.casefold().endswith(".gz") else name
        return _parse(unpacked.getvalue(), inner, encoding, names)
    if name.casefold().endswith((".zip", ".xlsx")):
        raise _unreadable(name, "not a ZIP archive")
    if data.startswith(b"PAR1"):
        return _read_parquet(io.BytesIO(data), name)
    return _read_csv(io.BytesIO(data), io.BytesIO(data), name, encoding, names)


def _parse_zip(data: bytes, name: str, encoding: str | None) -> Any:
    """Read the one table in a ZIP archive, or the first sheet of an Excel file, which is one."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if sum(member.file_size for member in archive.infolist()) > LARGEST:
                raise _too_large(name)
            members = [m for m in archive.namelist() if not m.startswith("__MACOSX")]
            if "[Content_Types].xml" in members:
                return _read_excel(io.BytesIO(data), name)
            tables = [m for m in members if m.casefold().endswith(READABLE)]
            if len(tables) != 1:
                held = ", ".join(tables[:8] or members[:8]) or "nothing"
                reason = f"{name} must hold one table, but it holds {held}"
                raise FighterError(f"{reason}; unpack it and name the file")
            content = archive.read(tables[0])
    except (zipfile.BadZipFile, zlib.error, RuntimeError, NotImplementedError, EOFError) as error:
        raise _unreadable(name, error) from error
    return _parse(content, f"{name}/{tables[0]}", encoding)


def _read_excel(data: io.BytesIO, name: str) -> Any:
    pandas = import_pandas()
    with needs_package("openpyxl"):
        import openpyxl  # noqa: F401  # pyright: ignore[reportMissingModuleSource, reportMissingImports]
    try:
        sheets = pandas.read_excel(data, sheet_name=None, engine="openpyxl")
    except (ValueError, KeyError, OSError) as error:
        raise _unreadable(name, error) from error
    filled = [sheet for sheet, table in sheets.items() if len(table)] or list(sheets)
    if len(filled) > 1:
        warn_user(f"{name} has the sheets {', '.join(filled)}; {filled[0]} was read.")
    return sheets[filled[0]]


def _read_parquet(source: Path | io.BytesIO, name: str) -> Any:
    try:
        return import_pandas().read_parquet(source)
    except ImportError as error:
        remedy = "install pyarrow or use a CSV file"
        raise FighterError(f"{name} needs a Parquet reader; {remedy} ({error})") from None
    except (ValueError, OSError, EOFError) as error:
        raise _unreadable(name, error) from error


def _read_csv(
    source: Path | io.BytesIO,
    sample: Any,
    name: str,
    encoding: str | None,
    names: Sequence[str] | None,
) -> Any:
    """Read a CSV from ``source``; ``sample`` is the same file, opened to look at its beginning."""
    pandas = import_pandas()
    start = sample.read(2)
    sample.seek(0)
    encoding = encoding or ("utf-16" if start in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
    try:
        with io.TextIOWrapper(sample, encoding=encoding, newline="") as text:
            lines = [*islice(text, _SAMPLE)]
        if any("\0" in line for line in lines):
            used = encoding.removesuffix("-sig")
            reason = f"{name} is not text, or not encoded in {used}; pass its encoding"
            raise FighterError(f"{reason}, such as utf-16-le", argument="encoding")
        separator = csv_separator(lines)
        if encoding == "utf-8-sig":
            lines += _padded_lines(source, separator)
        options = csv_dialect(lines, separator, names)
        return pandas.read_csv(source, encoding=encoding, low_memory=False, **options)
    except UnicodeError as error:
        others = "latin-1, cp1252 or utf-16"
        reason = f"{name} is not encoded in {encoding.removesuffix('-sig')} ({error})"
        raise FighterError(
            f"{reason}; pass its encoding, such as {others}", argument="encoding"
        ) from error
    except LookupError as error:
        reason = "there is no such encoding; use one such as latin-1, cp1252 or utf-16"
        raise FighterError(reason, argument="encoding", value=encoding) from error
    except (ValueError, OSError, EOFError, csv.Error) as error:
        if isinstance(error, FighterError):
            raise
        if ragged := re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", str(error)):
            before, line, cells = ragged.groups()
            what = f"line {line} of {name} has {cells} cells, and those before it {before}"
            remedy = "remove lines above the header, and give every row the cells of the header"
            raise FighterError(f"{what}; {remedy}") from error
        raise _unreadable(name, error) from error


def csv_separator(lines: list[str]) -> str:
    """Infer the separator from the first line."""
    head = re.sub(r'"[^"]*"', "", lines[0]) if lines else ""
    return max(",;\t|", key=head.count)


def _padded_lines(source: Path | io.BytesIO, separator: str) -> list[str]:
    """Find lines anywhere in a file with a cell such as ``007``, the first thousand."""
    end = re.escape(separator.encode())
    cell = rb'"?0[0-9]+"?'
    patterns = (rb"\n" + cell + end, end + cell + rb"(?=[\r\n]|" + end + rb")")
    if isinstance(source, io.BytesIO):
        return _lines_with(patterns, source.getbuffer())
    with source.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return _lines_with(patterns, data)


def _lines_with(patterns: Sequence[bytes], data: Any) -> list[str]:
    """Return the lines in which a pattern was found, a thousand for each at most."""
    lines = []
    for pattern in patterns:
        for found in islice(re.finditer(pattern, data), 1000):
            # Bytes of number 10 end lines.
            begin = found.start() + found.group().startswith(b"\n")
            while begin and data[begin - 1] != 10:
                begin -= 1
            stop = found.end()
            while stop < len(data) and data[stop] != 10:
                stop += 1
            lines.append(bytes(data[begin:stop]).decode() + "\n")
    return lines


def csv_dialect(lines: list[str], separator: str, names: Sequence[str] | None) -> dict[str, Any]:
    """Infer the options of the reader from the cells.

    Only whole cells count, so that the dots of ``31.12.2024`` are not decimal marks. Columns with
    cells such as ``007`` stay text.
    """
    rows = [*csv.reader(lines, delimiter=separator)] or [[]]
    header = rows.pop(0) if names is None else list(names)
    cells = (cell.strip() for row in rows for cell in row)
    marks = {mark[1] for cell in cells if (mark := re.fullmatch(r"[-+]?\d+([.,])\d+", cell))}
    padded = {
        place for row in rows for place, cell in enumerate(row) if re.fullmatch(r"0\d+", cell)
    }
    return {
        "sep": separator,
        "decimal": "," if separator != "," and marks == {","} else ".",
        "dtype": {header[place]: str for place in padded if place < len(header)},
        **({} if names is None else {"header": None, "names": header}),
    }


def _unreadable(name: str, error: Exception | str) -> FighterError:
    remedy = "check that it is complete and has the format of its name"
    return FighterError(f"{name} cannot be read ({str(error).strip()}); {remedy}")


def _too_large(name: str) -> FighterError:
    return FighterError(
        f"{name} unpacks to more than {LARGEST / 2**30:.3g} GiB; unpack it yourself"
    )
