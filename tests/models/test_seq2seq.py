"""Encoder–decoder cores: sizes, what the decoder begins with, and what each part is for."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from fighter import FighterError
from fighter.models import Task, build_core
from fighter.models.autoformer import decompose
from fighter.models.informer import Distil, ProbSparse

SMALL = {"width": 16, "heads": 2}
each = pytest.mark.parametrize("name", ["seq2seq", "informer", "autoformer"])


@each
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize(
    ("lookback", "horizon"), [(1, 1), (2, 1), (2, 5), (3, 1), (5, 40), (96, 2)]
)
def test_any_size(name, training, lookback, horizon):
    core = build_core(name, Task(lookback, horizon, 2, outputs=3), **SMALL).train(training)
    y = core(torch.randn(3, lookback, 2))
    assert y.shape == (3, horizon, 2, 3)
    y.square().sum().backward()
    assert y.isfinite().all()
    assert all(p.grad.isfinite().all() for p in core.parameters())


@each
def test_no_parameter_is_idle(name):
    """In double precision, where what cancels is told from what is small."""
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
def test_the_moment_of_the_forecast_is_heard(name):
    core = build_core(name, Task(12, 5, 3, context=2), **SMALL).eval()
    past = torch.randn(1, 12, 3).expand(2, -1, -1)
    first, second = core(past, torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
    assert (first - second).abs().max() > 1e-3


@each
def test_label_is_what_the_decoder_sees_of_the_past(name):
    core = build_core(name, Task(12, 5, 3), **SMALL, label=4)
    seen = []
    core.embed_decoder.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    past = torch.randn(2, 12, 3)
    core(past)
    known = decompose(past, 25)[0] if name == "autoformer" else past
    assert torch.equal(seen[0], torch.cat([known[:, -4:], torch.zeros(2, 5, 3)], 1))
    assert build_core(name, Task(12, 5, 3), **SMALL).label == 6
    for label in (0, 13, 2.5):
        with pytest.raises(FighterError, match=f"label={label}: needs .* from 1 to lookback 12"):
            build_core(name, Task(12, 5, 3), **SMALL, label=label)


@each
def test_an_untouched_decoder_would_forecast_the_head_of_its_norm_and_the_trend(name):
    """With the head at zero Seq2Seq forecasts its bias, Autoformer goes on from the mean."""
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
@pytest.mark.parametrize("training", [False, True])
def test_no_value_is_asked_for_on_the_way(name, training):
    """A CUDA graph can hold the step: tensors without values pass, so nothing depends on one."""
    task = Task(12, 5, 3, outputs=2, context=2)
    with FakeTensorMode():
        core = build_core(name, task, **SMALL, layers=2).train(training)
        y = core(torch.randn(4, 12, 3), torch.randn(4, 2))
        y.square().sum().backward()
    assert y.shape == (4, 5, 3, 2)


@each
def test_mixed_precision_stays_near(name):
    chosen = {} if name == "seq2seq" else {"factor": 100.0}  # all, or rounding could change which
    core = build_core(name, Task(24, 5, 3), **SMALL, **chosen)
    past = torch.randn(4, 24, 3)
    exact = core.eval()(past)
    with torch.autocast("cpu", torch.bfloat16):
        y = core(past)
        y.float().square().sum().backward()
    assert (y - exact).abs().mean() < 0.05
    assert all(p.grad.isfinite().all() for p in core.parameters())


def test_informer_distils_between_layers_and_attends_sparsely():
    task = Task(12, 5, 3)
    lengths = []
    core = build_core("informer", task, **SMALL, layers=3)
    core.encoder.register_forward_hook(lambda *given: lengths.append(given[2].shape[1]))
    core(torch.randn(2, 12, 3))
    assert lengths == [3]  # 12, 6, 3
    for options in ({"layers": 1}, {"layers": 3, "distil": False}):
        core = build_core("informer", task, **SMALL, **options)
        assert not any(isinstance(part, Distil) for part in core.modules())
        sparse = sum(isinstance(part, ProbSparse) for part in core.modules())
        assert sparse == options["layers"] + 1


def test_informer_with_every_query_chosen_is_seq2seq():
    task = Task(12, 5, 3, context=2)
    plain = build_core("seq2seq", task, **SMALL).eval()
    sparse = build_core("informer", task, **SMALL, factor=100, distil=False).eval()
    sparse.load_state_dict(plain.state_dict())
    past, context = torch.randn(2, 12, 3), torch.randn(2, 2)
    torch.testing.assert_close(sparse(past, context), plain(past, context))
