"""Compare Fighter with other forecasters on tables of many series and of demand.

    make bench-retail
    python -m benchmarks.retail --models fighter pretrained --windows 0 --again --jobs 4 --page

The tables are those of the zoo that a shop or a warehouse would know, and M3; the protocol, the
models, their environment (``make .zoo-venv/.ready``) and the flags are those of
``python -m benchmarks.zoo``. The rows are in ``results/retail.json``, the page is docs/retail.md.
"""

import argparse
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fighter._files import atomic_write
from fighter.benchmark.result import markdown

from .zoo import protocol, store
from .zoo.__main__ import main
from .zoo.combine import Scores, combine, common, mean_ranks, over_tables, spread
from .zoo.page import TITLES, missing_steps, provenance_in_words, seeds_in_words

TABLES = (
    *("online_retail", "carparts", "m5_eight", "rossmann", "nn5_daily", "australian_tourism"),
    *("m3_yearly", "m3_quarterly", "m3_monthly", "m3_other"),
)
MODELS = (
    *("seasonal_naive", "tsb", "autoets", "autotheta", "flair", "lightgbm", "lightgbm_mean"),
    *("nhits", "deepar", "pretrained", "fighter"),
)
DEFAULTS = {
    "models": [*MODELS],
    "tables": [*TABLES],
    "results": store.ROOT / "results" / "retail.json",
    "cache": store.CACHE / "retail",
}
TEXT = """# Many series and demand: Fighter beside other forecasters

**Development numbers: these are {count} of the tables the product was developed with.** They show
where Fighter stands, not how it does on data that nobody has seen. How to use it on such a table
is described in [many-series.md](many-series.md).

{summary}

{models}

{partly}*Rank* is a model's place among these {number}, 1 for the best, as a mean over tables. WQL,
RMSSE and WAPE are relative to the seasonal naive forecast on the same series: geometric means over
tables, below 1 is better. Bias is the sum of forecasts by that of true values, less one, without
its sign, as a mean over tables. Coverage is the share of true values inside the 80 % and 95 %
intervals, as a mean over tables. Seconds are the median over tables for fitting and forecasting
once, on the machines named below; they are rough, because those were busy with other work.

**Means and medians.** WQL scores the quantiles 0.1 to 0.9; RMSSE, WAPE and bias score the point
forecast. That of TSB, AutoETS, AutoTheta and *LightGBM, squared error* is the mean, that of the
other models the median. An item that sells in two weeks of five has the median zero and a mean
above zero, so medians are too low as forecasts of a sum. In brackets are RMSSE and bias of the mean
that a model's quantiles draw ([Scores](many-series.md#scores) says how).

## Who wins where

{winners}

WQL of each table, relative to seasonal naive:

{wql}

RMSSE of each table, relative to seasonal naive:

{rmsse}

Bias of each table in per cent, above 0 if forecasts are too high, in brackets that of the mean:

{bias}

{more}## How it is measured

{windows} Models get the columns id, time and value only, and no covariates: promotions, prices and
closed days would help some of them, Fighter too. A forecast that is missing or not finite is
replaced by the seasonal naive one and counted: {missing}. {seeds}

- **LightGBM** has lags, calendar features and conformal intervals through mlforecast, and is
  trained for the absolute error; *LightGBM, squared error* differs in the error only. Where
  histories are too short for backtests, both are the same models, one for each quantile.
- **NHITS** and **DeepAR** are neuralforecast's, with 500 steps on 128 windows each. This DeepAR
  feeds its mean back, not sample paths, so its intervals are too narrow.
- **TSB**, **AutoETS** and **AutoTheta** are statsforecast's. TSB has conformal intervals, or none
  where a history has no room for two backtests. The other two use the last 500 rows.
- **Fighter, pretrained** is the network of [pretrained.md](pretrained.md), which is not fitted.

Quantiles below zero are scored as they are, which worsens the WQL of models with symmetric
intervals on tables of many zeros. More is said in [zoo.md](zoo.md), which uses the same
protocol, and in `benchmarks/zoo/`.

<!-- not run: needs the tables of the zoo and the environment of the peers -->
```sh
make bench-retail
python -m benchmarks.retail --models fighter pretrained --windows 0 --again --jobs 4 --page
```

`--again` drops the rows that are asked for and computes them with the present code. Without it, a
call computes what is missing, so that an interrupted one is resumed by repeating it without
`--again`. `--device cuda` chooses a GPU, `--seeds 0 1 2` three seeds.

<sub>{provenance}</sub>
"""


def write_page(args: argparse.Namespace) -> None:
    """Write docs/retail.md from the stored results alone."""
    write(args.results, args.zoo, store.ROOT / "docs" / "retail.md")


def write(results: Path, zoo: Path, page: Path) -> None:
    """Write the page: first the windows that all models have, then those that only some have."""
    stored = store.read(results)
    tables = {table.name: table for table in protocol.read_zoo(zoo)}
    tables = {name: tables[name] for name in TABLES if name in tables}
    rows = [row for row in stored["rows"] if row["table"] in tables]
    has = {name: {row["table"] for row in rows if row["model"] == name} for name in TITLES}
    most = max(map(len, has.values()))
    order = [name for name in TITLES if len(has[name]) == most]
    partly = [name for name in TITLES if 0 < len(has[name]) < most]
    shared = common(rows, order)
    scores = combine(shared, tables)
    names = [name for name in tables if all(name in scores[model] for model in order)]
    longer = [name for name in order if {row["window"] for row in rows if row["model"] == name} >
              {row["window"] for row in shared}]  # fmt: skip
    text = TEXT.format(
        count=len(names),
        number=len(order),
        summary=summary(scores, names),
        models=models_table(shared, scores, names),
        partly=partly_in_words(partly),
        winners=winners(scores, names),
        **{name: tables_table(scores, names, name) for name in ("wql", "rmsse", "bias")},
        more=more_windows(rows, longer, names) if len(longer) > 1 else "",
        windows=windows_in_words(shared),
        missing=missing_steps(shared, order, tables),
        seeds=seeds_in_words(shared, order),
        provenance=provenance_in_words(stored, results.name),
    )
    with atomic_write(page) as file:
        file.write_text(text, encoding="utf-8")


def summary(scores: Scores, names: Sequence[str]) -> str:
    """Return the mean ranks of all models, best first."""
    parts = []
    for score, title in (("wql", "WQL"), ("rmsse", "RMSSE")):
        ranks = mean_ranks(scores, names, score)
        listed = ", ".join(
            f"{TITLES[m]} {ranks[m]:.1f}" for m in sorted(ranks, key=ranks.__getitem__)
        )
        parts.append(f"Mean rank by {title}, best first: {listed}.")
    return "\n\n".join(parts)


def models_table(rows: Sequence[store.Row], scores: Scores, names: Sequence[str]) -> str:
    """Return a line for each model, the best by the two ranks together first."""
    ranks = {score: mean_ranks(scores, names, score) for score in ("wql", "rmsse")}

    def line(model: str) -> list[str]:
        tables = {name: scores[model][name] for name in names}
        deviation, seeds = spread(rows, model, names, "wql")
        more = f" ± {deviation:.3f}" if seeds > 1 else ""
        seconds = statistics.median(one["seconds"] for one in tables.values())

        def mean(name: str) -> float:
            return statistics.fmean(abs(one[name]) for one in tables.values())

        return [
            TITLES[model],
            *(f"{ranks[score][model]:.1f}" for score in ("wql", "rmsse")),
            f"{over_tables(tables, 'wql'):.3f}{more}",
            f"{over_tables(tables, 'rmsse'):.3f} ({over_tables(tables, 'rmsse_mean'):.3f})",
            f"{over_tables(tables, 'wape'):.3f}",
            f"{100 * mean('bias'):.0f} % ({100 * mean('bias_mean'):.0f} %)",
            f"{mean('cov80'):.0f} % / {mean('cov95'):.0f} %",
            f"{seconds:.0f}" if seconds >= 10 else f"{seconds:.2g}",
        ]

    order = sorted(scores, key=lambda model: ranks["wql"][model] + ranks["rmsse"][model])
    head = ["model", "rank, WQL", "rank, RMSSE", "WQL", "RMSSE (of the mean)", "WAPE",
            "bias (of the mean)", "coverage 80 / 95", "seconds"]  # fmt: skip
    return markdown(head, [line(model) for model in order])


def tables_table(scores: Scores, names: Sequence[str], score: str) -> str:
    """Return a line for each table; the best model is bold."""
    order = [name for name in TITLES if name in scores]

    def cell(one: Mapping[str, float], best: float) -> str:
        shown = f"{one[score]:.3f}"
        if score == "bias":
            shown = f"{100 * one['bias']:+.0f} ({100 * one['bias_mean']:+.0f})"
        return f"**{shown}**" if abs(one[score]) == best else shown

    lines = []
    for name in names:
        own = [scores[model][name] for model in order]
        best = min(abs(one[score]) for one in own)
        lines.append([name, *(cell(one, best) for one in own)])
    return markdown(["table", *(TITLES[model] for model in order)], lines)


def winners(scores: Scores, names: Sequence[str]) -> str:
    """Say which models are best on which tables, and where Fighter is behind by how much."""
    parts = []
    for score, title in (("wql", "WQL"), ("rmsse", "RMSSE")):
        first: dict[str, list[str]] = {}
        behind = []
        for name in names:
            best = min(scores, key=lambda model: scores[model][name][score])
            first.setdefault(best, []).append(f"`{name}`")
            if "fighter" in scores and best != "fighter":
                ratio = scores["fighter"][name][score] / scores[best][name][score] - 1
                behind.append(f"`{name}` {100 * ratio:.1f} %")
        order = sorted(first, key=lambda model: -len(first[model]))
        listed = "; ".join(f"{TITLES[model]} on {', '.join(first[model])}" for model in order)
        lost = f" Fighter is behind the best by: {', '.join(behind)}." if behind else ""
        parts.append(f"**Best by {title}:** {listed}.{lost}")
    return "\n\n".join(parts)


def more_windows(rows: Sequence[store.Row], models: Sequence[str], names: Sequence[str]) -> str:
    """Return a section on the models that were run on more windows than all of them were."""
    shared = common(rows, models)
    scores = combine(shared, names)
    table = models_table(shared, scores, names)
    return f"## Over more windows\n\n{windows_in_words(shared)}\n\n{table}\n\n"


def partly_in_words(models: Sequence[str]) -> str:
    """Name the models that are left out because some of their tables are missing."""
    if not models:
        return ""
    return (
        f"Left out, as not run on all tables yet: {', '.join(TITLES[name] for name in models)}.\n\n"
    )


def windows_in_words(rows: Sequence[store.Row]) -> str:
    """Say which windows are scored."""
    count: dict[str, set[int]] = {}
    for row in rows:
        count.setdefault(row["table"], set()).add(row["window"])
    most = max(len(own) for own in count.values())
    if most == 1:
        return "Scored is the last horizon of every series; its history is all that came before."
    return (
        f"Scored are up to {most} windows at the end of every series, one horizon apart; each "
        "window's history is all that came before."
    )


if __name__ == "__main__":
    defaults: dict[str, Any] = DEFAULTS
    raise SystemExit(main("benchmarks.retail", defaults, write_page))
