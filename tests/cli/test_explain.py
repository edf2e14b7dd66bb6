import pandas as pd
import pytest

from fighter import Forecaster
from fighter.cli import main

from ..explain.test_page import unpacked
from ..tables import tiny, waves


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "model"
    tiny(level=[80]).fit(waves(90, ids=("a", "b"))).save(folder)
    return folder


def test_explain_prints_the_summary_and_the_largest_parts(model, capsys):
    assert main(["explain", str(model), "--series", "b", "--step", "3", "--top", "4"]) == 0
    out = capsys.readouterr().out
    graph = Forecaster.load(model).explain(unique_id="b", step=3)
    assert out.startswith(graph.summary())
    table = out.removeprefix(graph.summary()).strip().splitlines()
    assert table[0].split() == ["source", "time", "lag", "hop", "part", "share"]
    assert len(table) == 1 + 4
    first = graph.edges(top=1).iloc[0]
    assert table[1].split()[0] == first.source
    assert float(table[1].split()[-2]) == pytest.approx(first.part, rel=1e-3)


def test_explain_reads_later_data_and_writes_a_page(model, tmp_path, capsys):
    later = waves(100, ids=("a", "b"))
    later.to_csv(tmp_path / "later.csv", index=False)
    page = tmp_path / "new" / "why.html"
    command = ["explain", str(model), str(tmp_path / "later.csv"), "--series", "a"]
    command += ["--step", "2", "--most", "4", "--html", str(page)]
    assert main(command) == 0
    out = capsys.readouterr().out
    # Two steps of each series fit in, the first and the last; the second was asked for.
    assert f"report    {page}: Explained: 3 of 6 steps of all 2 series." in out
    text, _ = unpacked(page)
    start = text["targets"][text["start"]]
    assert (text["ids"][start["series"]], start["step"]) == ("a", 2)
    value = Forecaster.load(model).explain(later, unique_id="a", step=2).forecast
    assert start["forecast"] == pytest.approx(value, rel=1e-4)
    assert start["time"] == "2024-01-05 05:00"


def test_the_id_of_a_series_may_be_a_number(tmp_path, capsys):
    tiny().fit(waves(60, ids=(7, 8))).save(tmp_path / "m")
    assert main(["explain", str(tmp_path / "m"), "--series", "8"]) == 0
    assert capsys.readouterr().out.startswith("8 at ")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([], "--series: needs one of the 2 series, a, b"),
        (["--series", "c"], "--series c: needs one of the 2 series, a, b"),
        (["--series", "a", "--step", "7"], "--step 7: the model forecasts steps 1 to 6"),
        (["--series", "a", "--top", "0"], "--top 0: needs at least 1"),
        (["--series", "a", "--most", "0"], "--most 0: needs at least 1"),
        (["--series", "a", "--html", "why.pdf"], "must end in .html"),
        (["no.csv", "--series", "a"], "no.csv"),
    ],
)
def test_wrong_flags_give_one_line(model, tmp_path, monkeypatch, capsys, flags, message):
    monkeypatch.chdir(tmp_path)
    assert main(["explain", str(model), *flags]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.splitlines()) == 1
    assert message in captured.err
    assert not any(tmp_path.iterdir())


def test_forecast_writes_a_page(tmp_path, capsys):
    table = waves(90).pivot(index="ds", columns="unique_id", values="y").reset_index()
    table.to_csv(tmp_path / "load.csv", index=False)
    flags = ["--horizon", "4", "--lookback", "12", "--width", "8", "--heads", "2"]
    flags += ["--max-epochs", "1", "--level", "80"]
    page, out = tmp_path / "why.html", tmp_path / "f.csv"
    command = ["forecast", str(tmp_path / "load.csv"), *flags]
    assert main([*command, "--out", str(out), "--report", str(page)]) == 0
    assert f"report    {page}: Explained: all 4 steps of all 2 series." in capsys.readouterr().err
    text, _ = unpacked(page)
    forecasts = pd.read_csv(out)
    found = [target["forecast"] for target in text["targets"]]
    assert found == pytest.approx(forecasts["Fighter"], rel=1e-4)
    assert main([*command, "--report", str(tmp_path / "why.txt")]) == 1
    captured = capsys.readouterr()
    assert "must end in .html" in captured.err
    assert captured.out == ""  # before any work
