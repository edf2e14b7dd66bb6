"""What the command line says: notes, errors with flags, and sentences about a model."""

import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data import Panel
from ..data.columns import listing
from ..errors import DataWarning, FighterError

if TYPE_CHECKING:
    from ..forecasting.forecaster import Forecaster

SHOWN_ROWS = 8


def is_rank_zero() -> bool:
    """Return True on rank 0, the only process of ``torchrun`` that logs and writes."""
    return os.environ.get("RANK", "0") == "0"


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
            print(f"note: {note}", file=sys.stderr)

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
    return f"--{error.argument.replace('_', '-')}{shown}: {error.reason}"


def first_rows(table: Any) -> str:
    """Return the top of a table as text."""
    return table.head(SHOWN_ROWS).to_string(index=False, float_format="{:.6g}".format)


def about_data(panel: Panel) -> str:
    """Say what was read."""
    show = panel.freq.show
    return (
        f"read      {panel.n_series:,} series, {panel.length:,} steps (freq {panel.freq}), "
        f"{show(int(panel.times[0]))} to {show(int(panel.times[-1]))}"
    )


def about_plan(model: "Forecaster") -> str:
    """Say what was decided."""
    plan, network = model.plan, model.plan.model
    size = sum(parameter.numel() for parameter in model.network.parameters())
    return (
        f"plan      lookback {plan.lookback}, horizon {plan.horizon}, "
        f"cycle {plan.cycle or 'none'}, the last {plan.validation:,} rows for validation\n"
        f"network   {network}; {size:,} parameters{_about_bounds(model)}"
    )


def _about_bounds(model: "Forecaster") -> str:
    preprocessing = model.fitted.preprocessing
    if preprocessing.scaler.bounds is None:
        return ""
    bounded = [
        name
        for name, bounds in zip(preprocessing.ids, preprocessing.scaler.bounds.T, strict=True)
        if np.isfinite(bounds).any()
    ]
    return f"\nbounds    detected for {listing(bounded, 3)}" if bounded else ""


def about_training(model: "Forecaster", seconds: float) -> str:
    """Say how long training took."""
    return (
        f"trained   {len(model.history)} of at most {model.plan.epochs} epochs in {seconds:.0f} s"
    )


def about_score(model: "Forecaster", naive: "Forecaster", panel: Panel) -> str:
    """Compare the validation score with that of seasonal naive on the same windows."""
    rows = model.plan.validation
    if not rows:
        return "score     none: the table is too short for validation rows"
    from ..forecasting.evaluate import scores

    mine, other = (scores(m.fitted, panel, rows) for m in (model, naive))
    ours, theirs = (np.nanmean(score["scaled_mae"]) for score in (mine, other))
    return (
        f"score     MAE {ours:.4f} deviations on {mine['windows'].max():,} validation windows, "
        f"seasonal naive {theirs:.4f}"
    )


def with_mean(scores: Any, id_cols: Sequence[str]) -> Any:
    """Append a row with the mean over all series."""
    numbers = scores.drop(columns=list(id_cols))
    mean = numbers.mean().to_frame().T.assign(windows=numbers["windows"].max())
    result = scores.astype(dict.fromkeys(id_cols, "object"))
    result.loc[len(result)] = {**dict.fromkeys(id_cols, "(mean)"), **mean.iloc[0]}
    return result.astype({"windows": int})
