"""Write the accuracy pages from stored results alone.

``accuracy.md`` is the summary for users, ``accuracy-runs.md`` has every table.
"""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, median
from types import ModuleType
from typing import Any

from fighter._files import atomic_write
from fighter.benchmark import contest
from fighter.benchmark.contest import Cell
from fighter.benchmark.page import group_tasks, join, origin, p_value, protocol, seeds_won
from fighter.benchmark.page import section as leaderboard_section
from fighter.benchmark.result import Score, by, markdown, mean, number
from fighter.benchmark.runs import read_results

from . import ablations, published, search, small
from .ablations import AblationRow
from .command import RESULTS
from .variants import VariantRow, compare, seed_noise

STUDIES = (small, search, ablations)
NAMES = {"weather": "Weather", "eia_demand_hourly": "Hourly load", "ETTh1": "ETTh1"}
CHANCE = 0.05  # p-values above it are named

HEAD = """
# Accuracy

Fighter with default settings against {count} other models on the same windows of the same data. All
tables and runs are in [accuracy-runs.md](accuracy-runs.md). `python -m paper study page` writes
both pages from [results/accuracy](../results/accuracy).
"""
PROTOCOL = """
- The first 70 % of the rows train, the next 10 % (validation rows) choose the epoch, and every
window of the last 20 % is scored. ETTh1: 12, 4 and 4 months.
- The look-back is 96 steps. Errors are in standard deviations of each series over the training
rows, mean ± standard deviation over {seeds} seeds. Lower is better.
- All models see the same windows, minimise the absolute error, and share number of epochs, early
stopping and the moving average of weights.
- Fighter is the network alone, with reversion in all members: one configuration for all data sets,
whose settings were searched without the test rows. It was the default until the network was mixed
with simple forecasts; the mixed default is below.
- {trained} are built as in their papers, with normalised windows; each has the learning rate out of
{rates} that is best on the validation rows. {untrained} have nothing to train.
- Only Fighter learns reversion, weighs near steps more, averages members, uses the time of the year
and keeps natural bounds; only Fighter and CycleNet learn a cycle.
- Every row of `leaderboard.json` has the command that reproduces it.
"""
MIXED = "mixed.json"
MIXED_ABOUT = """
`Forecaster(horizon, lookback=96)` today: two members, of which one reverts, mixed with simple
forecasts. Weather at 192 and hourly load were not run. The best published results on ETTh1 that we
know of are 0.457 / 0.438 at 336 and 0.463 / 0.462 at 720 (MSE / MAE).
"""
TABLE = """
Each error stands beside the best other model by that error. *Seeds won* and the p-value (random
signs over blocks of test windows) are for the MSE.
"""
PARTS = """
The default had four members when these were run, now it has two. Below is the change of MSE / MAE
when one thing in a single member is changed ({seeds} seeds, look-back and horizon {horizon});
positive is worse. The standard deviation of the MSE over seeds is {low:.1%} to {high:.1%};
differences within that mean nothing.
"""
# Group and variant of an ablation, and how the page calls it.
SHOWN = (
    ("Hops over series", "κ=1", "no hops between series (κ=1)"),
    ("Hops over series", "κ=2", "one hop (κ=2)"),
    ("Hops over series", "κ=4", "three hops (κ=4)"),
    ("The graph", "normalised queries and keys", "graph drawn from the input, not learned once"),
    ("The weights of hops", "scalar hops", "a number per hop instead of a matrix"),
    ("The frame", "no normalisation", "windows not normalised"),
    ("The frame", "no reversion", "no reversion to the long-run mean"),
    ("The frame", "no cycle", "no learned cycle"),
    ("The frame", "no calendar", "no time of the year"),
    ("The frame", "all steps weigh the same", "all steps weigh the same in training"),
    ("The frame", "no average of weights", "no moving average of weights"),
    ("The frame", "no bounds", "no natural bounds"),
    ("The frame", "squared error", "trained on the squared error"),
    ("Members", ablations.FOUR, "four members instead of one"),
)
RUNS_HEAD = """
# Accuracy: all runs

Every table behind [accuracy.md](accuracy.md), written by `python -m paper study page` from
[results/accuracy](../results/accuracy). The line below each section names the runs, the last
command, the machine and the commits.
"""


def main(arguments: Sequence[str]) -> None:
    """Write both pages from the command line."""
    parser = argparse.ArgumentParser(prog="python -m paper study page", description=__doc__)
    parser.add_argument("--results", type=Path, default=RESULTS, help=f"default: {RESULTS}")
    parser.add_argument("--docs", type=Path, default=Path("docs"), help="default: docs")
    args = parser.parse_args(arguments)
    pages = {"accuracy.md": summary_page, "accuracy-runs.md": runs_page}
    for name, page in pages.items():
        with atomic_write(args.docs / name) as file:
            file.write_text(page(args.results), encoding="utf-8")
        print(args.docs / name)


# ---- all runs -------------------------------------------------------------------------------


def runs_page(folder: Path) -> str:
    """Return the page with every table; studies without a results file are left out."""
    parts = [join(RUNS_HEAD)]
    if (folder / contest.FILE).exists():
        result = read_results(folder / contest.FILE)
        tables = leaderboard_section(result["rows"])
        parts += ["## Leaderboard", protocol(), tables, origin(contest.FILE, result)]
        if table := published.section(result["rows"]):
            parts += [f"## {published.TITLE}", join(published.WORDS), table]
    for study in STUDIES:
        if (folder / study.FILE).exists():
            parts += study_parts(study, read_results(folder / study.FILE))
    return "\n\n".join(parts) + "\n"


def study_parts(study: ModuleType, result: Mapping[str, Any]) -> list[str]:
    """Return title, words, tables and origin of one study."""
    words = join(study.WORDS).format(**study.words(result["rows"]))
    tables = study.section(result["rows"])
    return [f"## {study.TITLE}", words, tables, origin(study.FILE, result)]


# ---- the summary ----------------------------------------------------------------------------


def summary_page(folder: Path) -> str:
    """Return the page for users."""
    cells: list[Cell] = read_results(folder / contest.FILE)["rows"]
    parts: list[AblationRow] = read_results(folder / ablations.FILE)["rows"]
    tables: list[VariantRow] = read_results(folder / small.FILE)["rows"]
    tasks = _tasks(cells)
    seeds = max(len(results) for models in tasks.values() for results in models.values())
    others = _others(tasks)
    words = {
        "seeds": seeds,
        "trained": listing([model for model, trained in others.items() if trained]),
        "untrained": listing([model for model, trained in others.items() if not trained]),
        "rates": ", ".join(f"{rate:g}" for rate in contest.RATES),
    }
    low, high = seed_noise(parts, lambda row: (row["group"], row["data"])) or (0.0, 0.0)
    about_parts = {
        "seeds": len({row["seed"] for row in parts}),
        "horizon": ablations.HORIZON,
        "low": low,
        "high": high,
    }
    return (
        "\n\n".join(
            [
                join(HEAD).format(count=len(others)),
                "## Protocol",
                _bullets(PROTOCOL.format(**words)),
                "## Fighter against the best other model",
                join(TABLE),
                _contest_table(tasks),
                _published_sentences(cells),
                *_mixed_default(folder, tasks),
                "## What each part is worth",
                join(PARTS.format(**about_parts)),
                _parts_table(parts),
                "## Limits of the claim",
                _bullets(_limits(tasks, parts, tables)),
            ]
        )
        + "\n"
    )


def _bullets(text: str) -> str:
    """Return a list with one line per entry."""
    entries = text.strip().removeprefix("- ").split("\n- ")
    return "\n".join(f"- {' '.join(entry.split())}" for entry in entries)


Tasks = dict[tuple[str, int], dict[str, list[Score]]]  # data set and horizon; model


def _tasks(cells: Sequence[Cell]) -> Tasks:
    """Return the results of tasks in which Fighter meets other models."""
    order = [*NAMES]
    tasks = {
        (group[0]["data"], group[0]["horizon"]): models
        for group in group_tasks(cells)
        if len(models := by(group, "model")) > 1
        and "Fighter" in models
        and group[0]["result"].get("lookback") == contest.LOOKBACK
        and group[0]["max_epochs"] is group[0]["given_lr"] is None
    }
    return dict(sorted(tasks.items(), key=lambda item: (order.index(item[0][0]), item[0][1])))


def _others(tasks: Tasks) -> dict[str, bool]:
    """Return the other models, the best first, and whether each is trained."""
    errors: dict[str, list[float]] = {}
    trained = {}
    for models in tasks.values():
        for model, results in models.items():
            errors.setdefault(model, []).append(mean(results, "mse"))
            trained[model] = results[0]["best_epoch"] is not None
    order = sorted(errors, key=lambda model: fmean(errors[model]))
    return {model: trained[model] for model in order if model != "Fighter"}


def _best_other(models: Mapping[str, list[Score]], error: str) -> str:
    others = [model for model in models if model != "Fighter"]
    return min(others, key=lambda model: mean(models[model], error))


def _contest_table(tasks: Tasks) -> str:
    lines = []
    for (data, horizon), models in tasks.items():
        ours = models["Fighter"]
        line = [f"{NAMES[data]}, {ours[0].get('series')} series", str(horizon)]
        for error in ("mse", "mae"):
            other = _best_other(models, error)
            text = number(ours, error, 4)
            best = mean(ours, error) < mean(models[other], error)
            line += [
                f"**{text}**" if best else text,
                f"{number(models[other], error, 4)} {other}",
            ]
        other = models[_best_other(models, "mse")]
        p = p_value(ours, other)
        won = f"{seeds_won(ours, other)} of {len(ours)}"
        line += [f"{mean(ours, 'mse') / mean(other, 'mse') - 1:+.1%}", won]
        lines.append([*line, "-" if p is None else f"{p:.2g}"])
    header = ["data", "horizon", "Fighter MSE", "best other MSE", "Fighter MAE", "best other MAE"]
    return markdown([*header, "MSE difference", "seeds won", "p"], lines)


def _published_sentences(cells: Sequence[Cell]) -> str:
    """Return Fighter beside the best published numbers; look-backs beyond 96 as ranges."""
    results_by_size = published.ours(cells)
    lines = []
    for (lookback, horizon), (best, results) in results_by_size.items():
        if lookback == 96:
            ours = f"{mean(results, 'mse'):.4f} / {mean(results, 'mae'):.4f}"
            lines.append(f"look-back 96, horizon {horizon}: {ours}, best published {best}")
    long = {key: value for key, value in results_by_size.items() if key[0] > 96}
    for horizon in sorted({horizon for _, horizon in long}):
        here = {lookback: value for (lookback, h), value in long.items() if h == horizon}
        errors = [
            [mean(results, error) for _, results in here.values()] for error in ("mse", "mae")
        ]
        ours = " / ".join(f"{min(values):.4f} to {max(values):.4f}" for values in errors)
        best = next(iter(here.values()))[0]
        lines.append(
            f"look-back {min(here)} to {max(here)}, horizon {horizon}: {ours}, best published with "
            f"any look-back {best}"
        )
    head = (
        "Beside the best published numbers on Weather (MSE / MAE, same protocol, not rerun here):"
    )
    return "\n".join([head, "", *(f"- {line}" for line in lines)]) if lines else ""


def _mixed_default(folder: Path, tasks: Tasks) -> list[str]:
    """Return the table of the present default beside the network alone, if it was run."""
    if not (folder / MIXED).exists():
        return []
    lines = [
        "| data | horizon | seeds | mixed MSE / MAE | network alone MSE / MAE |",
        "|---|---|---|---|---|",
    ]
    rows: list[Cell] = read_results(folder / MIXED)["rows"]
    groups: dict[tuple[str, int], list[Score]] = {}
    for row in rows:
        groups.setdefault((row["data"], row["horizon"]), []).append(row["result"])
    for (data, horizon), mixed in sorted(groups.items()):
        alone = tasks.get((data, horizon), {}).get("Fighter", [])
        texts = (
            " / ".join(f"{fmean(score[e] for score in scores):.4f}" for e in ("mse", "mae"))
            if scores
            else "-"
            for scores in (mixed, alone)
        )
        lines.append(f"| {data} | {horizon} | {len(mixed)} | {' | '.join(texts)} |")
    return ["## The mixed default", join(MIXED_ABOUT), "\n".join(lines)]


def _parts_table(rows: Sequence[AblationRow]) -> str:
    data = [name for name in NAMES if any(row["data"] == name for row in rows)]
    lines = []
    for group, variant, label in SHOWN:
        members = [row for row in rows if row["group"] == group]
        lines.append([label, *compare(members, data, ("mse", "mae"))[variant]])
    return markdown(["change", *(NAMES[name] for name in data)], lines)


def _limits(tasks: Tasks, parts: Sequence[AblationRow], tables: Sequence[VariantRow]) -> str:
    """Return what the numbers do not show."""
    unsure = {}
    for (data, horizon), models in tasks.items():
        p = p_value(models["Fighter"], models[_best_other(models, "mse")])
        if p is None or p > CHANCE:
            unsure[f"{NAMES[data]} at {horizon}"] = p
    entries = [
        "Fighter was developed with these data sets; on other tables, small ones above all, "
        "compare it with simple models first (`fighter leaderboard`).",
        f"There are {len({data for data, _ in tasks})} data sets and {len(tasks)} tasks. Horizons "
        "336 and 720 and look-backs beyond 96 were run with Fighter alone, on Weather.",
    ]
    if unsure:
        names = ", ".join(
            name if p is None else f"{name} (p = {p:.2g})" for name, p in unsure.items()
        )
        entries.append(f"The lead could be chance (p > {CHANCE:g}) in {len(unsure)}: {names}.")
    gaps = {error: _frame_gaps(parts, error) for error in ("mse", "mae")}
    entries.append(
        "Part of the lead comes from what surrounds the network. With the same cycle, reversion, "
        "calendar, bounds and training around them, the best of the other networks is "
        f"{min(gaps['mse']):.1%} to {max(gaps['mse']):.1%} behind a single member in MSE and "
        f"{min(gaps['mae']):.1%} to {max(gaps['mae']):.1%} in MAE."
    )
    ratios = small.ratios(tables, small.LINEAR, "mse")
    entries.append(
        f"On {len(ratios)} small tables of 144 to 4,368 rows "
        f"({_seeds({row['seed'] for row in tables})}), DLinear's MSE is "
        f"{median(ratios) - 1:.0%} higher in the median, and lower on "
        f"{sum(ratio < 1 for ratio in ratios)}: with little data, try it too."
    )
    entries.append(
        "The other models have their published sizes and one tuned setting, the learning rate; "
        "published numbers are quoted, and their code was not run here."
    )
    return "\n- ".join(entries)


def _frame_gaps(rows: Sequence[AblationRow], error: str) -> list[float]:
    """Return for each data set how far the best other network in the frame is behind."""
    members = [row for row in rows if row["group"] == "Another network in the frame"]
    results = by(members, "variant", "data")
    gaps = []
    for name in dict.fromkeys(row["data"] for row in members):
        base = mean(results[ablations.BASELINE, name], error)
        gaps.append(
            min(
                mean(scores, error) / base - 1
                for (variant, data), scores in results.items()
                if data == name and variant != ablations.BASELINE
            )
        )
    return gaps


def listing(names: Sequence[str]) -> str:
    """Write names as "a, b and c"."""
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def _seeds(seeds: set[int]) -> str:
    return "one seed" if len(seeds) == 1 else f"{len(seeds)} seeds"
