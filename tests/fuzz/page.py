"""The results of the fuzzers as JSON, and the page that is written from them."""

import json
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fighter.benchmark.provenance import provenance
from tests.fuzz.runner import FINE, Suite, count_outcomes

ROOT = Path(__file__).resolve().parents[2]
RESULTS, DOCS = Path("results/reliability.json"), Path("docs/reliability.md")
PACKAGES = ("numpy", "pandas", "polars", "pyarrow", "narwhals", "safetensors", "tokenizers")

HEAD = """\
# Reliability

What Fighter promises when tables are odd, files are damaged, processes are killed and many \
threads ask at once, and how often that was tried. `make fuzz` runs the cases and writes \
[results/reliability.json](../results/reliability.json) and this page. Every case has a number, \
which is its seed: `python -m tests.fuzz tables --case 17` repeats one.

## What is promised

- **A table is read rightly, or refused** with a `FighterError` that says why. Of rows that \
repeat each other the first is kept; rows that contradict each other are refused.
- **A file that is not what Fighter wrote is refused.** Models and checkpoints carry a digest of \
their settings and tensors; nothing in them is run as code. The digest protects against damage, \
not against a person who edits a model and computes the digest again: such a model may forecast \
something else, so load models only from people you trust with your forecasts.
- **A kill at any moment loses nothing.** A folder holds the older model or the new one, never \
half of one; the same call goes on from the last epoch and ends with the same weights, bit by \
bit, as a run that nobody interrupted.
- **One model serves many threads.** `predict`, `forecast`, `evaluate` and `predict_proba` may \
be called at the same time, from threads or through `asyncio.to_thread`, and answer as they do \
one after the other, bit by bit.
- **The same seed gives the same weights**, bit by bit, on the same machine with the same \
versions and number of threads, also for fits that run at the same time in several threads. \
Another number of threads may change sums by rounding, and so may a shift of the table by a \
million deviations or more; training amplifies that. On hourly tables of 300 rows, fully trained, \
two threads instead of one moved forecasts by 0 to 3 % of a standard deviation and a shift by \
10⁹ by 0.5 %, while another seed moved them by 6 to 60 %. Smaller shifts, and changes of units \
from 10⁻⁶ to 10⁹, move nothing.

## Known limits

- Do not fork a process in which a model was fitted with several threads: OpenMP, which PyTorch \
computes with, hangs in the child. Start workers with `spawn`, or call \
`torch.set_num_threads(1)` first.
"""

TEXTS = {
    "tables": """\
## Ordinary tables

Random tables with an oracle that shares no code with Fighter and knows every value at its time \
and series: integer axes, seconds to years, business days, month ends, zones, dates as text, as \
numbers (20240131) and as seconds since 1970; long tables with one or two id columns, wide \
tables and single series of pandas (numpy, nullable and Arrow types), polars (also lazy) and \
pyarrow; rows in any order, gaps, empty cells, marked cells, repeated rows, covariates. All go \
through `to_panel`, every third through a forecast that repeats the last value or season, whose \
rows, stamps, ids and types are checked. Some tables have a fault and must be refused.
""",
    "hostile": """\
## Hostile tables

Cells, names and settings that no table should have: objects, sets, numbers of 400 digits, \
stamps outside the calendar, columns named None, tables that are none.
""",
    "models": """\
## Damaged models and checkpoints

A saved forecaster, text classifier or checkpoint is damaged, loaded and asked for forecasts (or \
trained on), in a process that may use 4 GB. Half of the edits of settings and tensors carry a \
valid digest, as a person would write it; of those, other forecasts are listed as *edited*.
""",
    "kills": """\
## Kills

A process is killed by SIGKILL at each write, rename, removal and fsync, before it or in the \
middle of the bytes. Then the folder is read, the same call is made again, and its weights, \
forecasts and files are compared with those of a run that was not interrupted.
""",
    "threads": """\
## Threads

One model answers eight threads, or tasks of asyncio, at once. Each case makes a hundred calls \
and compares every answer with the serial one.
""",
}


def write_results(counted: Mapping[str, tuple[Suite, list]], arguments: Sequence[str]) -> None:
    """Write the counts of all suites with where they come from."""
    suites = {
        name: {
            "cases": len(records),
            "calls": suite.calls * len(records),
            "first": records[0]["case"],
            "last": records[-1]["case"],
            "failing": [r["case"] for r in records if r["kind"] not in FINE],
            "groups": count_outcomes(records),
        }
        for name, (suite, records) in counted.items()
    }
    result = {
        "provenance": provenance("python -m tests.fuzz", "cpu", arguments),
        "versions": {name: version(name) for name in PACKAGES},
        "suites": suites,
    }
    (ROOT / RESULTS).write_text(json.dumps(result, indent=1) + "\n")


def write_page() -> None:
    """Write the page from the stored results."""
    (ROOT / DOCS).write_text(render(json.loads((ROOT / RESULTS).read_text())), encoding="utf-8")


def render(results: Mapping[str, Any]) -> str:
    """Return the page of stored results."""
    source, suites = results["provenance"], results["suites"]
    versions = ", ".join(f"{name} {number}" for name, number in results["versions"].items())
    lines = [HEAD, "## What was tried", "", "| what | cases | right or equal | refused | edited |"]
    lines[-1] += " anything else |"
    lines += ["| --- | --- | --- | --- | --- | --- |"]
    for name, suite in suites.items():
        title = TEXTS[name].splitlines()[0].removeprefix("## ")
        cases = f"{suite['cases']:,}"
        if suite["calls"] != suite["cases"]:
            cases += f" ({suite['calls']:,} calls)"
        lines.append(f"| {title} | {cases} | {_cells(_total(suite['groups'].values()))}")
    lines += [
        "",
        f"Commit {source['commit']}, {source['date']}, {source['device']}, Python "
        f"{source['python']}, torch {source['torch']}, {versions}.",
        "",
    ]
    for name, suite in suites.items():
        lines += [TEXTS[name], "| | cases | right or equal | refused | edited | anything else |"]
        lines += ["| --- | --- | --- | --- | --- | --- |"]
        merged: dict[str, list[dict[str, int]]] = {}
        for group, kinds in suite["groups"].items():
            merged.setdefault(_short(name, group), []).append(kinds)
        for group, several in merged.items():
            kinds = _total(several)
            lines.append(f"| {group} | {sum(kinds.values()):,} | {_cells(kinds)}")
        failing = [f"`python -m tests.fuzz {name} --case {case}`" for case in suite["failing"][:20]]
        lines += ["", f"Cases {suite['first']} to {suite['last']}.", ""]
        if failing:
            lines[-2] += f" Failing: {', '.join(failing)}."
    return "\n".join(lines)


def _short(suite: str, group: str) -> str:
    """Return the row that a group is counted in."""
    return group.partition(", with")[0].partition(": ")[2] if suite == "models" else group


def _total(groups: Any) -> dict[str, int]:
    total: dict[str, int] = {}
    for kinds in groups:
        for kind, count in kinds.items():
            total[kind] = total.get(kind, 0) + count
    return total


def _cells(kinds: Mapping[str, int]) -> str:
    """Return the last four cells of a row."""
    good = kinds.get("right", 0) + kinds.get("equal", 0)
    wrong = [f"{count} {kind}" for kind, count in sorted(kinds.items()) if kind not in FINE]
    cells = [f"{good:,}", f"{kinds.get('refused', 0):,}", f"{kinds.get('edited', 0):,}"]
    return " | ".join([*cells, ", ".join(wrong) or "0"]) + " |"
