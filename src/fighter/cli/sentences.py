"""Sentences about a fitted model."""

import sys
from typing import Any

import numpy as np

from ..data.columns import listing
from ..data.panel import Panel
from ..forecasting.forecaster import Forecaster


def about_data(model: Forecaster) -> str:
    """What was read."""
    context, kept = model.context, model.preparation
    first, last = kept.origin, int(context.times[-1])
    rows = int(context.freq.positions(context.times[-1:], first)[0]) + 1
    show = context.freq.show
    return (
        f"read      {len(kept.ids):,} series, {rows:,} steps (freq {context.freq}), "
        f"{show(first)} to {show(last)}"
    )


def about_plan(model: Forecaster) -> str:
    """What was decided."""
    plan = model.plan
    network = ", ".join(f"{name} {value}" for name, value in plan.network.items())
    size = sum(parameter.numel() for parameter in model.network.parameters())
    return (
        f"plan      lookback {plan.lookback}, horizon {plan.horizon}, "
        f"cycle {plan.cycle or 'none'}, the last {plan.validation:,} rows for validation\n"
        f"network   {model.model}{': ' + network if network else ''}; {size:,} parameters"
        f"{_about_limits(model)}"
    )


def _about_limits(model: Forecaster) -> str:
    kept = model.preparation
    if kept.scaler.bounds is None:
        return ""
    found = [
        name
        for name, bounds in zip(kept.ids, kept.scaler.bounds.T, strict=True)
        if np.isfinite(bounds).any()
    ]
    return f"\nlimits    of {listing(found, 3)}: values that are not passed" if found else ""


def about_training(model: Forecaster, seconds: float) -> str:
    """How long it took."""
    return (
        f"trained   {len(model.history)} of at most {model.plan.epochs} epochs in {seconds:.0f} s"
    )


def about_score(model: Forecaster, naive: Forecaster, table: Any, static: Any = None) -> str:
    """The validation score beside that of seasonal naive on the same windows."""
    rows = model.plan.validation
    if not rows:
        return "score     none: the table is too short to keep rows for validation"
    mine, other = (m.evaluate(table, last=rows, static=static) for m in (model, naive))
    ours, theirs = (scores["scaled_mae"].mean() for scores in (mine, other))
    return (
        f"score     MAE {ours:.4f} deviations on {mine['windows'].max():,} validation windows, "
        f"seasonal naive {theirs:.4f}"
    )


def with_mean(scores: Any, id_col: str) -> Any:
    """The table with a last row for all series: the mean of theirs."""
    numbers = scores.drop(columns=id_col)
    mean = numbers.mean().to_frame().T.assign(windows=numbers["windows"].max())
    result = scores.astype({id_col: "object"})
    result.loc[len(result)] = {id_col: "(mean)", **mean.iloc[0]}
    return result.astype({"windows": int})


def tell_if_trained_on(model: Forecaster, panel: Panel, last: int | None) -> None:
    """A score on rows that the model has seen is not one to rely on."""
    scored = panel.times[max(panel.length - last, 0) if last else 0]
    if scored <= model.context.times[-1]:
        until = panel.freq.show(int(model.context.times[-1]))
        print(
            f"note: the model has seen the rows until {until}, and some of these windows lie "
            "there; --last N scores only the last N rows",
            file=sys.stderr,
        )
