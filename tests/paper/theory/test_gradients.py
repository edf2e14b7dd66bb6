"""Each closed-form gradient equals autograd's, on inputs drawn here."""

import pytest
import torch
from torch import Tensor
from torch.func import grad, jacrev

from paper.theory import gradients, models
from paper.theory.models import ACTIVATIONS, Activation, Gcn, Layer, Transformer
from tests.paper.theory.drawing import assert_equal, each_activation, normal

SIZES = ((7, 5, 3, 4), (6, 1, 1, 1), (4, 6, 1, 3))  # nodes, width, key, hidden


@each_activation
def test_slope_is_the_derivative(sigma: Activation, seed: int) -> None:
    (u,) = normal(seed, (50,))
    assert_equal(sigma.slope(u), grad(lambda v: sigma.value(v).sum())(u))


@each_activation
@pytest.mark.parametrize(
    ("powers_1", "powers_2"), [((0, 1, 2), (0, 1)), ((1,), (0,)), ((1,), (1,)), ((0,), (0, 2, 3))]
)
def test_gcn(
    sigma: Activation, powers_1: tuple[int, ...], powers_2: tuple[int, ...], seed: int
) -> None:
    n, d, _, h = SIZES[0]
    shapes = (n, n), (n, d), (len(powers_1) * d, h), (len(powers_2) * h,)
    net = Gcn(*normal(seed, *shapes), sigma, powers_1, powers_2)
    to_w = jacrev(lambda value: models.gcn(net._replace(w=value)))(net.w)
    to_W_1 = jacrev(lambda value: models.gcn(net._replace(W_1=value)))(net.W_1)
    assert_equal(gradients.gcn_output_weights(net), to_w)
    assert_equal(gradients.gcn_hidden_weights(net), to_W_1)


@each_activation
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize(
    ("weights", "closed_form"),
    [
        ("W_Q", gradients.transformer_query_weights),
        ("W_K", gradients.transformer_key_weights),
        ("V", gradients.transformer_value_weights),
        ("w", gradients.transformer_output_weights),
    ],
)
def test_transformer(weights: str, closed_form, size, sigma: Activation, seed: int) -> None:
    S, d, p, h = size
    net = Transformer(
        *normal(seed, (S, d), (d, p), (d, p), (d, h), (h,)), sigma=sigma, scale=d**-0.5
    )
    output = jacrev(lambda value: models.transformer(net._replace(**{weights: value})))
    assert_equal(closed_form(net), output(getattr(net, weights)))


def draw_layer(seed: int, kappa: int, causal: bool = False) -> Layer:
    S, d, p, h = SIZES[0]
    mask = models.causal_mask(S) if causal else None
    return Layer(*normal(seed, (S, d), (d, p), (d, p), (kappa, d, h)), scale=0.4, mask=mask)


KAPPAS = (1, 2, 3, 5)
LAYERS = [  # every κ with every σ; each of both with and without a mask, and with every seed
    pytest.param(kappa, sigma, (a + b) % 2 == 1, (2 * a + b) % 3, id=f"{kappa}-{sigma.name}")
    for a, kappa in enumerate(KAPPAS)
    for b, sigma in enumerate(ACTIVATIONS)
]
layers = pytest.mark.parametrize(("kappa", "sigma", "causal", "seed"), LAYERS)


@layers
def test_layer_gradients(kappa: int, sigma: Activation, causal: bool, seed: int) -> None:
    at = draw_layer(seed, kappa, causal)
    (C,) = normal(seed + 100, (len(at.X), at.W.shape[-1]))

    def loss(*weights: Tensor) -> Tensor:
        return (C * sigma.value(models.layer(Layer(*weights, at.scale, at.mask)))).sum()

    closed = gradients.layer_gradients(at, C * sigma.slope(models.layer(at)))
    for value, truth in zip(closed, grad(loss, argnums=(0, 1, 2, 3))(*at[:4]), strict=True):
        assert_equal(value, truth)


@layers
def test_layer_jacobians(kappa: int, sigma: Activation, causal: bool, seed: int) -> None:
    at = draw_layer(seed, kappa, causal)
    (w,) = normal(seed + 100, (at.W.shape[-1],))

    def output(*weights: Tensor) -> Tensor:
        return sigma.value(models.layer(Layer(*weights, at.scale, at.mask))) @ w

    closed = gradients.layer_jacobians(at, w, sigma)
    for value, truth in zip(closed, jacrev(output, argnums=(1, 2, 3))(*at[:4]), strict=True):
        assert_equal(value, truth)


@pytest.mark.parametrize(("kappa", "seed"), [(1, 0), (2, 1), (3, 2), (5, 0)])
def test_adjacency_gradient_and_its_softmax_shift(kappa: int, seed: int) -> None:
    at = draw_layer(seed, kappa)
    A, X, W = at.attention, at.X, at.W
    (G,) = normal(seed + 100, (len(X), W.shape[-1]))
    truth = grad(lambda edges: (G * models.multi_hop(edges, X, W)).sum())(A)
    assert_equal(gradients.adjacency_gradient(A, X, W, G), truth)
    shift = (A * truth).sum(-1)
    torch.testing.assert_close(
        gradients.softmax_shift(A, X, W, G), shift, rtol=1e-11, atol=1e-11 * (1 + A.abs().max())
    )


def test_two_hops_with_no_self_term_are_the_transformer() -> None:
    at = draw_layer(0, kappa=2)
    at.W[0] = 0
    (w,) = normal(7, (at.W.shape[-1],))
    net = Transformer(at.X, at.W_Q, at.W_K, at.W[1], w, models.GELU, at.scale)
    closed = gradients.layer_jacobians(at, w, models.GELU)
    assert_equal(closed.W_Q, gradients.transformer_query_weights(net))
    assert_equal(closed.W_K, gradients.transformer_key_weights(net))
    assert_equal(closed.W[:, 1], gradients.transformer_value_weights(net))


def test_from_three_hops_a_node_moves_the_attention_of_the_others() -> None:
    """With κ=2 row j of ∂f/∂W_Q is a multiple of X_j; with κ=3 it leaves that line."""
    ranks: list[int] = []
    for kappa in (2, 3):
        at = draw_layer(0, kappa)
        (w,) = normal(7, (at.W.shape[-1],))
        closed = gradients.layer_jacobians(at, w, models.GELU)
        ranks.append(int(torch.linalg.matrix_rank(closed.W_Q[0])))
    assert ranks == [1, 3]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_dtype_is_kept(dtype: torch.dtype) -> None:
    at = draw_layer(0, kappa=3)
    at = Layer(*(weights.to(dtype) for weights in at[:4]), scale=at.scale)
    w = torch.ones(at.W.shape[-1], dtype=dtype)
    G = torch.ones(len(at.X), at.W.shape[-1], dtype=dtype)
    net = Transformer(at.X, at.W_Q, at.W_K, at.W[0], w, models.GELU, at.scale)
    found = [
        *gradients.layer_gradients(at, G),
        *gradients.layer_jacobians(at, w, models.RELU),
        gradients.transformer_query_weights(net),
    ]
    assert {value.dtype for value in found} == {dtype}
