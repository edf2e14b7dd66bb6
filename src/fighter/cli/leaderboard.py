"""``fighter leaderboard``."""

from pathlib import Path
from typing import Literal

from tyro.conf import Positional

from ..experiments.accuracy import write_page
from ..experiments.leaderboard import Contest, horizons_for, sources
from ..experiments.leaderboard import leaderboard as run
from ..experiments.runs import Place, usual_jobs
from ..models import CORES
from ..output import check_target


def leaderboard(
    data: Positional[tuple[str, ...]] = (),
    /,
    models: tuple[str, ...] = (),
    horizons: tuple[int, ...] = (),
    lookback: int | None = None,
    seeds: tuple[int, ...] = (0, 1, 2),
    lr: float | None = None,
    max_epochs: int | None = None,
    jobs: int | None = None,
    results: Path = Path("leaderboard"),
    page: Path | None = None,
    data_dir: Path | None = None,
    device: Literal["cpu", "cuda"] | None = None,
) -> None:
    """Rank models on data sets, your own or the benchmarks.

    Example: fighter leaderboard load.csv --models fighter dlinear patchtst --horizons 24

    Of each data set the first 70 % of rows are trained on, the next 10 % choose epoch and learning
    rate, and every window of the last 20 % is scored. Runs that were made before are not made
    again, and results of other calls stay in the table.

    Args:
        data: files (CSV or Parquet) or names of known data sets; unless given, all in --data-dir,
            or the benchmarks at hand.
        models: those to rank; all unless given.
        horizons: steps to forecast; 96 and 192 for known data sets, else a season, unless given.
        lookback: steps that models see; 96 for known data sets, else by the data, unless given.
        seeds: of every model that learns.
        lr: learning rate of all but Fighter; the best of three on validation unless given.
        max_epochs: passes over the training windows at most; by the size of the data unless given.
        jobs: runs at a time; one per core unless given, 12 at most.
        results: folder for the results (JSON) and the runs.
        page: Markdown file to write; accuracy.md in the results unless given.
        data_dir: folder of data sets, or a file; known ones are looked for there first, then in
            $FIGHTER_DATA, then in the cache.
        device: where to run; a GPU if there is one, unless given.
    """
    place = Place.here(data_dir, device)
    page = page or results / "accuracy.md"
    check_target(results)
    check_target(page, (".md",))

    def say(line: str) -> None:
        print(line, flush=True)

    found = sources(data, data_dir, say)
    contest = Contest(
        models or tuple(CORES),
        {source: horizons or horizons_for(source, place) for source in found},
        lookback,
        seeds,
        lr,
        max_epochs,
    )
    run(contest, place, results, jobs=usual_jobs() if jobs is None else jobs, say=say)
    print(f"\n{write_page(results, page)}\n\nWritten to {page}")
