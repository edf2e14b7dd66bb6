from functools import partial

import pytest
import torch

from fighter.benchmark.runs import Environment
from paper.studies import faithfulness
from paper.studies.attributions import integrated_gradients
from paper.studies.faithfulness import auroc, correlation, perform, precision

OPTIONS = {
    "horizon": 12, "lookback": 24, "width": 16, "heads": 2, "layers": 1, "max_epochs": 2,
    "lr": 1e-2, "validation": 48, "cycle": None,
}  # fmt: skip
METHODS = {"ours", "integrated gradients", "gradient × input", "rollout", "attention", "random"}


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr(
        faithfulness, "integrated_gradients", partial(integrated_gradients, steps=2)
    )


def run(**options):
    chosen = {**OPTIONS, **options}
    settings = faithfulness.settings("grid", chosen, seed=0, windows=4, test=72, rows=500)
    return perform(settings, Environment())


def test_the_grid_is_scored_by_every_method():
    result = run()
    assert set(result["planted"]) == METHODS | {"removals"}
    assert set(result["removal"]) == METHODS
    for found in result["planted"].values():
        assert all(-1e-6 <= value <= 1 + 1e-6 for key, value in found.items() if key != "use")
    assert result["planted"]["removals"]["use"] == pytest.approx(1)
    assert result["planted"]["attention"]["lag AUROC"] == 0.5  # it says nothing of lags
    for found in result["removal"].values():
        assert found["curves"]["deletion, inside"][-1] == 1
        assert found["curves"]["insertion, inside"][-1] == 0


def test_a_linear_model_is_its_attribution(monkeypatch):
    """Then single removals are the scores, and sums of scores the changes of the forecast."""
    monkeypatch.setattr(faithfulness, "layer_graphs", lambda *_: [torch.ones(4, 6, 6) / 6])
    monkeypatch.setattr(faithfulness, "over_inputs", lambda *_: torch.ones(4, 24, 6))
    network = {"width": None, "heads": None, "layers": None}
    result = run(model="linear", **network)
    for name in ("ours", "integrated gradients", "gradient × input"):
        assert result["planted"][name]["use"] == pytest.approx(1, abs=1e-4)
        assert result["removal"][name]["sums"] == pytest.approx(1, abs=1e-4)
    assert abs(result["removal"]["random"]["sums"]) < 0.3


def test_scores_of_rankings():
    truth = torch.tensor([True, False, True, False, False])
    assert auroc(torch.tensor([5.0, 4, 3, 2, 1]), truth) == pytest.approx(5 / 6)
    assert auroc(torch.ones(5), truth) == 0.5
    assert precision(torch.tensor([5.0, 4, 3, 2, 1]), truth) == 0.5
    assert precision(torch.ones(5), truth) == pytest.approx(0.4)
    assert precision(torch.tensor([2.0, 1, 1, 0, 0]), truth) == pytest.approx(0.75)


def test_correlation_is_over_the_values_of_a_window():
    a = torch.randn(3, 4, 2)
    found = correlation(torch.stack([a, a, a])[:, 0], torch.stack([2 * a, -a, 0 * a])[:, 0])
    torch.testing.assert_close(found, torch.tensor([1.0, -1.0, 0.0]))
