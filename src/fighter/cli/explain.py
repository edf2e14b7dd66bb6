"""``fighter explain``."""

from dataclasses import replace
from typing import Annotated, Any

from tyro.conf import Positional, arg

from ..data.files import open_table
from ..errors import FighterError
from ..forecasting.forecaster import Forecaster
from ..forecasting.report import MOST, save_report
from .forecast import Folder, OptionalFile, OptionalFolder, Target, check_page
from .messages import plain_words


@plain_words()
def explain(
    model: Positional[Folder],
    series: Annotated[str | None, arg(metavar="NAME", help_behavior_hint="")] = None,
    step: int = 1,
    data: OptionalFile = None,
    future: OptionalFile = None,
    static: OptionalFile = None,
    html: Target = None,
    top: int = 20,
    most: int = MOST,
    device: str = "cpu",
    data_dir: OptionalFolder = None,
) -> None:
    """Tell where a forecast comes from: which past values, over how many hops, and how much.

    Parts are in the units of the table and add up to the forecast.

    Example: fighter explain model --series north --step 6 --html why.html

    From later data: fighter explain model --series north --data load-until-today.csv

    Args:
        model: folder that fighter fit or forecast --save has written.
        series: which one; may be left out if there is only one.
        step: which step of the horizon, from 1.
        data: history to forecast from; the end of the training table unless given.
        future: table with future values of the covariates that are known in advance.
        static: table with one row per series, if there are series that were not trained on.
        html: write a page here that shows this forecast and others, and needs no network.
        top: print so many past values.
        most: explain at most so many forecasts on the page; steps are left out before series.
        device: cpu or cuda.
        data_dir: folder of known data sets; else $FIGHTER_DATA, else the cache.
    """
    for name, number in (("top", top), ("most", most)):
        if number < 1:
            raise FighterError(f"--{name} {number}: needs at least 1")
    if html:
        check_page(html)
    loaded = Forecaster.load(model, device=device)
    if not 1 <= step <= loaded.plan.horizon:
        raise FighterError(f"--step {step}: the model forecasts steps 1 to {loaded.plan.horizon}")
    names = (data, future, static)
    table, ahead, fixed = (None if name is None else open_table(name, data_dir) for name in names)
    ids = loaded.context.ids if table is None else loaded._history(table, fixed).ids
    chosen = _named(ids, series)
    graph = loaded.explain(table, unique_id=chosen, step=step, future=ahead, static=fixed)
    edges = replace(graph, like="pandas").edges(top=top).drop(columns=["target", "step"])
    print(graph.summary())
    print("\n" + edges.to_string(index=False, float_format="{:.4g}".format))
    if html:
        what = save_report(
            loaded, html, table, future=ahead, static=fixed, first=(chosen, step), most=most
        )
        print(f"\nreport    {html}: {what}")


def _named(ids: tuple, name: str | None) -> Any:
    """The series that is written so: its id may be a number."""
    found = [own for own in ids if str(own) == name] or list(ids if name is None else ())
    if len(found) != 1:
        some = ", ".join(map(str, ids[:5])) + (", …" if len(ids) > 5 else "")
        given = "" if name is None else f" {name}"
        raise FighterError(f"--series{given}: needs one of the {len(ids):,} series, {some}")
    return found[0]
