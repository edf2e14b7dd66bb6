"""The page of the reproduction, made of the results alone."""

from importlib import import_module
from pathlib import Path
from typing import Any

from fighter._files import atomic_write
from fighter.benchmark.result import markdown
from fighter.benchmark.runs import read_results

from . import agnews
from .claims import judge

HEAD = """
# The paper, reproduced

The tables and figures of *Fighter: Unveiling the Graph Convolutional Nature of Transformers in Time
Series Modeling*, made by this code, beside the paper's numbers, which are quoted and never ours.
This page is written by `fighter reproduce` from the results beside it (in the repository
`results/reproduction`). The theory has a page of its own, `theory.md`.
"""
QUICK = "A small version (`--quick`): the numbers below say nothing about the paper."
ORDER = ("table1", "kappa", "agnews", "heatmaps", "backward")


def write_page(folder: Path, page: Path) -> str:
    """Write ``page`` and its pictures from the results in ``folder``; the verdicts as text."""
    results = {
        name: read_results(path) for name in ORDER if (path := folder / f"{name}.json").exists()
    }
    pictures = page.parent / page.stem
    verdicts = judge({name: result["rows"] for name, result in results.items()})
    parts = [join(HEAD)]
    quick = any(result["quick"] for result in results.values())
    if quick:
        parts.append(f"**{QUICK}**")
    parts.append(markdown(["the paper", "here", "evidence"], [list(v) for v in verdicts]))
    for name, result in results.items():
        experiment = import_module(f".{name}", __package__)
        made = experiment.section(result["rows"], pictures)
        words = join(experiment.WORDS).format(**_numbers(result))
        parts += [f"## {experiment.TITLE}", words, made, origin(f"{name}.json", result)]
    if missing := [name for name in ORDER if name not in results]:
        commands = ", ".join(f"`fighter reproduce {name}`" for name in missing)
        parts += ["## Not in these results", f"{commands}: not run at this size yet."]
    with atomic_write(page) as beside:
        beside.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    told = [f"{v.verdict:<16} {v.claim}\n{'':17}{v.evidence}" for v in verdicts]
    return "\n".join([QUICK] * quick + told)


def join(words: str) -> str:
    """Paragraphs without their line breaks."""
    return "\n\n".join(" ".join(part.split()) for part in words.strip().split("\n\n"))


def _numbers(result: dict[str, Any]) -> dict[str, Any]:
    """What the texts above ask for."""
    scale = result["scale"]
    articles = agnews.TITLES.get(result["rows"][0]["settings"].get("part"), "")
    scored = "the official test file of 7,600"
    if scale["articles"]:
        articles, scored = (f"{scale['articles']:,} articles", f"{scale['articles']:,} of {scored}")
    return {**scale, "seeds": len(scale["seeds"]), "articles": articles, "scored": scored}


def origin(name: str, result: dict[str, Any]) -> str:
    """Where the numbers come from."""
    made, runs = result["provenance"], result["rows"]
    minutes = sum(row["seconds"] for row in runs) / 60
    took = f"{minutes / 60:.1f} hours" if minutes > 90 else f"{minutes:.0f} minutes"
    commits = ", ".join(dict.fromkeys(row["commit"] for row in runs))
    return (
        f"<sub>{len(runs)} run{'s' * (len(runs) > 1)}, {took} of run time in all; "
        f"last call `{made['command']}`, "
        f"{made['device']}, torch {made['torch']}, {made['date']}, code {commits}; "
        f"`{name}`.</sub>"
    )
