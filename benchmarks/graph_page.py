"""Write the tables of ``docs/network.md`` from ``results/network.json``.

python -m benchmarks.graph_page
"""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.zoo.store import ROOT

RESULTS, PAGE = ROOT / "results" / "network.json", ROOT / "docs" / "network.md"
FORECASTS = ROOT / "results" / "network-forecasts.json"
LEAST = 0.01  # lead below which nothing is bold
NAMES = {
    "fighter": "**Fighter, `strength`**",
    "share": "Fighter, `share`",
    "integrated gradients": "the same model, integrated gradients",
    "attention": "the same model, attention",
    "correlation": "lagged correlation",
    "ols": "VAR, least squares",
    "var": "VAR, ridge",
    "pcmci": "PCMCI",
    "varlingam": "VARLiNGAM",
}


def render(told: dict[str, Any]) -> str:
    """Return the tables as Markdown."""
    rows: Any = pd.DataFrame(told["rows"])
    about = told["provenance"]
    parts = [f"Measured on {about['date']} by `{about['command']}`."]
    if "peers" in about:
        parts[0] += f" PCMCI and VARLiNGAM were measured on {about['peers']['date']}."
    for unit, title in (("deviations", "standardised"), ("raw", "raw")):
        some = rows[rows.unit == unit]
        parts.append(f"**AUROC, {title} units**\n\n{_families(some, 'AUROC')}")
        parts.append(f"**AUPRC, {title} units**\n\n{_families(some, 'AUPRC')}")
    some = rows[rows.unit == "deviations"]
    parts.append(f"**Precision among the k strongest, k true links**\n\n"
                 f"{_families(some, 'precision@k')}")  # fmt: skip
    parts.append(f"**Lags, in the Finance sets**\n\n{_lags(some)}")
    parts.append(f"**The two halves**\n\n{_halves(rows[rows.unit == 'raw'])}")
    own = rows[(rows.model == "fighter") & (rows.seed == 0)].pivot(
        index="set", columns="unit", values="AUROC"
    )
    change = (own["raw"] - own["deviations"]).abs()
    parts.append(
        f"Fighter scales each series by itself; from raw to standardised units its AUROC moves by "
        f"{change.mean():.3f} on average and {change.max():.3f} at most."
    )
    if told["skipped"]:
        each = sorted({f"{NAMES[row['model']]} on {row['set']}" for row in told["skipped"]})
        parts.append(f"Left out after two minutes: {'; '.join(each)}.")
    return "\n\n".join(parts)


def _families(rows: Any, score: str) -> str:
    """Return a table of methods and families, with the mean over sets and the mean rank."""
    by_seed = rows.groupby(["model", "family", "seed"])[score].mean()
    mean, spread = by_seed.groupby(["model", "family"]).agg(["mean", np.ptp]).T.to_numpy()
    index = by_seed.groupby(["model", "family"]).mean().index
    table = pd.Series(mean, index).unstack()
    spreads = pd.Series(spread, index).unstack()
    sets = rows.groupby(["model", "set"])[score].mean().unstack()
    complete = sets.dropna(axis=1)
    table["all sets"] = complete.mean(axis=1)
    table["mean rank"] = complete.rank(ascending=False).mean(axis=1)
    lines = [_line(["", *table.columns]), _line(["---", *["--:"] * len(table.columns)])]
    for model in [name for name in NAMES if name in table.index]:
        cells = []
        for column in table.columns:
            value = table.loc[model, column]
            if pd.isna(value):
                cells.append("–")
                continue
            if column == "mean rank":
                cells.append(f"{value:.1f}")
                continue
            text = f"{value:.2f}"
            if column in spreads and (wide := spreads.loc[model, column]) >= 0.005:
                text += f" ± {wide / 2:.2f}"
            cells.append(f"**{text}**" if _leads(table, spreads, model, column) else text)
        lines.append(_line([NAMES[model], *cells]))
    return "\n".join(lines)


def _leads(table: Any, spreads: Any, model: str, column: str) -> bool:
    """Tell whether a method leads by more than the seeds move either of the two best."""
    if column not in spreads:
        return False
    ranked = table[column].sort_values(ascending=False)
    first, second = ranked.index[:2]
    noise = max(spreads.loc[first, column], spreads.loc[second, column], LEAST)
    return bool(model == first and ranked.iloc[0] - ranked.iloc[1] > noise)


def _lags(rows: Any) -> str:
    known = rows.dropna(subset=["lag error"])
    table = known.groupby("model")[["lag error", "lag exact"]].mean()
    lines = [_line(["", "mean error in steps", "exact"]), _line(["---", "--:", "--:"])]
    lines += [
        _line([NAMES[m], f"{table['lag error'][m]:.1f}", f"{100 * table['lag exact'][m]:.0f} %"])
        for m in NAMES if m in table.index
    ]  # fmt: skip
    return "\n".join(lines)


def _halves(rows: Any) -> str:
    """Compare the two definitions on the sets they were chosen on, and on the others."""
    some = rows[rows.model.isin(["fighter", "share"])]
    table = some.groupby(["model", "half"])[["AUROC", "AUPRC"]].mean()
    lines = [_line(["", "half", "AUROC", "AUPRC"]), _line(["---", "---", "--:", "--:"])]
    for model in ("share", "fighter"):
        for half, name in (("dev", "chosen on"), ("test", "other half")):
            each = table.loc[(model, half)]
            lines.append(
                _line([NAMES[model], name, f"{each['AUROC']:.3f}", f"{each['AUPRC']:.3f}"])
            )
    return "\n".join(lines)


def render_forecasts(told: dict[str, Any]) -> str:
    """Return the errors of forecasts as Markdown."""
    about, columns = told["provenance"], ["network", "mixed", "var 1", "var 3", "var 10"]
    names = ["Fighter, network", "Fighter, mixed", "VAR(1)", "VAR(3)", "VAR(10)"]
    lines = [_line(["table", *names]), _line(["---", *["--:"] * len(names)])]
    lines += [
        _line([row["set"].replace("_", r"\_"), *(f"{row[name]:.3f}" for name in columns)])
        for row in told["rows"]
    ]
    head = "**Mean absolute error of the next step on the validation rows, in deviations**"
    return f"{head}\n\n" + "\n".join(lines) + f"\n\nBy `{about['command']}`."


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def write(results: Path = RESULTS, forecasts: Path = FORECASTS, page: Path = PAGE) -> None:
    """Put the tables between the marks of the page."""
    tables = render(json.loads(results.read_text(encoding="utf-8")))
    tables += "\n\n" + render_forecasts(json.loads(forecasts.read_text(encoding="utf-8")))
    marks = r"(<!-- tables: [^>]*-->\n).*?(<!-- end of tables -->)"
    text = page.read_text(encoding="utf-8")
    made = re.sub(marks, lambda m: f"{m[1]}{tables}\n{m[2]}", text, flags=re.DOTALL)
    page.write_text(made, encoding="utf-8")


if __name__ == "__main__":
    write()
