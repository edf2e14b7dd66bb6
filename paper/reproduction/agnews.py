"""The paper's text classification: one block of each model on AG News, and a sweep of κ."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from fighter.benchmark.result import by, count, markdown, number
from fighter.benchmark.runs import Environment, Record, Run
from fighter.classifier import TextClassifier
from fighter.data.datasets import catalogue

from . import figures, quoted
from .scale import Scale

TITLE = "AG News"
WORDS = """
Every model is one block over word pieces with the settings of `TextClassifier`
(`classification.md` says how they were chosen), trained for {text_epochs} epochs on {articles}. A
tenth of these articles is held out to choose the epoch. Accuracy is measured on {scored}. The paper
uses a tenth of the official training file as its test set and does not say which.
"""
WITHOUT_EFFECT = ("device", "verbose")  # settings on which no result depends
TITLES = {
    "train": "all 120,000 articles of the official training file",
    "train_partial": "43,361 of the 120,000 articles of the official training file",
}


def plan(scale: Scale, environment: Environment, electricity: str | None = None) -> list[Run]:
    """Return runs of the paper's models and of Fighter at other κ.

    They use the whole training file if it is available, else the part of it that is.
    """
    del electricity
    folder = environment.data_dir
    part = next((part for part in TITLES if catalogue.at_hand("agnews", folder, part)), "train")
    catalogue.find("agnews", folder, part)  # raises and says how to get it
    models: dict[str, dict[str, Any]]
    models = {label: {"model": label.casefold()} for label in quoted.BASELINES}
    models |= {f"Fighter κ={kappa}": {"kappa": kappa} for kappa in scale.text_kappas}
    common: dict[str, Any] = {"max_epochs": scale.text_epochs, "patience": scale.text_epochs}
    if scale.articles:
        common |= {"width": scale.width, "heads": scale.heads}
    runs = []
    for seed in scale.seeds:
        for label, options in models.items():
            # The settings of a run include the defaults, which may change one day.
            parameters = TextClassifier(**options, **common, seed=seed).get_params()
            chosen = {k: v for k, v in parameters.items() if k not in WITHOUT_EFFECT}
            settings = {"part": part, "articles": scale.articles, "options": chosen}
            runs.append(Run(__name__, settings, {"data": "AG News", "model": label, "seed": seed}))
    return runs


def perform(settings: Mapping[str, Any], environment: Environment) -> dict[str, Any]:
    """Train on nine tenths of the articles, choose the epoch on the rest, score the test file."""
    (texts, labels), test = (
        tuple(
            column[: settings["articles"]] for column in read_articles(part, environment.data_dir)
        )
        for part in (settings["part"], "test")
    )
    model = TextClassifier(**settings["options"], device=environment.device, verbose=False)
    model.fit(texts, labels, on_epoch=lambda record: record.update(test=model.score(*test)))
    best = min(model.history, key=lambda record: record["validation"])
    return {
        "accuracy": model.score(*test),
        "last_accuracy": model.history[-1]["test"],
        "best_epoch": best["epoch"],
        "validation": best["validation"],
        "parameters": sum(p.numel() for p in model.network.parameters()),
        "block_parameters": sum(p.numel() for p in model.network.blocks.parameters()),
        "curves": {
            name: [round(record[key], 5) for record in model.history]
            for name, key in (("accuracy", "test"), ("loss", "loss"))
        },
    }


@lru_cache(maxsize=2)
def read_articles(part: str, data_dir: Path | None) -> tuple[list[str], list[int]]:
    """Return the title and description of each article as one text, and the classes."""
    table = catalogue.load("agnews", data_dir, part=part)
    texts = (table["title"] + " " + table["description"]).str.strip()
    return texts.tolist(), table["label"].tolist()


def section(rows: Sequence[Record], pictures: Path) -> str:
    """Draw the learning curves and render the table."""
    groups = by(rows, "model")
    curves = {
        label: {name: [r["curves"][name] for r in results] for name in ("accuracy", "loss")}
        for label, results in groups.items()
        if label == "Transformer" or label.startswith("Fighter")
    }
    figures.curves_figure(curves, pictures / "agnews.png")
    lines = [
        [
            label,
            f"{quoted.ACCURACY[label]:.3f}" if label in quoted.ACCURACY else "-",
            number(results, "accuracy"),
            number(results, "last_accuracy"),
            count(results, "block_parameters"),
            count(results, "best_epoch"),
        ]
        for label, results in groups.items()
    ]
    header = [
        "model", "paper", "ours, epoch chosen on validation", "ours, last epoch",
        "parameters of the block", "best epoch",
    ]  # fmt: skip
    return f"![Learning curves]({pictures.name}/agnews.png)\n\n{markdown(header, lines)}"
