"""What the command line says: notes, errors with flags, and sentences about a model."""

import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data import Panel
from ..errors import DataWarning, FighterError
from ..training.progress import fill

if TYPE_CHECKING:
    from ..forecasting.forecaster import Forecaster

SHOWN_ROWS = 8
# Arguments of Python that have another name on the command line.
FLAGS = {"df": "FILE", "today": "FILE", "changes": "--change"}


def is_rank_zero() -> bool:
    """Return True on rank 0, of processes that train together the only one that logs and writes."""
    from ..training import World  # here, because it loads torch, which few commands need

    return World.joined().first


@contextmanager
def notes_on_stderr() -> Iterator[None]:
    """Print what was noticed in the data as notes, each once."""
    printed = set()
    show = warnings.showwarning

    def show_note(message: Any, category: Any, *rest: Any) -> None:
        if category is not DataWarning:
            show(message, category, *rest)
        elif is_rank_zero() and (note := str(message)) not in printed:
            printed.add(note)
            line = f"note: {note}"
            print(fill(line, indent=6) if sys.stderr.isatty() else line, file=sys.stderr)

    with warnings.catch_warnings():
        warnings.simplefilter("always", DataWarning)
        warnings.showwarning = show_note
        yield


def in_flags(error: FighterError) -> str:
    """Return the message of an error with the argument as a flag: ``--lookback 0: needs …``."""
    if error.argument is None:
        return error.reason
    value = error.value
    if isinstance(value, list | tuple | np.ndarray):
        value = " ".join(map(str, value))
    shown = "" if value is None else f" {value}"
    flag = FLAGS.get(error.argument, f"--{error.argument.replace('_', '-')}")
    return f"{flag}{shown}: {error.reason}"


def first_rows(table: Any) -> str:
    """Return the top of a table as text, and how many rows follow."""
    text = table.head(SHOWN_ROWS).to_string(index=False, float_format="{:.6g}".format)
    if len(table) <= SHOWN_ROWS:
        return text
    return f"{text}\nthe first {SHOWN_ROWS} of {len(table):,} rows; --out FILE writes them all"


def about_data(panel: Panel) -> str:
    """Say what was read."""
    show = panel.freq.show
    return fill(
        f"read      {panel.n_series:,} series, {panel.length:,} steps (freq {panel.freq}), "
        f"{show(int(panel.times[0]))} to {show(int(panel.times[-1]))}"
    )


def about_training(model: "Forecaster", seconds: float) -> str:
    """Say how long training took, and how network and smoothing are mixed."""
    plan = model.plan
    if not plan.model.trainable:
        return f"trained   nothing: {plan.model.name} has no weights"
    if not plan.trained:
        return "trained   nothing: too few rows for a network, simple forecasts only"
    text = f"trained   {len(model.history)} of at most {plan.epochs} epochs in {seconds:.0f} s"
    if plan.smoothing:
        share = 100 * plan.network_share
        text += f"; {share:.0f} % network, {100 - share:.0f} % simple forecasts"
    return fill(text)


def about_score(model: "Forecaster", simple: Mapping[str, "Forecaster"], panel: Panel) -> str:
    """Compare the validation error with that of simple models on the same windows."""
    rows = model.plan.validation
    if not rows:
        return "score     none: the table is too short for validation rows"
    from ..forecasting.evaluate import scores

    models = {"": model, "seasonal naive": simple["naive"], "last value": simple["repeat"]}
    results = {name: scores(fitted.fitted, panel, rows) for name, fitted in models.items()}
    errors = {name: found.total()["scaled_mae"] for name, found in results.items()}
    others = ", ".join(f"{name} {error:.4f}" for name, error in errors.items() if name)
    best = min(errors, key=lambda name: errors[name])
    text = (
        f"score     mean absolute error {errors['']:.4f} on {results[''].windows:,} "
        f"validation windows, in standard deviations of each series; {others}"
    ) + (f": {best} is better here" if best else "")
    return fill(text)


def with_total(scores: Any, total: Mapping[str, float]) -> Any:
    """Append a row with the scores of the whole table."""
    ids = list(scores.columns[: scores.columns.get_loc("windows")])
    result = scores.astype(dict.fromkeys(ids, "object"))
    windows = scores["windows"].max()
    result.loc[len(result)] = {**dict.fromkeys(ids, "(all)"), "windows": windows, **total}
    return result.astype({"windows": int})
