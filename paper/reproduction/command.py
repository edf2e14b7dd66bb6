"""``fighter reproduce``."""

from pathlib import Path
from typing import Literal

from tyro.conf import Positional

from fighter._files import check_target
from fighter.benchmark.runs import Environment, usual_jobs
from fighter.cli.messages import plain_words

from .reproduce import EXPERIMENTS
from .reproduce import reproduce as run
from .scale import FULL, QUICK


@plain_words()
def reproduce(
    what: Positional[Literal["table1", "kappa", "agnews", "heatmaps", "backward", "all"]],
    quick: bool = False,
    jobs: int | None = None,
    results: Path | None = None,
    page: Path | None = None,
    electricity: Path | None = None,
    data_dir: Path | None = None,
    device: Literal["cpu", "cuda"] | None = None,
) -> None:
    """Make the paper's tables and figures anew, and say which of its claims hold.

    Example: fighter reproduce all --quick --data-dir data

    Runs that were made before are not made again: after a kill, call it again. Several runs share
    a GPU best under CUDA's multi-process service (nvidia-cuda-mps-control -d).

    Args:
        what: one experiment, or all.
        quick: a small version, minutes on two cores, whose numbers mean nothing.
        jobs: runs at a time; one per core unless given, 16 at most.
        results: folder for the results (JSON) and the runs; reproduction, or reproduction-quick,
            unless given.
        page: Markdown file to write, with pictures; reproduction.md in the results unless given.
        electricity: the whole Electricity file (CSV or Parquet); hourly load stands in without it.
        data_dir: where to look for data first; then $FIGHTER_DATA, then the cache.
        device: where to run; a GPU if there is one, unless given.
    """
    place = Environment.here(data_dir, device)
    results = results or Path("reproduction-quick" if quick else "reproduction")
    page = page or results / "reproduction.md"
    check_target(results)
    check_target(page, (".md",))
    names = EXPERIMENTS if what == "all" else (what,)
    verdicts = run(
        names,
        QUICK if quick else FULL,
        place,
        results,
        page,
        jobs=usual_jobs() if jobs is None else jobs,
        electricity=None if electricity is None else str(electricity),
        say=lambda line: print(line, flush=True),
    )
    print(f"\n{verdicts}\n\nTables and figures: {page}")
