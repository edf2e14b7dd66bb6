"""Networks with an encoder and a decoder: seq2seq, Informer and Autoformer."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from fighter import FighterError
from fighter.models import Task, build_core
from fighter.models.autoformer import decompose

from ..pairs import pairs

SMALL = {"width": 16, "heads": 2}
each = pytest.mark.parametrize("name", ["seq2seq", "informer", "autoformer"])


@pairs(
    name=["seq2seq", "informer", "autoformer"],
    training=[False, True],
    sizes=[(1, 1), (2, 1), (2, 5), (3, 1), (5, 40), (96, 2)],
)
def test_windows_may_have_any_size(name, training, sizes):
    lookback, horizon = sizes
    core = build_core(name, Task(lookback, horizon, 2, outputs=3), **SMALL).train(training)
    y = core(torch.randn(3, lookback, 2))
    assert y.shape == (3, horizon, 2, 3)
    y.square().sum().backward()
    assert y.isfinite().all()
    assert all(p.grad.isfinite().all() for p in core.parameters())


@each
def test_every_parameter_has_a_gradient(name):
    """Check in double precision, where gradients that cancel differ from small ones."""
    core = build_core(name, Task(12, 5, 3, outputs=2, context=2), **SMALL, layers=2).double()
    core(torch.randn(4, 12, 3).double(), torch.randn(4, 2).double()).square().sum().backward()
    for key, parameter in core.named_parameters():
        assert parameter.grad.abs().max() > 1e-6, key


@each
def test_windows_are_independent_in_training_too(name):
    core = build_core(name, Task(12, 5, 3), **SMALL, dropout=0.0, layers=2).double()
    past = torch.randn(4, 12, 3, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(core(past)[1].sum(), past)
    assert gradient[1].any()
    assert not gradient[[0, 2, 3]].any()


@each
def test_calendar_features_change_the_forecast(name):
    core = build_core(name, Task(12, 5, 3, context=2), **SMALL).eval()
    past = torch.randn(1, 12, 3).expand(2, -1, -1)
    first, second = core(past, torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
    assert (first - second).abs().max() > 1e-3


@each
def test_the_decoder_begins_with_the_last_label_steps(name):
    core = build_core(name, Task(12, 5, 3), **SMALL, label=4)
    seen = []
    core.embed_decoder.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    past = torch.randn(2, 12, 3)
    core(past)
    known = decompose(past, 25)[0] if name == "autoformer" else past
    assert torch.equal(seen[0], torch.cat([known[:, -4:], torch.zeros(2, 5, 3)], 1))
    assert build_core(name, Task(12, 5, 3), **SMALL).label == 6
    assert build_core(name, Task(12, 5, 3), **SMALL, label=12).label == 12
    for label in (0, 13, 2.5):
        with pytest.raises(FighterError) as error:
            build_core(name, Task(12, 5, 3), **SMALL, label=label)
        assert error.value.argument == "label"


@each
def test_with_a_head_of_zeros_seq2seq_forecasts_zero_and_autoformer_the_mean(name):
    core = build_core(name, Task(12, 5, 3, outputs=2), **SMALL).eval()
    for part in (core.head.weight, core.head.bias):
        torch.nn.init.zeros_(part)
    for block in core.decoder:
        if name == "autoformer":
            torch.nn.init.zeros_(block.trend.weight)
    past = torch.randn(2, 12, 3)
    level = past.mean(1) if name == "autoformer" else torch.zeros(2, 3)
    torch.testing.assert_close(core(past), level[:, None, :, None].expand(-1, 5, -1, 2))


@each
def test_a_cuda_graph_can_record_two_layers(name):
    """Tensors without values refuse any operation that would look at a value."""
    task = Task(12, 5, 3, outputs=2, context=2)
    for training in (False, True):
        with FakeTensorMode():
            core = build_core(name, task, **SMALL, layers=2).train(training)
            y = core(torch.randn(4, 12, 3), torch.randn(4, 2))
            y.square().sum().backward()
        assert y.shape == (4, 5, 3, 2)


@each
def test_mixed_precision_stays_near(name):
    chosen = (
        {} if name == "seq2seq" else {"factor": 100.0}
    )  # choose all, since rounding could change the choice
    core = build_core(name, Task(24, 5, 3), **SMALL, **chosen)
    past = torch.randn(4, 24, 3)
    exact = core.eval()(past)
    with torch.autocast("cpu", torch.bfloat16):
        y = core(past)
        y.float().square().sum().backward()
    assert (y - exact).abs().mean() < 0.05
    assert all(p.grad.isfinite().all() for p in core.parameters())
