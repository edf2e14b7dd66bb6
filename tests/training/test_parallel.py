"""Two processes give the same result as one; threads share what torch shares."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from fighter import FighterError, Forecaster, Training
from fighter._files import CONFIG, METRICS, WEIGHTS
from fighter.data import split_table
from fighter.forecasting import autoconfig, learn, training_data
from fighter.models import Fighter
from fighter.training import World, parallel
from fighter.training.parallel import one_thread, own_random_state

from ..tables import tiny, waves

SCRIPT = """
import sys, warnings, torch
torch.set_num_threads(1)
warnings.simplefilter("ignore")
sys.path.insert(0, sys.argv[1])
import fighter, os
from pathlib import Path
from tests.training.test_parallel import place_sizes, settings, table
place, rank = Path(sys.argv[2]), os.environ["RANK"]
for kind in ("plain", "masked"):
    model = settings(kind).fit(table(kind), folder=place / f"run-{kind}", distributed=True)
    model.save(place / kind)
    if rank == "0":  # nobody waits for the others
        model.save(place / f"{kind}-again")
    model.predict().to_csv(place / f"{kind}-{rank}.csv", index=False)
    torch.save(model.fitted.network.state_dict(), place / f"{kind}-{rank}.pt")
from fighter.data import buckets
from tests.training.test_parallel import shop
read, files = buckets.read_table, []
buckets.read_table = lambda file: files.append(file.name) or read(file)
model = shop().fit(place / "buckets", static=place_sizes(place), distributed=True)
model.save(place / "from-files")
model.predict().to_csv(place / f"files-{rank}.csv", index=False)
(place / f"files-{rank}.txt").write_text(" ".join(files))
try:
    shop().fit(place / "damaged", distributed=True)
except fighter.FighterError as error:
    (place / f"error-{rank}.txt").write_text(f"{error.argument} {error}")
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


def shop() -> Forecaster:
    """Return a model that takes 12 series for many, of which a step takes some."""
    autoconfig.MANY_SERIES, autoconfig.SERIES_AT_ONCE = 12, 8
    training_data.JUDGES, autoconfig.STEPS, learn.STEPS = 10, 5, 5
    training = Training(max_epochs=2)
    model = Fighter(width=16, dropout=0.0)
    return Forecaster(4, model=model, level=[80], training=training, device="cpu", verbose=False)


def write_buckets(folder: Path) -> None:
    """Write 30 items to five files; some begin late, and two only end in the last file."""
    random, days = np.random.default_rng(0), pd.date_range("2024-01-01", periods=70)
    parts = []
    for i in range(30):
        y = random.poisson(5 + i + 4 * np.sin(2 * np.pi * np.arange(70) / 7)).astype(float)
        part = pd.DataFrame({"unique_id": f"item{i}", "ds": days, "y": y})
        parts.append(part[20 * (i % 4 == 1) : 70 - 5 * (i < 18)])
    pd.concat(parts).to_parquet(folder.with_suffix(".parquet"), index=False)
    split_table(folder.with_suffix(".parquet"), folder, buckets=5)


def place_sizes(place: Path) -> pd.DataFrame:
    """Return a static table; a shelf is only in one file."""
    ids = [f"item{i}" for i in range(30)]
    shelves = ["top" if i == 4 else "low" for i in range(30)]
    return pd.DataFrame({"unique_id": ids, "shelf": shelves, "size": np.arange(30.0)})


@pytest.fixture(scope="module")
def together(tmp_path_factory) -> Path:
    place, root = tmp_path_factory.mktemp("torchrun"), Path(__file__).parents[2]
    write_buckets(place / "buckets")
    shutil.copytree(place / "buckets", place / "damaged")
    last = place / "damaged" / "bucket-4.parquet"
    pd.read_parquet(last).assign(y="much").to_parquet(last, index=False)
    script = place / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2",
         str(script), str(root), str(place)],
        check=False, timeout=280, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(root / "src"), "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    if done.returncode:
        pytest.fail(f"torchrun ended with {done.returncode}:\n{done.stderr[-8000:]}")
    return place


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fighter.errors.DataWarning")
@pytest.mark.parametrize("kind", ["plain", "masked"])
def test_two_processes_train_like_one(together, kind):
    """Weights agree within 1e-5 at the same global batch size, without dropout."""
    alone = settings(kind).fit(table(kind))
    assert alone.plan.validation == 40
    weights = [torch.load(together / f"{kind}-{rank}.pt") for rank in (0, 1)]
    for name, value in alone.fitted.network.state_dict().items():
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


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fighter.errors.DataWarning")
def test_each_process_reads_its_own_files(together, monkeypatch):
    """Two processes that read half of the files each forecast what one does that reads all."""
    files = [(together / f"files-{rank}.txt").read_text().split() for rank in (0, 1)]
    assert files == [[f"bucket-{i}.parquet" for i in some] for some in ((0, 1), (2, 3, 4))]
    for room, name in (
        (autoconfig, "MANY_SERIES"), (autoconfig, "SERIES_AT_ONCE"), (autoconfig, "STEPS"),
        (learn, "STEPS"), (training_data, "JUDGES"),
    ):  # fmt: skip
        monkeypatch.setattr(room, name, getattr(room, name))  # put back, whatever shop() sets
    one = shop().fit(together / "buckets", static=place_sizes(together))
    assert one.plan.series_at_once == 8
    expected, saved = one.predict(), Forecaster.load(together / "from-files")
    assert saved.fitted.preprocessing.ids == one.fitted.preprocessing.ids
    assert saved.fitted.context.static_names == ("shelf=low", "shelf=top", "size")
    np.testing.assert_array_equal(saved.fitted.context.values, one.fitted.context.values)
    for forecast in (saved.predict(), *(
        pd.read_csv(together / f"files-{rank}.csv", parse_dates=["ds"]) for rank in (0, 1)
    )):  # fmt: skip
        assert forecast.unique_id.tolist() == expected.unique_id.tolist()
        assert (forecast.ds.to_numpy() == expected.ds.to_numpy()).all()
        for name in ("Fighter", "Fighter-lo-80", "Fighter-hi-80"):
            assert forecast[name].to_numpy() == pytest.approx(expected[name], rel=1e-4, abs=1e-4)


@pytest.mark.slow
def test_a_file_that_one_process_refuses_ends_all(together):
    errors = [(together / f"error-{rank}.txt").read_text() for rank in (0, 1)]
    assert errors[0] == errors[1]
    assert errors[0].startswith("target_col ")


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
