"""Tables too large for memory, as folders of Parquet files that hold whole series."""

import shutil
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np

from .._files import check_target
from ..errors import FighterError, check_count, needs_package
from .columns import column_names, factorise, listing, missing_column
from .files import PARQUET, READABLE, TEXT, csv_dialect, csv_separator, import_pandas, read_table

if TYPE_CHECKING:
    import pyarrow as pa

BATCH = 2**16  # rows that are read at a time
HELD = 2**25  # bytes that are held until they are written to their buckets
BLOCK = 2**22  # bytes of a CSV file that are parsed at a time


def split_table(
    source: str | Path,
    out: str | Path,
    by: str | Sequence[str] = "unique_id",
    buckets: int = 64,
    time: str | None = None,
) -> list[Path]:
    """Split a long table into Parquet files of whole series; memory holds one file at most.

    The file of a series follows from its id alone, so it is the same in every call. Rows are sorted
    by id and time. Ids in a CSV file stay text. The folder appears once it is complete.

    Args:
        source: a Parquet or CSV file, or a folder of Parquet files.
        out: the folder to write, absent or empty.
        by: id column or columns (default: "unique_id").
        buckets: number of files; those without a series are left out (default: 64).
        time: time column (default: "ds" if there is one).

    Returns:
        The files.
    """
    check_count("buckets", buckets)
    by, source, out = column_names(by, "by"), Path(source), Path(out).resolve()
    check_target(out)
    if out.is_dir() and (held := sorted(path.name for path in out.iterdir())):
        reason = f"is not empty, it holds {listing(held, 3)}: choose another folder, or remove it"
        raise FighterError(reason, argument="out", value=str(out))
    with needs_package("pyarrow"):
        tables = _read(source, by, time or "ds")
        first = next(tables)
    columns = first.column_names
    for argument, name in [*(("by", name) for name in by), *([("time", time)] if time else [])]:
        if name not in columns:
            raise missing_column(name, argument, columns)
    order = [*by, *([time or "ds"] if (time or "ds") in columns else [])]
    part = out.with_name(f".{out.name}.part")
    shutil.rmtree(part, ignore_errors=True)  # of a call that was killed
    part.mkdir(parents=True)
    try:
        for spool in _spread(first, tables, by, buckets, part):
            _sort(spool, order)
        if out.is_dir():
            out.rmdir()
        part.rename(out)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return parquet_files(out)


def parquet_files(folder: Path) -> list[Path]:
    """Return the Parquet files of a folder by name, without those named ``.…`` or ``_…``."""
    files = [p for p in folder.iterdir() if p.name.casefold().endswith(PARQUET) and p.is_file()]
    files = [p for p in files if not p.name.startswith((".", "_"))]
    if not files:
        raise FighterError(f"{folder} has no Parquet file: fighter data split writes such a folder")
    return sorted(files)


def holds_parquet(folder: str | Path) -> bool:
    """Tell whether a folder has Parquet files, and no table of another kind."""
    folder = Path(folder)
    names = [path.name.casefold() for path in folder.iterdir()] if folder.is_dir() else []
    tables = [name for name in names if name.endswith(READABLE) and name[0] not in "._"]
    return bool(tables) and all(name.endswith(PARQUET) for name in tables)


def read_folder(folder: Path, id_cols: Sequence[str], files: Sequence[Path] = ()) -> Any:
    """Read the Parquet files of a folder as one pandas table; no series may be in two of them.

    ``files`` are those to read (default: all).
    """
    files = files or parquet_files(folder)
    tables, homes = [], {}
    for file in files:
        table = read_table(file)
        if tables and set(table.columns) != set(tables[0].columns):
            differ = sorted(set(table.columns) ^ set(tables[0].columns))
            what = f"{file} and {files[0]} have different columns: {listing(differ, 8)}"
            raise FighterError(f"{what}; give a folder with the files of one table")
        tables.append(table)
        if len(table) and set(id_cols) <= set(table.columns):
            for name in factorise(nw.from_native(table), id_cols)[0]:
                check_home(homes, name, file)
    return import_pandas().concat(tables, ignore_index=True)


def check_home(homes: dict[Any, Path], name: Any, file: Path) -> None:
    """Note the file of a series; refuse a second one."""
    if (other := homes.setdefault(name, file)) != file:
        raise FighterError(
            f"series {name!r} is in two files, {other} and {file}: a folder holds each series in "
            "one file; fighter data split writes it so"
        )


def _read(source: Path, by: Sequence[str], time: str) -> "Iterator[pa.Table]":
    """Yield the rows of a file or of a folder of Parquet files, in tables of the same types."""
    if source.is_dir():
        return _read_parquet(parquet_files(source))
    if not source.exists():
        raise FighterError(f"there is no file {source}")
    if source.name.casefold().endswith(PARQUET):
        return _read_parquet([source])
    if source.name.casefold().endswith(TEXT):
        return _read_csv(source, by, time)
    suffixes = ", ".join((*PARQUET, *TEXT))
    raise FighterError(f"{source} cannot be split: its name must end in {suffixes}")


def _read_parquet(files: Sequence[Path]) -> "Iterator[pa.Table]":
    import pyarrow as pa
    from pyarrow import parquet

    schema: Any = None
    for path in files:
        try:
            with parquet.ParquetFile(path, buffer_size=2**20) as file:
                schema = schema or _without_dictionaries(file.schema_arrow)
                if set(file.schema_arrow.names) != set(schema.names):
                    differ = sorted(set(file.schema_arrow.names) ^ set(schema.names))
                    what = f"{path} and {files[0]} have different columns: {listing(differ, 8)}"
                    raise FighterError(f"{what}; give a folder with the files of one table")
                for batch in file.iter_batches(BATCH):
                    yield pa.Table.from_batches([batch]).select(schema.names).cast(schema)
        except pa.ArrowException as error:
            raise FighterError(f"{path} cannot be read ({error})") from error
    yield schema.empty_table()  # the columns of files without rows


def _without_dictionaries(schema: "pa.Schema") -> "pa.Schema":
    import pyarrow as pa

    fields = list(schema)
    for place, field in enumerate(fields):
        if pa.types.is_dictionary(field.type):
            fields[place] = field.with_type(field.type.value_type)
    return pa.schema(fields, schema.metadata)


def _read_csv(path: Path, by: Sequence[str], time: str) -> "Iterator[pa.Table]":
    """Yield the rows of a CSV file, with the separator and the decimal mark that its head shows."""
    import pyarrow as pa
    from pyarrow import csv

    with pa.input_stream(str(path)) as file:
        sample = file.read(BLOCK)
    encoding = "utf-16" if sample[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    lines = sample.decode(encoding, "replace").splitlines(keepends=True)[:2000]
    dialect = csv_dialect(lines, csv_separator(lines), None)
    read = csv.ReadOptions(block_size=BLOCK, encoding=encoding.removesuffix("-sig"))
    parse = csv.ParseOptions(delimiter=dialect["sep"])
    options: dict[str, Any] = {"decimal_point": dialect["decimal"]}
    try:
        with csv.open_csv(path, read, parse, csv.ConvertOptions(**options)) as head:
            schema = head.schema
        # Later rows may need more than the first block shows: numbers may have decimals.
        wider = {pa.null(): pa.string(), pa.int64(): pa.float64()}
        wider |= dict.fromkeys((pa.date32(), pa.timestamp("s")), pa.timestamp("us"))
        types = {f.name: wider.get(f.type, f.type) for f in schema}
        if time in types and schema.field(time).type == pa.int64():
            types[time] = pa.int64()
        types |= dict.fromkeys((*by, *dialect["dtype"]), pa.string())
        convert = csv.ConvertOptions(column_types=types, **options)
        with csv.open_csv(path, read, parse, convert) as file:
            for batch in file:
                yield pa.Table.from_batches([batch])
    except pa.ArrowException as error:
        remedy = "correct it, or write the table as Parquet"
        raise FighterError(f"{path} cannot be read ({error}): {remedy}") from error


def _spread(
    first: "pa.Table", rest: "Iterator[pa.Table]", by: Sequence[str], buckets: int, folder: Path
) -> "Iterator[Path]":
    """Append rows to a file for each bucket, and yield these files when all rows are written."""
    import pyarrow as pa
    from pyarrow import parquet

    writers: dict[int, parquet.ParquetWriter] = {}
    digits = len(str(buckets - 1))

    def write(held: list[pa.Table]) -> None:
        table = pa.concat_tables(held)
        numbers = np.concatenate([_bucket_of(part, by, buckets) for part in held])
        table = table.take(np.argsort(numbers, kind="stable"))
        counts = np.bincount(numbers, minlength=buckets)
        ends = counts.cumsum()
        for bucket in map(int, np.flatnonzero(counts)):
            if bucket not in writers:
                name = folder / f".bucket-{bucket:0{digits}d}.parquet"
                writers[bucket] = parquet.ParquetWriter(name, table.schema)
            rows = table.slice(ends[bucket] - counts[bucket], counts[bucket])
            writers[bucket].write_table(rows)

    held, size = [first], first.nbytes
    try:
        for table in rest:
            if size > HELD:
                write(held)
                held, size = [], 0
            held.append(table)
            size += table.nbytes
        write(held)
    finally:
        for writer in writers.values():
            writer.close()
    if not writers:
        raise FighterError(f"the table is empty: 0 rows, columns {listing(first.column_names)}")
    yield from sorted(folder.iterdir())


def _bucket_of(table: "pa.Table", by: Sequence[str], buckets: int) -> np.ndarray:
    """Return the bucket of each row, by a hash of its id as text: it is the same everywhere."""
    import pyarrow as pa
    from pyarrow import compute

    texts = [table[name].cast(pa.string()) for name in by]
    joined: Any = texts[0]
    if len(texts) > 1:
        joined = compute.binary_join_element_wise(*texts, "\x1f")  # pyright: ignore[reportAttributeAccessIssue]
    if joined.null_count:
        raise FighterError(
            f"{joined.null_count} rows have no id: name those series or drop the rows",
            argument="by",
            value=list(by),
        )
    keys = pa.chunked_array(joined.chunks, pa.string()).combine_chunks().dictionary_encode()
    hashes = [blake2b(key.encode(), digest_size=8).digest() for key in keys.dictionary.to_pylist()]
    numbers = np.array([int.from_bytes(value) % buckets for value in hashes], np.int64)
    return numbers[keys.indices.to_numpy()]


def _sort(spool: Path, order: Sequence[str]) -> None:
    """Write the rows of a bucket in order to the file of its name."""
    from pyarrow import parquet

    with parquet.ParquetFile(spool) as file:
        table = file.read()
    table = table.sort_by([(name, "ascending") for name in order])
    parquet.write_table(table, spool.with_name(spool.name[1:]))
    spool.unlink()
