import gzip
import sys

import pandas as pd
import pytest

from fighter.data.files import read_table
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
def test_text(tmp_path, name, text):
    data = text.encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    table = read_table(tmp_path / name)
    assert list(table.columns) == ["ds", "y"]
    assert table["y"].tolist() == [1.5]


def test_a_decimal_comma_may_come_late(tmp_path):
    (tmp_path / "a.csv").write_text("ds;y\n2024-01-01;1\n2024-01-02;1,5\n")
    assert read_table(tmp_path / "a.csv")["y"].tolist() == [1, 1.5]


def test_parquet(tmp_path):
    pd.DataFrame({"y": [1, 2]}).to_parquet(tmp_path / "a.parquet")
    assert read_table(str(tmp_path / "a.parquet"))["y"].tolist() == [1, 2]


def test_refusals(tmp_path):
    (tmp_path / "right.csv").write_text("y\n1\n")
    (tmp_path / "empty.csv").touch()
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 but not really")
    (tmp_path / "broken.csv.gz").write_bytes(b"no gzip")
    (tmp_path / "table.xlsx").touch()
    for name, message in [
        ("wrong.csv", r"no file .*wrong.csv. .* has .*right.csv"),
        (".", "is a folder"),
        ("empty.csv", r"0 bytes"),
        ("broken.parquet", "broken.parquet cannot be read"),
        ("broken.csv.gz", "broken.csv.gz cannot be read"),
        ("table.xlsx", "neither CSV nor Parquet"),
    ]:
        with pytest.raises(FighterError, match=message):
            read_table(tmp_path / name)


def test_without_pandas_the_extra_is_named(tmp_path, monkeypatch):
    (tmp_path / "a.csv").write_text("y\n1\n")
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(FighterError, match=r"fighter\[cli\]"):
        read_table(tmp_path / "a.csv")
