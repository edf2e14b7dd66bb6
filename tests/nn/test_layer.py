import pytest
import torch

from fighter import FighterError
from fighter.nn import FighterEncoder, FighterLayer


def double(module):
    for parameter in module.parameters():  # biases start at zero and would hide mistakes
        torch.nn.init.normal_(parameter, std=0.3)
    return module.double().eval()


def literal(layer, x, mask=None):
    """The layer as its docstring writes it, with every power of A formed."""
    t = layer.norm(x)
    terms = []
    for i, power in enumerate(layer.powers):
        value = (t @ layer.weight(i)).unflatten(-1, (layer.heads, -1)).transpose(1, 2)
        terms.append(layer.graph(x, power=power, mask=mask) @ value)
    u = layer.mix(sum(terms).transpose(1, 2).flatten(2)) + layer.bias
    y = layer.project(layer.activation(u))
    return x + y if layer.residual else y


@pytest.mark.parametrize("backend", ["stored", "sdpa"])
@pytest.mark.parametrize("heads", [1, 4])
@pytest.mark.parametrize(
    "options",
    [
        {"kappa": 1},
        {"kappa": 2},
        {"kappa": 3, "out_width": 12},
        {"kappa": 5, "norm": True, "residual": True},
        {"powers": (1,)},
        {"powers": (0, 2, 5), "project": True, "residual": True},
        {"mix_heads": True, "activation": "relu"},
        {"mix_heads": True, "value_width": 4, "activation": "silu"},
        {"adjacency": "mixed", "nodes": 9, "norm": True, "project": True, "mix_heads": True},
    ],
)
def test_a_layer_is_its_formula(options, heads, backend):
    layer = double(FighterLayer(8, heads=heads, backend=backend, **options))
    x = torch.randn(3, 9, 8, dtype=torch.float64)
    torch.testing.assert_close(layer(x), literal(layer, x), rtol=1e-11, atol=1e-12)


def test_a_graph_can_be_asked_for_at_any_power():
    layer = double(FighterLayer(8, kappa=3, heads=2, norm=True))
    x = torch.randn(3, 9, 8, dtype=torch.float64)
    a = layer.graph(x)
    assert a.shape == (3, 2, 9, 9)
    assert not a.requires_grad
    torch.testing.assert_close(layer.graph(x, power=2), a @ a)
    assert (layer.graph(x, power=0) == torch.eye(9)).all()
    assert (FighterLayer(8, kappa=1).graph(x.float()) == torch.eye(9)).all()


@pytest.mark.parametrize("content", [7.0, float("nan")])
@pytest.mark.parametrize("kappa", [2, 4])
@pytest.mark.parametrize("causal", [False, True])
def test_padding_reaches_neither_outputs_nor_weights(content, kappa, causal):
    encoder = double(FighterEncoder([8, 8, 8], kappa=kappa, heads=2))
    mask = torch.arange(9) < torch.tensor([[9], [5], [1]])

    x = torch.randn(3, 9, 8, dtype=torch.float64)

    def run(fill):
        encoder.zero_grad()
        y = encoder(x.masked_fill(~mask[..., None], fill), mask, causal)[mask]
        y.square().sum().backward()
        return y, [p.grad.clone() for p in encoder.parameters()]

    (clean, clean_gradients), (dirty, dirty_gradients) = run(0.0), run(content)
    assert torch.isfinite(clean).all()
    torch.testing.assert_close(dirty, clean)
    torch.testing.assert_close(dirty_gradients, clean_gradients)
    alone = encoder(x[1:2, :5], causal=causal)
    torch.testing.assert_close(clean[9:14], alone[0])


def test_an_encoder_is_its_layers_and_the_last_has_no_activation():
    encoder = double(FighterEncoder([3, 8, 8, 2], kappa=(3, 2, 1), heads=(2, 4, 1)))
    assert [layer.powers for layer in encoder.layers] == [(0, 1, 2), (0, 1), (0,)]
    assert [layer.residual for layer in encoder.layers] == [False, True, False]
    assert isinstance(encoder.layers[-1].activation, torch.nn.Identity)
    x = torch.randn(2, 9, 3, dtype=torch.float64)
    y = x
    for layer in encoder.layers:
        y = literal(layer, y)
    torch.testing.assert_close(encoder(x), y, rtol=1e-11, atol=1e-12)
    graphs = encoder.graphs(x)
    assert [g.shape for g in graphs] == [(2, 2, 9, 9), (2, 4, 9, 9), (2, 1, 9, 9)]
    torch.testing.assert_close(graphs[1], encoder.layers[1].graph(encoder.layers[0](x)))


def test_under_a_residual_the_projection_after_the_activation_is_not_redundant():
    """Without it a ReLU layer can only raise what it adds to, so x - relu(x)/2 is out of reach."""
    x = torch.linspace(-2, 2, 64)[None, :, None]
    target = x - x.relu() / 2
    floor = (x.relu() / 2).square().mean()  # the best of all outputs that are at least x

    def fit(project):
        layer = FighterLayer(1, kappa=1, residual=True, project=project, activation="relu")
        optimiser = torch.optim.Adam(layer.parameters(), lr=0.03)
        for _ in range(300):
            loss = (layer(x) - target).square().mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        return loss.item()

    assert min(fit(project=False) for _ in range(3)) >= 0.999 * floor
    assert min(fit(project=True) for _ in range(3)) < 0.01 * floor


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FighterLayer(10, heads=3), "heads=3 does not divide out_width=10"),
        (lambda: FighterLayer(8, kappa=0), "kappa=0: needs a whole number ≥ 1"),
        (lambda: FighterLayer(8, kappa=2.5), "kappa=2.5"),
        (lambda: FighterLayer(8, powers=()), "at least one power"),
        (lambda: FighterLayer(8, 4, residual=True), "out_width=4 to be width=8"),
        (lambda: FighterLayer(8, value_width=4), "needs mix_heads=True"),
        (lambda: FighterLayer(8, activation="tanhh"), "activation='tanhh': needs one of relu"),
        (lambda: FighterLayer(8, backend="fast"), "backend='fast'"),
        (lambda: FighterLayer(8)(torch.randn(2, 5, 7)), r"x is float32 \[2, 5, 7\].*width=8"),
        (lambda: FighterLayer(8)(torch.randn(5, 8)), r"needs \[batch, nodes, width=8\]"),
        (lambda: FighterLayer(8)(torch.ones(2, 5, 8, dtype=torch.int64)), "floating-point"),
        (lambda: FighterLayer(8)(torch.randn(2, 5, 8), torch.ones(2, 4) > 0), r"bool \[2, 4\]"),
        (lambda: FighterLayer(8)(torch.randn(2, 5, 8), torch.ones(2, 5)), r"float32 \[2, 5\]"),
        (lambda: FighterLayer(8)(torch.randn(2, 5, 8), torch.zeros(2, 5) > 0), "every node out"),
        (lambda: FighterEncoder([8]), r"widths=\[8\]: needs the width coming in"),
        (lambda: FighterEncoder([8, 8, 8], kappa=[3]), "there are 2 layers"),
    ],
)
def test_misuse_is_explained(make, message):
    with pytest.raises(FighterError, match=message):
        make()
