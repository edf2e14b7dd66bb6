"""``fighter explain``."""

from dataclasses import replace
from typing import Any

from ..errors import FighterError, did_you_mean
from ..forecasting.explain import MOST_EXPLAINED
from ..forecasting.forecaster import Forecaster
from .arguments import DataFolder, Encoding, File, Model, Name, Target
from .forecast import future_flag, open_optional
from .targets import check_targets


def explain(
    model: Model,
    file: File | None = None,
    *,
    series: Name | None = None,
    step: int = 1,
    top: int = 20,
    device: str = "cpu",
    future_file: File | None = None,
    static: File | None = None,
    encoding: Encoding | None = None,
    data_dir: DataFolder | None = None,
    html: Target | None = None,
    most: int = MOST_EXPLAINED,
) -> None:
    """Show where a forecast comes from: which past values, over how many hops, and how much.

    Parts are in the units of the table and add up to the forecast.

    Example: fighter explain model --series north --step 6 --html why.html

    From later data:
      fighter explain model load-until-today.csv --series north

    Args:
        model: folder written by fighter fit or forecast --save.
        file: history to forecast from; - for standard input (default: the training table).
        series: the series to explain; may be left out if there is only one.
        step: step of the horizon, from 1.
        top: number of past values to print.
        device: cpu or cuda.
        future_file: table with future values of the covariates known in advance.
        static: table with one row per series, if some series were not trained on.
        encoding: encoding of text files, such as latin-1 (default: UTF-8).
        data_dir: folder of known data sets; else $FIGHTER_DATA, else the cache.
        html: write an offline page here that shows this forecast and others.
        most: largest number of forecasts on the page; steps are left out before series.
    """
    for name, number in (("top", top), ("most", most)):
        if number < 1:
            raise FighterError("needs at least 1", argument=name, value=number)
    inputs = {"file": file, "future_file": future_file, "static": static}
    check_targets(inputs, data_dir, html=html)
    loaded = Forecaster.load(model, device=device)
    if not 1 <= step <= loaded.plan.horizon:
        raise FighterError(
            f"the model forecasts steps 1 to {loaded.plan.horizon}", argument="step", value=step
        )
    table, ahead, fixed = (open_optional(name, data_dir, encoding) for name in inputs.values())
    panel = loaded.read(table, fixed)
    chosen = _find_id(panel.ids, series)
    with future_flag():
        graph = loaded.explain(panel, unique_id=chosen, step=step, future=ahead)
    edges = replace(graph, like="pandas").edges(top=top).drop(columns=["target", "step"])
    print(graph.summary())
    print("\n" + edges.to_string(index=False, float_format="{:.4g}".format))
    if html:
        what = loaded.save_page(html, panel, future=ahead, first=(chosen, step), most=most)
        print(f"\nreport    {html}: {what}")


def _find_id(ids: tuple, name: str | None) -> Any:
    """Return the id that is written like ``name``: ids may be numbers."""
    matches = [own for own in ids if str(own) == name] or list(ids if name is None else ())
    if len(matches) != 1:
        some = ", ".join(map(str, ids[:5])) + (", …" if len(ids) > 5 else "")
        hint = did_you_mean(name or "", map(str, ids))
        raise FighterError(
            f"needs one of the {len(ids):,} series, {some}{hint and '.' + hint}",
            argument="series",
            value=name,
        )
    return matches[0]
