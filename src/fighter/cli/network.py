"""``fighter network``."""

from ..errors import FighterError
from ..forecasting.forecaster import Forecaster
from .arguments import DataFolder, Encoding, File, Model, Target
from .forecast import open_optional
from .targets import check_targets, is_stream, write


def network(
    model: Model,
    file: File | None = None,
    *,
    windows: int | None = None,
    top: int = 20,
    device: str = "cpu",
    static: File | None = None,
    encoding: Encoding | None = None,
    data_dir: DataFolder | None = None,
    out: Target | None = None,
    plot: Target | None = None,
    html: Target | None = None,
) -> None:
    """Show which series follow which, by how long and how strongly, over many forecasts.

    Links say what the forecasts were made of and was borne out. They are not causes.

    Example: fighter network model --html net.html --plot net.png --out edges.csv

    In later data:
      fighter network model load-until-today.csv

    Args:
        model: folder written by fighter fit or forecast --save.
        file: rows to explain; - for standard input (default: the end of the training table).
        windows: number of windows (default: 200, or fewer for many series).
        top: number of links to print.
        device: cpu or cuda.
        static: table with one row per series, if some series were not trained on.
        encoding: encoding of text files, such as latin-1 (default: UTF-8).
        data_dir: folder of known data sets; else $FIGHTER_DATA, else the cache.
        out: write all links here, .csv or .parquet; - for standard output.
        plot: draw the links here, such as net.png.
        html: write an offline page here.
    """
    for name, number in (("top", top), ("windows", windows)):
        if number is not None and number < 1:
            raise FighterError("needs at least 1", argument=name, value=number)
    inputs = {"file": file, "static": static}
    check_targets(inputs, data_dir, out=out, plot=plot, html=html)
    loaded = Forecaster.load(model, device=device)
    table, fixed = (open_optional(name, data_dir, encoding) for name in inputs.values())
    found = loaded.network(table, windows=windows, static=fixed)
    if out:
        write(found.table("pandas"), out)
    if plot:
        found.plot(plot)
    if html:
        found.save_html(html)
    if out and is_stream(out):
        return
    print(found.summary())
    links = found.table("pandas", top=top, own=False)
    if len(links):
        print("\n" + links.to_string(index=False, float_format="{:.3g}".format))
    for label, path in (("links", out), ("picture", plot), ("page", html)):
        if path:
            print(f"\n{label:<10}{path}")
