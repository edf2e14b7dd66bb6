"""The commands of ``python -m paper``."""

from pathlib import Path
from typing import Literal

from fighter._files import check_target
from fighter.benchmark.runs import Environment, usual_jobs

from .reproduction.experiments import EXPERIMENTS, run_experiments
from .reproduction.scale import FULL, QUICK
from .theory import check_all, render


def theory(*, seed: int = 0, size: int = 8) -> int:
    """Check every identity of the paper on fresh numbers, as printed and as corrected.

    Example: python -m paper theory --seed 3 --size 16

    Args:
        seed: seed of the inputs.
        size: size of the matrices, 1 to 64.
    """
    identities = check_all(seed=seed, size=size)
    print(render(identities))
    return 0 if all(identity.holds for identity in identities) else 1


def reproduce(
    what: Literal["table1", "kappa", "agnews", "heatmaps", "backward", "all"],
    *,
    quick: bool = False,
    jobs: int | None = None,
    results: Path | None = None,
    page: Path | None = None,
    electricity: Path | None = None,
    data_dir: Path | None = None,
    device: Literal["cpu", "cuda"] | None = None,
) -> None:
    """Run the paper's experiments, write their tables and figures, and judge the paper's claims.

    Example: python -m paper reproduce all --quick --data-dir data

    Finished runs are kept: after an interruption, the same command resumes. Several runs share a
    GPU best under CUDA's multi-process service (nvidia-cuda-mps-control -d).

    Args:
        what: one experiment, or all of them.
        quick: run a small version that takes minutes on two cores; its numbers mean nothing.
        jobs: number of runs at a time; if not given, one per core and at most 16.
        results: folder for the results (JSON) and the runs; if not given, reproduction, or
            reproduction-quick with --quick.
        page: Markdown file to write, with pictures; if not given, reproduction.md in the results.
        electricity: the whole Electricity file (CSV or Parquet); if not given, hourly load stands
            in for it.
        data_dir: where to look for data first; then $FIGHTER_DATA, then the cache.
        device: where to run; if not given, on a GPU if there is one.
    """
    environment = Environment.here(data_dir, device)
    results = results or Path("reproduction-quick" if quick else "reproduction")
    page = page or results / "reproduction.md"
    check_target(results)
    check_target(page, (".md",))
    verdicts = run_experiments(
        EXPERIMENTS if what == "all" else (what,),
        QUICK if quick else FULL,
        environment,
        results,
        page,
        jobs=usual_jobs() if jobs is None else jobs,
        electricity=None if electricity is None else str(electricity),
        say=lambda line: print(line, flush=True),
    )
    print(f"\n{verdicts}\n\nTables and figures: {page}")
