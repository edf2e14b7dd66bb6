"""Two processes give the same result as one; threads share what torch shares."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path

import pandas as pd
import pytest
import torch

from fighter import FighterError, Forecaster
from fighter._files import CONFIG, METRICS, WEIGHTS
from fighter.training import World, parallel
from fighter.training.parallel import one_thread, own_random_state

from ..tables import tiny, waves

SCRIPT = """
import sys, warnings, torch
torch.set_num_threads(1)
warnings.simplefilter("ignore")
sys.path.insert(0, sys.argv[1])
import os
from pathlib import Path
from tests.training.test_parallel import settings, table
place, rank = Path(sys.argv[2]), os.environ["RANK"]
for kind in ("plain", "masked"):
    model = settings(kind).fit(table(kind), folder=place / f"run-{kind}", distributed=True)
    model.save(place / kind)
    if rank == "0":  # nobody waits for the others
        model.save(place / f"{kind}-again")
    model.predict().to_csv(place / f"{kind}-{rank}.csv", index=False)
    torch.save(model.network.state_dict(), place / f"{kind}-{rank}.pt")
"""


def settings(kind: str):
    # 67 training windows in batches of 6: the last batch has one, which only one process can take
    return tiny(
        dropout=0.0, batch_size=6, validation=40, level=[80], lr=0.01,
        nodes="patch" if kind == "masked" else "series",
    )  # fmt: skip


def table(kind: str) -> pd.DataFrame:
    df = waves(rows=124)
    if kind == "masked":
        df.loc[df.index % 7 == 3, "y"] = None
    return df


@pytest.fixture(scope="module")
def together(tmp_path_factory) -> Path:
    place, root = tmp_path_factory.mktemp("torchrun"), Path(__file__).parents[2]
    script = place / "script.py"
    script.write_text(SCRIPT)
    subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2",
         str(script), str(root), str(place)],
        check=True, timeout=200, capture_output=True,
        env={**os.environ, "PYTHONPATH": str(root / "src"), "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    return place


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fighter.errors.DataWarning")
@pytest.mark.parametrize("kind", ["plain", "masked"])
def test_two_processes_train_like_one(together, kind):
    """Weights agree within 1e-5 at the same global batch size, without dropout."""
    alone = settings(kind).fit(table(kind))
    assert alone.plan.validation == 40
    weights = [torch.load(together / f"{kind}-{rank}.pt") for rank in (0, 1)]
    for name, value in alone.network.state_dict().items():
        assert torch.equal(weights[0][name], weights[1][name])
        torch.testing.assert_close(weights[0][name], value, rtol=1e-5, atol=1e-5)
    expected = alone.predict()
    for rank in (0, 1):  # every process has the complete forecast
        forecast = pd.read_csv(together / f"{kind}-{rank}.csv", parse_dates=["ds"])
        assert forecast[["unique_id", "ds"]].equals(
            expected[["unique_id", "ds"]].astype(forecast[["unique_id", "ds"]].dtypes)
        )
        for name in ("Fighter", "Fighter-lo-80", "Fighter-hi-80"):
            assert forecast[name].to_numpy() == pytest.approx(expected[name], rel=1e-4, abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["plain", "masked"])
def test_only_rank_0_writes(together, kind):
    lines = (together / f"run-{kind}" / METRICS).read_text().splitlines()
    assert len(lines) == 2  # two epochs, each written once
    assert {p.name for p in (together / kind).iterdir()} == {CONFIG, WEIGHTS}
    assert Forecaster.load(together / kind).predict().shape == (12, 5)
    assert {p.name for p in (together / f"{kind}-again").iterdir()} == {CONFIG, WEIGHTS}


LEFT_OVER = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "LOCAL_RANK": "7"}


def test_variables_left_over_from_torchrun_are_ignored(monkeypatch, tmp_path):
    for name, value in LEFT_OVER.items():
        monkeypatch.setenv(name, value)
    model = tiny(max_epochs=1).fit(waves(60), folder=tmp_path)
    model.save(tmp_path)
    assert World.joined() == World()
    assert World.local_rank() == 0
    assert {p.name for p in tmp_path.iterdir()} == {CONFIG, METRICS, WEIGHTS}


@pytest.mark.parametrize(
    "change",
    [
        {"MASTER_PORT": None}, {"RANK": None}, {"MASTER_ADDR": ""}, {"RANK": "x"}, {"RANK": "2"},
        {"WORLD_SIZE": "-1"}, {"MASTER_PORT": "http"},
    ],
)  # fmt: skip
def test_processes_need_what_torchrun_sets(monkeypatch, tmp_path, change):
    for name, value in {**LEFT_OVER, "MASTER_PORT": "29501", **change}.items():
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    with pytest.raises(FighterError) as error:
        tiny().fit(waves(60), folder=tmp_path / "run", distributed=True)
    assert error.value.argument == "distributed"
    assert not list(tmp_path.iterdir())


def test_a_process_that_is_alone_gives_up(monkeypatch):
    for name, value in {**LEFT_OVER, "MASTER_PORT": str(free_port())}.items():
        monkeypatch.setenv(name, value)
    for rank in ("0", "1"):
        monkeypatch.setenv("RANK", rank)
        monkeypatch.setattr(parallel, "MEETING", timedelta(seconds=0.5))
        with pytest.raises(FighterError) as error:
            World.join("cpu")
        assert error.value.argument == "distributed"


def free_port() -> int:
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        return place.getsockname()[1]


@pytest.mark.slow
def test_ctrl_c_is_heard_while_processes_meet():
    script = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    script += "from fighter.training import World; print('here', flush=True); World.join('cpu')"
    variables = {**LEFT_OVER, "RANK": "0", "MASTER_PORT": str(free_port())}
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"here\n"
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    start = time.monotonic()
    _, err = process.communicate(timeout=60)
    assert time.monotonic() - start < 20  # far less than processes wait for each other
    assert b"KeyboardInterrupt" in err


def test_one_thread_puts_the_number_of_threads_back():
    before = torch.get_num_threads()
    with one_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before


def test_one_thread_need_not_wait_for_a_fit_in_another_thread():
    passed = threading.Event()

    def predict():
        with one_thread(wait=False):
            passed.set()

    with own_random_state():
        other = threading.Thread(target=predict)
        other.start()
        assert passed.wait(20)
    other.join()
