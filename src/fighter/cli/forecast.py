"""``fighter forecast``, ``fit``, ``predict`` and ``evaluate``."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import torch.distributed

from .._files import CHECKPOINT, WEIGHTS, check_folder, remove_useless_checkpoint
from ..data import Panel
from ..data.buckets import holds_parquet
from ..data.files import open_table
from ..errors import FighterError
from ..forecasting import evaluate as scoring
from ..forecasting.fitted import check_future
from ..forecasting.forecast import Forecast
from ..forecasting.forecaster import Forecaster
from ..forecasting.sharing import read_together
from ..training import World
from ..training.progress import say
from . import messages
from .arguments import (
    DataFolder,
    Encoding,
    File,
    Model,
    Quiet,
    Shown,
    Target,
    TargetFolder,
)
from .files import are_folders, predict_folder
from .messages import is_rank_zero
from .options import make_forecaster
from .targets import check_targets, is_stream, write

WeightColumn = Annotated[str, Shown("TEXT", "data")]


def forecast(
    file: File,
    *,
    settings: Any,
    zero_shot: Annotated[bool, Shown(group="model")] = False,
    future_file: File | None = None,
    static: File | None = None,
    weights: WeightColumn | None = None,
    encoding: Encoding | None = None,
    data_dir: DataFolder | None = None,
    out: Target | None = None,
    plot: Target | None = None,
    report: Target | None = None,
    save: TargetFolder | None = None,
    quiet: Quiet = False,
) -> None:
    """Train on a table and forecast the steps after it.

    Settings that are left out are chosen from the data. Without --out the forecast is printed: its
    first rows on a terminal, all rows as CSV to a pipe or with --quiet.

    Example: fighter forecast load.csv --horizon 24 --level 80 95 --out forecast.csv

    In seconds, without training:
      fighter forecast load.csv --horizon 24 --zero-shot

    With a known data set and a configuration:
      fighter forecast weather --data-dir data --config weather.toml --plot f.png

    Example of a configuration, with the names of the flags:
      horizon = 96
      level = [80, 95]
      past = ["rain (mm)"]

    Args:
        file: CSV or Parquet, long or wide; - for standard input; or the name of a known data set.
        settings: the settings of the Forecaster.
        zero_shot: train nothing: the pretrained network forecasts.
        future_file: table with the future values of the --future columns, if FILE lacks them.
        static: table with one row per series, for static covariates.
        weights: column of the --static table that says how much each series counts in the loss and
            in the scores of the whole table (default: all the same).
        encoding: encoding of text files, such as latin-1 (default: UTF-8).
        data_dir: folder of known data sets; else $FIGHTER_DATA, else the cache.
        out: write the forecast here, .csv or .parquet; - for standard output.
        plot: draw history and forecast here, .png, .svg or .pdf.
        report: write a page here that shows where the forecasts come from, .html.
        save: save the model in this folder, for fighter predict and evaluate.
        quiet: show no progress and no summary.
    """
    inputs = {"file": file, "future_file": future_file, "static": static}
    check_targets(inputs, data_dir, out=out, plot=plot, report=report, save=save)
    table, ahead, fixed = (open_optional(name, data_dir, encoding) for name in inputs.values())
    if zero_shot:
        model = make_forecaster(_pretrained(settings, save=save, weights=weights), verbose=False)
        panel = history = model.read(table, fixed)
        _tell(quiet, messages.about_data(panel))
    else:
        history = None  # the training table, which the model keeps
        try:
            model, panel = _train(table, settings, quiet, fixed, weights, ahead)
        except KeyboardInterrupt:
            remedy = "fighter fit keeps every epoch and resumes"
            raise KeyboardInterrupt(f"nothing was written; {remedy}") from None
    if save:
        model.save(save)
        _tell(quiet, f"model     saved in {save}: fighter predict {save}")
    with future_flag():
        result = model.forecast(history, future=ahead)
    _deliver(result, panel, out, plot, quiet)
    if report:
        _tell(quiet, f"report    {report}: {model.save_page(report, history, future=ahead)}")


def _pretrained(settings: dict[str, Any], **trained: Any) -> dict[str, Any]:
    """Return the settings of a forecast without training; refuse what needs training."""
    if settings.get("model", "fighter") not in ("fighter", "pretrained"):
        reason = "--zero-shot forecasts with the pretrained network: give one of the two"
        raise FighterError(reason, argument="model", value=settings["model"])
    for name, value in trained.items():
        if value is not None:
            reason = "--zero-shot trains nothing: leave one of the two out"
            raise FighterError(reason, argument=name, value=value)
    return {**settings, "model": "pretrained"}


def fit(
    file: File,
    *,
    settings: Any,
    static: File | None = None,
    weights: WeightColumn | None = None,
    encoding: Encoding | None = None,
    data_dir: DataFolder | None = None,
    out: TargetFolder,
    overwrite: Annotated[bool, Shown(group="output")] = False,
    tensorboard: Annotated[bool, Shown(group="output")] = False,
    distributed: Annotated[bool, Shown(group="training")] = False,
    quiet: Quiet = False,
) -> None:
    """Train on a table and save the model.

    Settings that are left out are chosen from the data. An interrupted run resumes when the same
    command is given again.

    Example: fighter fit load.parquet --horizon 24 --level 80 --out model

    On several devices:
      torchrun --nproc-per-node=4 -m fighter fit load.parquet --distributed …

    Args:
        file: CSV or Parquet, long or wide; a folder of Parquet files of whole series; - for
            standard input; or the name of a known data set.
        settings: the settings of the Forecaster.
        static: table with one row per series, for static covariates.
        weights: column of the --static table that says how much each series counts in the loss and
            in the scores of the whole table (default: all the same).
        encoding: encoding of text files, such as latin-1 (default: UTF-8).
        data_dir: folder of known data sets; else $FIGHTER_DATA, else the cache.
        out: folder for the model, metrics.jsonl and, during training, a checkpoint of each epoch.
        overwrite: replace the model in the folder when training is done; a run that was cut off
            resumes with the same flag, and other unfinished runs are dropped.
        tensorboard: also write TensorBoard's files to the folder.
        distributed: train together with the other processes that torchrun started.
        quiet: show no progress and no summary.
    """
    check_folder(out)
    if (out / WEIGHTS).exists() and not overwrite:
        remove_useless_checkpoint(out)
        raise FighterError(f"{out} holds a finished model: choose another folder, or --overwrite")
    if distributed:
        World.join(settings.get("device"))
    whole = holds_parquet(file)  # a folder of whole series, which is read as such
    table = Path(file) if whole else open_table(file, data_dir, encoding=encoding)
    fixed = open_optional(static, data_dir, encoding)
    places = {"folder": out, "overwrite": overwrite, "tensorboard": tensorboard}
    try:
        _train(table, settings, quiet, fixed, weights, distributed=distributed, **places)
        _tell(quiet, f"model     saved in {out}: fighter predict {out}")
    except KeyboardInterrupt:
        kept = (out / CHECKPOINT).exists()
        raise KeyboardInterrupt("the same command resumes" if kept else "") from None
    finally:
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()


def predict(
    model: Model,
    file: File | None = None,
    *,
    future_file: File | None = None,
    static: File | None = None,
    encoding: Encoding | None = None,
    data_dir: DataFolder | None = None,
    device: str = "cpu",
    workers: int = 1,
    ray: bool = False,
    out: Target | None = None,
    plot: Target | None = None,
    quiet: Quiet = False,
) -> None:
    """Forecast with a saved model.

    Without --out the forecast is printed: its first rows on a terminal, all rows as CSV to a pipe
    or with --quiet. If FILE and --out are folders, each Parquet file is forecast by itself; files
    that are done are skipped when the command is given again.

    Example: fighter predict model --out forecast.csv

    From later data:
      fighter predict model load-until-today.csv --plot forecast.png

    Many files:
      fighter predict model buckets --out forecasts --workers 4

    Args:
        model: folder written by fighter fit or forecast --save.
        file: history to forecast from; - for standard input; or a folder of Parquet files of whole
            series (default: the training table).
        future_file: table with future values of the covariates known in advance; of a folder, also
            a folder with a file of each name.
        static: table with one row per series, if some series were not trained on.
        encoding: encoding of text files, such as latin-1 (default: UTF-8).
        data_dir: folder of known data sets; else $FIGHTER_DATA, else the cache.
        device: cpu or cuda.
        workers: processes that forecast the files of a folder.
        ray: forecast the files of a folder as tasks of Ray.
        out: write the forecast here, .csv or .parquet; - for standard output; or a folder.
        plot: draw history and forecast here, .png, .svg or .pdf.
        quiet: show no summary.
    """
    if file and out and are_folders(file, out):
        for name, given in (("static", static), ("plot", plot)):
            if given is not None:
                raise FighterError("a folder is forecast without it", argument=name, value=given)
        loaded = Forecaster.load(model, device=device).set_params(verbose=not quiet)
        predict_folder(loaded, file, out, future_file, workers, ray)
        return
    if workers != 1 or ray:
        name = "ray" if ray else "workers"
        raise FighterError("needs a folder as FILE and another as --out", argument=name)
    inputs = {"file": file, "future_file": future_file, "static": static}
    check_targets(inputs, data_dir, out=out, plot=plot)
    loaded = Forecaster.load(model, device=device)
    table, ahead, fixed = (open_optional(name, data_dir, encoding) for name in inputs.values())
    panel = loaded.read(table, fixed)
    with future_flag():
        result = loaded.forecast(panel, future=ahead)
    _deliver(result, panel, out, plot, quiet)


def evaluate(
    model: Model,
    file: File,
    *,
    last: int | None = None,
    metrics: Annotated[tuple[str, ...], Shown("NAME")] = (),
    static: File | None = None,
    encoding: Encoding | None = None,
    data_dir: DataFolder | None = None,
    device: str = "cpu",
    out: Target | None = None,
) -> None:
    """Score a model on every window of a table, series by series and over all.

    mae and mse are in the units of the table, scaled_mae and scaled_mse in standard deviations of
    the training rows; coverage is the share of values inside the interval, in per cent. wape, bias
    (above 0 if forecasts are too high) and wql are shares of the sum of absolute true values; rmsse
    and mase compare errors with those of naive forecasts of the training table. The last row has
    wape, bias and wql of all series together, and of the others the mean over the series.

    Example: fighter evaluate model load.csv --last 720 --metrics wape rmsse

    Args:
        model: folder written by fighter fit or forecast --save.
        file: table with history and true values; - for standard input; or the name of a known
            data set.
        last: score only windows whose targets lie in this many last rows, the test rows.
        metrics: mae, mse, scaled_mae, scaled_mse, coverage, wape, bias, rmsse, mase or wql
            (default: the first five).
        static: table with one row per series, if some series were not trained on.
        encoding: encoding of text files, such as latin-1 (default: UTF-8).
        data_dir: folder of known data sets; else $FIGHTER_DATA, else the cache.
        device: cpu or cuda.
        out: write the scores here, .csv or .parquet, instead of printing them.
    """
    inputs = {"file": file, "static": static}
    check_targets(inputs, data_dir, out=out)
    if last is not None and last < 1:
        raise FighterError("needs at least 1", argument="last", value=last)
    loaded = Forecaster.load(model, device=device)
    table, fixed = (open_optional(name, data_dir, encoding) for name in inputs.values())
    panel = loaded.read(table, fixed)
    found = scoring.evaluate(loaded.fitted, panel, last, metrics)
    scores = messages.with_total(scoring.table_of(found, panel), found.total())
    if out:
        write(scores, out)
    elif sys.stdout.isatty():
        print(scores.to_string(index=False, float_format="{:.4g}".format))
    else:
        write(scores, Path("-"))


@contextmanager
def future_flag() -> Iterator[None]:
    """Name the flag --future-file in errors about future values; --future names columns."""
    try:
        yield
    except FighterError as error:
        if error.argument != "future":
            raise
        raise FighterError(error.reason, argument="future_file") from error


def _train(
    table: Any,
    settings: Any,
    quiet: bool,
    static: Any = None,
    weights: str | None = None,
    ahead: Any = None,
    **where: Any,
) -> tuple[Forecaster, Panel]:
    """Read the table once, fit, and say what was read and reached; the fit says its plan."""
    model = make_forecaster(settings, verbose=is_rank_zero() and not quiet)
    panel = read_together(model, table, static, weights, World.joined())
    _tell(quiet, messages.about_data(panel))
    if not where:  # forecasts follow, so missing future covariates are an error now
        with future_flag():
            check_future(model, panel, ahead)
    start = time.monotonic()
    model.fit(panel, **where)
    _tell(quiet, messages.about_training(model, time.monotonic() - start))
    if not quiet and is_rank_zero():
        names = ("naive", "repeat") if model.plan.validation else ()
        simple = {name: _simple(model, name).fit(panel) for name in names}
        say(messages.about_score(model, simple, panel))
    World.joined().wait()  # the others leave when rank 0 has scored
    return model, panel


def _simple(model: Forecaster, name: str) -> Forecaster:
    """Return a simple model with the same settings, to compare with."""
    other = {"model": name, "level": None, "quantiles": None, "verbose": False}
    return Forecaster(**{**model.get_params(deep=False), **other})


def _deliver(
    forecast: Forecast, history: Panel, out: Path | None, plot: Path | None, quiet: bool
) -> None:
    """Write or print the forecast, and draw it if asked to."""
    table = forecast.table("pandas")
    if out:
        write(table, out)
        _tell(quiet or is_stream(out), f"forecast  {len(table):,} rows in {out}")
    elif sys.stdout.isatty() and not quiet:
        print("\n" + messages.first_rows(table))
    else:
        write(table, Path("-"))
    if plot:
        forecast.plot(history, path=plot)
        _tell(quiet, f"plot      {plot}")


def open_optional(name: str | None, data_dir: Path | None, encoding: str | None) -> Any:
    """Open a table whose flag may be left out."""
    return None if name is None else open_table(name, data_dir, encoding=encoding)


def _tell(quiet: bool, text: str) -> None:
    """Print a line of the summary to standard error, on rank 0 and unless quiet."""
    if is_rank_zero() and not quiet:
        say(text)
