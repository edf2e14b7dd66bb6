import io

import pandas as pd
import pytest

from fighter import Forecaster
from fighter.cli import main

from ..forecasting.test_network import led
from ..tables import tiny


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "model"
    settings = {"lookback": 8, "cycle": None, "max_epochs": 25, "lr": 0.01, "smoothing": False}
    tiny(2, **settings).fit(led()).save(folder)
    led().to_csv(folder.parent / "table.csv", index=False)
    return folder


def test_network_prints_links_and_writes_table_picture_and_page(model, tmp_path, capsys):
    table = str(model.parent / "table.csv")
    names = [tmp_path / name for name in ("edges.csv", "net.png", "net.html")]
    flags = [f for pair in zip(("--out", "--plot", "--html"), map(str, names)) for f in pair]  # noqa: B905
    assert main(["network", str(model), table, "--top", "2", *flags]) == 0
    out = capsys.readouterr().out
    network = Forecaster.load(model).network(led())
    assert out.startswith(network.summary())
    assert "b follows a by 3 steps" in out
    written = pd.read_csv(names[0])
    pd.testing.assert_frame_equal(written, network.table(), rtol=1e-4)
    assert all(path.stat().st_size > 1000 for path in names[1:])


def test_the_table_goes_to_standard_output_alone(model, capsys):
    table = str(model.parent / "table.csv")
    assert main(["network", str(model), table, "--windows", "5", "--out", "-"]) == 0
    written = pd.read_csv(io.StringIO(capsys.readouterr().out))
    assert set(written.source) == {"a", "b", "c"}


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--top", "0"], "--top 0: needs at least 1"),
        (["--windows", "0"], "--windows 0: needs at least 1"),
        (["--html", "net.pdf"], "must end in .html"),
        (["--plot", "net.txt"], "must end in .png"),
        (["no.csv"], "no.csv"),
    ],
)
def test_wrong_flags_give_one_line(model, tmp_path, monkeypatch, capsys, flags, message):
    monkeypatch.chdir(tmp_path)
    assert main(["network", str(model), *flags]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.splitlines()) == 1
    assert message in captured.err
    assert not any(tmp_path.iterdir())
