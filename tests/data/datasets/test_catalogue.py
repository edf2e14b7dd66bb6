import numpy as np
import pandas as pd
import pytest

from fighter._files import file_sha256
from fighter.data import Frequency, to_panel
from fighter.data.datasets import catalogue
from fighter.errors import FighterError


@pytest.fixture(autouse=True)
def only_here(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("FIGHTER_DATA", raising=False)


def test_entries_are_complete():
    for dataset in catalogue.CATALOGUE.values():
        assert dataset.title
        assert dataset.licence
        assert dataset.home.startswith("https://")
        assert dataset.freq is None or str(Frequency.parse(dataset.freq)) == dataset.freq
        for part in dataset.parts.values():
            assert part.url is None or part.url.startswith("https://")
            assert part.sha256 is None or len(part.sha256) == 64
            assert part.url is None or part.sha256


def test_folders_are_searched_in_order(tmp_path, monkeypatch):
    with pytest.raises(
        FighterError,
        match=r"ETTh1.parquet or ETTh1.csv in .*cache/fighter; .* fighter data fetch ETTh1",
    ):
        catalogue.find("etth1")
    folders = [tmp_path / "cache" / "fighter", tmp_path / "env", tmp_path / "given" / "ETT-small"]
    monkeypatch.setenv("FIGHTER_DATA", str(tmp_path / "env"))
    for folder in folders:  # each comes before the ones so far
        folder.mkdir(parents=True)
        (folder / "ETTh1.csv").write_text("date,OT\n2016-07-01,1\n")
        assert catalogue.find("ETTh1", tmp_path / "given") == folder / "ETTh1.csv"


def test_unknown_names_are_refused():
    with pytest.raises(FighterError, match="'wether'; the catalogue has 'weather'"):
        catalogue.find("wether")
    with pytest.raises(FighterError, match="agnews has 'train', 'test'") as error:
        catalogue.find("agnews", part="dev")
    assert (error.value.argument, error.value.value) == ("part", "dev")
    with pytest.raises(FighterError, match=r"eia_demand_hourly.parquet.*https://doi.org"):
        catalogue.fetch("eia_demand_hourly")
    with pytest.raises(FighterError, match=r"eia_demand_hourly was not found: .*https://doi.org"):
        catalogue.find("eia_demand_hourly")
    assert not catalogue.at_hand("eia_demand_hourly")


def test_downloads_go_to_the_first_folder(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(catalogue, "download", lambda *args, **kwargs: calls.append((args, kwargs)))
    catalogue.fetch("weather", tmp_path)
    (url, target), options = calls[0]
    assert url.endswith("weather.csv")
    assert target == tmp_path / "weather.csv"
    assert options["sha256"].startswith("34ee981d")


def test_agnews_csv_without_a_header_is_read(tmp_path):
    (tmp_path / "ag_news_test.csv").write_text('"3","Fears","one, ""two"""\n"4","Space","three"\n')
    table = catalogue.load("agnews", tmp_path, part="test")
    assert table.to_dict("list") == {
        "label": [2, 3], "title": ["Fears", "Space"], "description": ['one, "two"', "three"],
    }  # fmt: skip


def test_broken_names_in_weather_csv_are_repaired(tmp_path):
    header = "date,SWDR (W/m\ufffd),PAR (\ufffdmol/m\ufffd/s),max. PAR (\ufffdmol/m\ufffd/s),OT"
    (tmp_path / "weather.csv").write_text(f"{header}\n2020-01-01 00:10:00,0,-9999,1,400.5\n")
    table = catalogue.load("weather", tmp_path, clean=True)
    assert list(table.columns[1:4]) == ["SWDR (W/m2)", "PAR (umol/m2/s)", "max. PAR (umol/m2/s)"]
    assert np.isnan(table["PAR (umol/m2/s)"][0])


def test_local_files_have_the_checksums_of_the_catalogue(data_dir):
    found = 0
    for dataset in catalogue.CATALOGUE.values():
        for part in dataset.parts.values():
            for name, sha256 in {part.file: part.sha256, **part.copies}.items():
                if (data_dir / name).exists() and sha256:
                    assert file_sha256(data_dir / name) == sha256
                    found += 1
    assert found >= 4


def test_real_data_sets_are_loaded(data_dir):
    raw, clean = (catalogue.load("weather", data_dir, clean=flag) for flag in (False, True))
    assert (raw == -9999).sum().sum() == 81
    assert clean.isna().sum().sum() == 81
    np.testing.assert_array_equal(
        to_panel(clean).observed, to_panel(raw, missing_values=[-9999]).observed
    )
    assert len(catalogue.load("agnews", data_dir, part="test")) == 7600
    assert catalogue.load("electricity", data_dir, part="last840").shape == (840, 322)
    assert isinstance(catalogue.load("ETTh1", data_dir), pd.DataFrame)
