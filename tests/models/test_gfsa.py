import pytest
import torch

from fighter import FighterError
from fighter.models.gfsa import GFSABlock
from fighter.nn.transformer import TransformerBlock

from ..nn.test_layer import double
from ..pairs import pairs

X = torch.randn(3, 9, 8, generator=torch.Generator().manual_seed(0)).double()
MASK = torch.arange(9) < torch.tensor([[9], [5], [1]])


def block(**options):
    return GFSABlock(8, heads=2, hidden_width=12, **options)


@pairs(power=[2, 3, 7], plain=[False, True], padded=[False, True])
def test_the_block_is_the_filter_with_every_matrix_formed(power, plain, padded):
    mask = MASK if padded else None
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


def test_the_block_starts_as_a_transformer_block():
    usual = TransformerBlock(
        8, 8, heads=2, hidden_width=12, norm=True, residual=True, activation="gelu"
    )
    layer = block()
    assert {*layer.state_dict()} - {*usual.state_dict()} == {"weights"}
    layer.load_state_dict(usual.state_dict(), strict=False)
    layer.double(), usual.double()
    torch.testing.assert_close(layer(X), usual(X), rtol=1e-12, atol=1e-12)
    layer(X).square().sum().backward()
    assert layer.weights.grad.all()  # so it can move away


@pytest.mark.parametrize("power", [1, True, 2.5])
def test_the_power_is_at_least_two(power):
    with pytest.raises(FighterError, match="at least 2") as error:
        block(power=power)
    assert error.value.argument == "power"
