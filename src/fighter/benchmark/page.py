"""Write the page of a leaderboard from its stored results alone."""

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from .._files import atomic_write
from .contest import FILE, RATES, Cell, task_key
from .result import Score, by, count, markdown, mean, number
from .runs import read_results

PROTOCOL = """
The first 70 % of the rows train the models, the next 10 % (validation rows) choose the epoch, and
every window of the last 20 % is scored (ETT: 12, 4 and 4 months). Errors are in standard deviations
of each series over the training rows, as mean ± standard deviation over seeds; lower is better. All
models see the same windows, minimise the absolute error, and have the same number of epochs and the
same early stopping; the moving average of the weights is scored. Fighter is `Forecaster(horizon,
lookback)`. The others are built as in their papers, with every window normalised to mean 0 and
deviation 1, and the learning rate out of {rates} that is best on the validation rows with seed 0,
unless a title gives another. Only Fighter and CycleNet learn a cycle. Only Fighter learns how
quickly forecasts revert to the long-run mean and deviation, uses the time of the year where the
training rows cover two years, weighs near steps more in training, averages several members, and
keeps within natural bounds, such as zero for rainfall. The seasonal naive forecast repeats the last
value where no season fits into the look-back. Training times are of runs that shared a machine;
memory is the peak during training, data and workspaces included.

*Against* compares with the best other model: the difference in MSE, the number of seeds won, and a
p-value: how likely a difference at least as large is if every block of test windows favours either
model by chance (random signs). A block has two horizons, or two seasons if they are longer; fewer
than six blocks give no p-value.
"""
COLUMN_WORDS = {
    "id_col": "series in column",
    "time_col": "times in column",
    "target_col": "values in column",
    "freq": "frequency",
    "missing_values": "missing values",
    "columns": "columns",
    "drop": "without columns",
    "date_format": "dates as",
}
ENOUGH = 6  # blocks that a p-value below 0.05 needs


def write_page(folder: Path, page: Path) -> str:
    """Write ``page`` from the results in ``folder``; return its tables as text."""
    result = read_results(folder / FILE)
    tables = section(result["rows"])
    parts = ["# Leaderboard", protocol(), tables, origin(FILE, result)]
    with atomic_write(page) as file:
        file.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return tables


def protocol() -> str:
    """Return how the models are compared, in words."""
    return join(PROTOCOL).format(rates=", ".join(f"{rate:g}" for rate in RATES))


def join(text: str) -> str:
    """Return the paragraphs of a text without the line breaks inside them."""
    return "\n\n".join(" ".join(part.split()) for part in text.strip().split("\n\n"))


def origin(name: str, result: Mapping[str, Any]) -> str:
    """Return a line that says where the numbers of a results file come from."""
    last, rows = result["provenance"], result["rows"]
    minutes = sum(row["seconds"] for row in rows) / 60
    took = f"{minutes / 60:.1f} hours" if minutes > 90 else f"{minutes:.0f} minutes"
    commits = ", ".join(dict.fromkeys(row["commit"] for row in rows))
    runs = f"{len(rows)} run{'s' * (len(rows) > 1)}, {took} of run time in all"
    where = f"{last['device']}, torch {last['torch']}, {last['date']}, code {commits}"
    return f"<sub>{runs}; last call `{last['command']}`, {where}; `{name}`.</sub>"


def section(rows: Sequence[Cell]) -> str:
    """Return a table for each task, after a table of ranks if there are several."""
    tasks = group_tasks(rows)
    ranks = _ranks([by(cells, "model") for cells in tasks])
    tables = [f"{_title(cells, rows)}\n\n{_table(by(cells, 'model'))}" for cells in tasks]
    return "\n\n".join([*ranks, *tables])


def group_tasks(rows: Sequence[Cell]) -> list[list[Cell]]:
    """Group cells that can be compared, in the order of data set and horizon."""
    tasks: dict[tuple[Any, ...], list[Cell]] = {}
    for row in sorted(rows, key=lambda row: (row["data"], row["horizon"], row["seed"])):
        tasks.setdefault(task_key(row), []).append(row)
    return [*tasks.values()]


def _title(cells: Sequence[Cell], rows: Sequence[Cell]) -> str:
    first, result = cells[0], cells[0]["result"]
    name, checksum = first["data"], first["settings"]["sha256"]
    if any(r["data"] == name and r["settings"]["sha256"] != checksum for r in rows):
        # The file may have changed since: show its path and the checksum of its content.
        name = f"{name} ({', '.join(filter(None, (first.get('file'), checksum[:8])))})"
    parts = [
        f"**{name}: look-back {result.get('lookback')}, horizon {first['horizon']}**",
        f"{result.get('series')} series",
        f"{result.get('windows', 0):,} test windows",
    ]
    for column, value in first["settings"]["columns"].items():
        items = value if isinstance(value, list) else [value]
        values = [f"{item:g}" if isinstance(item, float) else str(item) for item in items]
        parts.append(f"{COLUMN_WORDS.get(column, column)} {', '.join(values)}")
    if epochs := first["max_epochs"]:
        parts.append(f"at most {epochs} epoch{'s' * (epochs > 1)}")
    if first["given_lr"]:
        parts.append(f"learning rate {first['given_lr']:g} for all but Fighter")
    return ", ".join(parts)


def _ranks(tasks: Sequence[Mapping[str, list[Score]]]) -> list[str]:
    """Return mean ranks of the set of models that fills most cells, over tasks that have it."""

    def having(models: set[str]) -> list[dict[str, list[Score]]]:
        return [{m: task[m] for m in task if m in models} for task in tasks if models <= {*task}]

    choices = [{*task} for task in tasks]
    models = max(choices, key=lambda models: (len(models) * len(having(models)), len(models)))
    tasks = having(models)
    if len(tasks) < 2 or len(models) < 2:
        return []
    ranks = {
        model: np.array([[_rank(task, model, name) for name in ("mse", "mae")] for task in tasks])
        for model in tasks[0]
    }
    lines = [
        [model, *(f"{rank:.1f}" for rank in places.mean(0)), str((places[:, 0] == 1).sum())]
        for model, places in sorted(ranks.items(), key=lambda item: item[1].mean())
    ]
    title = f"**Mean rank of {len(models)} models over the {len(tasks)} tasks that have them all**"
    header = ["model", "rank by MSE", "rank by MAE", "times first by MSE"]
    return [f"{title}\n\n{markdown(header, lines)}"]


def _rank(task: Mapping[str, list[Score]], model: str, error: str) -> int:
    ours = mean(task[model], error)
    return 1 + sum(mean(results, error) < ours for results in task.values())


def _table(models: Mapping[str, list[Score]]) -> str:
    order = sorted(models, key=lambda model: mean(models[model], "mse"))
    gpu = any(result.get("memory_mib") is not None for r in models.values() for result in r)
    lines = []
    for model in order:
        results = models[model]
        other = next((name for name in order if name != model), None)
        errors = [number(results, "mse", 4), number(results, "mae", 4)]
        rival = "-" if other is None else against(results, models[other], other)
        size = [count(results, "parameters"), count(results, "best_epoch")]
        cost = [f"{mean(results, 'train_seconds'):.0f}"]
        cost += [count(results, "memory_mib")] if gpu else []
        lines.append([model, *errors, rival, *size, *cost])
    header = ["model", "MSE", "MAE", "against", "parameters", "best epoch", "seconds to train"]
    return markdown([*header, *(["GPU memory, MiB"] if gpu else [])], lines)


def against(results: Sequence[Score], others: Sequence[Score], name: str) -> str:
    """Return the difference in MSE to another model, the seeds won and the p-value."""
    theirs = mean(others, "mse")
    parts = [f"{mean(results, 'mse') / theirs - 1:+.1%} {name}" if theirs else name]
    if len(results) > 1:
        parts.append(f"{seeds_won(results, others)} of {len(results)} seeds")
    p = p_value(results, others)
    return ", ".join(parts if p is None else [*parts, f"p = {p:.2g}"])


def seeds_won(results: Sequence[Score], others: Sequence[Score]) -> int:
    """Count seeds with a lower MSE; paired in rising order, or against the mean of the others."""
    paired = [other["mse"] for other in others]
    if len(others) != len(results):
        paired = [mean(others, "mse")] * len(results)
    return sum(ours["mse"] < theirs for ours, theirs in zip(results, paired, strict=True))


def p_value(results: Sequence[Score], others: Sequence[Score]) -> float | None:
    """Return the p-value of the difference in MSE; None with too few blocks of test windows."""
    ours, theirs = (
        np.mean([result.get("pieces", {})["mse"] for result in side], 0)
        for side in (results, others)
    )
    return sign_flip_test(ours, theirs) if len(ours) >= ENOUGH else None


def sign_flip_test(ours: np.ndarray, theirs: np.ndarray, draws: int = 10_000) -> float:
    """Return the share of sign flips whose mean difference is at least as large as the measured.

    All sign flips are tried, or ``draws`` random ones if there are more.
    """
    difference = ours - theirs
    if 2 ** len(difference) <= draws:
        signs = np.array([*product((-1.0, 1.0), repeat=len(difference))])
    else:
        signs = np.random.default_rng(0).choice([-1.0, 1.0], (draws, len(difference)))
        signs[0] = 1  # the measured difference itself
    return float(np.mean(np.abs(signs @ difference) >= abs(difference.sum()) * (1 - 1e-12)))
