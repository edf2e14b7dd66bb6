"""Write docs/zoo.md and its picture from the stored results alone."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fighter._files import atomic_write
from fighter.benchmark.result import markdown
from fighter.plotting.theme import Theme

from . import protocol, store
from .combine import (
    NEAR,
    Scores,
    against_chosen,
    combine,
    common,
    firsts,
    geometric,
    over_tables,
    spread,
)
from .protocol import CLASSES, Table
from .store import Row

FAR = 1.10  # a model that is more than 10 % behind is named
TITLES = {
    "fighter": "Fighter",
    "fighter+future": "Fighter with future covariates",
    "pretrained": "Fighter, pretrained",
    "seasonal_naive": "seasonal naive",
    "autotheta": "AutoTheta",
    "autoets": "AutoETS",
    "autoces": "AutoCES",
    "tsb": "TSB",
    "lightgbm": "LightGBM",
    "lightgbm_mean": "LightGBM, squared error",
    "flair": "FLAIR",
    "nhits": "NHITS",
    "patchtst": "PatchTST",
    "deepar": "DeepAR",
}
PICTURE = "zoo/tables.png"
EDGES = (0.08, 8.0)  # of the picture; values beyond are drawn at the edge
TEXT = """# Fighter beside other forecasters

**Development numbers: these are the {tables} tables the product was developed with.** They show
where Fighter stands and what to improve, not how it does on data that nobody has seen. The tables
are not part of the repository; what is stored are scores of whole tables.

{summary}

{table}

Every number but the last five rows is a relative MASE: the mean absolute error in units of the
in-sample seasonal error, divided by that of the seasonal naive forecast on the same series, as a
geometric mean over tables. Below 1 is better than seasonal naive. A star marks a mean over fewer
tables than the row has, which does not compare with the others. *First* is the share of a model's
tables where no model that was run on all tables is more than 2 % better, the pretrained network
aside. Relative WQL is the same as relative MASE for the quantile loss over the quantiles 0.1 to
0.9. Coverage is the share of true values inside the 80 % and 95 % intervals, averaged over tables.
Seconds are the median over tables for fitting and forecasting once, on the machines named below.
*Fighter, pretrained* is the network of [pretrained.md](pretrained.md), which is not fitted.

{chosen}

{networks}![Relative MASE of each table, for {shown}]({picture})

## How it is measured

Each table has up to three windows at the end of every series, one horizon apart; each window's
history is all that came before. Models get the columns id, time and value only, except where the
title says that future covariates are passed. Forecasts and truth are matched by time stamp for
Fighter and by row for the others, which know no absent steps. A forecast that is missing or not
finite is replaced by the seasonal naive one and counted: {missing}.

The statistical models use the last 500 rows of each series, or ten seasons if that is more, at most
2,000. {sampled}AutoETS ignores seasons longer than 24 rows. LightGBM has lags, calendar features
and conformal intervals through mlforecast; its loss and the scaling of its target were chosen on
windows that are scored here, which favours it a little. No other peer was tuned. NHITS and PatchTST
are trained for 500 steps, on the core tables only{windows}. {seeds} Details and settings are in
`benchmarks/zoo/`.

<!-- not run: needs the tables of the zoo and the environment of the peers -->
```sh
make bench-zoo
python -m benchmarks.zoo --models fighter --device cuda --jobs 8 --page
```

<sub>{provenance}</sub>
"""


def write_page(results: Path, zoo: Path, docs: Path) -> None:
    """Write zoo.md and its picture into ``docs``."""
    stored = store.read(results)
    tables = {table.name: table for table in protocol.read_zoo(zoo)}
    scores = combine(stored["rows"], list(tables))
    order = [name for name in TITLES if scores.get(name)]
    most = max(len(scores[name]) for name in order)
    full = [name for name in order if len(scores[name]) == most]
    rivals = [name for name in full if name != "pretrained"]  # it is Fighter's own
    shown = draw(scores, tables, full, docs / PICTURE)
    text = TEXT.format(
        tables=len(tables),
        summary=_summary(stored["rows"], scores, full),
        table=_markdown(scores, tables, order, firsts(scores, rivals)),
        chosen=_chosen(stored["rows"], scores, full),
        networks=_networks(stored["rows"], order, full),
        shown=shown,
        picture=PICTURE,
        missing=missing_steps(stored["rows"], order, tables),
        seeds=seeds_in_words(stored["rows"], order),
        sampled=_sampled(stored["rows"], tables),
        windows=_windows(stored["rows"]),
        provenance=provenance_in_words(stored, results.name),
    )
    with atomic_write(docs / "zoo.md") as file:
        file.write_text(text, encoding="utf-8")


def _summary(rows: Sequence[Row], scores: Scores, full: Sequence[str]) -> str:
    parts = []
    for name in sorted(full, key=lambda name: over_tables(scores[name], "mase")):
        value, (deviation, seeds) = (
            over_tables(scores[name], "mase"),
            spread(rows, name, scores[name], "mase"),
        )
        more = f" ± {deviation:.3f}" if seeds > 1 else ""
        parts.append(f"{TITLES[name]} {value:.3f}{more}")
    count = len(scores[full[0]])
    return f"Relative MASE over {count} tables, best first: {', '.join(parts)}."


def seeds_in_words(rows: Iterable[Row], order: Sequence[str]) -> str:
    """Say how many seeds the trained models have, and what is shown of several."""
    found: dict[str, set[int]] = {}
    for row in rows:
        if row["model"] in store.SEEDED and row["model"] in order:
            found.setdefault(row["model"], set()).add(row["seed"])
    several = [name for name in order if len(found.get(name, ())) > 1]
    if not several:
        return "Each trained model has one seed." if found else ""
    counts = ", ".join(f"{TITLES[name]} {len(found[name])}" for name in several)
    return (
        f"Seeds: {counts}; scores are averaged over them, and what follows ± is the standard "
        "deviation between them. The other trained models have one."
    )


def _markdown(
    scores: Scores,
    tables: Mapping[str, Table],
    order: Sequence[str],
    shares: Mapping[str, float],
) -> str:
    def cell(model: str, name: str, chosen: Sequence[str]) -> str:
        values = [scores[model][table][name] for table in chosen if table in scores[model]]
        if not values:
            return "-"
        return f"{geometric(values):.3f}" + ("" if len(values) == len(chosen) else "\\*")

    every = list({table: None for model in order for table in scores[model]})
    lines = [[f"**all** ({len(every)})", *(f"**{cell(m, 'mase', every)}**" for m in order)]]
    for group in ("core", *CLASSES):
        chosen = [table for table in every if group in tables[table].classes()]
        if group == "core":
            chosen = [table for table in every if tables[table].entry["core"]]
        if chosen:
            lines.append([f"{group} ({len(chosen)})", *(cell(m, "mase", chosen) for m in order)])
    lines.append(["first", *(f"{100 * shares[model]:.0f} %" for model in order)])
    lines.append(["relative WQL", *(cell(model, "wql", every) for model in order)])
    for level in (80, 95):
        inside = [
            statistics.fmean(one[f"cov{level}"] for one in scores[model].values())
            for model in order
        ]
        lines.append([f"coverage of {level} %", *(f"{share:.0f} %" for share in inside)])
    seconds = [statistics.median(t["seconds"] for t in scores[model].values()) for model in order]
    lines.append(["seconds", *(f"{value:.2g}" for value in seconds)])
    return markdown(["tables", *(TITLES[model] for model in order)], lines)


def _chosen(rows: Sequence[Row], scores: Scores, full: Sequence[str]) -> str:
    """Say how Fighter compares with models that could have been chosen beforehand."""
    peers = [name for name in full if name not in store.FIGHTER]
    if "fighter" not in scores or "seasonal_naive" not in peers:
        return ""
    ratios = against_chosen(rows, "fighter", peers)
    near = sum(ratio <= NEAR for ratio in ratios.values()) / len(ratios)
    far = sorted((t for t, ratio in ratios.items() if ratio > FAR), key=lambda t: -ratios[t])
    listed = ", ".join(f"`{table}` ({ratios[table]:.2f})" for table in far) or "none"
    naive = {(r["table"], r["window"]): r["wape"] for r in rows if r["model"] == "seasonal_naive"}
    point = _relative_to_point(rows, naive)
    return (
        "The best of several models is known only afterwards, and with few values it is partly "
        "luck. Beside the model that was best on the *other* windows of a table, the one that "
        f"somebody could have chosen, Fighter's MASE is {geometric(list(ratios.values())):.2f} "
        f"times as large in the geometric mean over {len(ratios)} tables, smaller or within 2 % "
        f"on {100 * near:.0f} % of them, and more than 10 % larger on: {listed}. "
        "The WQL of seasonal naive is that of its normal intervals; beside its point forecast "
        f"alone, Fighter's relative WQL is {point:.3f}."
    )


def _networks(rows: Sequence[Row], order: Sequence[str], full: Sequence[str]) -> str:
    """Compare Fighter with each network among the peers on the windows that both have."""
    parts = []
    for network in (name for name in order if name in store.NETWORKS):
        models = [*(name for name in full if name in store.FIGHTER), network]
        shared = common(rows, models)
        if not shared:
            continue
        scores = combine(shared, {row["table"] for row in shared})
        listed = [
            f"relative {title} "
            + ", ".join(f"{TITLES[name]} {over_tables(scores[name], score):.3f}" for name in models)
            for score, title in (("mase", "MASE"), ("wql", "WQL"))
        ]
        parts.append(
            f"On the windows that {TITLES[network]} was run on (tables: {len(scores[network])}): "
            f"{'; '.join(listed)}."
        )
    return " ".join(parts) + "\n\n" if parts else ""


def _relative_to_point(rows: Sequence[Row], naive: Mapping[tuple[str, int], float]) -> float:
    """Return Fighter's quantile loss by that of the point forecast of seasonal naive."""
    sums: dict[str, list[float]] = {}
    for row in rows:
        if row["model"] == "fighter" and row["wql"] is not None:
            both = sums.setdefault(row["table"], [0.0, 0.0])
            both[0] += row["wql"] * row["size"]
            both[1] += naive[row["table"], row["window"]] * row["size"]
    return geometric([own / point for own, point in sums.values()])


def missing_steps(rows: Sequence[Row], order: Sequence[str], tables: Mapping[str, Table]) -> str:
    """Say how many forecasts each model did not make, and what share of its steps they are."""
    parts = []
    for model in order:
        own = [row for row in rows if row["model"] == model and row["table"] in tables]
        bad = [row for row in own if row["missing"]]
        if not bad:
            continue
        count = sum(row["missing"] for row in bad)
        share = count / sum(row["series"] * tables[row["table"]].horizon for row in own)
        number = len({row["table"] for row in bad})
        among = "1 table" if number == 1 else f"{number} tables"
        errors = len({row["table"] for row in bad if "error" in row})
        failed = f", {errors} of which it could not fit" if errors else ""
        parts.append(f"{TITLES[model]} {count:,} steps ({100 * share:.2g} %) in {among}{failed}")
    return "; ".join(parts) or "none"


def _sampled(rows: Sequence[Row], tables: Mapping[str, Table]) -> str:
    naive = {(r["table"], r["window"]): r["series"] for r in rows if r["model"] == "seasonal_naive"}
    found: dict[str, set[str]] = {}
    for row in rows:
        if row["series"] < naive.get((row["table"], row["window"]), 0):
            found.setdefault(row["table"], set()).add(TITLES[row["model"]])
    if not found:
        return ""
    models = sorted(set.union(*found.values()))
    names = ", ".join(f"`{name}`" for name in sorted(found))
    return f"In {names}, {' and '.join(models)} forecast an evenly spaced sample of 150 series. "


def _windows(rows: Sequence[Row]) -> str:
    used = {row["window"] for row in rows if row["model"] in store.NETWORKS}
    return ", with the last window only" if used == {0} else ""


def provenance_in_words(stored: Mapping[str, Any], name: str) -> str:
    """Say which code, packages and machines the rows of a results file come from."""
    parts = [
        f"{by}: " + ", ".join(f"{key} {value}" for key, value in about.items())
        for by, about in stored["environments"].items()
    ]
    return f"{len(stored['rows'])} rows in `results/{name}`; " + "; ".join(parts) + "."


def draw(
    scores: Scores,
    tables: Mapping[str, Table],
    full: Sequence[str],
    path: Path,
) -> str:
    """Draw the relative MASE of each table; return in words what is shown."""
    theme = Theme.follow(dark=False)
    peers = [name for name in full if name not in store.FIGHTER and name != "seasonal_naive"]
    best = {
        table: min(scores[name][table]["mase"] for name in peers if table in scores[name])
        for table in tables
        if any(table in scores[name] for name in peers)
    }
    ours = {table: one["mase"] for table, one in scores.get("fighter", {}).items()}
    shown = [table for table in best if not ours or table in ours]
    shown.sort(key=lambda table: ours[table] / best[table] if ours else best[table])
    figure, grid = theme.panels(1, 1, 6.4, 0.17 * len(shown) + 0.6)
    axes = grid[0, 0]
    for place, table in enumerate(shown):
        values = [scores[name][table]["mase"] for name in peers if table in scores[name]]
        values = [min(max(value, EDGES[0]), EDGES[1]) for value in values]
        axes.plot(values, [place] * len(values), "o", ms=2.5, color=theme.faint, zorder=1)
        if ours:
            axes.plot([best[table], ours[table]], [place] * 2, color=theme.faint, lw=1, zorder=1)
    spots = range(len(shown))
    axes.plot([], [], "o", ms=2.5, color=theme.faint, label="other models")
    axes.plot([best[t] for t in shown], spots, "o", ms=4.5, color=theme.down, label="best of them")
    if ours:
        axes.plot([ours[t] for t in shown], spots, "o", ms=4.5, color=theme.up, label="Fighter")
    axes.axvline(1, color=theme.faint, lw=0.8, zorder=0)
    axes.set(xscale="log", yticks=list(spots), ylim=(-0.8, len(shown) - 0.2), xlim=EDGES)
    axes.set_yticklabels(shown)
    axes.set_xticks([0.1, 0.2, 0.5, 1, 2, 5], labels=["0.1", "0.2", "0.5", "1", "2", "5"])
    axes.invert_yaxis()
    theme.tidy(axes, "Relative MASE (seasonal naive = 1), development tables")
    theme.legend(figure, axes, 3)
    with atomic_write(path) as file:
        figure.savefig(file, dpi=130)
    return "Fighter, the other models and the best of them" if ours else "the models"
