"""The page of the reproduction, made of the results alone."""

import json
from importlib import import_module
from pathlib import Path
from typing import Any

from ..output import whole_file
from .claims import judge
from .tables import markdown

SECTIONS = {
    "table1": (
        "Table 1: forecasting",
        """\
Look-back 96, split 70/15/15 by rows, batch 32, at most {epochs} epochs (stopped after {patience} without a better
validation error), one block, width {width}, {heads} heads, AdamW at 1e-4 with warm-up and cosine, MSE, no weight
averaging; the epoch is chosen on validation, every test window is scored, and mean ± deviation of {seeds} seeds is
shown as MSE / MAE. One recipe for all models; nothing was searched. Windows are normalised only where a row says
so, and for PatchTST and iTransformer, whose papers do.

The paper says that its data are standardised. *Same, in MinMax* are the same predictions, errors expressed in units of
each series' range in the training rows; *trained in MinMax* sees and is trained in these units, and is shown in both.
*Sentinels cleaned*: Weather marks missing values by −9999, which inflates the deviation of two series so that
they hardly count; here they are interpolated before scaling. A naive forecast looks back one day, however long that is.""",
    ),
    "kappa": (
        "κ on Weather",
        "Horizon 96 (the paper does not say which), otherwise as in Table 1. *As printed* is the paper's formula "
        "without the norm, residual and bias that its experiments add.",
    ),
    "agnews": (
        "AG News",
        "One block over words, the settings of `TextClassifier`, {text_epochs} epochs. Trained on {articles}, a tenth "
        "of them held out to choose the epoch; scored on the official test file of 7,600. The paper takes a tenth of the "
        "official training file as its test set and does not say which.",
    ),
    "heatmaps": (
        "Heat maps",
        "Fighter and the Transformer on Weather-96 (one seed), trained on without stopping; A for the first test "
        "window, mean over heads, first 64 of 96 positions. κ=1 has no graph: each position sees itself. The edges are "
        "exact shares of the forecast of the temperature (mean over the horizon), all hops together. Diagnostics are "
        "means over 32 test windows.",
    ),
    "backward": (
        "Backward pass",
        "A Transformer block as printed (one head, no norm or residual) trained on Weather; at some of its steps, its "
        "gradients and updates beside those of a GCN with the same weights. `fighter theory` has the identities.",
    ),
}


def write_page(folder: Path, page: Path) -> str:
    """Write ``page`` and its pictures from the results in ``folder``; gives the verdicts as text."""
    results = {
        name: json.loads(path.read_text(encoding="utf-8"))
        for name in SECTIONS
        if (path := folder / f"{name}.json").exists()
    }
    pictures = page.parent / page.stem
    verdicts = judge({name: result["rows"] for name, result in results.items()})
    parts = [HEAD]
    if any(result["quick"] for result in results.values()):
        parts.append(
            "**A small version (`--quick`): the numbers below say nothing about the paper.**"
        )
    parts.append(markdown(["the paper", "here", "evidence"], [list(v) for v in verdicts]))
    for name, (title, text) in SECTIONS.items():
        if name in results:
            made = import_module(f".{name}", __package__).section(results[name]["rows"], pictures)
            parts += [f"## {title}", text.format(**_words(results[name])), made]
            parts.append(_origin(name, results[name]))
    with whole_file(page) as beside:
        beside.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return "\n".join(f"{v.verdict:<16} {v.claim}\n{'':17}{v.evidence}" for v in verdicts)


HEAD = """\
# The paper, reproduced

Every table and figure of *Fighter: Unveiling the Graph Convolutional Nature of Transformers in Time Series Modeling*,
made by this code, beside the paper's numbers, which are quoted and never ours. This page is written by
`fighter reproduce` from [the results](../results/reproduction); the theory has [its own](theory.md)."""


def _words(result: dict[str, Any]) -> dict[str, Any]:
    """What the texts above ask for."""
    scale = result["scale"]
    part = result["rows"][0]["settings"].get("part")
    articles = {
        "train": "the official training file",
        "train_partial": "43,361 of the 120,000 articles of the official training file",
    }.get(part, "")
    if scale["articles"]:
        articles = f"the first {scale['articles']:,} articles"
    return {**scale, "seeds": len(scale["seeds"]), "articles": articles}


def _origin(name: str, result: dict[str, Any]) -> str:
    """Where the numbers come from."""
    origin, runs = result["provenance"], result["rows"]
    hours = sum(row["seconds"] for row in runs) / 3600
    commits = ", ".join(dict.fromkeys(row["commit"] for row in runs))
    return (
        f"<sub>{len(runs)} runs, {hours:.1f} hours of run time in all; `{origin['command']}`, "
        f"{origin['device']}, torch {origin['torch']}, {origin['date']}, code {commits}; "
        f"`{name}.json`.</sub>"
    )
