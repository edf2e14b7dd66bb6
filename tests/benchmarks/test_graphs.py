"""The benchmark of graphs: scores by hand, baselines on known links, and the truth of systems."""

import json
import sys

import numpy as np
import pandas as pd
import pytest
import torch

from benchmarks import graph_forecasts, graph_page, graphs
from benchmarks.graphs import (
    FITTED,
    Forecasters,
    Strengths,
    Truth,
    average_precision,
    score,
    strengths,
)
from fighter import Forecaster
from pretraining import generator

from ..tables import tiny


def chain(rows: int = 600) -> Truth:
    """Return three series, of which the second follows the first after 2 steps."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, 3)) * [1.0, 1.0, 50.0]
    x[2:, 1] += 2 * x[:-2, 0]
    links, lags = np.zeros((2, 3, 3), int)
    links[0, 1], lags[0, 1] = 1, 2
    return Truth("chain", x, links > 0, lags, 5)


@pytest.mark.parametrize("name", ["correlation", "var", "ols"])
def test_baselines_find_a_link_and_its_lag(name):
    truth = chain()
    found = strengths(name, graphs.standardise(truth.values), truth.longest)
    made = score(found, truth)
    assert made["AUROC"] == made["AUPRC"] == made["precision@k"] == 1.0
    assert made["lag error"] == 0
    assert made["lag exact"] == 1
    assert made["share of links"] == pytest.approx(1 / 6)


@pytest.mark.parametrize("name", ["pretrained", "graph"])
def test_strengths_of_the_pretrained_network_do_not_depend_on_units(name, monkeypatch):
    monkeypatch.setattr(graphs, "ROWS", 40)
    monkeypatch.setattr(graphs, "WINDOWS", 2)
    values = chain(60).values
    raw, scaled = strengths(name, values), strengths(name, graphs.standardise(values))
    assert raw.strength.shape == (3, 3)
    assert (raw.strength > 0).all()
    size = values.std(0) if name == "pretrained" else 1.0  # parts are in the units of the target
    np.testing.assert_allclose(raw.strength / size, scaled.strength, rtol=1e-3)


def test_scores_by_hand():
    strength = np.array([[9.0, 3.0, 1.0], [2.0, 9.0, 2.0], [0.0, 0.0, 9.0]])
    links = np.array([[1, 1, 0], [1, 0, 0], [0, 0, 0]]) > 0
    lags = np.array([[0, 1, 0], [0, 0, 0], [0, 0, 0]])
    found = Strengths(strength, np.full((3, 3), 4))
    made = score(found, Truth("", strength, links, lags, 5))
    # Pairs by strength: 3 (a link), 2 and 2 (one of them a link), 1, 0, 0.
    assert made["AUROC"] == pytest.approx((4 + 3.5) / 8)
    assert made["AUPRC"] == pytest.approx(1 / 2 * 1 + 1 / 2 * 2 / 3)
    assert made["precision@k"] == pytest.approx((1 + 0.5) / 2)
    assert made["lag error"] == 3
    assert made["lag exact"] == 0
    assert "lag error" not in score(Strengths(strength), Truth("", strength, links, lags, 5))


def test_average_precision_of_equal_scores_is_the_share_of_links():
    truth = torch.tensor([True, False, False, True, False])
    assert average_precision(torch.ones(5), truth) == pytest.approx(0.4)


def test_the_links_of_planted_systems_are_those_along_which_series_move(monkeypatch):
    """Of series that are 0 but for the first, only those that it reaches move."""
    monkeypatch.setattr(generator, "LINKED", (1.0, 0.0, 0.0))
    torch.manual_seed(1)
    groups, steps = 20, 256
    x = torch.zeros(groups, generator.GROUP, steps)
    x[:, 0] = torch.randn(groups, steps)
    with graphs._Draws() as draws:
        made, _ = generator.link(x, torch.device("cpu"))
    count = 0
    for group in range(groups):
        truth = graphs._read_off(made[group].T.double().numpy(), draws.drawn, group)
        root = int((made[group] == x[group, 0]).all(1).nonzero()[0])
        reached = np.zeros(generator.GROUP, bool)
        reached[root] = True
        for _ in range(generator.GROUP):
            reached |= truth.links[reached].any(0)
        assert ((made[group].std(1) > 1e-3).numpy() == reached).all()
        assert ((truth.lags > 0) == truth.links).all()
        count += int(reached.sum())
    assert groups < count < groups * generator.GROUP


def test_planted_systems_are_drawn_again_from_a_seed(monkeypatch):
    monkeypatch.setattr(graphs, "SYSTEMS", 2)
    first, second = graphs.planted(), graphs.planted()
    assert len(first) == 2
    for a, b in zip(first, second, strict=True):
        assert a.values.shape == (1024, generator.GROUP)
        np.testing.assert_array_equal(a.values, b.values)
        np.testing.assert_array_equal(a.lags, b.lags)


def test_results_are_written_by_set_and_in_the_mean(tmp_path, monkeypatch):
    truth = chain()
    names = ["a", "b", "c"]
    table = pd.DataFrame(truth.values, columns=names)
    table.insert(0, "ds", np.arange(len(table)))
    table.to_parquet(tmp_path / "chain_1.parquet")
    (tmp_path / "edges.csv").write_text("source,target,lag\na,b,2\nc,c,\n")
    entry = {"name": "chain_1", "file": "chain_1.parquet", "truth": "edges.csv"}
    (tmp_path / "zoo.json").write_text(json.dumps({"graphs": [entry]}))
    out = tmp_path / "out.json"
    flags = ["--models", "correlation", "var", "--sets", "chain", "--zoo", tmp_path, "--out", out]
    monkeypatch.setattr(sys, "argv", ["graphs", *map(str, flags)])
    monkeypatch.setattr(graphs, "planted", list)
    graphs.main()
    told = json.loads(out.read_text())
    assert [(row["model"], row["unit"]) for row in told["rows"]] == [
        ("correlation", "raw"), ("var", "raw"), ("correlation", "deviations"), ("var", "deviations")
    ]  # fmt: skip
    assert all(row["AUROC"] == 1.0 for row in told["means"] if row["unit"] == "deviations")
    assert told["means"][0]["lag exact"] == 1.0
    assert told["provenance"]["command"].startswith("python -m benchmarks.graphs")


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """Return forecasters that hold one of the chain, fitted quickly."""
    made = Forecasters(tmp_path_factory.mktemp("kept"))
    values = graphs.standardise(chain(300).values)
    quick = {"max_epochs": 15, "lr": 0.01, "lookback": 8, "cycle": None, "pretrained": False}
    model = tiny(1, **quick)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(graphs, "Forecaster", lambda *_, **__: model)
        made.fit(values, 0)
    return made, values


@pytest.mark.parametrize("name", FITTED)
def test_methods_read_links_off_a_fitted_forecaster(name, fitted):
    made, values = fitted
    found = strengths(name, values, 5, 0, made)
    assert found.strength.shape == (3, 3)
    assert (found.strength >= 0).all()
    told = score(found, chain())
    if name == "attention":  # says nothing about lags
        assert "lag error" not in told
    else:
        assert told["AUROC"] == 1
        assert told["lag error"] == 0


def test_forecasters_are_kept(fitted, monkeypatch):
    made, values = fitted
    monkeypatch.setattr(graphs, "Forecaster", FitsNothing)
    again = Forecasters(made.keep)
    first, second = (strengths("fighter", values, 5, 0, each) for each in (made, again))
    np.testing.assert_allclose(first.strength, second.strength, rtol=1e-5)


class FitsNothing(Forecaster):
    """A forecaster that is only loaded."""

    def fit(self, *args, **more):
        raise AssertionError("fitted again")


def test_a_peer_that_is_not_installed_is_skipped(monkeypatch, tmp_path):
    monkeypatch.setattr(graphs, "PEER_PYTHON", tmp_path / "none")
    assert strengths("pcmci", chain(50).values) is None


def rows(model: str, auroc: float, seed: int = 0, unit: str = "raw", name: str = "a_1", **more):
    half = "dev" if name == "a_1" else "test"
    numbers = {"AUROC": auroc, "AUPRC": auroc / 2, "precision@k": auroc / 4}
    about = {"set": name, "family": name[0], "half": half, "model": model, "unit": unit}
    return {**about, "seed": seed, **numbers, **more}


def test_the_page_holds_means_and_marks_only_clear_leads(tmp_path):
    each = [
        rows(model, value, unit=unit, name=name, **{"lag error": 1.0, "lag exact": 0.5})
        for unit in ("raw", "deviations")
        for name in ("a_1", "b_2")
        for model, value in (("fighter", 0.8), ("share", 0.6), ("var", 0.7))
    ]
    each.append(rows("fighter", 0.6, seed=1))  # moves the mean of a to 0.7, by more than the lead
    told = {"provenance": {"date": "today", "command": "run"}, "rows": each, "skipped": []}
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- tables: x -->\nold\n<!-- end of tables -->\nafter\n")
    (tmp_path / "r.json").write_text(json.dumps(told))
    errors = dict.fromkeys(("network", "mixed", "var 1", "var 3", "var 10"), 0.5)
    forecasts = {"provenance": {"command": "run"}, "rows": [{"set": "a_1", **errors}]}
    (tmp_path / "f.json").write_text(json.dumps(forecasts))
    graph_page.write(tmp_path / "r.json", tmp_path / "f.json", page)
    text = page.read_text()
    assert text.startswith("before\n<!-- tables: x -->\nMeasured on today by `run`.")
    assert text.endswith("<!-- end of tables -->\nafter\n")
    assert "old" not in text
    assert r"| a\_1 | 0.500 |" in text
    raw = text[text.index("**AUROC, raw") :]
    line = next(line for line in raw.splitlines() if "`strength`" in line)
    assert line == "| **Fighter, `strength`** | 0.70 ± 0.10 | **0.80** | 0.75 | 1.2 |"


def test_a_vector_autoregression_is_scored_on_later_rows():
    truth = chain()
    z = graphs.standardise(truth.values)
    assert graph_forecasts.error(z, 500, 3) < graph_forecasts.error(z, 500, 1) - 0.1
