import json

import pytest

import fighter
from fighter._storage import FORMAT
from fighter.cli import main

from ..tables import tiny, waves


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "model"
    table = waves(90, ids=range(7)).assign(warm=1.0)
    tiny(level=[80], past=["warm"]).fit(table, folder=folder)
    return folder


def test_info_as_json_holds_the_facts(model, capsys):
    assert main(["info", str(model), "--json"]) == 0
    card = json.loads(capsys.readouterr().out)
    assert card["model"] == "fighter"
    assert card["format"] == FORMAT
    assert card["series"] == list(range(7))
    assert (card["freq"], card["horizon"], card["lookback"]) == ("h", 6, 12)
    assert (card["rows"], card["start"], card["end"]) == (90, "2024-01-01", "2024-01-04 17:00")
    assert card["levels"] == [80]
    assert card["past"] == ["warm"]
    assert card["validation_rows"] == 14
    assert card["bytes"] == (model / "model.safetensors").stat().st_size
    loaded = fighter.Forecaster.load(model)
    assert card["parameters"] == sum(p.numel() for p in loaded.fitted.network.parameters())


def test_info_fits_a_terminal(model, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["info", str(model)]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.replace(str(model), "model").splitlines())) <= 80
    assert all(word in out for word in ("0, 1, 2, 3, 4, …", "warm", "80 %", "fighter predict"))


def test_info_names_the_columns_that_were_recognised(tmp_path, capsys):
    table = waves(60, ids=(1, 2)).rename(columns={"unique_id": "store", "y": "sales"})
    with pytest.warns(fighter.DataWarning, match="read as long"):
        model = tiny().fit(table)
    model.save(tmp_path / "m")
    assert main(["info", str(tmp_path / "m"), "--json"]) == 0
    columns = json.loads(capsys.readouterr().out)["columns"]
    assert columns == {"id": ["store"], "time": "ds", "target": "sales"}


def test_info_needs_a_model(tmp_path):
    assert main(["info", str(tmp_path / "nowhere")]) == 1
