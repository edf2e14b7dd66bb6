"""Compare small trainings: what size, hops and each generator family bring, on the zoo.

    python -m pretraining.study --steps 1500 --batch 0.25 --jobs 8 --minutes 9
    python -m pretraining.study --only-page

Every variant is trained for the same number of steps and scored on the development tables. All
but the sizes have the smallest size. A finished variant is kept in the folder at once, and a later
call with the same settings does those that are missing. ``--minutes`` ends the call: variants that
run then are lost. Seeds differ in nothing else, so they show what differences mean nothing.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import torch

from benchmarks.zoo.store import ROOT, ZOO
from fighter.benchmark.provenance import provenance
from fighter.models.pretrained import PretrainedNet

from .generator import FAMILIES

Scores = Mapping[str, Any]
BASE = "2 M"
RESULTS = ROOT / "results" / "pretraining-study.json"
FOLDER = ROOT / ".study"
PAGE = ROOT / "docs" / "pretrained.md"
BEGIN = "<!-- study: written by `python -m pretraining.study --only-page` -->"
END = "<!-- end of study -->"


class Variant(NamedTuple):
    """One training: what is studied with it, and its flags."""

    group: str
    flags: list[str]


def size(width: int) -> list[str]:
    """Return the flags of a network of this width, with 32 columns for each head."""
    return ["--width", str(width), "--heads", str(width // 32)]


def variants() -> dict[str, Variant]:
    """Return all variants by name; those that take longest come first."""
    small = size(128)
    return {
        "20 M": Variant("size", size(448)),
        "10 M": Variant("size", size(288)),
        "5 M": Variant("size", size(224)),
        BASE: Variant("size", small),
        "seed 1": Variant("seed", [*small, "--seed", "1"]),
        "seed 2": Variant("seed", [*small, "--seed", "2"]),
        "κ = 2": Variant("hops", [*small, "--kappa", "2"]),
        "κ = 4": Variant("hops", [*small, "--kappa", "4"]),
        **{f"without {f}": Variant("families", [*small, "--without", f]) for f in FAMILIES},
    }


def run(name: str, variant: Variant, args: argparse.Namespace, until: float) -> None:
    """Train and score one variant, and keep its result; leave none where the time is over."""
    stem = args.folder / file_name(name)
    weights, record, scores = (f"{stem}{end}" for end in (".safetensors", ".record", ".scores"))
    train = ["pretraining.train", "--steps", str(args.steps), "--batch", str(args.batch)]
    train += ["--out", weights, "--record", record, *variant.flags]
    train += ["--compile" if args.compile else "--no-compile", *["--quick"] * args.quick]
    score = ["pretraining.evaluate", weights, "--out", scores, "--zoo", str(args.zoo)]
    score += ["--windows", *map(str, args.windows), "--most", str(args.most)]
    threads = str(max((os.cpu_count() or 1) // args.jobs, 1))
    with Path(f"{stem}.log").open("w", encoding="utf-8") as log:
        for call in (train, score):
            left = until - time.monotonic()
            if left <= 0:
                return
            try:
                subprocess.run(  # noqa: S603
                    [sys.executable, "-m", *call],
                    stdout=log, stderr=log, timeout=left, check=True,
                    env={"OMP_NUM_THREADS": threads} | os.environ,
                )  # fmt: skip
            except subprocess.TimeoutExpired:
                return
    about, found = (json.loads(Path(each).read_text(encoding="utf-8")) for each in (record, scores))
    result = {
        "group": variant.group, "options": about["options"], "without": about["without"],
        "seed": about["seed"], "parameters": count(about["options"]), "series": about["series"],
        "seconds": about["seconds"], "loss": about["log"][-1]["loss"], "settings": settings(args),
        **{kind: rows["classes"] for kind, rows in found.items()},
    }  # fmt: skip
    text = json.dumps(result, indent=1, ensure_ascii=False) + "\n"
    Path(f"{stem}.json").write_text(text, encoding="utf-8")
    row = result["alone"]["all"]
    print(f"{name:24s} MASE {row['mase']:.3f}  WQL {row['wql']:.3f}  "
          f"{args.steps} steps in {result['seconds']} s", flush=True)  # fmt: skip


def file_name(name: str) -> str:
    """Return a name that every file system takes."""
    return name.replace("κ", "kappa").replace(" = ", "-").replace(" ", "-")


def settings(args: argparse.Namespace) -> dict[str, Any]:
    """Return what must be the same for all variants."""
    return {name: getattr(args, name) for name in ("steps", "batch", "windows", "most", "quick")}


def count(options: Mapping[str, int]) -> int:
    """Return the number of weights."""
    with torch.device("meta"):
        return sum(p.numel() for p in PretrainedNet(**options).parameters())


def finished(args: argparse.Namespace) -> dict[str, Any]:
    """Return the results in the folder; refuse those of other settings."""
    done = {}
    for name in variants():
        path = args.folder / f"{file_name(name)}.json"
        if not path.exists():
            continue
        done[name] = json.loads(path.read_text(encoding="utf-8"))
        if not args.only_page and done[name]["settings"] != settings(args):
            raise SystemExit(f"{path} has other settings, {done[name]['settings']}: "
                             "pass the same ones, or another --folder")  # fmt: skip
    return done


def write_results(args: argparse.Namespace) -> dict[str, Any]:
    """Write the JSON file of all finished variants."""
    done = finished(args)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    whole = {
        "about": "Development numbers. Relative MASE and WQL (seasonal naive is 1, geometric mean "
        "over tables) and coverage of intervals, by class of table, after short trainings; alone: "
        "each series by itself, linked: with graphs between the series of a table.",
        "variants": done,
        "provenance": provenance("python -m pretraining.study", device),
    }
    args.results.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(whole, indent=1, ensure_ascii=False) + "\n"
    args.results.write_text(text, encoding="utf-8")
    return whole


def render(done: Mapping[str, Scores]) -> str:
    """Return a Markdown table of the variants, each beside the base."""
    base = done.get(BASE)
    if base is None:
        raise SystemExit(f"there is no result of {BASE!r}, which the others are compared with")
    seeds = [row["alone"]["all"]["mase"] for name, row in done.items() if name.startswith("seed")]
    seeds.append(base["alone"]["all"]["mase"])
    told = base["settings"]
    lines = [
        f"Each was trained for {told['steps']:,} steps of {told['batch']:g} of the usual batch, "
        f"far fewer than those of the network that ships. `{BASE}` has κ = 3 and all families; "
        "rows below the sizes differ from it in what they name.",
        *(
            [f"Three seeds of it differ by {max(seeds) - min(seeds):.3f} in relative MASE: smaller "
             "differences say nothing."]
            if len(seeds) == 3 else []
        ),
        "",
        "| | weights | MASE | WQL | in 80 % | MASE, linked | WQL, linked | MASE rises most in |",
        "|---|--:|--:|--:|--:|--:|--:|---|",
    ]  # fmt: skip
    order = sorted(done, key=lambda name: (ORDER.index(done[name]["group"]), number(name)))
    for name in order:
        row = done[name]
        alone, linked = row["alone"], row["linked"]
        worst = ""
        if row["group"] != "size":
            change = {
                kind: alone[kind]["mase"] / base["alone"][kind]["mase"] - 1
                for kind in alone
                if kind != "all"
            }
            kind = max(change, key=lambda each: change[each])
            worst = f"{kind}, {100 * change[kind]:+.0f} %"
        total, both = alone["all"], linked["all"]
        lines.append(
            f"| {name} | {row['parameters'] / 1e6:.1f} M | {total['mase']:.3f} | "
            f"{total['wql']:.3f} | {total['cov80']:.0f} % | {both['mase']:.3f} | "
            f"{both['wql']:.3f} | {worst} |"
        )
    return "\n".join(lines)


ORDER = ("size", "seed", "hops", "families")


def number(name: str) -> int:
    """Return the number in a name, for sorting."""
    return int("".join(filter(str.isdigit, name)) or 0)


def write_page(table: str, page: Path) -> None:
    """Write the table between the marks in a page."""
    text = page.read_text(encoding="utf-8")
    if BEGIN not in text or END not in text:
        raise SystemExit(f"{page} has no place for the table: {BEGIN} … {END}")
    before, rest = text.split(BEGIN)
    page.write_text(f"{before}{BEGIN}\n\n{table}\n\n{END}{rest.split(END)[1]}", encoding="utf-8")


def main() -> int:
    """Train and score what is missing; write the results and, if asked to, the page."""
    parser = argparse.ArgumentParser(prog="python -m pretraining.study")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="keeps finished variants")
    parser.add_argument("--results", type=Path, default=RESULTS, help="JSON file to write")
    parser.add_argument("--variants", nargs="+", choices=[*variants()], metavar="NAME",
                        help="which (default: all)")  # fmt: skip
    parser.add_argument("--steps", type=int, default=1500, help="of each training")
    parser.add_argument("--batch", type=float, default=0.25, help="share of the series of a step")
    parser.add_argument("--jobs", type=int, default=8, help="trainings at a time")
    parser.add_argument("--minutes", type=float, default=9.0, help="of the whole call")
    parser.add_argument("--zoo", type=Path, default=ZOO)
    parser.add_argument("--windows", type=int, nargs="+", default=[0])
    parser.add_argument("--most", type=int, default=100, help="series of a table")
    parser.add_argument("--compile", action="store_true", help="worth it for long trainings")
    parser.add_argument("--quick", action="store_true", help="tiny trainings, to test the script")
    parser.add_argument("--only-page", action="store_true", help="write docs/pretrained.md")
    parser.add_argument("--page", type=Path, default=PAGE, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.only_page:
        done = json.loads(args.results.read_text(encoding="utf-8"))["variants"]
        write_page(render(done), args.page)
        return 0
    until = time.monotonic() + 60 * args.minutes
    args.folder.mkdir(parents=True, exist_ok=True)
    if args.quick:
        args.steps = min(args.steps, 4)
    done = finished(args)
    wanted = args.variants or [*variants()]
    with ThreadPoolExecutor(args.jobs) as pool:
        calls = {
            name: pool.submit(run, name, variant, args, until)
            for name, variant in variants().items()
            if name in wanted and name not in done
        }
    failed = {name: call.exception() for name, call in calls.items() if call.exception()}
    for name, error in failed.items():
        print(f"{name} failed: {error}; see {args.folder / file_name(name)}.log")
    results = write_results(args)["variants"]
    if missing := [name for name in wanted if name not in results]:
        print(f"missing: {', '.join(missing)}. Call again to go on.")
    if BASE in results:
        print(render(results))
    return int(bool(missing))


if __name__ == "__main__":
    raise SystemExit(main())
