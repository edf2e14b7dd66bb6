import pytest
import torch
from torch import nn

from fighter import FighterError
from fighter.explain import hop_parts, layer_edges
from fighter.nn import FighterLayer, TransformerEncoder

B, S, D = 3, 9, 8


def double(module):
    for parameter in module.parameters():  # biases of zero would hide mistakes
        nn.init.normal_(parameter, std=0.3)
    return module.double().eval()


class TimeHead(nn.Module):
    """The head of a forecaster over time steps; it returns one step of one series."""

    def __init__(self, width):
        super().__init__()
        self.over_time, self.head = nn.Linear(S, 4), nn.Linear(width, 2)

    def forward(self, y):
        return self.head(self.over_time(y.transpose(1, 2)).transpose(1, 2))[:, 2, 1]


def block(**options):
    return TransformerEncoder([D, D, D], heads=2, **options).layers[0]


FIGHTERS = [
    {"kappa": 1},
    {"kappa": 3},
    {"powers": (1,), "bias": False},
    {"kappa": 4, "norm": True, "residual": True},
    {"powers": (0, 2, 5), "project": True, "residual": True},
    {"mix_heads": True, "value_width": 4, "out_width": 6},
    {"mix_heads": True, "project": True, "norm": True, "residual": True},
    {"adjacency": "mixed", "nodes": S, "norm": True},
    {"adjacency": "lazy", "nodes": S, "norm": True, "residual": True},
    {"adjacency": "lazy", "nodes": S, "powers": (0, 3)},
]
TRANSFORMERS = [
    {},
    {"bias": False},
    {"residual": True},
    {"norm": True},
    {"norm": True, "residual": True, "hidden_width": 12},
]


def check_complete(layer, activation):
    layer.activation = activation
    layer = double(layer)
    x = torch.randn(B, S, D, dtype=torch.float64)
    y = layer(x)
    readout = double(TimeHead(y.shape[-1]))
    split = layer_edges(layer, x, readout)
    f = readout(y)
    torch.testing.assert_close(split.total, f, rtol=0, atol=1e-12)
    added = split.edges.sum((1, 2, 3, 4)) + split.skip + split.constant
    torch.testing.assert_close(added, f, rtol=0, atol=1e-10)
    assert split.edges.shape == (B, layer.heads, len(split.powers), S, S)
    assert not split.edges.requires_grad
    assert (split.skip != 0).all() == layer.residual
    torch.testing.assert_close(split.graph().sum((1, 2)), split.edges.sum((1, 2, 3, 4)))
    assert (split.slack() >= 1).all()


class Sigmoid(nn.Module):
    def forward(self, u):
        return u.sigmoid()  # not 0 at 0


ACTIVATIONS = [nn.ReLU(), nn.SiLU(), nn.Identity()]


def pairs(options):
    """All options with two activations, and all activations with the last options."""
    usual = [(each, activation) for each in options for activation in (nn.GELU(), Sigmoid())]
    return usual + [(options[-1], activation) for activation in ACTIVATIONS]


@pytest.mark.parametrize(("options", "activation"), pairs(FIGHTERS), ids=str)
def test_edges_skip_and_constant_add_up_in_a_fighter_layer(options, activation):
    check_complete(FighterLayer(D, heads=2, **options), activation)


@pytest.mark.parametrize(("options", "activation"), pairs(TRANSFORMERS), ids=str)
def test_edges_skip_and_constant_add_up_in_a_transformer_block(options, activation):
    check_complete(block(**options), activation)


def test_an_edge_is_what_its_source_sent_by_its_hop():
    """Remove the value of one node from one block: F loses exactly the edges from it."""
    layer = double(FighterLayer(D, kappa=3, heads=2, norm=True, activation="identity"))
    readout = double(TimeHead(D))
    x = torch.randn(B, S, D, dtype=torch.float64)
    parts, split = hop_parts(layer, x), layer_edges(layer, x, readout)
    for hop, power in enumerate(layer.powers):
        sent = torch.linalg.matrix_power(layer.graph(x), power)[:, 1, :, 4, None]
        sent = sent * parts.values[hop][:, 1, 4, None]  # [B, S, width], head 1, node 4
        y = layer(x)
        y[:, :, D // 2 :] -= sent
        lost = readout(layer(x)) - readout(y)
        torch.testing.assert_close(split.edges[:, 1, hop, :, 4].sum(-1), lost)


def test_what_stays_at_a_node_of_a_lazy_graph_counts_as_hop_0():
    layer = double(FighterLayer(D, powers=(1, 2), heads=2, adjacency="lazy", nodes=S))
    x = torch.randn(B, S, D, dtype=torch.float64)
    parts = hop_parts(layer, x)
    assert parts.powers == (0, 1, 2)
    layer.adjacency.stay = 0.0
    torch.testing.assert_close(parts.graph, layer.graph(x), rtol=0, atol=1e-12)
    layer.adjacency.stay = 0.5
    (first, second), v = layer.blocks(x), parts.values  # (I + P)/2 V₁ + (I + 2P + P²)/4 V₂
    torch.testing.assert_close(v[0], first / 2 + second / 4, rtol=0, atol=1e-12)
    torch.testing.assert_close(v[1], first / 2 + second / 2, rtol=0, atol=1e-12)
    torch.testing.assert_close(v[2], second / 4, rtol=0, atol=1e-12)


def test_a_lazy_layer_with_a_mask_is_split_by_its_own_powers():
    layer = double(FighterLayer(D, powers=(1, 2), heads=2, adjacency="lazy", nodes=S))
    mask = torch.arange(S) < torch.tensor([[S], [5], [7]])
    x = torch.randn(B, S, D, dtype=torch.float64)
    assert hop_parts(layer, x, mask).powers == (1, 2)
    split = layer_edges(layer, x, lambda y: (y.sum(-1) * mask).sum(-1), mask)
    added = split.edges.sum((1, 2, 3, 4)) + split.skip + split.constant
    torch.testing.assert_close(added, (layer(x, mask).sum(-1) * mask).sum(-1))


def test_a_readout_of_one_node_has_edges_into_that_node_only():
    layer = double(FighterLayer(D, kappa=3, residual=True))
    split = layer_edges(layer, torch.randn(B, S, D, dtype=torch.float64), lambda y: y[:, 2].sum(-1))
    elsewhere = torch.arange(S) != 2
    assert (split.edges[..., elsewhere, :] == 0).all()
    assert (split.edges[..., 2, :] != 0).sum() > S
    off_diagonal = ~torch.eye(S, dtype=torch.bool)
    assert (split.edges[:, :, 0, off_diagonal] == 0).all()  # hop 0 is the node itself


def test_the_edges_of_a_linear_model_match_their_formula():
    """F = Σⱼ cⱼ Yⱼ, Y = A X w: the edge from s to j is cⱼ Aⱼₛ xₛ w."""
    layer = double(FighterLayer(1, powers=(1,), activation="identity", bias=False))
    x, c = torch.randn(B, S, 1, dtype=torch.float64), torch.randn(S, dtype=torch.float64)
    split = layer_edges(layer, x, lambda y: (y[..., 0] * c).sum(-1))
    expected = layer.graph(x)[:, 0] * c[:, None] * (x[:, None, :, 0] * layer.weight(0).squeeze())
    torch.testing.assert_close(split.edges[:, 0, 0], expected)


@pytest.mark.parametrize("make", [lambda: FighterLayer(D, heads=2, norm=True), block])
def test_padding_has_no_edges_and_does_not_change_others(make):
    layer = double(make())
    mask = torch.arange(S) < torch.tensor([[S], [5], [7]])
    x = torch.randn(B, S, D, dtype=torch.float64)

    def mean(y, mask=mask):
        return (y.sum(-1) * mask).sum(-1)

    split = layer_edges(layer, x.masked_fill(~mask[..., None], float("nan")), mean, mask)
    torch.testing.assert_close(split.total, mean(layer(x, mask)))
    alone = layer_edges(layer, x[1:2, :5], lambda y: y.sum((1, 2)))
    torch.testing.assert_close(split.edges[1:2, ..., :5, :5], alone.edges)
    assert (split.edges[1, ..., 5:] == 0).all()
    assert (split.edges[1, ..., 5:, :] == 0).all()


def test_a_causal_layer_has_edges_from_the_past_only():
    layer = double(FighterLayer(D, kappa=3))
    x = torch.randn(B, S, D, dtype=torch.float64)
    split = layer_edges(layer, x, lambda y: y.sum((1, 2)), causal=True)
    torch.testing.assert_close(split.total, layer(x, causal=True).sum((1, 2)))
    assert (split.edges.triu(1) == 0).all()


def test_dropout_is_off_and_single_precision_is_enough():
    layer = FighterLayer(D, kappa=3, dropout=0.5, residual=True)
    x = torch.randn(B, S, D)
    split = layer_edges(layer.train(), x, lambda y: y.sum((1, 2)))
    torch.testing.assert_close(split.total, layer.eval()(x).sum((1, 2)))


def test_edges_need_no_gradients_of_parameters():
    layer = FighterLayer(D).requires_grad_(False)
    with torch.no_grad():
        split = layer_edges(layer, torch.randn(B, S, D), lambda y: y.sum((1, 2)))
    assert split.edges.abs().sum() > 0


@pytest.mark.parametrize(
    ("layer", "readout", "argument", "message"),
    [
        (FighterLayer(D), lambda y: y.square().sum((1, 2)), "readout", "not affine"),
        (FighterLayer(D), lambda y: y.sum(), "readout", r"float32 \[\]; .* \[3\]"),
        (nn.Linear(D, D), lambda y: y.sum((1, 2)), "layer", "not Linear"),
    ],
)
def test_errors_name_the_argument(layer, readout, argument, message):
    with pytest.raises(FighterError, match=message) as error:
        layer_edges(layer, torch.randn(B, S, D), readout)
    assert error.value.argument == argument
