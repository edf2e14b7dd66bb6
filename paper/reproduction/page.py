"""The page of the reproduction, rendered from the stored results alone."""

from importlib import import_module
from pathlib import Path
from typing import Any

from fighter._files import atomic_write
from fighter.benchmark.page import join, origin
from fighter.benchmark.result import markdown
from fighter.benchmark.runs import read_results

from . import agnews
from .claims import judge

HEAD = """
# The paper, reproduced

This page shows the tables and figures of *Fighter: Unveiling the Graph Convolutional Nature of
Transformers in Time Series Modeling* as this code produces them, beside the numbers that the paper
reports. `python -m paper reproduce` writes it from stored results (in the repository
`results/reproduction`). The theory has a page of its own, `theory.md`.
"""
RENAMED = (
    "Commands below the tables are quoted as they were typed: `fighter reproduce` is now "
    "`python -m paper reproduce`."
)
QUICK = "A small version (`--quick`): the numbers below say nothing about the paper."
ORDER = ("table1", "kappa", "agnews", "heatmaps", "backward")


def write_page(folder: Path, page: Path) -> str:
    """Write ``page`` and its pictures from the results in ``folder``; return the verdicts."""
    results = {
        name: read_results(path) for name in ORDER if (path := folder / f"{name}.json").exists()
    }
    pictures = page.parent / page.stem
    verdicts = judge({name: result["rows"] for name, result in results.items()})
    parts = [join(HEAD)]
    quick = any(result["quick"] for result in results.values())
    if quick:
        parts.append(f"**{QUICK}**")
    commands = [result["provenance"]["command"] for result in results.values()]
    if any(command.startswith("fighter reproduce") for command in commands):
        parts.append(RENAMED)
    parts.append(markdown(["the paper", "here", "evidence"], [list(v) for v in verdicts]))
    for name, result in results.items():
        experiment = import_module(f".{name}", __package__)
        section = experiment.section(result["rows"], pictures)
        words = join(experiment.WORDS).format(**_numbers(result))
        parts += [f"## {experiment.TITLE}", words, section, origin(f"{name}.json", result)]
    if missing := [name for name in ORDER if name not in results]:
        commands = ", ".join(f"`python -m paper reproduce {name}`" for name in missing)
        parts += ["## Not in these results", f"These were not run at this size yet: {commands}."]
    with atomic_write(page) as file:
        file.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    lines = [f"{v.verdict:<16} {v.claim}\n{'':17}{v.evidence}" for v in verdicts]
    return "\n".join([QUICK] * quick + lines)


def _numbers(result: dict[str, Any]) -> dict[str, Any]:
    """Return the numbers that the texts of the experiments contain."""
    scale = result["scale"]
    articles = agnews.TITLES.get(result["rows"][0]["settings"].get("part"), "")
    scored = "the official test file of 7,600"
    if scale["articles"]:
        articles, scored = (f"{scale['articles']:,} articles", f"{scale['articles']:,} of {scored}")
    return {**scale, "seeds": len(scale["seeds"]), "articles": articles, "scored": scored}
