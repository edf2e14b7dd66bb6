from functools import partial

import pytest
import torch

from fighter.benchmark.runs import Environment
from paper.studies import cost, faithfulness, sample
from paper.studies.attributions import integrated_gradients
from paper.studies.planted import auroc, correlation, precision

FRAME = {
    "horizon": 12, "lookback": 24, "max_epochs": 2, "lr": 1e-2, "validation": 48, "cycle": None,
}  # fmt: skip
FIGHTER = {"width": 16, "heads": 2, "layers": 1}
METHODS = {"ours", "integrated gradients", "gradient × input", "rollout", "attention", "random"}


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr(sample, "integrated_gradients", partial(integrated_gradients, steps=2))


def run(**options):
    chosen = {**FRAME, **options}
    settings = faithfulness.settings("grid", chosen, seed=0, windows=4, test=72, rows=500)
    return faithfulness.perform(settings, Environment())


@pytest.mark.slow
def test_every_method_is_scored_on_the_grid():
    result = run(**FIGHTER)
    assert set(result["planted"]) == METHODS | {"removals"}
    assert set(result["removal"]) == METHODS
    for found in result["planted"].values():
        assert all(-1e-6 <= value <= 1 + 1e-6 for key, value in found.items() if key != "use")
    assert result["planted"]["removals"]["use"] == pytest.approx(1)
    assert result["planted"]["attention"]["lag AUROC"] == 0.5  # attention does not see lags
    for found in result["removal"].values():
        assert found["curves"]["deletion, inside"][-1] == 1
        assert found["curves"]["insertion, inside"][-1] == 0


def test_scores_of_a_linear_model_are_its_changes_by_removal(monkeypatch):
    monkeypatch.setattr(sample, "layer_graphs", lambda *_: [torch.ones(4, 6, 6) / 6])
    monkeypatch.setattr(sample, "over_inputs", lambda *_: torch.ones(4, 24, 6))
    result = run(model="linear")
    for name in ("ours", "integrated gradients", "gradient × input"):
        assert result["planted"][name]["use"] == pytest.approx(1, abs=1e-4)
        assert result["removal"][name]["sums"] == pytest.approx(1, abs=1e-4)
    assert abs(result["removal"]["random"]["sums"]) < 0.3


def test_auroc_and_precision_count_ties():
    truth = torch.tensor([True, False, True, False, False])
    assert auroc(torch.tensor([5.0, 4, 3, 2, 1]), truth) == pytest.approx(5 / 6)
    assert auroc(torch.ones(5), truth) == 0.5
    assert precision(torch.tensor([5.0, 4, 3, 2, 1]), truth) == 0.5
    assert precision(torch.ones(5), truth) == pytest.approx(0.4)
    assert precision(torch.tensor([2.0, 1, 1, 0, 0]), truth) == pytest.approx(0.75)


def test_correlation_is_taken_within_a_window():
    a = torch.randn(3, 4, 2)
    found = correlation(torch.stack([a, a, a])[:, 0], torch.stack([2 * a, -a, 0 * a])[:, 0])
    torch.testing.assert_close(found, torch.tensor([1.0, -1.0, 0.0]))


def test_every_seed_of_a_model_is_a_run():
    runs = faithfulness.plan([*faithfulness.MODELS])
    assert {run.kind for run in runs} == {"paper.studies.faithfulness"}
    assert len({run.key for run in runs}) == len(runs) == 10 + 3 + 3 + 1


@pytest.mark.parametrize(
    "options", [{"nodes": "series", "adjacency": "lazy"}, {"model": "transformer"}]
)
def test_cost_is_relative_to_a_training_step(options, monkeypatch):
    monkeypatch.setattr(cost, "WIDTH", 16)
    found = cost.cost(series=3, lookback=24, turns=1, **options)
    assert found["ratio"] > 0
    assert found["largest array"] >= found["largest weight"] > 0
