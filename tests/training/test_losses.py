from dataclasses import replace

import numpy as np
import pytest
import torch

from fighter.training import train
from fighter.training.losses import forecast_objective, make_loss

from .nets import network, recipe, same_weights, windows


@pytest.mark.parametrize("point", ["mae", "mse"])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("discount", [0.0, 0.5])
def test_the_loss_agrees_with_numpy(point, masked, discount):
    rng = np.random.default_rng(0)
    y, target = rng.normal(size=(3, 4, 2, 3)), rng.normal(size=(3, 4, 2))
    seen = rng.random((3, 4, 2)) > 0.4 if masked else np.ones((3, 4, 2), bool)
    error = target[..., None] - y
    parts = [np.abs(error[..., 0]) if point == "mae" else error[..., 0] ** 2]
    parts += [
        2 * np.where(error[..., i] > 0, q * error[..., i], (q - 1) * error[..., i])
        for i, q in ((1, 0.1), (2, 0.9))
    ]
    weights = 1 / (1 + discount * np.arange(4))
    expected = (np.mean(parts, 0) * (weights / weights.mean())[:, None])[seen].sum()
    loss = make_loss(point, (0.1, 0.9), discount)
    total, count = loss(
        torch.tensor(y), torch.tensor(target), torch.tensor(seen) if masked else None
    )
    assert count.item() == seen.sum()
    assert total.item() == pytest.approx(expected, rel=1e-5)


def test_a_discount_affects_training_but_not_validation():
    everything = windows()
    records = [
        train(network(), everything, everything, replace(recipe(), discount=discount, lr=1e-30))[0]
        for discount in (0.0, 2.0)
    ]
    assert records[0]["loss"] != pytest.approx(records[1]["loss"], rel=1e-3)
    assert records[0]["validation"] == pytest.approx(records[1]["validation"], rel=1e-6)


def test_unobserved_values_do_not_affect_training():
    """Unobserved cells may hold anything; the weights are bit-equal."""
    everything = windows(missing=True)
    nets = []
    for garbage in (0.0, 12345.0):
        values = torch.where(everything.observed, everything.values, garbage)
        net = network()
        train(net, replace(everything, values=values), None, recipe())
        nets.append(net)
    assert same_weights(*nets)


@pytest.mark.parametrize("missing", [False, True])
def test_each_member_is_trained_by_itself(missing):
    net = network(members=3).eval()
    data = windows(missing=missing)
    batch = data.gather(torch.arange(16))
    total, count = forecast_objective("mae", (), discount=0.5, per_member=True)(net, batch)
    loss = make_loss("mae", (), 0.5)
    alone = [
        loss(y, batch.future, batch.future_observed)[0]
        for y in net(batch, batch.start, per_member=True)
    ]
    mean, terms = forecast_objective("mae", (), discount=0.5)(net, batch)
    torch.testing.assert_close(total, torch.stack(alone).sum())
    assert count == 3 * terms
    assert total / count > mean / terms  # the mean forecast is better than its members

    # Validation scores the mean of the members, which is the forecast.
    (record,) = train(net, data, data, replace(recipe(), epochs=1, lr=1e-30, ema=0.0))
    whole = data.gather(torch.arange(len(data)))
    mean, terms = forecast_objective("mae", ())(net.eval(), whole)
    assert record["validation"] == pytest.approx((mean / terms).item(), rel=1e-5)
