"""Keep the result of every (model, table, window, seed), so that a later call computes the rest.

The results file, such as ``results/zoo.json``, has one row per result with the scores of the table.
The scores of its series are in the ignored folder ``.zoo/``, one file per result.
"""

import argparse
import csv
import fcntl
import json
import math
import os
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from . import protocol, scores
from .protocol import Table, Window

ROOT = Path(__file__).resolve().parents[2]
ZOO = ROOT.parent / "shared" / "data" / "zoo"
RESULTS = ROOT / "results" / "zoo.json"
CACHE = ROOT / ".zoo"
PEERS = (
    *("seasonal_naive", "autotheta", "autoets", "autoces", "flair", "tsb", "lightgbm"),
    *("lightgbm_mean", "nhits", "patchtst", "deepar"),
)
FIGHTER = ("fighter", "fighter+future", "pretrained", "pretrained+fit", "pretrained+tuning")
NETWORKS = ("nhits", "patchtst", "deepar")  # peers that are run on core tables only
SEEDED = ("fighter", "fighter+future", *NETWORKS)  # the other models have only seed 0

Row = dict[str, Any]
Key = tuple[str, str, int, int]
# Maps a window and a seed to quantiles [series, H, Q] and, if it differs from the median, the
# point forecast [series, H]; NaN where there is none.
Answer = tuple[np.ndarray, np.ndarray | None]
Model = Callable[[Window, int], Answer]


@dataclass(frozen=True)
class Places:
    """Where results are kept, and what is written to their rows."""

    results: Path = RESULTS
    cache: Path = CACHE
    csv: Path | None = None  # also write the rows as a table


def key(row: Mapping[str, Any]) -> Key:
    """Return what a row is about."""
    return row["model"], row["table"], row["window"], row["seed"]


def flags(
    program: str,
    models: Sequence[str] = (*FIGHTER, *PEERS),
    default: Sequence[str] = ("fighter",),
    results: Path = RESULTS,
) -> argparse.ArgumentParser:
    """Return the command line that both environments share."""
    parser = argparse.ArgumentParser(prog=program)
    parser.add_argument("--zoo", type=Path, default=ZOO, help="folder of the tables")
    parser.add_argument("--models", nargs="+", default=[*default], choices=models, metavar="MODEL",
                        help=", ".join(models))  # fmt: skip
    parser.add_argument("--tables", nargs="+", help='names, or "core" (default: all)')
    parser.add_argument("--windows", type=int, nargs="+", default=[*protocol.WINDOWS])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--device", help="of the trained models (default: a GPU if there is one)")
    parser.add_argument("--results", type=Path, default=results)
    parser.add_argument("--cache", type=Path, default=CACHE, help="folder of the series' scores")
    parser.add_argument("--csv", type=Path, help="also write all rows to this file")
    parser.add_argument("--again", action="store_true", help="drop what is there and compute it")
    parser.add_argument("--command", default="", help=argparse.SUPPRESS)  # that started this one
    return parser


# ---- rows ---------------------------------------------------------------------------------


def read(path: Path) -> dict[str, Any]:
    """Read the results file; an empty one if there is none."""
    if path.exists():
        return json.loads(path.read_text(encoding="utf-8"))
    return {"about": ABOUT, "environments": {}, "rows": []}


ABOUT = (
    "Development numbers: these are the tables the product was developed with. One row per model, "
    "table, window and seed; naive_* are the scores of the seasonal naive forecast on the same "
    "series, missing counts steps without a finite forecast, which it replaces. The protocol is "
    "described in benchmarks/zoo/protocol.py, the models in benchmarks/zoo/peers.py and "
    "fighter_run.py."
)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Let one process at a time change a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _replace(path: Path, text: str) -> None:
    """Write a file so that a reader sees the old or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{os.getpid()}.{path.name}")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


def _write(places: Places, stored: Mapping[str, Any]) -> None:
    rows = sorted(stored["rows"], key=key)
    head = {name: value for name, value in stored.items() if name != "rows"}
    lines = ",\n".join(json.dumps(row) for row in rows)
    text = json.dumps(head, indent=1, ensure_ascii=False)[:-2]
    _replace(places.results, f'{text},\n "rows": [\n{lines}\n]}}\n')
    if places.csv:
        write_csv(places.csv, rows)


def add(places: Places, rows: Iterable[Row], environment: Mapping[str, Any]) -> None:
    """Add rows to the results file; a new row replaces an old one about the same."""
    with _locked(places.cache / "lock"):
        stored = read(places.results)
        every = {key(row): row for row in [*stored["rows"], *rows]}
        environments = stored["environments"] | environment
        new = {"about": ABOUT, "environments": environments, "rows": every.values()}
        _write(places, stored | new)


def drop(args: argparse.Namespace, places: Places) -> None:
    """Remove the rows that the command line asks for from the results file."""
    asked = {(one[0], one[1].name, *one[2:]) for one in _asked(args, args.models)}
    with _locked(places.cache / "lock"):
        stored = read(places.results)
        kept = [row for row in stored["rows"] if key(row) not in asked]
        used = {row["by"] for row in kept}
        environments = {by: a for by, a in stored["environments"].items() if by in used}
        _write(places, stored | {"environments": environments, "rows": kept})


CSV = ("model", "table", "window", "seed", "series", "mase", "wql", "wape", "rmsse", "bias",
       "cov80", "cov95", "seconds", "missing", "rel_mase", "rel_wql")  # fmt: skip


def write_csv(path: Path, rows: Sequence[Row]) -> None:
    """Write all rows as a table, with scores relative to the seasonal naive forecast."""
    lines = []
    for row in rows:
        relative = {f"rel_{n}": ratio(row[n], row[f"naive_{n}"]) for n in ("mase", "wql")}
        lines.append({**row, **relative})
    temporary = path.with_name(f".{os.getpid()}.{path.name}")
    with temporary.open("w", newline="") as file:
        writer = csv.DictWriter(file, CSV, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(lines)
    temporary.replace(path)


def ratio(score: float | None, base: float | None) -> float | None:
    """Return a relative score; None if it is not defined."""
    return round(score / base, 4) if score is not None and base else None


# ---- computing ----------------------------------------------------------------------------


def _asked(
    args: argparse.Namespace, models: Sequence[str]
) -> Iterator[tuple[str, Table, int, int]]:
    """Yield what the command line asks for: model, table, window and seed."""
    tables = protocol.read_zoo(args.zoo, args.tables)
    for model in models:
        for table in tables:
            if model in NETWORKS and not table.entry["core"]:
                continue
            if model == "fighter+future" and not table.future:
                continue
            for window in args.windows:
                for seed in args.seeds if model in SEEDED else [0]:
                    yield model, table, window, seed


def missing(
    args: argparse.Namespace, models: Sequence[str], places: Places
) -> list[tuple[str, Table, int, int]]:
    """Return what the command line asks for and the results file does not have yet.

    Results with an error are computed again.
    """
    rows = read(places.results)["rows"]
    done = {key(row) for row in rows if "error" not in row}
    return [one for one in _asked(args, models) if (one[0], one[1].name, *one[2:]) not in done]


def compute(
    todo: Sequence[tuple[str, Table, int, int]],
    models: Mapping[str, Model],
    places: Places,
    environment: Mapping[str, Any],
    choose: Callable[[str, Window], np.ndarray | None] = lambda model, window: None,
) -> int:
    """Compute results one by one and store each at once; return how many failed.

    Args:
        todo: model, table, window and seed of each.
        models: the models by name.
        places: where to store them.
        environment: what the results were computed with, by a name that goes into each row.
        choose: positions of the series to forecast, or None for all (default: all).
    """
    failed, last = 0, None
    frame = None
    for model, table, number, seed in todo:
        if last is not table:
            columns = table.future if model.endswith("+future") else ()
            frame, last = table.read(columns), table
        window = protocol.cut(table, number, frame)
        label = f"{model} {table.name} window {number} seed {seed}"
        if window is None:
            continue
        chosen = choose(model, window)
        if chosen is not None:
            window = window.subset(chosen)
        error, start = None, time.perf_counter()
        try:
            answer = models[model](window, seed)
        except Exception as reason:  # stored, with the seasonal naive forecast in its place
            failed += 1
            print(f"FAILED {label}\n{traceback.format_exc()}", flush=True)
            error = f"{type(reason).__name__}: {reason}"[:200]
            answer = empty(window), None
        seconds = time.perf_counter() - start
        about: Row = {"model": model, "seed": seed, "seconds": _short(seconds)}
        about |= {"error": error} if error else {}
        row = store(window, about, answer, places, environment)
        print(f"{label}: {describe(row)}", flush=True)
    return failed


def empty(window: Window) -> np.ndarray:
    """Return a forecast in which everything is missing."""
    return np.full((len(window.ids), window.table.horizon, len(protocol.QUANTILES)), np.nan)


def describe(row: Row) -> str:
    """Return a line on a result; in brackets are scores relative to the seasonal naive one."""
    relative = [ratio(row[name], row[f"naive_{name}"]) for name in ("mase", "wql")]
    return (
        f"{row['series']} series, MASE {row['mase']} ({relative[0]}), WQL {row['wql']} "
        f"({relative[1]}), {row['cov80']} / {row['cov95']} % inside, {row['missing']} missing, "
        f"{row['seconds']} s"
    )


def store(
    window: Window, about: Row, answer: Answer, places: Places, environment: Mapping[str, Any]
) -> Row:
    """Score a forecast, store the scores of its series and of the table, and return its row.

    Args:
        window: what was forecast.
        about: model, seed, seconds and an error if there was one.
        answer: the forecast, see ``Model``.
        places: where to store them.
        environment: as in :func:`compute`.
    """
    forecast, point = answer
    if point is not None:
        absent = ~(np.isfinite(point) & np.isfinite(forecast).all(-1))
        forecast = np.where(absent[..., None], np.nan, forecast)
    whole, replaced = scores.complete(window, forecast)
    if point is not None:
        middle = whole[..., scores.MEDIAN]
        point = np.where(np.isfinite(forecast).all(-1), point, middle)
    sums = scores.score(window, whole, point)
    naive = scores.total(scores.naive_score(window))
    row: Row = {"model": about["model"], "table": window.table.name, "window": window.number}
    row |= {"seed": about["seed"], "series": len(window.ids)}
    row |= {name: _short(value) for name, value in scores.total(sums).items()}
    row |= {f"naive_{name}": _short(naive[name]) for name in scores.RELATIVE}
    row |= {"missing": replaced, "by": next(iter(environment)), **about}
    places.cache.mkdir(parents=True, exist_ok=True)
    file = places.cache / ("-".join(map(str, key(row))) + ".npz")
    temporary = file.with_name(f".{os.getpid()}.{file.name}")
    np.savez_compressed(temporary, allow_pickle=False, series=window.series, **sums)
    temporary.replace(file)
    add(places, [row], environment)
    return row


def _short(value: float) -> float | None:
    """Round to five digits; None for NaN, which JSON does not have."""
    if isinstance(value, int):
        return value
    return float(f"{value:.5g}") if math.isfinite(value) else None
