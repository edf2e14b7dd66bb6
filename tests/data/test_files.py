import gzip
import sys

import pandas as pd
import pytest

from fighter.data.datasets import catalogue
from fighter.data.files import WRITABLE, open_table, read_table, write_table
from fighter.errors import FighterError


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "ds,y\n2024-01-01,1.5\n"),
        ("a.csv", "ds;y\n2024-01-01;1,5\n"),
        ("a.tsv", "ds\ty\n2024-01-01\t1.5\n"),
        ("a.csv", "ds;y\n2024-01-01;1.5\n"),
        ("a.csv", "ds;y\n31.12.2024 00:00;1,5\n"),  # dots in the date
        ("a.csv", 'ds\ty\n31.12.2024\t"1,5"\n'),
        ("a.csv.gz", "ds,y\n2024-01-01,1.5\n"),
    ],
)
def test_separators_decimals_and_compression_are_inferred(tmp_path, name, text):
    data = text.encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    table = read_table(tmp_path / name)
    assert list(table.columns) == ["ds", "y"]
    assert table["y"].tolist() == [1.5]


def test_a_decimal_comma_may_appear_in_a_later_row(tmp_path):
    (tmp_path / "a.csv").write_text("ds;y\n2024-01-01;1\n2024-01-02;1,5\n")
    assert read_table(tmp_path / "a.csv")["y"].tolist() == [1, 1.5]


def test_parquet_is_read(tmp_path):
    pd.DataFrame({"y": [1, 2]}).to_parquet(tmp_path / "a.parquet")
    assert read_table(str(tmp_path / "a.parquet"))["y"].tolist() == [1, 2]


def test_files_that_cannot_be_read(tmp_path):
    (tmp_path / "right.csv").write_text("y\n1\n")
    (tmp_path / "empty.csv").touch()
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 but not really")
    (tmp_path / "broken.csv.gz").write_bytes(b"no gzip")
    (tmp_path / "table.xlsx").touch()
    for name, message in [
        ("wrong.csv", r"no file .*wrong.csv; .* has broken.csv.gz, .*right.csv"),
        (".", "is a folder"),
        ("empty.csv", r"0 bytes"),
        ("broken.parquet", "broken.parquet cannot be read"),
        ("broken.csv.gz", "broken.csv.gz cannot be read"),
        ("table.xlsx", "neither CSV nor Parquet"),
    ]:
        with pytest.raises(FighterError, match=message):
            read_table(tmp_path / name)


@pytest.mark.parametrize("suffix", WRITABLE)
def test_a_written_table_is_read_back(tmp_path, suffix):
    path, table = tmp_path / "new" / f"T{suffix.upper()}", pd.DataFrame({"y": [1.5, 2.5]})
    write_table(table, path)
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    assert read_table(path).equals(table)
    assert (path.read_bytes()[:4] == b"PAR1") == (suffix == ".parquet")


def test_a_failed_write_leaves_the_old_table(tmp_path):
    (tmp_path / "a.csv").write_text("y\n1\n")
    broken = pd.DataFrame({"y": [1]})
    broken.to_csv = lambda file, **_: file.write_text("y") and 1 / 0
    with pytest.raises(ZeroDivisionError):
        write_table(broken, tmp_path / "a.csv")
    assert [file.read_text() for file in tmp_path.iterdir()] == ["y\n1\n"]


def test_a_table_is_opened_by_file_or_by_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "weather").mkdir()
    (tmp_path / "weather" / "weather.csv").write_text("date,OT\n2020-01-01,-9999\n")
    assert open_table("weather/weather.csv")["OT"].tolist() == [-9999]
    assert open_table("Weather", tmp_path)["OT"].isna().all()  # -9999 stands for missing
    with pytest.raises(FighterError, match=r"no file load\.csv"):
        open_table("load.csv")
    with pytest.raises(FighterError, match=r"no file load, .*no data set 'load'"):
        open_table("load")
    monkeypatch.setattr(catalogue, "load", lambda name, data_dir, clean: (name, data_dir, clean))
    assert open_table("ETTh1") == ("ETTh1", None, True)


def test_without_pandas_the_package_is_named(tmp_path, monkeypatch):
    (tmp_path / "a.csv").write_text("y\n1\n")
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(FighterError, match="pip install pandas"):
        read_table(tmp_path / "a.csv")
