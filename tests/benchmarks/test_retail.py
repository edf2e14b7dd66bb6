"""The page of many series and demand, from made-up rows of two tables."""

import json

from benchmarks import retail
from benchmarks.zoo import store
from benchmarks.zoo.scores import RELATIVE

NAIVE = {f"naive_{name}": 1.0 for name in RELATIVE}
ROW = {"series": 3, "window": 0, "seed": 0, "scored": 3, "rated": 3, "size": 10.0, "cells": 6}
ROW |= {"cov80": 80.0, "cov95": 95.0, "bias_mean": -0.5, "seconds": 2.0, "missing": 0, **NAIVE}


def row(model, table, score, bias=0.1, **more):
    scores = dict.fromkeys(RELATIVE, score) | {"bias": bias, "by": "test"}
    return ROW | {"model": model, "table": table} | scores | more


def write(folder, rows):
    entry = {"series": 3, "rows": 30, "horizon": 2, "season": [7], "freq": "D", "core": True}
    tables = [entry | {"name": name} for name in ("carparts", "m5_eight", "air_passengers")]
    (folder / "zoo.json").write_text(json.dumps({"tables": tables}))
    places = store.Places(folder / "retail.json", folder / "cache")
    store.add(places, rows, {"test": {"python": "3"}})
    retail.write(places.results, folder, folder / "retail.md")
    return (folder / "retail.md").read_text()


def test_the_page_ranks_models_and_says_where_fighter_loses(tmp_path):
    rows = [row("fighter", "carparts", 0.5), row("fighter", "m5_eight", 0.9, bias=-0.3)]
    rows += [row("tsb", "carparts", 0.6), row("tsb", "m5_eight", 0.75, missing=3)]
    rows += [row("seasonal_naive", name, 1.0) for name in ("carparts", "m5_eight")]
    rows += [row("fighter", "air_passengers", 9.0)]  # not a table of this page
    rows += [row("nhits", "m5_eight", 0.1)]
    page = write(tmp_path, rows)
    assert "these are 2 of the tables" in page
    assert "by WQL, best first: Fighter 1.5, TSB 1.5, seasonal naive 3.0." in page
    assert "Best by RMSSE:** Fighter on `carparts`; TSB on `m5_eight`." in page
    assert "Fighter is behind the best by: `m5_eight` 20.0 %." in page
    assert (
        "| Fighter | 1.5 | 1.5 | 0.671 | 0.671 (0.671) | 0.671 | 20 % (50 %) | 80 % / 95 % | 2 |"
        in page
    )
    assert "TSB 3 steps (25 %) in 1 table" in page
    assert "| m5_eight | -30 (-50) | **+10 (-50)** | **+10 (-50)** |" in page
    assert "Over more windows" not in page
    assert "Left out, as not run on all tables yet: NHITS." in page
    assert "| NHITS" not in page


def test_models_are_compared_on_the_windows_that_all_have(tmp_path):
    rows = [row("nhits", "carparts", 0.4)]
    rows += [row("fighter", "carparts", score, window=w) for w, score in enumerate((0.5, 0.1))]
    rows += [row("seasonal_naive", "carparts", 1.0, window=w) for w in (0, 1)]
    page = write(tmp_path, rows)
    first, more = page.split("## Over more windows")
    assert "| Fighter | 2.0 | 2.0 | 0.500 |" in first
    assert "| Fighter | 1.0 | 1.0 | 0.300 |" in more
    assert "NHITS" not in more.split("## How")[0]
    assert "Scored is the last horizon" in more.split("## How")[1]


def test_seeds_are_shown(tmp_path):
    rows = [row("seasonal_naive", "carparts", 1.0)]
    rows += [row("nhits", "carparts", score, seed=i) for i, score in enumerate((0.4, 0.6))]
    page = write(tmp_path, rows)
    assert "| NHITS | 1.0 | 1.0 | 0.500 ± 0.141 |" in page
    assert "Seeds: NHITS 2" in page


def test_the_flags_are_those_of_the_tables(monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr("sys.argv", ["retail", "--zoo", str(tmp_path), "--models", "fighter"])
    monkeypatch.setattr(
        "benchmarks.zoo.__main__.work", lambda calls, jobs: asked.extend(calls) or 0
    )
    tables = [{"name": name, "series": 1, "rows": 9, "core": True} for name in retail.TABLES]
    (tmp_path / "zoo.json").write_text(json.dumps({"tables": tables}))
    defaults = retail.DEFAULTS | {"results": tmp_path / "none.json"}
    assert retail.main("benchmarks.retail", defaults, retail.write_page) == 0
    call = asked[0]
    assert call[call.index("--tables") + 1 :][:10] == [*retail.TABLES]
    assert call[-1] == f"python -m benchmarks.retail --zoo {tmp_path} --models fighter"
