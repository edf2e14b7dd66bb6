"""``fighter forecast``, ``fit``, ``predict`` and ``evaluate``."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import torch.distributed
from tyro.conf import Positional, arg

from .._files import check_target
from ..data.panel import Panel
from ..errors import FighterError
from ..explain.page import plotly_script
from ..forecasting.forecaster import NETWORK, Forecaster
from ..forecasting.report import forecast_tracks, save_report
from . import sentences as words
from .messages import is_first, plain_words
from .options import Settings, make_forecaster, read_settings
from .tables import KINDS, first_rows, open_table, write_table

PICTURES = (".png", ".svg", ".pdf")
PAGES = (".html", ".htm")

File = Annotated[str, arg(metavar="FILE")]
OptionalFile = Annotated[str | None, arg(metavar="FILE", help_behavior_hint="")]
Target = Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="")]
Folder = Annotated[Path, arg(metavar="DIR")]
OptionalFolder = Annotated[Path | None, arg(metavar="DIR", help_behavior_hint="")]


@plain_words()
def forecast(
    file: Positional[File],
    settings: Settings,  # pyright: ignore[reportInvalidTypeForm]
    out: Target = None,
    plot: Target = None,
    report: Target = None,
    save: OptionalFolder = None,
    future_file: OptionalFile = None,
    static: OptionalFile = None,
    data_dir: OptionalFolder = None,
) -> None:
    """Train on a table and forecast what follows it.

    Example: fighter forecast load.csv --horizon 24 --level 80 95 --out forecast.csv

    With a known data set and a configuration:
        fighter forecast weather --data-dir data --config weather.toml --plot forecast.png

    Example of a configuration, with the names of the flags:
        horizon = 96
        level = [80, 95]
        past = ["rain (mm)"]

    Args:
        file: CSV or Parquet, long or wide, or the name of a known data set.
        settings: What is left out is chosen from the data.
        out: write the forecast here, .csv or .parquet.
        plot: draw history and forecast here, .png, .svg or .pdf.
        report: write a page here that tells where the forecasts come from, .html.
        save: keep the model in this folder, for fighter predict and evaluate.
        future_file: table with the future values of the --future columns, if FILE has them not.
        static: table with one row per series, for static covariates.
        data_dir: folder of known data sets; else $FIGHTER_DATA, else the cache.
    """
    _check_targets(out, plot, report)
    if save:
        check_target(save)
    table, ahead, fixed = (_optional_table(name, data_dir) for name in (file, future_file, static))
    say = _voice(settings)
    model = _train(table, settings, say, fixed, ahead)
    if save:
        model.save(save)
        say(f"model     kept in {save}: fighter predict {save}")
    _give(model, model.predict(future=ahead), model.context, out, plot, say)
    if report:
        say(f"report    {report}: {save_report(model, report, future=ahead)}")


@plain_words()
def fit(
    file: Positional[File],
    settings: Settings,  # pyright: ignore[reportInvalidTypeForm]
    out: Folder,
    overwrite: bool = False,
    tensorboard: bool = False,
    static: OptionalFile = None,
    data_dir: OptionalFolder = None,
) -> None:
    """Train on a table and keep the model.

    A run that was cut off goes on where it was when the same command is given again.

    Example: fighter fit load.parquet --horizon 24 --level 80 --out model

    On several devices: torchrun --nproc-per-node=4 -m fighter fit load.parquet --horizon 24 …

    Args:
        file: CSV or Parquet, long or wide, or the name of a known data set.
        settings: What is left out is chosen from the data.
        out: folder for the model, metrics.jsonl and, while it runs, a checkpoint of each epoch.
        overwrite: begin anew, in place of what the folder holds.
        tensorboard: also write TensorBoard's files to the folder.
        static: table with one row per series, for static covariates.
        data_dir: folder of known data sets; else $FIGHTER_DATA, else the cache.
    """
    check_target(out)
    if (out / "config.json").exists() and not overwrite:
        raise FighterError(f"{out} holds a finished model: choose another folder, or --overwrite")
    table, fixed = (_optional_table(name, data_dir) for name in (file, static))
    say = _voice(settings)
    if overwrite and is_first():
        for name in ("metrics.jsonl", "checkpoint.safetensors"):
            (out / name).unlink(missing_ok=True)
    fresh = not out.exists()
    try:
        _train(table, settings, say, fixed, folder=out, tensorboard=tensorboard)
    except BaseException:
        if fresh and is_first() and out.exists() and not any(out.iterdir()):
            out.rmdir()  # nothing to go on from
        raise
    finally:
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()
    say(f"model     kept in {out}: fighter predict {out}")


@plain_words()
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
    """Forecast with a model that was kept.

    Example: fighter predict model --out forecast.csv

    From later data: fighter predict model load-until-today.csv --plot forecast.png

    Args:
        model: folder that fighter fit or forecast --save has written.
        file: history to forecast from; the end of the training table unless given.
        future: table with future values of the covariates that are known in advance.
        static: table with one row per series, if there are series that were not trained on.
        out: write the forecast here, .csv or .parquet.
        plot: draw history and forecast here, .png, .svg or .pdf.
        device: cpu or cuda.
        quiet: print nothing.
        data_dir: folder of known data sets; else $FIGHTER_DATA, else the cache.
    """
    _check_targets(out, plot)
    loaded = Forecaster.load(model, device=device)
    table, ahead, fixed = (_optional_table(name, data_dir) for name in (file, future, static))
    forecasts = loaded.predict(table, future=ahead, static=fixed)
    history = loaded.context if table is None else _panel(loaded, table)
    _give(loaded, forecasts, history, out, plot, _silence if quiet else _say)


@plain_words()
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

    mae and mse are in the units of the table, scaled_mae and scaled_mse in deviations of the
    training rows, coverage is the share of values inside the interval, in per cent.

    Example: fighter evaluate model load.csv --last 720

    Args:
        model: folder that fighter fit or forecast --save has written.
        file: table with history and true values, or the name of a known data set.
        last: score only windows whose targets lie in the last so many rows, the test rows.
        out: also write the scores here, .csv or .parquet.
        static: table with one row per series, if there are series that were not trained on.
        device: cpu or cuda.
        data_dir: folder of known data sets; else $FIGHTER_DATA, else the cache.
    """
    _check_targets(out)
    if last is not None and last < 1:
        raise FighterError(f"--last {last}: needs at least 1")
    loaded = Forecaster.load(model, device=device)
    table, fixed = (_optional_table(name, data_dir) for name in (file, static))
    scores = words.with_mean(loaded.evaluate(table, last=last, static=fixed), loaded.id_col)
    print(scores.to_string(index=False, float_format="{:.4g}".format))
    words.tell_if_trained_on(loaded, _panel(loaded, table), last)
    if out:
        write_table(scores, out)


forecast.before_flags = fit.before_flags = read_settings  # pyright: ignore[reportFunctionMemberAccess]


def _train(
    table: Any,
    settings: Any,
    say: Callable[[str], None],
    static: Any = None,
    ahead: Any = None,
    **places: Any,
) -> Forecaster:
    """Fit, and say what was read, what was planned and what came out."""
    model = make_forecaster(settings, verbose=is_first() and not settings.quiet)
    # Before the long work, because it stumbles over the same data, only sooner.
    naive = _fit_naive(model, table, static, ahead)
    say(words.about_data(naive))
    start = time.monotonic()
    model.fit(table, static=static, **places)
    say(words.about_plan(model))
    say(words.about_training(model, time.monotonic() - start))
    if not settings.quiet and is_first():
        say(words.about_score(model, naive, table, static))
    return model


def _fit_naive(model: Forecaster, table: Any, static: Any, ahead: Any) -> Forecaster:
    """Seasonal naive with the same look-back and validation rows, to compare with."""
    other = {"model": "naive", "max_epochs": 1, "compile": False, "verbose": False}
    other |= dict.fromkeys((*NETWORK, "options", "level", "quantiles"))
    naive = Forecaster(**{**model.get_params(), **other}).fit(table, static=static)
    naive.predict(future=ahead)  # future values that are missing are missed here
    return naive


def _give(
    model: Forecaster,
    forecasts: Any,
    history: Panel,
    out: Path | None,
    plot: Path | None,
    say: Callable[[str], None],
) -> None:
    if out:
        write_table(forecasts, out)
        say(f"forecast  {len(forecasts):,} rows in {out}")
    else:
        say("\n" + first_rows(forecasts))
        say(f"the first of {len(forecasts):,} rows; --out forecast.csv keeps them all")
    if plot:
        from ..plotting.forecasts import draw, save_figure

        series = forecast_tracks(model, forecasts, history)
        save_figure(draw(series, label=model.column), plot)
        say(f"plot      {plot}")


def _check_targets(
    table: Path | None, picture: Path | None = None, page: Path | None = None
) -> None:
    if table:
        check_target(table, KINDS)
    if picture:
        check_target(picture, PICTURES)
    if page:
        check_page(page)


def check_page(path: Path) -> None:
    """See that a page can be made, before the work that it is to show."""
    check_target(path, PAGES)
    plotly_script()


def _optional_table(name: str | None, data_dir: Path | None) -> Any:
    return None if name is None else open_table(name, data_dir)


def _panel(model: Forecaster, table: Any) -> Panel:
    """A table as the model reads it."""
    return model._read(table, scheme=model.preparation.scheme)


def _voice(settings: Any) -> Callable[[str], None]:
    return _say if is_first() and not settings.quiet else _silence


def _say(text: str) -> None:
    print(text, flush=True)


def _silence(text: str) -> None:
    """Say nothing."""
