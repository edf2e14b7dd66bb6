import pytest

from fighter.cli import main
from tests.benchmark.load import load_table


@pytest.fixture(scope="session")
def table():
    return load_table()


@pytest.fixture(scope="session")
def path(table, tmp_path_factory):
    file = tmp_path_factory.mktemp("own") / "load.csv"
    table.to_csv(file, index=False)
    return file


@pytest.fixture(scope="session")
def call():
    """Run the command with arguments; return its exit code."""

    def run(*arguments):
        return main(["leaderboard", *map(str, arguments), "--device", "cpu", "--jobs", "1"])

    return run
