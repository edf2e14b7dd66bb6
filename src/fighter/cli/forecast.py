"""``fighter forecast``, ``fit``, ``predict`` and ``evaluate``."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import torch.distributed
from tyro.conf import Positional, arg

from .._files import CHECKPOINT, CONFIG, METRICS, check_target
from ..data import Panel
from ..data.files import WRITABLE, open_table, write_table
from ..errors import FighterError
from ..explain.page import PAGES, plotly_script
from ..forecasting.fitted import check_future
from ..forecasting.forecast import Forecast
from ..forecasting.forecaster import Forecaster
from ..plotting.theme import PICTURES
from ..training import World
from . import messages
from .messages import is_rank_zero
from .options import make_forecaster

Say = Callable[[str], None]

File = Annotated[str, arg(metavar="FILE")]
OptionalFile = Annotated[str | None, arg(metavar="FILE", help_behavior_hint="")]
Target = Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="")]
Folder = Annotated[Path, arg(metavar="DIR")]
OptionalFolder = Annotated[Path | None, arg(metavar="DIR", help_behavior_hint="")]


def forecast(
    file: Positional[File],
    settings: Any,
    out: Target = None,
    plot: Target = None,
    report: Target = None,
    save: OptionalFolder = None,
    future_file: OptionalFile = None,
    static: OptionalFile = None,
    data_dir: OptionalFolder = None,
) -> None:
    """Train on a table and forecast the steps after it.

    Example: fighter forecast load.csv --horizon 24 --level 80 95 --out forecast.csv

    With a known data set and a configuration:
        fighter forecast weather --data-dir data --config weather.toml --plot forecast.png

    Example of a configuration, with the names of the flags:
        horizon = 96
        level = [80, 95]
        past = ["rain (mm)"]

    Args:
        file: CSV or Parquet, long or wide, or the name of a known data set.
        settings: Settings that are left out are chosen from the data.
        out: write the forecast here, .csv or .parquet.
        plot: draw history and forecast here, .png, .svg or .pdf.
        report: write a page here that shows where the forecasts come from, .html.
        save: save the model in this folder, for fighter predict and evaluate.
        future_file: table with the future values of the --future columns, if FILE lacks them.
        static: table with one row per series, for static covariates.
        data_dir: folder of known data sets; else $FIGHTER_DATA, else the cache.
    """
    _check_targets(out, plot, report)
    if save:
        check_target(save)
    table, ahead, fixed = (_optional_table(name, data_dir) for name in (file, future_file, static))
    say = _speaker(settings)
    model, panel = _train(table, settings, say, fixed, ahead)
    if save:
        model.save(save)
        say(f"model     saved in {save}: fighter predict {save}")
    _deliver(model.forecast(future=ahead), panel, out, plot, say)
    if report:
        say(f"report    {report}: {model.save_page(report, future=ahead)}")


def fit(
    file: Positional[File],
    settings: Any,
    out: Folder,
    overwrite: bool = False,
    tensorboard: bool = False,
    static: OptionalFile = None,
    data_dir: OptionalFolder = None,
) -> None:
    """Train on a table and save the model.

    An interrupted run resumes when the same command is given again.

    Example: fighter fit load.parquet --horizon 24 --level 80 --out model

    On several devices: torchrun --nproc-per-node=4 -m fighter fit load.parquet --horizon 24 …

    Args:
        file: CSV or Parquet, long or wide, or the name of a known data set.
        settings: Settings that are left out are chosen from the data.
        out: folder for the model, metrics.jsonl and, during training, a checkpoint of each epoch.
        overwrite: start again and replace what the folder holds.
        tensorboard: also write TensorBoard's files to the folder.
        static: table with one row per series, for static covariates.
        data_dir: folder of known data sets; else $FIGHTER_DATA, else the cache.
    """
    check_target(out)
    if (out / CONFIG).exists() and not overwrite:
        raise FighterError(f"{out} holds a finished model: choose another folder, or --overwrite")
    table, fixed = (_optional_table(name, data_dir) for name in (file, static))
    say = _speaker(settings)
    if overwrite and is_rank_zero():
        for name in (METRICS, CHECKPOINT):
            (out / name).unlink(missing_ok=True)
    fresh = not out.exists()
    try:
        _train(table, settings, say, fixed, folder=out, tensorboard=tensorboard)
    except BaseException:
        if fresh and is_rank_zero() and out.exists() and not any(out.iterdir()):
            out.rmdir()  # there is nothing to resume from
        raise
    finally:
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()
    say(f"model     saved in {out}: fighter predict {out}")


def predict(
    model: Positional[Folder],
    file: Positional[OptionalFile] = None,
    future: OptionalFile = None,
    static: OptionalFile = None,
    out: Target = None,
    plot: Target = None,
    device: str = "cpu",
    quiet: bool = False,
    data_dir: OptionalFolder = None,
) -> None:
    """Forecast with a saved model.

    Example: fighter predict model --out forecast.csv

    From later data: fighter predict model load-until-today.csv --plot forecast.png

    Args:
        model: folder written by fighter fit or forecast --save.
        file: history to forecast from (default: the training table).
        future: table with future values of the covariates known in advance.
        static: table with one row per series, if some series were not trained on.
        out: write the forecast here, .csv or .parquet.
        plot: draw history and forecast here, .png, .svg or .pdf.
        device: cpu or cuda.
        quiet: print nothing.
        data_dir: folder of known data sets; else $FIGHTER_DATA, else the cache.
    """
    _check_targets(out, plot)
    loaded = Forecaster.load(model, device=device)
    table, ahead, fixed = (_optional_table(name, data_dir) for name in (file, future, static))
    panel = loaded.read(table, fixed)
    _deliver(loaded.forecast(panel, future=ahead), panel, out, plot, _silence if quiet else _say)


def evaluate(
    model: Positional[Folder],
    file: Positional[File],
    last: int | None = None,
    out: Target = None,
    static: OptionalFile = None,
    device: str = "cpu",
    data_dir: OptionalFolder = None,
) -> None:
    """Score a model on every window of a table, series by series and over all.

    mae and mse are in the units of the table, scaled_mae and scaled_mse in standard deviations of
    the training rows; coverage is the share of values inside the interval, in per cent.

    Example: fighter evaluate model load.csv --last 720

    Args:
        model: folder written by fighter fit or forecast --save.
        file: table with history and true values, or the name of a known data set.
        last: score only windows whose targets lie in this many last rows, the test rows.
        out: also write the scores here, .csv or .parquet.
        static: table with one row per series, if some series were not trained on.
        device: cpu or cuda.
        data_dir: folder of known data sets; else $FIGHTER_DATA, else the cache.
    """
    _check_targets(out)
    if last is not None and last < 1:
        raise FighterError("needs at least 1", argument="last", value=last)
    loaded = Forecaster.load(model, device=device)
    table, fixed = (_optional_table(name, data_dir) for name in (file, static))
    panel = loaded.read(table, fixed)
    scores = messages.with_mean(loaded.evaluate(panel, last=last), panel.id_cols)
    print(scores.to_string(index=False, float_format="{:.4g}".format))
    if out:
        write_table(scores, out)


def _train(
    table: Any, settings: Any, say: Say, static: Any = None, ahead: Any = None, **where: Any
) -> tuple[Forecaster, Panel]:
    """Read the table once, fit, and say what was read, planned and reached."""
    model = make_forecaster(settings, verbose=is_rank_zero() and not settings.quiet)
    panel = model.read(table, static)
    say(messages.about_data(panel))
    if not where:  # forecasts follow, so missing future covariates are an error now
        check_future(model, panel, ahead)
    start = time.monotonic()
    model.fit(panel, **where)
    say(messages.about_plan(model))
    say(messages.about_training(model, time.monotonic() - start))
    if not settings.quiet:  # every rank fits, because ranks wait for each other
        naive = _seasonal_naive(model).fit(panel)
        if is_rank_zero():
            say(messages.about_score(model, naive, panel))
        World.join(model.torch_device).wait()  # the others leave when rank 0 has scored
    return model, panel


def _seasonal_naive(model: Forecaster) -> Forecaster:
    """Return seasonal naive with the same settings, to compare with."""
    other = {"model": "naive", "level": None, "quantiles": None, "verbose": False}
    return Forecaster(**{**model.get_params(deep=False), **other})


def _deliver(
    forecast: Forecast, history: Panel, out: Path | None, plot: Path | None, say: Say
) -> None:
    """Write or show the forecast, and draw it if asked to."""
    table = forecast.table("pandas")
    if out:
        write_table(table, out)
        say(f"forecast  {len(table):,} rows in {out}")
    else:
        say("\n" + messages.first_rows(table))
        say(f"the first of {len(table):,} rows; --out forecast.csv writes them all")
    if plot:
        forecast.plot(history, path=plot)
        say(f"plot      {plot}")


def _check_targets(
    table: Path | None, picture: Path | None = None, page: Path | None = None
) -> None:
    if table:
        check_target(table, WRITABLE)
    if picture:
        check_target(picture, PICTURES)
    if page:
        check_page(page)


def check_page(path: Path) -> None:
    """Refuse a page that could not be written, before the work it is to show."""
    check_target(path, PAGES)
    plotly_script()


def _optional_table(name: str | None, data_dir: Path | None) -> Any:
    return None if name is None else open_table(name, data_dir)


def _speaker(settings: Any) -> Say:
    return _say if is_rank_zero() and not settings.quiet else _silence


def _say(text: str) -> None:
    print(text, flush=True)


def _silence(text: str) -> None:
    """Say nothing."""
