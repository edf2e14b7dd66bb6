import gzip
import io
import sys
import zipfile

import numpy as np
import pandas as pd
import pytest

from fighter.data import files, to_panel
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
        ("a.txt", "ds|y\n2024-01-01|1.5\n"),
        ("a.csv", '"ds"|"y"\n2024-01-01|1,5\n'),
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
    (tmp_path / "table.json").write_text("{}")
    (tmp_path / "table.xlsx").write_text("not a workbook")
    corrupt = bytearray(gzip.compress(b"ds,a\n" + b"2024-01-01,1\n" * 1000))
    corrupt[20:50] = b"\xff" * 30
    (tmp_path / "corrupt.csv.gz").write_bytes(corrupt)
    (tmp_path / "latin.csv").write_bytes("date,Zürich\n2024-01-01,1\n".encode("latin-1"))
    for name, message in [
        ("wrong.csv", r"no file .*wrong.csv; .* has broken.csv.gz, .*empty.csv"),
        (".", "is a folder"),
        ("empty.csv", r"0 bytes"),
        ("broken.parquet", "broken.parquet cannot be read"),
        ("broken.csv.gz", "broken.csv.gz cannot be read"),
        ("corrupt.csv.gz", "corrupt.csv.gz cannot be read"),
        ("table.json", "neither CSV nor Parquet"),
        ("table.xlsx", "cannot be read"),
        ("latin.csv", "latin-1"),
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


def test_text_in_other_encodings(tmp_path):
    text = "date,Zürich\n2024-01-01,1.5\n"
    for encoding, given in [("utf-8", None), ("utf-8-sig", None), ("utf-16", None),
                            ("latin-1", "latin-1"), ("cp1252", "cp1252")]:  # fmt: skip
        (tmp_path / "a.csv").write_bytes(text.encode(encoding))
        assert open_table(tmp_path / "a.csv", encoding=given)["Zürich"].tolist() == [1.5]
    late = "date,a\n" + "2024-01-01,1\n" * 100_000 + "2024-01-01,ü\n"
    (tmp_path / "a.csv").write_bytes(late.encode("latin-1"))
    with pytest.raises(FighterError, match="cp1252") as error:
        open_table(tmp_path / "a.csv")
    assert error.value.argument == "encoding"
    with pytest.raises(FighterError) as error:
        open_table(tmp_path / "a.csv", encoding="klingon")
    assert (error.value.argument, error.value.value) == ("encoding", "klingon")


def test_padded_ids_stay_text(tmp_path):
    (tmp_path / "a.csv").write_text("unique_id,ds,y\n007,1,5\n08,1,06\n08,2,7\n")
    panel = to_panel(read_table(tmp_path / "a.csv"))
    assert panel.ids == ("007", "08")
    assert panel.values.tolist() == [[5, 6], [0, 7]]


def test_archives_hold_one_table(tmp_path, monkeypatch):
    def pack(**members):
        with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
            for name, text in members.items():
                archive.writestr(name.replace("__", "."), text)

    pack(a__csv="ds;y\n1;2,5\n", readme__md="about")
    assert open_table(tmp_path / "a.zip")["y"].tolist() == [2.5]
    for members in ({"a__csv": "y\n1\n", "b__csv": "y\n1\n"}, {"readme__md": ""}):
        pack(**members)
        with pytest.raises(FighterError, match="one table, but it holds"):
            open_table(tmp_path / "a.zip")
    pack(a__csv="y\n" + "1\n" * 1000)
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"y\n" + b"1\n" * 1000))
    monkeypatch.setattr(files, "LARGEST", 1000)
    for name in ("a.zip", "a.csv.gz"):
        with pytest.raises(FighterError, match="unpacks to more than"):
            open_table(tmp_path / name)


def test_folders_and_patterns_are_joined(tmp_path):
    pd.DataFrame({"ds": [3], "y": [6.0]}).to_parquet(tmp_path / "2.parquet")
    (tmp_path / "1.csv").write_text("y,ds\n4,1\n5,2\n")
    (tmp_path / "notes.md").write_text("not a table")
    for name in (tmp_path, tmp_path / "*.[cp]*"):
        assert open_table(name)["y"].tolist() == [4, 5, 6]
    (tmp_path / "3.csv").write_text("ds,z\n4,1\n")
    with pytest.raises(FighterError, match=r"3\.csv .*1\.csv have different columns: y, z"):
        open_table(tmp_path)
    with pytest.raises(FighterError, match="no file that ends in"):
        open_table(tmp_path / "*.xls")


def test_standard_input_is_read(tmp_path, monkeypatch):
    parquet = tmp_path / "a.parquet"
    pd.DataFrame({"y": [1]}).to_parquet(parquet)
    for data in (b"y\n1\n", gzip.compress(b"y\n1\n"), parquet.read_bytes()):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        assert open_table("-")["y"].tolist() == [1]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
    with pytest.raises(FighterError, match="standard input is empty"):
        open_table("-")


def test_an_address_is_shown_as_typed():
    with pytest.raises(FighterError, match=r"https://example\.com/x\.csv is an address"):
        open_table("https://example.com/x.csv")


def test_without_openpyxl_the_package_is_named(tmp_path, monkeypatch):
    with zipfile.ZipFile(tmp_path / "a.xlsx", "w") as archive:
        archive.writestr("[Content_Types].xml", "")
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(FighterError, match="openpyxl"):
        read_table(tmp_path / "a.xlsx")


def test_a_workbook_is_read(tmp_path):
    pytest.importorskip("openpyxl")
    pd.DataFrame({"y": [1, 2]}).to_excel(tmp_path / "a.xlsx", index=False)
    assert read_table(tmp_path / "a.xlsx")["y"].tolist() == [1, 2]


def test_without_pandas_the_package_is_named(tmp_path, monkeypatch):
    (tmp_path / "a.csv").write_text("y\n1\n")
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(FighterError, match="pip install pandas"):
        read_table(tmp_path / "a.csv")


def test_ids_with_zeros_stay_text_also_far_down_a_file(tmp_path):
    rows = [f"{name},{day:05d},1.5" for name in ("7", "007") for day in range(10_000, 13_000)]
    path = tmp_path / "ids.csv"
    path.write_text("\n".join(["unique_id,ds,y", *rows]))
    assert set(read_table(path).unique_id) == {"7", "007"}
    (tmp_path / "ids.csv.gz").write_bytes(gzip.compress(path.read_bytes()))
    assert set(read_table(tmp_path / "ids.csv.gz").unique_id) == {"7", "007"}


def test_hours_with_zeros_are_not_forecast(tmp_path):
    times = pd.date_range("2024-01-01", periods=48, freq="h")
    path = tmp_path / "wide.csv"
    table = pd.DataFrame({"ds": times, "hour": times.strftime("%H"), "load": np.arange(48.0)})
    table.to_csv(path, index=False)
    assert to_panel(read_table(path)).ids == ("load",)


def test_lines_with_other_numbers_of_cells_are_named(tmp_path):
    path = tmp_path / "notes.csv"
    path.write_text("# a\n# b\nds,a,b\n2024-01-01,1,2\n")
    with pytest.raises(FighterError, match=r"line 3 .* 3 cells"):
        read_table(path)


def test_utf_16_without_its_mark_asks_for_the_encoding(tmp_path):
    path = tmp_path / "table.csv"
    path.write_bytes("ds,y\n2024-01-01,1\n".encode("utf-16-le"))
    with pytest.raises(FighterError) as error:
        read_table(path)
    assert error.value.argument == "encoding"
    assert list(read_table(path, encoding="utf-16-le").columns) == ["ds", "y"]
