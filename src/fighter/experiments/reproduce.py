"""All experiments of the paper: which runs they need, what is kept, and the page made of it."""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

from ..data import catalogue
from ..output import whole_file
from .page import write_page
from .provenance import provenance
from .runs import Place, Record, perform
from .scale import QUICK, Scale

EXPERIMENTS = ("heatmaps", "backward", "agnews", "table1", "kappa")  # the longest runs first


def reproduce(
    names: Sequence[str],
    scale: Scale,
    place: Place,
    folder: Path,
    page: Path,
    *,
    jobs: int = 1,
    electricity: str | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> str:
    """Run experiments, keep their results in ``folder`` and write ``page``; its verdicts.

    Runs of several experiments share one pool, and a run that two of them need is made once.
    """
    plans = {
        name: import_module(f".{name}", __package__).plan(scale, place, electricity)
        for name in names
    }
    runs = [run for plan in plans.values() for run in plan]
    records = iter(perform(runs, folder / "runs", place, jobs=jobs, say=say))
    for name, plan in plans.items():
        keep(folder / f"{name}.json", [next(records) for _ in plan], scale, place)
    return write_page(folder, page)


def keep(path: Path, rows: list[Record], scale: Scale, place: Place) -> None:
    """Write a result: one line per run, so that two results can be compared."""
    head = {
        "provenance": provenance("fighter", place.device),
        "quick": scale == QUICK,
        "scale": asdict(scale),
        "data": _checksums(rows, place),
    }
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    text = json.dumps(head, indent=1, ensure_ascii=False)
    with whole_file(path) as beside:
        beside.write_text(f'{text[:-2]},\n "rows": [\n{lines}\n]}}\n', encoding="utf-8")


def _checksums(rows: list[Record], place: Place) -> dict[str, str]:
    """The sha256 of every file that was read."""
    files: dict[str, Path] = {}
    for row in rows:
        chosen: dict[str, Any] = row["settings"]
        if chosen.get("path"):
            files[chosen["data"]] = Path(chosen["path"])
        elif "part" in chosen:
            for part in (chosen["part"], "test"):
                files[f"agnews {part}"] = catalogue.find("agnews", place.data_dir, part)
        else:
            files[chosen["data"]] = catalogue.find(chosen["data"], place.data_dir)
    return {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items()}
