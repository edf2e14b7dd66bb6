from pathlib import Path

import pytest
from hypothesis import settings

# A busy machine is slow, not wrong.
settings.register_profile("fighter", deadline=None)
settings.load_profile("fighter")


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Local copies of the real data sets, kept beside the repository."""
    place = Path(__file__).parents[2] / "shared" / "data"
    if not place.is_dir():
        pytest.skip("the real data sets are not beside the repository (../shared/data)")
    return place
