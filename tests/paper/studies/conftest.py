import pytest

from fighter.benchmark.datasets import file_dataset
from tests.benchmark.load import load_table


@pytest.fixture(scope="session")
def table():
    return load_table()


@pytest.fixture(scope="session")
def dataset(table, tmp_path_factory):
    """A small table as a data set."""
    file = tmp_path_factory.mktemp("own") / "load.csv"
    table.to_csv(file, index=False)
    return file_dataset(file)
