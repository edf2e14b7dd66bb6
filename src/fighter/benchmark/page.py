"""The page on accuracy, made of the results alone."""

from pathlib import Path

from paper.reproduction.page import join, origin
from paper.studies import ablations, published, search, small

from .._files import atomic_write
from . import contest as leaderboard
from .runs import read_results

HEAD = """
# Accuracy

Written from results that commands of this library have kept; below each table stands which.
"""


def write_page(folder: Path, page: Path) -> str:
    """Write ``page`` from the results in ``folder``; the tables as text."""
    parts, tables = [join(HEAD)], []
    for experiment in (leaderboard, small, search, ablations):
        path = folder / experiment.FILE
        if not path.exists():
            continue
        result = read_results(path)
        tables.append(experiment.section(result["rows"]))
        words = join(experiment.WORDS).format(**experiment.numbers(result["rows"]))
        parts += [f"## {experiment.TITLE}", words, tables[-1], origin(path.name, result)]
        if experiment is leaderboard and (beside := published.section(result["rows"])):
            parts += [f"## {published.TITLE}", join(published.WORDS), beside]
    with atomic_write(page) as target:
        target.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return "\n\n".join(tables)
