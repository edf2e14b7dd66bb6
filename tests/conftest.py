import signal
from pathlib import Path

import pytest
import torch
from hypothesis import settings

from tests.shapes import check_annotations

check_annotations(
    "fighter.hops", "fighter.nn", "fighter.models", "fighter.plug", "fighter.training"
)

torch.set_num_threads(1)  # the tests run one process per core

# No deadline: a busy machine is slow, but not wrong.
settings.register_profile("fighter", deadline=None)
settings.load_profile("fighter")


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


@pytest.fixture
def usual_ctrl_c():
    """Handle Ctrl-C as in a terminal; background processes may be started to ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Return the folder of real data sets; without it, skip the test."""
    folder = Path(__file__).resolve().parents[1].parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("real data sets are not on this machine (../shared/data)")
    return folder
