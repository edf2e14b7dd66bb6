"""The paper's forward section, claim by claim."""

import pytest
import torch

from fighter import FighterError, multi_hop
from fighter.nn import FighterEncoder, FighterLayer, TransformerEncoder, to_fighter

from ..pairs import pairs
from .test_layer import double

X = torch.randn(3, 9, 7, generator=torch.Generator().manual_seed(0)).double()


def original(encoder, x):
    """Compute Eq. 3 line by line, with one head."""
    for block in encoder.layers:
        q, k, v = block.query(x), block.key(x), block.value(x)
        attention = (block.query.out_features**-0.5 * q @ k.mT).softmax(-1) @ v
        x = block.ffn2(block.activation(block.ffn1(attention)))
    return encoder.final(x)


def reorganised(encoder, x):
    """Compute Eq. 4: value and first feed-forward matrix as one, applied to A X."""
    for block in encoder.layers:
        a = (block.query.out_features**-0.5 * block.query(x) @ block.key(x).mT).softmax(-1)
        fused = block.value.weight.T @ block.ffn1.weight.T
        x = block.activation(a @ x @ fused) @ block.ffn2.weight.T
    return x @ encoder.final.weight.T


@pytest.mark.parametrize(
    ("activation", "widths"),
    [("relu", [7, 2]), ("gelu", [7, 6, 2]), ("identity", [7, 6, 2]), ("relu", [7, 6, 8, 4, 2])],
)
def test_the_encoder_is_eq_3_and_its_reorganised_form(activation, widths):
    encoder = double(TransformerEncoder(widths, activation=activation, bias=False, query_width=5))
    torch.testing.assert_close(encoder(X), original(encoder, X), rtol=1e-11, atol=1e-12)
    torch.testing.assert_close(encoder(X), reorganised(encoder, X), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("kappa", [1, 2, 3, 5])
def test_the_block_form_is_the_sum_over_hops(kappa):
    layer = double(FighterLayer(7, 4, kappa=kappa, activation="identity", bias=False))
    a = layer.graph(X)[:, 0]
    powers = torch.cat([torch.linalg.matrix_power(a, i) for i in range(kappa)], -1)  # A^[κ]
    weight = torch.cat([layer.weight(i) for i in range(kappa)])  # κ·h_in rows
    for b in range(len(X)):
        wanted = powers[b] @ torch.block_diag(*[X[b]] * kappa) @ weight
        torch.testing.assert_close(layer(X)[b], wanted, rtol=1e-11, atol=1e-12)


@pairs(heads=[1, 2], bias=[False, True], activation=["relu", "gelu"])
def test_a_fighter_with_kappa_2_and_no_self_term_is_the_transformer(heads, bias, activation):
    encoder = double(
        TransformerEncoder(
            [7, 6, 8, 4, 2],
            heads=heads,
            bias=bias,
            activation=activation,
            query_width=10,
            value_width=12,
            hidden_width=5 * heads,
            scale=0.4,
        )
    )
    fighter = to_fighter(encoder)
    assert isinstance(fighter, FighterEncoder)
    assert [layer.powers for layer in fighter.layers] == [(0, 1)] * 3 + [(0,)]
    assert all((layer.weight(0) == 0).all() for layer in fighter.layers[:-1])
    torch.testing.assert_close(fighter(X), encoder(X), rtol=1e-11, atol=1e-12)
    mask = torch.arange(9) < torch.tensor([[9], [5], [7]])
    for causal in (False, True):
        ours, theirs = fighter(X, mask, causal), encoder(X, mask, causal)
        torch.testing.assert_close(ours[mask], theirs[mask], rtol=1e-11, atol=1e-12)
    for ours, theirs in zip(fighter.graphs(X), encoder.graphs(X), strict=False):
        torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-12)


def test_the_key_bias_has_no_effect():
    encoder = double(TransformerEncoder([7, 6, 2]))
    before = encoder(X)
    torch.nn.init.normal_(encoder.layers[0].key.bias, std=10)
    torch.testing.assert_close(encoder(X), before)


@pytest.mark.parametrize("option", ["norm", "residual"])
def test_an_encoder_that_is_not_equivalent_is_not_converted(option):
    encoder = TransformerEncoder([6, 6, 2], **{option: True})
    with pytest.raises(FighterError, match=f"^encoder: block 0 has a {option}"):
        to_fighter(encoder)


@pytest.mark.parametrize(
    "module",
    [torch.nn.TransformerEncoderLayer(8, 2), torch.nn.MultiheadAttention(8, 2)],
    ids=lambda module: type(module).__name__,
)
def test_torch_encoders_are_refused_with_what_can_be_converted(module):
    with pytest.raises(FighterError, match=r"fighter\.nn\.TransformerEncoder without") as error:
        to_fighter(module)
    assert error.value.argument == "encoder"


def test_kappa_1_has_no_attention_and_no_gradient_to_it():
    q, k, block = (torch.randn(1, 1, 5, 4, requires_grad=True) for _ in range(3))
    y = multi_hop(q, k, [block])
    assert torch.autograd.grad(y.sum(), [q, k], allow_unused=True) == (None, None)
    layer = double(FighterLayer(7, kappa=1))
    moved = X.clone()
    moved[:, 0] += 1
    assert torch.equal(layer(moved)[:, 1:], layer(X)[:, 1:])
    assert layer.adjacency is None


def test_one_hop_already_reaches_every_node():
    layer = double(FighterLayer(7, kappa=2))
    moved = X.clone()
    moved[:, 0] += 1
    assert ((layer(moved) - layer(X)).abs().amax(-1) > 0).all()


@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("residual", [False, True])
def test_norm_and_residual_make_the_usual_block(norm, residual):
    encoder = double(TransformerEncoder([6, 6, 2], heads=2, norm=norm, residual=residual))
    block, x = encoder.layers[0], X[..., :6]
    values = block.value(block.norm1(x)).unflatten(-1, (2, -1)).transpose(1, 2)
    attended = (block.graph(x) @ values).transpose(1, 2).flatten(2)
    x = attended + x * residual
    y = block.ffn2(block.activation(block.ffn1(block.norm2(x)))) + x * residual
    torch.testing.assert_close(encoder(X[..., :6]), encoder.final(encoder.norm(y)))
