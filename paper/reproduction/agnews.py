"""AG News: one block of each model over words, and a sweep of κ."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from fighter.benchmark.result import by, count, markdown, number
from fighter.benchmark.runs import Environment, Record, Run
from fighter.classifier import TextClassifier
from fighter.data.datasets import catalogue

from . import figures, paper
from .scale import Scale

TITLE = "AG News"
WORDS = """
One block over pieces of words and the settings of `TextClassifier`, for every model alike (see
classification.md for how they were chosen), {text_epochs} epochs. Trained on {articles}, a tenth of
them held out to choose the epoch; scored on {scored}. The paper takes a tenth of the official
training file as its test set, and does not say which.
"""
ELSEWHERE = ("device", "verbose")  # nothing depends on them
TITLES = {
    "train": "all 120,000 articles of the official training file",
    "train_partial": "43,361 of the 120,000 articles of the official training file",
}


def plan(scale: Scale, place: Environment, electricity: str | None = None) -> list[Run]:
    """The five models of Table 1 and Fighter at other κ; on the whole file where it is at hand."""
    del electricity
    part = next((p for p in TITLES if catalogue.at_hand("agnews", place.data_dir, p)), "train")
    catalogue.find("agnews", place.data_dir, part)  # raises, and tells how to get it
    models: dict[str, dict[str, Any]]
    models = {label: {"model": label.casefold()} for label in paper.BASELINES}
    models |= {f"Fighter κ={kappa}": {"kappa": kappa} for kappa in scale.text_kappas}
    common: dict[str, Any] = {"max_epochs": scale.text_epochs, "patience": scale.text_epochs}
    if scale.articles:
        common |= {"width": scale.width, "heads": scale.heads}
    runs = []
    for seed in scale.seeds:
        for label, options in models.items():
            # Defaults too: a result belongs to all settings, whatever they will be one day.
            model = TextClassifier(**options, **common, seed=seed)
            chosen = {k: v for k, v in model.get_params().items() if k not in ELSEWHERE}
            settings = {"part": part, "articles": scale.articles, "options": chosen}
            runs.append(Run("agnews", settings, {"data": "AG News", "model": label, "seed": seed}))
    return runs


def perform(settings: Mapping[str, Any], place: Environment) -> dict[str, Any]:
    """Train on nine tenths of the articles, choose the epoch on the rest, score on the test."""
    (texts, labels), test = (
        tuple(column[: settings["articles"]] for column in read(part, place.data_dir))
        for part in (settings["part"], "test")
    )
    model = TextClassifier(**settings["options"], device=place.device, verbose=False)
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
def read(part: str, data_dir: Path | None) -> tuple[list[str], list[int]]:
    """Title and description as one text, and the class."""
    table = catalogue.load("agnews", data_dir, part=part)
    texts = (table["title"] + " " + table["description"]).str.strip()
    return texts.tolist(), table["label"].tolist()


def section(rows: Sequence[Record], pictures: Path) -> str:
    """Table and learning curves."""
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
            f"{paper.ACCURACY[label]:.3f}" if label in paper.ACCURACY else "-",
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
