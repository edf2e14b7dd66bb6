"""``fighter explain``."""

import re
from typing import Annotated, Any

from ..data import Panel
from ..errors import FighterError, did_you_mean
from ..forecasting.explain import MOST_EXPLAINED
from ..forecasting.forecaster import Forecaster
from .arguments import DataFolder, Encoding, File, Model, Name, Shown, Target
from .forecast import future_flag, open_optional
from .targets import check_targets


def explain(
    model: Model,
    file: File | None = None,
    *,
    series: Name | None = None,
    step: int = 1,
    quantile: float | None = None,
    top: int = 20,
    device: str = "cpu",
    future_file: File | None = None,
    static: File | None = None,
    encoding: Encoding | None = None,
    data_dir: DataFolder | None = None,
    html: Target | None = None,
    most: int = MOST_EXPLAINED,
    parts: Target | None = None,
    windows: int = 1,
    change: Annotated[tuple[str, ...], Shown("NAME=VALUE")] = (),
    yesterday: File | None = None,
) -> None:
    """Show where a forecast comes from: which past values, over how many hops, and how much.

    Parts are in the units of the table and add up to the forecast.

    Example: fighter explain model --series north --step 6 --html why.html

    From later data:
      fighter explain model load-until-today.csv --series north

    What if, and why the forecast changed:
      fighter explain model load.csv --series north --change south=+10% north@2024-06-30=120
      fighter explain model today.csv --series north --yesterday yesterday.csv

    Args:
        model: folder written by fighter fit or forecast --save.
        file: history to forecast from; - for standard input (default: the training table).
        series: the series to explain; may be left out if there is only one.
        step: step of the horizon, from 1.
        quantile: explain this quantile, such as 0.9, the upper end of an 80 % interval (default:
            the point forecast).
        top: number of past values to print.
        device: cpu or cuda.
        future_file: table with future values of the covariates known in advance.
        static: table with one row per series, if some series were not trained on.
        encoding: encoding of text files, such as latin-1 (default: UTF-8).
        data_dir: folder of known data sets; else $FIGHTER_DATA, else the cache.
        html: write an offline page here that shows this forecast and others.
        most: largest number of forecasts on the page; steps are left out before series.
        parts: write the terms and parts of all series and steps to this Parquet file.
        windows: how many ends of the table these forecasts follow, one row apart.
        change: say what would change if a series or covariate, or with @TIME one of its values,
            had another value: a number, +10% or -3.
        yesterday: say why forecasts changed since this earlier table.
    """
    for name, number in (("top", top), ("most", most), ("windows", windows)):
        if number < 1:
            raise FighterError("needs at least 1", argument=name, value=number)
    inputs = {"file": file, "future_file": future_file, "static": static, "yesterday": yesterday}
    check_targets(inputs, data_dir, html=html, parts=parts)
    loaded = Forecaster.load(model, device=device)
    if not 1 <= step <= loaded.plan.horizon:
        raise FighterError(
            f"the model forecasts steps 1 to {loaded.plan.horizon}", argument="step", value=step
        )
    table, ahead, fixed, earlier = (
        open_optional(name, data_dir, encoding) for name in inputs.values()
    )
    panel = loaded.read(table, fixed)
    chosen = _find_id(panel.ids, series)
    what = _read_changes(change, panel)
    with future_flag():
        graph = loaded.explain(panel, unique_id=chosen, step=step, quantile=quantile, future=ahead)
    edges = graph.shown_as("pandas").edges(top=top).drop(columns=["target", "step"])
    print(graph.summary())
    print("\n" + edges.to_string(index=False, float_format="{:.4g}".format))
    with future_flag():
        if what:
            changed = loaded.what_if(panel, what, future=ahead)
            print(f"\n{changed.summary(unique_id=chosen)}")
        if earlier is not None:
            changed = loaded.compare(earlier, panel, future=ahead)
            print(f"\n{changed.summary(unique_id=chosen)}")
    if html:
        what = loaded.save_page(html, panel, future=ahead, first=(chosen, step), most=most)
        print(f"\nreport    {html}: {what}")
    if parts:
        options = {"windows": windows, "quantile": quantile, "future": ahead}
        rows = loaded.save_parts(parts, panel, **options)
        print(f"\nparts     {parts}: {rows:,} rows")


def _read_changes(changes: tuple[str, ...], panel: Panel) -> dict[Any, Any]:
    """Return changes as ``what_if`` takes them, from texts such as ``west@2024-06-30=120``."""
    ids, found = {str(name): name for name in panel.ids}, {}
    for text in changes:
        key, equals, value = text.rpartition("=")
        if not equals or not key:
            raise FighterError(
                "needs NAME=VALUE, such as price=+10%", argument="change", value=text
            )
        name, at, time = (key, "", "") if key in ids else key.rpartition("@")
        name, time = (name, time) if at else (key, "")
        stamp = int(time) if panel.axis.kind == "integer" and time.isdecimal() else time
        own = ids.get(name, name)
        number = re.fullmatch(r"\d+(\.\d*)?(e[+-]?\d+)?", value.strip())
        found[(own, stamp) if at else own] = float(value) if number else value
    return found


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
