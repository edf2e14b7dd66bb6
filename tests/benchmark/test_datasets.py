"""Data sets are found by name, file and folder, and read as benchmarks read them."""

import pytest

from fighter.benchmark.contest import horizons_for
from fighter.benchmark.datasets import file_dataset, find_datasets, known_dataset, read
from fighter.errors import FighterError


@pytest.fixture
def nothing_cached(tmp_path, monkeypatch):
    for name in ("FIGHTER_DATA", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "cache"))


def test_known_data_are_read_as_benchmarks_read_them(data_dir):
    """Rows stay as they are: Weather repeats one stamp and lacks nine, ETT ends after 20 months."""
    weather, split = read(known_dataset("weather", data_dir))
    assert weather.length == 52_696
    assert weather.observed.all()
    assert (split.train.stop, split.val.stop, split.test.stop) == (36_887, 42_157, 52_696)
    ett, split = read(known_dataset("ETTh1", data_dir))
    assert ett.length == split.test.stop == 14_400
    assert split.val.start == 8_640


def test_default_horizons(path, data_dir):
    assert horizons_for(file_dataset(path)) == (24,)
    assert horizons_for(known_dataset("ETTh1", data_dir)) == (96, 192)


def test_tables_in_a_folder_are_recognised_by_content(path, tmp_path, data_dir):
    for name in ("load.csv", "weather.csv"):  # the second is not the well-known one
        (tmp_path / name).write_bytes(path.read_bytes() + b"\n" * len(name))
    (tmp_path / "text.csv").write_text("title,label\nSome news,1\n")
    (tmp_path / "notes.md").write_text("nothing")
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "copy.parquet").write_bytes((data_dir / "ETTh1.parquet").read_bytes())
    said = []
    datasets = find_datasets((), tmp_path, None, said.append)
    assert [(dataset.name, dataset.known) for dataset in datasets] == [
        ("ETTh1", "ETTh1"), ("load", None), ("weather", None),
    ]  # fmt: skip
    assert len(said) == 1
    assert "text.csv" in said[0]


def test_one_file_and_names_in_any_case(path, tmp_path, data_dir):
    (tmp_path / "LOAD.CSV").write_bytes(path.read_bytes())
    assert [dataset.name for dataset in find_datasets((), tmp_path / "LOAD.CSV")] == ["LOAD"]
    assert [dataset.name for dataset in find_datasets(("etth1",), data_dir)] == ["ETTh1"]


@pytest.mark.usefixtures("nothing_cached")
def test_missing_data_are_named(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty.csv").touch()
    for data, place, message in (
        (("nothing",), None, "'nothing'"),
        (("nothing.csv",), None, "nothing.csv"),
        (("nowhere/nothing.xlsx",), None, "nowhere/nothing.xlsx"),
        ((str(tmp_path),), None, "is a folder"),
        ((), None, "weather"),
        ((str(tmp_path / "empty.csv"),), None, str(tmp_path / "empty.csv")),
        ((), tmp_path / "empty", str(tmp_path / "empty")),
    ):
        with pytest.raises(FighterError, match=message):
            find_datasets(data, place)
    with pytest.raises(FighterError) as error:
        find_datasets((), tmp_path / "nowhere")
    assert error.value.argument == "data_dir"


def test_table_that_cannot_be_used_is_named(tmp_path):
    file = tmp_path / "text.csv"
    file.write_text("title,label\nSome news,1\n")
    with pytest.raises(FighterError, match=r"text\.csv"):
        file_dataset(file)
