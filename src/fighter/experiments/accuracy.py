"""The page on accuracy, made of the results alone."""

from pathlib import Path

from ..output import whole_file
from . import leaderboard
from .page import join, origin

HEAD = """
# Accuracy

Written by `fighter leaderboard` from the results beside it (in the repository `results/accuracy`).
"""


def write_page(folder: Path, page: Path) -> str:
    """Write ``page`` from the results in ``folder``; the tables as text."""
    path = folder / leaderboard.FILE
    result = leaderboard.read_results(path)
    tables = leaderboard.section(result["rows"])
    rates = ", ".join(f"{rate:g}" for rate in result["rates"])
    words = join(leaderboard.WORDS).format(rates=rates)
    parts = [join(HEAD), f"## {leaderboard.TITLE}", words, tables, origin(path.name, result)]
    with whole_file(page) as beside:
        beside.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return tables
