"""Combine stored rows: over windows and seeds of a table, over tables, and between models."""

import math
import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence

from .scores import RELATIVE
from .store import Row

NEAR = 1.02  # a model within 2 % of the best of a table shares its place
Scores = Mapping[str, Mapping[str, Mapping[str, float]]]  # of a model and a table, by name
PLAIN = {"bias": "size", "bias_mean": "size", "cov80": "cells", "cov95": "cells"}


def combine(rows: Iterable[Row], names: Iterable[str]) -> Scores:
    """Return the scores of each model and table, over all windows and seeds.

    Those in RELATIVE are divided by those of the seasonal naive forecast on the same series.
    """
    known = set(names)
    groups: dict[str, dict[str, list[Row]]] = {}
    for row in rows:
        if row["table"] in known:
            groups.setdefault(row["model"], {}).setdefault(row["table"], []).append(row)
    return {
        model: {table: one for table, some in tables.items() if (one := _table(some))}
        for model, tables in groups.items()
    }


def common(rows: Sequence[Row], models: Collection[str]) -> list[Row]:
    """Return the rows of the windows of each table that all models were run on."""
    has: dict[tuple[str, int], set[str]] = {}
    for row in rows:
        has.setdefault((row["table"], row["window"]), set()).add(row["model"])
    whole = {place for place, found in has.items() if found >= set(models)}
    return [
        row for row in rows if row["model"] in models and (row["table"], row["window"]) in whole
    ]


def _table(rows: Sequence[Row]) -> dict[str, float]:
    """Return the scores of one model and table; older rows have fewer of them."""
    scores = {}
    for name, weight in RELATIVE.items():
        base = f"naive_{name}"
        some = [row for row in rows if row.get(name) is not None and row.get(base)]
        if some:
            scores[name] = _mean(some, name, weight) / _mean(some, base, weight)
    if not {"mase", "wql"} <= set(scores):
        return {}
    for name, weight in PLAIN.items():
        some = [row for row in rows if row.get(name) is not None]
        if some:
            scores[name] = _mean(some, name, weight)
    return scores | {"seconds": statistics.median(row["seconds"] for row in rows)}


def _mean(rows: Sequence[Row], name: str, weight: str) -> float:
    return sum(row[name] * row[weight] for row in rows) / sum(row[weight] for row in rows)


def geometric(values: Iterable[float]) -> float:
    """Return the geometric mean; a perfect forecast counts as a thousandth."""
    return math.exp(statistics.fmean(math.log(max(value, 1e-3)) for value in values))


def over_tables(tables: Mapping[str, Mapping[str, float]], name: str) -> float:
    """Return the geometric mean of a relative score over a model's tables."""
    return geometric(one[name] for one in tables.values())


def spread(rows: Sequence[Row], model: str, names: Iterable[str], name: str) -> tuple[float, int]:
    """Return the standard deviation over seeds of a model's geometric mean, and how many seeds.

    It counts the seeds that have as many rows as any other; of a single one there is no deviation,
    and it is NaN.
    """
    seeds: dict[int, list[Row]] = {}
    for row in rows:
        if row["model"] == model:
            seeds.setdefault(row["seed"], []).append(row)
    most = max(map(len, seeds.values()))
    whole = [combine(some, names)[model] for some in seeds.values() if len(some) == most]
    values = [over_tables(tables, name) for tables in whole]
    return (statistics.stdev(values) if len(values) > 1 else math.nan), len(values)


def firsts(scores: Scores, full: Sequence[str]) -> dict[str, float]:
    """Return in what share of its tables a model is best or within 2 % of the best.

    It is compared with the models in ``full``, which were run on all tables.
    """
    shares = {}
    for model, tables in scores.items():
        near = 0
        for table, one in tables.items():
            others = [scores[name][table]["mase"] for name in full if table in scores[name]]
            near += one["mase"] <= NEAR * min([one["mase"], *others])
        shares[model] = near / len(tables)
    return shares


def mean_ranks(scores: Scores, tables: Sequence[str], name: str) -> dict[str, float]:
    """Return the mean rank of each model over tables that all have, from 1 for the best.

    Models with equal scores share the mean of their places.
    """
    places: dict[str, list[float]] = {model: [] for model in scores}
    for table in tables:
        values = {model: own[table][name] for model, own in scores.items()}
        for model, value in values.items():
            better = sum(other < value for other in values.values())
            equal = sum(other == value for other in values.values())
            places[model].append(better + (equal + 1) / 2)
    return {model: statistics.fmean(own) for model, own in places.items()}


def against_chosen(rows: Sequence[Row], model: str, peers: Sequence[str]) -> dict[str, float]:
    """Return a model's MASE by that of the peer that was best on the other windows of a table.

    This is the peer that could have been chosen beforehand; the best one of a window is partly
    luck. Tables with a single window have no other windows and are left out. Seeds are averaged.
    """
    scores: dict[str, dict[str, dict[int, list[Row]]]] = {}
    for row in rows:
        if row["mase"] is not None:
            windows = scores.setdefault(row["table"], {}).setdefault(row["model"], {})
            windows.setdefault(row["window"], []).append(row)
    ratios = {}
    for table, models in scores.items():
        windows = models.get(model, {})
        known = [name for name in peers if set(windows) <= set(models.get(name, {}))]
        if len(windows) < 2 or not known:
            continue
        ours = theirs = 0.0
        for window, some in windows.items():
            others = [other for other in windows if other != window]
            chosen = min(known, key=lambda name: _mean_mase(models[name], others))
            weight = some[0]["scored"]
            ours += _mean(some, "mase", "scored") * weight
            theirs += _mean(models[chosen][window], "mase", "scored") * weight
        ratios[table] = ours / theirs
    return ratios


def _mean_mase(rows: Mapping[int, Sequence[Row]], windows: Sequence[int]) -> float:
    return _mean([row for window in windows for row in rows[window]], "mase", "scored")
