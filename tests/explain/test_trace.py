from itertools import product

import pytest
import torch

from fighter.errors import FighterError
from fighter.explain import Frozen, layer_edges, trace
from fighter.models import Task, build_core
from fighter.nn import FighterEncoder, FighterLayer, TransformerEncoder
from fighter.nn.transformer import TransformerBlock
from paper.studies.attributions import gradient_input

from ..contract.test_models import HORIZON, LOOKBACK, VARIANTS, build

SERIES = 3


def setting(variant: str):
    core = build(variant, SERIES).core.double().eval()
    context = torch.randn(1, 2, dtype=torch.float64)
    x = torch.randn(LOOKBACK, SERIES, dtype=torch.float64)
    return core, lambda z: core(z, context.expand(len(z), -1)), x


def one(y):
    return y[HORIZON // 2, 1, 0]


@pytest.mark.parametrize("variant", VARIANTS)
def test_inputs_and_constant_add_up(variant):
    core, function, x = setting(variant)
    result = trace(core, function, x, one)
    torch.testing.assert_close(result.total, one(function(x[None])[0]), rtol=1e-10, atol=1e-12)
    total = result.inputs.sum() + result.constant
    torch.testing.assert_close(total, result.total, rtol=1e-10, atol=1e-12)


OPTIONS = {
    "nodes": "series", "adjacency": "static", "width": 8, "heads": 2, "layers": 2, "kappa": 3,
    "plain": True, "dropout": 0.0,
}  # fmt: skip


def walks(graph, power):
    """Return the powers of A by the number of steps to another node, by listing all walks."""
    eye = torch.eye(graph.shape[-1]).to(graph)
    found = [torch.zeros_like(graph) for _ in range(power + 1)]
    for kinds in product((0, 1), repeat=power):
        a = eye.expand_as(graph)
        for goes in kinds:
            a = (graph * (1 - eye) if goes else graph * eye) @ a
        found[sum(kinds)] += a
    return found


def test_hops_add_up_over_layers():
    """In two layers without skip, hop k is the sum over all walks with k steps to other nodes."""
    torch.manual_seed(0)
    core = build_core("fighter", Task(LOOKBACK, HORIZON, SERIES), **OPTIONS).double().eval()
    x = torch.randn(LOOKBACK, SERIES, dtype=torch.float64)
    result = trace(core, core, x, one)
    assert len(result.inputs) == 5
    frozen_gates = []
    hooks = [
        layer.activation.register_forward_hook(
            lambda module, args, y: frozen_gates.append(y / args[0])
        )
        for layer in core.encoder.layers
    ]
    head = core.head[1].register_forward_hook(
        lambda module, args, y: frozen_gates.append(y / args[0])
    )
    core(x[None])
    for hook in (*hooks, head):
        hook.remove()
    expected = torch.zeros(5, LOOKBACK, SERIES, dtype=torch.float64)
    counts = [(power, edges) for power in range(3) for edges in range(power + 1)]
    for pair in product(counts, repeat=2):
        start = x[None].clone().requires_grad_()
        nodes = core.node_features(start, None) - core.embed.bias
        for layer, (power, edges), gate in zip(
            core.encoder.layers, pair, frozen_gates[:2], strict=True
        ):
            block = layer.blocks(nodes)[power]
            moved = walks(layer.graph(nodes), power)[edges] @ block
            nodes = gate * moved.transpose(1, 2).flatten(2)
        hidden = frozen_gates[2] * (nodes @ core.head[0].weight.T)
        y = (hidden @ core.head[2].weight.T).unflatten(-1, (1, HORIZON)) @ core.basis.T
        (slope,) = torch.autograd.grad(y[0, 1, 0, HORIZON // 2], start)
        expected[pair[0][1] + pair[1][1]] += (slope * x)[0]
    torch.testing.assert_close(result.inputs, expected, rtol=1e-9, atol=1e-12)


def scale(hop, theta):
    """Multiply the edges between different nodes."""

    def scaled(b):
        stay = hop(torch.eye(b.shape[-2]).to(b).expand(*b.shape[:-1], b.shape[-2]))
        stay = stay.diagonal(dim1=-2, dim2=-1)[..., None]
        return theta * hop(b) + (1 - theta) * stay * b

    return scaled


WHOLE = {
    "series": ("fighter", {"nodes": "series", "adjacency": "mixed", "layers": 3}),
    "time": ("fighter", {"nodes": "time", "adjacency": "cosine", "powers": (0, 2, 3)}),
    "patch": ("fighter", {"nodes": "patch", "adjacency": "dynamic", "patch": 4, "stride": 2}),
    "transformer": ("transformer", {"layers": 2}),
    "itransformer": ("itransformer", {"layers": 3}),
}


@pytest.mark.parametrize("kind", WHOLE)
def test_the_part_of_k_hops_grows_with_the_power_k_of_the_edges(kind, monkeypatch):
    """With its edges between nodes times θ the frozen network is a polynomial in θ.

    Its coefficients are the hops.
    """
    torch.manual_seed(0)
    name, options = WHOLE[kind]
    core = build_core(name, Task(LOOKBACK, HORIZON, SERIES), width=8, heads=2, **options)
    core = core.double().eval()
    x = torch.randn(LOOKBACK, SERIES, dtype=torch.float64)
    inputs, frozen = trace(core, core, x, one).inputs, Frozen(core, x[None])
    hop, attend = FighterLayer._hop, TransformerBlock.attend
    for theta in (1.0, 0.7, -0.4, 0.0):
        monkeypatch.setattr(FighterLayer, "_hop", lambda *a, by=theta: scale(hop(*a), by))
        monkeypatch.setattr(
            TransformerBlock, "attend", lambda me, h, v, by=theta: attend(me, scale(h, by), v)
        )
        expected = gradient_input(lambda z: one(frozen(z)[0]), x[None])[0]
        powers = theta ** torch.arange(len(inputs), dtype=torch.float64)
        result = (powers[:, None, None] * inputs).sum(0)
        torch.testing.assert_close(result, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("make", [FighterEncoder, TransformerEncoder])
@pytest.mark.parametrize("causal", [False, True])
def test_masks_of_the_call_are_respected(make, causal):
    """Padding has no part, a causal layer uses only the past, and edges add up in both cases."""
    torch.manual_seed(0)
    encoder = make([4, 4, 4, 4], norm=True, residual=True, heads=2).double().eval()
    mask = torch.arange(7)[None] < 6
    x = torch.randn(7, 4, dtype=torch.float64)
    result = trace(encoder, lambda x: encoder(x, mask, causal=causal), x, lambda y: y[4].sum())
    torch.testing.assert_close(result.inputs.sum() + result.constant, result.total)
    assert not result.inputs[:, 6].any()
    assert result.inputs[1, 5].any() == (not causal)
    assert result.layers
    for layer in result.layers:
        assert not layer.edges[..., 6].any()
        assert layer.edges[..., 5].any() == (not causal)


def test_a_layer_that_is_called_twice_counts_twice():
    torch.manual_seed(0)
    layer = FighterLayer(4, kappa=3, heads=2, norm=True, residual=True).double().eval()
    twice = torch.nn.Sequential(layer, layer)
    twin = torch.nn.Sequential(layer, FighterLayer(4, kappa=3, heads=2, norm=True, residual=True))
    twin[1].load_state_dict(layer.state_dict())
    x = torch.randn(7, 4, dtype=torch.float64)
    result, expected = (trace(net, net, x, lambda y: y[2, 1]) for net in (twice, twin.double()))
    assert len(result.inputs) == 5
    assert len(result.layers) == 2
    torch.testing.assert_close(result.inputs, expected.inputs)


def test_an_error_if_the_graph_is_not_the_one_the_network_used(monkeypatch):
    """The parts come from layer.graph, the total from the network."""
    core, function, x = setting("fighter-series-mixed")
    graph = FighterLayer.graph
    monkeypatch.setattr(FighterLayer, "graph", lambda *args, **more: graph(*args, **more).mT)
    with pytest.raises(FighterError, match="cannot be frozen"):
        trace(core, function, x, one)


@pytest.mark.parametrize("variant", ["fighter-time", "fighter-plain"])
def test_edges_equal_those_of_layer_edges(variant):
    core, function, x = setting(variant)
    (result,) = trace(core, function, x, one).layers
    layer, seen = core.encoder.layers[0], []
    hook = layer.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    function(x[None])
    hook.remove()
    alone = layer_edges(layer, seen[0], lambda y: one(core.readout(y, SERIES)[0])[None])
    torch.testing.assert_close(result.edges, alone.edges, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(result.rest, (alone.skip + alone.constant)[0])


def test_patches_of_other_series_have_no_part():
    core, function, x = setting("fighter-patch")
    result = trace(core, function, x, one)
    assert not result.inputs[:, :, [0, 2]].any()
    assert result.inputs[:, :, 1].any()
    assert not result.layers[0].edges[[0, 2]].any()


def test_dropout_is_off_and_the_training_mode_is_restored():
    core, function, x = setting("fighter-time")
    expected = trace(core, function, x, one).inputs
    core.train()
    core.encoder.layers[0].dropout.p = 0.5
    assert torch.equal(trace(core, function, x, one).inputs, expected)
    assert core.training
    assert core.encoder.layers[0].training


def test_an_error_if_the_network_cannot_be_frozen():
    core, function, x = setting("fighter-time")
    with pytest.raises(FighterError, match="cannot be frozen"):
        trace(core, lambda z: function(z).exp(), x, one)


@pytest.mark.parametrize(
    "variant", ["itransformer", "fighter-series-static", "fighter-series-mixed"]
)
def test_without_a_hop_only_the_target_series_has_a_part(variant):
    core, function, x = setting(variant)
    inputs = trace(core, function, x, one).inputs
    assert inputs[0, :, 1].any()
    assert not inputs[0, :, [0, 2]].any()
    assert inputs[1][:, [0, 2]].all()  # one hop reaches every other series
    assert not inputs[1][:, 1].any()  # and what leaves the target needs another one to return


def test_the_one_hop_of_a_transformer_block_is_its_attention():
    core, function, x = setting("transformer")
    block = core.encoder.layers[0]
    with torch.no_grad():
        block.value.weight.zero_()
    inputs = trace(core, function, x, one).inputs
    assert inputs[0].all()
    assert not inputs[1].any()


def test_a_block_with_another_filter_of_the_graph_has_no_edges():
    core, function, x = setting("gfsa")
    result = trace(core, function, x, one)
    assert result.layers == []
    assert len(result.inputs) == 1


def test_a_single_node_walks_no_hops():
    torch.manual_seed(0)
    core = build_core("fighter", Task(LOOKBACK, HORIZON, 1), **{**OPTIONS, "adjacency": "lazy"})
    x = torch.randn(LOOKBACK, 1, dtype=torch.float64)
    inputs = trace(core.double(), core, x, lambda y: y[0, 0, 0]).inputs
    assert inputs[0].any()
    assert not inputs[1:].any()


def test_a_network_that_ends_in_softmax_is_refused():
    torch.manual_seed(0)
    scores = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.GELU(), torch.nn.Linear(4, 3))
    whole = torch.nn.Sequential(scores, torch.nn.Softmax(-1)).double()
    x = torch.randn(4, dtype=torch.float64)
    with pytest.raises(FighterError, match="the scores before it"):
        trace(whole, whole, x, lambda y: y[1])
    result = trace(scores, scores, x, lambda y: y[1])
    torch.testing.assert_close(result.inputs.sum() + result.constant, scores(x)[1])
    constant = torch.nn.Linear(4, 3).double()
    torch.nn.init.zeros_(constant.weight)  # a network that uses nothing is no error
    assert not trace(constant, constant, x, lambda y: y[1]).inputs.any()


@pytest.mark.parametrize("kind", ["gru", "product"])
def test_networks_that_cannot_be_frozen_are_refused(kind):
    torch.manual_seed(0)
    gru = torch.nn.GRU(4, 4, batch_first=True).double()
    mix = torch.nn.Linear(4, 4).double()
    functions = {"gru": lambda x: gru(x)[0], "product": lambda x: x * mix(x)}
    with pytest.raises(FighterError, match="cannot be frozen"):
        trace(gru, functions[kind], torch.randn(3, 4, dtype=torch.float64), lambda y: y[2, 1])
