"""``fighter explain``."""

from dataclasses import replace
from typing import Annotated, Any

from tyro.conf import Positional, arg

from ..data.files import open_table
from ..errors import FighterError
from ..forecasting.explain import MOST_EXPLAINED
from ..forecasting.forecaster import Forecaster
from .forecast import Folder, OptionalFile, OptionalFolder, Target, check_page


def explain(
    model: Positional[Folder],
    series: Annotated[str | None, arg(metavar="NAME", help_behavior_hint="")] = None,
    step: int = 1,
    data: OptionalFile = None,
    future: OptionalFile = None,
    static: OptionalFile = None,
    html: Target = None,
    top: int = 20,
    most: int = MOST_EXPLAINED,
    device: str = "cpu",
    data_dir: OptionalFolder = None,
) -> None:
    """Show where a forecast comes from: which past values, over how many hops, and how much.

    Parts are in the units of the table and add up to the forecast.

    Example: fighter explain model --series north --step 6 --html why.html

    From later data: fighter explain model --series north --data load-until-today.csv

    Args:
        model: folder written by fighter fit or forecast --save.
        series: the series to explain; may be left out if there is only one.
        step: step of the horizon, from 1.
        data: history to forecast from (default: the training table).
        future: table with future values of the covariates known in advance.
        static: table with one row per series, if some series were not trained on.
        html: write an offline page here that shows this forecast and others.
        top: number of past values to print.
        most: largest number of forecasts on the page; steps are left out before series.
        device: cpu or cuda.
        data_dir: folder of known data sets; else $FIGHTER_DATA, else the cache.
    """
    for name, number in (("top", top), ("most", most)):
        if number < 1:
            raise FighterError("needs at least 1", argument=name, value=number)
    if html:
        check_page(html)
    loaded = Forecaster.load(model, device=device)
    if not 1 <= step <= loaded.plan.horizon:
        raise FighterError(
            f"the model forecasts steps 1 to {loaded.plan.horizon}", argument="step", value=step
        )
    names = (data, future, static)
    table, ahead, fixed = (None if name is None else open_table(name, data_dir) for name in names)
    panel = loaded.read(table, fixed)
    chosen = _find_id(panel.ids, series)
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
        raise FighterError(
            f"needs one of the {len(ids):,} series, {some}", argument="series", value=name
        )
    return matches[0]
