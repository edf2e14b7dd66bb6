"""The command ``fighter leaderboard``."""

from pathlib import Path
from typing import Annotated, Literal

from .._files import check_target
from ..benchmark.contest import FILE, Contest, find_models, horizons_for, unscaled_series
from ..benchmark.contest import leaderboard as run
from ..benchmark.datasets import Dataset, find_datasets, read
from ..benchmark.page import write_page
from ..benchmark.runs import Environment, usual_jobs
from ..errors import FighterError
from ..models import MODELS
from ..training.progress import say
from .arguments import DataFolder, Encoding, Shown, Target, TargetFolder

LEGEND = """Lower is better. Against the best other model: the difference in MSE, seeds won, and how
likely a difference as large is by chance. The page says how the models are compared."""
_NAMES = f"models to rank (default: all): {', '.join(MODELS)}."
Models = Annotated[tuple[str, ...], Shown("NAME", "forecast", _NAMES)]
Steps = Annotated[tuple[int, ...], Shown("N", "forecast")]
Column = Annotated[str, Shown("TEXT", "data")]


def leaderboard(
    data: Annotated[tuple[str, ...], Shown("DATA", "data")] = (),
    *,
    models: Models = (),
    horizons: Steps = (),
    lookback: Annotated[int | None, Shown("N", "forecast")] = None,
    id_col: Annotated[tuple[str, ...], Shown("TEXT", "data")] = (),
    time_col: Column | None = None,
    target_col: Column | None = None,
    freq: Column | None = None,
    missing_values: Annotated[tuple[float, ...], Shown("NUMBER", "data")] = (),
    columns: Annotated[tuple[str, ...], Shown("TEXT", "data")] = (),
    drop: Annotated[tuple[str, ...], Shown("TEXT", "data")] = (),
    date_format: Column | None = None,
    encoding: Encoding | None = None,
    data_dir: DataFolder | None = None,
    seeds: Annotated[tuple[int, ...], Shown("N", "training")] = (0, 1, 2),
    lr: Annotated[float | None, Shown("NUMBER", "training")] = None,
    max_epochs: Annotated[int | None, Shown("N", "training")] = None,
    jobs: Annotated[int | None, Shown("N", "training")] = None,
    device: Annotated[Literal["cpu", "cuda"] | None, Shown(group="training")] = None,
    results: TargetFolder = Path("leaderboard"),
    page: Target | None = None,
) -> None:
    """Rank models on data sets, your own or the benchmarks.

    Example: fighter leaderboard load.csv --models fighter dlinear patchtst --horizons 24

    Models are trained on the first 70 % of the rows, the next 10 % choose the epoch and the
    learning rate, and every window of the last 20 % is scored. Finished runs are not repeated, and
    results of earlier calls stay in the table.

    Args:
        data: files (CSV or Parquet) or names of known data sets (default: all in --data-dir, or
            the benchmarks at hand).
        models: models to rank (default: all).
        horizons: steps to forecast (default: 96 and 192 for known data sets, else a season).
        lookback: steps that models see (default: 96 for known data sets, else chosen from the
            data).
        seeds: seeds of every trainable model.
        lr: learning rate of all models but Fighter (default: the best of three on the validation
            rows).
        max_epochs: most passes over the training windows (default: by the size of the data).
        id_col: column or columns of a long table that name the series (default: unique_id).
        time_col: column of the time stamps (default: ds, or one that is named like a time).
        target_col: column of a long table with the values (default: y).
        freq: step of the time axis, such as h or 10min (default: inferred).
        missing_values: numbers that mean "not observed", such as -9999.
        columns: read only these columns, and those named above (default: all).
        drop: columns to leave out.
        date_format: format of dates in text, such as %d.%m.%y (default: found).
        encoding: encoding of text files, such as latin-1 (default: UTF-8).
        jobs: runs at a time (default: one per core, at most 16).
        results: folder for the results (JSON) and the runs.
        page: Markdown file to write (default: accuracy.md in the results folder).
        data_dir: folder of data sets, or a file; known data sets are looked up there first, then
            in $FIGHTER_DATA, then in the cache.
        device: where to run (default: a GPU if there is one).
    """
    reading = {
        "id_col": id_col if len(id_col) > 1 else next(iter(id_col), None),
        "time_col": time_col,
        "target_col": target_col,
        "freq": freq,
        "missing_values": missing_values or None,
        "columns": columns or None,
        "drop": drop or None,
        "date_format": date_format,
        "encoding": encoding,
    }
    page = page or results / "accuracy.md"
    environment = Environment.here(data_dir, device)
    check_target(results)
    check_target(page, (".md",))
    names = find_models(_unique(models)) or tuple(MODELS)
    given = {name: value for name, value in reading.items() if value is not None}
    datasets = find_datasets(data, data_dir, given, say)
    for dataset in datasets:
        if notes := [*_data_notes(dataset), *unscaled_series(dataset)]:
            say(f"{dataset.file}: {' '.join(notes)}")
    contest = Contest(
        _unique(names),
        {dataset: _unique(horizons) or horizons_for(dataset) for dataset in datasets},
        lookback,
        _unique(seeds),
        lr,
        max_epochs,
    )
    jobs = usual_jobs() if jobs is None else jobs
    failures = run(contest, environment, results, jobs=jobs, say=say)
    if (results / FILE).exists():  # there is none if every run failed
        table = write_page(results, page)
        print(f"\n{table}\n\n{LEGEND}", flush=True)
        say(f"\nWritten to {page}")
    if failures:
        raise FighterError(failures[0])


def _data_notes(dataset: Dataset) -> list[str]:
    """Return what was noticed in a user's table; unused columns are of no interest here."""
    if dataset.known is not None:
        return []
    return [str(note) for note in read(dataset)[0].data_notes if note.kind != "unused"]


def _unique(values: tuple) -> tuple:
    return tuple(dict.fromkeys(values))
