import pytest
import torch

from fighter import FighterError
from fighter.models.gfsa import GFSABlock
from fighter.nn.transformer import TransformerBlock
from tests.nn.test_layer import double

X = torch.randn(3, 9, 8, generator=torch.Generator().manual_seed(0)).double()
MASK = torch.arange(9) < torch.tensor([[9], [5], [1]])


def block(**options):
    return GFSABlock(8, heads=2, hidden_width=12, **options)


@pytest.mark.parametrize("mask", [None, MASK])
@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("power", [2, 3, 7])
def test_it_is_the_filter_with_its_matrices_formed(power, plain, mask):
    layer = double(block(power=power, norm=not plain, residual=not plain))
    x = X if mask is None else X.masked_fill(~mask[..., None], 0)
    t, a = layer.norm1(x), layer.graph(x, mask=mask)
    w0, w1, w = layer.weights
    far = a + (power - 1) * (a @ a - a)
    graph = w0 * torch.eye(9).double() + w1 * a + w * far
    v = layer.value(t).unflatten(-1, (2, -1)).transpose(1, 2)
    attended = (graph @ v).transpose(1, 2).flatten(2)
    y = attended if plain else x + attended
    fed = layer.ffn2(layer.activation(layer.ffn1(layer.norm2(y))))
    wanted = fed if plain else y + fed
    rows = MASK if mask is not None else slice(None)
    torch.testing.assert_close(layer(x, mask)[rows], wanted[rows], rtol=1e-11, atol=1e-12)


def test_it_starts_as_the_transformer_block():
    usual = TransformerBlock(
        8, 8, query_width=8, value_width=8, heads=2, hidden_width=12, norm=True, residual=True,
        activation="gelu", dropout=0.0, bias=True, scale=None,
    )  # fmt: skip
    layer = block()
    assert {*layer.state_dict()} - {*usual.state_dict()} == {"weights"}
    layer.load_state_dict(usual.state_dict(), strict=False)
    layer.double(), usual.double()
    torch.testing.assert_close(layer(X), usual(X), rtol=1e-12, atol=1e-12)
    layer(X).square().sum().backward()
    assert layer.weights.grad.all()  # and can leave it


def test_misuse_is_explained():
    with pytest.raises(FighterError, match="power=1: needs a whole number ≥ 2"):
        block(power=1)
