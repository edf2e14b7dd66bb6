import json
import math
from itertools import pairwise

import pytest
import torch

from fighter._files import CHECKPOINT, METRICS
from fighter.errors import FighterError
from fighter.training import Recipe, World, forecast, score, train
from fighter.training.losses import forecast_objective, make_loss
from fighter.training.optimiser import AdamW
from fighter.training.steps import CapturedStep

from .nets import network, recipe, same_weights, trained, windows


@pytest.fixture
def before_step(monkeypatch):
    """Learning rate and gradient norm before each step of the optimiser."""
    seen, step = [], AdamW.step

    def look(optimiser, lr):
        norms = [p.grad.norm() for p in optimiser.weights if p.grad is not None]
        seen.append((lr, torch.stack(norms).norm().item()))
        step(optimiser, lr)

    monkeypatch.setattr(AdamW, "step", look)
    return seen


def test_the_same_seed_gives_the_same_weights_with_dropout():
    first, history = trained()
    second, again = trained()
    other, _ = trained(steps=recipe(seed=1))
    assert same_weights(first, second)
    assert history == again
    assert not same_weights(first, other)


def test_training_leaves_the_global_random_state_alone():
    net = network()
    torch.manual_seed(7)
    before = torch.get_rng_state()
    trained(net=net)
    assert torch.equal(torch.get_rng_state(), before)


def test_learning_rate_warms_up_and_falls_to_a_hundredth(before_step):
    trained(steps=recipe(epochs=50, warmup=8, lr=0.01))
    rates = [rate for rate, _ in before_step]
    assert rates[:8] == pytest.approx([0.01 * (i + 1) / 8 for i in range(8)])
    assert rates[8] == max(rates) == pytest.approx(0.01)
    assert all(a >= b for a, b in pairwise(rates[8:]))
    assert rates[-1] == pytest.approx(1e-4, rel=0.1)
    middle = 8 + (len(rates) - 8) // 2
    assert rates[middle] == pytest.approx(0.01 * (0.01 + 0.99 / 2), rel=0.02)


def test_a_warmup_longer_than_the_run_is_shortened(before_step):
    trained(steps=recipe(warmup=10_000, lr=0.01))
    assert max(rate for rate, _ in before_step) == pytest.approx(0.01)


def test_gradients_are_clipped(before_step):
    trained(steps=recipe(loss="mse", clip=0.01))
    norms = [norm for _, norm in before_step]
    assert max(norms) <= 0.01 + 1e-6
    assert max(norms) > 0.0099  # clipped, and not simply small


def test_early_stopping_keeps_the_best_epoch():
    net, history = trained(steps=recipe(epochs=200, patience=3, lr=0.05, ema=0.0))
    scores = [record["validation"] for record in history]
    best = scores.index(min(scores))
    assert len(history) < 200
    assert len(history) == best + 1 + 3
    validation = windows().within(slice(45, None))
    kept = score(net, validation, forecast_objective("mae", ()), World())
    assert kept == scores[best] == history[-1]["best"]


def test_without_validation_the_last_epoch_is_kept():
    everything, net = windows(), network()
    history = train(net, everything, None, recipe(ema=0.0, patience=1))
    assert len(history) == 4
    assert history[-1]["validation"] is None
    assert history[-1]["loss"] < history[0]["loss"]


def test_the_moving_average_of_the_weights_is_kept(monkeypatch):
    raw, step = [], AdamW.step
    net = network(dropout=0.0)
    start = net.cycle.profile.detach().clone()

    def look(optimiser, lr):
        step(optimiser, lr)
        raw.append(net.cycle.profile.detach().clone())

    monkeypatch.setattr(AdamW, "step", look)
    train(net, windows(), None, recipe(ema=0.8, lr=0.01))
    average = start
    for step, weights in enumerate(raw):
        decay = min(0.8, (1 + step) / (10 + step))
        average = decay * average + (1 - decay) * weights
    torch.testing.assert_close(net.cycle.profile.detach(), average)
    assert not torch.allclose(net.cycle.profile.detach(), raw[-1])


def test_every_epoch_uses_every_window():
    """49 windows in batches of 16: the last batch has one window."""
    everything = windows()
    assert len(everything) == 49
    seen = []
    gather = type(everything).gather

    class Spy(type(everything)):
        def gather(self, index):
            seen.append(index)
            return gather(self, index)

    train(network(), Spy(**vars(everything)), None, recipe(epochs=2))
    for epoch in (seen[:4], seen[4:]):
        assert sorted(torch.cat(epoch).tolist()) == list(range(49))
    assert not torch.equal(seen[0], seen[4])


def test_a_loss_that_is_not_a_number_names_the_learning_rate():
    net = network()
    with torch.no_grad():
        net.cycle.profile.fill_(float("nan"))
    with pytest.raises(FighterError, match=r"training loss became nan in epoch 1 at .* 0\.001"):
        trained(net=net)


def test_the_metrics_file_has_one_line_per_epoch_of_this_run(tmp_path):
    place = tmp_path / "deep" / "run"
    for _ in range(2):
        _, history = trained(folder=place)
        lines = (place / METRICS).read_text().splitlines()
        assert [json.loads(line) for line in lines] == history
    assert set(history[0]) == {"epoch", "loss", "validation", "best", "lr"}
    assert [record["epoch"] for record in history] == [1, 2, 3, 4]
    assert {path.name for path in place.iterdir()} == {CHECKPOINT, METRICS}


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("epochs", 0),
        ("batch_size", 0),
        ("patience", 0),
        ("ema", 1.0),
        ("ema", -0.1),
        ("lr", 0.0),
        ("lr", math.nan),
        ("discount", -1.0),
        ("discount", math.inf),
    ],
)
def test_a_recipe_refuses_wrong_values(argument, value):
    with pytest.raises(FighterError) as error:
        Recipe(**{argument: value})
    assert error.value.argument == argument


def test_an_unknown_loss_is_refused():
    with pytest.raises(FighterError, match="mae, mse") as error:
        make_loss("huber", ())
    assert error.value.argument == "loss"


def test_validation_and_the_trained_network_are_in_eval_mode():
    modes = []

    def measure(network, batch):
        modes.append(network.training)
        return torch.zeros(()), torch.ones(())

    net = network()
    train(net, windows(), windows(), Recipe(epochs=2), measure=measure)
    assert modes
    assert not any(modes)
    assert not net.training


@pytest.mark.parametrize("training", [True, False])
def test_forecasting_does_not_change_the_mode_of_the_network(training):
    net = network().train(training)
    batches = forecast(net, windows())
    next(batches)
    assert net.training == training


def test_any_data_objective_and_measure_can_be_used():
    """Here a regression on plain numbers."""

    class Numbers:
        device, eval_batch_size = torch.device("cpu"), 3

        def __init__(self, x):
            self.x = x

        def __len__(self):
            return len(self.x)

        def batches(self, batch_size, generator=None):
            yield from torch.randperm(len(self), generator=generator).split(batch_size)

        def gather(self, index):
            return self.x[index]

    def squares(network, x):
        return (network(x) - 3 * x).square().sum(), x.new_full((), len(x))

    def error(network, x):
        return (network.weight - 3).abs().sum() * len(x), x.new_full((), len(x))

    net, seen = torch.nn.Linear(1, 1, bias=False), []
    data = Numbers(torch.linspace(-1, 1, 20)[:, None])
    history = train(
        net, data, Numbers(data.x[:7]), recipe(epochs=30, lr=0.3, ema=0.0, patience=30),
        objective=squares, measure=error,
        on_epoch=lambda record: seen.append((net.weight - 3).abs().item()),
    )  # fmt: skip
    assert [record["validation"] for record in history] == pytest.approx(seen)
    assert (net.weight - 3).abs().item() == pytest.approx(min(seen))
    assert min(seen) < 0.1 < seen[0]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("ema", [0.0, 0.9])
def test_recorded_steps_equal_eager_steps(monkeypatch, ema):
    """A CUDA graph changes how steps are launched, not their result; the last batch is smaller."""

    def run():
        return trained(net=network(dropout=0.0), steps=recipe(epochs=6, ema=ema), device="cuda")

    recorded, history = run()
    monkeypatch.setattr(CapturedStep, "WARM_UP", 10**9)
    eager, expected = run()
    assert [r["loss"] for r in history] == pytest.approx([r["loss"] for r in expected], rel=1e-3)
    for a, b in zip(recorded.state_dict().values(), eager.state_dict().values(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-2, atol=1e-3)
