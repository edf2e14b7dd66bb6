"""The paper's sweep of κ on Weather: κ = 1 … 8 against the Transformer."""

from collections.abc import Sequence
from pathlib import Path

from fighter.benchmark.result import by, count, markdown, pair
from fighter.benchmark.runs import Environment, Record, Run

from . import figures
from .scale import Scale
from .table1 import run_of

TITLE = "κ on Weather"
WORDS = """
Horizon 96 (the paper does not say which), otherwise as in Table 1. *As printed* is the paper's
formula without the norm, residual and bias that its experiments add.
"""
HORIZON = 96  # the paper does not say which
FIGHTERS = {"Fighter": "Fighter κ=3", "Fighter, as printed": "Fighter κ=3, as printed"}


def plan(scale: Scale, place: Environment, electricity: str | None = None) -> list[Run]:
    """Fighter at every κ, as in the paper's experiments and as printed, and the Transformer."""
    del place, electricity
    runs = []
    for seed in scale.seeds:
        runs.append(run_of("Transformer", "weather", HORIZON, seed, scale))
        for name, label in FIGHTERS.items():
            for kappa in reversed(scale.kappas):
                run = run_of(label, "weather", HORIZON, seed, scale, options={"kappa": kappa})
                tags = {**run.tags, "model": name, "kappa": kappa}
                runs.append(Run(run.kind, run.settings, tags))
    return runs


def section(rows: Sequence[Record], pictures: Path) -> str:
    """Figure and table."""
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
