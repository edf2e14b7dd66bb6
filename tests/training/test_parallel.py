"""Two processes give the same result as one."""

import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import torch

from fighter import Forecaster
from fighter._files import CONFIG, METRICS, WEIGHTS

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


pytestmark = pytest.mark.slow  # torchrun starts two processes


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


@pytest.mark.parametrize("kind", ["plain", "masked"])
def test_only_rank_0_writes(together, kind):
    lines = (together / f"run-{kind}" / METRICS).read_text().splitlines()
    assert len(lines) == 2  # two epochs, each written once
    assert {p.name for p in (together / kind).iterdir()} == {CONFIG, WEIGHTS}
    assert Forecaster.load(together / kind).predict().shape == (12, 5)
