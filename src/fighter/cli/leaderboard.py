"""``fighter leaderboard``."""

from pathlib import Path
from typing import Literal

from tyro.conf import Positional

from .._files import check_target
from ..benchmark.contest import FILE, Contest, find_models, horizons_for, own_units
from ..benchmark.contest import leaderboard as run
from ..benchmark.datasets import find_datasets, read
from ..benchmark.page import write_page
from ..benchmark.runs import Environment, usual_jobs
from ..errors import FighterError
from ..models import CORES
from .messages import plain_words
from .options import in_flags

LEGEND = """Lower is better. Against the best other model: the difference in MSE, seeds won, and how
likely a difference as large is by chance. Everything else stands on the page."""


def leaderboard(
    data: Positional[tuple[str, ...]] = (),
    /,
    models: tuple[str, ...] = (),
    horizons: tuple[int, ...] = (),
    lookback: int | None = None,
    seeds: tuple[int, ...] = (0, 1, 2),
    lr: float | None = None,
    max_epochs: int | None = None,
    id_col: str | None = None,
    time_col: str | None = None,
    target_col: str | None = None,
    freq: str | None = None,
    missing_values: tuple[float, ...] = (),
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
        models: those to rank, all unless given: fighter, autoformer, cyclenet, dlinear, gcn, gfsa,
            informer, itransformer, linear, mean, naive, normlin, patchtst, reformer, repeat,
            seq2seq, transformer.
        horizons: steps to forecast; 96 and 192 for known data sets, else a season, unless given.
        lookback: steps that models see; 96 for known data sets, else by the data, unless given.
        seeds: of every model that learns.
        lr: learning rate of all but Fighter; the best of three on validation unless given.
        max_epochs: passes over the training windows at most; by the size of the data unless given.
        id_col: column of a long table that names the series; unique_id unless given.
        time_col: column of the time stamps; unless given ds, or one that is called like a time.
        target_col: column of a long table with the values; y unless given.
        freq: step of the time axis, such as h or 10min; inferred unless given.
        missing_values: numbers that mean "not observed", such as -9999.
        jobs: runs at a time; one per core unless given, 16 at most.
        results: folder for the results (JSON) and the runs.
        page: Markdown file to write; accuracy.md in the results unless given.
        data_dir: folder of data sets, or a file; known ones are looked for there first, then in
            $FIGHTER_DATA, then in the cache.
        device: where to run; a GPU if there is one, unless given.
    """
    place = Environment.here(data_dir, device)
    page = page or results / "accuracy.md"
    check_target(results)
    check_target(page, (".md",))
    models = find_models(models)
    columns = {
        "id_col": id_col,
        "time_col": time_col,
        "target_col": target_col,
        "freq": freq,
        "missing_values": missing_values or None,
    }

    def say(line: str) -> None:
        print(line, flush=True)

    with plain_words():
        given = {name: value for name, value in columns.items() if value is not None}
        found = find_datasets(data, data_dir, given, say)
        for source in found:
            data_notes = read(source)[0].data_notes if source.known is None else ()
            # Models of the leaderboard take no covariates.
            notes = [str(note) for note in data_notes if note.kind != "unused"]
            if notes := [*notes, *own_units(source)]:
                say(f"{source.file}: {in_flags(' '.join(notes))}")
        contest = Contest(
            _once(models) or tuple(CORES),
            {source: _once(horizons) or horizons_for(source) for source in found},
            lookback,
            _once(seeds),
            lr,
            max_epochs,
        )
        failures = run(
            contest, place, results, jobs=usual_jobs() if jobs is None else jobs, say=say
        )
    if (results / FILE).exists():  # not if all failed
        print(f"\n{write_page(results, page)}\n\n{LEGEND}\n\nWritten to {page}")
    if failures:
        raise FighterError(failures[0])


def _once(values: tuple) -> tuple:
    return tuple(dict.fromkeys(values))
