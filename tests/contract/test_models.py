"""Rules that every registered model must obey."""

import pytest
import torch
from jaxtyping import TypeCheckError
from safetensors.torch import load, save
from torch._subclasses.fake_tensor import FakeTensorMode

from fighter.data.windows import Batch
from fighter.errors import FighterError
from fighter.models import MODELS, ForecastNet, Task, build_core

from ..pairs import pairs

SMALL = {"width": 16, "heads": 2, "layers": 1}
VARIANTS = {
    "cyclenet": ("cyclenet", {"width": 16}),
    "dlinear": ("dlinear", {"kernel": 5}),
    "gcn": ("gcn", {"width": 16}),
    "gfsa": ("gfsa", SMALL),
    "itransformer": ("itransformer", SMALL),
    "linear": ("linear", {}),
    "mean": ("mean", {}),
    "naive": ("naive", {}),
    "normlin": ("normlin", {"width": 16, "layers": 2, "channels": 4}),
    "patchtst": ("patchtst", {**SMALL, "patch": 4, "stride": 3}),
    "reformer": ("reformer", {**SMALL, "bucket_size": 2, "rounds": 2}),
    "repeat": ("repeat", {}),
    "transformer": ("transformer", SMALL),
    "seq2seq": ("seq2seq", SMALL),
    "informer": ("informer", {**SMALL, "layers": 2, "factor": 1}),
    "autoformer": ("autoformer", SMALL),
    "patchtst-hops": ("patchtst", {**SMALL, "patch": 4, "stride": 3, "kappa": 3}),
    "informer-hops": ("informer", {**SMALL, "factor": 1, "kappa": 4}),
    "fighter-plain": ("fighter", {**SMALL, "nodes": "time", "adjacency": "dynamic", "plain": True}),
    "fighter-patch": ("fighter", {**SMALL, "nodes": "patch", "adjacency": "cosine", "patch": 4}),
    "fighter-time": ("fighter", {**SMALL, "nodes": "time", "adjacency": "cosine"}),
    **{
        f"fighter-series-{kind}": ("fighter", {**SMALL, "nodes": "series", "adjacency": kind})
        for kind in ("lazy", "static", "dynamic", "cosine", "mixed")
    },
}
LOOKBACK, HORIZON = 12, 5
each = pytest.mark.parametrize("variant", VARIANTS)


def test_every_registered_model_is_here():
    # The pretrained network stands beside the frame, and has tests of its own.
    assert {name for name, _ in VARIANTS.values()} == set(MODELS) - {"pretrained"}


def build(variant: str, series: int, outputs: int = 3, seed: int = 0) -> ForecastNet:
    name, options = VARIANTS[variant]
    torch.manual_seed(seed)
    task = Task(LOOKBACK, HORIZON, series, outputs=outputs, context=2, period=4)
    core = build_core(name, task, **options)
    return ForecastNet(core, period=4, covariates=(1, 2))


def batch_of(count: int, series: int, missing: bool = False, seed: int = 1) -> Batch:
    draw = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=draw)

    past, future = normal(count, LOOKBACK, series), normal(count, HORIZON, series)
    seen = past_seen = future_seen = None
    if missing:
        seen = torch.rand(count, LOOKBACK + HORIZON, series, generator=draw) > 0.3
        seen[0, :LOOKBACK] = False  # a look-back without any value
        past_seen, future_seen = seen.split([LOOKBACK, HORIZON], 1)
    return Batch(
        past, future, past_seen, future_seen, torch.arange(count),
        normal(count, LOOKBACK, series, 1), normal(count, LOOKBACK + HORIZON, series, 2),
        normal(count, LOOKBACK + HORIZON, 2),
    )  # fmt: skip


@pairs(variant=VARIANTS, series=[1, 3], missing=[False, True])
def test_forecasts_have_the_right_shape_and_are_finite(variant, series, missing):
    batch = batch_of(4, series, missing)
    forecast = build(variant, series)(batch, batch.start)
    assert forecast.shape == (4, HORIZON, series, 3)
    assert forecast.isfinite().all()


@each
@pytest.mark.parametrize("missing", [False, True])
def test_gradients_reach_every_parameter(variant, missing):
    network = build(variant, 3)
    for parameter in network.parameters():  # one that starts at zero hides those before it
        if not parameter.any():
            torch.nn.init.normal_(parameter, std=0.1)
    batch = batch_of(4, 3, missing)
    forecast = network(batch, batch.start)
    if not list(network.parameters()):
        return
    forecast.square().sum().backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.any(), name


@each
def test_missing_values_have_no_effect(variant):
    network = build(variant, 3).eval()
    batch = batch_of(4, 3, missing=True)
    hidden = torch.where(batch.past_observed, batch.past, 1e6)
    again = network(batch._replace(past=hidden), batch.start)
    torch.testing.assert_close(again, network(batch, batch.start), rtol=0, atol=0)


@each
def test_a_full_mask_equals_no_mask(variant):
    network, batch = build(variant, 3).eval(), batch_of(4, 3)
    full = batch._replace(
        past_observed=torch.ones_like(batch.past, dtype=torch.bool),
        future_observed=torch.ones_like(batch.future, dtype=torch.bool),
    )
    torch.testing.assert_close(network(full, full.start), network(batch, batch.start))


@each
def test_a_forecast_does_not_depend_on_the_future(variant):
    network, batch = build(variant, 3).eval(), batch_of(4, 3)
    other = batch._replace(future=batch.future + 100)
    assert torch.equal(network(other, other.start), network(batch, batch.start))


@each
def test_windows_are_independent(variant):
    network, batch = build(variant, 3).eval(), batch_of(4, 3)
    alone = Batch(*(None if part is None else part[1:2] for part in batch))
    together = network(batch, batch.start)[1:2]
    torch.testing.assert_close(network(alone, alone.start), together, rtol=1e-4, atol=1e-5)


@each
def test_a_seed_determines_the_weights_and_a_file_keeps_them(variant):
    series = 1 if list(VARIANTS).index(variant) % 2 else 3
    first, second = build(variant, series, seed=3), build(variant, series, seed=3)
    for a, b in zip(first.state_dict().values(), second.state_dict().values(), strict=True):
        assert torch.equal(a, b)
    third = build(variant, series, seed=4)
    third.load_state_dict(load(save(first.state_dict())))
    batch = batch_of(2, series)
    assert torch.equal(third.eval()(batch, batch.start), first.eval()(batch, batch.start))


@each
def test_a_core_that_is_not_series_specific_forecasts_any_number_of_series(variant):
    core = build(variant, 3).core
    past, context = torch.randn(2, LOOKBACK, 5), torch.randn(2, 2)
    if not core.series_specific:
        assert core(past, context).shape == (2, HORIZON, 5, 3)
    else:
        assert core.alternative


@pytest.mark.parametrize("name", MODELS)
def test_short_windows_are_forecast(name):
    for lookback, horizon in [(2, 1), (2, 9), (3, 2), (33, 1)]:
        core = build_core(name, Task(lookback, horizon, 3, outputs=2, context=2))
        y = core(torch.randn(2, lookback, 3), torch.randn(2, 2))
        assert y.shape == (2, horizon, 3, 2), (lookback, horizon)


@each
def test_a_cuda_graph_can_record_a_step(variant):
    """Tensors without values refuse any operation that would look at a value."""
    name, options = VARIANTS[variant]
    task = Task(20, 4, 3, outputs=2, context=2, period=5)
    for training in (False, True):
        with FakeTensorMode(), torch.autocast("cpu", torch.bfloat16):
            core = build_core(name, task, **options).train(training)
            y = core(torch.empty(2, 20, 3), torch.empty(2, 2))
            if list(core.parameters()):
                y.float().sum().backward()


@pytest.mark.parametrize("name", MODELS)
def test_the_tests_check_the_shapes_of_every_core(name):
    core = build_core(name, Task(12, 4, 3))
    with pytest.raises((TypeCheckError, FighterError)):
        core(torch.zeros(12, 3))
