"""``fighter info``: what a saved model is, and what it needs."""

import json
import shutil
import time
from pathlib import Path
from typing import Any

from .._files import WEIGHTS
from ..forecasting.config import as_list
from ..forecasting.forecaster import Forecaster
from ..training.checkpoint import read_tensors
from ..training.progress import fill
from .arguments import Model

SHOWN_IDS = 5


def info(model: Model, *, json_: bool = False) -> None:
    """Show what a saved model is, what it was trained on, and which table it needs.

    Example: fighter info model

    Args:
        model: folder written by fighter fit or forecast --save.
        json_: print all of it as JSON.
    """
    card = describe(model)
    if json_:
        print(json.dumps(card, indent=1, ensure_ascii=False, default=str))
        return
    width = min(shutil.get_terminal_size().columns, 100)
    for label, value in _lines(card).items():
        print(fill(f"{label:<12}{value}", width, 12))


def describe(folder: Path) -> dict[str, Any]:
    """Return what is known of a saved model, fit for JSON."""
    loaded = Forecaster.load(folder)
    plan, context, scheme = loaded.plan, loaded.fitted.context, loaded.fitted.preprocessing.scheme
    freq, origin = context.freq, loaded.fitted.preprocessing.origin
    weights = folder / WEIGHTS
    ids = list(loaded.fitted.context.id_cols)
    return {
        "model": plan.model.name,
        "network": plan.model.describe(),
        "format": json.loads(read_tensors(weights, "config")[1])["format"],
        "folder": str(folder),
        "saved": time.strftime("%Y-%m-%d %H:%M", time.localtime(weights.stat().st_mtime)),
        "bytes": weights.stat().st_size,
        "parameters": sum(p.numel() for p in loaded.fitted.network.parameters()),
        "series": list(context.ids),
        "other_series": not loaded.fitted.alternative,
        "freq": scheme.freq,
        "horizon": plan.horizon,
        "lookback": plan.lookback,
        "cycle": plan.cycle,
        "levels": as_list(loaded.level),
        "quantiles": as_list(loaded.quantiles),
        "past": list(context.past_names),
        "future": list(context.future_names),
        "static": list(context.static_names),
        "holidays": sorted({*context.holidays}),
        "rows": 1 + int(freq.positions(context.times[-1:], origin)[0]),
        "start": freq.show(origin),
        "end": freq.show(int(context.times[-1])),
        "validation_rows": plan.validation,
        "columns": {
            "id": ids,
            "time": context.axis.name,
            "target": context.target_col,
        },
    }


def _lines(card: dict[str, Any]) -> dict[str, str]:
    """Return the card as lines for people."""
    ids = list(map(str, card["series"]))
    some = ", ".join(ids[:SHOWN_IDS]) + (", …" if len(ids) > SHOWN_IDS else "")
    serves = "also serves others" if card["other_series"] else "serves these alone"
    intervals = ", ".join(f"{level:g} %" for level in card["levels"])
    intervals = intervals or ", ".join(f"{q:g}" for q in card["quantiles"]) or "none"
    covariates = [f"{kind}: {', '.join(card[kind])}" for kind in ("past", "future") if card[kind]]
    covariates += [f"holidays: {', '.join(card['holidays'])}"] * bool(card["holidays"])
    covariates += [f"static: {len(card['static'])} columns"] * bool(card["static"])
    columns, stamp = card["columns"], card["columns"]["time"]
    long = ", ".join([*columns["id"], stamp, columns["target"]])
    needed = [*card["past"], *card["future"]]
    also = f", and {', '.join(needed)}" if needed else ""
    ahead = " --future-file AHEAD.csv" if card["future"] else ""
    return {
        "model": card["network"],
        "saved": f"{card['saved']} in format {card['format']}, "
        f"{card['parameters']:,} parameters, {card['bytes'] / 1e6:.2g} MB",
        "series": f"{len(ids):,}: {some} ({serves})",
        "trained on": f"{card['rows']:,} steps (freq {card['freq']}), {card['start']} to "
        f"{card['end']}; the last {card['validation_rows']:,} for validation",
        "forecasts": f"{card['horizon']} steps from the last {card['lookback']}, "
        f"cycle {card['cycle'] or 'none'}",
        "intervals": intervals,
        "covariates": "; ".join(covariates) or "none",
        "table": f"long ({long}{also}) or wide ({stamp} and a column per series{also})",
        "use": f"fighter predict {card['folder']} [FILE]{ahead}",
    }
