import pytest
import torch

from fighter import FighterError
from fighter.nn import FighterEncoder, FighterLayer

from ..pairs import pairs


def double(module):
    for parameter in module.parameters():  # biases start at zero and would hide mistakes
        torch.nn.init.normal_(parameter, std=0.3)
    return module.double().eval()


def literal(layer, x, mask=None):
    """Compute the layer as its docstring writes it, with every power of A formed."""
    t = layer.norm(x)
    terms = []
    for i, power in enumerate(layer.powers):
        value = (t @ layer.weight(i)).unflatten(-1, (layer.heads, -1)).transpose(1, 2)
        terms.append(layer.graph(x, power=power, mask=mask) @ value)
    u = layer.mix(sum(terms).transpose(1, 2).flatten(2)) + layer.bias
    y = layer.project(layer.activation(u))
    return x + y if layer.residual else y


OPTIONS = {
    "κ=1": {"kappa": 1},
    "κ=2": {"kappa": 2},
    "κ=3": {"kappa": 3, "out_width": 12},
    "κ=5": {"kappa": 5, "norm": True, "residual": True},
    "attention": {"powers": (1,)},
    "powers": {"powers": (0, 2, 5), "project": True, "residual": True},
    "mixed heads": {"mix_heads": True, "activation": "relu"},
    "narrow values": {"mix_heads": True, "value_width": 4, "activation": "silu"},
    "mixed": {"adjacency": "mixed", "nodes": 9, "norm": True, "project": True, "mix_heads": True},
}


@pairs(options=OPTIONS, heads=[1, 4], backend=["stored", "sdpa"])
def test_a_layer_is_its_formula(options, heads, backend):
    layer = double(FighterLayer(8, heads=heads, backend=backend, **OPTIONS[options]))
    x = torch.randn(3, 9, 8, dtype=torch.float64)
    torch.testing.assert_close(layer(x), literal(layer, x), rtol=1e-11, atol=1e-12)


def test_the_graph_is_available_at_any_power():
    layer = double(FighterLayer(8, kappa=3, heads=2, norm=True))
    x = torch.randn(3, 9, 8, dtype=torch.float64)
    a = layer.graph(x)
    assert a.shape == (3, 2, 9, 9)
    assert not a.requires_grad
    torch.testing.assert_close(layer.graph(x, power=2), a @ a)
    assert (layer.graph(x, power=0) == torch.eye(9)).all()
    assert (FighterLayer(8, kappa=1).graph(x.float()) == torch.eye(9)).all()


@pairs(content=[7.0, float("nan")], kappa=[2, 4], causal=[False, True])
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


@pytest.mark.slow
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
    ("make", "argument"),
    [
        (lambda: FighterLayer(10, heads=3), "heads"),
        (lambda: FighterLayer(8, kappa=0), "kappa"),
        (lambda: FighterLayer(8, kappa=2.5), "kappa"),
        (lambda: FighterLayer(8, kappa=True), "kappa"),
        (lambda: FighterLayer(8, powers=()), "powers"),
        (lambda: FighterLayer(8, 4, residual=True), "out_width"),
        (lambda: FighterLayer(8, value_width=4), "value_width"),
        (lambda: FighterLayer(8, activation="tanhh"), "activation"),
        (lambda: FighterLayer(8, adjacency="fixed"), "adjacency"),
        (lambda: FighterLayer(8, backend="fast"), "backend"),
        (lambda: FighterLayer(8)(torch.ones(2, 5, 8, dtype=torch.int64)), "x"),
        (lambda: FighterLayer(8)(torch.randn(2, 0, 8)), "x"),
        (lambda: FighterLayer(8)(torch.randn(5, 8)), "x"),
        (lambda: FighterLayer(8)([1.0]), "x"),
        (lambda: FighterLayer(8)(torch.randn(2, 5, 8), torch.ones(2, 4) > 0), "mask"),
        (lambda: FighterLayer(8)(torch.randn(2, 5, 8), torch.ones(2, 5)), "mask"),
        (lambda: FighterLayer(8)(torch.randn(2, 5, 8), torch.zeros(2, 5) > 0), "mask"),
        (lambda: FighterEncoder([8]), "widths"),
        (lambda: FighterEncoder([8, 0]), "widths"),
        (lambda: FighterEncoder(8), "widths"),
        (lambda: FighterEncoder([8, 8, 8], kappa=[3]), "kappa"),
        (lambda: FighterEncoder([8, 8, 8], heads=[1, 2, 4]), "heads"),
    ],
)
def test_errors_name_the_argument(make, argument):
    with pytest.raises(FighterError, match=rf"^{argument}\b"):
        make()


def test_an_input_of_the_wrong_width_is_described():
    with pytest.raises(FighterError, match=r"float32 \[2, 5, 7\].*8\]"):
        FighterLayer(8)(torch.randn(2, 5, 7))
