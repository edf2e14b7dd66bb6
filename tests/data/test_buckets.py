"""Large tables are split into files of whole series, and read back from them."""

import gzip

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from fighter.data import buckets, split_table
from fighter.data.buckets import holds_parquet, read_folder
from fighter.errors import FighterError

from ..tables import waves

TABLE = waves(30, ids=[f"s{i}" for i in range(12)])


@pytest.fixture
def shuffled(tmp_path):
    path = tmp_path / "table.parquet"
    TABLE.sample(frac=1, random_state=0).to_parquet(path, index=False)
    return path


def ordered(table: pd.DataFrame) -> pd.DataFrame:
    return table.sort_values(["unique_id", "ds"]).reset_index(drop=True)


def assert_same(folder, table: pd.DataFrame = TABLE):
    found = read_folder(folder, ["unique_id"])
    pd.testing.assert_frame_equal(ordered(found), ordered(table), check_dtype=False)


@pytest.mark.parametrize("held", [1, 2**25])
def test_every_row_is_in_the_file_of_its_series_in_order(shuffled, tmp_path, monkeypatch, held):
    monkeypatch.setattr(buckets, "HELD", held)
    monkeypatch.setattr(buckets, "BATCH", 50)
    files = split_table(shuffled, tmp_path / "out", buckets=4)
    assert [file.name for file in files] == [f"bucket-{i}.parquet" for i in range(4)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "table.parquet"]
    for file in files:
        table = pd.read_parquet(file)
        pd.testing.assert_frame_equal(table, ordered(table))
    assert_same(tmp_path / "out")


def test_the_file_of_a_series_follows_from_its_id_alone(shuffled, tmp_path):
    TABLE[TABLE.unique_id == "s7"].to_parquet(tmp_path / "one.parquet")
    (file,) = split_table(tmp_path / "one.parquet", tmp_path / "one", buckets=50)
    split_table(shuffled, tmp_path / "all", buckets=50)
    assert "s7" in set(pd.read_parquet(tmp_path / "all" / file.name).unique_id)
    assert file.name == "bucket-07.parquet"  # in every process, version and machine


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "semicolon.csv", "sixteen.csv"])
def test_csv_files_are_read_as_everywhere(tmp_path, name):
    table = TABLE.assign(y=TABLE.y.round(3))
    options = {"sep": ";", "decimal": ","} if name == "semicolon.csv" else {}
    encoding = "utf-16" if name == "sixteen.csv" else "utf-8"
    table.to_csv(tmp_path / name, index=False, encoding=encoding, **options)
    split_table(tmp_path / name, tmp_path / "out", buckets=3)
    assert_same(tmp_path / "out", table)


def test_types_of_a_csv_file_do_not_depend_on_its_first_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(buckets, "BLOCK", 100)
    rows = [f"{i},{20240101 + i % 28},{i},\n" for i in range(50)] + ["x,20240101,0.5,late\n"]
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(("id,day,y,z\n" + "".join(rows)).encode()))
    (file,) = split_table(tmp_path / "t.csv.gz", tmp_path / "out", "id", 1, time="day")
    table = pd.read_parquet(file)
    assert table.id.tolist() == sorted([*map(str, range(50)), "x"])
    assert table.day.dtype == np.int64
    assert table.y.iloc[-1] == 0.5
    (tmp_path / "t.csv").write_text("id,y\n" + "a,1\n" * 50 + "b,many\n")
    with pytest.raises(FighterError, match=r"t\.csv cannot be read .*many"):
        split_table(tmp_path / "t.csv", tmp_path / "other", "id")


def test_a_folder_and_several_id_columns(tmp_path):
    table = TABLE.assign(store=TABLE.unique_id.str[1:].astype(int) % 3).rename(
        columns={"unique_id": "item", "ds": "day"}
    )
    (tmp_path / "in").mkdir()
    table[::2].astype({"item": "category"}).to_parquet(tmp_path / "in" / "1.parquet", index=False)
    table[1::2][[*table.columns[::-1]]].to_parquet(tmp_path / "in" / "2.parquet", index=False)
    (tmp_path / "in" / "_SUCCESS").touch()
    files = split_table(tmp_path / "in", tmp_path / "out", ("store", "item"), 4, "day")
    parts = [pd.read_parquet(file) for file in files]
    for part in parts:
        assert part[["store", "item", "day"]].apply(tuple, axis=1).is_monotonic_increasing
    assert len(pd.concat(parts)) == len(table)
    assert sum(part.groupby(["store", "item"]).ngroups for part in parts) == 12


def test_what_cannot_be_split(shuffled, tmp_path):
    out = tmp_path / "out"
    for options, argument in [
        ({"by": "unique_ID"}, "by"),
        ({"time": "day"}, "time"),
        ({"buckets": 0}, "buckets"),
    ]:
        with pytest.raises(FighterError) as error:
            split_table(shuffled, out, **options)
        assert error.value.argument == argument
    with pytest.raises(FighterError, match=r"unique_ID.* 'unique_id', 'ds', 'y'.*Did you mean"):
        split_table(shuffled, out, by="unique_ID")
    TABLE.assign(unique_id=None).to_parquet(tmp_path / "anonymous.parquet")
    TABLE[:0].to_parquet(tmp_path / "empty.parquet")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 but not really")
    (tmp_path / "t.xlsx").touch()
    for name, reason in [
        ("anonymous.parquet", "rows have no id"),
        ("empty.parquet", "table is empty"),
        ("broken.parquet", "cannot be read"),
        ("t.xlsx", "must end in"),
        ("none.csv", "no file"),
    ]:
        with pytest.raises(FighterError, match=reason):
            split_table(tmp_path / name, out)
    assert not out.exists()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
    out.mkdir()
    (out / "letter.txt").touch()
    with pytest.raises(FighterError, match=r"letter\.txt") as error:
        split_table(shuffled, out)
    assert error.value.argument == "out"


def test_a_folder_holds_each_series_once_and_one_kind_of_table(tmp_path):
    TABLE.to_parquet(tmp_path / "a.parquet")
    assert holds_parquet(tmp_path)
    TABLE[TABLE.unique_id == "s5"].to_parquet(tmp_path / "b.parquet")
    with pytest.raises(FighterError, match=r"'s5' is in two files, .*a\.parquet and .*b\.parquet"):
        read_folder(tmp_path, ["unique_id"])
    TABLE.assign(unique_id="new", z=1).to_parquet(tmp_path / "b.parquet")
    for read in (lambda: read_folder(tmp_path, ["unique_id"]),
                 lambda: split_table(tmp_path, tmp_path / "out")):  # fmt: skip
        with pytest.raises(FighterError, match=r"different columns: 'z'"):
            read()
    (tmp_path / "c.csv").touch()
    assert not holds_parquet(tmp_path)
    assert not holds_parquet(tmp_path / "a.parquet")


def test_arrow_types_survive(tmp_path):
    table = pa.table({
        "unique_id": pa.array([2, 1, 1], pa.int32()),
        "ds": pa.array([20000, 20001, 20000], pa.date32()),
        "y": pa.array([1, 2, None], pa.float32()),
    })  # fmt: skip
    parquet.write_table(table, tmp_path / "t.parquet")
    (file,) = split_table(tmp_path / "t.parquet", tmp_path / "out", buckets=1)
    assert parquet.read_table(file).equals(table.take([2, 1, 0]))
