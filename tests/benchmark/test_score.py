"""A score is that of every test window, by an oracle that is written out."""

import numpy as np

from fighter.benchmark.datasets import file_dataset
from fighter.benchmark.runs import Environment
from fighter.benchmark.score import perform, settings

from .load import ROWS

HORIZON = 6


def test_every_test_window_is_scored(table, path):
    """Compare with the mean of the look-back, one window after the other."""
    dataset = file_dataset(path)
    chosen = settings(dataset, HORIZON, {"model": "mean"}, lookback=48)
    score = perform(chosen, Environment(files={dataset.sha256: path}))
    values = table[["a", "b"]].to_numpy()
    train = values[:420]
    scaled = (values - train.mean(0)) / train.std(0)
    errors = np.array(
        [
            scaled[first : first + HORIZON] - scaled[first - 48 : first].mean(0)
            for first in range(480, ROWS - HORIZON + 1)
        ]
    )
    assert score["windows"] == len(errors) == 115
    np.testing.assert_allclose(score["mse"], (errors**2).mean(), rtol=1e-5)
    np.testing.assert_allclose(score["mae"], np.abs(errors).mean(), rtol=1e-5)
    blocks = np.array_split(errors, 2)  # of two days or a little more
    for name, error in (("mse", errors**2), ("mae", np.abs(errors))):
        wanted = [block.mean() for block in np.array_split(error, len(blocks))]
        np.testing.assert_allclose(score["pieces"][name], wanted, rtol=1e-4)
    assert score["best_epoch"] is None
    assert score["parameters"] == 0
