"""``fighter demo``: four models on a generated grid whose links are known."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from .._files import atomic_write, check_target
from ..data import GridLoad, grid_load
from ..data.files import import_pandas
from ..errors import FighterError
from ..forecasting.forecaster import Forecaster
from ..plotting.theme import Theme
from ..training.parallel import one_thread
from ..training.progress import fill, say
from .arguments import TargetFolder

HORIZON, LOOKBACK, WEEK = 24, 96, 24 * 7

# Chosen on the validation rows, from about forty settings for Fighter and up to twenty for each of
# the others, to train in seconds: the demo compares these four models as they are, not the best
# that each could reach. Fighter is not mixed with smoothing, which adds nothing on this grid, so
# that its explanation shows the links between zones and not the past of each.
MODELS: Mapping[str, dict[str, Any]] = {
    "fighter": {
        "level": [80, 95], "width": 64, "layers": 1, "dropout": 0.2, "max_epochs": 20, "lr": 3e-2,
        "members": 1, "smoothing": False,
    },
    "transformer": {
        "width": 32, "heads": 2, "layers": 1, "dropout": 0.0, "max_epochs": 3, "lr": 2e-2,
        "hidden_width": 64,
    },
    "linear": {"max_epochs": 10, "lr": 3e-2},
    "naive": {"max_epochs": 1},
}  # fmt: skip
TITLES = {"fighter": "Fighter", "transformer": "Transformer", "linear": "linear"}


@dataclass(frozen=True)
class Size:
    """Amount of data and length of training."""

    weeks: int = 26
    held_out: int = 3  # weeks for validation, and as many again for the test
    most_epochs: int = 100

    @property
    def test(self) -> int:
        """Number of test hours at the end, which no model sees."""
        return self.held_out * WEEK


def demo(*, out: TargetFolder = Path("fighter-demo"), seed: int = 0) -> None:
    """Train on a generated grid, compare with three baselines, and draw forecasts.

    Takes less than 20 seconds on two cores.

    Example: fighter demo --out fighter-demo

    Args:
        out: folder for the data and the pictures.
        seed: seed of the grid and of the weights.
    """
    run_demo(out, seed)


def run_demo(out: Path, seed: int = 0, size: Size = Size()) -> dict[str, Forecaster]:  # noqa: B008
    """Run the demo and return the fitted models."""
    _check_folder(out)
    grid = grid_load(size.weeks * WEEK, seed=seed)
    print(_introduction(grid, size, out), flush=True)
    with one_thread():
        fitted = {name: _fit_and_score(name, grid, size, seed) for name in MODELS}
        models = {name: model for name, (model, _) in fitted.items()}
        pictures = _draw(models["fighter"], grid, size, out)
        pictures += _explain(models["fighter"], grid, out)
    data = out / "grid.csv"
    with atomic_write(data) as file:
        _table(grid).to_csv(file, index=False)
    print(f"\n{'':15}{'MAE':>7}{'MSE':>8}{'in 80 %':>10}{'seconds':>10}{'parameters':>12}")
    print("\n".join(row for _, row in fitted.values()))
    legend = (
        "MAE and MSE in standard deviations of the training rows; in 80 %: share of test values "
        "inside the 80 % interval. Fighter is its network alone here; by default it is mixed with "
        "exponential smoothing and autoregressions."
    )
    wrote = f"Wrote {', '.join(map(str, pictures))} and {data}. Go on with:"
    print(f"\n{fill(legend, indent=0)}\n\n{fill(wrote, indent=0)}")
    print(f"  fighter forecast {data} --horizon 24 --level 80 --plot forecast.png")
    return models


def _check_folder(out: Path) -> None:
    """Refuse a folder that cannot be written to or is not the demo's, before training."""
    check_target(out)
    Theme.follow()  # needs matplotlib
    import_pandas()
    if out.exists() and any(out.iterdir()) and not any(out.glob("forecast-????-??-??.png")):
        raise FighterError(f"{out} holds other files: choose a new folder", argument="out")


def _introduction(grid: GridLoad, size: Size, out: Path) -> str:
    links = ", ".join(f"{k.source} → {k.target} {k.lag} h" for k in grid.links)
    return (
        f"A generated grid: hourly load of {len(grid.zones)} zones, {size.weeks} weeks.\n"
        f"{fill(f'Planted links: {links}.', indent=2)}\n"
        f"Each model sees {LOOKBACK} hours and forecasts the next {HORIZON}.\n"
        f"The last {size.held_out} weeks are the test rows, the {size.held_out} before them choose "
        f"the epoch.\nPictures will be in {out}."
    )


def _fit_and_score(name: str, grid: GridLoad, size: Size, seed: int) -> tuple[Forecaster, str]:
    """Train one model and return it with its row of the table."""
    settings, title = MODELS[name], TITLES.get(name, "seasonal naive")
    say(f"\n{title}")
    start = time.monotonic()
    model = Forecaster.from_flat(
        horizon=HORIZON,
        lookback=LOOKBACK,
        model=name,
        validation=size.test,
        batch_size=64,
        ema=0.99,
        seed=seed,
        device="cpu",
        **{**settings, "max_epochs": min(settings["max_epochs"], size.most_epochs)},
    ).fit(_table(grid, -size.test))
    seconds = time.monotonic() - start
    scores = model.evaluate(_table(grid), last=size.test)
    inside = f"{scores['coverage-80'].mean():.1f} %" if model.level else "-"
    count = sum(parameter.numel() for parameter in model.fitted.network.parameters())
    row = (
        f"{title:15}{scores['scaled_mae'].mean():7.4f}{scores['scaled_mse'].mean():8.4f}"
        f"{inside:>10}{seconds:10.1f}{count:12,}"
    )
    return model, row


def _draw(model: Forecaster, grid: GridLoad, size: Size, out: Path) -> list[Path]:
    """Draw the first and the last day of the test rows, forecast from the hours before them."""
    paths = []
    for end in (len(grid.times) - size.test, len(grid.times) - HORIZON):
        history = model.read(_table(grid, end))
        day = str(grid.times[end].astype("M8[D]"))
        paths.append(out / f"forecast-{day}.png")
        truth = grid.load[end : end + HORIZON]
        model.forecast(history).plot(history, truth, paths[-1], title=f"Load of {day}, MW")
    return paths


def _explain(model: Forecaster, grid: GridLoad, out: Path) -> list[Path]:
    """Explain the forecast of the last day on a page, if plotly is installed."""
    if find_spec("plotly") is None:
        return []
    end = len(grid.times) - HORIZON
    day = str(grid.times[end].astype("M8[D]"))
    path, title = out / f"why-{day}.html", f"Where the forecast of {day} comes from, load in MW"
    model.save_page(path, _table(grid, end), truth=grid.load[end:], title=title, most=72)
    return [path]


def _table(grid: GridLoad, end: int | None = None) -> Any:
    """Return the hours until ``end`` as a table with one column per zone."""
    columns = dict(zip(grid.zones, grid.load[:end].T, strict=True))
    return import_pandas().DataFrame({"ds": grid.times[:end], **columns})
