"""The paper's sweep of κ on Weather: κ = 1 … 8 beside the Transformer."""

from collections.abc import Sequence
from pathlib import Path

from fighter.benchmark.result import by, count, markdown, pair
from fighter.benchmark.runs import Environment, Record, Run

from . import figures
from .scale import Scale
from .table1 import table_run

TITLE = "κ on Weather"
WORDS = """
The horizon is 96 (the paper does not say which); everything else is as in Table 1. *As printed* is
the paper's formula without the norm, residual and bias that its experiments add.
"""
HORIZON = 96
FIGHTERS = {"Fighter": "Fighter κ=3", "Fighter, as printed": "Fighter κ=3, as printed"}


def plan(scale: Scale, environment: Environment, electricity: str | None = None) -> list[Run]:
    """Return runs of the Transformer and of Fighter at every κ, with norms and as printed."""
    del environment, electricity
    runs = []
    for seed in scale.seeds:
        runs.append(table_run("Transformer", "weather", HORIZON, seed, scale))
        for name, label in FIGHTERS.items():
            for kappa in reversed(scale.kappas):
                run = table_run(label, "weather", HORIZON, seed, scale, options={"kappa": kappa})
                tags = {**run.tags, "model": name, "kappa": kappa}
                runs.append(Run(run.kind, run.settings, tags))
    return runs


def section(rows: Sequence[Record], pictures: Path) -> str:
    """Draw the figure and render the table."""
    transformer = by(rows, "model")["Transformer"]
    fighters = by([row for row in rows if "kappa" in row], "model", "kappa")
    kappas = sorted({kappa for _, kappa in fighters})
    points = {
        metric: {
            **{k: [r[name] for r in fighters["Fighter", k]] for k in kappas},
            "Transformer": [r[name] for r in transformer],
        }
        for metric, name in (("MSE", "standard_mse"), ("MAE", "standard_mae"))
    }
    figures.kappa_figure(points, pictures / "kappa.png")
    lines = [
        [
            f"κ={kappa}",
            *(pair(fighters[name, kappa], "standard") for name in FIGHTERS),
            pair(fighters["Fighter", kappa], "minmax"),
            count(fighters["Fighter", kappa], "parameters"),
        ]
        for kappa in kappas
    ]
    lines.append(
        [
            "Transformer",
            pair(transformer, "standard"),
            "-",
            pair(transformer, "minmax"),
            count(transformer, "parameters"),
        ]
    )
    header = ["", *FIGHTERS, "Fighter, in MinMax", "parameters"]
    return f"![Errors over κ]({pictures.name}/kappa.png)\n\n{markdown(header, lines)}"
