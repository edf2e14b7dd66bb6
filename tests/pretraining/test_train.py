"""The generator of synthetic series, and a tiny training on them."""

import json
import sys

import pytest
import torch

from fighter.models.pretrained import PATCH, PretrainedNet
from pretraining import train
from pretraining.average import average
from pretraining.evaluate import read_network
from pretraining.generator import FAMILIES, GROUP, draw

CPU = torch.device("cpu")


@pytest.mark.parametrize(("patches", "ahead"), [(4, 2), (18, 12)])
def test_examples_are_finite_and_have_something_to_learn(patches, ahead):
    made = draw(24, patches, ahead, CPU)
    assert made.past.shape == (24, GROUP, patches * PATCH)
    assert made.future.shape == made.scored.shape == (24, GROUP, ahead * PATCH)
    assert made.past.isfinite().all()
    assert made.future.isfinite().all()
    assert made.observed[..., -1].all()
    assert not made.past[~made.observed].any()
    assert made.scored.any(2).all()
    assert (made.seasons >= 0).all()


@pytest.mark.parametrize("family", FAMILIES)
def test_series_of_every_family_vary(family):
    made = draw(16, 8, 2, CPU, {family: FAMILIES[family]})
    moving = made.past.std(2) > 1e-4
    assert moving.float().mean() > 0.8


def test_the_seed_determines_the_series():
    first, second = (torch.manual_seed(3) and draw(8, 4, 2, CPU) for _ in range(2))
    for a, b in zip(first, second, strict=True):
        assert torch.equal(a, b)


@pytest.mark.slow
def test_a_quick_training_runs_and_continues(tmp_path, monkeypatch):
    out, record = tmp_path / "weights.safetensors", tmp_path / "record.json"
    call = ["train", "--quick", "--out", str(out), "--record", str(record)]
    monkeypatch.setattr(sys, "argv", call)
    train.main()
    assert json.loads(record.read_text())["steps"] == 6
    first = read_network(out).state_dict()
    monkeypatch.setattr(sys, "argv", [*call, "--start", str(out), "--steps", "4"])
    train.main()
    told = json.loads(record.read_text())
    assert told["steps"] == 10
    assert told["options"]["kappa"] == 3
    assert all(entry["loss"] > 0 for entry in told["log"])
    second = read_network(out).state_dict()
    assert any(not torch.equal(first[name], second[name]) for name in first)


def test_weights_are_averaged(tmp_path):
    options = {"width": 16, "layers": 2, "heads": 2}
    networks = [PretrainedNet(**options) for _ in range(2)]
    files = [tmp_path / "first", tmp_path / "second", tmp_path / "mean"]
    for network, file in zip(networks, files, strict=False):
        train.save(network, file, 5, options)
    average(files[0], files[1], 0.25, files[2])
    first, second, mean = (read_network(file).head.weight for file in files)
    torch.testing.assert_close(mean, 0.75 * first + 0.25 * second, atol=1e-3, rtol=1e-2)
