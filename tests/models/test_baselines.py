"""What defines each baseline, beyond the contract."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from fighter.data.windows import Batch
from fighter.errors import FighterError
from fighter.models import MODELS, ForecastNet, Task, build_core
from fighter.models.embedding import moving_average, time_basis
from fighter.models.gcn import lag_graph

from ..contract.test_models import SMALL, VARIANTS

TASK = Task(lookback=20, horizon=4, series=3, outputs=2, context=2, period=5)
PAST, CONTEXT = torch.randn(2, 20, 3), torch.randn(2, 2)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(("lookback", "horizon"), [(2, 1), (2, 9), (3, 2), (33, 1)])
def test_short_windows(name, lookback, horizon):
    core = build_core(name, Task(lookback, horizon, 3, outputs=2, context=2))
    assert core(torch.randn(2, lookback, 3), CONTEXT).shape == (2, horizon, 3, 2)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("training", [False, True])
def test_nothing_waits_for_a_value(variant, training):
    """Tensors without values refuse what a CUDA graph cannot hold: to be looked at on the way."""
    name, options = VARIANTS[variant]
    with FakeTensorMode(), torch.autocast("cpu", torch.bfloat16):
        core = build_core(name, TASK, **options).train(training)
        y = core(torch.empty(2, 20, 3), torch.empty(2, 2))
        if list(core.parameters()):
            y.float().sum().backward()


def test_dlinear_is_two_maps_of_what_the_average_splits():
    core = build_core("dlinear", TASK).eval()
    trend = moving_average(PAST, 25)
    maps = [core.trend.map, core.remainder.map]
    parts = [f(x.mT) for f, x in zip(maps, (trend, PAST - trend), strict=True)]
    wanted = sum(parts).unflatten(-1, (4, 2)).transpose(1, 2)
    torch.testing.assert_close(core(PAST), wanted)


def test_cyclenet_is_two_maps_of_what_the_cycle_leaves():
    network = ForecastNet(build_core("cyclenet", TASK, width=8), period=5).eval()
    network.cycle.profile.data.normal_()
    network.affine.factor.data.uniform_(0.5, 2)
    first, _, second = network.core.map
    start = torch.tensor([3, 11])
    y = network(Batch(PAST, PAST[:, :4], None, None, start), start)
    mean, std = PAST.mean(1, keepdim=True), PAST.var(1, correction=0, keepdim=True).add(1e-5).sqrt()
    steps = torch.stack([torch.arange(24) + place for place in start.tolist()]) % 5
    cycle = network.cycle.profile[steps]  # [2, 24, 3]
    x = ((PAST - mean) / std - cycle[:, :20]) * network.affine.factor
    hidden = (x.mT @ first.weight.T + first.bias).clamp(min=0)
    ahead = (hidden @ second.weight.T + second.bias).unflatten(-1, (4, 2)).transpose(1, 2)
    ahead = ahead / network.affine.factor[:, None] + cycle[:, 20:, :, None]
    torch.testing.assert_close(y, ahead * std[..., None] + mean[..., None])


def test_normlin_with_its_matrices_formed():
    core = build_core("normlin", TASK, width=8, layers=1, channels=3, hidden_width=10).eval()
    correlation = torch.rand(20)
    core.prepare(correlation)
    core.before.data.normal_()
    core.after.data.normal_()
    block, norm = core.encoder
    graph = block.mix.adjacency.logits[0].mul(10).exp().add(1).log()
    graph = graph / graph.sum(1, keepdim=True)
    near, far = time_basis(correlation, 20), time_basis(correlation, 4)
    seen = (PAST.mT + core.before) @ near  # [2, 3, 20]
    spread = (seen[..., None] * core.embed.vector).flatten(2)
    x = spread @ core.embed.weight.flatten(0, 1) + core.embed.bias + core.context(CONTEXT)[:, None]
    sent = graph @ (x @ block.mix.weight(0)) @ block.mix.mix.weight.T + block.mix.bias
    x = block.norm1(x + sent)
    x = norm(block.norm2(x + block.feed(x)))
    ahead = core.steps(x).unflatten(-1, (3, 4)) @ far.T + core.after
    wanted = core.head(ahead.flatten(2)).unflatten(-1, (4, 2)).transpose(1, 2)
    torch.testing.assert_close(core(PAST, CONTEXT), wanted)


def test_series_of_normlin_start_near_themselves():
    graph = build_core("normlin", Task(4, 1, 200), width=8, layers=1).encoder[0].mix.adjacency
    a = graph.graph(torch.zeros(1, 200, 8))[0, 0]
    others = (a.sum() - a.diagonal().sum()) / (200 * 199)
    assert 1.3 < a.diagonal().mean() / others < 2.3  # E softplus(1 + n) / E softplus(n) = 1.75


def test_patches_overlap_and_the_end_goes_on():
    core = build_core("patchtst", TASK, **SMALL)
    patches = core.patches(torch.arange(20.0).reshape(1, 20, 1))
    assert patches[0, 0, :, 0].tolist() == [0, 8]
    assert patches[0, 0, 1].tolist() == [*range(8, 20), *[19] * 4]
    long = build_core("patchtst", Task(96, 4, 1), **SMALL)
    assert long.patches(torch.randn(1, 96, 1)).shape == (1, 1, 12, 16)  # ⌊(96 - 16) / 8⌋ + 2


@pytest.mark.parametrize("name", ["patchtst", "itransformer"])
def test_series_are_alike(name):
    """In another order the forecasts come in that order; only iTransformer lets series mix."""
    core, order = build_core(name, TASK, **SMALL).eval(), [2, 0, 1]
    y = core(PAST, CONTEXT)
    torch.testing.assert_close(core(PAST[:, :, order], CONTEXT), y[:, :, order])
    moved = core(PAST + torch.tensor([0.0, 0.0, 1.0]), CONTEXT)
    mixed = not torch.allclose(moved[:, :, :2], y[:, :, :2])
    assert mixed == (name == "itransformer")


def test_the_lag_graph_is_what_it_says():
    a = lag_graph(9, 2, 5)
    torch.testing.assert_close(a.sum(1), torch.ones(9))
    links = [[s for s in range(9) if a[t, s]] for t in range(9)]
    assert links == [[0], [0], [0, 1], [1, 2], [2, 3], [0, 3, 4], [1, 4, 5], [2, 5, 6], [3, 6, 7]]
    assert a[6].unique().tolist() == pytest.approx([0, 1 / 3])
    assert torch.equal(lag_graph(4, 1), lag_graph(4, 1, 9))
    assert lag_graph(1, 3).tolist() == [[1]]
    with pytest.raises(FighterError, match="lags=0"):
        build_core("gcn", TASK, lags=0)


def test_gcn_is_eq_1_on_the_lag_graph():
    core = build_core("gcn", TASK, width=8, layers=2).eval()
    first, second, last = core.encoder.gcn.values
    x, a = core.embed(PAST) + core.position, lag_graph(20, 3, 5)
    for values in (first, second):
        w = values.weight.T.chunk(3, 1)
        x = sum(torch.linalg.matrix_power(a, i) @ x @ w[i] for i in range(3)).relu()
    torch.testing.assert_close(core.encoder(core.embed(PAST) + core.position), last(x))


def test_reformer_reads_the_steps_to_come():
    core = build_core("reformer", TASK, **SMALL).eval()
    x = core.embed(torch.cat([PAST, torch.zeros(2, 4, 3)], 1)) + core.position
    x = x + core.context(CONTEXT)[:, None]
    wanted = core.head(core.norm(core.encoder(x)[:, -4:])).unflatten(-1, (3, 2))
    torch.testing.assert_close(core(PAST, CONTEXT), wanted)


@pytest.mark.parametrize("nodes", ["series", "patch", "time"])
def test_plain_layers_are_the_printed_formula(nodes):
    core = build_core("fighter", TASK, **SMALL, nodes=nodes, adjacency="dynamic", plain=True).eval()
    (layer,) = core.encoder.layers
    assert {name.split(".")[0] for name, _ in layer.named_parameters()} == {"adjacency", "values"}
    x = core.node_features(PAST, CONTEXT)
    heads = [
        layer.graph(x, power=i) @ (x @ layer.weight(i)).unflatten(-1, (2, -1)).transpose(1, 2)
        for i in range(3)
    ]
    wanted = torch.nn.functional.gelu(sum(heads).transpose(1, 2).flatten(2))
    torch.testing.assert_close(core.encoder(x), wanted)
